"""Rows that no worker can read by itself: tables of the user's process, and sources that must be read from their start.

The planner has them and cuts out what each micro-batch needs; slices carry their rows along.
"""

from __future__ import annotations

import math
import tempfile
import weakref
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.delta import Int64s
from eddyline.core.errors import JobError
from eddyline.io.memory import ArrowSource, RowSource
from eddyline.io.source import BATCH_ROWS, InvalidRow, Source, SourceBatch, plain, pruned
from eddyline.spark.sources.parquet import row_cuts
from eddyline.spark.sources.parts import Times
from eddyline.spark.sources.places import Mark

MAX_INLINE_BYTES: Final = 256 << 10  # of a table that is sent with every task; larger ones wait in a file
MAX_BYTES: Final = 2 << 30  # of the rows of an iterable, which are all read into memory
ASSUMED_ROWS: Final = 1e6  # of a source that does not give their number
ROWS_BETWEEN_TIMES: Final = 1024  # from one row whose time is listed to the next


@dataclass(frozen=True, slots=True)
class CarriedSlice:
    """Rows as an Arrow stream, and malformed ones by the row (``before``) that they come before."""

    data: bytes
    invalid: tuple[InvalidRow, ...]
    first: int

    def read(self, columns: Sequence[str]) -> Iterator[SourceBatch]:
        invalid = list(self.invalid)
        with pa.ipc.open_stream(self.data) as stream:
            wanted = pruned(stream.schema, columns)
            for batch in stream:
                yield SourceBatch(batch.select(wanted), invalid)
                invalid = []
        if invalid:
            yield SourceBatch(pa.RecordBatch.from_pylist([], schema=stream.schema).select(wanted), invalid)


@dataclass(frozen=True, slots=True)
class DrainedSource:
    """A drained source: its rows, in this object or in a file beside the driver, and the malformed ones."""

    data: bytes | Path
    invalid: tuple[InvalidRow, ...]

    def table(self) -> pa.Table:
        if isinstance(self.data, bytes):
            with pa.ipc.open_stream(self.data) as reader:
                return reader.read_all()
        with pa.memory_map(str(self.data)) as file, pa.ipc.open_stream(file) as reader:
            return reader.read_all()


_drained: weakref.WeakKeyDictionary[ArrowSource | RowSource, DrainedSource] = weakref.WeakKeyDictionary()
_folders: list[tempfile.TemporaryDirectory[str]] = []  # they are removed when the process ends


def drain(source: Source, name: str, in_file: bool) -> DrainedSource:
    """Everything that a source of this process has. What can be read only once is kept."""
    if not isinstance(source, ArrowSource | RowSource):
        return _drain(source, name, in_file)
    found = _drained.get(source)
    if found is None:
        found = _drained[source] = _drain(source, name, in_file)
    return found


def _drain(source: Source, name: str, in_file: bool) -> DrainedSource:
    batches, invalid, count, size = list[pa.RecordBatch](), list[InvalidRow](), 0, 0
    for batch in source.open():
        invalid += [replace(r, before=count + r.before) for r in batch.invalid]
        count += batch.rows.num_rows
        size += batch.rows.nbytes
        batches.append(plain(batch.rows, source.schema))
        if size > MAX_BYTES:
            raise JobError(
                f"{name!r} has more than {MAX_BYTES >> 30} GiB of rows in this process, or no end: write them to"
                " Parquet"
                " files and give their path, or use the inline runtime."
            )
    data = to_stream(pa.Table.from_batches(batches, source.schema))
    if len(data) <= MAX_INLINE_BYTES or not in_file:
        return DrainedSource(data, tuple(invalid))
    folder = tempfile.TemporaryDirectory(prefix="eddyline-")
    _folders.append(folder)
    path = Path(folder.name, "rows.arrow")
    path.write_bytes(data)
    return DrainedSource(path, tuple(invalid))


def to_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


