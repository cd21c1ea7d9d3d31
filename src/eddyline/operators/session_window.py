"""``[SESSION g GAP PARTITION BY k]``: elements wait until their session has closed, and are shown together then.

A session closes ``gap`` after its last element. Elements come in order of time, so sessions never have to be merged:
what came out of order was put in order before (``engine.reorder``), and what is late belongs to no session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eddyline.core.bound import Bound, bound_of
from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.core.window import Session
from eddyline.kernels import sessions as k
from eddyline.operators.base import Operator
from eddyline.operators.window_columns import Edges, edge_columns
from eddyline.synopses.keys import KeyTable
from eddyline.synopses.slot_rows import SlotRows
from eddyline.synopses.tail import Tail

_BY_GROUP, _BY_SLOT = ("head", "tail", "start", "last"), ("following", "number")


class SessionWindow(Operator):
    """Elements enter at the end of their session and leave at the next instant, in order of arrival.

    >>> import pyarrow as pa
    >>> from eddyline.core.schema import Field
    >>> schema = Schema((Field("a", pa.string()), Field("s", pa.int64())))
    >>> window = SessionWindow("session-window 1", schema, Session(3, ("a",)), {"s": "start"})
    >>> out = window.process([Delta(np.array([1, 2, 3]), {"a": pa.array(["x", "y", "x"])})], 6)
    >>> out.time.tolist(), out.columns["a"].to_pylist(), out.columns["s"].to_pylist(), out.weights.tolist()
    ([5, 6, 6, 6], ['y', 'y', 'x', 'x'], [2, 2, 1, 1], [1, -1, 1, 1])
    """

    def __init__(
        self, name: str, schema: Schema, spec: Session, edges: Edges, deletes: bool = True, label: str = ""
    ) -> None:
        super().__init__(name, schema)
        self.spec, self.edges, self.deletes, self.label = spec, edges, deletes, label or str(spec)
        self.below = Schema(tuple(f for f in schema if f.name not in edges))
        self.groups = KeyTable([schema[c].type for c in spec.columns])
        self.held = SlotRows(self.below)
        self.arrived = self.shown = 0  # elements; those that have entered are numbered anew, in that order
        self.queue_time, self.queue_group = Tail(), Tail()
        self.head, self.tail = np.full(64, -1, np.int64), np.full(64, -1, np.int64)
        self.start, self.last = np.zeros(64, np.int64), np.zeros(64, np.int64)
        self.following, self.number = np.full(64, -1, np.int64), np.zeros(64, np.int64)
        self.leaving = Delta.empty(schema)  # what has entered at the last instant

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        entering = self._closed(delta, frontier)
        if not self.deletes:
            return entering
        before, self.leaving = self.leaving, Delta.empty(self.schema)
        staying = int(entering.time.searchsorted(frontier, "left"))
        if staying < len(entering):
            self.leaving = entering.slice(staying, len(entering))
        going = [d for d in (before, entering.slice(0, staying)) if len(d)]
        if not going:
            return entering
        gone = [Delta(d.time + 1, d.columns, np.full(len(d), -1, np.int64), d.ids) for d in going]
        come = Delta(entering.time, entering.columns, np.ones(len(entering), np.int64), entering.ids)
        return Delta.merge([*gone, come])

    def _closed(self, delta: Delta, frontier: int) -> Delta:
        """The elements of sessions that have closed, at their ends."""
        n = len(delta)
        group = self.groups.intern([delta.columns[c] for c in self.spec.columns], n) if n else np.empty(0, np.int64)
        numbers = np.arange(self.arrived, self.arrived + n, dtype=np.int64)
        self.arrived += n
        slot = self.held.insert(delta.columns, n)
        self._fit()
        self.number[slot] = numbers
        self.queue_time.append(delta.time)
        self.queue_group.append(group)
        progress = np.zeros(2, np.int64)
        end, start, place, closed = (np.empty(len(self.held), np.int64) for _ in range(4))
        found = k.close_sessions(
            np.ascontiguousarray(delta.time), np.ascontiguousarray(group), np.ascontiguousarray(slot), self.spec.gap,
            frontier, self.queue_time.values, self.queue_group.values, progress, self.head, self.tail, self.start,
            self.last, self.following, end, start, place, closed,
        )  # fmt: skip
        looked_at, sessions = progress.tolist()
        self.queue_time.forget(looked_at)
        self.queue_group.forget(looked_at)
        groups = np.unique(closed[:sessions])
        self.groups.release(groups[self.head[groups] < 0])  # one whose next session has begun already stays
        return self._shown(end[:found], start[:found], place[:found])

    def _shown(self, end: Int64s, start: Int64s, place: Int64s) -> Delta:
        number = self.number[place]
        if ((end[1:] == end[:-1]) & (number[1:] < number[:-1])).any():  # sessions that close at one instant
            order = np.lexsort((number, end))
            end, start, place = end[order], start[order], place[order]
        rows = self.held.probe(place)
        edges = edge_columns(self.edges, self.schema, start, end)
        ids = np.arange(self.shown, self.shown + len(end), dtype=np.int64)
        self.shown += len(end)
        self.held.expire(place)
        return Delta(end, {n: edges[n] if n in edges else rows[n] for n in self.schema.names}, None, ids)

    def _fit(self) -> None:
        while self.groups.capacity > len(self.head):
            more = np.full(len(self.head), -1, np.int64)
            for name in _BY_GROUP:
                setattr(self, name, np.concatenate([getattr(self, name), more]))
        while self.held.capacity > len(self.following):
            more = np.full(len(self.following), -1, np.int64)
            for name in _BY_SLOT:
                setattr(self, name, np.concatenate([getattr(self, name), more]))

    def state(self) -> dict[str, Any]:
        leaving = self.leaving
        return {
            **{n: getattr(self, n) for n in (*_BY_GROUP, *_BY_SLOT)},
            "arrived": self.arrived,
            "shown": self.shown,
            "queue_time": self.queue_time.values.copy(),
            "queue_group": self.queue_group.values.copy(),
            "groups": self.groups.state(),
            "held": self.held.state(),
            "leaving": {"time": leaving.time, "ids": leaving.ids, "columns": dict(leaving.columns)}
            if len(leaving)
            else {},
        }

    def load(self, state: dict[str, Any]) -> None:
        for n in (*_BY_GROUP, *_BY_SLOT):
            setattr(self, n, state[n].copy())
        self.arrived, self.shown = int(state["arrived"]), int(state["shown"])
        self.queue_time, self.queue_group = Tail(state["queue_time"]), Tail(state["queue_group"])
        self.groups.load(state["groups"])
        self.held.load(state["held"])
        kept = state["leaving"]
        self.leaving = Delta(kept["time"], kept["columns"], None, kept["ids"]) if kept else Delta.empty(self.schema)

    def size(self) -> tuple[int, int]:
        arrays = sum(getattr(self, n).nbytes for n in (*_BY_GROUP, *_BY_SLOT))
        queue = self.queue_time.nbytes + self.queue_group.nbytes
        return len(self.held) + len(self.leaving), self.held.nbytes + self.groups.nbytes + arrays + queue

    def describe(self) -> str:
        return "the elements of open sessions: grows with the length of sessions, and they end when a gap has passed"

    def bounds(self) -> dict[str, Bound]:
        return {self.label: bound_of(self.spec)}
