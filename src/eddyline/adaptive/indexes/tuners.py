"""Index tuning as policies: what all tuners share, adaptive hash indices and single-attribute hashes.

AMRI and the static bitmap are in ``amri.py``.

A tuner receives how often each state is searched by which access pattern, and decides with which indexes new partitions
of a state are made and which stored partitions are re-indexed. It knows no operator: an index is a tuple of *bits*
(``("bits", 3, 1)``) or of *hashed* attributes (``("hashed", 0, 2)``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from eddyline.adaptive.indexes import access_patterns
from eddyline.adaptive.indexes.access_patterns import attributes_of
from eddyline.adaptive.indexes.assessment import Assessment, make_assessment
from eddyline.adaptive.indexes.cost import EQUAL_COSTS, UnitCosts, Workload
from eddyline.adaptive.indexes.index_sets import IndexKey, IndexSet, upkeep
from eddyline.adaptive.indexes.migration import ExpectedCosts, runs_of
from eddyline.adaptive.indexes.scheduling import Schedule, make_schedule
from eddyline.adaptive.indexes.selection import most_frequent
from eddyline.streamon.decision import Decision
from eddyline.streamon.wording import Evidence, sentence

MOST_BITS = 16  # an open bit doubles the buckets that a search visits: with 64 a wild card would mean millions
CHANGE_RATIO = 1.2  # of costs, from which bits are changed: a change brings one more index to search for a window
EXPECTED_WORTH = 1.05  # the same where migration and the indexes of old partitions are part of both costs
BLEND = 0.5  # weight of the newest assessment: routes change from batch to batch, and bits last for a partition
NEGLIGIBLE = 0.001  # share below which a pattern is forgotten
FIRST_BATCH, BATCH_WEIGHT = 128.0, 1 / 32  # searches and rows of a batch before any came; weight of the newest
SEARCHES = "searches of a state by access pattern"


@dataclass(frozen=True, slots=True)
class StateFacts:
    """What a tuner may know of a state when it decides: join attributes, rows in the window, partitions as they are."""

    names: tuple[str, ...]
    rows: int
    partitions: Sequence[tuple[tuple[IndexKey, ...], int]] = ()  # indexes and rows of each
    in_process: Sequence[int] = ()  # of each partition: searches in flight whose windows contain it
    agreeing: Mapping[int, float] = field(default_factory=dict)
    admitted: Mapping[int, float] = field(default_factory=dict)
    full: int = 0  # rows of the window when it is full, 0: not known

    @property
    def bits(self) -> int:
        """⌈log2 rows⌉, at most ``MOST_BITS``."""
        return min(MOST_BITS, max(0, math.ceil(math.log2(max(1, self.rows)))))


@dataclass(frozen=True, slots=True)
class Tuning:
    """A decision for one state: indexes of partitions to come, and the places of stored partitions that get them."""

    state: int
    indexes: tuple[IndexKey, ...]
    migrate: tuple[int, ...]
    decision: Decision


class IndexTuner(ABC):
    """Statistics of searches in, indexes out. ``unit`` are the costs of the operations as far as they are known."""

    name: str
    unit: UnitCosts = EQUAL_COSTS
    learns_by: tuple[str | float, ...] = ()  # what another tuner must share to go on from its statistics

    @abstractmethod
    def initial(self, attributes: int) -> tuple[IndexKey, ...]:
        """The indexes of a state that nothing is known of."""

    def searched(self, state: int, pattern: int, requests: int) -> None:  # noqa: B027
        """Searches of a state by one access pattern."""

    def round_ended(self) -> list[int]:
        """All batches of a round have found their way; the states that the tuner wants to decide about."""
        return []

    def inserted(self, state: int, rows: int) -> None:  # noqa: B027 (most tuners do not care)
        """Rows that arrived in a state."""

    def decide(self, state: int, facts: Sequence[StateFacts]) -> list[Tuning]:
        """New indexes for states, after ``round_ended`` named one."""
        return []

    def take_over(self, state: int, indexes: tuple[IndexKey, ...]) -> None:  # noqa: B027
        """Decide from now on about a state that another tuner has given these indexes."""

    def frequencies(self, state: int) -> Mapping[int, float]:
        """The access patterns of a state with their shares, as far as they are known."""
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Mapping[str, Any]) -> None:  # noqa: B027 (what never learns has nothing to load)
        """The inverse of ``state``."""


class SingleHashes(IndexTuner):
    """A hash index on each join attribute; a search takes one of those it has a value for, and compares the rest."""

    name = "single"

    def initial(self, attributes: int) -> tuple[IndexKey, ...]:
        return tuple(("hashed", a) for a in range(attributes))


class Assessed(IndexTuner):
    """What AMRI, adaptive hash indices and the static bitmap share: assessment by a schedule.

    An assessment is of whole *rounds*: in a round some rows of each input take their whole routes. A batch has
    thousands of searches by one pattern, so that one which ended amid a round would see the patterns of that batch.
    """

    def __init__(
        self, states: Sequence[int], assessment: str, theta: float, epsilon: float, scheduling: str, window: int,
        periodic: int, triggered: int, change: float, migration: str, seed: int,
    ) -> None:  # fmt: skip
        self.attributes = tuple(states)
        self.migration = migration
        self.learns_by = (assessment, theta, epsilon, scheduling)
        self.assessments: list[Assessment] = [make_assessment(assessment, n, theta, epsilon, seed) for n in states]
        self.schedule: Schedule = make_schedule(scheduling, len(states), window, periodic, triggered, change)
        self.arrived = [0] * len(states)
        self.known: list[dict[int, float]] = [{} for _ in states]  # of the last assessment
        self.load_ratio = [1.0] * len(states)  # searches for each arriving row, in the last assessment
        # Searches and rows that a batch brings to a state, on average; not saved.
        self.batch, self.brought = [FIRST_BATCH] * len(states), [FIRST_BATCH] * len(states)
        self.counting: set[int] = set(range(len(states)))  # states assessed in this round
        self.full: set[int] = set()  # those of them that have had enough requests
        for s in range(len(states)):
            self.schedule.start(s)  # nothing is known yet: the first requests decide

    def searched(self, state: int, pattern: int, requests: int) -> None:
        self.batch[state] += BATCH_WEIGHT * (requests - self.batch[state])
        if state not in self.counting:
            self.schedule.count(state, pattern, requests)
        else:
            self.assessments[state].search(pattern, requests)
            if self.schedule.searched(state, pattern, requests):
                self.full.add(state)

    def round_ended(self) -> list[int]:
        due = sorted(self.full)
        self.full.clear()
        for s in due:
            self.complete(s)
        before, self.counting = self.counting, set(self.schedule.running)
        for s in self.counting - before:
            self.arrived[s] = 0  # rows count from where requests do
        return due

    def inserted(self, state: int, rows: int) -> None:
        self.arrived[state] += rows
        if rows:
            self.brought[state] += BATCH_WEIGHT * (rows - self.brought[state])

    def complete(self, state: int) -> None:
        """Read an assessment that is complete, and begin the next."""
        assessment = self.assessments[state]
        now, before = assessment.frequencies(), self.known[state]
        if before:
            now = {p: BLEND * now.get(p, 0.0) + (1 - BLEND) * before.get(p, 0.0) for p in now.keys() | before.keys()}
        self.known[state] = {p: f for p, f in now.items() if f >= NEGLIGIBLE}
        self.load_ratio[state] = assessment.requests / max(1, self.arrived[state])
        self.arrived[state] = 0
        assessment.restart()

    def frequencies(self, state: int) -> Mapping[int, float]:
        return self.known[state]

    def state(self) -> dict[str, Any]:
        return {
            "assessments": [a.state() for a in self.assessments],
            "schedule": self.schedule.state(),
            "arrived": list(self.arrived),
            "known": [sorted(k.items()) for k in self.known],
            "load_ratio": list(self.load_ratio),
            "counting": sorted(self.counting),
            "full": sorted(self.full),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        for assessment, saved in zip(self.assessments, state["assessments"], strict=True):
            assessment.load(saved)
        self.schedule.load(state["schedule"])
        self.arrived = [int(a) for a in state["arrived"]]
        self.known = [{int(p): float(f) for p, f in k} for k in state["known"]]
        self.load_ratio = [float(r) for r in state["load_ratio"]]
        self.counting, self.full = ({int(s) for s in state[n]} for n in ("counting", "full"))


class Costed(Assessed):
    """What AMRI and ``fitting`` share: indexes are chosen by what they are expected to cost.

    ``unit`` are the costs of the operations; ``budget`` is bytes, divided among the states by what each gains from
    them, None for no limit. ``partition`` is the number of rows of a partition.
    """

    def __init__(
        self, *args: Any, unit: UnitCosts, budget: int | None = None, partition: int = 2_500, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.unit, self.budget, self.partition = unit, budget, partition

    def workload(self, state: int, facts: Sequence[StateFacts]) -> Workload:
        """The load of a state whose partitions all have one index: what a configuration leads to if it stays."""
        rows, mine = float(max(1, facts[state].rows)), facts[state]
        # One unit of time is one window: as many rows arrive as it holds.
        searches = rows * self.load_ratio[state]
        batches = self.batch[state], self.brought[state]
        return Workload(rows, searches, 1.0, self.known[state], 1.0, mine.agreeing, mine.admitted, *batches)

    def expected(
        self, before: IndexSet, after: IndexSet, load: Workload, facts: StateFacts
    ) -> tuple[tuple[float, float], list[int]]:
        """The least expected cost of the window to come with the old and with the new indexes of arriving rows, and the
        places of the partitions that get the new ones."""
        costs = ExpectedCosts(runs_of(facts.partitions), len(facts.names), load, self.unit)
        (old, _), (new, newest) = costs.least(before), costs.least(after)
        return (old, new), list(range(len(facts.partitions) - newest, len(facts.partitions)))

    def evidence(self, state: int, facts: StateFacts, moved: Sequence[int]) -> dict[str, Any]:
        """What a decision about a state rests on."""
        shares = sorted(self.known[state].items(), key=lambda x: -x[1])
        return {
            "patterns": {spelled(p, facts.names): round(f, 4) for p, f in shares},
            "searches_per_row": self.load_ratio[state],
            "rows": facts.rows,
            "moved_rows": sum(facts.partitions[i][1] for i in moved),
        }

    def moving(self, facts: StateFacts, moved: Sequence[int], indexes: IndexSet) -> float | None:
        """What a decision costs: to put the rows of the moved partitions into the new indexes. None if none move."""
        rows = sum(facts.partitions[i][1] for i in moved)
        return rows * upkeep(indexes, self.unit) + self.unit.build if rows else None

    @property
    def units(self) -> dict[str, str]:
        """Those of the evidence and the cost of a decision."""
        return {"rows": "rows", "moved_rows": "rows", "cost": "operations" if self.unit == EQUAL_COSTS else "ns"}


class AdaptiveHashes(Assessed):
    """``count`` hash indices on each state, for the access patterns that are asked for most (9.3)."""

    name = "hash"

    def __init__(self, *args: Any, count: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.count = count
        self.indexes: list[tuple[IndexKey, ...]] = [() for _ in self.attributes]

    def initial(self, attributes: int) -> tuple[IndexKey, ...]:
        return tuple(("hashed", a) for a in range(min(attributes, self.count)))

    def take_over(self, state: int, indexes: tuple[IndexKey, ...]) -> None:
        self.indexes[state] = tuple(indexes)

    def decide(self, state: int, facts: Sequence[StateFacts]) -> list[Tuning]:
        n, names = self.attributes[state], facts[state].names
        patterns = most_frequent(self.known[state], self.count)
        chosen = tuple(("hashed", *attributes_of(p, n)) for p in patterns)
        before = self.indexes[state]
        if not chosen or set(chosen) == set(before):
            return []
        self.indexes[state] = chosen
        shares = {spelled(p, names): round(f, 4) for p, f in self.known[state].items()}
        decision = Decision(
            "hash indexes",
            [list(attributes[1:]) for attributes in before],
            [spelled(p, names) for p in patterns],
            SEARCHES,
            {"patterns": shares},
        )
        moved = range(len(facts[state].partitions)) if self.migration == "all" else ()
        return [Tuning(state, chosen, tuple(moved), decision)]

    def state(self) -> dict[str, Any]:
        return {**super().state(), "indexes": [[list(i) for i in some] for some in self.indexes]}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.indexes = [tuple((str(k), *(int(a) for a in rest)) for k, *rest in some) for some in state["indexes"]]


spelled = lru_cache(maxsize=1 << 12)(
    access_patterns.spelled
)  # each decision spells dozens, mostly those of the one before


@sentence(SEARCHES)
def _sentence(evidence: Evidence) -> str:
    shares = (f"{pattern} {100 * share:.0f} %" for pattern, share in evidence["patterns"].items())
    return f"searches by {', '.join(shares)}"
