"""Table of our own: how much the constants of the hand-over between the two joins matter.

Two streams S1 → S2 in windows of 20,000 rows. *never*: S1 refers to rows of S2 anywhere within half a window, so that
no constraint ever holds. *returns*: the same for the first half, then partners come within 20 arrivals. Each constant
is changed by itself; times are CPU times over the plain join's, rows those in memory on average over the last quarter.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from eddyline.adaptive.constraints.handover import HandOver
from experiments.constraints.harness import Input, Run, warm_up
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

VALUES: dict[str, tuple[float, ...]] = {
    "worthless": (0.7, 0.8, 0.9, 0.97), "patience": (0.125, 0.25, 0.5, 1.0, 2.0), "most_back_off": (4, 64),
    "least_patience": (1_000, 4_000, 16_000),
}  # fmt: skip
TIMES = 3
EDGE = [("S1.a", "S2.a")]


def streams(rows: int, returns: bool) -> dict[str, Input]:
    many = 6 * rows
    random = np.random.default_rng(4)
    parent, child = np.arange(many), np.arange(many)
    wild = slice(0, many // 2 if returns else many)
    size = wild.stop
    parent[wild] = np.clip(parent[wild] + random.integers(-rows // 2, rows // 2, size), 0, many - 1)
    child[wild] = random.permutation(child[wild])
    parent[size:] += random.integers(0, 20, many - size)
    tables = {n: pa.table({"ts": 2 * np.arange(many) + i, "a": keys}) for i, (n, keys) in
              enumerate((("S1", parent), ("S2", child)))}  # fmt: skip
    return {n: Input(t, rows) for n, t in tables.items()}


def measured(inputs: dict[str, Input], limits: HandOver | None) -> tuple[float, float, int]:
    """CPU seconds, rows on average over the last quarter, hand-overs."""
    join = Run(inputs, EDGE, None if limits is None else "exact")
    if limits is not None:
        join.join.switch.limits = limits
    kept = []
    for _ in join.steps(4_000):
        kept.append(join.rows)
    return join.seconds, float(np.mean(kept[-len(kept) // 4 :])), 0 if limits is None else join.join.handovers


def run(options: Options) -> Outcome:
    rows = options.tuples(20_000, 2_000)
    cases = {"never": streams(rows, False), "returns": streams(rows, True)}
    warm_up(EDGE, {n: i.table for n, i in cases["never"].items()})
    lines: list[dict[str, Any]] = []
    for case, inputs in cases.items():
        plain = [measured(inputs, None) for _ in range(TIMES)]
        for name, values in VALUES.items():
            for value in values:
                found = [measured(inputs, replace(HandOver(), **{name: value})) for _ in range(TIMES)]
                seconds = median(s for s, _, _ in found) / median(s for s, _, _ in plain)
                lines.append({"case": case, "constant": name, "value": value, "time": seconds,
                              "rows": found[0][1] / plain[0][1], "handovers": found[0][2]})  # fmt: skip
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
    for axis, what in zip(axes, ("time", "rows"), strict=True):
        for case, name in ((c, n) for c in cases for n in VALUES):
            mine = [x for x in lines if x["case"] == case and x["constant"] == name]
            axis.plot(range(len(mine)), [x[what] for x in mine], "o-", label=f"{case}, {name}")
        axis.set(ylabel=f"{what} over the plain join's", xlabel="values, in order")
    axes[0].legend(fontsize=6)
    figure.tight_layout()
    spread = {(c, n): [x for x in lines if x["case"] == c and x["constant"] == n] for c in cases for n in VALUES}
    kept = [x["rows"] for x in lines if x["case"] == "returns"]
    claims = [Claim("whatever the constants, a constraint that holds again is found and saves", max(kept) < 0.5)]
    numbers = []
    for (case, name), mine in spread.items():
        for what in ("time", "rows"):
            low, high = min(x[what] for x in mine), max(x[what] for x in mine)
            title = f"{case}, {name} {mine[0]['value']:g} to {mine[-1]['value']:g}: most {what} (least: {low:.2f})"
            numbers.append(Number(title, None, high, "×"))
    return Outcome(lines, Verdict("Hand-over between joins", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
