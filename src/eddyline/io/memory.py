"""Sources for data in this process: Arrow tables, batches, readers, data frames, iterables of batches or rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa

from eddyline.core.errors import DataError, JobError, did_you_mean
from eddyline.core.time import Clock, SystemClock
from eddyline.expr.types import type_name
from eddyline.io.conform import conform, declared_columns, engine_schema
from eddyline.io.nested import flat_batch, flat_row, flat_schema
from eddyline.io.row_values import REFUSALS, BadRow, ColumnNames, column_array
from eddyline.io.segments import SegmentSource, batches_of_segments
from eddyline.io.source import BATCH_ROWS, InvalidRow, SourceBatch, pruned, shorten

SAMPLE_ROWS: Final = 100  # first rows of an iterator, from which the types are found
MAX_NANOSECONDS_WAITING: Final = 100_000_000  # of rows that come one by one, before they are handed over


class ArrowSource:
    """Record batches from anything that yields them; a table or a list can be opened again and again, a reader once.

    >>> source = memory_source(pa.table({"ts": [1, 2, 3]}))
    >>> [len(b.rows) for b in source.open(batch_rows=2)]
    [2, 1]
    """

    def __init__(
        self,
        found: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema | None = None,
        name: str = "the table",
    ) -> None:
        self._name, self._batches = name, batches
        self._once = iter(batches) is batches
        self.finite = not self._once
        if schema is not None:
            schema = declared_columns(schema, flat_schema(found).names, name)
        self.schema = engine_schema(schema if schema is not None else found, name)
        self._opened = False

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        if self._once and self._opened:
            raise JobError(f"{self._name} can be read only once; give a table or a list to read it again.")
        self._opened = True
        wanted = pa.schema([self.schema.field(c) for c in pruned(self.schema, columns)])
        return self._cut(wanted, batch_rows)

    def _cut(self, wanted: pa.Schema, batch_rows: int) -> Iterator[SourceBatch]:
        for batch in map(flat_batch, self._batches):
            for start in range(0, len(batch), batch_rows):
                piece = batch.slice(start, batch_rows)
                missing = [n for n in wanted.names if n not in piece.schema.names]
                if missing:
                    raise DataError(
                        f"{self._name}: a batch has no column {missing[0]!r}, which the first one had."
                        f"{did_you_mean(missing[0], piece.schema.names)}"
                    )
                yield conform(piece.select(wanted.names), wanted, self._name)


def arrow_batches(data: Any, name: str) -> tuple[pa.Schema, Iterable[pa.RecordBatch]] | None:
    """Schema and batches of an object with Arrow's stream interface or a data frame, None for anything else."""
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, iter(data)
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    try:
        # pandas, polars, DuckDB and others have Arrow's stream interface; so does a mapping of columns by name.
        if hasattr(data, "__arrow_c_stream__") or type(data).__module__.startswith("pandas."):
            table = pa.table(data)
        elif isinstance(data, Mapping):
            table = pa.table(dict(data))
        else:
            return None
    except (pa.ArrowException, TypeError, ValueError) as error:
        said = str(error).rstrip(".")
        raise JobError(f"{name} cannot be read as a table, a list of values for each column: {said}.") from error
    table = table.select([n for n in table.column_names if not n.startswith("__index_level_")])
    return table.schema.remove_metadata(), table.to_batches()


