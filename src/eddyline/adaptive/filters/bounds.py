"""Reference costs: the cost of orders on a population of drop bits, and the lowest cost that any order could have.

Tests, experiments and benchmarks use these definitions and no others:

- *cost* of an order: the pipelined cost of (4.5), every filter paid for each tuple that reaches it;
- *optimal order*: the exhaustive optimum over all permutations, found by dynamic programming over sets of filters;
- *best fixed order*: the optimal order for the whole run at once, known in advance, never changed;
- *clairvoyant*: the optimal order in each phase, from its first tuple on, without any cost of profiling.

A population has a row per tuple and a column per filter: whether the filter drops the tuple. Costs are per tuple, one
for each filter; a cost of 1 each counts evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from eddyline.core.delta import Bools, Float64s, Int64s

Costs = Sequence[float] | npt.NDArray[np.float64]
MAX_FILTERS_FOR_OPTIMUM = 16  # the optimum takes 2ⁿ numbers
_MAX_FILTERS_FOR_LOOPS = 5  # up to which Python's loops are faster than arrays


def order_cost(drops: Bools, order: Sequence[int], costs: Costs | None = None) -> float:
    """The pipelined cost of an order.

    Example 4.2.1, input 1, 2, 1, 4, 7, 2, 5, 4:

    >>> bits = {1: "0000", 2: "0010", 4: "0111", 5: "1101", 7: "1000"}
    >>> drops = np.array([[b == "1" for b in bits[s]] for s in (1, 2, 1, 4, 7, 2, 5, 4)])
    >>> [order_cost(drops, o) for o in ((0, 1, 2, 3), (2, 1, 3, 0), (2, 0, 1, 3))]
    [20.0, 18.0, 16.0]
    """
    total, prices = 0.0, _prices(drops, costs)
    for f in order:
        total += prices[f] * len(drops)
        drops = drops[~drops[:, f]]
    return float(total)


def tuple_costs(drops: Bools, order: Sequence[int], costs: Costs | None = None) -> Float64s:
    """The same for each tuple."""
    ordered = drops[:, list(order)]
    prices = _prices(drops, costs)[list(order)]
    reached = ~np.logical_or.accumulate(ordered[:, :-1], axis=1)
    costs_of: Float64s = prices[0] + reached @ prices[1:]
    return costs_of


def changed_part(before: Sequence[int], after: Sequence[int]) -> slice:
    """The positions between the first and the last at which two orders differ."""
    different = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    return slice(different[0], different[-1] + 1) if different else slice(0, 0)


def gain(drops: Bools, before: Sequence[int], after: Sequence[int], costs: Costs | None = None) -> float:
    """How many times dearer ``before`` is than ``after``, in the positions that change and for the tuples that reach
    them. The rest costs the same in both and would only hide the difference.

    >>> gain(np.array([[True, False, True], [True, False, False]]), (0, 1, 2), (0, 2, 1))
    1.0
    >>> gain(np.array([[False, False, True]]), (0, 1, 2), (0, 2, 1))
    2.0
    """
    part = changed_part(before, after)
    drops = drops[~drops[:, list(before[: part.start])].any(1)]
    if not len(drops) or part.start == part.stop:
        return 1.0
    return order_cost(drops, before[part], costs) / order_cost(drops, after[part], costs)


def greedy_order(drops: Bools, costs: Costs | None = None, segments: Int64s | None = None) -> tuple[int, ...]:
    """Static Greedy (4.3): at each position the filter that drops most of what is left per unit of time; the first
    written among equals.
    """
    prices, order = _prices(drops, costs), []
    homes = np.zeros(drops.shape[1], np.int64) if segments is None else segments
    left = np.ones(drops.shape[1], np.bool_)
    for position in range(drops.shape[1]):
        best = int(np.where(left & (homes == homes[position]), drops.sum(0) / prices, -1.0).argmax())
        order.append(best)
        left[best] = False
        drops = drops[~drops[:, best]]
    return tuple(order)


def independent_order(drops: Bools, costs: Costs | None = None) -> tuple[int, ...]:
    """The order by unconditional drop rate per unit of time (4.5), the first written among equals."""
    return tuple(int(f) for f in np.argsort(-drops.sum(0) / _prices(drops, costs), kind="stable"))


def violates(drops: Bools, order: Sequence[int], costs: Costs | None = None, alpha: float = 1.0) -> int | None:
    """The first position at which an order violates the Greedy Invariant of (4.4), computed from its definition."""
    prices = _prices(drops, costs)
    for position, f in enumerate(order):
        ratios = drops.sum(0) / prices
        if ratios[f] < alpha * max(ratios[g] for g in order[position:]):
            return position
        drops = drops[~drops[:, f]]
    return None


def optimal_order(
    drops: Bools, costs: Costs | None = None, segments: Int64s | None = None, changes: Sequence[int] = ()
) -> tuple[int, ...]:
    """The cheapest of all orders.

    The tuples that reach a position depend only on the *set* of filters before it, so the best way to have applied a
    set is the best way to have applied it without its last member, plus that member's price for what was left:
    n·2ⁿ steps instead of n!. Costs may differ by phase, a row each; phases begin at ``changes``.

    >>> drops = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 0]], bool)
    >>> optimal_order(drops), optimal_order(drops, [9, 1, 2])
    ((0, 1, 2), (1, 2, 0))
    """
    n = drops.shape[1]
    if n > MAX_FILTERS_FOR_OPTIMUM:
        raise ValueError(f"the optimum is computed for at most {MAX_FILTERS_FOR_OPTIMUM} filters, not {n}")
    if n <= _MAX_FILTERS_FOR_LOOPS and not changes and (costs is None or np.ndim(costs) == 1):
        return _few(_survivors(drops).tolist(), _prices(drops, costs).tolist(), segments)
    phases = np.split(drops, list(changes))
    prices = [np.ones(n)] * len(phases) if costs is None else np.broadcast_to(np.asarray(costs), (len(phases), n))
    # What filter f costs when it is asked after the set S.
    price = sum(
        (np.outer(_survivors(phase), row) for phase, row in zip(phases, prices, strict=True)), np.zeros((1 << n, n))
    )
    homes = np.zeros(n, np.int64) if segments is None else segments
    best = np.zeros(1 << n)
    last = np.zeros(1 << n, np.int64)
    for position, (sets, members) in enumerate(_by_size(n)):
        without = sets[:, None] ^ (1 << members)
        total = best[without] + price[without, members]
        if segments is not None:
            total = np.where(homes[members] == homes[position], total, np.inf)
        choice = total.argmin(1)
        rows = np.arange(len(sets))
        best[sets], last[sets] = total[rows, choice], members[rows, choice]
    order, left = [], (1 << n) - 1
    while left:
        order.append(int(last[left]))
        left ^= 1 << order[-1]
    return tuple(reversed(order))


def _few(survivors: list[float], prices: list[float], segments: Int64s | None) -> tuple[int, ...]:
    """The same for few filters, for which arrays cost more than what is in them."""
    n = len(prices)
    homes = [0] * n if segments is None else segments.tolist()
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for these in range(1, 1 << n):
        found: tuple[float, tuple[int, ...]] = (math.inf, ())
        for f in range(n - 1, -1, -1):  # the last written first: among equals it comes last
            if these >> f & 1:
                before = these ^ (1 << f)
                total, order = best[before]
                total = total + survivors[before] * prices[f] if homes[f] == homes[len(order)] else math.inf
                if total < found[0] or not found[1]:
                    found = total, (*order, f)
        best.append(found)
    return best[-1][1]


def approximation(drops: Bools, order: Sequence[int], costs: Costs | None = None) -> float:
    """How many times the optimum an order costs. Theorem 4.3.1: at most 4/α if it satisfies the invariant up to α."""
    return order_cost(drops, order, costs) / order_cost(drops, optimal_order(drops, costs), costs)


@dataclass(frozen=True, slots=True)
class Clairvoyant:
    """The best order of each phase and what it costs there."""

    orders: tuple[tuple[int, ...], ...]
    costs: tuple[float, ...]

    @property
    def cost(self) -> float:
        return sum(self.costs)


def clairvoyant(
    drops: Bools, changes: Sequence[int], costs: Costs | None = None, segments: Int64s | None = None
) -> Clairvoyant:
    """Phases begin at row 0 and at each of ``changes``. Costs may differ by phase, a row each.

    >>> drops = np.repeat(np.array([[1, 0], [0, 1]], bool), 5, axis=0)
    >>> clairvoyant(drops, [5])
    Clairvoyant(orders=((0, 1), (1, 0)), costs=(5.0, 5.0))
    >>> order_cost(drops, optimal_order(drops))
    15.0
    """
    phases = np.split(drops, list(changes))
    prices = np.broadcast_to(np.ones(1) if costs is None else np.asarray(costs), (len(phases), drops.shape[1]))
    orders = tuple(optimal_order(d, row, segments) for d, row in zip(phases, prices, strict=True))
    return Clairvoyant(orders, tuple(order_cost(d, o, r) for d, o, r in zip(phases, orders, prices, strict=True)))


def _prices(drops: Bools, costs: Costs | None) -> Float64s:
    return np.ones(drops.shape[1]) if costs is None else np.asarray(costs, np.float64)


def _survivors(drops: Bools) -> Float64s:
    """For each set of filters, as bits of a number: how many tuples none of them drops."""
    n = drops.shape[1]
    patterns = np.bincount(drops @ (1 << np.arange(n)), minlength=1 << n)
    for f in range(n):  # sums over subsets, one filter at a time
        halves = patterns.reshape(-1, 2, 1 << f)
        halves[:, 1] += halves[:, 0]
    # What no filter of S drops has a pattern within the complement of S.
    return patterns[::-1].astype(np.float64)


@cache
def _by_size(n: int) -> tuple[tuple[Int64s, Int64s], ...]:
    """The sets of 1, 2, … n filters, each with its members: the last written first, so that among equals it is the one
    that comes last.
    """
    sets = np.arange(1 << n)
    inside = (sets[:, None] >> np.arange(n)) & 1
    grouped = []
    for size in range(1, n + 1):
        these = sets[inside.sum(1) == size]
        members = np.nonzero(inside[these])[1].reshape(-1, size)[:, ::-1]
        grouped.append((these, members))
    return tuple(grouped)
