"""Parquet files: any range of rows; the statistics of row groups say at what times they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.core.delta import Int64s
from eddyline.io.conform import conform, declared_columns
from eddyline.io.nested import flat_batch, flat_schema
from eddyline.io.parquet import damaged, open_parquet
from eddyline.io.source import SourceBatch, pruned
from eddyline.spark.sources.files import present
from eddyline.spark.sources.parts import Times
from eddyline.spark.sources.places import Mark

ROWS_DECODED_AT_ONCE: Final = 1 << 15  # those beyond a slice's end are decoded in vain


@dataclass(frozen=True, slots=True)
class ParquetSlice:
    """Rows ``start`` to ``stop`` of a file, None: to its end."""

    path: Path
    schema: pa.Schema
    start: int
    stop: int | None
    base: int

    @property
    def first(self) -> int:
        return self.base + self.start

    def read(self, columns: Sequence[str]) -> Iterator[SourceBatch]:
        wanted = pa.schema([self.schema.field(c) for c in pruned(self.schema, columns)])
        with open_parquet(present(self.path)) as file:
            declared_columns(wanted, flat_schema(file.schema_arrow).names, self.path.name)
            stop = file.metadata.num_rows if self.stop is None else self.stop
            groups, skip = _groups(file.metadata, self.start, stop)
            left = stop - self.start
            try:
                # One thread: Spark has a task for each core.
                for batch in file.iter_batches(ROWS_DECODED_AT_ONCE, groups, wanted.names, use_threads=False):
                    if skip >= batch.num_rows:
                        skip -= batch.num_rows
                        continue
                    batch, skip = batch.slice(skip, left), 0
                    first = stop - left + 1  # in the file
                    left -= batch.num_rows
                    yield conform(flat_batch(batch).select(wanted.names), wanted, self.path.name, first)
                    if left <= 0:
                        return
            except (pa.ArrowException, OSError) as error:
                raise damaged(self.path, error) from error


def _groups(metadata: pq.FileMetaData, start: int, stop: int) -> tuple[list[int], int]:
    """The row groups that hold these rows, and how many rows of the first come before them."""
    ends = np.cumsum([metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)], dtype=np.int64)
    first, last = int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(ends, stop, side="left"))
    begin = int(ends[first - 1]) if first else 0
    return list(range(first, min(last + 1, len(ends)))), start - begin


@dataclass
class ParquetPart:
    """``timestamp`` is the column of time, if its statistics can be used."""

    path: Path
    schema: pa.Schema
    timestamp: str | None

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        with open_parquet(present(self.path)) as file:
            return file.metadata

    @cached_property
    def knots(self) -> Times | None:
        """Time as a function of rows over the whole file, straight between the ends of row groups."""
        return None if self.timestamp is None else statistics_of(self.metadata, self.timestamp)

    @property
    def row_bytes(self) -> float:
        return 0.0

    def ahead(self, mark: Mark, rows: float) -> float:
        return float(self.metadata.num_rows - mark.at)

    def times(self, mark: Mark, rows: float) -> Times | None:
        known = self.knots
        if known is None:
            return None
        here = int(np.searchsorted(known.rows, mark.at, side="right"))
        there = int(np.searchsorted(known.rows, min(mark.at + rows, self.metadata.num_rows), side="left")) + 1
        now = np.interp(mark.at, known.rows, known.ticks)
        ticks = np.concatenate([np.array([int(now)], np.int64), known.ticks[here:there]])
        return Times(
            np.maximum.accumulate(ticks), np.concatenate([np.zeros(1, np.int64), known.rows[here:there] - mark.at])
        )

    def advance(self, mark: Mark, rows: float) -> tuple[Mark | None, float]:
        left = self.metadata.num_rows - mark.at
        if rows >= left:
            return None, left
        return Mark(mark.at + int(rows)), int(rows)

    def cuts(self, start: Mark, stop: Mark | None, rows: float) -> list[tuple[Mark, float]]:
        end = self.metadata.num_rows if stop is None else stop.at
        return row_cuts(start.at, end, rows)

    def slice(self, start: Mark, stop: Mark | None, base: int) -> ParquetSlice:
        return ParquetSlice(self.path, self.schema, start.at, None if stop is None else stop.at, base)

    def forget(self, mark: Mark) -> None:
        pass


def row_cuts(start: int, stop: int, rows: float) -> list[tuple[Mark, float]]:
    """
    >>> row_cuts(0, 10, 4)
    [(Mark(at=0, line=1), 4), (Mark(at=4, line=1), 4), (Mark(at=8, line=1), 2)]
    """
    step = max(1, int(min(rows, stop - start)))
    return [(Mark(at), min(step, stop - at)) for at in range(start, stop, step)] or [(Mark(start), 0)]


_PER_TICK = {"ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}


def statistics_of(metadata: pq.FileMetaData, column: str) -> Times | None:
    """Before a row group time has come as far as any row group before it, or to the group's own smallest time; after
    it, as far as the largest so far."""
    found = metadata.schema.to_arrow_schema()
    names = metadata.schema.names
    if column not in names or column not in found.names:
        return None
    times, scale = found.field(column).type, (1, 1)
    if pa.types.is_timestamp(times):
        scale = _PER_TICK.get(times.unit, (0, 1))
    elif not pa.types.is_integer(times):
        return None
    if scale[0] == 0:
        return None
    place = names.index(column)
    ticks, rows, before = list[int](), list[int](), 0
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        if group.num_rows == 0:
            continue
        chunk = group.column(place)
        stored = chunk.statistics if chunk.physical_type in ("INT64", "INT32") else None
        if stored is None or not stored.has_min_max:
            return None
        low, high = (int(v) * scale[0] // scale[1] for v in (stored.min_raw, stored.max_raw))
        ticks += [low, high]
        rows += [before, before + group.num_rows]
        before += group.num_rows
    if not ticks:
        return None
    return Times(_growing(ticks), np.asarray(rows, np.int64))


def _growing(ticks: Sequence[int]) -> Int64s:
    out: Int64s = np.maximum.accumulate(np.asarray(ticks, np.int64))
    return out
