"""The work of a worker: one visit to each shard in each micro-batch.

A visit finds the shard's engine (hot in this worker, or rebuilt from the state store), lets it take in the micro-batch,
stores the changes of its state, and emits the results and one row of statistics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, Protocol

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import StructType

from eddyline.core.errors import EddylineError
from eddyline.spark import compatibility
from eddyline.spark import engine_cache as hot
from eddyline.spark import stream_progress as bounds
from eddyline.spark.failures import carried
from eddyline.spark.output_columns import TAG
from eddyline.spark.program import Group, Program
from eddyline.spark.shard import BatchClock, Packed, ShardEngine
from eddyline.spark.shard_keys import group_of, shard_of
from eddyline.spark.shard_state import HEAD, Head, SegmentLog
from eddyline.spark.types import arrow_schema, from_engine

STATISTICS: Final = -1


class ProcessorCall(Protocol):
    """What the stateful processor (``processor.ShardProcessor``) hands over."""

    run: str
    facts: bytes
    fingerprint: str
    program: bytes
    result: StructType | None
    streaming: bool
    idle: bool
    handle: Any
    segments: Any


class SparkValues:
    """Spark's map state as ``segments.Values``."""

    def __init__(self, segments: Any) -> None:
        self._segments = segments

    def head(self) -> bytes | None:
        found = self._segments.getValue((HEAD,))
        return None if found is None or found[0] is None else bytes(found[0])

    def set_head(self, data: bytes) -> None:
        self._segments.updateValue((HEAD,), (data,))

    def segment(self, number: int) -> bytes:
        found = self._segments.getValue((number,))
        if found is None:
            raise EddylineError(f"the state in this checkpoint is not whole: segment {number} is missing.")
        return bytes(found[0])

    def set_segment(self, number: int, data: bytes) -> None:
        self._segments.updateValue((number,), (data,))

    def drop_segment(self, number: int) -> None:
        self._segments.removeKey((number,))


class ShardTask:
    """Processes the shards of one Spark task."""

    def __init__(self, asked: ProcessorCall) -> None:
        self.asked = asked
        self.log = None if asked.segments is None else SegmentLog(SparkValues(asked.segments))
        self.schema = None if asked.result is None else arrow_schema(asked.result)

    def visit(self, key: int, frames: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        with carried():
            yield from self.step(key, _packed(frames), timer_values)

    def step(self, key: int, rows: Iterator[Packed], timer_values: Any) -> Iterator[pd.DataFrame]:
        asked = self.asked
        program: Program = hot.program(asked.run, asked.program)
        number, shard = group_of(key), shard_of(key)
        group = program.groups[number]
        now = timer_values.getCurrentProcessingTimeInMs() * 1000 if asked.idle else None
        engine, head, warm = self._engine(group, shard, key, now)
        first = 0 if self.schema is not None else sum(len(g.queries) for g in program.groups[:number])
        for query, batch in engine.process(rows, ended=not asked.streaming):
            yield self._frame(first + query, batch)
        statistics = {"group": number, "warm": warm, **engine.statistics()}
        if self.log is not None:
            head = self.log.save(engine.state(), head, asked.fingerprint, asked.facts)
            hot.put(asked.run, key, hot.Hot(head, engine))
            for lane in engine.panes:
                bounds.publish(program.name, number, lane, engine.bound(lane))
            statistics |= {"batch": head.batch, "written": self.log.written, "stored": sum(head.sizes.values())}
            if asked.idle:
                self._set_timer(engine)
        yield self._tag(json.dumps(statistics, default=str))

    def _engine(self, group: Group, shard: int, key: int, now: int | None) -> tuple[ShardEngine, Head | None, bool]:
        clock = BatchClock()
        clock.at = now
        head = None if self.log is None else self.log.head()
        if head is None:
            return ShardEngine(group, shard, clock), None, False
        if head.program != self.asked.fingerprint:
            assert self.log is not None
            then, now_is = compatibility.unpack(self.log.facts()), compatibility.unpack(self.asked.facts)
            raise EddylineError(compatibility.explain(then, now_is))
        found = hot.take(self.asked.run, key, head.nonce)
        if found is not None:
            assert isinstance(found.engine.clock, BatchClock)
            found.engine.clock.at = now
            return found.engine, found.head, True
        assert self.log is not None
        engine = ShardEngine(group, shard, clock)
        engine.load(self.log.load(head))
        return engine, head, False

    def _set_timer(self, engine: ShardEngine) -> None:
        """Wake up when a stream falls idle, whether or not rows come until then."""
        for timer in list(self.asked.handle.listTimers()):
            self.asked.handle.deleteTimer(timer)
        wake = engine.next_idle()
        if wake is not None:
            self.asked.handle.registerTimer(wake // 1000 + 1)

    def _frame(self, query: int, batch: pa.RecordBatch) -> pd.DataFrame:
        if self.schema is None:
            return pd.DataFrame({"query": [query], "payload": [_ipc(batch)], TAG: [None]})
        table = from_engine(pa.Table.from_batches([batch]), self.schema)
        columns = {n: _series(c) for n, c in zip(table.schema.names, table.columns, strict=True)}
        columns[TAG] = _series(pa.chunked_array([pa.nulls(batch.num_rows, pa.string())]))
        return pd.DataFrame(columns)

    def _tag(self, text: str) -> pd.DataFrame:
        if self.schema is None:
            return pd.DataFrame({"query": [STATISTICS], "payload": [None], TAG: [text]})
        columns = {f.name: _series(pa.chunked_array([pa.nulls(1, f.type)])) for f in self.schema}
        return pd.DataFrame({**columns, TAG: _series(pa.chunked_array([pa.array([text])]))})


def _packed(frames: Iterator[pd.DataFrame]) -> Iterator[Packed]:
    for frame in frames:
        lane, kind, rows, ended, blob = (frame[n].tolist() for n in ("lane", "kind", "rows", "ended", "blob"))
        # A column with NULLs arrives as floats, which cannot hold every timestamp: they travel as text.
        low, high = ([None if t is None else int(t) for t in frame[n].tolist()] for n in ("low", "high"))
        yield from zip(lane, kind, low, high, rows, ended, blob, strict=True)


def _series(column: pa.ChunkedArray) -> pd.Series[Any]:
    """A pandas column that *is* the Arrow column: NULLs stay NULLs and integers integers."""
    return pd.Series(pd.arrays.ArrowExtensionArray(column))


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
