"""Policies after convergence, over a range of settings: the counting and the drawing that several figures share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eddyline.core.delta import Bools
from experiments.filters.setting import COLOURS, Mean, Settled, settle


@dataclass(frozen=True, slots=True)
class Curves:
    """For each setting x and policy what it costs once it has converged, in all repetitions."""

    xs: Sequence[float]
    names: Sequence[str]
    settled: dict[tuple[float, str], list[Settled]]

    def mean(self, x: float, name: str, of: Callable[[Settled], float]) -> Mean:
        return Mean([of(s) for s in self.settled[x, name]])

    def rate(self, x: float, name: str) -> float:
        """Mean processing rate."""
        return self.mean(x, name, lambda s: s.rate).value

    def work(self, x: float, name: str) -> float:
        return self.mean(x, name, lambda s: s.work).value

    def overhead(self, x: float, name: str) -> float:
        """Profiling's share of all cost."""
        return self.mean(x, name, lambda s: s.overhead).value

    def over(self, x: float, name: str, other: str) -> float:
        """By how much the rate of one policy is above that of another."""
        return self.rate(x, name) / self.rate(x, other) - 1

    def rows(self, x_name: str) -> list[dict[str, Any]]:
        return [
            {x_name: x, "policy": name, "repetition": i, "rate": s.rate, "work": s.work, "profiling": s.profiling,
             "last_order": s.order}
            for (x, name), found in self.settled.items() for i, s in enumerate(found)
        ]  # fmt: skip


def converge(
    xs: Sequence[float],
    names: Sequence[str],
    make: Callable[[float, int], Bools],
    repetitions: int,
    *,
    costs: Callable[[float], Sequence[float]] | None = None,
    p: float | None = None,
    warm: float = 0.5,
) -> Curves:
    """``make(x, seed)`` draws the stream of a setting; the policies of a repetition see the same tuples."""
    found: dict[tuple[float, str], list[Settled]] = {(x, name): [] for x in xs for name in names}
    for x in xs:
        for seed in range(repetitions):
            drops = make(x, seed)
            runs = settle(names, drops, seed, None if costs is None else costs(x), p, warm)
            for name, settled in runs.items():
                found[x, name].append(settled)
    return Curves(xs, names, found)


def draw_rates(axis: Axes, curves: Curves, x_label: str) -> None:
    """Processing rate with 95 % confidence intervals."""
    for name in curves.names:
        means = [curves.mean(x, name, lambda s: s.rate) for x in curves.xs]
        axis.errorbar(
            curves.xs, [m.value for m in means], [m.half for m in means], label=name, color=COLOURS[name],
            marker=None if name == "optimal" else "o", markersize=4, linestyle="--" if name == "optimal" else "-",
            capsize=2,
        )  # fmt: skip
    axis.set(xlabel=x_label, ylabel="tuples per 1,000 units of cost")
    axis.legend(fontsize=8)


def rate_figure(curves: Curves, x_label: str, title: str) -> Figure:
    figure, axis = plt.subplots(figsize=(6.4, 4))
    draw_rates(axis, curves, x_label)
    axis.set_title(title)
    return figure


def breakdown_figure(curves: Curves, x_label: str, title: str, *, percent: bool) -> Figure:
    """Bars of cost by setting and policy: tuple processing below, profiling above."""
    figure, axis = plt.subplots(figsize=(9, 4.2))
    width = 0.8 / len(curves.names)
    for i, name in enumerate(curves.names):
        at = [place + (i - (len(curves.names) - 1) / 2) * width for place in range(len(curves.xs))]
        work = [curves.work(x, name) for x in curves.xs]
        extra = [curves.mean(x, name, lambda s: s.profiling).value for x in curves.xs]
        whole = [w + e if percent else 1.0 for w, e in zip(work, extra, strict=True)]
        below = [w / t for w, t in zip(work, whole, strict=True)]
        above = [e / t for e, t in zip(extra, whole, strict=True)]
        axis.bar(at, below, width * 0.92, color=COLOURS[name], label=name)
        axis.bar(at, above, width * 0.92, bottom=below, color=COLOURS[name], alpha=0.4, hatch="////", edgecolor="white")
    axis.bar([0], [0], color="lightgrey", hatch="////", edgecolor="white", label="profiling, on top")
    axis.set_xticks(range(len(curves.xs)), [f"{x:g}" for x in curves.xs])
    axis.set(xlabel=x_label, ylabel="share of the cost" if percent else "cost per tuple", title=title)
    if percent:
        axis.set_ylim(0.6, 1.0)
    axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
