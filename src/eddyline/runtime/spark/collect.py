"""Results brought to this process: one action for a batch answer, a streaming query that ends for the others."""

from __future__ import annotations

import queue
import tempfile
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from eddyline.runtime.spark.processor import TAG
from eddyline.runtime.spark.types import to_engine

if TYPE_CHECKING:
    from eddyline.runtime.spark.query import SparkQuery

_END = object()


def collect(query: SparkQuery) -> Iterator[pa.RecordBatch]:
    if not query.streaming:
        from eddyline.runtime.spark.pipeline import process

        out = process(query.program, query._packed(query.program, False), query.result, streaming=False)
        yield from _split(query, out.toArrow())
        return
    yield from _stream(query)


def _stream(query: SparkQuery) -> Iterator[pa.RecordBatch]:
    """Run the query over what is there now; batches are handed over as micro-batches complete."""
    from eddyline.runtime.spark.pipeline import process

    arrived: queue.Queue[Any] = queue.Queue(maxsize=4)
    stopped = threading.Event()

    def take(df: Any, _: int) -> None:
        table = df.toArrow()
        while not stopped.is_set():
            try:
                arrived.put(table, timeout=0.1)
                return
            except queue.Full:
                continue

    out = process(query.program, query._packed(query.program, True), query.result, streaming=True)
    with tempfile.TemporaryDirectory(prefix="eddyline-") as folder:
        running = (
            out.writeStream.foreachBatch(take).trigger(availableNow=True).option("checkpointLocation", folder).start()
        )
        threading.Thread(target=_wait, args=(running, arrived, stopped), daemon=True).start()
        try:
            while True:
                found = arrived.get()
                if found is _END:
                    break
                yield from _split(query, found)
        finally:
            stopped.set()
            running.stop()
        error = running.exception()
        if error is not None:
            raise error


def _wait(running: Any, arrived: queue.Queue[Any], stopped: threading.Event) -> None:
    try:
        running.awaitTermination()
    except Exception:  # the one who iterates gets it from the query itself
        pass
    finally:
        while not stopped.is_set():
            try:
                arrived.put(_END, timeout=0.1)
                return
            except queue.Full:
                continue


def _split(query: SparkQuery, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Results, with the statistics that came along put on the account."""
    tags = table.column(TAG)
    query.account.add(tags.drop_null().to_pylist())
    rows = table.filter(tags.is_null()).drop_columns([TAG])
    for batch in rows.to_batches():
        if batch.num_rows:
            yield to_engine(batch, query.schema)


def only_results(df: Any) -> Any:
    return df.where(F.col(TAG).isNull()).drop(TAG)
