"""Offline cache selection: the set of caches that maximises Σ benefit − cost (sections 5.5.4 and 5.7).

Three algorithms, as in the thesis: a recursion that is optimal where nothing is shared, a greedy weighted cover where
something is, and exhaustive search with pruning for few inputs and for globally-consistent caches, where nothing else
has a guarantee. All are deterministic, and ``select`` keeps the current set unless another is really better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eddyline.adaptive.joins.candidates import Candidate, Store, conflicts
from eddyline.adaptive.joins.model import Statistics, Value, net, upkeep
from eddyline.adaptive.joins.shape import Orders

Values = Mapping[Candidate, Value]

_MAX_INPUTS_FOR_EXHAUSTIVE_SEARCH = 6  # joining windows up to which the thesis searches exhaustively
_ROUNDING_ERROR = 1e-9  # relative difference of floating-point sums of the same numbers, at most


def select(
    candidates: Sequence[Candidate],
    values: Values,
    statistics: Statistics,
    orders: Orders,
    current: Iterable[Candidate] = (),
) -> tuple[Candidate, ...]:
    """The caches to use, with the algorithm that the thesis takes for the case at hand.

    ``current`` is kept on ties, so that a set that is as good as another is not swapped for it.

    >>> one, other = Candidate(2, 0, 1, (0, 1), (0,)), Candidate(0, 0, 1, (1, 2), (0,), (0,))
    >>> flat = Statistics((1.0,) * 3, ((1.0,) * 3,) * 3, ((1.0,) * 2,) * 3)
    >>> orders = [(1, 2), (0, 2), (1, 0)]
    >>> equal = {one: Value(1.0, 0.5, 1.0), other: Value(1.0, 0.5, 1.0)}
    >>> [c.label("RST") for current in (one, other) for c in select([one, other], equal, flat, orders, [current])]
    ['R⋈S in ΔT', '(S⋈T)⋉R in ΔR']
    """
    candidates = sorted(candidates)
    shared = len({c.store for c in candidates}) < len(candidates)
    supported = any(c.support for c in candidates)
    kept = tuple(c for c in candidates if c in set(current))
    if supported or (shared and len(orders) <= _MAX_INPUTS_FOR_EXHAUSTIVE_SEARCH):
        found = exhaustive(candidates, values, orders)
    elif shared:
        found = greedy(candidates, values, statistics, orders)
    else:
        found = optimal_per_pipeline(candidates, values)
    return found if _better(net(found, values), net(kept, values)) or _clash(kept, orders) else kept


def optimal_per_pipeline(candidates: Sequence[Candidate], values: Values) -> tuple[Candidate, ...]:
    """Theorems 5.5.1 and 5.5.2: without shared caches the optimum, from trees of nested caches, bottom-up.

    The best of a subtree is its root or the best of the subtrees below. Candidates must satisfy the prefix invariant:
    two that overlap are then nested.

    >>> inner, outer = Candidate(3, 1, 2, (0, 1), (0,)), Candidate(3, 1, 3, (0, 1, 2), (0,))
    >>> optimal_per_pipeline([inner, outer], {inner: Value(5.0, 1.0, 0.0), outer: Value(6.0, 3.0, 0.0)}) == (inner,)
    True
    """

    def best(tree: Candidate) -> tuple[float, tuple[Candidate, ...]]:
        own = values[tree].benefit - values[tree].cost
        below = [best(child) for child in children(tree)]
        gain = sum(g for g, _ in below)
        if own > max(gain, 0.0):
            return own, (tree,)
        return gain, tuple(c for _, cs in below for c in cs)

    def children(tree: Candidate | None) -> list[Candidate]:
        return [c for c in candidates if parents[c] == tree]

    parents = {c: parent(c, candidates) for c in candidates}
    return tuple(sorted(c for root in children(None) for c in best(root)[1]))


def parent(candidate: Candidate, candidates: Iterable[Candidate]) -> Candidate | None:
    """The smallest candidate of the same pipeline that is a strict superset."""
    above = [
        c
        for c in candidates
        if c.pipeline == candidate.pipeline
        and c.first <= candidate.first
        and c.last >= candidate.last
        and len(c.segment) > len(candidate.segment)
    ]
    return min(above, key=lambda c: len(c.segment), default=None)


def greedy(
    candidates: Sequence[Candidate], values: Values, statistics: Statistics, orders: Orders
) -> tuple[Candidate, ...]:
    """Theorem 5.5.3 as a weighted cover: an O(log n) approximation of the least Σ proc + cost.

    Every operator has to be covered, by itself (at d·c) or by a cache. Repeatedly taken is what costs least per newly
    covered operator: an operator, or a group of shared caches with its maintenance paid once. A cache that contains one
    chosen earlier replaces it. What in the end does not pay is left out: its operators cover themselves.

    Where operators are cheap the cover takes them one by one, and leaves caches out that others already pay for. So the
    set is then improved, as long as one cache more, or all that share a store, in the place of what they exclude, is a
    gain. That makes no set worse, and keeps the bound.
    """
    work = [[statistics.work(i, (j,)) for j in range(len(c))] for i, c in enumerate(statistics.c)]
    left = {(i, j) for i, costs in enumerate(work) for j in range(len(costs))}
    groups: dict[Store, list[Candidate]] = {}
    for candidate in sorted(candidates):
        groups.setdefault(candidate.store, []).append(candidate)
    chosen: set[Candidate] = set()
    while left:
        price, operator = min((work[i][j], (i, j)) for i, j in left)
        taken: tuple[Candidate, ...] = ()
        for group in groups.values():
            allowed = [c for c in group if c not in chosen and _may_join(c, chosen, orders)]
            paid = any(c in chosen for c in group)
            ratio, members = _cheapest(allowed, values, left, paid)
            if members and ratio < price:
                price, taken = ratio, members
        if not taken:
            left.discard(operator)
            continue
        for c in taken:
            chosen = {o for o in chosen if not _contains(c, o)} | {c}
            left -= {(c.pipeline, j) for j in c.operators}
    return _improved(_paying(chosen, values), groups, values, orders)


def _improved(
    chosen: tuple[Candidate, ...], groups: Mapping[Store, Sequence[Candidate]], values: Values, orders: Orders
) -> tuple[Candidate, ...]:
    gaining = [tuple(c for c in group if values[c].benefit > 0) for group in groups.values()]
    moves = [*((c,) for group in gaining for c in group), *(group for group in gaining if len(group) > 1)]
    while True:
        tried = []
        for more in moves:
            kept = [c for c in chosen if c not in more and not any(conflicts(c, m, orders) for m in more)]
            if not _clash(more, orders):
                tried.append(_paying((*kept, *more), values))
        best = max(tried, key=lambda some: net(some, values), default=())
        if not _better(net(best, values), net(chosen, values)):
            return chosen
        chosen = best


def _cheapest(
    allowed: Iterable[Candidate], values: Values, left: set[tuple[int, int]], paid: bool
) -> tuple[float, tuple[Candidate, ...]]:
    """The members of a group with the least (Σ proc + cost) per newly covered operator, and that ratio: the cheapest
    by themselves first, as many as lower the ratio."""
    fresh = {c: sum((c.pipeline, j) in left for j in c.operators) for c in allowed}
    ranked = sorted((values[c].proc / new, c) for c, new in fresh.items() if new)
    best: tuple[float, tuple[Candidate, ...]] = (float("inf"), ())
    for size in range(1, len(ranked) + 1):
        members = tuple(c for _, c in ranked[:size])
        spent = sum(values[c].proc for c in members) + (0.0 if paid else max(values[c].cost for c in members))
        ratio = spent / sum(fresh[c] for c in members)
        if ratio < best[0]:
            best = ratio, members
    return best


def _contains(outer: Candidate, inner: Candidate) -> bool:
    return outer.pipeline == inner.pipeline and outer.first <= inner.first and inner.last <= outer.last


def _may_join(candidate: Candidate, chosen: Iterable[Candidate], orders: Orders) -> bool:
    return all(_contains(candidate, c) or not conflicts(candidate, c, orders) for c in chosen)


def _paying(chosen: Iterable[Candidate], values: Values) -> tuple[Candidate, ...]:
    kept = [c for c in sorted(chosen) if values[c].benefit > 0]
    by_store = upkeep(kept, values)
    for store, spent in by_store.items():
        if sum(values[c].benefit for c in kept if c.store == store) <= spent:
            kept = [c for c in kept if c.store != store]
    return tuple(kept)


def exhaustive(candidates: Sequence[Candidate], values: Values, orders: Orders) -> tuple[Candidate, ...]:
    """The best of all sets without conflicts, by branch and bound over at most 2^m of them.

    Shared caches stand together. The bound for the candidates that are still open: per store its positive benefits,
    less its maintenance if no chosen cache has paid that yet, and never below zero.
    """
    stores = {store: n for n, store in enumerate(sorted({c.store for c in candidates}))}
    # A cache that spares its pipeline nothing never helps, shared or not.
    items = sorted((c for c in candidates if values[c].benefit > 0), key=lambda c: (stores[c.store], c))
    prices = upkeep(items, values)
    clashes = [sum(1 << k for k, b in enumerate(items) if conflicts(a, b, orders)) for a in items]
    tail = [0.0] * (len(items) + 1)  # the bound for the stores that begin at or after an item
    for at in range(len(items) - 1, -1, -1):
        store = items[at].store
        after = next((k for k in range(at, len(items)) if items[k].store != store), len(items))
        group = sum(values[c].benefit for c in items[at:after])
        tail[at] = max(0.0, group - prices[store]) + tail[after]
    ends = [
        next((k for k in range(at, len(items)) if items[k].store != c.store), len(items)) for at, c in enumerate(items)
    ]

    best_gain, best_set = 0.0, 0

    def search(at: int, gain: float, taken: int, banned: int, paid: bool) -> None:
        nonlocal best_gain, best_set
        if _better(gain, best_gain):
            best_gain, best_set = gain, taken
        if at == len(items):
            return
        end = ends[at]
        bound = tail[at]
        if paid:
            bound = sum(values[c].benefit for c in items[at:end]) + tail[end]
        if not _better(gain + bound, best_gain):
            return
        same = at + 1 < end
        if not banned >> at & 1:
            price = 0.0 if paid else prices[items[at].store]
            more = gain + values[items[at]].benefit - price
            search(at + 1, more, taken | 1 << at, banned | clashes[at], same)
        search(at + 1, gain, taken, banned, paid and same)

    search(0, 0.0, 0, 0, False)
    return tuple(sorted(c for k, c in enumerate(items) if best_set >> k & 1))


def _better(new: float, old: float) -> bool:
    return new > old + _ROUNDING_ERROR * max(abs(new), abs(old))


def _clash(chosen: Sequence[Candidate], orders: Orders) -> bool:
    return any(conflicts(a, b, orders) for n, a in enumerate(chosen) for b in chosen[:n])
