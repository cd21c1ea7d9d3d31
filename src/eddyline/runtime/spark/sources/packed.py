"""One data source for all sources of a program: our readers inside Python workers, packed rows out.

No row passes through the JVM on its way to a shard: a task reads its slices, splits them by shard, and what Spark sees
are a few rows with blobs.
"""

from __future__ import annotations

import base64
import hashlib
import pickle
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from eddyline.core.catalog import RelationDef, StreamDef
from eddyline.core.errors import DataError
from eddyline.io.source import InvalidRow, Source, SourceBatch, StrictSource, shorten
from eddyline.runtime.spark.failures import carried
from eddyline.runtime.spark.packing import ARRIVAL, ARRIVED, PACKED, Packer, Route
from eddyline.runtime.spark.sources.divide import divide
from eddyline.runtime.spark.sources.parts import Parts
from eddyline.runtime.spark.sources.planner import Offset, Planner
from eddyline.runtime.spark.sources.tasks import Load, Task

FORMAT: Final = "eddyline_packed"
BATCH_TASK_ROWS: Final = 2_000_000  # rows of a task of a batch query: its blobs must fit into memory


@dataclass(frozen=True, slots=True)
class Shipping:
    """How a worker packs one source."""

    routes: tuple[Route, ...]
    timestamp: str
    columns: tuple[str, ...]
    positioned: bool
    strict: bool

    @property
    def stamp(self) -> pa.DataType | None:
        """The type of the hidden column of arrival times, if there is one."""
        return self.routes[0].schema.field(ARRIVED).type if self.timestamp == ARRIVED else None


class Described:
    """An object that travels as bytes and is unpickled once in each process, when it is first asked for."""

    _known: ClassVar[OrderedDict[str, Any]] = OrderedDict()

    def __init__(self, pickled: bytes) -> None:
        self.pickled, self.name = pickled, hashlib.sha256(pickled).hexdigest()

    @staticmethod
    def of(value: Any) -> Described:
        return Described(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]

    def get(self) -> Any:
        found = self._known.get(self.name)
        if found is None:
            found = self._known[self.name] = pickle.loads(self.pickled)
            while len(self._known) > 8:
                self._known.popitem(last=False)
        return found

    def text(self) -> str:
        return base64.b64encode(self.pickled).decode()

    @staticmethod
    def from_text(text: str) -> Described:
        return Described(base64.b64decode(text))


