"""The search of a batch of partial results in the next state module: attributes, and the range of values for each.

An equality class gives one value for each key of the target; a comparison with a bound input (``a < b``) gives a
bound of its range. The attributes that are asked for are the access pattern of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.operators.join_plan import Condition, JoinGraph, Member
from eddyline.synopses.state_module import Search

LEAST_CODE, GREATEST_CODE = -(1 << 63), (1 << 63) - 1
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}

CodesOf = Callable[[Member], Int64s]  # of a bound member, for each partial result of the batch


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """``equal`` pairs attributes of the target's module with bound members, ``ranges`` and ``unequal`` likewise with an
    operator that has the target's attribute on its left."""

    target: int
    asked: tuple[int, ...]
    equal: tuple[tuple[int, Member], ...]
    ranges: tuple[tuple[int, str, Member], ...]
    unequal: tuple[tuple[int, Member], ...]
    attributes: Int64s = field(init=False, repr=False, compare=False)  # those asked for
    by_value: frozenset[int] = field(init=False, repr=False, compare=False)  # those that a search gives one value for
    one_value_each: bool = field(init=False, repr=False, compare=False)  # whether one member gives it, for each

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", np.array(self.asked, np.int64))
        object.__setattr__(self, "by_value", frozenset(a for a, _ in self.equal))
        object.__setattr__(self, "one_value_each", not self.ranges and len(self.equal) == len(self.asked))

    @staticmethod
    def of(
        graph: JoinGraph, conditions: Sequence[Condition], target: int, bound: Sequence[int], columns: Sequence[int]
    ) -> SearchPlan:
        """``columns`` are for each key of the target the attribute of its module that it is."""
        step = graph.step(target, bound)
        equal = tuple(zip([columns[key] for key in step.columns], step.probes, strict=True))
        ranges: list[tuple[int, str, Member]] = []
        unequal: list[tuple[int, Member]] = []
        for c in conditions:
            for mine, op, theirs in ((c.left, c.op, c.right), (c.right, MIRRORED[c.op], c.left)):
                if mine.input == target and theirs.input in bound:
                    if op == "ne":
                        unequal.append((columns[mine.key], theirs))
                    else:
                        ranges.append((columns[mine.key], op, theirs))
        asked = tuple(sorted({a for a, _ in equal} | {a for a, _, _ in ranges}))
        return SearchPlan(target, asked, equal, tuple(ranges), tuple(unequal))

    def pattern(self, attributes: int) -> int:
        """The number of the access pattern, the first attribute its highest bit."""
        return sum(1 << (attributes - 1 - a) for a in self.asked)

    def search(self, codes: CodesOf, requests: int, max_enter: Int64s, min_leave: Int64s) -> Search:
        low = np.full((requests, len(self.asked)), LEAST_CODE, np.int64)
        high = np.full((requests, len(self.asked)), GREATEST_CODE, np.int64)
        place = {a: j for j, a in enumerate(self.asked)}
        for key, member in self.equal:
            values, j = codes(member), place[key]
            low[:, j], high[:, j] = np.maximum(low[:, j], values), np.minimum(high[:, j], values)
        for key, op, member in self.ranges:
            values, j = codes(member), place[key]
            if op in ("lt", "le"):
                # Nothing is below the least value: a range that ends there is empty.
                last = values if op == "le" else np.where(values == LEAST_CODE, LEAST_CODE, values - 1)
                high[:, j] = np.minimum(high[:, j], last)
                if op == "lt":
                    low[values == LEAST_CODE, j] = GREATEST_CODE
            else:
                first = values if op == "ge" else np.where(values == GREATEST_CODE, GREATEST_CODE, values + 1)
                low[:, j] = np.maximum(low[:, j], first)
                if op == "gt":
                    high[values == GREATEST_CODE, j] = LEAST_CODE
        return Search(self.attributes, low, high, max_enter, min_leave, self.by_value)


@dataclass(slots=True)
class Visit:
    """What all batches with the same inputs bound have in common when they visit a state. ``members`` are, where one
    gives the value of each attribute that is asked for, its input, its attribute there and its place in the search;
    ``carried`` are the lines of partial results that are taken along, ``pattern`` the number of the access pattern."""

    plan: SearchPlan
    members: tuple[tuple[int, int, int], ...]
    carried: Int64s
    pattern: int
    fanout: float = 0.0  # rows found for one, in the last batch

    @staticmethod
    def of(plan: SearchPlan, bound: Sequence[int], columns: Sequence[Sequence[int]], attributes: int) -> Visit:
        """``columns`` are for each key of each input the attribute of its module that it is; the target's module has so
        many ``attributes``."""
        members = ((m.input, columns[m.input][m.key], plan.asked.index(a)) for a, m in plan.equal)
        carried = np.array([*bound, len(columns), len(columns) + 1], np.int64)
        return Visit(plan, tuple(members), carried, plan.pattern(attributes))
