"""The tasks of ``eds.fit``: samples in, segments out, Arrow batches on both sides; ``frame_fit`` plans them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Final

import numpy as np
import pyarrow as pa

from eddyline.engine.fit import FitPlan
from eddyline.models.fitting import FitCounts, Fitter
from eddyline.models.segments import coefficients_of
from eddyline.spark.output_columns import BLOB, SHARD
from eddyline.spark.types import from_engine, to_engine

COUNTED: Final = tuple(FitCounts.__slots__)
COUNT: Final = "_counted_"  # before the names of the columns that carry counts to ``observe``
ROWS_PER_BATCH: Final = 1 << 16  # of what a task hands to Spark at once
_BLOBS: Final = pa.schema([(SHARD, pa.int64()), (BLOB, pa.binary())])

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def batch_fit(plan: FitPlan, known: pa.Schema, wanted: pa.Schema) -> Task:
    """What a task of a batch plan does: all samples of its keys, then what was counted."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fitter = plan.fitter()
        for batch in batches:
            plan.add(fitter, to_engine(batch, known))
            yield from shown(fitter.table(), wanted)
        fitter.finish()
        yield from shown(fitter.table(), wanted)
        yield counts_row(asdict(fitter.counts), wanted)

    return run


def shown(table: pa.Table, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Segments as Spark wants them; what is counted is NULL."""
    if not table.num_rows:
        return
    columns: list[pa.Array] = []
    for f in wanted:
        if f.name.startswith(COUNT):
            columns.append(pa.nulls(table.num_rows, f.type))
        elif pa.types.is_list(f.type):
            c = coefficients_of(table[f.name])
            ends = pa.array(np.arange(0, c.size + 1, c.shape[1]), pa.int32())
            columns.append(pa.ListArray.from_arrays(ends, pa.array(c.reshape(-1))))
        else:
            one = from_engine(table.select([f.name]), pa.schema([f]))
            columns.append(one.column(0))
    yield from pa.Table.from_arrays(columns, schema=wanted).to_batches(ROWS_PER_BATCH)


def counts_row(counts: dict[str, int], wanted: pa.Schema) -> pa.RecordBatch:
    """A row that is no segment and carries what was counted."""
    given = {f"{COUNT}{n}": v for n, v in counts.items()}
    return pa.RecordBatch.from_arrays([pa.array([given.get(f.name)], f.type) for f in wanted], schema=wanted)


def pack(known: pa.Schema) -> Task:
    """Rows by shard as Arrow blobs: exact in every type, and few values for Spark to carry."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = to_engine(batch, known)
            shard = batch.column(SHARD).to_numpy(zero_copy_only=False)
            present = np.unique(shard)
            blobs = [as_blob(rows.filter(pa.array(shard == s))) for s in present]
            yield pa.RecordBatch.from_arrays(
                [pa.array(present, pa.int64()), pa.array(blobs, pa.binary())], schema=_BLOBS
            )

    return run


def unpack(wanted: pa.Schema) -> Task:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column(0).to_pylist():
                table = from_blob(blob)
                counts = (table.schema.metadata or {}).get(COUNT.encode())
                yield from shown(table, wanted)
                if counts is not None:
                    numbers = map(int, counts.split(b","))
                    yield counts_row(dict(zip(COUNTED, numbers, strict=True)), wanted)

    return run


def fit_samples(plan: FitPlan, fitter: Fitter, blobs: Iterable[bytes]) -> bytes:
    """One micro-batch of a shard: the segments that are complete by now, and what was counted in it, as a blob."""
    before = asdict(fitter.counts)
    rows = pa.concat_tables([from_blob(b) for b in blobs])
    rows = rows.sort_by([(n, "ascending") for n in plan.columns]).combine_chunks()
    for batch in rows.to_batches():
        plan.add(fitter, batch)
    counts = [v - before[n] for n, v in asdict(fitter.counts).items()]
    table = fitter.table()
    return as_blob(table.replace_schema_metadata({COUNT.encode(): ",".join(map(str, counts)).encode()}))


def as_blob(rows: pa.RecordBatch | pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()


def from_blob(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()
