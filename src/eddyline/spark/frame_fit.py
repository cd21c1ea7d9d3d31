"""``eds.fit``: the samples of a DataFrame become segments, in batch and in streaming plans. No action is taken.

Batch: each key's samples meet in one task, in order of time, and are fitted there as ``ed.fit`` does; the table is then
ordered by start. Streaming: keys are divided over shards; a shard keeps what its open segments depend on in Spark's
state store, and gives a segment out when the next one of its key begins. Samples of a micro-batch are taken in order of
time, so one that is behind an earlier micro-batch is late. What is not fitted is counted (``observe``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DoubleType, LongType, StructField, StructType

from eddyline.core.errors import JobError
from eddyline.core.schema import Schema
from eddyline.engine.fit import FitPlan
from eddyline.models.segments import FROM, METADATA, SAMPLES, TO, SegmentLayout, coefficients_of, polynomial_array
from eddyline.spark import requirements
from eddyline.spark.fit_processor import FitProcessor
from eddyline.spark.fit_worker import COUNT, COUNTED, batch_fit, pack, unpack
from eddyline.spark.output_columns import BLOB, SHARD
from eddyline.spark.program import check_shards
from eddyline.spark.session import default_shards
from eddyline.spark.types import arrow_schema, from_spark, quoted

DataFrame = Any  # classic or Connect: the two share an interface, not a class


def fitted(df: DataFrame, plan: FitPlan, shards: int | None, observe: Any) -> DataFrame:
    """The segments of a DataFrame's samples; its column ``_from`` carries the layout."""
    requirements.check_session(df.sparkSession, stateful=bool(df.isStreaming))
    result = segment_type(df.schema, plan.layout)
    counted = StructType([*result.fields, *(StructField(f"{COUNT}{c}", LongType()) for c in COUNTED)])
    columns = [F.col(quoted(c)) for c in plan.columns]
    made = _streaming(df, plan, columns, counted, shards) if df.isStreaming else _batch(df, plan, columns, counted)
    if observe is not None:
        made = made.observe(observe, *(F.sum(f"{COUNT}{c}").alias(c) for c in COUNTED))
    stamp = F.col(FROM).alias(FROM, metadata={METADATA.decode(): plan.layout.to_json().decode()})
    others = {n: F.col(quoted(n)) for n in result.names}
    made = made.where(F.col(FROM).isNotNull()).select(*(stamp if n == FROM else c for n, c in others.items()))
    return made if df.isStreaming else made.orderBy(FROM, *map(quoted, plan.layout.key))


def plan_of(df: DataFrame, **arguments: Any) -> FitPlan:
    """The checked plan; columns that the engine does not hold may be there and are not read."""
    named = [arguments["time"], *_several(arguments["key"]), *_several(arguments["value"])]
    wanted = {str(n).lower() for n in named}
    struct = StructType([f for f in df.schema.fields if f.name.lower() in wanted])
    known = Schema.from_arrow(from_spark(struct))
    if len(known) < len(wanted):  # the sentence of a missing column names the others
        known = Schema.from_arrow(from_spark(StructType([f for f in df.schema.fields if _is_held(f)])))
    return FitPlan.of(known, "the DataFrame", **arguments)


def _several(names: Any) -> Sequence[Any]:
    return (names,) if isinstance(names, str) else tuple(names)


def _is_held(field: StructField) -> bool:
    try:
        from_spark(StructType([field]))
    except JobError:
        return False
    return True


def segment_type(struct: StructType, layout: SegmentLayout) -> StructType:
    """The columns of a DataFrame of segments: keys and times have the types that they had."""
    by_name = {f.name: f.dataType for f in struct.fields}
    stamp = by_name[layout.time]
    stamp = LongType() if pa.types.is_integer(layout.time_type) else stamp
    fields = [StructField(k, by_name[k]) for k in layout.key]
    fields += [StructField(FROM, stamp), StructField(TO, stamp), StructField(SAMPLES, LongType())]
    return StructType([*fields, *(StructField(v.name, ArrayType(DoubleType())) for v in layout.values)])


