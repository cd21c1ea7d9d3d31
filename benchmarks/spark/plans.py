"""The plan of each configuration, with what is needed to check its results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyspark.sql.functions as F

from benchmarks.spark import floor, native, ours, skewed
from benchmarks.spark.configuration import OURS, Configuration
from benchmarks.spark.data import Streams

KEYED = "ts timestamp, key long, val double"
SCHEMAS = {
    "three-way": dict.fromkeys("RST", KEYED),
    "four-way": dict.fromkeys("RSTU", KEYED),
    "chain": {
        "R": "ts timestamp, a long, val double",
        "S": "ts timestamp, a long, b long, val double",
        "T": "ts timestamp, b long, val double",
    },
    "skewed": skewed.SCHEMAS,
    "macd": {"trades": "ts timestamp, symbol string, price double, size long"},
}


@dataclass(frozen=True, slots=True)
class Plan:
    """A streaming frame; at which instant (microseconds) a row becomes true; and what its checksum adds up."""

    frame: Any
    instant: Any = None
    weight: Any = None


def plan(spark: Any, c: Configuration, data: Streams) -> Plan:
    sources = {
        name: spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", data.files_per_batch)
        .parquet(data.path(name))
        for name, schema in SCHEMAS[c.workload].items()
    }  # fmt: skip
    if c.side in floor.STEPS:
        return Plan(floor.step(c, sources))
    if c.side in OURS:
        if c.side == "paths":
            columns = {n: df.columns for n, df in sources.items()}
            frame = ours.over_paths(spark, c, {n: data.path(n) for n in sources}, columns)
        else:
            frame = ours.over_frames(c, sources)
        if c.workload == "macd":
            return Plan(*ours.above(frame))
        times = ours.times(list(sources))
        values = [F.col(ours.column(n, "val")) for n in sources]
    elif c.workload == "macd":
        return Plan(*native.MACD[c.side](sources["trades"]))
    else:
        if c.workload == "skewed":
            frame = skewed.native(c, sources)
        else:
            frame = native.join(sources, native.ON[c.workload], c.window)
        times = native.times(list(sources))
        values = [F.col(f"val{n}") for n in sources]
    # Every time and value of a result goes into its hash: equal sums mean equal bags of results.
    weight = F.pmod(F.xxhash64(*times, *values), F.lit(1 << 40))
    return Plan(frame, reduce(F.greatest, times), weight)