@dataclass
class TablePart:
    kept: DrainedSource
    timestamp: str | None
    columns: tuple[str, ...] | None = None

    @cached_property
    def table(self) -> pa.Table:
        table = self.kept.table()
        return table.select(pruned(table.schema, self.columns))

    @cached_property
    def reached(self) -> Int64s | None:
        """The largest time up to every ``ROWS_BETWEEN_TIMES``-th row."""
        return None if self.timestamp is None else times_of(self.table[self.timestamp])

    @property
    def row_bytes(self) -> float:
        return float(self.table.nbytes / max(1, self.table.num_rows))

    def ahead(self, mark: Mark, rows: float) -> float:
        left = self.table.num_rows - mark.at
        # Malformed rows are rows to be read, also where no others are.
        return float(left or any(r.before >= mark.at for r in self.kept.invalid))

    def times(self, mark: Mark, rows: float) -> Times | None:
        if self.reached is None:
            return None
        stop = min(mark.at + rows, self.table.num_rows)
        at = np.arange(mark.at // ROWS_BETWEEN_TIMES, -(-int(stop) // ROWS_BETWEEN_TIMES) + 1)
        at = np.minimum(at, len(self.reached) - 1)
        return Times(self.reached[at], np.clip(at * ROWS_BETWEEN_TIMES - mark.at, 0, self.table.num_rows - mark.at))

    def advance(self, mark: Mark, rows: float) -> tuple[Mark | None, float]:
        left = self.table.num_rows - mark.at
        return (None, max(left, 1)) if rows >= left else (Mark(mark.at + int(rows)), int(rows))

    def cuts(self, start: Mark, stop: Mark | None, rows: float) -> list[tuple[Mark, float]]:
        return row_cuts(start.at, self.table.num_rows if stop is None else stop.at, rows)

    def slice(self, start: Mark, stop: Mark | None, base: int) -> CarriedSlice:
        rows = self.table.slice(start.at, None if stop is None else stop.at - start.at)
        return carried(rows, between(self.kept.invalid, start.at, None if stop is None else stop.at), base + start.at)

    def forget(self, mark: Mark) -> None:
        pass


def carried(rows: pa.Table, invalid: Sequence[InvalidRow], first: int) -> CarriedSlice:
    return CarriedSlice(to_stream(rows), tuple(invalid), first)


def between(invalid: Sequence[InvalidRow], start: int, stop: int | None) -> list[InvalidRow]:
    """Those that come right before a row of the stretch; at the end of a source also those after its last row."""
    here = bisect_left(invalid, start, key=lambda r: r.before)
    there = len(invalid) if stop is None else bisect_left(invalid, stop, key=lambda r: r.before)
    return list(invalid[here:there])


def times_of(column: pa.ChunkedArray) -> Int64s | None:
    """The largest time up to every ``ROWS_BETWEEN_TIMES``-th row and the last; None if there are rows without times."""
    if column.null_count == len(column):
        return None
    numbers = column.cast(pa.int64())
    grown: Int64s = np.maximum.accumulate(numbers.fill_null(pc.min(numbers)).to_numpy())
    return np.append(grown[::ROWS_BETWEEN_TIMES], grown[-1])


@dataclass
class ReplayPart:
    """A source that is read from its start (a generator, a reader of the user's own): the planner goes through it once
    and keeps what the next micro-batches need. A process that starts later goes through it again up to its place."""

    source: Source
    timestamp: str | None
    columns: tuple[str, ...] | None = None
    _batches: Iterator[SourceBatch] | None = field(default=None, init=False, repr=False)
    _held: list[SourceBatch] = field(default_factory=list, init=False, repr=False)
    _start: int = field(default=0, init=False, repr=False)  # rows before those that are held
    _stop: int = field(default=0, init=False, repr=False)
    _done: bool = field(default=False, init=False, repr=False)

    @property
    def row_bytes(self) -> float:
        held = sum(b.rows.num_rows for b in self._held)
        return float(sum(b.rows.nbytes for b in self._held) / max(1, held))

    def _fill(self, mark: Mark, rows: float) -> None:
        if self._batches is None or mark.at < self._start:
            self._batches, self._held, self._start, self._stop = self.source.open(self.columns), [], 0, 0
            self._done = False
        while not self._done and self._stop < mark.at + rows:
            batch = next(self._batches, None)
            if batch is None:
                self._done = True
            else:
                self._held.append(batch)
                self._stop += batch.rows.num_rows
                self.forget(mark)

    def ahead(self, mark: Mark, rows: float) -> float:
        if math.isinf(rows):
            return rows
        self._fill(mark, rows + 1)
        left = self._stop - mark.at
        return float(left) if self._done else math.inf

    def times(self, mark: Mark, rows: float) -> Times | None:
        if self.timestamp is None or math.isinf(rows):
            return None
        self._fill(mark, rows)
        reached = times_of(self._rows(mark.at, self._stop)[self.timestamp])
        if reached is None:
            return None
        return Times(reached, np.minimum(np.arange(len(reached)) * ROWS_BETWEEN_TIMES, self._stop - mark.at))

    def advance(self, mark: Mark, rows: float) -> tuple[Mark | None, float]:
        if math.isinf(rows):
            return None, rows
        self._fill(mark, rows + 1)
        left = self._stop - mark.at
        return (None, max(left, 1)) if rows >= left else (Mark(mark.at + int(rows)), int(rows))

    def cuts(self, start: Mark, stop: Mark | None, rows: float) -> list[tuple[Mark, float]]:
        if stop is None and not (self._done and self._start <= start.at):
            return [(start, min(rows, ASSUMED_ROWS))]
        return row_cuts(start.at, self._stop if stop is None else stop.at, rows)

    def slice(self, start: Mark, stop: Mark | None, base: int) -> CarriedSlice | ReplaySlice:
        if stop is None and not (self._done and self._start <= start.at):
            return ReplaySlice(self.source, start.at, base + start.at)
        self._fill(start, 0 if stop is None else stop.at - start.at)
        end = self._stop if stop is None else stop.at
        invalid, at = list[InvalidRow](), self._start
        for batch in self._held:
            invalid += [replace(r, before=at + r.before) for r in batch.invalid]
            at += batch.rows.num_rows
        chosen = between(invalid, start.at, None if stop is None else end)
        return carried(self._rows(start.at, end), chosen, base + start.at)

    def forget(self, mark: Mark) -> None:
        # A batch that ends here may have malformed rows at its end.
        while self._held and self._start + self._held[0].rows.num_rows < mark.at:
            self._start += self._held.pop(0).rows.num_rows

    def _rows(self, start: int, stop: int) -> pa.Table:
        schema = pa.schema([self.source.schema.field(c) for c in pruned(self.source.schema, self.columns)])
        held = pa.Table.from_batches([plain(b.rows, schema) for b in self._held], schema)
        return held.slice(start - self._start, stop - start)


@dataclass(frozen=True, slots=True)
class ReplaySlice:
    """The rest of a source: the worker reads it from its start and passes over what comes before."""

    source: Source
    start: int
    first: int

    def read(self, columns: Sequence[str]) -> Iterator[SourceBatch]:
        passed = 0
        for batch in self.source.open(columns):
            skip = min(self.start - passed, batch.rows.num_rows)
            invalid = [r for r in batch.invalid if passed + r.before >= self.start]
            passed += skip
            yield SourceBatch(batch.rows.slice(skip), invalid)
