"""Fetches results into this process: one action for a batch answer, a streaming query that ends for the others."""

from __future__ import annotations

import contextlib
import queue
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from eddyline.core.errors import EddylineError
from eddyline.engine.row_warnings import LeftOut, Notices
from eddyline.plan.logical import Plan
from eddyline.plan.traverse import streams_of
from eddyline.spark import pipeline
from eddyline.spark.cores import PARTITIONS
from eddyline.spark.failures import original, stopped
from eddyline.spark.frame_reports import FrameObservation
from eddyline.spark.output_columns import TAG
from eddyline.spark.packed_sources import PackedSession, packed
from eddyline.spark.program import Program, state_partitions
from eddyline.spark.requirements import PROVIDER_KEY, ROCKSDB, is_connect
from eddyline.spark.statistics import Account
from eddyline.spark.types import to_engine

_END = object()


class CollectedQuery(Protocol):
    """The part of a query on Spark (``spark_query``) that is used to fetch its results."""

    account: Account
    notices: Notices
    logical: Plan
    schema: pa.Schema
    frame_observation: FrameObservation | None

    @property
    def session(self) -> PackedSession: ...

    @property
    def streaming(self) -> bool: ...

    @property
    def stateless(self) -> Any: ...

    @property
    def program(self) -> Program: ...

    @property
    def result(self) -> Any: ...

    def tagged(self) -> Any: ...

    def left_out(self) -> list[LeftOut]: ...


def collect(query: CollectedQuery) -> Iterator[pa.RecordBatch]:
    with _own_sentences():
        if query.streaming and not is_connect(query.session.spark):
            yield from _stream(query)
            return
        with settings(query):
            table = _whole(query).toArrow()
    yield from _split(query, table)


def _whole(query: CollectedQuery) -> Any:
    """The answer as a batch. A client of Spark Connect cannot take micro-batches (the server runs what they are handed
    to), but paths and tables have an end, and a batch over them is a replay of the same answer."""
    if not query.streaming:
        return query.tagged()
    session = query.session
    if any(s.lower() in session.frames for s in streams_of(query.logical)):
        raise EddylineError(
            "on Spark Connect the results of streaming DataFrames stay on the server: write them with"
            " query.dataframe().writeStream, or pass batch DataFrames or paths to fetch them here."
        )
    packed_rows = packed(session, query.program, streaming=False)
    return pipeline.process(query.program, packed_rows, query.result, streaming=False)


def _stream(query: CollectedQuery) -> Iterator[pa.RecordBatch]:
    """Run the query over what is there now; batches are handed over as micro-batches complete."""
    arrived: queue.Queue[Any] = queue.Queue(maxsize=4)
    stopped = threading.Event()

    def take(df: Any, _: int) -> None:
        _hand_over(df.toArrow(), arrived, stopped)

    with tempfile.TemporaryDirectory(prefix="eddyline-") as folder:
        with settings(query):
            writer = query.tagged().writeStream.foreachBatch(take).trigger(availableNow=True)
            running = writer.option("checkpointLocation", folder).start()
        threading.Thread(target=_wait, args=(running, arrived, stopped), daemon=True).start()
        try:
            while (found := arrived.get()) is not _END:
                yield from _split(query, found)
        finally:
            stopped.set()
            running.stop()
        error = running.exception()
        if query.frame_observation is not None:
            query.frame_observation.read(p.observedMetrics for p in running.recentProgress)
            query.notices.warn(query.left_out())
        if error is not None:
            raise error


@contextlib.contextmanager
def settings(query: CollectedQuery) -> Iterator[None]:
    """What Spark needs for Python state, for a query that starts now and for no other: the state store, and no more
    partitions than there are shards. A streaming query keeps the settings of the moment at which it starts."""
    with settings_for(query.session.spark, None if query.stateless is not None else len(query.program.keys())):
        yield


@contextlib.contextmanager
def settings_for(spark: Any, shards: int | None) -> Iterator[None]:
    """The same for a program with so many shards (None: it has no state)."""
    wanted = {PROVIDER_KEY: ROCKSDB}
    if shards is not None and state_partitions(spark) > shards:
        wanted[PARTITIONS] = str(shards)
    before = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


@contextlib.contextmanager
def _own_sentences() -> Iterator[None]:
    """Our own sentence instead of Spark's exception around it."""
    try:
        yield
    except Exception as error:
        found = original(error)
        if found is None and (found := stopped(error)) is not None:
            raise found from error
        if found is None:
            raise
        raise found from None


def _wait(running: Any, arrived: queue.Queue[Any], stopped: threading.Event) -> None:
    with contextlib.suppress(Exception):  # the one who iterates gets it from the query itself
        running.awaitTermination()
    _hand_over(_END, arrived, stopped)


def _hand_over(what: Any, arrived: queue.Queue[Any], stopped: threading.Event) -> None:
    """Wait until there is room, unless the reader has gone."""
    while not stopped.is_set():
        with contextlib.suppress(queue.Full):
            arrived.put(what, timeout=0.1)
            return


def _split(query: CollectedQuery, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Results, with the statistics that came along put on the account."""
    tags = table.column(TAG)
    query.account.add(tags.drop_null().to_pylist())
    query.notices.warn(query.left_out())
    rows = table.filter(tags.is_null()).drop_columns([TAG])
    for batch in rows.to_batches():
        if batch.num_rows:
            yield to_engine(batch, query.schema)
