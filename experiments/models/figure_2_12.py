"""Figure 2.12: what MACD costs as the bound gets tighter, and how many segments there are.

``stock_trades``, relative bounds from 0.003 % to 3 %, fit and query together. The paper's latency stays low down to a
bound of 0.3 % and grows without limit below: its engine was full. Ours is not, so the knee is where costs are twice
those of the widest bound.
"""

from __future__ import annotations

import math

import matplotlib.pyplot as plt

import eddyline as ed
from experiments.models.figure_2_10 import MACD, trading
from experiments.models.harness import crossing, medians, rows
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

BOUNDS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)


def run(options: Options) -> Outcome:
    table = trading(options, options.tuples(300_000, 40_000))
    where = MACD.format("WHERE S.ap > L.ap")
    cost, pieces = [], []
    for bound in BOUNDS:

        def whole(bound: float = bound) -> int:
            segments = ed.fit(table, key="symbol", time="ts", value="price", error=f"{bound}%")
            rows({"T": segments}, where)
            return len(segments)

        pieces.append(whole())
        cost.append(medians(whole)[0])
    doubled = crossing([1 / b for b in BOUNDS], [2 * cost[0] / c for c in cost])
    knee = 1 / doubled if math.isfinite(doubled) else math.inf  # infinite: at none of these bounds
    figure, axis = plt.subplots(figsize=(6, 3.4))
    axis.loglog(BOUNDS, cost, "o-", label="processor seconds")
    axis.set(xlabel="relative bound, %", ylabel="processor seconds")
    axis.invert_xaxis()
    other = axis.twinx()
    other.loglog(BOUNDS, pieces, "x--", color="tab:orange", label="segments")
    other.set(ylabel="segments")
    figure.tight_layout()
    claims = [
        Claim("segments grow as the bound gets tighter", sorted(pieces) == pieces),
        Claim("down to the paper's 0.3 % the cost stays within twice that of the widest bound", cost[2] <= 2 * cost[0]),
    ]
    numbers = [
        Number("relative bound at which costs have doubled", 0.3, knee, " %"),
        Number("segments at 0.3 %", None, pieces[2], ""),
        Number("segments at 0.003 %", None, pieces[-1], ""),
    ]
    lines = [{"bound": b, "cpu_s": c, "segments": p} for b, c, p in zip(BOUNDS, cost, pieces, strict=True)]
    return Outcome(lines, Verdict("Figure 2.12", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
