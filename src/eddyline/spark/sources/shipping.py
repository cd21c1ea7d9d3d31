"""Reads the slices of a task, in a worker, and packs their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.io.source import InvalidRow
from eddyline.spark import stream_progress as bounds
from eddyline.spark.packing import ARRIVAL, ARRIVED, Packer, Route
from eddyline.spark.sources.disorder import Disorder
from eddyline.spark.sources.tasks import Load, Task, check


@dataclass(frozen=True, slots=True)
class Shipping:
    """How one source is packed. ``strict`` stops at a malformed row; ``slack`` is that of the declared stream."""

    routes: tuple[Route, ...]
    timestamp: str
    columns: tuple[str, ...]
    positioned: bool
    strict: bool
    slack: int = 0

    @property
    def stamp(self) -> pa.DataType | None:
        """The type of the hidden column of arrival times, if there is one."""
        return self.routes[0].schema.field(ARRIVED).type if self.timestamp == ARRIVED else None


def pack(task: Task, shipping: Mapping[str, Shipping]) -> Iterator[pa.RecordBatch]:
    for load in task.loads:
        how = shipping[load.source]
        packer = Packer(how.routes, how.timestamp, bounds.known)
        malformed: list[InvalidRow] = []
        disorder = Disorder(how.timestamp, how.slack)
        yield from packer(_batches(load, how, task.stamp, malformed, disorder), load.ended)
        if disorder.rows:
            yield packer.out_of_order(disorder.rows, disorder.behind)
        if malformed:
            yield packer.malformed(malformed)


def _batches(
    load: Load, how: Shipping, stamp: int, malformed: list[InvalidRow], disorder: Disorder
) -> Iterator[pa.RecordBatch]:
    for part in load.slices:
        position = part.first
        for batch in part.read(how.columns):
            check(batch, how.strict)
            malformed += batch.invalid
            rows = batch.rows
            count = rows.num_rows
            if how.positioned:
                rows = _with(rows, ARRIVAL, pa.array(np.arange(position, position + count)))
            if how.stamp is not None:
                at = stamp if pa.types.is_timestamp(how.stamp) else stamp // 1_000_000
                rows = _with(rows, ARRIVED, pa.array(np.full(count, at)).cast(how.stamp))
            position += count
            disorder.look(rows)
            yield rows


def _with(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, name])
