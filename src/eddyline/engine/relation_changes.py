"""Timed relations: elements ⟨row, time⟩ in order → weighted changes of the relation that they describe.

===================  =====================================================================================
``KEY (k)``          an element replaces the row with its key: − old, + new, at the element's instant
``SIGN BY s``        + inserts; − deletes the *oldest* row that is equal in all columns but time and sign
both                 + replaces, − deletes the row with its key
neither              an element inserts
===================  =====================================================================================

A deletion carries the row *as it was inserted* (with the timestamp and the sign that it had then): a relation is a bag
of values, and only the very value that went in can be taken out. A deletion of a row that is not there, and a sign
that is none, are invalid rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.catalog import RelationDef
from eddyline.core.delta import Delta, Int64s
from eddyline.core.errors import DataError
from eddyline.core.time import Clock
from eddyline.engine.input_manager import InputStream, StreamReader
from eddyline.engine.reorder import Chunk, joined
from eddyline.engine.side_output import ROWS_KEPT, Diverted, SideOutput

DEAD_ROWS_BEFORE_COMPACTION = 1024  # the store is compacted when more are dead, and more than are alive
SIGNS: Mapping[Any, int] = {1: 1, -1: -1, "+": 1, "-": -1, "1": 1, "-1": -1}
_NAN: Any = ("NaN",)  # equal to itself, unlike the value


def hashable(column: pa.Array) -> list[Hashable]:
    """Values that are equal in Python exactly where they are in SQL grouping: NaN equals NaN, NULL equals NULL.

    >>> a, b = hashable(pa.array([float("nan"), float("nan")]))
    >>> a == b
    True
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type) or pa.types.is_time64(column.type):
        return column.view(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    values = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [_NAN if v is not None and v != v else v for v in values]
    if pa.types.is_nested(column.type):
        return [repr(v) for v in values]
    return values  # type: ignore[no-any-return]


class RowStore:
    """Rows by number, in parts of growing size. Numbers stay valid until ``compact``."""

    def __init__(self) -> None:
        self.parts: list[Chunk] = []
        self.size = 0

    def append(self, time: Int64s, rows: pa.RecordBatch) -> int:
        """Add rows and return the number of the first."""
        first, self.size = self.size, self.size + len(time)
        self.parts.append(Chunk(time, rows, first))
        while len(self.parts) > 1 and 2 * len(self.parts[-1]) >= len(self.parts[-2]):
            self.parts[-2:] = [joined(self.parts[-2:])]
        return first

    def take(self, rows: Int64s) -> Chunk:
        """Rows with the times of their insertion. The cost grows with ``rows``, not with the store."""
        part = np.searchsorted([p.first for p in self.parts], rows, side="right") - 1
        picked: list[Chunk] = []
        for i in np.unique(part).tolist() or [0]:
            at = rows[part == i] - self.parts[i].first
            picked.append(Chunk(self.parts[i].time[at], self.parts[i].rows.take(pa.array(at)), 0))
        whole = joined(picked)
        if len(picked) == 1:
            return whole
        back = np.argsort(np.argsort(part, kind="stable"))  # from order of parts to the order asked for
        return Chunk(whole.time[back], whole.rows.take(pa.array(back)), 0)

    def compact(self, rows: Int64s) -> None:
        """Keep only ``rows``, which get the numbers 0, 1, …"""
        self.parts = [self.take(rows)] if len(rows) else []
        self.size = len(rows)


class RelationChanges:
    """
    >>> from eddyline.core.schema import Schema
    >>> schema = Schema.from_arrow(pa.schema([("ts", pa.int64()), ("id", pa.string()), ("v", pa.int64())]))
    >>> changes = RelationChanges(RelationDef("R", schema, timestamp="ts", key=("id",)))
    >>> rows = {"ts": [1, 2, 3], "id": ["a", "b", "a"], "v": [10, 20, 30]}
    >>> d = changes.apply(Delta(np.array([1, 2, 3]), {n: pa.array(v) for n, v in rows.items()}))
    >>> list(zip(d.time.tolist(), d.columns["v"].to_pylist(), d.weights.tolist()))
    [(1, 10, 1), (2, 20, 1), (3, 10, -1), (3, 30, 1)]
    """

    def __init__(self, definition: RelationDef, invalid: SideOutput | None = None, *, strict: bool = False) -> None:
        self.definition = definition
        self.invalid = SideOutput() if invalid is None else invalid
        self.strict = strict
        self._store = RowStore()
        # The numbers of the rows that are there, by identity, oldest first.
        self._live: dict[Hashable, deque[int]] = {}
        self._count = 0
        apart = (definition.timestamp, definition.sign)
        self._identity = definition.key or tuple(n for n in definition.schema.names if n not in apart)

    def __len__(self) -> int:
        return self._count

    def ignore(self, column: str) -> None:
        """Rows are equal even if they differ in this column: one that came along and is no part of the relation."""
        self._identity = tuple(n for n in self._identity if n != column)

    def apply(self, delta: Delta) -> Delta:
        """The changes that the next elements make."""
        chunk = self.apply_chunk(Chunk(delta.time, pa.RecordBatch.from_pydict(dict(delta.columns)), 0))
        columns = dict(zip(chunk.rows.schema.names, chunk.rows.columns, strict=True))
        return Delta(chunk.time, columns, chunk.weight)

    def apply_chunk(self, chunk: Chunk) -> Chunk:
        if not len(chunk):
            return chunk
        if not self.definition.key and self.definition.sign is None:
            self._store.append(chunk.time, chunk.rows)
            self._count += len(chunk)
            return Chunk(chunk.time, chunk.rows, 0)
        rows, origin, weight, failures = self._walk(chunk)
        if failures:
            self._divert(chunk, failures)
        changed = self._store.take(np.array(rows, np.int64)).rows
        if self._store.size - self._count > max(DEAD_ROWS_BEFORE_COMPACTION, self._count):
            self._compact()
        return Chunk(chunk.time[np.array(origin, np.int64)], changed, 0, None, np.array(weight, np.int64))

    def _identities(self, rows: pa.RecordBatch) -> Iterable[tuple[Hashable, ...]]:
        return zip(*(hashable(rows[c]) for c in self._identity), strict=True)

    def _walk(self, chunk: Chunk) -> tuple[list[int], list[int], list[int], dict[int, str]]:
        """Store numbers, element positions and signs of the changes; and the elements that make none."""
        signs = self._signs(chunk)
        keyed = bool(self.definition.key)
        first = self._store.append(chunk.time, chunk.rows)
        rows: list[int] = []
        origin: list[int] = []
        weight: list[int] = []
        failures: dict[int, str] = {}
        for i, (identity, sign) in enumerate(zip(self._identities(chunk.rows), signs, strict=True)):
            there = self._live.get(identity)
            if sign is None:
                failures[i] = f"the sign {self.definition.sign!r} is neither 1 nor -1, neither '+' nor '-'"
                continue
            if sign < 0 and not there:
                failures[i] = "deletes a row that is not there"
                continue
            if there and (keyed or sign < 0):
                rows.append(there.popleft())
                origin.append(i)
                weight.append(-1)
                self._count -= 1
            if sign > 0:
                rows.append(first + i)
                origin.append(i)
                weight.append(1)
                self._count += 1
                if there is None:
                    there = self._live[identity] = deque()
                there.append(first + i)
            elif not there:
                del self._live[identity]
        return rows, origin, weight, failures

    def _signs(self, chunk: Chunk) -> Sequence[int | None]:
        if self.definition.sign is None:
            return [1] * len(chunk)
        return [SIGNS.get(v) for v in chunk.rows[self.definition.sign].to_pylist()]

    def _divert(self, chunk: Chunk, failures: Mapping[int, str]) -> None:
        at = np.array(sorted(failures), np.int64)
        reasons = [failures[i] for i in at.tolist()]
        bad = chunk.rows.take(pa.array(at))
        if self.strict:
            raise DataError(
                f"an element of {self.definition.name!r} is invalid: {reasons[0]}: {bad.slice(0, 1).to_pylist()[0]}."
            )
        self.invalid.add(Diverted(self.definition.name, bad, chunk.time[at], pa.array(reasons, pa.string())))

    def content(self) -> Chunk | None:
        """The relation as it is: every row that is there, at the instant of its insertion, in that order."""
        return self._store.take(self._alive()) if self._count else None

    def _alive(self) -> Int64s:
        if not self.definition.key and self.definition.sign is None:
            return np.arange(self._store.size, dtype=np.int64)
        return np.array(sorted(i for rows in self._live.values() for i in rows), np.int64)

    def _compact(self) -> None:
        alive = self._alive()
        number = dict(zip(alive.tolist(), range(len(alive)), strict=True))
        self._store.compact(alive)
        self._live = {k: deque(number[i] for i in rows) for k, rows in self._live.items()}

    def state(self) -> dict[str, Any]:
        content = self.content()
        return {} if content is None else {"time": content.time, "rows": content.rows}

    def load(self, state: Mapping[str, Any]) -> None:
        """The content is all there is: numbers follow from it, in order of insertion."""
        self._store, self._live, self._count = RowStore(), {}, 0
        if not state:
            return
        self._count = len(state["time"])
        self._store.append(state["time"], state["rows"])
        for i, identity in enumerate(self._identities(state["rows"])):
            self._live.setdefault(identity, deque()).append(i)


def latest(definition: RelationDef, table: pa.Table) -> pa.Table:
    """A constant relation with a key: the last row of each key has replaced those before it.

    >>> from eddyline.core.schema import Schema
    >>> table = pa.table({"id": ["a", "b", "a"], "v": [1, 2, 3]})
    >>> latest(RelationDef("R", Schema.from_arrow(table.schema), key=("id",)), table).to_pylist()
    [{'id': 'b', 'v': 2}, {'id': 'a', 'v': 3}]
    """
    changes = RelationChanges(definition)
    for batch in table.to_batches():
        changes.apply_chunk(Chunk(np.zeros(batch.num_rows, np.int64), batch, 0))
    content = changes.content()
    return table.slice(0, 0) if content is None else pa.Table.from_batches([content.rows], table.schema)


class TimedRelation(InputStream):
    """A relation whose elements carry time: an input like a stream, whose readers get weighted changes.

    Unlike a stream it *is* something before a query comes: a new reader first gets the content, at the instants at
    which its rows were inserted, then the changes. All columns are kept, because equality of rows needs them.
    """

    remembers = True

    def __init__(self, definition: RelationDef, clock: Clock, *, strict: bool = False, keep: int = ROWS_KEPT) -> None:
        super().__init__(definition, clock, strict=strict, keep=keep)
        self.changes = RelationChanges(definition, self.invalid, strict=strict)
        self.plan_columns()

    def plan_columns(self) -> None:
        self._needed = self._brought = self.definition.schema.names

    def _start_reader(self, reader: StreamReader) -> None:
        reader.since = 0
        content = self.changes.content()
        if content is not None:
            reader.chunks.append(content)
        for chunk in (*reader.chunks, *self._buffer.chunks):
            reader.saw(int(chunk.time[0]))

    def _deliver(self, chunk: Chunk) -> None:
        changed = self.changes.apply_chunk(chunk)
        if len(changed):
            super()._deliver(changed)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "content": self.changes.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.changes.load(state["content"])
