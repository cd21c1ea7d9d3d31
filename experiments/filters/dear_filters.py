"""What Figures 4.23 and 4.24 share: the cost of the dear filters is varied while the period of change stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from experiments.filters.changing import Total, workload
from experiments.filters.setting import COLOURS

COSTS = (1, 10, 50, 100)
NAMES = ("a-greedy", "sweep", "default")

Found = dict[float, dict[str, Total]]


def by_cost(period: int, changes: int, seeds: Sequence[int]) -> Found:
    return {c: workload((*NAMES, "optimal"), period, changes, c, seeds) for c in COSTS}


def by_cost_figure(found: Found, title: str) -> Figure:
    figure, axis = plt.subplots(figsize=(6.4, 4))
    for name in NAMES:
        y = [found[c][name].cost / found[c]["optimal"].cost for c in COSTS]
        axis.plot(COSTS, y, color=COLOURS[name], marker="o", label=name)
    axis.set(xscale="log", xlabel="cost of the dear filters", ylabel="cost over the clairvoyant's", title=title)
    axis.set_xticks(COSTS, [str(c) for c in COSTS])
    axis.legend(fontsize=8)
    return figure


def by_cost_rows(found: Found) -> list[dict[str, Any]]:
    return [
        {"c": c, "policy": name, "work": t.work, "profiling": t.profiling}
        for c, f in found.items() for name, t in f.items()
    ]  # fmt: skip
