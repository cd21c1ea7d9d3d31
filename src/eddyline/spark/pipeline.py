"""A program as one Spark plan: pack, shuffle by shard, process. DataFrames in, a DataFrame out, no action taken."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from eddyline.spark import compatibility
from eddyline.spark.output_columns import TAGGED
from eddyline.spark.packing import ARRIVED, PACKED
from eddyline.spark.processor import ShardProcessor, typed_output
from eddyline.spark.program import Program
from eddyline.spark.types import from_spark, quoted, to_spark
from eddyline.spark.union import Shipment, unite

DataFrame = Any  # classic or Connect: the two share an interface, not a class

# ``packing.PACKED``. Types, not a text, which the JVM would be asked to parse: a tenth of a second in a fresh one.
PACKED_TYPE: Final = to_spark(PACKED)


def pack(
    frames: Mapping[str, DataFrame], program: Program, tasks: int | None = None, streaming: bool = True
) -> DataFrame:
    """The rows of some sources for all shards of a program, in at most so many tasks if that is given. Only the columns
    that some plan reads leave the JVM."""
    shipments = [_shipment(df, source, program, streaming) for source, df in frames.items()]
    return unite(shipments, tasks, PACKED_TYPE)


def _shipment(df: DataFrame, source: str, program: Program, streaming: bool) -> Shipment:
    routes, timestamp = program.routes(source, streaming), program.timestamp(source)
    columns = program.columns(source)
    wanted = [F.col(quoted(c)) for c in columns]
    known = from_spark(df.select(*wanted).schema)
    schema = pa.schema([pa.field(f.name, f.type) for f in known])
    if timestamp == ARRIVED:
        # Spark logs the time of a micro-batch before it runs: a batch that is run again has the same stamps.
        stamp = F.current_timestamp()
        integer = pa.types.is_integer(routes[0].schema.field(ARRIVED).type)
        wanted.append(
            (F.unix_micros(stamp) / 1_000_000).cast("long").alias(ARRIVED) if integer else stamp.alias(ARRIVED)
        )
        schema = schema.append(routes[0].schema.field(ARRIVED))
    return Shipment(df.select(*wanted), schema, routes, timestamp)


def process(
    program: Program, packed: Sequence[DataFrame], result: StructType | None, *, streaming: bool, run: str | None = None
) -> DataFrame:
    """All shards of a program over the packed rows of its sources: typed (``result``) or tagged output."""
    everything = reduce(lambda a, b: a.union(b), packed)
    idle = streaming and any(
        getattr(g.definition(x), "idle", None) is not None for g in program.groups for x in g.lanes
    )
    pickled = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]
    facts = compatibility.facts(program)
    fingerprint = compatibility.fingerprint(facts)
    stored = compatibility.pack(facts)
    processor = ShardProcessor(run or uuid.uuid4().hex, stored, fingerprint, pickled, result, streaming, idle)
    schema: Any = TAGGED if result is None else typed_output(result)
    mode = "ProcessingTime" if idle else "None"
    return everything.groupBy("key").transformWithStateInPandas(processor, schema, "Append", mode)
