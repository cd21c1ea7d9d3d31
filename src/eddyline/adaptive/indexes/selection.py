"""Index selection: the configuration with the least C_D, and the division of memory among states (section 6).

``exhaustive`` compares all configurations of at most B bits. ``eprune`` first leaves out each attribute whose greatest
possible benefit (Equation 2, summed over the patterns that contain it, with all B bits) is negative, and finds the same
configuration: the bits of such an attribute can be taken away from any configuration without making it dearer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from eddyline.adaptive.indexes.cost import EQUAL_COSTS, Configuration, UnitCosts, Workload, dependent_costs
from eddyline.core.delta import Int64s

ROWS_AT_ONCE = 1 << 16  # configurations whose costs are computed in one step: bounds the memory of a selection


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


def _best(n: int, attributes: Sequence[int], bits: int, load: Workload, unit: UnitCosts) -> Configuration:
    best, least = (0,) * n, float("inf")
    for some in _configurations(n, attributes, bits):
        costs = dependent_costs(some, load, unit)
        at = int(np.argmin(costs))
        if costs[at] < least:
            best, least = tuple(int(b) for b in some[at]), float(costs[at])
    return best


def _configurations(n: int, attributes: Sequence[int], bits: int) -> Iterator[Int64s]:
    """All configurations with those attributes and at most that many bits, fewer bits first, in blocks."""
    k = len(attributes)
    block: list[list[int]] = []
    for total in range(bits + 1 if k else 1):
        # The k − 1 bars among total + k − 1 places cut the bits into k parts.
        for bars in combinations(range(total + k - 1), k - 1) if k else [()]:
            row = [0] * n
            edges = (-1, *bars, total + k - 1)
            for attribute, left, right in zip(attributes, edges, edges[1:], strict=False):
                row[attribute] = right - left - 1
            block.append(row)
            if len(block) == ROWS_AT_ONCE:
                yield np.asarray(block, dtype=np.int64)
                block = []
    if block:
        yield np.asarray(block, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a state costs with a number of bits: its best configuration, C_D, and the bytes of its buckets."""

    configuration: Configuration
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


def most_frequent(frequencies: Mapping[int, float], count: int) -> tuple[int, ...]:
    """Conventional selection of hash indices: one for each of the patterns that are asked for most.

    >>> most_frequent({0b100: 0.2, 0b011: 0.5, 0b111: 0.3, 0: 0.6}, 2)
    (3, 7)
    """
    asked = [p for p in frequencies if p]
    return tuple(sorted(asked, key=lambda p: (-frequencies[p], p))[:count])
