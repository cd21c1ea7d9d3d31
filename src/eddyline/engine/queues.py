"""Queues between operators: changes, and how far they are complete.

A queue holds the changes that one operator made and another has not yet read, and a *frontier*: all changes with
times ≤ frontier have been pushed. Progress without changes is pushed too, because operators act on time alone (a row
leaves a window at an instant at which nothing arrives).

Every batch carries a *ticket*: the number of the arrival that it goes back to. An operator hands the oldest ticket
that it consumed on to its output, so that a scheduler can find the work that has been in the system longest, also where
queries live in different times.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.core.time import BEGINNING, NEVER

_tickets = itertools.count()


@dataclass(slots=True)
class _Entry:
    delta: Delta
    frontier: int
    ticket: int


class Queue:
    """First in, first out, cut between instants only.

    >>> import pyarrow as pa
    >>> q = Queue(Schema.from_arrow(pa.schema([("a", pa.int64())])))
    >>> q.push(Delta(np.array([1, 3]), {"a": pa.array([10, 30])}), frontier=5)
    >>> q.size, q.frontier, q.pop(2).columns["a"].to_pylist(), q.size
    (2, 5, [10], 1)
    """

    def __init__(self, schema: Schema) -> None:
        self.size = 0  # elements
        self.frontier = BEGINNING
        self._entries: deque[_Entry] = deque()
        self.schema = schema
        self._empty = Delta.empty(schema)

    def push(self, delta: Delta, frontier: int, ticket: int | None = None) -> None:
        """Add the changes with times in (previous frontier, ``frontier``]. No ticket: they arrive from outside."""
        if frontier < self.frontier:
            raise ValueError(f"a frontier cannot go back from {self.frontier} to {frontier}")
        time = delta.time
        count = len(time)
        if count and not (self.frontier < time[0] and time[-1] <= frontier):
            raise ValueError(f"changes at {time[0]}…{time[-1]} are outside the instants ({self.frontier}, {frontier}]")
        if frontier == self.frontier:
            return
        self.frontier = frontier
        number = next(_tickets) if ticket is None else ticket
        if not count:
            # Mere progress joins mere progress: a quiet source must not fill a queue.
            if self._entries and not len(self._entries[-1].delta):
                self._entries[-1].frontier = frontier
                return
            delta = self._empty
        self._entries.append(_Entry(delta, frontier, number))
        self.size += count

    @property
    def waiting(self) -> bool:
        """Whether there is anything to take out, be it mere progress."""
        return bool(self._entries)

    @property
    def ticket(self) -> int:
        """Of the oldest batch; NEVER if there is none."""
        return self._entries[0].ticket if self._entries else NEVER

    def pop(self, up_to: int) -> Delta:
        """Take out the changes with times ≤ ``up_to``."""
        entries = self._entries
        if len(entries) == 1 and entries[0].frontier <= up_to:  # as good as always, and small batches feel every step
            self.size = 0
            return entries.popleft().delta
        parts: list[Delta] = []
        while entries:
            head = entries[0]
            if head.frontier <= up_to:
                if len(head.delta):
                    parts.append(head.delta)
                entries.popleft()
                continue
            cut = int(np.searchsorted(head.delta.time, up_to, side="right"))
            if cut:
                parts.append(head.delta.slice(0, cut))
                head.delta = head.delta.slice(cut, len(head.delta))
            break
        if not parts:
            return self._empty
        whole = _in_one(parts)
        self.size -= len(whole)
        return whole

    def pop_all(self) -> Delta:
        return self.pop(self.frontier)

    def drain(self, least: int = 4096) -> list[Delta]:
        """Take out all changes; batches are put together up to ``least`` elements, larger ones are not copied."""
        if len(self._entries) == 1:
            self.size = 0
            delta = self._entries.popleft().delta
            return [delta] if len(delta.time) else []
        out: list[Delta] = []
        small: list[Delta] = []
        held = 0
        for e in self._entries:
            if not len(e.delta):
                continue
            if small and held + len(e.delta) > least:
                out.append(_in_one(small))
                small, held = [], 0
            small.append(e.delta)
            held += len(e.delta)
        if small:
            out.append(_in_one(small))
        self._entries.clear()
        self.size = 0
        return out

    def head(self, count: int) -> Int64s:
        """The times of the next ``count`` elements, or of as many as there are."""
        parts: list[Int64s] = []
        for e in self._entries:
            if count <= 0:
                break
            if len(e.delta):
                parts.append(e.delta.time[:count])
                count -= len(parts[-1])
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def state(self) -> dict[str, Any]:
        """What waits, and how far it is complete. Tickets are not kept: they are about speed, not about answers."""
        waiting = [e.delta for e in self._entries if len(e.delta)]
        if not waiting:
            return {"frontier": self.frontier}
        whole = _in_one(waiting)
        return {
            "frontier": self.frontier,
            "time": whole.time,
            "weight": whole.weight,
            "ids": whole.ids,
            "columns": dict(whole.columns),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.frontier, self.size = state["frontier"], 0
        self._entries.clear()
        if self.frontier > BEGINNING:
            delta = Delta(state["time"], state["columns"], state["weight"], state["ids"]) if "time" in state else None
            self._entries.append(_Entry(self._empty if delta is None else delta, self.frontier, next(_tickets)))
            self.size = 0 if delta is None else len(delta)


def _in_one(parts: Sequence[Delta]) -> Delta:
    """Batches one after another. Some may have columns without a reader: the query that read them was removed, or is
    missing after a restart. Later batches lack these columns, so the columns that all batches have are enough."""
    if len(parts) == 1:
        return parts[0]
    names = parts[0].columns.keys()
    if any(p.columns.keys() != names for p in parts):
        common = [n for n in names if all(n in p.columns for p in parts)]
        parts = [p.with_columns({n: p.columns[n] for n in common}) for p in parts]
    return Delta.concat(parts)