def layout_of(df: DataFrame) -> SegmentLayout | None:
    """What the segments of a DataFrame model; None: it holds none."""
    declared = next((f.metadata.get(METADATA.decode()) for f in df.schema.fields if f.name == FROM), None)
    return None if declared is None else SegmentLayout.from_json(declared, df.columns, "the DataFrame")


def collected(df: DataFrame) -> pa.Table:
    """A DataFrame of segments as the segment table that ``ed.fit`` would give."""
    layout = layout_of(df)
    if layout is None:
        raise JobError("segment_table takes a DataFrame of segments, as eds.fit makes it, and this is not one.")
    found = df.toArrow()
    keys = from_spark(StructType([f for f in df.schema.fields if f.name in layout.key]))
    return as_segments(found, layout, [keys.field(k).type for k in layout.key])


def as_segments(found: pa.Table, layout: SegmentLayout, keys: Sequence[pa.DataType]) -> pa.Table:
    """Arrow's columns of a DataFrame of segments with the types of a segment table."""
    schema = layout.schema(keys)
    columns = []
    for f in schema:
        column = found.column(f.name)
        if isinstance(f.type, pa.ExtensionType):
            width = f.type.storage_type.list_size
            rows = coefficients_of(column, f.name) if len(column) else np.zeros((0, width))
            columns.append(polynomial_array(rows))
        elif pa.types.is_timestamp(f.type):
            columns.append(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.timestamp("us")))
        else:
            columns.append(column.cast(f.type))
    return pa.Table.from_arrays(columns, schema=schema)


# ── batch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _batch(df: DataFrame, plan: FitPlan, columns: Sequence[Any], counted: StructType) -> DataFrame:
    samples = df.select(*columns)
    keys = [quoted(k) for k in plan.layout.key]
    samples = samples.repartition(*keys) if keys else samples.coalesce(1)
    # Of differing samples of one instant the smallest counts: Spark's rows have no order of arrival.
    samples = samples.sortWithinPartitions(*columns)
    return samples.mapInArrow(batch_fit(plan, from_spark(samples.schema), arrow_form(counted)), counted)


def arrow_form(struct: StructType) -> pa.Schema:
    """What Spark wants to get for a DataFrame of segments and counts."""
    plain = StructType([f for f in struct.fields if not isinstance(f.dataType, ArrayType)])
    known = {f.name: f for f in arrow_schema(plain)}
    return pa.schema([known.get(f.name, pa.field(f.name, pa.list_(pa.float64()))) for f in struct.fields])


# ── streaming ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _streaming(
    df: DataFrame, plan: FitPlan, columns: Sequence[Any], counted: StructType, shards: int | None
) -> DataFrame:
    shard_count = (
        check_shards(shards if shards is not None else default_shards(df.sparkSession)) if plan.layout.key else 1
    )
    shard = (
        F.pmod(F.hash(*(F.col(quoted(k)) for k in plan.layout.key)), F.lit(shard_count))
        if plan.layout.key
        else F.lit(0)
    )
    samples = df.select(*columns)
    known = from_spark(samples.schema)
    packed = df.select(*columns, shard.cast("long").alias(SHARD)).mapInArrow(
        pack(known), StructType([StructField(SHARD, LongType()), StructField(BLOB, BinaryType())])
    )
    facts = repr((plan, known.names, [str(t) for t in known.types], shard_count)).encode()
    processor = FitProcessor(plan, facts, hashlib.sha256(facts).hexdigest())
    blobs = packed.groupBy(SHARD).transformWithStateInPandas(
        processor, StructType([StructField(BLOB, BinaryType())]), "Append", "None"
    )
    return blobs.mapInArrow(unpack(arrow_form(counted)), counted)
