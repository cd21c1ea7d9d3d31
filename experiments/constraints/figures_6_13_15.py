"""Figures 6.13 and 6.15: k of CA(k) and OAP(k) is tracked while it changes, and few results are missed.

A join S1 → S2 at rates 5:1: the parents of a child come after it, within a spread that stays, grows slowly, falls
slowly, grows at once and falls at once. A block is 4,000 elements. k is the largest clustering or scrambling distance
of the rows of the last 1,000 arrivals of S1, counted from the data; monitors have the thesis' parameters (c = 1.2,
p = 0.01, W = 1,000), beside them the careful ones that are the default.
"""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from experiments.constraints.figure_6_11 import BLOCK, adherence
from experiments.constraints.harness import MULTIPLICITY, ROWS, Input, Ints, Run, interleaved
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

LOOK = 1_000


def clustering(keys: Ints) -> Ints:
    """By row how many rows of other keys came since the first of its own."""
    order = np.argsort(keys, kind="stable")
    by_key = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], by_key[1:] != by_key[:-1]]))
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(keys))))
    rank = np.arange(len(keys)) - starts[group]
    distance = np.empty(len(keys), np.int64)
    distance[order] = order - order[starts][group] - rank
    return distance


def scrambling(keys: Ints) -> Ints:
    """By row how many rows ago the first larger key came."""
    largest = np.maximum.accumulate(keys)
    return np.arange(len(keys)) - np.minimum(np.searchsorted(largest, keys, side="right"), np.arange(len(keys)))


def track(join: Run, constraint: str, distance: Ints, due: Ints, rounds: int) -> list[dict[str, float]]:
    """By block: k, what the monitor takes it for, and the share of results that are missing."""
    lines, before = [], 0
    for done in join.steps(BLOCK):
        came = min(done * MULTIPLICITY // (MULTIPLICITY + 1), rounds * MULTIPLICITY)
        monitors = join.watch.clustered if constraint == "ca" else join.watch.ordered
        expected = int(((due >= done - BLOCK) & (due < done)).sum())
        missing = max(0, expected - (join.results - before)) / max(1, expected)
        before = join.results
        actual = int(distance[max(0, came - LOOK) : came].max())
        lines.append({"elements": done, "k": actual, "k_u": monitors[0].forms.arrivals.k_u, "missing": missing})
    return lines


def run(options: Options) -> Outcome:
    rows = options.tuples(ROWS, 5_000)
    rounds = 2 * rows
    random = np.random.default_rng(13)
    times = interleaved({"S2": 1, "S1": MULTIPLICITY}, rounds)
    keys = np.repeat(np.arange(rounds), MULTIPLICITY)
    spread = np.repeat(adherence(rounds, rows // 10), MULTIPLICITY)
    keys = keys[np.argsort(np.arange(len(keys)) + random.random(len(keys)) * spread, kind="stable")]
    tables = {
        "S1": pa.table({"ts": times["S1"], "a": keys}),
        "S2": pa.table({"ts": times["S2"], "a": np.arange(rounds)}),
    }
    child = times["S2"][keys]
    due = np.maximum(times["S1"], child)
    told, all_lines = {}, []
    figure, axes = plt.subplots(2, 2, figsize=(9, 5), sharex=True)
    for row, (constraint, distance) in zip(axes, (("ca", clustering(keys)), ("oap", scrambling(keys))), strict=True):
        for axis, monitors in zip(row, ("paper", "careful"), strict=True):
            mode = f"lossy(uses={constraint}, distances=arrivals, monitors={monitors})"
            join = Run({n: Input(t, rows) for n, t in tables.items()}, [("S1.a", "S2.a")], mode)
            lines = track(join, constraint, distance, due, rounds)
            used = [x for x in lines if not math.isinf(x["k_u"])]
            near = sum(abs(x["k_u"] - x["k"]) <= 0.1 * x["k"] for x in used) / max(1, len(used))
            missing = [x["missing"] for x in lines]
            told[constraint.upper(), monitors] = near, max(missing), float(np.mean(missing)), 1 - len(used) / len(lines)
            all_lines += [{"constraint": constraint, "monitors": monitors, **x} for x in lines]
            axis.plot([x["elements"] for x in lines], [x["k"] for x in lines], label="k")
            shown = [0 if math.isinf(x["k_u"]) else x["k_u"] for x in lines]
            axis.plot([x["elements"] for x in lines], shown, ".", label="k_u (0: not used)")
            axis.set(title=f"{constraint.upper()}, {monitors}")
    axes[0, 0].legend()
    figure.tight_layout()
    claims, numbers = [], []
    for (name, monitors), (near, worst, mean, infinite) in told.items():
        if monitors == "paper":
            what = "k_u is within 10 % of k in 95 % of the blocks in which it is used"
            claims.append(Claim(f"{name}, the thesis' parameters: {what}", near >= 0.95))
        else:
            claims.append(
                Claim(f"{name}, careful: less than 2 % of a block's results are missing, always", worst < 0.02)
            )
        numbers += [
            Number(f"{name}, {monitors}: blocks within 10 % of k, of those used", None, near),
            Number(f"{name}, {monitors}: most missing in a block", 0.02, worst),
            Number(f"{name}, {monitors}: missing on average", None, mean),
            Number(f"{name}, {monitors}: share of time at k_u = ∞", None, infinite),
        ]
    return Outcome(all_lines, Verdict("Figures 6.13 and 6.15", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
