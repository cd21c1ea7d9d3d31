"""Figure 6.11: k is tracked while it changes, and few results are missed.

A join S1 → S2 at rates 5:1 whose k stays, grows slowly, falls slowly, grows at once and falls at once. A block is 4,000
elements. k is the largest join distance of the rows that came within the last 500 arrivals of S2 (6.6.3), counted from
the data: a join distance is known when the child has come. The thesis' parameters (c = 1, p = 0.01, W = 500) stand
beside the careful monitors that are the default, which set k_u after 1.2 times the largest distance since an increase.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from experiments.constraints.harness import MULTIPLICITY, ROWS, Input, Run, interleaved
from experiments.constraints.tracking import Tracked, adherence, track
from experiments.report import Claim, Options, Outcome, Verdict, main

LOOK = 500


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
    lines: list[dict[str, Any]] = []
    told: dict[str, Tracked] = {}
    figure, axes = plt.subplots(2, 1, figsize=(7, 5), sharex=True)
    for axis, monitors in zip(axes, ("paper", "careful"), strict=True):
        mode = f"lossy(uses=rids, distances=arrivals, monitors={monitors})"
        join = Run({n: Input(t, rows) for n, t in tables.items()}, [("S1.a", "S2.a")], mode)
        found = track(
            join, lambda join: join.watch.rids[0].arrivals.k_u,
            lambda done: min(done // (MULTIPLICITY + 1), rounds - 1), distance, LOOK, due,
        )  # fmt: skip
        told[monitors] = found
        lines += [{"monitors": monitors, **x} for x in found.lines]
        found.draw(axis, monitors)
        axis.legend()
    figure.tight_layout()
    paper, careful = told["paper"], told["careful"]
    claims = [
        Claim("careful: less than 2 % of a block's results are missing, always", max(careful.missing) < 0.02),
        Claim("careful: no more results are missing than with the thesis' parameters",
              float(np.mean(careful.missing)) <= float(np.mean(paper.missing))),
        Claim("the thesis' parameters: k_u is within 10 % of k in 95 % of the blocks in which it is used",
              paper.near >= 0.95),
        Claim("careful: the same", careful.near >= 0.95),
    ]  # fmt: skip
    numbers = [n for name, found in told.items() for n in found.numbers(name)]
    return Outcome(lines, Verdict("Figure 6.11", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
