"""A small executor over known drop bits with declared costs: exact, repeatable counts of the cost of a policy.

It follows the protocol of ``policy`` exactly, so it is also the model for executors that evaluate real predicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.adaptive.filters.bounds import Costs
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.core.delta import Bools, Float64s
from eddyline.streamon.decision import Decision


@dataclass(frozen=True, slots=True)
class Run:
    """What happened: which tuples passed, what each batch cost on the way and for profiling, what was decided."""

    passed: Bools
    work_by_batch: Float64s
    profiling_by_batch: Float64s
    decisions: tuple[Decision, ...]
    order: tuple[int, ...]

    @property
    def work(self) -> float:
        """Cost of asking filters about tuples that were still alive: what a fixed order would pay, too."""
        return float(self.work_by_batch.sum())

    @property
    def profiling(self) -> float:
        """Cost of asking filters about tuples that had already been dropped."""
        return float(self.profiling_by_batch.sum())

    @property
    def cost(self) -> float:
        return self.work + self.profiling


def simulate(policy: FilterPolicy, drops: Bools, costs: Costs | None = None, batch: int = 100) -> Run:
    """Drive a policy over a population in batches. ``costs``: for each filter, or for each row and filter.

    >>> from eddyline.adaptive.filters.a_greedy import AGreedy
    >>> from eddyline.adaptive.filters.pipeline import Pipeline
    >>> drops = np.tile(np.array([[False, True]]), (1000, 1))
    >>> run = simulate(AGreedy(Pipeline(2), p=1.0), drops)
    >>> run.order, run.work, run.profiling, run.passed.sum()
    ((1, 0), 1100.0, 900.0, np.int64(0))
    """
    rows, n = drops.shape
    prices = np.broadcast_to(np.ones(n) if costs is None else np.asarray(costs, np.float64), (rows, n))
    passed = np.zeros(rows, np.bool_)
    work, profiling, decisions = [], [], []
    for start in range(0, rows, batch):
        part = drops[start : start + batch]
        price = prices[start : start + batch].mean(0)
        order, wanted, reach = policy.order, policy.wants_profile(len(part)), policy.reach
        dropped_at = np.full(len(part), n)  # the position of the filter that dropped the row; n while it lives
        known = np.zeros((len(wanted), n), np.bool_)
        rows_in, rows_out, spent = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n)
        for position, f in enumerate(order):
            alive = dropped_at == n
            gone = dropped_at[wanted]
            extra = (gone < n) & reach[np.minimum(gone, n - 1), position]
            known[:, f] = part[wanted, f] & (extra | alive[wanted])
            dropped_at[alive & part[:, f]] = position
            rows_in[f], rows_out[f] = alive.sum(), (dropped_at == n).sum()
            spent[f] = extra.sum()
        passed[start : start + batch] = dropped_at == n
        work.append(rows_in @ price)
        profiling.append(spent @ price)
        seconds = np.where(rows_in + spent > 0, price, np.nan)
        policy.processed(rows_in, rows_out, seconds)
        if len(wanted):
            policy.profiled(known, seconds)
        decision = policy.decide(start + len(part))
        if decision is not None:
            decisions.append(decision)
    return Run(passed, np.array(work), np.array(profiling), tuple(decisions), policy.order)


def draw(
    rows: int,
    rates: Sequence[float],
    *,
    groups: Sequence[int] | None = None,
    agree: float = 0.8,
    seed: int = 0,
) -> Bools:
    """A population in which filter i drops a share ``rates[i]``, by the thesis's model of correlation (4.7.2): filters
    of different groups are independent, filters of one group with equal rates give the same result on a share
    ``agree`` of the tuples. Without groups all are independent.

    >>> drops = draw(100_000, [0.5, 0.5, 0.5], groups=[0, 0, 1])
    >>> print(drops.mean(0).round(2), (drops[:, 0] == drops[:, 1]).mean().round(2), (drops[:, 0] == drops[:, 2]).mean())
    [0.5 0.5 0.5] 0.8 0.50007
    """
    random = np.random.default_rng(seed)
    rate = np.asarray(rates, np.float64)
    uniform = random.random((rows, len(rate)))
    if groups is not None:
        by_chance = rate**2 + (1 - rate) ** 2
        follows = np.sqrt(np.maximum(agree - by_chance, 0) / (1 - by_chance))
        shared = random.random((rows, max(groups) + 1))[:, list(groups)]
        uniform = np.where(random.random(uniform.shape) < follows, shared, uniform)
    return uniform < rate
