"""Segment tables as streams: the coefficients of each value come as columns of doubles (``value#0``, ``value#1`` …)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import JobError
from eddyline.io.conform import conform, engine_schema
from eddyline.io.parquet import damaged, open_parquet
from eddyline.io.source import BATCH_ROWS, SourceBatch, pruned, whole
from eddyline.models.segments import FROM, TO, SegmentLayout, coefficients_of, flat_names

Batches = Callable[[int, Sequence[str] | None], Iterable[pa.RecordBatch]]  # of so many rows, with these columns


class SegmentSource:
    """``layout`` says what the segments model.

    Segments that are ``stored``, in files or tables, come by their beginnings, those of one instant as they are stored:
    a table knows no late rows, and tables of several fits may be put together. Others come as they are given.
    """

    def __init__(
        self, layout: SegmentLayout, found: pa.Schema, batches: Batches, name: str, *, finite: bool, stored: bool
    ) -> None:
        self.layout, self._batches, self._name, self.finite, self._stored = layout, batches, name, finite, stored
        plain = [found.field(n) for n in (*layout.key, FROM, TO)]
        for f in plain[-2:]:
            stamps = pa.types.is_timestamp(f.type) and pa.types.is_timestamp(layout.time_type)  # of any unit
            if f.type != layout.time_type and not stamps:
                raise JobError(f"{name}: {FROM} and {TO} of segments are {layout.time_type}, but {f.name} is {f.type}.")
        flat = [pa.field(n, pa.float64()) for n in flat_names(layout)]
        self.schema = engine_schema(pa.schema([*plain, *flat]), name)

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        wanted = pa.schema([self.schema.field(c) for c in pruned(self.schema, columns)])
        if not self._stored or self._is_ordered(batch_rows):
            yield from self._read(wanted, batch_rows)
            return
        read = pa.schema([*wanted, *([] if FROM in wanted.names else [self.schema.field(FROM)])])
        table = whole(self._read(read, batch_rows), read)
        table = table.take(pc.sort_indices(table[FROM]))  # stable
        for batch in table.select(wanted.names).to_batches(max_chunksize=batch_rows):
            yield SourceBatch(batch)

    def _is_ordered(self, batch_rows: int) -> bool:
        last = None
        for batch in self._batches(batch_rows, [FROM]):
            starts = batch.column(FROM).drop_null()
            if not len(starts):
                continue
            starts = pc.cast(starts, self.schema.field(FROM).type, safe=False)
            starts = starts.view(pa.int64()).to_numpy(zero_copy_only=False)
            if (last is not None and starts[0] < last) or (starts[1:] < starts[:-1]).any():
                return False
            last = starts[-1]
        return True

    def _read(self, wanted: pa.Schema, batch_rows: int) -> Iterator[SourceBatch]:
        for batch in self._batches(batch_rows, None):
            if batch.num_rows:  # lists that are not there have no length
                yield conform(self._flat(batch, wanted), wanted, self._name)

    def _flat(self, batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
        arrays: list[Any] = []
        known: dict[str, Any] = {}
        degrees = {v.name: v.degree for v in self.layout.values}
        for name in wanted.names:
            value, sign, power = name.rpartition("#")
            if not sign:
                arrays.append(batch.column(name))
                continue
            if value not in known:
                known[value] = coefficients_of(batch.column(value), f"{self._name}: {value!r}")
                if known[value].shape[1] != degrees[value] + 1:
                    raise JobError(f"{self._name}: {value!r} needs {degrees[value] + 1} coefficients.")
            arrays.append(pa.array(known[value][:, int(power)]))
        return pa.RecordBatch.from_arrays(arrays, names=wanted.names)


def batches_of_segments(found: pa.Schema, batches: Iterable[pa.RecordBatch], name: str) -> SegmentSource | None:
    """A source for segments in memory; None if the schema is not that of segments. A list of batches is a stored table,
    an iterator can be read once."""
    layout = SegmentLayout.of(found)
    if layout is None:
        return None
    once, opened = iter(batches) is batches, False

    def cut(rows: int, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        nonlocal opened
        if once and opened:
            raise JobError(f"{name} can be read only once; give a table or a list to read it again.")
        opened = True
        for batch in batches:
            if SegmentLayout.of(batch.schema) != layout:
                raise JobError(f"{name}: a batch holds other segments than the first one: declare them apart.")
            for start in range(0, len(batch), rows):
                yield batch.slice(start, rows)

    return SegmentSource(layout, found, cut, name, finite=not once, stored=isinstance(batches, list))


def files_of_segments(paths: Sequence[Path]) -> SegmentSource | None:
    """A source for Parquet files that hold segments; None if the first holds none."""
    with open_parquet(paths[0]) as first:
        found = first.schema_arrow
    layout = SegmentLayout.of(found, paths[0].name)
    if layout is None:
        return None

    def batches(rows: int, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for path in paths:
            with open_parquet(path) as file:
                if SegmentLayout.of(file.schema_arrow, path.name) != layout:
                    raise JobError(f"{path.name} holds other segments than {paths[0].name}: declare them apart.")
                try:
                    yield from file.iter_batches(rows, columns=columns)
                except (pa.ArrowException, OSError) as error:
                    raise damaged(path, error) from error

    return SegmentSource(layout, found, batches, paths[0].name, finite=True, stored=True)
