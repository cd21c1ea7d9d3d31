"""The set-up of the thesis's section 4.7: streams of drop bits, policies with Table 4.1's defaults, what is counted.

A filter is an ``IN`` against a window of 10,000 tuples there, one hash probe; here it is a column of drop bits and a
declared cost, 1 for a probe, so that all counts are exact and can be repeated. The *processing rate*, which the thesis
draws in tuples per second, is tuples per 1,000 units of cost; profiling is part of the cost and shown apart.

The text is silent on the order in which filters are written. It decides what Independent does with equal filters, so
each repetition writes them in another random order, the same for all policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from eddyline.adaptive.filters.bounds import optimal_order, order_cost
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policies import make_policy
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.filters.simulate import Run, draw, simulate
from eddyline.core.delta import Bools

GAMMA = 2  # Table 4.1: the correlation factor
SELECTIVITY = 0.5  # and the share of tuples that a filter passes
BATCH = (
    1000  # tuples between two decisions. The thesis decides after each profile tuple, of which there are 10 in 1,000
)
ADAPTIVE = ("a-greedy", "sweep", "independent", "local-swaps")
COLOURS = {
    "optimal": "black", "a-greedy": "C0", "independent": "C1", "sweep": "C2", "local-swaps": "C4", "default": "C3",
    "static": "C7",
}  # fmt: skip


def groups(n: int, gamma: int = GAMMA) -> list[int]:
    """⌈n/Γ⌉ groups of Γ filters each; the last may be smaller.

    >>> groups(5)
    [0, 0, 1, 1, 2]
    """
    return [f // gamma for f in range(n)]


def stream(
    rows: int, n: int, selectivity: float | Sequence[float] = SELECTIVITY, gamma: int = GAMMA, seed: int = 0
) -> Bools:
    """Filters of a group give the same result on 80 % of the tuples, others are independent. ``selectivity`` for all or
    by filter; with different ones the rule holds as far as it can."""
    passes = [selectivity] * n if isinstance(selectivity, float) else selectivity
    return draw(rows, [1 - s for s in passes], groups=groups(n, gamma), seed=seed)


def written(n: int, seed: int) -> tuple[int, ...]:
    """The order in which the filters of a repetition are written."""
    return tuple(int(f) for f in np.random.default_rng(1000 + seed).permutation(n))


def policy(name: str, n: int, seed: int, costs: Sequence[float] | None = None, p: float | None = None) -> FilterPolicy:
    """With Table 4.1's defaults, or another p. Independent has half of the others' there, and keeps half of it."""
    options = {} if name == "static" else {"seed": seed}
    if p is not None and name not in {"static", "default"}:
        options["p"] = p / 2 if name == "independent" else p
    pipeline = Pipeline(n, costs=None if costs is None else tuple(costs), initial=written(n, seed))
    return make_policy(name, pipeline, **options)


@dataclass(frozen=True, slots=True)
class Settled:
    """Cost per tuple after convergence, on the way and for profiling, and of the last order on the measured tuples."""

    work: float
    profiling: float
    order: float

    @property
    def rate(self) -> float:
        return 1000 / (self.work + self.profiling)

    @property
    def overhead(self) -> float:
        return self.profiling / (self.work + self.profiling)


def settle(
    names: Iterable[str],
    drops: Bools,
    seed: int,
    costs: Sequence[float] | None = None,
    p: float | None = None,
    warm: float = 0.5,
) -> dict[str, Settled]:
    """Run policies on the same tuples and count what each costs after the first share ``warm`` of them. "optimal" is
    the exhaustive optimum for the tuples that are counted."""
    begin = int(len(drops) * warm) // BATCH * BATCH
    counted = drops[begin:]
    found = {}
    for name in names:
        if name == "optimal":
            cost = order_cost(counted, optimal_order(counted, costs), costs) / len(counted)
            found[name] = Settled(cost, 0.0, cost)
            continue
        run = simulate(policy(name, drops.shape[1], seed, costs, p), drops, costs, batch=BATCH)
        work, profiling = (float(x[begin // BATCH :].sum()) for x in (run.work_by_batch, run.profiling_by_batch))
        order = order_cost(counted, run.order, costs) / len(counted)
        found[name] = Settled(work / len(counted), profiling / len(counted), order)
    return found


@dataclass(slots=True)
class Mean:
    """A mean with its 95 % confidence interval, over repetitions.

    >>> mean = Mean([1.0, 2.0, 3.0])
    >>> mean.value, round(mean.half, 2)
    (2.0, 1.13)
    """

    values: list[float] = field(default_factory=list)

    @property
    def value(self) -> float:
        return float(np.mean(self.values))

    @property
    def half(self) -> float:
        return float(1.96 * np.std(self.values, ddof=1) / len(self.values) ** 0.5) if len(self.values) > 1 else 0.0


def orders_over_time(run: Run, first: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
    """From which tuple on which order was in force."""
    return [(0, first), *((int(d.time or 0), tuple(d.after)) for d in run.decisions)]


def recovery(
    run: Run,
    first: tuple[int, ...],
    drops: Bools,
    change: int,
    costs: Sequence[float] | None = None,
    within: float = 1.05,
) -> float:
    """Tuples after the change until the order costs no more than ``within`` times the optimum of the time after it, and
    stays so to the end. Infinite if that never happens."""
    after = drops[change:]
    best = order_cost(after, optimal_order(after, costs), costs)
    return reached(run, first, after, change, best * within, costs)


def reached(
    run: Run, first: tuple[int, ...], after: Bools, change: int, enough: float, costs: Sequence[float] | None = None
) -> float:
    """The same for a given cost of all tuples after the change."""
    good_since: float | None = None
    for at, order in orders_over_time(run, first):
        good = order_cost(after, order, costs) <= enough
        if good and good_since is None:
            good_since = max(0, at - change)
        elif not good:
            good_since = None
    return float("inf") if good_since is None else float(good_since)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the straight line through the points: whether something grows."""
    return float(np.polyfit(np.asarray(x, float), np.asarray(y, float), 1)[0])
