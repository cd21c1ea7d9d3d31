"""AMRI, the adaptive multi-route index: bits of each state are chosen by the searches, and chosen again as they change.

The static bitmap is the same index with bits that are chosen once (section 9 of the paper compares the two).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.adaptive.indexes.cost import Configuration, Workload, dependent_cost
from eddyline.adaptive.indexes.index_sets import HEAD_BYTES, IndexKey, bits_of
from eddyline.adaptive.indexes.migration import EXPECTED, StoredPartition, to_migrate
from eddyline.adaptive.indexes.selection import Choice, divide, select
from eddyline.adaptive.indexes.tuners import (
    CHANGE_RATIO,
    EXPECTED_WORTH,
    MOST_BITS,
    SEARCHES,
    Costed,
    StateFacts,
    Tuning,
)
from eddyline.streamon.decision import Decision


class Amri(Costed):
    """The Adaptive Multi-Route Index: a bit-address index for each state, its bits chosen anew as searches change. The
    budget is that of the buckets."""

    name = "amri"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.configurations: list[Configuration] = [bits_of(self.initial(n), n) for n in self.attributes]

    def initial(self, attributes: int) -> tuple[IndexKey, ...]:
        """Bits for all attributes alike, as many in all as a partition can use: 12 with 2,500 rows."""
        each, rest = divmod(min(MOST_BITS, (self.partition - 1).bit_length()), max(1, attributes))
        return (("bits", *(each + (a < rest) for a in range(attributes))),)

    def take_over(self, state: int, indexes: tuple[IndexKey, ...]) -> None:
        self.configurations[state] = bits_of(indexes, self.attributes[state])

    def decide(self, state: int, facts: Sequence[StateFacts]) -> list[Tuning]:
        if self.budget is None:
            loads = {state: self.workload(state, facts)}
            chosen = {state: select(self.attributes[state], facts[state].bits, loads[state], self.unit)}
        else:
            loads = {s: self.workload(s, facts) for s in range(len(facts)) if self.known[s]}
            chosen = self._divided(facts, loads)
        found = (self._tuning(s, best, loads[s], facts[s]) for s, best in chosen.items())
        return [tuning for tuning in found if tuning is not None]

    def _divided(self, facts: Sequence[StateFacts], loads: Mapping[int, Workload]) -> dict[int, Configuration]:
        """The bits of the states whose ``loads`` are known, within the budget."""
        assert self.budget is not None
        choices: list[list[Choice]] = []
        for s, load in loads.items():
            options = []
            for bits in range(facts[s].bits + 1):
                best = select(self.attributes[s], bits, load, self.unit)
                used = sum(best)
                options.append(Choice(best, dependent_cost(best, load, self.unit), (HEAD_BYTES << used) if used else 0))
            choices.append(options)
        return {s: c.configuration for s, c in zip(loads, divide(self.budget, choices), strict=True)}

    def _tuning(self, state: int, best: Configuration, load: Workload, mine: StateFacts) -> Tuning | None:
        before = self.configurations[state]
        if best == before:
            return None
        if self.migration == EXPECTED:
            costs, moved = self.expected((("bits", *before),), (("bits", *best),), load, mine)
            worth = EXPECTED_WORTH
        else:
            searches = mine.in_process or [0] * len(mine.partitions)
            stored = [
                StoredPartition(bits_of(indexes, len(best)), rows, s)
                for (indexes, rows), s in zip(mine.partitions, searches, strict=True)
            ]
            costs = (dependent_cost(before, load, self.unit), dependent_cost(best, load, self.unit))
            worth, moved = CHANGE_RATIO, to_migrate(self.migration, stored, best, self.known[state], self.unit)
        if costs[0] < worth * costs[1]:
            return None
        self.configurations[state] = best
        names = mine.names
        decision = Decision(
            "index bits",
            dict(zip(names, before, strict=True)),
            dict(zip(names, best, strict=True)),
            SEARCHES,
            self.evidence(state, mine, moved),
            self.units,
            expected_gain=costs[0] / costs[1] if costs[1] > 0 else None,
            cost=self.moving(mine, moved, (("bits", *best),)),
        )  # fmt: skip
        return Tuning(state, (("bits", *best),), tuple(moved), decision)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "configurations": [list(c) for c in self.configurations]}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.configurations = [tuple(int(b) for b in c) for c in state["configurations"]]


class StaticBitmap(Amri):
    """A bit-address index whose bits are chosen once for each state, from its first requests, and then stay."""

    name = "bitmap"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settled = [False] * len(self.attributes)

    def round_ended(self) -> list[int]:
        return [s for s in super().round_ended() if not self.settled[s]]

    def decide(self, state: int, facts: Sequence[StateFacts]) -> list[Tuning]:
        self.settled[state] = True
        return super().decide(state, facts)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "settled": list(self.settled)}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.settled = [bool(s) for s in state["settled"]]
