"""Figure 6.11: k is tracked while it changes, and few results are missed.

A join S1 → S2 at rates 5:1 whose k stays, grows slowly, falls slowly, grows at once and falls at once. A block is 4,000
elements. k is the largest join distance of the rows that came within the last 500 arrivals of S2 (6.6.3), counted from
the data: a join distance is known when the child has come. The thesis' parameters (c = 1, p = 0.01, W = 500) stand
beside the careful monitors that are the default, which look at no fewer than 1.2 times the largest distance.
"""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from experiments.constraints.harness import MULTIPLICITY, ROWS, Input, Run, interleaved
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

BLOCK, LOOK = 4_000, 500


def adherence(rounds: int, largest: int) -> np.ndarray:
    """k by arrival of S2, in five phases."""
    low, high = largest * 3 // 10, largest
    part = rounds // 5
    return np.concatenate(
        [
            np.full(part, low),
            np.linspace(low, high, part).astype(np.int64),
            np.linspace(high, low, part).astype(np.int64),
            np.full(part, high),
            np.full(rounds - 4 * part, low // 2),
        ]
    )


def run(options: Options) -> Outcome:
    rows = options.tuples(ROWS, 5_000)
    rounds, largest = 2 * rows, rows // 10
    random = np.random.default_rng(11)
    times = interleaved({"S2": 1, "S1": MULTIPLICITY}, rounds)
    now = np.repeat(np.arange(rounds), MULTIPLICITY)
    k = adherence(rounds, largest)
    far = (random.random(len(now)) * (k[now] + 1)).astype(np.int64)
    tables = {
        "S1": pa.table({"ts": times["S1"], "a": now + far}),
        "S2": pa.table({"ts": times["S2"], "a": np.arange(rounds)}),
    }
    distance = np.zeros(rounds, np.int64)  # by child that of its parents, the largest
    joined = now + far < rounds
    np.maximum.at(distance, (now + far)[joined], far[joined])
    due = np.maximum(times["S1"], np.where(now + far < rounds, times["S2"][np.minimum(now + far, rounds - 1)], 1 << 60))
    lines, told = [], {}
    figure, axes = plt.subplots(2, 1, figsize=(7, 5), sharex=True)
    for axis, monitors in zip(axes, ("paper", "careful"), strict=True):
        mode = f"lossy(uses=rids, distances=arrivals, monitors={monitors})"
        join = Run({n: Input(t, rows) for n, t in tables.items()}, [("S1.a", "S2.a")], mode)
        before, used, near, infinite, missed = 0, 0, 0, 0, []
        shown = []
        for done in join.steps(BLOCK):
            round_ = min(done // (MULTIPLICITY + 1), rounds - 1)
            k_u = join.watch.rids[0].arrivals.k_u
            actual = int(distance[max(0, round_ - LOOK) : round_].max())
            expected = int(((due >= done - BLOCK) & (due < done)).sum())
            missing = max(0, expected - (join.results - before))
            before = join.results
            missed.append(missing / max(1, expected))
            shown.append((done, actual, None if math.isinf(k_u) else k_u))
            if math.isinf(k_u):
                infinite += 1
            else:
                used += 1
                near += abs(k_u - actual) <= 0.1 * actual
            lines.append({"monitors": monitors, "elements": done, "k": actual, "k_u": k_u, "missing": missed[-1]})
        told[monitors] = (near / max(1, used), max(missed), infinite / max(1, used + infinite), float(np.mean(missed)))
        axis.plot([s[0] for s in shown], [s[1] for s in shown], label="k")
        axis.plot(
            [s[0] for s in shown], [s[2] if s[2] is not None else 0 for s in shown], ".", label="k_u (0: not used)"
        )
        axis.set(title=monitors)
        axis.legend()
    figure.tight_layout()
    claims = [
        Claim("careful: less than 2 % of a block's results are missing, always", told["careful"][1] < 0.02),
        Claim("careful: no more results are missing than with the thesis' parameters",
              told["careful"][3] <= told["paper"][3]),
        Claim("the thesis' parameters: k_u is within 10 % of k in 95 % of the blocks in which it is used",
              told["paper"][0] >= 0.95),
    ]  # fmt: skip
    numbers = []
    for name, (near, worst, infinite, mean) in told.items():
        numbers += [
            Number(f"{name}: blocks within 10 % of k, of those used", None, near),
            Number(f"{name}: most missing in a block", 0.02, worst),
            Number(f"{name}: missing on average", None, mean),
            Number(f"{name}: share of time at k_u = ∞", None, infinite),
        ]
    return Outcome(lines, Verdict("Figure 6.11", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
