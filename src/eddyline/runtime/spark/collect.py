"""Results brought to this process: one action for a batch answer, a streaming query that ends for the others."""

from __future__ import annotations

import contextlib
import queue
import tempfile
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eddyline.runtime.spark.processor import TAG
from eddyline.runtime.spark.types import to_engine

if TYPE_CHECKING:
    from eddyline.runtime.spark.query import SparkQuery

_END = object()


def collect(query: SparkQuery) -> Iterator[pa.RecordBatch]:
    if not query.streaming:
        from eddyline.runtime.spark.pipeline import process
        from eddyline.runtime.spark.query import packed

        out = process(query.program, packed(query.session, query.program, False), query.result, streaming=False)
        yield from _split(query, out.toArrow())
        return
    yield from _stream(query)


def _stream(query: SparkQuery) -> Iterator[pa.RecordBatch]:
    """Run the query over what is there now; batches are handed over as micro-batches complete."""
    from eddyline.runtime.spark.pipeline import process
    from eddyline.runtime.spark.query import packed

    arrived: queue.Queue[Any] = queue.Queue(maxsize=4)
    stopped = threading.Event()

    def take(df: Any, _: int) -> None:
        _hand_over(df.toArrow(), arrived, stopped)

    out = process(query.program, packed(query.session, query.program, True), query.result, streaming=True)
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
    with contextlib.suppress(Exception):  # the one who iterates gets it from the query itself
        running.awaitTermination()
    _hand_over(_END, arrived, stopped)


def _hand_over(what: Any, arrived: queue.Queue[Any], stopped: threading.Event) -> None:
    """Wait until there is room, but not for somebody who has gone."""
    while not stopped.is_set():
        with contextlib.suppress(queue.Full):
            arrived.put(what, timeout=0.1)
            return


def _split(query: SparkQuery, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Results, with the statistics that came along put on the account."""
    tags = table.column(TAG)
    query.account.add(tags.drop_null().to_pylist())
    rows = table.filter(tags.is_null()).drop_columns([TAG])
    for batch in rows.to_batches():
        if batch.num_rows:
            yield to_engine(batch, query.schema)
