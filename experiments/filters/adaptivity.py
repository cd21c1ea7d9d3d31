"""What Figures 4.19 to 4.21 share: filters evaluated per 2,000 tuples while selectivities are permuted, for n = 8.

The change comes after 600,000 tuples, as in the text, and as many follow. The text says "filters with different
selectivities" and does not print them: the four groups of two filters (Γ = 2) pass 30, 45, 60 and 75 %, a range in
which filters of a group can agree on 80 % of the tuples and still be unlike the others, and the change turns them
round. Costs are 1, parameters those of Table 4.1. Evaluations are counted with profiling; whether a policy is back is
judged by what its order costs over all tuples after the change, which no noise touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from eddyline.adaptive.filters.bounds import order_cost
from eddyline.adaptive.filters.simulate import Run, simulate
from eddyline.core.delta import Bools, Float64s
from experiments.filters.setting import COLOURS, orders_over_time, policy, reached, stream, written
from experiments.report import Options

BEFORE = (0.3, 0.3, 0.45, 0.45, 0.6, 0.6, 0.75, 0.75)
CHOICE = (
    "The thesis does not print the selectivities. Two other sets were tried: with groups at 20 to 80 % Independent's "
    "order is only 1.8 % dearer and LocalSwaps takes just under twice A-Greedy's tuples; with eight filters at 5 to "
    "95 %, which are hardly correlated, Independent's order is no dearer."
)
N, CHANGE, SLICE, STEP = 8, 600_000, 2000, 400


@dataclass(frozen=True, slots=True)
class Timeline:
    """A policy's run over one stream with a change in its middle."""

    name: str
    run: Run
    first: tuple[int, ...]
    drops: Bools
    change: int

    @property
    def evaluated(self) -> Float64s:
        """Filters evaluated per 2,000 tuples, profiling included."""
        every = self.run.work_by_batch + self.run.profiling_by_batch
        whole: Float64s = every.reshape(-1, SLICE // STEP).sum(1)  # a side is a whole number of slices
        return whole

    def order_costs(self) -> list[tuple[int, float]]:
        """From which tuple on which cost per tuple, each order on the tuples of its side of the change."""
        found, parts = [], (self.drops[: self.change], self.drops[self.change :])
        orders = orders_over_time(self.run, self.first)
        for (at, order), (until, _) in zip(orders, [*orders[1:], (len(self.drops), ())], strict=True):
            for side, (low, high) in enumerate(((0, self.change), (self.change, len(self.drops)))):
                if at < high and until > low:
                    part = parts[side]
                    found.append((max(at, low), order_cost(part, order) / len(part)))
        return found

    def last(self, side: int) -> float:
        """Cost per tuple of the order in force at the end of a side, there."""
        end = self.change if side == 0 else len(self.drops)
        return [cost for at, cost in self.order_costs() if at < end][-1]

    def back(self, within: float = 1.05) -> float:
        """Tuples until its order is, and stays, within 5 % of its own last one."""
        after = self.drops[self.change :]
        return reached(self.run, self.first, after, self.change, self.last(1) * len(after) * within)

    def back_to(self, cost: float, within: float = 1.05) -> float:
        after = self.drops[self.change :]
        return reached(self.run, self.first, after, self.change, cost * len(after) * within)

    def steps(self) -> tuple[float, float]:
        """The average and the largest change of cost from one order to the next after the change."""
        costs = [c for at, c in self.order_costs() if at >= self.change]
        found = np.abs(np.diff(costs)) if len(costs) > 1 else np.zeros(1)
        return float(found.mean()), float(found.max())


def timelines(options: Options, names: Sequence[str], repetitions: int = 3) -> list[dict[str, Timeline]]:
    """In each repetition the policies see the same tuples."""
    change = max(options.tuples(CHANGE, 100_000) // SLICE, 1) * SLICE
    return [{name: _run(name, seed, change) for name in names} for seed in range(options.times(repetitions))]


@cache
def _stream(seed: int, change: int) -> Bools:
    return np.concatenate([stream(change, N, BEFORE, seed=seed), stream(change, N, BEFORE[::-1], seed=seed + 77)])


@cache  # three figures draw A-Greedy's
def _run(name: str, seed: int, change: int) -> Timeline:
    drops = _stream(seed, change)
    run = simulate(policy(name, N, seed), drops, batch=STEP)
    return Timeline(name, run, written(N, seed), drops, change)


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


def timeline_figure(lines: dict[str, Timeline], title: str) -> Figure:
    """The first repetition."""
    figure, axis = plt.subplots(figsize=(9, 4))
    for name, line in lines.items():
        y = line.evaluated
        axis.plot(np.arange(len(y)) * SLICE / 1000, y, label=name, color=COLOURS[name], linewidth=0.9)
    axis.axvline(line.change / 1000, color="k", linestyle=":", linewidth=0.9)
    axis.annotate("selectivities change", (line.change / 1000, axis.get_ylim()[1]), (4, -12), fontsize=8,
                  textcoords="offset points")  # fmt: skip
    axis.set(xlabel="thousand tuples", ylabel=f"filters evaluated per {SLICE:,} tuples", title=title)
    axis.legend(fontsize=8)
    return figure


def timeline_rows(found: Sequence[dict[str, Timeline]]) -> list[dict[str, Any]]:
    """The first repetition: what is drawn."""
    return [
        {"tuples": (i + 1) * SLICE, **{name: float(line.evaluated[i]) for name, line in found[0].items()}}
        for i in range(len(next(iter(found[0].values())).evaluated))
    ]
