"""Several sources through one Python step: their rows share columns, as far as their types are the same.

Each ``mapInArrow`` of a task is a conversation of its own with a Python worker, and each task has its price, whatever
little it carries. So the rows of all sources are put under each other *before* they leave the JVM: column k of a source
goes into the first free *slot* of its type, slots that a source does not use are NULL, and a number says whose a row
is. Partitions hold rows of one source each, so batches come in long runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from eddyline.spark import stream_progress as bounds
from eddyline.spark.packing import Packer, Route
from eddyline.spark.types import quoted, to_engine

DataFrame = Any  # classic or Connect: the two share an interface, not a class

SOURCE: Final = "_source"
MAX_SLOTS_FACTOR: Final = 2  # times the columns of the widest source: more slots would ship too many NULLs


@dataclass(frozen=True, slots=True)
class Shipment:
    """The rows of one source that must leave the JVM, how they travel, and what they are for the engine."""

    frame: DataFrame  # the columns of ``schema``, in that order
    schema: pa.Schema
    routes: Sequence[Route]
    timestamp: str

    def types(self) -> list[DataType]:
        return [f.dataType for f in self.frame.schema.fields]


def unite(shipments: Sequence[Shipment], tasks: int | None, packed: StructType) -> DataFrame:
    """The packed rows of several sources; in at most so many tasks, if that is given."""
    if len(shipments) == 1:
        return _alone(shipments[0], packed, tasks)
    types = [s.types() for s in shipments]
    slots, places = share(types)
    if len(slots) > MAX_SLOTS_FACTOR * max(map(len, types)):
        apart = reduce(lambda a, b: a.union(b), (_alone(s, packed) for s in shipments))
        return apart if tasks is None else apart.coalesce(tasks)
    together = reduce(
        lambda a, b: a.union(b),
        (_placed(s.frame, number, slots, places[number]) for number, s in enumerate(shipments)),
    )
    if tasks is not None:
        together = together.coalesce(tasks)
    ways = [(s.schema, p, s.routes, s.timestamp) for s, p in zip(shipments, places, strict=True)]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packers: dict[int, Packer] = {}
        for batch in batches:
            for number, part in runs(batch):
                schema, taken, routes, timestamp = ways[number]
                own = pa.RecordBatch.from_arrays([part.column(1 + k) for k in taken], names=schema.names)
                packer = packers.setdefault(number, Packer(routes, timestamp, bounds.known))
                yield from packer.take(to_engine(own, schema))
        for packer in packers.values():
            yield from packer.rest()

    return together.mapInArrow(run, packed)


def _alone(s: Shipment, packed: StructType, tasks: int | None = None) -> DataFrame:
    schema, routes, timestamp = s.schema, s.routes, s.timestamp

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return Packer(routes, timestamp, bounds.known)(to_engine(b, schema) for b in batches)

    frame = s.frame if tasks is None else s.frame.coalesce(tasks)
    return frame.mapInArrow(run, packed)


def share(types: Sequence[Sequence[Any]]) -> tuple[list[Any], list[list[int]]]:
    """The types of the slots, and the slot of each column of each source.

    >>> share([["timestamp", "long", "long"], ["timestamp", "string", "long"]])
    (['timestamp', 'long', 'long', 'string'], [[0, 1, 2], [0, 3, 1]])
    """
    slots: list[Any] = []
    places: list[list[int]] = []
    for columns in types:
        taken: list[int] = []
        for wanted in columns:
            free = (k for k, t in enumerate(slots) if t == wanted and k not in taken)
            k = next(free, len(slots))
            if k == len(slots):
                slots.append(wanted)
            taken.append(k)
        places.append(taken)
    return slots, places


def _placed(df: DataFrame, number: int, slots: Sequence[DataType], taken: Sequence[int]) -> DataFrame:
    by_slot: Mapping[int, str] = dict(zip(taken, df.columns, strict=True))
    columns = [
        (F.col(quoted(by_slot[k])) if k in by_slot else F.lit(None).cast(t)).alias(f"_{k}") for k, t in enumerate(slots)
    ]
    return df.select(F.lit(number).cast("short").alias(SOURCE), *columns)


def runs(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Stretches of rows of one source.

    >>> rows = pa.RecordBatch.from_pydict({"_source": pa.array([1, 1, 0], pa.int16()), "_0": [7, 8, 9]})
    >>> [(n, part["_0"].to_pylist()) for n, part in runs(rows)]
    [(1, [7, 8]), (0, [9])]
    """
    numbers = batch.column(0).to_numpy()
    ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)] if len(numbers) else []
    start = 0
    for end in ends:
        yield int(numbers[start]), batch.slice(start, end - start)
        start = end
