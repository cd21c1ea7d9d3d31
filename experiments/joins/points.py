"""Table 5.2: the eight sample points of Figure 5.21, and the best plans of the four kinds at each of them.

The table has relative rates and pairwise selectivities, and no window sizes. Here windows reach equally far back: their
sizes are proportional to the rates, and such that an element finds 0.3 partners in another window on average (the
geometric mean of the sizes is 0.3 over the mean selectivity; at D7, where nothing joins, 300). Distributions are those
of ``datasets.joins.pairwise``. The size decides much: with one partner instead of 0.3 results outnumber
elements, caches have more to maintain, and neither X nor P nor G gains anything to speak of over M at D3, D4 and D8.

M: the orders that A-Greedy ends with. X: the best of all fifteen binary trees with their subresults kept whole. P: the
best set of caches over M's orders, of the candidates that satisfy the prefix invariant. G: the best set of the m = 6
candidates that include globally-consistent ones, over M's orders and over those that go up a tree of X. For an order
decides which caches there can be: M's are chosen for an MJoin without any, and where streams are alike (D4, D7, D8)
chance chooses among orders that cost the same and permit quite different caches. All searches are exhaustive and by
counted accesses, not by estimates.

"G by time" is the choice among the same plans by measured seconds; M stays unless another takes 5 % less. The thesis'
costs are times, of accesses that took microseconds each; here an element takes some 60 ns, and the plan with the fewest
accesses is not the fastest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from eddyline.adaptive.joins.candidates import Candidate, candidates, conflicts
from eddyline.adaptive.joins.trees import binary_trees, plan
from eddyline.datasets.joins import Arrivals, pairwise
from experiments.joins.harness import Plan, Query, Run, execute, on_one_attribute

NAMES = "RSTU"
M_CANDIDATES = 6
PARTNERS = 0.3
CLEARLY = 0.05  # less time
TABLE = {  # rates of R, S, T, U; selectivities RS, RT, RU, ST, SU, TU
    "D1": ((10, 1, 1, 1), (0.004, 0.005, 0.005, 0.007, 0.0045, 0.005)),
    "D2": ((8, 1, 1, 8), (0.004, 0.005, 0.005, 0.007, 0.0045, 0.005)),
    "D3": ((10, 15, 1, 5), (0.003, 0.005, 0.007, 0.0045, 0.006, 0.008)),
    "D4": ((1, 1, 1, 1), (0.003, 0.004, 0.0067, 0.002, 0.0023, 0.0027)),
    "D5": ((4, 1, 1, 4), (0.005, 0.007, 0.005, 0.006, 0.005, 0.002)),
    "D6": ((1, 1, 1, 1), (0.005, 0.0033, 0.0025, 0.0067, 0.005, 0.0075)),
    "D7": ((1, 1, 1, 1), (0, 0, 0, 0, 0, 0)),
    "D8": ((1, 1, 1, 1), (0.001, 0.001, 0.001, 0.001, 0.001, 0.001)),
}
PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


def matrix(point: str) -> np.ndarray:
    s = np.zeros((4, 4))
    for (i, j), share in zip(PAIRS, TABLE[point][1], strict=True):
        s[i, j] = s[j, i] = share
    return s


def windows(point: str) -> list[int]:
    rates = np.asarray(TABLE[point][0], float)
    size = PARTNERS / (float(np.mean(TABLE[point][1])) or 0.001)
    return [max(2, round(size * r)) for r in rates / np.exp(np.log(rates).mean())]


def setting(point: str, tuples: int, seed: int = 1) -> tuple[Query, Arrivals]:
    drawn = pairwise(matrix(point))
    query = on_one_attribute(windows(point), keys=int((drawn.p > 0).sum(1).max()), names=NAMES)
    return query, drawn.draw(tuples, TABLE[point][0], seed)


@dataclass(frozen=True, slots=True)
class Best:
    """The best plan of each kind, by accesses; M by exhaustive search as well."""

    plans: dict[str, Plan]
    exhaustive: Plan  # of MJoins
    tried: int


def a_greedy(query: Query, data: Arrivals, p: float = 0.2) -> tuple[tuple[int, ...], ...]:
    """The orders that A-Greedy has at the end. It profiles a fifth of the elements: the best MJoin is wanted here, not
    the cheapest way to it."""
    return execute(query, data, Plan(options={"joins": f"a-greedy(p={p})", "caches": "none"})).orders


def best_orders(query: Query, data: Arrivals) -> tuple[tuple[int, ...], ...]:
    """By exhaustive search. The work of an MJoin is the sum over its pipelines, so each is searched by itself."""
    shape = query.shape
    base = [next(_orders(query, i)) for i in range(shape.size)]
    best = list(base)
    for i in range(shape.size):
        tried = []
        for order in _orders(query, i):
            orders = [*base[:i], order, *base[i + 1 :]]
            tried.append((execute(query, data, Plan(tuple(orders))).accesses, order))
        best[i] = min(tried)[1]
    return tuple(best)


def _orders(query: Query, source: int) -> Iterator[tuple[int, ...]]:
    shape = query.shape
    for order in permutations([i for i in range(shape.size) if i != source]):
        if shape.avoids_products(source, order):
            yield order


def sets(found: Sequence[Candidate], orders: Sequence[tuple[int, ...]]) -> Iterator[tuple[Candidate, ...]]:
    """All sets of candidates that can be used together, the empty one first."""
    allowed: list[tuple[Candidate, ...]] = [()]
    for c in found:
        allowed += [(*s, c) for s in allowed if not any(conflicts(c, other, orders) for other in s)]
    yield from allowed


def cheapest(query: Query, data: Arrivals, plans: Iterable[Plan]) -> tuple[Plan, Run, int]:
    """The first of those with the fewest accesses, its run, and how many were tried."""
    tried = [(execute(query, data, p), p) for p in plans]
    best, chosen = min(tried, key=lambda r: r[0].accesses)
    return chosen, best, len(tried)


def search(query: Query, data: Arrivals) -> Best:
    shape = query.shape
    orders = a_greedy(query, data)
    trees = [plan(tree, shape) for tree in binary_trees(shape)]
    x, _, n = cheapest(query, data, (Plan(t.orders, t.kept, complete=True) for t in trees))
    prefix, every = candidates(shape, orders, 0), candidates(shape, orders, M_CANDIDATES)
    p, _, np_ = cheapest(query, data, (Plan(orders, s) for s in sets(prefix, orders)))
    within, _, ng = cheapest(query, data, (Plan(orders, s) for s in sets(every, orders)))
    beyond, tried = over_trees(query, data, [t.orders for t in trees])
    g, _, _ = cheapest(query, data, (within, *beyond))
    quick = fastest(query, data, [orders, *(t.orders for t in trees)])
    exhaustive = Plan(best_orders(query, data))
    plans = {"M": Plan(orders), "X": x, "P": p, "G": g, "G over M": within, "G by time": quick}
    return Best(plans, exhaustive, n + np_ + ng + tried)


def over_trees(
    query: Query, data: Arrivals, orders: Iterable[tuple[tuple[int, ...], ...]], finals: int = 4
) -> tuple[list[Plan], int]:
    """The most promising plans with caches over orders that go up a tree, by a part of the data, and how many there
    were. A tree's orders are a choice of its siblings' too: each is as written."""
    part, plans = third(data), with_caches(query, orders)
    counted = [execute(query, part, p).accesses for p in plans]
    ranked = sorted(range(len(plans)), key=lambda n: (counted[n], n))
    return [plans[n] for n in ranked[:finals]], len(plans)


def fastest(
    query: Query, data: Arrivals, orders: Iterable[tuple[tuple[int, ...], ...]], finals: int = 8, rounds: int = 5
) -> Plan:
    """The plan with caches that takes the least time. All take turns over a part of the data, a few over all of it; the
    best of each one's times counts. The first, which is M, stays unless another is clearly faster: times of plans that
    are as good differ by chance."""
    part, plans = third(data), with_caches(query, orders)
    first = plans[0]
    for some, among in ((part, finals), (data, 1)):
        turns = [[execute(query, some, p).seconds for p in plans] for _ in range(rounds)]
        least = {n: min(times) for n, times in enumerate(zip(*turns, strict=True))}
        ranked = [plans[n] for n in sorted(least, key=least.__getitem__)[:among]]
        if ranked[0] != first and least[plans.index(ranked[0])] > (1 - CLEARLY) * least[0]:
            ranked.insert(0, first)
        plans = [first, *(p for p in ranked if p != first)] if among > 1 else ranked
    return plans[0]


def third(data: Arrivals) -> Arrivals:
    start, stop = data.times
    return Arrivals(tuple(data.between(start - 1, start + (stop - start) // 3)))


def with_caches(query: Query, orders: Iterable[tuple[tuple[int, ...], ...]]) -> list[Plan]:
    """All sets of the m = 6 candidates over each of these orders, the empty ones too."""
    return [Plan(o, s) for o in dict.fromkeys(orders) for s in sets(candidates(query.shape, o, M_CANDIDATES), o)]
