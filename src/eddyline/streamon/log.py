"""The decision log: every decision of a query in the order in which it was taken, in bounded space.

Invariants. A record's number is never reused, also after a restart. A record that has left the log is counted
(``left_out``). A follower receives each record once; one that reads too slowly loses the oldest
records that wait for it, counts how many (``lost``), and never makes the query wait.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any, Protocol, TypeVar

from eddyline.core.time import Clock, SystemClock
from eddyline.streamon.decision import USER, Decision

MAX_RECORDS = 1000  # records: enough for a day of hourly changes of a dozen operators
SAVED_RECORDS = 200  # the newest records, which a snapshot contains
MAX_WAITING_RECORDS = 1000  # records that wait for one follower, at most


class Follower:
    """The records of a log from now on. Iterating takes what waits and does not block."""

    def __init__(self, most: int = MAX_WAITING_RECORDS) -> None:
        self._waiting: deque[Decision] = deque(maxlen=most)
        self.lost = 0  # records that were not read in time

    def put(self, decision: Decision) -> None:
        if len(self._waiting) == self._waiting.maxlen:
            self.lost += 1
        self._waiting.append(decision)

    def settle(self, sequence: int, measured_gain: float) -> None:
        """The gain of a record was measured; who only reads what was decided does not mind."""

    def __iter__(self) -> Iterator[Decision]:
        while self._waiting:
            yield self._waiting.popleft()


F = TypeVar("F", bound=Follower)


class Measuring(Protocol):
    """Who measures the gain of a record (``streamon.gains``)."""

    def so_far(self) -> tuple[int | None, float | None]:
        """The number of the record that is being measured, and its gain as measured so far."""


class DecisionLog:
    """The log of one query, or of one shard of it.

    >>> log = DecisionLog(query="pairs")
    >>> follower = log.follow()
    >>> first = log.record(Decision("filter order", (0, 1), (1, 0), expected_gain=1.3), operator="select 1")
    >>> first.sequence, first.operator, first.query, [d.kind for d in follower], list(follower)
    (1, 'select 1', 'pairs', ['filter order'], [])
    >>> log.settle(first.sequence, 1.25)
    >>> [d.measured_gain for d in log]
    [1.25]
    >>> [d.sequence for d in log.after(0)], log.after(first.sequence)
    ([1], [])
    """

    def __init__(
        self, *, query: str = "", shard: int | None = None, clock: Clock | None = None, most: int = MAX_RECORDS
    ) -> None:
        self.query, self.shard, self.clock = query, shard, clock or SystemClock()
        self._records: deque[Decision] = deque(maxlen=most)
        self._followers: list[Follower] = []
        self._measuring: list[Measuring] = []
        self.taken = 0  # records so far
        self.silent = False  # while a plan is built again whose decisions stand here already

    def record(self, decision: Decision, *, operator: str | None = None) -> Decision:
        """Enter a decision; the record that it becomes."""
        if self.silent:
            return decision if operator is None else replace(decision, operator=operator)
        self.taken += 1
        record = replace(
            decision,
            sequence=self.taken,
            wall=self.clock.now(),
            query=self.query,
            shard=self.shard,
            operator=decision.operator if operator is None else operator,
        )
        self._records.append(record)
        for follower in self._followers:
            follower.put(record)
        return record

    def belongs_to(self, query: str, shard: int | None = None) -> None:
        """Whose log this is: all records carry it, also those that are here already."""
        self.query, self.shard = query, shard
        for place, record in enumerate(self._records):
            self._records[place] = replace(record, query=query, shard=shard)

    def settle(self, sequence: int | None, measured_gain: float) -> None:
        """Enter what a decision gained. A record that has left the log meanwhile stays as it was."""
        if sequence is None or not self._records:
            return
        place = self._place(sequence)
        if place is not None:
            self._records[place] = replace(self._records[place], measured_gain=measured_gain)
        for follower in self._followers:
            follower.settle(sequence, measured_gain)

    def measured_by(self, meter: Measuring) -> None:
        """Register ``meter``, which can estimate the gain of a record before it is settled."""
        self._measuring.append(meter)

    def not_measured_by(self, meter: Measuring) -> None:
        """``meter`` measures nothing any more: another policy has taken the operator over."""
        self._measuring.remove(meter)

    def find(self, sequence: int) -> Decision | None:
        """The record with this number, if it is still here."""
        place = self._place(sequence)
        return None if place is None else self._records[place]

    def _place(self, sequence: int) -> int | None:
        """Numbers grow, but after ``restart`` some are missing."""
        place = bisect_left(self._records, sequence, key=lambda d: d.sequence or 0)
        return place if place < len(self._records) and self._records[place].sequence == sequence else None

    def follow(self, most: int = MAX_WAITING_RECORDS) -> Follower:
        """A follower that receives every record from now on, until ``unfollow``."""
        return self.add_follower(Follower(most))

    def add_follower(self, follower: F) -> F:
        """The same for one that exists."""
        self._followers.append(follower)
        return follower

    def restart(self) -> None:
        """The plan is made anew before anything was run: the decisions about the old one are removed, and what the user
        decided stays."""
        self._records = deque((d for d in self._records if d.by == USER), self._records.maxlen)

    def unfollow(self, follower: Follower) -> None:
        self._followers.remove(follower)

    @property
    def left_out(self) -> int:
        """Records that are no longer here."""
        return self.taken - len(self._records)

    def of(self, operator: str) -> list[Decision]:
        """The records of one operator, oldest first."""
        return [d for d in self if d.operator == operator]

    def __iter__(self) -> Iterator[Decision]:
        """Oldest first, each with its gain as far as it is known."""
        return self._with_gains(list(self._records))

    def after(self, sequence: int) -> list[Decision]:
        """The records with larger numbers, oldest first: the work grows with these, and not with the log."""
        newer = list(takewhile(lambda d: (d.sequence or 0) > sequence, reversed(self._records)))
        return list(self._with_gains(newer[::-1]))

    def _with_gains(self, records: Iterable[Decision]) -> Iterator[Decision]:
        known = dict(m.so_far() for m in self._measuring)
        for d in records:
            gain = known.get(d.sequence) if d.measured_gain is None else None
            yield d if gain is None else replace(d, measured_gain=gain)

    def __len__(self) -> int:
        return len(self._records)

    def state(self) -> dict[str, Any]:
        return {"taken": self.taken, "records": [d.state() for d in list(self)[-SAVED_RECORDS:]]}

    def load(self, state: Mapping[str, Any]) -> None:
        """What stands here already (decisions of the planner at this start) is removed: the saved log has it."""
        self.taken = int(state["taken"])
        self._records = deque(map(Decision.load, state["records"]), maxlen=self._records.maxlen)


def merged(logs: Iterable[Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The records of several shards as plain data, by the clock on the wall; each says its shard.

    The records of one shard stay in the order of their numbers, also where its clock was set back: a record is not
    earlier than those before it.

    >>> a = DecisionLog(shard=0); b = DecisionLog(shard=1)
    >>> _ = a.record(Decision("join order", None, "R, S")); _ = b.record(Decision("join order", None, "S, R"))
    >>> [(d["shard"], d["after"]) for d in merged([[d.to_dict() for d in log] for log in (a, b)])]
    [(0, 'R, S'), (1, 'S, R')]
    """
    found: list[tuple[tuple[int, int, int], dict[str, Any]]] = []
    for log in logs:
        latest = 0
        for d in sorted(log, key=lambda d: d.get("sequence") or 0):
            latest = max(latest, d.get("wall") or 0)
            found.append(((latest, d.get("shard") or 0, d.get("sequence") or 0), dict(d)))
    return [d for _, d in sorted(found, key=lambda pair: pair[0])]
