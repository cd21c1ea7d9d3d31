"""Figures 6.13 and 6.15: k of CA(k) and OAP(k) is tracked while it changes, and few results are missed.

A join S1 → S2 at rates 5:1: the parents of a child come after it, within a spread that stays, grows slowly, falls
slowly, grows at once and falls at once. A block is 4,000 elements. k is the largest clustering or scrambling distance
of the rows of the last 1,000 arrivals of S1, counted from the data; monitors have the thesis' parameters (c = 1.2,
p = 0.01, W = 1,000), beside them the careful ones that are the default.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from experiments.constraints.harness import MULTIPLICITY, ROWS, Input, Ints, Run, interleaved
from experiments.constraints.tracking import Tracked, adherence, track
from experiments.report import Claim, Options, Outcome, Verdict, main

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
    told: dict[tuple[str, str], Tracked] = {}
    lines: list[dict[str, Any]] = []
    figure, axes = plt.subplots(2, 2, figsize=(9, 5), sharex=True)
    for row, (constraint, distance) in zip(axes, (("ca", clustering(keys)), ("oap", scrambling(keys))), strict=True):
        for axis, monitors in zip(row, ("paper", "careful"), strict=True):
            mode = f"lossy(uses={constraint}, distances=arrivals, monitors={monitors})"
            join = Run({n: Input(t, rows) for n, t in tables.items()}, [("S1.a", "S2.a")], mode)
            name = "clustered" if constraint == "ca" else "ordered"
            found = track(
                join, lambda join, name=name: float(getattr(join.watch, name)[0].forms.arrivals.k_u),
                lambda done: min(done * MULTIPLICITY // (MULTIPLICITY + 1), rounds * MULTIPLICITY), distance, LOOK, due,
            )  # fmt: skip
            told[constraint.upper(), monitors] = found
            lines += [{"constraint": constraint, "monitors": monitors, **x} for x in found.lines]
            found.draw(axis, f"{constraint.upper()}, {monitors}")
    axes[0, 0].legend()
    figure.tight_layout()
    claims, numbers = [], []
    for (name, monitors), found in told.items():
        if monitors == "paper":
            what = "k_u is within 10 % of k in 95 % of the blocks in which it is used"
            claims.append(Claim(f"{name}, the thesis' parameters: {what}", found.near >= 0.95))
        else:
            claims.append(Claim(f"{name}, careful: the same", found.near >= 0.95))
            what = "less than 2 % of a block's results are missing, always"
            claims.append(Claim(f"{name}, careful: {what}", max(found.missing) < 0.02))
        numbers += found.numbers(f"{name}, {monitors}")
    return Outcome(lines, Verdict("Figures 6.13 and 6.15", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
