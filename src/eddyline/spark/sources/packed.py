"""One data source for all sources of a program: our readers inside Python workers, packed rows out.

No row passes through the JVM on its way to a shard: a task reads its slices, splits them by shard, and what Spark sees
are a few rows with blobs.

The planner's process imports this module and starts with the query: what only the driver or a worker needs, numba above
all, is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from eddyline.spark.failures import carried
from eddyline.spark.sources.reading import Described, Planned, everything, registered

if TYPE_CHECKING:
    import pyarrow as pa

    from eddyline.core.catalog import RelationDef, StreamDef
    from eddyline.io.source import Source
    from eddyline.spark.program import Program
    from eddyline.spark.sources.planner import Planner

FORMAT: Final = "eddyline_packed"


class PackedSource(DataSource):
    """Its options and its schema are given by ``packed_frame``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return packed_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return PackedReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return PackedStreamReader(self.options)


def packed_schema() -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    from eddyline.spark.packing import PACKED

    return from_arrow_schema(PACKED)


class _Packs:
    """Reads what a planner planned. Only what reading needs goes to the workers."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options: Mapping[str, str] | None = options
        self._shipping = Described.from_text(options["shipping"])

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": None, "_shipping": self._shipping}

    def make(self) -> Planner:
        from eddyline.spark.sources.planner import Planner

        options = self._options
        assert options is not None
        sources = Described.from_text(options["parts"]).fresh()
        return Planner(sources, int(options["rows_per_batch"]), int(options["tasks"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from eddyline.spark.sources.shipping import pack

        with carried():
            yield from pack(partition.value, self._shipping.get())


class PackedReader(_Packs, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        with carried():
            return everything(self.make())


class PackedStreamReader(_Packs, Planned, DataSourceStreamReader):
    pass


def packed_frame(
    spark: Any,
    program: Program,
    sources: Mapping[str, Source],
    definitions: Mapping[str, StreamDef | RelationDef],
    *,
    rows_per_batch: int,
    streaming: bool = True,
    strict: bool = False,
    tasks: int | None = None,
) -> Any:
    """The packed rows of all ``sources`` (by declared name, opened) as one DataFrame with the columns of ``PACKED``.

    A micro-batch has about ``rows_per_batch`` rows over all sources and is read by up to ``tasks`` tasks (None: as many
    as Spark runs at once).
    """
    from eddyline.engine.arrivals import MAX_TICKS
    from eddyline.io.source import StrictSource
    from eddyline.spark.requirements import is_connect
    from eddyline.spark.sources.divide import divide
    from eddyline.spark.sources.shipping import Shipping

    connect = is_connect(spark)
    parts, shipping = {}, {}
    for name, source in sources.items():
        definition = definitions[name]
        columns = tuple(program.columns(name))
        parts[name] = divide(source, definition.name, definition.timestamp, columns, in_file=not connect)
        careful = strict or isinstance(source, StrictSource)
        routes = tuple(program.routes(name, streaming))
        # Relations have none; under SLACK AUTO disorder is what is measured, and no sign of a wrong column.
        slack = MAX_TICKS if getattr(definition, "auto", None) is not None else getattr(definition, "slack", 0)
        stamp, positioned = program.timestamp(name), program.positioned(name)
        shipping[name] = Shipping(routes, stamp, columns, positioned, careful, slack)
    # A client of Spark Connect does not know how many tasks run at once.
    number = tasks or (8 if connect else int(spark.sparkContext.defaultParallelism))
    options = {
        "parts": Described.of(parts).text(),
        "shipping": Described.of(shipping).text(),
        "rows_per_batch": str(rows_per_batch),
        "tasks": str(number),
    }
    registered(spark, PackedSource)
    reader = spark.readStream if streaming else spark.read
    return reader.format(FORMAT).schema(packed_schema()).options(**options).load()
