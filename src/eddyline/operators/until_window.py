"""``[UNTIL column]``: each element stays up to its own time, included; NULL is for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.bound import Bound, bound_of
from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.core.time import NEVER
from eddyline.core.window import Until
from eddyline.kernels import sessions as k
from eddyline.operators.base import Operator
from eddyline.synopses.slot_rows import SlotRows


def expiry_times(column: pa.Array) -> Int64s:
    """When elements leave: the tick after the time in the column.

    >>> expiry_times(pa.array([7, None], pa.int32())).tolist() == [8, NEVER]
    True
    >>> expiry_times(pa.array([-1, 2_000_000], pa.timestamp("ns"))).tolist()  # the microsecond that it is in
    [0, 2001]
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_timestamp(kind):
        ticks = column.view(pa.int64())
        if kind.unit == "ns":
            values: Int64s = _filled(ticks) // 1000
        else:
            scale = {"us": 1, "ms": 1_000, "s": 1_000_000}[kind.unit]
            raw = _filled(ticks)
            values = np.clip(raw, -(1 << 62) // scale, (1 << 62) // scale) * scale
    elif kind == pa.uint64():
        values = np.minimum(_filled(column), np.uint64(1 << 62)).astype(np.int64)
    else:
        values = _filled(column.cast(pa.int64()))
    leave = np.minimum(values, np.int64(NEVER - 1)) + 1
    if column.null_count:
        leave[np.asarray(column.is_null())] = NEVER
    return leave


def _filled(column: pa.Array) -> Any:
    return (pc.fill_null(column, 0) if column.null_count else column).to_numpy(zero_copy_only=False)


class UntilWindow(Operator):
    """Elements leave in any order, so the rows lie in slots, and a heap says which leaves next.

    >>> from eddyline.core.schema import Field
    >>> schema = Schema((Field("a", pa.string()), Field("u", pa.int64())))
    >>> window = UntilWindow("until-window 1", schema, Until("u"))
    >>> columns = {"a": pa.array(["x", "y", "z"]), "u": pa.array([9, 4, 1])}
    >>> out = window.process([Delta(np.array([1, 2, 3]), columns)], 5)
    >>> out.time.tolist(), out.columns["a"].to_pylist(), out.weights.tolist()
    ([1, 2, 5], ['x', 'y', 'y'], [1, 1, -1])
    """

    def __init__(self, name: str, schema: Schema, spec: Until, deletes: bool = True, label: str = "") -> None:
        super().__init__(name, schema)
        self.spec, self.deletes, self.label = spec, deletes, label or str(spec)
        self.held = SlotRows(schema)
        self.arrived = 0
        self.heap = np.zeros((64, 3), np.int64)  # leave, number, slot
        self.inside = np.zeros(1, np.int64)
        self.id_of = np.zeros(64, np.int64)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        n = len(delta)
        leave = expiry_times(delta.columns[self.spec.column]) if n else np.empty(0, np.int64)
        ids = np.arange(self.arrived, self.arrived + n, dtype=np.int64)
        self.arrived += n
        enters = leave > delta.time
        entering = Delta(delta.time, {c: delta.columns[c] for c in self.schema.names}, None, ids).filter(enters)
        if not self.deletes:
            return entering
        return self._changes(entering, leave[enters], frontier)

    def _changes(self, entering: Delta, leave: Int64s, frontier: int) -> Delta:
        n = len(entering)
        if n == 0 and (self.inside[0] == 0 or self.heap[0, 0] > frontier):
            return Delta.empty(self.schema)
        slot = self.held.insert(entering.columns, n)
        self._fit(int(self.inside[0]) + n)
        numbers = entering.ids if n and entering.ids is not None else np.empty(0, np.int64)
        self.id_of[slot] = numbers
        most = int(self.inside[0]) + 2 * n
        time, place, weight = (np.empty(most, np.int64) for _ in range(3))
        found = k.expire(
            np.ascontiguousarray(entering.time), np.ascontiguousarray(leave), np.ascontiguousarray(numbers),
            np.ascontiguousarray(slot), frontier, self.heap, self.inside, time, place, weight,
        )  # fmt: skip
        time, place, weight = time[:found], place[:found], weight[:found]
        out = Delta(time, self.held.probe(place), weight, self.id_of[place])
        self.held.expire(place[weight < 0])
        return out

    def _fit(self, need: int) -> None:
        while need > len(self.heap):
            self.heap = np.concatenate([self.heap, np.zeros_like(self.heap)])
        while self.held.capacity > len(self.id_of):
            self.id_of = np.concatenate([self.id_of, np.zeros(len(self.id_of), np.int64)])

    def state(self) -> dict[str, Any]:
        heap = self.heap[: int(self.inside[0])].reshape(-1).copy()
        return {"arrived": self.arrived, "heap": heap, "id_of": self.id_of, "held": self.held.state()}

    def load(self, state: dict[str, Any]) -> None:
        held = np.array(state["heap"]).reshape(-1, 3)
        self.arrived, self.inside[0] = int(state["arrived"]), len(held)
        self.id_of = state["id_of"].copy()
        self.held.load(state["held"])
        self._fit(len(held))
        self.heap[: len(held)] = held

    def size(self) -> tuple[int, int]:
        return len(self.held), self.held.nbytes + self.heap.nbytes + self.id_of.nbytes

    def describe(self) -> str:
        column = self.spec.column.rpartition(".")[2]
        return f"the elements whose {column} has not come yet, to delete them then: for ever where it is NULL"

    def bounds(self) -> dict[str, Bound]:
        return {self.label: bound_of(self.spec)}
