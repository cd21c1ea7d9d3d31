"""seq-window: a stream becomes a relation. Emits + when an element enters and − when it leaves.

Used where the − elements are needed explicitly; a join over time-based windows keeps its windows itself (``mjoin``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.bound import Bound, bound_of
from eddyline.core.deletions import Deletions
from eddyline.core.delta import Delta, Int64s, combine
from eddyline.core.schema import Schema
from eddyline.core.window import PartitionRows, Rows, Unbounded, WindowSpec
from eddyline.kernels import bags as k
from eddyline.operators.base import ELEMENTS_PER_ROW_COUNT, ROW_COUNTS_PER_RUN, Operator
from eddyline.operators.windows import enter_times, leave_times
from eddyline.synopses.keys import KeyTable
from eddyline.synopses.sparse_store import SparseStub
from eddyline.synopses.store import Stub
from eddyline.synopses.tail import Tail


class TimeWindow(Operator):
    """``[RANGE]``, ``[NOW]``, ``[RANGE … SLIDE …]``, ``[ROWS UNBOUNDED]``.

    Elements enter and leave in row order, so the synopsis is two arrays of times beside the stored rows.
    """

    def __init__(
        self, name: str, schema: Schema, spec: WindowSpec, stub: Callable[[], Stub], deletes: int, label: str = ""
    ) -> None:
        super().__init__(name, schema)
        self.spec, self.label = spec, label or str(spec)
        self.deletes = Deletions.NONE if isinstance(spec, Unbounded) else deletes
        self.stub = stub()
        self.base = self.stub.low  # row number of enter[0] and leave[0]
        self.entered = self.base
        self.enter, self.leave = Tail(), Tail()
        self._most = 0  # rows, during the last run

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        self.stub.insert(delta.columns, len(delta), delta.time)
        if len(delta):
            self.enter.append(enter_times(self.spec, delta.time))
            self.leave.append(leave_times(self.spec, delta.time))
        enter, leave = self.enter.values, self.leave.values
        entered, entering = self.entered - self.base, int(enter.searchsorted(frontier, "right"))
        leaving = int(leave.searchsorted(frontier, "right"))
        till_enter, till_leave = self.base + entering, self.base + leaving
        self._most = _most_inside(enter, leave, entered, entering)
        come = np.arange(self.entered, till_enter, dtype=np.int64)
        go = np.arange(self.base, till_leave, dtype=np.int64)
        at, away = enter[entered:entering].copy(), leave[:leaving].copy()
        passed = leave[entered:entering] <= at  # a window shorter than its slide: never inside
        if np.count_nonzero(passed):  # of small arrays a fraction of any()
            come, at = come[~passed], at[~passed]
        outside = enter[:leaving] >= away
        if np.count_nonzero(outside):
            go, away = go[~outside], away[~outside]
        if self.deletes == Deletions.AT_ARRIVALS:
            seen = np.isin(away, at)
            go, away = go[seen], away[seen]
        elif self.deletes == Deletions.NONE:
            go, away = go[:0], away[:0]
        out = self._emit(go, away, come, at)
        self.entered = till_enter
        # An element that emits no deletion is removed from the synopsis when it has entered.
        done = entering if self.deletes == Deletions.NONE else leaving
        self.enter.forget(done)
        self.leave.forget(done)
        self.base += done
        self.stub.expire(self.base)
        return out

    def _emit(self, go: Int64s, away: Int64s, come: Int64s, at: Int64s) -> Delta:
        new = self._rows(come)
        if len(go) == 0:
            return Delta(at, new, None, come)
        old = self._rows(go)
        if len(come) == 0 or away[-1] <= at[0]:
            return _one_after_the_other(Delta(away, old, _minus(go), go), Delta(at, new, None, come))
        if at[-1] < away[0]:
            return _one_after_the_other(Delta(at, new, None, come), Delta(away, old, _minus(go), go))
        order = np.empty(len(go) + len(come), np.int64)
        k.merge_order(away, at, order)
        ids = np.concatenate([go, come])[order]
        weight = np.ones(len(order), np.int64)
        weight[order < len(go)] = -1
        index = pa.array(order)
        columns = {n: combine([old[n], new[n]]).take(index) for n in self.schema.names}
        return Delta(np.concatenate([away, at])[order], columns, weight, ids)

    def _rows(self, rows: Int64s) -> dict[str, pa.Array]:
        """What enters and what leaves are runs of rows, far apart in the store: two slices, not one wide selection."""
        assert self.stub is not None
        low, high = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        if high - low == len(rows):
            return self.stub.slice(low, high, self.schema.names)
        return self.stub.probe(rows, self.schema.names)

    def state(self) -> dict[str, Any]:
        fields = {"base": self.base, "entered": self.entered}
        times = {"enter": self.enter.values.copy(), "leave": self.leave.values.copy()}
        return {**fields, **times, "stub": self.stub.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.base, self.entered = int(state["base"]), int(state["entered"])
        self.enter, self.leave = Tail(state["enter"]), Tail(state["leave"])
        self.stub.load(state["stub"])

    def size(self) -> tuple[int, int]:
        return _stub_size(self.stub, self.enter.nbytes + self.leave.nbytes)

    def most_rows(self, now: int) -> int:
        return max(self._most, now)

    def describe(self) -> str:
        return f"the elements of {self.label}, to delete them when they leave"

    def bounds(self) -> dict[str, Bound]:
        return {self.label: bound_of(self.spec)}


class RowsWindow(Operator):
    """``[ROWS n]``: each arrival beyond n expels the oldest element, at the instant of the arrival."""

    def __init__(self, name: str, schema: Schema, spec: Rows, stub: Callable[[], Stub], deletes: int) -> None:
        super().__init__(name, schema)
        self.count = spec.count
        self.deletes = deletes
        self.stub = stub()
        self.origin = self.stub.low

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        n = len(delta)
        start = self.stub.insert(delta.columns, n, delta.time)
        come = np.arange(start, start + n, dtype=np.int64)
        go = come - self.count
        expels = go >= self.origin
        if self.deletes == Deletions.NONE or not expels.any():
            out = Delta(delta.time, {c: delta.columns[c] for c in self.schema.names}, None, come)
            if n > self.count:
                # What others of its own instant expel is never in the window at the end of an instant: as if it had
                # not come.
                last = np.searchsorted(delta.time, delta.time, side="right") - 1
                out = out.filter(last - np.arange(n) < self.count)
        else:
            each = expels.astype(np.int64) + 1
            ids = np.repeat(come, each)
            weight = np.ones(len(ids), np.int64)
            minus = (np.cumsum(each) - each)[expels]
            weight[minus] = -1
            ids[minus] = go[expels]
            out = Delta(np.repeat(delta.time, each), self.stub.probe(ids, self.schema.names), weight, ids)
        self.stub.expire(max(self.origin, start + n - self.count))
        return out

    def state(self) -> dict[str, Any]:
        return {"origin": self.origin, "stub": self.stub.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.origin = int(state["origin"])
        self.stub.load(state["stub"])

    def size(self) -> tuple[int, int]:
        return _stub_size(self.stub, 0)

    def describe(self) -> str:
        return f"the last {self.count} elements, to delete them when they leave"

    def bounds(self) -> dict[str, Bound]:
        return {f"[ROWS {self.count}]": Bound(rows=self.count)}


class PartitionWindow(Operator):
    """``[PARTITION BY a ROWS n]``. Partitions age at their own pace, so that any row of the store may go, and what is
    inside is a list of slots for each partition."""

    def __init__(self, name: str, schema: Schema, spec: PartitionRows, stub: Callable[[], Stub]) -> None:
        super().__init__(name, schema)
        self.spec = spec
        made = stub()
        assert isinstance(made, SparseStub)
        self.stub = made
        self.stub.needed = self._inside
        self.groups = KeyTable([schema[c].type for c in spec.columns])
        self.slots = KeyTable([pa.int64()])  # by row number
        self.head, self.tail, self.held = (np.full(64, -1, np.int64), np.full(64, -1, np.int64), np.zeros(64, np.int64))
        self.following, self.id_of = np.full(64, -1, np.int64), np.zeros(64, np.int64)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        n = len(delta)
        if n == 0:
            return Delta.empty(self.schema)
        start = self.stub.insert(delta.columns, n, delta.time)
        ids = np.arange(start, start + n, dtype=np.int64)
        group = self.groups.intern([delta.columns[c] for c in self.spec.columns], n)
        slot = self.slots.intern([pa.array(ids)], n)
        self._fit()
        self.id_of[slot] = ids
        time, place, weight = (np.empty(2 * n, np.int64) for _ in range(3))
        found = k.partition_rows(
            delta.time, group, slot, self.spec.count, self.head, self.tail, self.held, self.following, time, place,
            weight,
        )  # fmt: skip
        time, place, weight = time[:found], place[:found], weight[:found]
        moved = self.id_of[place]
        out = Delta(time, self.stub.probe(moved, self.schema.names), weight, moved)
        gone = np.ascontiguousarray(place[weight < 0])
        if len(gone):
            self.slots.release(gone)
        self.stub.expire()
        return out

    def _inside(self) -> Int64s:
        return np.sort(self.id_of[self.slots.live_ids()])

    def _fit(self) -> None:
        while self.groups.capacity > len(self.head):
            more = np.full(len(self.head), -1, np.int64)
            self.head, self.tail = np.concatenate([self.head, more]), np.concatenate([self.tail, more])
            self.held = np.concatenate([self.held, np.zeros(len(more), np.int64)])
        while self.slots.capacity > len(self.following):
            self.following = np.concatenate([self.following, np.full(len(self.following), -1, np.int64)])
            self.id_of = np.concatenate([self.id_of, np.zeros(len(self.id_of), np.int64)])

    def state(self) -> dict[str, Any]:
        arrays = ("head", "tail", "held", "following", "id_of")
        kept = {n: getattr(self, n) for n in arrays}
        return {**kept, "groups": self.groups.state(), "slots": self.slots.state(), "stub": self.stub.state()}

    def load(self, state: dict[str, Any]) -> None:
        for n in ("head", "tail", "held", "following", "id_of"):
            setattr(self, n, state[n].copy())
        self.groups.load(state["groups"])
        self.slots.load(state["slots"])
        self.stub.load(state["stub"])

    def size(self) -> tuple[int, int]:
        arrays = (self.head, self.tail, self.held, self.following, self.id_of)
        return _stub_size(self.stub, self.slots.nbytes + self.groups.nbytes + sum(a.nbytes for a in arrays))

    def describe(self) -> str:
        columns = ", ".join(self.spec.columns)
        return f"the last {self.spec.count} elements for each value of {columns}: grows with the number of values"

    def bounds(self) -> dict[str, Bound]:
        return {str(self.spec): bound_of(self.spec)}


def _minus(rows: Int64s) -> Int64s:
    return np.full(len(rows), -1, np.int64)


def _one_after_the_other(first: Delta, second: Delta) -> Delta:
    return Delta.concat([d for d in (first, second) if len(d)])


def _most_inside(enter: Int64s, leave: Int64s, start: int, stop: int) -> int:
    """The most elements that were inside at once while ``start`` … ``stop`` entered, at some of these instants.

    >>> times = np.arange(10_000)
    >>> _most_inside(times, times + 100, 0, 10_000)
    100
    """
    if stop - start <= ELEMENTS_PER_ROW_COUNT:
        return 0
    step = max(ELEMENTS_PER_ROW_COUNT, (stop - start) // ROW_COUNTS_PER_RUN)
    at = enter[start:stop][::-step]  # the last of them included
    return int((enter.searchsorted(at, "right") - leave.searchsorted(at, "right")).max())


def _stub_size(stub: Stub, more: int) -> tuple[int, int]:
    return len(stub), stub.store.nbytes(len(stub)) // max(1, len(stub.store.stubs)) + more
