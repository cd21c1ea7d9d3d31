"""Index selection: the configuration with the least C_D, and the division of memory among states (section 6).

``exhaustive`` compares all configurations of at most B bits. ``eprune`` first leaves out each attribute whose greatest
possible benefit (Equation 2, summed over the patterns that contain it, with all B bits) is negative, and finds the same
configuration: the bits of such an attribute can be taken away from any configuration without making it dearer.

``select`` is EPrune where configurations are few; where they are more than ``MOST_CONFIGURATIONS`` (16 bits of seven
attributes are a quarter of a million) it climbs: bit by bit to the best neighbour, until none is better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from math import comb
from typing import Any

import numpy as np

from eddyline.adaptive.indexes.cost import EQUAL_COSTS, Configuration, UnitCosts, Workload, dependent_costs
from eddyline.core.delta import Int64s

ROWS_AT_ONCE = 1 << 13  # configurations whose costs are computed in one step: bounds the memory of a selection
MOST_CONFIGURATIONS = 20_000  # that are all compared, some milliseconds
MOST_AT_ONCE = 1_000  # the same where a decision must not take a millisecond


def exhaustive(n: int, bits: int, load: Workload, unit: UnitCosts = EQUAL_COSTS) -> Configuration:
    """The best of all configurations of ``n`` attributes and at most ``bits`` bits; of equal ones that with the fewest
    bits, then the first.

    >>> table2 = {0b100: .04, 0b010: .10, 0b001: .10, 0b110: .04, 0b101: .16, 0b011: .10, 0b111: .46}
    >>> exhaustive(3, 4, Workload(1, 1, 1, table2), UnitCosts(hash=0, visit=0))
    (1, 1, 2)
    """
    return _best(n, range(n), bits, load, unit)


def eprune(n: int, bits: int, load: Workload, unit: UnitCosts = EQUAL_COSTS) -> Configuration:
    """As ``exhaustive``, over the attributes that can be worth their hashing.

    >>> rare = Workload(arrivals=100, searches=100, window=1, frequencies={0b10: 0.999, 0b01: 0.001})
    >>> [attribute for attribute in range(2) if max_benefit(attribute, 2, 6, rare) >= 0]
    [0]
    >>> eprune(2, 6, rare) == exhaustive(2, 6, rare)
    True
    """
    worth = [a for a in range(n) if max_benefit(a, n, bits, load, unit) >= 0]
    return _best(n, worth, bits, load, unit)


def max_benefit(attribute: int, n: int, bits: int, load: Workload, unit: UnitCosts = EQUAL_COSTS) -> float:
    """MB(A), Equation 2: the most search cost that indexing the attribute can save, less the cost of hashing it."""
    asked = sum(f for p, f in load.frequencies.items() if p >> (n - 1 - attribute) & 1)
    saved = load.searches * load.rows * asked * (1 - 0.5**bits) * unit.compare
    return saved - (asked * load.searches + load.arrivals) * unit.hash


def select(n: int, bits: int, load: Workload, unit: UnitCosts = EQUAL_COSTS) -> Configuration:
    """As ``eprune`` where that takes milliseconds, else a configuration that no single bit makes better.

    >>> often = Workload(arrivals=100, searches=9000, window=1, frequencies={0b11000000: 0.7, 0b00000110: 0.3})
    >>> select(8, 12, often)
    (0, 4, 0, 0, 0, 0, 3, 0)
    """
    worth = [a for a in range(n) if max_benefit(a, n, bits, load, unit) >= 0]
    if not worth or comb(bits + len(worth), bits) <= MOST_CONFIGURATIONS:
        return _best(n, worth, bits, load, unit)
    return _climb(n, worth, bits, load, unit)


def best_by_bits(n: int, bits: int, load: Workload, unit: UnitCosts = EQUAL_COSTS) -> list[Configuration]:
    """For 0, 1, … ``bits`` bits in all a configuration of exactly so many: the best one where configurations are few,
    else that with one bit more, or one bit more and another moved, than the one before.

    >>> often = Workload(arrivals=100, searches=9000, window=1, frequencies={0b10: 0.7, 0b01: 0.3})
    >>> best_by_bits(2, 4, often)
    [(0, 0), (1, 0), (2, 0), (2, 1), (3, 1)]
    """
    if comb(bits + n, bits) <= MOST_AT_ONCE:
        (every,) = _few(n, bits)
        costs, totals = dependent_costs(every, load, unit), every.sum(axis=1)
        best = [int(np.argmin(np.where(totals == b, costs, np.inf))) for b in range(bits + 1)]
        return [tuple(int(x) for x in every[at]) for at in best]
    steps = _one_bit_more(n)
    now, found = np.zeros(n, np.int64), [(0,) * n]
    for _ in range(bits):
        near = now + steps
        near = near[near.min(axis=1) >= 0]
        now = near[int(np.argmin(dependent_costs(near, load, unit)))]
        found.append(tuple(int(x) for x in now))
    return found


@lru_cache(maxsize=64)
def _one_bit_more(n: int) -> Int64s:
    """The steps to configurations with one bit more, or one bit more and another moved."""
    each = np.eye(n, dtype=np.int64)
    moves = np.array([each[a] + each[b] - each[c] for a in range(n) for b in range(a, n) for c in range(n)])
    steps: Int64s = np.unique(moves, axis=0)
    return steps


def _climb(n: int, attributes: Sequence[int], bits: int, load: Workload, unit: UnitCosts) -> Configuration:
    """One bit more, one less or one moved, whatever gains most; from no bits and from bits spread over all."""
    chosen, each = list(attributes), np.eye(n, dtype=np.int64)
    steps = [each[a] for a in chosen] + [-each[a] for a in chosen]
    steps += [each[a] - each[b] for a in chosen for b in chosen if a != b]
    spread = np.zeros(n, np.int64)
    for i in range(bits):
        spread[chosen[i % len(chosen)]] += 1
    found = []
    for now in (np.zeros(n, np.int64), spread):
        least = float(dependent_costs(now[None, :], load, unit)[0])
        while True:
            near = now + np.array(steps)
            near = near[(near.min(axis=1) >= 0) & (near.sum(axis=1) <= bits)]
            costs = dependent_costs(near, load, unit)
            at = int(np.argmin(costs))
            if costs[at] >= least:
                break
            now, least = near[at], float(costs[at])
        found.append((least, int(now.sum()), tuple(int(b) for b in now)))
    return min(found)[2]


def _best(n: int, attributes: Sequence[int], bits: int, load: Workload, unit: UnitCosts) -> Configuration:
    best, least = (0,) * n, float("inf")
    for bits_of_chosen in _configurations(len(attributes), bits):
        some = np.zeros((len(bits_of_chosen), n), np.int64)
        some[:, list(attributes)] = bits_of_chosen
        costs = dependent_costs(some, load, unit)
        at = int(np.argmin(costs))
        if costs[at] < least:
            best, least = tuple(int(b) for b in some[at]), float(costs[at])
    return best


def _configurations(k: int, bits: int) -> Iterable[Int64s]:
    """All configurations of k attributes with at most that many bits, fewer bits first, in blocks."""
    return _few(k, bits) if comb(bits + k, k) <= MOST_CONFIGURATIONS else _blocks(k, bits)


@lru_cache(maxsize=64)
def _few(k: int, bits: int) -> tuple[Int64s, ...]:
    """The same, kept: each decision about a state asks for them."""
    return tuple(_blocks(k, bits))


def _blocks(k: int, bits: int) -> Iterator[Int64s]:
    block: list[list[int]] = []
    for total in range(bits + 1 if k else 1):
        # The k − 1 bars among total + k − 1 places cut the bits into k parts.
        for bars in combinations(range(total + k - 1), k - 1) if k else [()]:
            edges = (-1, *bars, total + k - 1)
            block.append([right - left - 1 for left, right in pairwise(edges)][:k])
            if len(block) == ROWS_AT_ONCE:
                yield np.asarray(block, dtype=np.int64)
                block = []
    if block:
        yield np.asarray(block, dtype=np.int64).reshape(len(block), k)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a state costs with an index configuration or a set of indexes, and the bytes that it takes."""

    configuration: tuple[Any, ...]
    cost: float
    bytes: int


