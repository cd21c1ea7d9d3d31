"""The tasks of ``eds.sweep``: rows of parameters in, their results out; ``frame_sweep`` plans them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from eddyline.engine.sweep import sweep
from eddyline.spark.types import from_engine

ROWS_PER_BATCH: Final = 1 << 16  # of what a task hands to Spark at once

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def sweep_task(text: str, streams: Mapping[str, str | bytes], wanted: pa.Schema) -> Task:
    """``streams``: paths, or segment tables as Arrow streams."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = [b for b in batches if b.num_rows]
        if not given:
            return
        found = sweep(text, {n: opened(s) for n, s in streams.items()}, pa.Table.from_batches(given))
        yield from shown(found, wanted)

    return run


def opened(source: str | bytes) -> str | pa.Table:
    return pa.ipc.open_stream(source).read_all() if isinstance(source, bytes) else source


def shown(table: pa.Table, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Results as Spark wants them: without dictionaries."""
    for i, f in enumerate(table.schema):
        if pa.types.is_dictionary(f.type):
            table = table.set_column(i, f.name, table.column(i).cast(f.type.value_type))
    yield from from_engine(table, wanted).to_batches(ROWS_PER_BATCH)