class RowSource:
    """Rows as mappings, named tuples, tuples or lists (the latter two need a schema).

    Keys are matched without regard to case, and missing ones are NULL. A key that is no column, and a value that is not
    of its column's type, make the row invalid. Without a schema the keys of the first rows are the columns.

    >>> source = RowSource([{"ts": 1, "who": "ann"}, {"ts": 2}, {"ts": "x"}], name="rows")
    >>> (batch,) = source.open()
    >>> batch.rows.to_pydict()
    {'ts': [1, 2], 'who': ['ann', None]}
    >>> batch.invalid[0].reason
    "rows, row 3: column 'ts': 'x' is not a value of type bigint"
    """

    def __init__(
        self,
        rows: Iterable[Any],
        schema: pa.Schema | None = None,
        name: str = "the iterable",
        clock: Clock | None = None,
    ) -> None:
        self._name, self._clock = name, clock or SystemClock()
        self.finite = isinstance(rows, Sequence)
        self._once = iter(rows) is rows
        self._opened = False
        if schema is None:
            head = list(islice(iter(rows), SAMPLE_ROWS)) if self._once else list(islice(rows, 100 * SAMPLE_ROWS))
            schema = _infer(head, name)
            rows = chain(head, rows) if self._once else rows
        self._rows = rows
        self.schema = engine_schema(schema, name)
        self._columns = ColumnNames(self.schema.names)

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        if self._once and self._opened:
            raise JobError(f"{self._name} can be read only once; give a list to read it again.")
        self._opened = True
        return self._collect(pruned(self.schema, columns), batch_rows)

    def _collect(self, columns: list[str], batch_rows: int) -> Iterator[SourceBatch]:
        pending: list[Any] = []
        first, since = 1, self._clock.nanoseconds()
        for row in self._rows:
            pending.append(row)
            # Rows may trickle in from something live: those that are here must not wait for a full batch.
            if len(pending) == batch_rows or (
                not self.finite and self._clock.nanoseconds() - since > MAX_NANOSECONDS_WAITING
            ):
                yield self._batch(pending, first, columns)
                first, since, pending = first + len(pending), self._clock.nanoseconds(), []
        if pending:
            yield self._batch(pending, first, columns)

    def _batch(self, rows: list[Any], first: int, columns: list[str]) -> SourceBatch:
        try:
            tuples = [self._columns.values(r) for r in rows]
            whole = self._arrays(tuples)
            return SourceBatch(whole.select(columns))
        except REFUSALS:
            pass
        good: list[tuple[Any, ...]] = []
        invalid: list[InvalidRow] = []
        for number, row in enumerate(rows, first):
            try:
                values = self._columns.values(row)
            except BadRow as error:
                invalid.append(InvalidRow(f"{self._name}, row {number}: {error}", repr(row), before=len(good)))
                continue
            fault = self._fault(values)
            if fault is None:
                good.append(values)
            else:
                invalid.append(InvalidRow(f"{self._name}, row {number}: {fault}", repr(row), before=len(good)))
        return SourceBatch(self._arrays(good).select(columns), invalid)

    def _arrays(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        turned = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
        return pa.RecordBatch.from_arrays(
            [column_array(values, f.type) for values, f in zip(turned, self.schema, strict=True)], schema=self.schema
        )

    def _fault(self, values: tuple[Any, ...]) -> str | None:
        for value, f in zip(values, self.schema, strict=True):
            try:
                column_array((value,), f.type)
            except REFUSALS:
                return f"column {f.name!r}: {shorten_value(value)} is not a value of type {type_name(f.type)}"
        return None


def shorten_value(value: Any) -> str:
    return shorten(value, 60) if isinstance(value, str) else repr(value)[:60]


def _infer(rows: list[Any], name: str) -> pa.Schema:
    if not rows:
        raise JobError(f"{name} is empty, so its columns are unknown: pass a schema.")
    rows = [flat_row(r) if isinstance(r, Mapping) else r for r in rows]
    first = rows[0]
    if isinstance(first, Mapping):
        spelled: dict[str, str] = {}
        for key in (str(k) for r in rows if isinstance(r, Mapping) for k in r):
            spelled.setdefault(key.lower(), key)
        names = [n for n in spelled.values() if not any(o.startswith(f"{n}.") for o in spelled.values())]
    elif hasattr(first, "_fields"):
        names = list(first._fields)
    else:
        raise JobError(f"{name}: rows of type {type(first).__name__} have no column names: pass a schema.")
    columns, tuples = ColumnNames(names), list[tuple[Any, ...]]()
    for row in rows:
        with suppress(BadRow):  # it is no row, and is reported when it is read
            tuples.append(columns.values(row))
    return pa.schema([(n, _type_of([t[i] for t in tuples])) for i, n in enumerate(names)])


def _type_of(values: list[Any]) -> pa.DataType:
    """The type of most values: a stray among them is a malformed row, not a reason to give up."""
    known = [v for v in values if v is not None]
    kinds = {type(v) for v in known}
    if not known:
        return pa.string()
    if kinds <= {int, float}:
        return pa.array(known, pa.float64() if float in kinds else None).type
    common = max(kinds, key=lambda k: (sum(type(v) is k for v in known), k.__name__))
    try:
        return pa.array([v for v in known if type(v) is common]).type
    except (pa.ArrowException, OverflowError):
        return pa.string()


def is_frame(source: Any) -> bool:
    """Whether this is a Spark DataFrame, classic or Connect; this imports nothing of Spark."""
    return any(c.__module__.startswith("pyspark.sql") and c.__name__ == "DataFrame" for c in type(source).__mro__)


def memory_source(
    data: Any, schema: pa.Schema | None = None, name: str = "the data"
) -> ArrowSource | RowSource | SegmentSource:
    """The source for a Python object."""
    arrow = arrow_batches(data, name)
    if arrow is not None:
        return _arrow_source(arrow[0], arrow[1], schema, name)
    if not isinstance(data, Iterable) or isinstance(data, str | bytes):
        raise JobError(
            f"a {type(data).__name__} cannot be read as a source: give a path, an Arrow table or reader, a data frame, "
            "or an iterable of batches or rows."
        )
    once = iter(data) is data
    head = list(islice(iter(data), 1))
    whole: Iterable[Any] = chain(head, data) if once else data
    if head and isinstance(head[0], pa.RecordBatch | pa.Table):
        parts = _Flat(whole)
        stored = isinstance(data, list | tuple)
        return _arrow_source(head[0].schema, [*parts] if stored else iter(parts) if once else parts, schema, name)
    return RowSource(whole, schema, name)


def _arrow_source(
    found: pa.Schema, batches: Iterable[pa.RecordBatch], schema: pa.Schema | None, name: str
) -> ArrowSource | SegmentSource:
    segments = batches_of_segments(found, batches, name) if schema is None else None
    return ArrowSource(found, batches, schema, name) if segments is None else segments


class _Flat:
    """Batches and tables one after another, as often as the iterable allows."""

    def __init__(self, parts: Iterable[Any]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for part in self._parts:
            yield from part.to_batches() if isinstance(part, pa.Table) else (part,)
