"""Panes: a stream is made smaller below sliding windows whose elements are only added up.

Between two instants at which a window can change, the order and the times of elements do not matter: they enter
together and leave together. So below ``[RANGE w SLIDE l]`` all elements of one such *pane* and one group become one
element, with the exact sums of the aggregate's arguments, the number of values in each sum, and the number of elements.
Windows, synopses and aggregates above then work on panes.

The ends of panes are the last instants whose elements enter at k·l (k·l itself, or k·l − 1 where windows are open at
the right), and those whose elements leave there, w before; where several windows share panes, the ends of all. The
operator needs no memory: a pane that comes in two pieces becomes two elements. Each has the time of an element of its
pane, so it enters and leaves the window with them.

For the same reason panes can be made elsewhere, from any elements in order of time, and be passed in beside the
elements themselves. They wait here until their instants are closed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.window import Stepping
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Column
from eddyline.kernels import panes as kernels
from eddyline.operators.accumulators import Argument, Float64s, writable
from eddyline.operators.base import Operator
from eddyline.operators.pane_columns import ROWS, PaneColumns, SumKind
from eddyline.synopses.codes import direct_values, is_direct
from eddyline.synopses.keys import KeyTable

MIN_ELEMENTS = 64  # of a batch that is made into panes: fewer cost more to add up than to pass on
MAX_KNOWN_GROUPS = 1 << 16  # groups whose numbers are kept from one batch to the next
MAX_PANES_PER_ELEMENT = 0.5  # with more, panes save less than they cost
BATCHES_PASSED_ON = 15  # unchanged, after a batch with too many panes: fewer notice a change of the data sooner


class Panes(Operator):
    """Elements of a stream in, fewer elements out.

    >>> from eddyline.expr.nodes import AggregateCall
    >>> price, by = Column("p", pa.float64()), Column("k", pa.string())
    >>> pane_columns = PaneColumns.of([by], [AggregateCall("avg", (price,), pa.float64())])
    >>> from eddyline.core.window import Slide
    >>> panes = Panes("panes 1", pane_columns, [Slide(10, 2)])
    >>> panes.min_elements = 0
    >>> columns = {"k": pa.array(["x", "x", "y", "x"]), "p": pa.array([1.5, None, 4.0, 8.0])}
    >>> out = panes.process([Delta(np.array([1, 2, 2, 3]), columns)], 3)
    >>> out.time.tolist(), out.columns["_key0"].to_pylist(), out.columns["_sum0"].to_pylist()
    ([2, 2, 3], ['x', 'y', 'x'], [1.5, 4.0, 8.0])
    >>> out.columns["_rows"].to_pylist(), out.columns["_count0"].to_pylist()
    ([2, 1, 1], [1, 1, 1])
    """

    min_elements, rest = MIN_ELEMENTS, BATCHES_PASSED_ON

    def __init__(self, name: str, pane_columns: PaneColumns, windows: Collection[Stepping]) -> None:
        super().__init__(name, pane_columns.schema)
        self.pane_columns = pane_columns
        # A pane ends at the multiples of a slide, some of them shifted.
        self.ends = sorted(
            {(w.slide, (w.offset - w.delay - before) % w.slide) for w in windows for before in (0, w.width)}
        )
        self.keys = [e if isinstance(e, Column) else compile_expr(e) for e in pane_columns.keys]
        self.arguments = [compile_expr(e) for e in pane_columns.arguments]
        self.kinds: Int64s = np.array(pane_columns.kinds, np.int64)
        self.groups = KeyTable([e.type for e in pane_columns.keys])
        self.place: Int64s = np.empty(0, np.int64)
        self.resting = 0
        self.waiting = Delta.empty(self.schema)  # made elsewhere, in order of time

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        made = self._made(delta) if len(delta) else Delta.empty(self.schema)
        if not len(self.waiting):
            return made
        closed = int(self.waiting.time.searchsorted(frontier, "right"))
        ready, self.waiting = self.waiting.slice(0, closed), self.waiting.slice(closed, len(self.waiting))
        return Delta.merge([ready, made])

    def hand_in(self, panes: Delta) -> None:
        """Panes that were made elsewhere, of elements whose instants are all still open."""
        self.waiting = Delta.merge([self.waiting, panes])

    def _made(self, delta: Delta) -> Delta:
        n = len(delta)
        if self.resting or n < self.min_elements:
            self.resting = max(0, self.resting - 1)
            return self._singly(delta.time, *self._evaluated(delta.columns, n))
        out, _ = self.make(delta.time, delta.columns)
        if len(out) > MAX_PANES_PER_ELEMENT * n:
            self.resting = self.rest
        return out

    def _evaluated(self, columns: Mapping[str, pa.Array], n: int) -> tuple[list[pa.Array], list[Argument]]:
        keys = [columns[e.name] if isinstance(e, Column) else e(columns, n) for e in self.keys]
        arguments = [
            Argument.of(f(columns, n), is_direct(e.type))
            for f, e in zip(self.arguments, self.pane_columns.arguments, strict=True)
        ]
        return keys, arguments

    def make(self, time: Int64s, elements: Mapping[str, pa.Array]) -> tuple[Delta, Int64s]:
        """The panes of some elements in order of time, and which element is the first of each."""
        columns, arguments = self._evaluated(elements, len(time))
        n, width = len(time), len(arguments)
        codes = np.zeros((width, n), np.int64)
        for k, a in enumerate(arguments):
            if len(a.codes):
                codes[k] = a.codes
        nullable = any(len(a.valid) for a in arguments)
        valid = np.ones((width, n if nullable else 0), np.bool_)
        for k, a in enumerate(arguments):
            if len(a.valid):
                valid[k] = a.valid
        group = self._group(columns, n)
        ends, when, first, rows = (np.empty(n, np.int64) for _ in range(4))
        whole, count = np.empty((width, n), np.int64), np.empty((width, n), np.int64)
        rest = np.empty((width, n), np.float64)
        made = kernels.add_up(
            writable(time), self._end(time), group, codes, codes.view(np.float64), valid, self.kinds, self.place,
            ends, when, first, rows, whole, whole.view(np.float64), rest, count,
        )  # fmt: skip
        index = pa.array(first[:made])
        taken = [c.take(index) for c in columns]
        panes = self._delta(when[:made].copy(), taken, rows[:made], count[:, :made], whole[:, :made], rest[:, :made])
        return panes, first[:made]

    def _singly(self, time: Int64s, columns: Sequence[pa.Array], arguments: Sequence[Argument]) -> Delta:
        """Each element on its own, in the form of a pane."""
        n, width = len(time), len(arguments)
        count, whole = np.ones((width, n), np.int64), np.zeros((width, n), np.int64)
        for k, a in enumerate(arguments):
            if self.kinds[k] != SumKind.COUNT:
                whole[k] = a.codes
            if len(a.valid):
                count[k] = a.valid
                whole[k] *= a.valid
        return self._delta(time, columns, np.ones(n, np.int64), count, whole, np.zeros((width, n)))

    def _delta(
        self, time: Int64s, keys: Sequence[pa.Array], rows: Int64s, count: Int64s, whole: Int64s, rest: Float64s
    ) -> Delta:
        out: dict[str, pa.Array] = {self.pane_columns.key(i).name: c for i, c in enumerate(keys)}
        out[ROWS.name] = pa.array(rows)
        for k, kind in enumerate(self.kinds.tolist()):
            out[f"_count{k}"] = pa.array(count[k])
            if kind != SumKind.COUNT:
                out[f"_sum{k}"] = direct_values(whole[k], self.schema[f"_sum{k}"].type)
            if kind == SumKind.DOUBLE:
                out[f"_rest{k}"] = pa.array(rest[k])
        return Delta(time, out)

    def state(self) -> dict[str, Any]:
        waiting = self.waiting
        return {"time": waiting.time, "columns": dict(waiting.columns)} if len(waiting) else {}

    def load(self, state: dict[str, Any]) -> None:
        self.waiting = Delta(state["time"], state["columns"]) if state else Delta.empty(self.schema)

    def size(self) -> tuple[int, int]:
        return len(self.waiting), sum(c.nbytes for c in self.waiting.columns.values())

    def _group(self, columns: Sequence[pa.Array], n: int) -> Int64s:
        """The table of groups is only there to be quicker: it may be forgotten at any time."""
        if not columns:
            group = np.zeros(n, np.int64)
        else:
            if len(self.groups) > MAX_KNOWN_GROUPS:
                self.groups = KeyTable(self.groups.types)
            group = writable(self.groups.intern(columns, n))
        if len(self.place) < max(1, self.groups.capacity):
            self.place = np.full(2 * max(1, self.groups.capacity), -1, np.int64)
        return group

    def _end(self, time: Int64s) -> Int64s:
        """The end of each element's pane."""
        found = [-(-(time - shift) // slide) * slide + shift for slide, shift in self.ends]
        return writable(found[0] if len(found) == 1 else np.minimum.reduce(found))
