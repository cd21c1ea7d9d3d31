"""The floor: what Spark costs before our engine does anything, step by step.

``read``      the streams, side by side, into a sink that does nothing
``map``       the same through Python and back, untouched
``pack``      the rows leave the JVM once and become blobs for the shards
``identity``  the blobs are shuffled to their shards; each shard reads its head from the state store, looks at its
              blobs, writes about as much state as the join has to, and gives out one row
``results``   the same, and as many result rows as the join has

What is left between ``identity`` and our own figure is the engine, and the results on their way out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.spark.configuration import RATE, Configuration
from eddyline.spark.packing import PACKED, Route
from eddyline.spark.pipeline import PACKED_TYPE
from eddyline.spark.shard_state import HEAD
from eddyline.spark.types import from_spark
from eddyline.spark.union import Shipment, unite

STEPS = ("read", "map", "pack", "identity", "results")
TASKS = 2  # as many as state partitions, like our own plans
ROW_BYTES = 24  # ts, key, val
RESULTS = 350_894 / 1_500_000  # rows for each event, of the three-way join
OUTPUT = (
    "R_ts timestamp, S_ts timestamp, T_ts timestamp, key long, R_val double, S_val double, T_val double, tag string"
)


def step(c: Configuration, streams: Mapping[str, Any]) -> Any:
    """The plan up to and with the step that ``c.side`` names."""
    if c.side == "read":
        return _all(streams.values())
    if c.side == "map":
        return _all(df.mapInArrow(_same, df.schema) for df in streams.values())
    shipments = [_shipment(df, lane, c) for lane, df in enumerate(streams.values())]
    packed = unite(shipments, TASKS, PACKED_TYPE)
    if c.side == "pack":
        return packed
    kept = min(c.batch, c.window * RATE) * ROW_BYTES // c.shards
    rows = round(c.batch * RESULTS / c.shards) if c.side == "results" else 0
    return packed.groupBy("key").transformWithStateInPandas(Identity(kept, rows), OUTPUT, "Append", "None")


def _all(frames: Any) -> Any:
    return reduce(lambda a, b: a.union(b), frames)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _shipment(df: Any, lane: int, c: Configuration) -> Shipment:
    key = "symbol" if c.workload == "macd" else "key"
    df = df.select("ts", key, "price" if c.workload == "macd" else "val")
    schema = from_spark(df.schema)
    return Shipment(df, schema, [Route(0, lane, schema, (key,), (c.shards,))], "ts")


class Identity(StatefulProcessor):
    """The same state variable as our own processor, and the same number of calls on them."""

    def __init__(self, kept: int, rows: int) -> None:
        self.kept, self.rows = kept, rows

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.segments = handle.getMapState("segments", "number long", "data binary")

    def close(self) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        blobs = [b for frame in rows for b in frame[PACKED.names[-1]].tolist() if b is not None]
        if self.rows:
            yield _results(self.rows, None)
        found = self.segments.getValue((HEAD,))
        number = 0 if found is None else int.from_bytes(bytes(found[0]), "little") + 1
        self.segments.updateValue((number,), (b"".join(blobs)[: self.kept],))
        if number:
            self.segments.removeKey((number - 1,))
        self.segments.updateValue((HEAD,), (number.to_bytes(8, "little"),))
        yield _results(1, f"{sum(map(len, blobs))} bytes")


def _results(rows: int, tag: str | None) -> pd.DataFrame:
    """Rows of the shape of a join's results, as Arrow columns in a frame."""
    columns: dict[str, Any] = {}
    for declared in OUTPUT.split(", "):
        name, kind = declared.split()
        of = {"timestamp": pa.timestamp("us", "UTC"), "long": pa.int64(), "double": pa.float64(), "string": pa.string()}
        values = [tag] * rows if name == "tag" else [0] * rows
        columns[name] = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(values, of[kind])])))
    return pd.DataFrame(columns)
