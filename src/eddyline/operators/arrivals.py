"""Identities of elements, and the order of arrival of the elements in each group.

FIRST, LAST and users' aggregates see the elements of a group in order of (time, arrival), so a deletion must name the
insertion that it undoes. Windows over streams say it with ids. Where an input has none (above a join, say), rows are
numbered as they come, and a deletion takes the oldest row that is equal in all columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.kernels import ordered
from eddyline.operators.accumulators import Accumulator, Argument, Codes, Objects, Walk, grown, roomy, used, writable
from eddyline.synopses.codes import is_direct
from eddyline.synopses.keys import KeyTable


class Arrivals:
    """The elements of a batch one by one (weights ±1), each with its id; with ``ends`` also the first and last nodes.

    ``node`` is a small integer for each living element. The node of an element that left is reused only in the next
    batch, so what was emitted may still be looked up by it.
    """

    def __init__(self, schema: Schema, ends: bool, forever: bool) -> None:
        self.schema, self.with_ends, self.forever = schema, ends, forever
        self.next_id = 0
        self.rows = KeyTable([f.type for f in schema])
        self.queues: Int64s = np.zeros((0, 2), np.int64)
        self.pool: Int64s = np.zeros(2, np.int64)
        self.control: Int64s = np.zeros(3, np.int64)
        self.elements = KeyTable([pa.int64()])
        self.links: Int64s = np.zeros((1, 3), np.int64)
        self.ends: Int64s = np.zeros((0, 2), np.int64)

    def walk(self, w: Walk, delta: Delta) -> None:
        copies = np.maximum(np.abs(w.weight), 1)
        if (copies == 1).all():
            self.index = np.arange(len(w.group))
            self.group, self.weight, self.slot = w.group, w.weight, w.slot
        else:
            self.index = np.repeat(np.arange(len(w.group)), copies)
            self.group, self.weight = w.group[self.index], np.sign(w.weight)[self.index]
            self.slot = np.full(len(self.index), -1, np.int64)
            self.slot[np.cumsum(copies) - 1] = w.slot
        self.ids = self._match(delta) if w.ids is None else w.ids[self.index]
        if self.with_ends:
            self._link(w)

    def _match(self, delta: Delta) -> Int64s:
        ids = np.full(len(self.index), -1, np.int64)
        enter = self.weight > 0
        if self.forever:
            ids[enter] = self.next_id + np.arange(int(enter.sum()))
        else:
            row = writable(self.rows.intern([delta.columns[f.name] for f in self.schema], len(delta))[self.index])
            self.queues = grown(self.queues, self.rows.capacity)
            self.pool = roomy(self.pool, self.control, len(row), 2)
            ordered.match_arrivals(row, self.weight, self.queues, self.pool, self.control, ids, self.next_id)
            gone = np.unique(row[self.queues[row, 0] == 0])
            if len(gone):
                self.rows.release(gone)
        self.next_id += int(enter.sum())
        return ids

    def _link(self, w: Walk) -> None:
        self.node = self.elements.intern([pa.array(self.ids)], len(self.ids)) + 1  # 0 is no element
        self.links = grown(self.links, self.elements.capacity + 1)
        self.ends = grown(self.ends, w.capacity)
        self.first, self.last = np.zeros(w.size, np.int64), np.zeros(w.size, np.int64)
        dead = np.empty(len(self.node), np.int64)
        gone = ordered.arrival_ends(
            self.group, self.weight, self.node, self.ids, self.slot, self.forever, self.ends, self.links, self.first,
            self.last, dead,
        )  # fmt: skip
        self.dead = dead[:gone] - 1

    def finish(self) -> None:
        """Everything emitted has been read: give the nodes of this batch's departures back."""
        if self.with_ends and len(self.dead):
            self.elements.release(self.dead)
            self.dead = self.dead[:0]

    def state(self) -> dict[str, Any]:
        return {
            "next_id": self.next_id,
            "rows": self.rows.state(),
            "queues": self.queues.copy(),
            "pool": used(self.pool, self.control, 2),
            "control": self.control.copy(),
            "elements": self.elements.state(),
            "links": self.links.copy(),
            "ends": self.ends.copy(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.next_id = int(state["next_id"])
        self.rows.load(state["rows"])
        self.elements.load(state["elements"])
        for name in ("queues", "pool", "control", "links", "ends"):
            setattr(self, name, np.array(state[name]))

    def size(self) -> tuple[int, int]:
        bytes_ = self.rows.nbytes + self.elements.nbytes + self.links.nbytes + self.ends.nbytes + self.queues.nbytes
        return max(len(self.elements), int(self.control[ordered.USED])), bytes_


class Ends(Accumulator):
    """FIRST and LAST of an argument, NULL or not: its value for each living element, looked up by node."""

    arrays = ("codes", "valid")

    def __init__(self, type: pa.DataType, arrivals: Arrivals) -> None:
        self.type, self.arrivals, self.direct = type, arrivals, is_direct(type)
        self.codes: Int64s = np.zeros(1, np.int64)
        self.valid = np.zeros(1, np.bool_)
        self.objects = np.full(1, None, object)

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (x,) = arguments
        a = self.arrivals
        enter = a.weight > 0
        node, index = a.node[enter], a.index[enter]
        if self.direct:
            self.codes, self.valid = grown(self.codes, len(a.links)), grown(self.valid, len(a.links))
            self.codes[node] = x.codes[index]
            self.valid[node] = x.valid[index] if len(x.valid) else True
        else:
            if len(self.objects) < len(a.links):
                self.objects = np.concatenate([self.objects, np.full(len(a.links), None, object)])
            for i, v in zip(node.tolist(), x.array.take(pa.array(index)).to_pylist(), strict=True):
                self.objects[i] = v

    def emitted(self, function: str) -> Codes | Objects:
        node = self.arrivals.first if function == "first" else self.arrivals.last
        if self.direct:
            return Codes(self.codes[node], self.valid[node])  # node 0 is NULL
        return Objects(self.objects[node].tolist())

    def state(self) -> dict[str, Any]:
        if self.direct:
            return super().state()
        node = self.arrivals.elements.live_ids() + 1
        return {"node": node, "values": pa.array(self.objects[node].tolist(), self.type)}

    def load(self, state: dict[str, Any]) -> None:
        if self.direct:
            super().load(state)
            return
        node = state["node"]
        self.objects = np.full(int(node.max(initial=0)) + 1, None, object)
        for i, v in zip(node.tolist(), state["values"].to_pylist(), strict=True):
            self.objects[i] = v

    def size(self) -> tuple[int, int]:
        return 0, self.codes.nbytes + self.valid.nbytes + (0 if self.direct else 64 * len(self.objects))
