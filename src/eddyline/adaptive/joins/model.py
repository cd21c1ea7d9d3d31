"""Benefit and cost of a cache: the cost model of section 5.5.1.

All costs are per unit time; the unit is the caller's (seconds, or tuples processed). ``benefit`` is the work that a
cache saves its pipeline, ``cost`` the work of maintaining it, ``proc`` the work that is left in the pipeline:
benefit + proc is the work of the segment without the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eddyline.adaptive.joins.candidates import Candidate, Store

Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of n pipelines: ``rate[i]`` elements per unit time of ΔR_i; ``d[i][j]`` tuples per unit time that operator j
    processes, and ``d[i][n-1]`` results; ``c[i][j]`` the cost of operator j for a tuple."""

    rate: tuple[float, ...]
    d: Table
    c: Table
    orders: tuple[tuple[int, ...], ...] = ()  # of the pipelines, where they are known

    def work(self, pipeline: int, operators: Iterable[int]) -> float:
        """Σ d·c: what these operators cost per unit time."""
        d, c = self.d[pipeline], self.c[pipeline]
        return sum(d[j] * c[j] for j in operators)

    @property
    def total(self) -> float:
        """The work of the MJoin without caches."""
        return sum(self.work(i, range(len(c))) for i, c in enumerate(self.c))


@dataclass(frozen=True, slots=True)
class CacheCosts:
    """The cost of a probe, of putting in (or taking out) one tuple, and the probability that a probe misses."""

    probe: float
    update: float
    miss: float


@dataclass(frozen=True, slots=True)
class Value:
    """The three figures of a candidate."""

    benefit: float
    cost: float
    proc: float


def proc(candidate: Candidate, statistics: Statistics, costs: CacheCosts) -> float:
    """A probe for each tuple that reaches the segment, and for a miss the segment's work and the new entry."""
    d = statistics.d[candidate.pipeline]
    segment = statistics.work(candidate.pipeline, candidate.operators)
    return d[candidate.first] * costs.probe + costs.miss * (segment + d[candidate.last + 1] * costs.update)


def benefit(candidate: Candidate, statistics: Statistics, costs: CacheCosts) -> float:
    """The work of the segment without the cache less what is left with it.

    A hundred tuples reach a segment of two operators, each makes two of one; nine of ten probes hit:

    >>> cache = Candidate(2, 0, 1, (0, 1), (1,))
    >>> statistics = Statistics((10, 10, 100), ((10, 10, 20), (10, 10, 20), (100, 200, 400)), ((1.0, 1.0),) * 3)
    >>> costs = CacheCosts(probe=0.5, update=0.5, miss=0.1)
    >>> benefit(cache, statistics, costs), proc(cache, statistics, costs), cost(cache, statistics, costs)
    (200.0, 100.0, 10.0)
    """
    return statistics.work(candidate.pipeline, candidate.operators) - proc(candidate, statistics, costs)


def cost(candidate: Candidate, statistics: Statistics, costs: CacheCosts) -> float:
    """An update for each tuple that passes a maintenance point. The updates themselves are computed anyway.

    Of a globally-consistent cache X ⋉ Y each tuple of X is brought once, however many in Y support it: what passes is
    divided by the matches in Y. And an anchored one is not maintained by its own pipeline, which writes its entries.

    Of twenty results of an element of S, five with each of four tuples of R, five are brought to (S⋈T)⋉R:

    >>> wide = Candidate(0, 0, 1, (1, 2), (0,), (0,))
    >>> d, orders = ((1, 1, 5), (1, 4, 20), (0, 0, 0)), ((1, 2), (0, 2), (1, 0))
    >>> statistics = Statistics((1, 1, 0), d, ((1.0, 1.0),) * 3, orders)
    >>> cost(wide, statistics, CacheCosts(probe=1.0, update=2.0, miss=0.1))
    10.0
    """
    inputs = candidate.inputs
    own = candidate.pipeline if candidate.anchored else None
    return costs.update * sum(_brought(candidate, statistics, i, len(inputs) - 1) for i in inputs if i != own)


def _brought(candidate: Candidate, statistics: Statistics, i: int, q: int) -> float:
    d = statistics.d[i]
    tuples = d[q]
    for j, target in enumerate(statistics.orders[i][:q]) if statistics.orders else ():
        if target in candidate.support and d[j + 1] > d[j] > 0:
            tuples *= d[j] / d[j + 1]
    return tuples


def value(candidate: Candidate, statistics: Statistics, costs: CacheCosts) -> Value:
    left = proc(candidate, statistics, costs)
    work = statistics.work(candidate.pipeline, candidate.operators)
    return Value(work - left, cost(candidate, statistics, costs), left)


def upkeep(chosen: Iterable[Candidate], values: Mapping[Candidate, Value]) -> dict[Store, float]:
    """What each store costs to maintain. Shared caches pay once; if estimates differ, the dearest."""
    found: dict[Store, float] = {}
    for candidate in chosen:
        found[candidate.store] = max(values[candidate].cost, found.get(candidate.store, 0.0))
    return found


def net(chosen: Iterable[Candidate], values: Mapping[Candidate, Value]) -> float:
    """Σ benefit − cost of a set of caches, which A-Caching maximises.

    >>> one, other = Candidate(2, 0, 1, (0, 1), (0,)), Candidate(3, 0, 1, (0, 1), (0,))
    >>> net([one, other], {one: Value(5.0, 4.0, 1.0), other: Value(2.0, 4.0, 1.0)})
    3.0
    """
    chosen = list(chosen)
    return sum(values[c].benefit for c in chosen) - sum(upkeep(chosen, values).values())
