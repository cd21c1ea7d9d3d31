"""Segment tables as streams: the coefficients of each value come as columns of doubles (``value#0``, ``value#1`` …)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.core.errors import JobError
from eddyline.io.conform import conform, engine_schema
from eddyline.io.parquet import damaged, open_parquet
from eddyline.io.source import BATCH_ROWS, SourceBatch, pruned
from eddyline.models.segments import FROM, TO, SegmentLayout, coefficients_of, flat_names

Batches = Callable[[int], Iterable[pa.RecordBatch]]


class SegmentSource:
    """Segments in the order in which they are stored; ``layout`` says what they model."""

    def __init__(
        self, layout: SegmentLayout, found: pa.Schema, batches: Batches, name: str, finite: bool = True
    ) -> None:
        self.layout, self._batches, self._name, self.finite = layout, batches, name, finite
        plain = [found.field(n) for n in (*layout.key, FROM, TO)]
        for f in plain[-2:]:
            stamps = pa.types.is_timestamp(f.type) and pa.types.is_timestamp(layout.time_type)  # of any unit
            if f.type != layout.time_type and not stamps:
                raise JobError(f"{name}: {FROM} and {TO} of segments are {layout.time_type}, but {f.name} is {f.type}.")
        flat = [pa.field(n, pa.float64()) for n in flat_names(layout)]
        self.schema = engine_schema(pa.schema([*plain, *flat]), name)

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        wanted = pa.schema([self.schema.field(c) for c in pruned(self.schema, columns)])
        for batch in self._batches(batch_rows):
            if not batch.num_rows:
                continue  # lists that are not there have no length
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
    """A source for segments in memory (an iterator can be read once); None if the schema is not that of segments."""
    layout = SegmentLayout.of(found)
    if layout is None:
        return None
    once, opened = iter(batches) is batches, False

    def cut(rows: int) -> Iterator[pa.RecordBatch]:
        nonlocal opened
        if once and opened:
            raise JobError(f"{name} can be read only once; give a table or a list to read it again.")
        opened = True
        for batch in batches:
            if SegmentLayout.of(batch.schema) != layout:
                raise JobError(f"{name}: a batch holds other segments than the first one: declare them apart.")
            for start in range(0, len(batch), rows):
                yield batch.slice(start, rows)

    return SegmentSource(layout, found, cut, name, finite=not once)


def files_of_segments(paths: Sequence[Path]) -> SegmentSource | None:
    """A source for Parquet files that hold segments; None if the first holds none."""
    with open_parquet(paths[0]) as first:
        found = first.schema_arrow
    layout = SegmentLayout.of(found, paths[0].name)
    if layout is None:
        return None

    def batches(rows: int) -> Iterator[pa.RecordBatch]:
        for path in paths:
            with open_parquet(path) as file:
                if SegmentLayout.of(file.schema_arrow, path.name) != layout:
                    raise JobError(f"{path.name} holds other segments than {paths[0].name}: declare them apart.")
                try:
                    yield from file.iter_batches(rows)
                except (pa.ArrowException, OSError) as error:
                    raise damaged(path, error) from error

    return SegmentSource(layout, found, batches, paths[0].name)
