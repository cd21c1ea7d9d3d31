"""The format ``eddyline``: our readers and generators for any PySpark job, as ordinary typed rows.

    register(spark)
    packets = (
        spark.readStream.format("eddyline")
        .option("source", "generate:packets?rate=2000&seconds=60")
        .load()
    )

Options: ``source`` (a path, a glob, a directory or a ``generate:`` URI), those of a declaration's ``WITH`` (format,
header, delimiter, quote, null, watch, poll, until_idle), ``timestamp`` (the column of time, for files that have a
header and no rows), ``rows_per_batch`` of a micro-batch, ``tasks`` that read it, and what to do with malformed rows:
a DataFrame has no place for them, so they stop the query, unless ``malformed`` names a column for their text (NULL in
all other rows), or ``strict`` is false, which leaves them out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from eddyline.core.errors import JobError, did_you_mean
from eddyline.io.resolve import OPTIONS, open_source
from eddyline.io.source import SourceBatch, shorten
from eddyline.spark.failures import carried
from eddyline.spark.sources.divide import divide
from eddyline.spark.sources.parts import Parts
from eddyline.spark.sources.planner import Planner
from eddyline.spark.sources.reading import Planned, everything
from eddyline.spark.sources.tasks import Task, check
from eddyline.spark.types import arrow_schema, from_spark, spark_array, to_spark

FORMAT: Final = "eddyline"
ROWS_PER_BATCH: Final = 500_000
OWN: Final = ("source", "path", "timestamp", "rows_per_batch", "tasks", "malformed")
NAME: Final = "rows"  # of the one source in offsets


class EddylineSource(DataSource):
    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._found: tuple[Parts, pa.Schema] | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        with carried():
            self._found = self._open(None)
            inferred = to_spark(self._found[1], str(self.options.get("source")))
        column = self._malformed
        return inferred if column is None else StructType([*inferred.fields, StructField(column, StringType())])

    def reader(self, schema: StructType) -> DataSourceReader:
        return RowsReader(self._job(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return RowsStreamReader(self._job(schema))

    @property
    def _malformed(self) -> str | None:
        found = self.options.get("malformed")
        return None if found is None else str(found)

    def _open(self, declared: pa.Schema | None) -> tuple[Parts, pa.Schema]:
        options = {k.lower(): v for k, v in self.options.items()}
        known = (*OWN, *OPTIONS)
        for name in options:
            if name not in known:
                near = did_you_mean(name, known) or f" There are: {', '.join(known)}."
                raise JobError(f"the format {FORMAT!r} has no option {name!r}.{near}")
        spec = options.get("source", options.get("path"))
        if spec is None:
            raise JobError(f"the format {FORMAT!r} needs the option 'source': a path, a glob or a generate: URI.")
        if spec == "-":
            raise JobError("standard input is read by the process that it belongs to only: give a path.")
        timestamp = options.get("timestamp")
        reading = {k: v for k, v in options.items() if k in OPTIONS and k != "strict"}
        # Relative paths start where the driver runs; workers may have been started elsewhere.
        source = open_source(spec, Path.cwd(), declared, reading, timestamp)
        return divide(source, spec, None), source.schema

    def _job(self, schema: StructType) -> _Job:
        return _Job(self, schema)


class _Job:
    """One read of the format, planned only in the process that plans."""

    def __init__(self, source: EddylineSource, schema: StructType) -> None:
        self.source: EddylineSource | None = source
        self.schema = arrow_schema(schema)
        self.malformed = source._malformed
        self.declared = StructType([f for f in schema.fields if f.name != self.malformed])
        strict = str(source.options.get("strict", "true")).lower() not in ("false", "no", "off", "0")
        self.strict = strict and self.malformed is None

    def planner(self) -> Planner:
        assert self.source is not None
        options: Mapping[str, str] = self.source.options
        found = self.source._found
        parts = found[0] if found is not None else self.source._open(from_spark(self.declared))[0]
        rows = _number(options.get("rows_per_batch", str(ROWS_PER_BATCH)), "rows_per_batch")
        return Planner({NAME: parts}, rows, _number(options.get("tasks", str(os.cpu_count() or 1)), "tasks"))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None}

    def read(self, task: Task) -> Iterator[pa.RecordBatch]:
        with carried():
            for part in (s for load in task.loads for s in load.slices):
                for batch in part.read(self.declared.names):
                    check(batch, self.strict)
                    yield from self._converted(batch)

    def _converted(self, batch: SourceBatch) -> Iterator[pa.RecordBatch]:
        rows = batch.rows
        if rows.num_rows:
            arrays = [
                pa.nulls(rows.num_rows, f.type)
                if f.name == self.malformed
                else spark_array(rows.column(f.name), f.type)
                for f in self.schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if batch.invalid and self.malformed is not None:
            texts = pa.array([f"{r.reason}: {shorten(r.row)}" for r in batch.invalid], pa.string())
            arrays = [texts if f.name == self.malformed else pa.nulls(len(texts), f.type) for f in self.schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _number(text: Any, name: str) -> int:
    try:
        found = int(text)
    except ValueError:
        found = 0
    if found < 1:
        raise JobError(f"{name} = {text!r}: a number of at least 1 is wanted.")
    return found


class RowsReader(DataSourceReader):
    def __init__(self, job: _Job) -> None:
        self._job = job

    def partitions(self) -> Sequence[InputPartition]:
        with carried():
            return everything(self._job.planner())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._job.read(partition.value) if partition.value is not None else iter(())


class RowsStreamReader(Planned, DataSourceStreamReader):
    def __init__(self, job: _Job) -> None:
        self._job = job

    def make(self) -> Planner:
        return self._job.planner()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._job.read(partition.value)

    def __getstate__(self) -> dict[str, Any]:
        return {"_job": self._job}
