"""Table 6.1: the CPU time of an element under each constraint, over that of the plain join.

Streams of Figures 6.10 (RIDS), 6.12 (CA), 6.14 (OAP) and 6.16 (OAC). The thesis' SWJ is our plain join; runs of both
are interleaved, and the ratio of the medians is shown. Times depend on the machine: only ratios are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

import matplotlib.pyplot as plt
import pyarrow as pa

from experiments.constraints.figures_6_16_17 import one_child
from experiments.constraints.harness import ROWS, Input, Run, star, two_parents, warm_up
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

DISTANCES = (0, 1_000, 5_000, 10_000, 20_000)
STAR, PARENTS, PAIR = [("S1.a", "S2.a"), ("S1.b", "S3.b")], [("S1.a", "S3.a"), ("S2.a", "S3.a")], [("S1.a", "S2.a")]
PAPER = {
    "RIDS": (20.1 / 24.24, 40.46 / 26.17, 42.86 / 28.33, 45.11 / 28.71, 46.01 / 28.84),
    "CA": (22.18 / 20.71, 24.7 / 21.62, 25.13 / 23.14, 27.04 / 23.88, 28.32 / 24.24),
    "OAP": (21.02 / 21.13, 23.1 / 21.76, 24.42 / 22.42, 25.96 / 23.91, 26.94 / 25.3),
    "OAC": (20.11 / 18.13, 20.94 / 18.36, 20.86 / 18.28, 21.72 / 18.66, 22.36 / 18.91),
}
BOUNDS = {"RIDS": 1.6, "CA": 1.2, "OAP": 1.2, "OAC": 1.2}
TIMES = 3


def streams(constraint: str, k: int, rows: int) -> tuple[Mapping[str, pa.Table], list[tuple[str, str]]]:
    if constraint == "RIDS":
        return star(k, 2 * rows), STAR
    if constraint == "OAC":
        return one_child(k, 2 * rows, rows // 50), PAIR
    return two_parents(k, 2 * rows), PARENTS


def run(options: Options) -> Outcome:
    rows = options.tuples(ROWS, 2_000)
    lines, ratios = [], {}
    for constraint, paper in PAPER.items():
        tables, joined = streams(constraint, 0, 200)
        warm_up(joined, tables)
        for k, printed in zip(DISTANCES, paper, strict=True):
            tables, joined = streams(constraint, k * rows // ROWS, rows)
            inputs = {n: Input(t, rows, ("f", 50) if "f" in t.schema.names else None) for n, t in tables.items()}
            seconds: dict[str, list[float]] = {"plain": [], "lossy": []}
            for _ in range(TIMES):
                seconds["plain"].append(Run(inputs, joined, None).all().seconds)
                seconds["lossy"].append(Run(inputs, joined, f"lossy(uses={constraint.lower()})").all().seconds)
            ratios[constraint, k] = median(seconds["lossy"]) / median(seconds["plain"])
            each = sum(len(t) for t in tables.values()) / 1e6
            lines.append({"constraint": constraint, "k": k, "plain_us": median(seconds["plain"]) / each,
                          "us": median(seconds["lossy"]) / each, "ratio": ratios[constraint, k],
                          "paper": printed})  # fmt: skip
    figure, axis = plt.subplots(figsize=(6, 3.6))
    for constraint in PAPER:
        axis.plot(DISTANCES, [ratios[constraint, k] for k in DISTANCES], "o-", label=constraint)
    axis.set(xlabel="k", ylabel="CPU time over the plain join's")
    axis.legend()
    figure.tight_layout()
    worst = {c: max(ratios[c, k] for k in DISTANCES) for c in PAPER}
    claims = [Claim(f"{c}: at most {BOUNDS[c]} times the plain join's time", w <= BOUNDS[c]) for c, w in worst.items()]
    numbers = [Number(f"{c}, k = {k:,}: time over the plain join's (measured)", p, ratios[c, k], "×")
               for c, paper in PAPER.items() for k, p in zip(DISTANCES, paper, strict=True)]  # fmt: skip
    return Outcome(lines, Verdict("Table 6.1", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
