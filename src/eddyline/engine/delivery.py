"""Deliveries: the results of queries that ask the same are taken from the graph once, and handed to each of them.

Queries with one delivery read the same operator on the same time line and have the same names for its columns. So they
get the same changes at the same moments, and share one result batch, which is never modified.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.engine.queues import Queue
from eddyline.engine.task import Limit


class Receiver(Protocol):
    """A query whose results wait to be fetched."""

    results: deque[pa.RecordBatch]
    produced: int


class Delivery:
    """``queue`` is filled by the operator that its queries read; ``columns`` are those of a result without its time."""

    def __init__(self, queue: Queue, line: Limit, columns: Schema, kind: TimeKind, signed: bool) -> None:
        self.queue, self.line = queue, line
        self.columns, self.kind, self.signed = columns, kind, signed
        self.schema = result_schema(columns, kind, signed)
        self._time = pa.timestamp("us") if kind is TimeKind.TIMESTAMP else pa.int64()
        self.receivers: list[Receiver] = []

    def serves(self, line: Limit, columns: Schema, kind: TimeKind, signed: bool) -> bool:
        """Whether it is what another query would get."""
        return self.line is line and (self.columns, self.kind, self.signed) == (columns, kind, signed)

    def collect(self) -> None:
        """Take what the operators have brought, up to the last instant that has closed."""
        queue = self.queue
        if not queue.waiting:
            return
        limit = self.line.limit
        if queue.frontier <= limit:
            found: Sequence[Delta] = queue.drain()
        else:  # another time line reads the same operators and is ahead
            found = [d for d in (queue.pop(limit),) if len(d)]
        for delta in found:
            batch, rows = self._batch(delta), len(delta)
            for receiver in self.receivers:
                receiver.produced += rows
                receiver.results.append(batch)

    def _batch(self, delta: Delta) -> pa.RecordBatch:
        columns = [_decoded(delta.columns[f.name]) for f in self.columns]
        time = pa.py_buffer(np.ascontiguousarray(delta.time, np.int64))
        columns.append(pa.Array.from_buffers(self._time, len(delta.time), [None, time]))
        if self.signed:
            columns.append(pa.array(delta.weights.astype(np.int8)))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def result_schema(schema: Schema, kind: TimeKind, signed: bool) -> pa.Schema:
    """The query's columns, then ``_time``, then ``_sign`` for the changes of a relation."""
    fields = []
    for f in schema:
        name = f.name
        while name in ("_time", "_sign") or (name != f.name and name in schema):
            name += "_2"  # a result that is read again as a stream has such columns
        fields.append(pa.field(name, f.type))
    fields.append(pa.field("_time", pa.timestamp("us") if kind is TimeKind.TIMESTAMP else pa.int64()))
    if signed:
        fields.append(pa.field("_sign", pa.int8()))
    return pa.schema(fields)


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
