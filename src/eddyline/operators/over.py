"""Values of the rows around an element in its partition: LAG, LEAD, and aggregates of the last rows.

What is correct: the rows of a partition stand in order of (time, arrival). With f the largest number of rows that a
value looks ahead, an element comes out when the f-th row behind it in its partition has come, at the time of that row,
and its values are functions of the rows before and behind it. Each arrival completes exactly one element, once f rows
are there, so results come in the order of the arrivals that complete them. What looks right and is not: to look at a
partition at the end of an instant, where elements of one timestamp would see each other.

An aggregate of the rows i−p … i+f is the one of the last p+f+1 rows at row i+f. So each aggregate is computed once for
each row when it comes (``running``), and what a frame that ends elsewhere needs is a value of a neighbour, as in LAG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.bound import Bound
from eddyline.core.delta import Bools, Delta, Int64s, combine
from eddyline.core.schema import Field, Schema
from eddyline.expr.nodes import columns_of
from eddyline.kernels.chains import chain_rows
from eddyline.operators.accumulators import grown, writable
from eddyline.operators.base import Operator
from eddyline.operators.running import RunningAggregates
from eddyline.synopses.keys import KeyTable
from eddyline.synopses.store import Store

ROWS_BEFORE_COMPACTION = 4096  # rows that no partition holds any more; fewer save memory, more save copies
_ID = "_arrived"


class Shifted:
    """A value of the result: ``column`` of the row ``shift`` rows on, or where there is none what ``missing`` says: a
    column of the element itself, or an array of one value."""

    __slots__ = ("column", "missing", "name", "shift")

    def __init__(self, name: str, column: str, shift: int, missing: str | pa.Array) -> None:
        self.name, self.column, self.shift, self.missing = name, column, shift, missing


class Rows:
    """The kept rows of the partitions of a batch and its new rows: partition by partition, the kept ones first."""

    def __init__(self, kept: Mapping[str, pa.Array], new: dict[str, pa.Array], owner: Int64s) -> None:
        self.kept, self.new = kept, new
        self.order: Int64s = np.argsort(owner, kind="stable")
        self.owner = owner[self.order]
        self.start: Int64s = np.searchsorted(self.owner, self.owner)  # where the partition of a place begins
        before = len(owner) - len(new[_ID])
        place = np.empty(len(owner), np.int64)
        place[self.order] = np.arange(len(owner))
        self.place = place[before:]  # of the new rows, in their order of arrival
        self.entering = np.flatnonzero(self.order >= before)  # the same places in their order
        self.back = self.order[self.entering] - before  # and the new rows at these
        self._whole: dict[str, pa.Array] = {}

    def at(self, name: str, places: Int64s) -> pa.Array:
        """A column at some places. A column that is not kept is NULL at kept rows: no value reads it there."""
        if name not in self._whole:
            new, missing = self.new[name], len(self.order) - len(self.new[_ID])
            kept = self.kept[name] if name in self.kept else pa.nulls(missing, decoded(new.slice(0, 0)).type)
            self._whole[name] = combine([kept, new]) if missing else new
        return self._whole[name].take(pa.array(self.order[places]))


class OverOperator(Operator):
    """``waits`` and ``kept`` count rows of a partition: that an element waits for, and that are kept."""

    def __init__(
        self, name: str, schema: Schema, input_schema: Schema, partition: Sequence[str], values: Sequence[Shifted],
        running: Sequence[RunningAggregates], waits: int, kept: int,
    ) -> None:  # fmt: skip
        super().__init__(name, schema)
        self.input_schema, self.partition = input_schema, tuple(partition)
        self.values, self.running, self.waits, self.kept = tuple(values), tuple(running), waits, kept
        self.table = KeyTable([input_schema[n].type for n in self.partition])
        self.held = self._held()
        self.store = Store(self.held)
        self.before: Int64s = np.zeros(64, np.int64)
        self.newest: Int64s = np.zeros(1, np.int64)
        self.length: Int64s = np.zeros(1, np.int64)
        self.live = 0
        self.arrived = 0

    @property
    def inner(self) -> Operator | None:
        """The first of the operators that run in this one."""
        return self.running[0] if self.running else None

    def _held(self) -> Schema:
        """What is kept of a row: all of it if it waits, and otherwise what later rows read of it."""
        made = {f.name: f for r in self.running for f in r.schema}
        read = {v.column for v in self.values if v.shift or self.waits}
        for r in self.running:
            if r.frame is not None:
                read |= {n for e in r.expressions for n in columns_of(e)}
        mine = [f for f in self.input_schema if self.waits or f.name in read]
        return Schema((*mine, *(f for n, f in made.items() if n in read), Field(_ID, pa.int64())))

    # -- processing ------------------------------------------------------------------------------------------------

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        n = len(delta)
        if n == 0:
            return Delta.empty(self.schema)
        group, capacity = self._groups(delta)
        touched = np.unique(group)
        old = np.empty(int(self.length[touched].sum()), np.int64)
        chain_rows(touched, self.newest, self.length, self.before, self.store.first, old)
        numbers = pa.array(np.arange(self.arrived, self.arrived + n))
        owner = np.concatenate([np.repeat(touched, self.length[touched]), group])
        rows = Rows(self.store.take(old), {**delta.columns, _ID: numbers}, owner)
        for r in self.running:
            rows.new |= self._run(r, rows, capacity)
        out = self._result(delta, rows)
        self._keep(rows.new, n, group, rows.back)
        self.arrived += n
        return out

    def _groups(self, delta: Delta) -> tuple[Int64s, int]:
        n = len(delta)
        if not self.partition:
            return np.zeros(n, np.int64), 1
        group = writable(self.table.intern([delta.columns[c] for c in self.partition], n))
        self.newest = grown(self.newest, self.table.capacity)
        self.length = grown(self.length, self.table.capacity)
        return group, self.table.capacity

    def _run(self, r: RunningAggregates, rows: Rows, capacity: int) -> dict[str, pa.Array]:
        """The aggregates at each new row: it comes in, and the row that is too old goes out."""
        entering = rows.entering
        steps = np.arange(len(entering))
        gone = np.zeros(len(entering), np.bool_)
        if r.frame is not None:
            gone = entering - r.frame >= rows.start[entering]
        at = np.cumsum(1 + gone) - (1 + gone)
        size = len(entering) + int(gone.sum())
        place, weight, time = np.empty(size, np.int64), np.ones(size, np.int64), np.empty(size, np.int64)
        place[at], time[at] = entering, steps
        if r.frame is not None:
            leaving = at[gone] + 1
            place[leaving], weight[leaving], time[leaving] = entering[gone] - r.frame, -1, steps[gone]
        columns = {n: rows.at(n, place) for n in r.input_schema.names}
        delta = Delta(time, columns, weight, np.asarray(rows.at(_ID, place)))
        values = r.steps(delta, np.ascontiguousarray(rows.owner[place]), capacity)
        forth = np.empty(len(steps), np.int64)
        forth[rows.back] = steps
        return {n: c.take(pa.array(forth)) for n, c in values.items()}

    def _result(self, delta: Delta, rows: Rows) -> Delta:
        """The elements that the new rows complete, in the order of these."""
        mine = rows.place - self.waits
        ready = mine >= rows.start[rows.place]
        mine, first = mine[ready], rows.start[rows.place[ready]]
        shown: dict[str, pa.Array] = {
            n: rows.at(n, mine) if self.waits else delta.columns[n] for n in self.input_schema.names
        }
        for v in self.values:
            if v.shift == 0 and not self.waits:
                shown[v.name] = rows.new[v.column]
                continue
            at = mine + v.shift
            there = at >= first
            found = rows.at(v.column, np.where(there, at, mine))
            shown[v.name] = found if there.all() else _filled(found, there, v.missing, shown)
        return Delta(delta.time[ready], {n: shown[n] for n in self.schema.names})

    # -- the rows that are kept ------------------------------------------------------------------------------------

    def _keep(self, columns: Mapping[str, pa.Array], n: int, group: Int64s, back: Int64s) -> None:
        base = self.store.end
        self.store.append({name: columns[name] for name in self.held.names}, n)
        size = self.store.end - self.store.first
        if size > len(self.before):
            self.before = grown(self.before, max(size, 2 * len(self.before)))
        sorted_group = group[back]
        begins = np.flatnonzero(np.concatenate([[True], sorted_group[1:] != sorted_group[:-1]]))
        rows = base + back
        previous = np.concatenate([[0], rows[:-1]])
        previous[begins] = self.newest[sorted_group[begins]]
        self.before[rows - self.store.first] = previous
        ends = np.concatenate([begins[1:], [n]]) - 1
        groups = sorted_group[begins]
        self.newest[groups] = rows[ends]
        lengths = np.minimum(self.length[groups] + (ends - begins + 1), self.kept)
        self.live += int((lengths - self.length[groups]).sum())
        self.length[groups] = lengths
        if size > 2 * self.live + ROWS_BEFORE_COMPACTION:
            self._load(*self._rows())

    def _rows(self) -> tuple[Int64s, Int64s, dict[str, pa.Array]]:
        """The groups that have rows, how many, and the rows."""
        groups = np.flatnonzero(self.length)
        rows = np.empty(self.live, np.int64)
        chain_rows(groups, self.newest, self.length, self.before, self.store.first, rows)
        return groups, self.length[groups], self.store.take(rows)

    def _load(self, groups: Int64s, length: Int64s, rows: Mapping[str, pa.Array]) -> None:
        """A chain is now a run of rows, each behind the one before it."""
        self.live = int(length.sum())
        self.store = Store(self.held)
        self.store.append(rows, self.live)
        self.before = np.arange(-1, max(64, self.live) - 1)
        size = max(1, self.table.capacity)
        self.newest, self.length = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.newest[groups], self.length[groups] = np.cumsum(length) - 1, length

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        groups, length, rows = self._rows()
        return {
            "keys": self.table.state(),
            "groups": groups,
            "length": length,
            "rows": rows,
            "arrived": self.arrived,
            "running": {str(i): r.state() for i, r in enumerate(self.running)},
        }

    def load(self, state: dict[str, Any]) -> None:
        self.table.load(state["keys"])
        self._load(state["groups"], state["length"], state["rows"])
        self.arrived = int(state["arrived"])
        for i, r in enumerate(self.running):
            r.load(state["running"][str(i)])

    def size(self) -> tuple[int, int]:
        arrays = self.before.nbytes + self.newest.nbytes + self.length.nbytes
        return self.live, self.store.nbytes() + self.table.nbytes + arrays + sum(r.size()[1] for r in self.running)

    def describe(self) -> str:
        which = "of each partition" if self.partition else "of the stream"
        rows = {0: "no row", 1: "the last row"}.get(self.kept, f"the last {self.kept} rows")
        waits = {0: "", 1: ", of which one waits for its next row"}
        waiting = waits.get(self.waits, f", of which {self.waits} wait for later rows")
        running = ", and running aggregates" if any(r.frame is None for r in self.running) else ""
        return f"{rows} {which}{waiting}{running}"

    def bounds(self) -> dict[str, Bound]:
        per = ", ".join(n.rpartition(".")[2] for n in self.partition)
        return {self.name: Bound(rows=self.kept, each=f"value of {per}" if per else None)}


def _filled(found: pa.Array, there: Bools, missing: str | pa.Array, shown: Mapping[str, pa.Array]) -> pa.Array:
    """What was found where there is a row, otherwise the element's own value of another column, or a constant."""
    other = decoded(shown[missing]) if isinstance(missing, str) else missing[0]
    return pc.if_else(pa.array(there), decoded(found), other)


def decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
