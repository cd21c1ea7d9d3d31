"""Figures 2.7 and 2.8: a join that compares positions, on models and on tuples, by tuples of a segment and by rate.

Each object meets the others' positions of the last 0.1 s and asks who is further to the east, as the paper's join
compares x and y; the join of models is instantaneous.
"""

from __future__ import annotations

import eddyline as ed
from eddyline.datasets.moving import moving
from experiments.models.harness import medians, rows
from experiments.models.operators import measured
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

TUPLES = (
    "SELECT Istream(a.id, b.id AS other, a.x - b.x AS d) FROM S [RANGE 0.1 SECONDS] a, S [RANGE 0.1 SECONDS] b "
    "WHERE a.id < b.id AND a.x < b.y"
)
MODELS = "SELECT a.id, b.id AS other, a.x - b.x AS d FROM S a, S b WHERE a.id < b.id AND a.x < b.y"
RATES = (500, 1000, 2000)


def run(options: Options) -> Outcome:
    many = options.tuples(40_000, 3_000)
    curve = measured(many, TUPLES, MODELS, (1, 2, 4, 16, 64), ("x", "y"))
    lines: list[dict[str, object]] = curve.lines(rate=1000)
    seconds = many / RATES[-1]
    cost = {}
    for rate in RATES:
        table = moving(objects=10, seconds=seconds, rate=rate, leg=2.0).table()
        segments = ed.fit(table, key="id", time="ts", value=["x", "y"], error=1.0)
        tuples, models = medians(lambda t=table: rows({"S": t}, TUPLES), lambda s=segments: rows({"S": s}, MODELS))  # type: ignore[misc]
        cost[rate] = (tuples / seconds, models / seconds)
        lines.append({"rate": rate, "tuples_cpu": cost[rate][0], "stored_cpu": cost[rate][1]})
    grows = cost[RATES[-1]][0] / cost[RATES[0]][0]
    claims = [
        Claim("on stored segments the join is viable within 4 tuples a segment", curve.even_stored <= 4),
        Claim("four times the rate costs tuples more than four times as much", grows > 4),
        Claim("and models less than twice", cost[RATES[-1]][1] < 2 * cost[RATES[0]][1]),
    ]
    numbers = [
        Number(curve.even, 1.45, curve.even_stored, ""),
        Number("the same without what a query costs before its first row", None, curve.even_alone, ""),
        Number("the same with the fit of every tuple", 1.45, curve.even_fitted, ""),
        Number("cost of tuples at 4 times the rate", None, grows, "×"),
        Number("cost of models at 4 times the rate", None, cost[RATES[-1]][1] / cost[RATES[0]][1], "×"),
    ]
    note = (
        "Without a common key both sides pair everything: with ten objects and 0.1 s a tuple meets a hundred "
        "positions, a segment those of the other objects alone that overlap it. At the shortest legs that can be told "
        "apart segments are faster already."
    )
    return Outcome(lines, Verdict("Figures 2.7 and 2.8", claims, numbers, note), curve.draw("join"))


if __name__ == "__main__":
    main(run)