def divide(budget: int, states: Sequence[Sequence[Choice]]) -> tuple[Choice, ...]:
    """One choice for each state, the least cost in all within a budget of bytes: the multiple-choice knapsack problem,
    by dynamic programming over the combinations that no other beats in both bytes and cost.

    Each state needs a choice that fits; give it one without bits.

    >>> cheap, dear = [Choice((0,), 90.0, 0), Choice((3,), 10.0, 64)], [Choice((0,), 50.0, 0), Choice((3,), 20.0, 64)]
    >>> [c.configuration for c in divide(64, [cheap, dear])]
    [(3,), (0,)]
    """
    frontier: list[tuple[int, float, tuple[Choice, ...]]] = [(0, 0.0, ())]
    for choices in states:
        longer = [
            (used + c.bytes, cost + c.cost, (*chosen, c))
            for used, cost, chosen in frontier
            for c in choices
            if used + c.bytes <= budget
        ]
        longer.sort(key=lambda entry: entry[:2])
        frontier = []
        for entry in longer:
            if not frontier or entry[1] < frontier[-1][1]:
                frontier.append(entry)
    if not frontier:
        raise ValueError("no choice of every state fits into the budget")
    return frontier[-1][2]


def divide_by_gain(
    budget: float, states: Sequence[Sequence[Choice]], hulls: Sequence[Sequence[Choice]] | None = None
) -> tuple[Choice, ...]:
    """As ``divide``, in microseconds, and the best up to one choice: step by step the state gets more bytes that gains
    most for each of them, along the lower convex hull of its choices; then each state what still fits. ``states`` have
    their choices in order of bytes, each cheaper than the one before, and the first of all states fit. ``hulls`` are
    their lower convex hulls, if they are known.

    >>> cheap, dear = [Choice((0,), 90.0, 0), Choice((3,), 10.0, 64)], [Choice((0,), 50.0, 0), Choice((3,), 20.0, 64)]
    >>> [c.configuration for c in divide_by_gain(64, [cheap, dear])]
    [(3,), (0,)]
    """
    chosen = [choices[0] for choices in states]
    left = budget - sum(c.bytes for c in chosen)
    hulls = list(map(convex_hull, states)) if hulls is None else hulls
    steps = [(_gain(a, b), s, b) for s, hull in enumerate(hulls) for a, b in pairwise(hull)]
    for _, s, better in sorted(steps, key=lambda step: -step[0]):
        if (more := better.bytes - chosen[s].bytes) <= left:
            chosen[s], left = better, left - more
    for s, choices in enumerate(states):
        best = ([c for c in choices if c.bytes - chosen[s].bytes <= left] or [chosen[s]])[-1]
        chosen[s], left = best, left - (best.bytes - chosen[s].bytes)
    return tuple(chosen)


def convex_hull(choices: Sequence[Choice]) -> list[Choice]:
    """The choices on the lower convex hull of cost over bytes."""
    hull: list[Choice] = []
    for c in choices:
        while len(hull) > 1 and _gain(hull[-2], hull[-1]) <= _gain(hull[-1], c):
            hull.pop()
        hull.append(c)
    return hull


def _gain(one: Choice, other: Choice) -> float:
    """What the other choice spares for each byte that it takes more."""
    return (one.cost - other.cost) / max(1, other.bytes - one.bytes)


def most_frequent(frequencies: Mapping[int, float], count: int) -> tuple[int, ...]:
    """Conventional selection of hash indices: one for each of the patterns that are asked for most.

    >>> most_frequent({0b100: 0.2, 0b011: 0.5, 0b111: 0.3, 0: 0.6}, 2)
    (3, 7)
    """
    asked = [p for p in frequencies if p]
    return tuple(sorted(asked, key=lambda p: (-frequencies[p], p))[:count])