class PackedSource(DataSource):
    """Its options are made by ``packed_frame``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(PACKED)

    def reader(self, schema: StructType) -> DataSourceReader:
        return PackedReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return PackedStreamReader(self.options)


def planner_of(parts: Described, options: Mapping[str, str]) -> Planner:
    sources: dict[str, Parts] = pickle.loads(parts.pickled)
    return Planner(sources, int(options["rows_per_batch"]), int(options["tasks"]))


class PackedReader(DataSourceReader):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._options: Mapping[str, str] | None = options
        self._shipping = Described.from_text(options["shipping"])

    def partitions(self) -> Sequence[InputPartition]:
        assert self._options is not None
        return everything(planner_of(Described.from_text(self._options["parts"]), self._options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return pack(partition.value, self._shipping.get())

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": None, "_shipping": self._shipping}  # a worker plans nothing


def everything(planner: Planner) -> list[InputPartition]:
    """All that there is, as one batch."""
    with carried():
        planner.freeze()
        start = planner.first()
        end = planner.latest(start, None)
        return [InputPartition(t) for t in planner.tasks(start, end, BATCH_TASK_ROWS)]


class Planned(SupportsTriggerAvailableNow):
    """What a streaming reader must say about offsets, said by a planner that is made when first asked."""

    def make(self) -> Planner:
        raise NotImplementedError

    @property
    def planner(self) -> Planner:
        found: Planner | None = self.__dict__.get("_planner")
        if found is None:
            with carried():
                found = self.__dict__["_planner"] = self.make()
        return found

    def initialOffset(self) -> Offset:
        return self.planner.first()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        with carried():
            if isinstance(limit, ReadAllAvailable):
                return self.planner.latest(start, None)
            return self.planner.latest(start, limit.max_rows if isinstance(limit, ReadMaxRows) else self.planner.rows)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.planner.rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.freeze()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        with carried():
            return [InputPartition(t) for t in self.planner.tasks(start, end)]


class PackedStreamReader(Planned, DataSourceStreamReader):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._options: Mapping[str, str] | None = options
        self._shipping = Described.from_text(options["shipping"])

    def make(self) -> Planner:
        assert self._options is not None
        return planner_of(Described.from_text(self._options["parts"]), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return pack(partition.value, self._shipping.get())

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": None, "_shipping": self._shipping}


# ── in a worker ───────────────────────────────────────────────────────────────────────────────────────────────────


def pack(task: Task, shipping: Mapping[str, Shipping]) -> Iterator[pa.RecordBatch]:
    with carried():
        for load in task.loads:
            yield from _pack(load, shipping[load.source], task.stamp)


def _pack(load: Load, how: Shipping, stamp: int) -> Iterator[pa.RecordBatch]:
    packer = Packer(how.routes, how.timestamp)
    malformed: list[InvalidRow] = []
    yield from packer(_batches(load, how, stamp, malformed), load.ended)
    if malformed:
        yield packer.malformed(malformed)


def _batches(load: Load, how: Shipping, stamp: int, malformed: list[InvalidRow]) -> Iterator[pa.RecordBatch]:
    for part in load.slices:
        position = part.first
        for batch in part.read(how.columns):
            check(batch, how.strict)
            malformed += batch.invalid
            rows = batch.rows
            if how.positioned:
                rows = _with(rows, ARRIVAL, pa.array(np.arange(position, position + rows.num_rows)))
            if how.stamp is not None:
                at = stamp if pa.types.is_timestamp(how.stamp) else stamp // 1_000_000
                rows = _with(rows, ARRIVED, pa.array(np.full(rows.num_rows, at)).cast(how.stamp))
            position += rows.num_rows
            yield rows


def check(batch: SourceBatch, strict: bool) -> None:
    if strict and batch.invalid:
        first = batch.invalid[0]
        raise DataError(f"malformed row in strict mode. {first.reason}: {shorten(first.row)}")


def _with(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, name])


# ── in the user's process ─────────────────────────────────────────────────────────────────────────────────────────

_registered: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def registered(spark: Any, source: type[DataSource]) -> None:
    """Spark warns when a name is registered again."""
    names = _registered.setdefault(spark, set())
    if source.name() not in names:
        spark.dataSource.register(source)
        names.add(source.name())


def packed_frame(
    spark: Any,
    program: Any,
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
    connect = is_connect(spark)
    parts, shipping = {}, {}
    for name, source in sources.items():
        definition = definitions[name]
        routes, columns = program.routes(name), tuple(program.columns(name))
        parts[name] = divide(source, definition.name, definition.timestamp, columns, in_file=not connect)
        careful = strict or isinstance(source, StrictSource)
        shipping[name] = Shipping(tuple(routes), program.timestamp(name), columns, program.positioned(name), careful)
    registered(spark, PackedSource)
    reader = (spark.readStream if streaming else spark.read).format(FORMAT)
    reader = reader.option("parts", Described.of(parts).text()).option("shipping", Described.of(shipping).text())
    return reader.option("rows_per_batch", str(rows_per_batch)).option("tasks", str(tasks or cores(spark))).load()


def is_connect(spark: Any) -> bool:
    return ".connect." in type(spark).__module__


def cores(spark: Any) -> int:
    """How many tasks run at once, where Spark tells; a client of Spark Connect is not told."""
    return 8 if is_connect(spark) else int(spark.sparkContext.defaultParallelism)
