"""``eds.sweep``: one query on segments for the rows of a DataFrame of parameters. No action is taken."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from eddyline.core.errors import JobError
from eddyline.engine.sweep import sweep_schema
from eddyline.spark import requirements
from eddyline.spark.sweep_worker import sweep_task
from eddyline.spark.types import arrow_schema, quoted, to_spark

DataFrame = Any  # classic or Connect


def swept(text: str, streams: Mapping[str, Any], parameters: DataFrame) -> DataFrame:
    requirements.check_session(parameters.sparkSession, stateful=False)
    if parameters.isStreaming:
        raise JobError("sweep takes a batch DataFrame of parameters, and this one is streaming.")
    for f in parameters.schema.fields:
        if not isinstance(f.dataType, NumericType):
            raise JobError(f"the values of :{f.name} are numbers, and the column is {f.dataType.simpleString()}.")
    schema = sweep_schema(text, streams, parameters.columns)
    plain = pa.schema([f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema])
    struct = to_spark(plain)
    rows = parameters.select(*(F.col(quoted(n)).cast("double").alias(n) for n in parameters.columns))
    shipped = {name: _shipped(name, source) for name, source in streams.items()}
    return rows.mapInArrow(sweep_task(text, shipped, arrow_schema(struct)), struct)


def _shipped(name: str, source: Any) -> str | bytes:
    if isinstance(source, str | PathLike):
        return fspath(source)
    if not isinstance(source, pa.Table):
        raise JobError(
            f"{name} is a segment table of Arrow or the path of its Parquet files: eds.segment_table(df) makes a table "
            "of a DataFrame."
        )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, source.schema) as writer:
        writer.write_table(source)
    made: bytes = sink.getvalue().to_pybytes()
    return made
