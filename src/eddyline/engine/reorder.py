"""The reorder buffer: elements in, in any order; elements out by (timestamp, arrival).

Held elements form *runs*. A run is a sequence of chunks whose times never decrease, one after another; everything in
a run arrived before everything in the next run. A chunk that continues the last run joins it without being touched,
so data in order are never copied or compared beyond their ends. Any other chunk starts a run; when there are too many,
the last ones of similar size are merged (as in a log-structured merge tree): runs stay few, and each element is moved
O(log n) times.

Because runs stand in arrival order, a stable sort by time of their concatenation breaks ties by arrival.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Int64s

MAX_RUNS = 32  # runs of held elements; with more of them the last ones are merged


@dataclass(slots=True)
class Chunk:
    """Elements in order of time, and their columns as one batch (cheaper to cut than column by column).

    ``first`` is the smallest arrival number, or less; ``arrival`` None means first, first + 1, … ``weight`` None means
    that all are insertions. Chunks are never changed: readers share them.
    """

    time: Int64s
    rows: pa.RecordBatch
    first: int
    arrival: Int64s | None = None
    weight: Int64s | None = None

    def __len__(self) -> int:
        return len(self.time)

    @property
    def arrivals(self) -> Int64s:
        if self.arrival is not None:
            return self.arrival
        return np.arange(self.first, self.first + len(self.time), dtype=np.int64)

    def slice(self, start: int, stop: int) -> Chunk:
        return Chunk(
            self.time[start:stop],
            self.rows.slice(start, stop - start),
            self.first + start if self.arrival is None else self.first,
            None if self.arrival is None else self.arrival[start:stop],
            None if self.weight is None else self.weight[start:stop],
        )

    def filter(self, keep: Bools) -> Chunk:
        return Chunk(
            self.time[keep],
            self.rows.filter(pa.array(keep)),
            self.first,
            self.arrivals[keep],
            None if self.weight is None else self.weight[keep],
        )

    def sorted(self) -> Chunk:
        order = np.argsort(self.time, kind="stable")
        return Chunk(
            self.time[order],
            self.rows.take(pa.array(order)),
            self.first,
            self.first + order if self.arrival is None else self.arrival[order],
            None if self.weight is None else self.weight[order],
        )


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Chunks one after another."""
    if len(chunks) == 1:
        return chunks[0]
    numbered = chunks[-1].arrival is not None or any(
        a.arrival is not None or a.first + len(a) != b.first for a, b in pairwise(chunks)
    )
    weighted = any(c.weight is not None for c in chunks)
    return Chunk(
        np.concatenate([c.time for c in chunks]),
        joined_rows([c.rows for c in chunks]),
        min(c.first for c in chunks),
        np.concatenate([c.arrivals for c in chunks]) if numbered else None,
        np.concatenate([np.ones(len(c), np.int64) if c.weight is None else c.weight for c in chunks])
        if weighted
        else None,
    )


def joined_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches one after another, their columns matched by name.

    A column that a batch does not have is NULL there. A column that some have in the form of a dictionary is decoded,
    unless all have it so; then the dictionaries are unified and it stays in its cheaper form.

    >>> a, b = pa.RecordBatch.from_pydict({"x": [1]}), pa.RecordBatch.from_pydict({"x": [2], "y": ["b"]})
    >>> joined_rows([a, b]).to_pydict()
    {'x': [1, 2], 'y': [None, 'b']}
    """
    schema = batches[0].schema
    if all(b.schema.equals(schema) for b in batches):
        return pa.concat_batches(batches)
    kinds: dict[str, pa.DataType] = {}
    for f in (f for b in batches for f in b.schema):
        known = kinds.setdefault(f.name, f.type)
        if known != f.type:
            kinds[f.name] = known.value_type if pa.types.is_dictionary(known) else known
    common = pa.schema(list(kinds.items()))
    return pa.concat_batches([_aligned(b, common) for b in batches])


def _aligned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = batch.schema.names
    columns = []
    for f in schema:
        if f.name not in names:
            columns.append(pa.nulls(batch.num_rows, f.type))
            continue
        column = batch.column(names.index(f.name))
        columns.append(column if column.type == f.type else column.cast(f.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class ReorderBuffer:
    """
    >>> b = ReorderBuffer()
    >>> b.add(Chunk(np.array([1, 4, 6]), pa.RecordBatch.from_pydict({"a": ["x", "y", "z"]}), 0))
    >>> b.add(Chunk(np.array([3, 4]), pa.RecordBatch.from_pydict({"a": ["v", "w"]}), 3))
    >>> [(c.time.tolist(), c.rows["a"].to_pylist()) for c in b.release(4)]
    [([1, 3, 4, 4], ['x', 'v', 'y', 'w'])]
    >>> len(b)
    1
    """

    def __init__(self) -> None:
        self._runs: list[deque[Chunk]] = []

    def __len__(self) -> int:
        return sum(len(c) for run in self._runs for c in run)

    @property
    def chunks(self) -> list[Chunk]:
        """All that is held, in order of arrival where arrival decides."""
        return [c for run in self._runs for c in run]

    def add(self, chunk: Chunk) -> None:
        """``chunk`` is in order of time and not empty, and arrived after everything held."""
        runs = self._runs
        if runs and chunk.time[0] >= runs[-1][-1].time[-1]:
            runs[-1].append(chunk)
            return
        runs.append(deque((chunk,)))
        if len(runs) > MAX_RUNS:
            self._merge_last()

    def _merge_last(self) -> None:
        """Merge the last runs, at least two, as far back as those before are not much larger."""
        sizes = [sum(len(c) for c in run) for run in self._runs]
        start = len(sizes) - 2
        total = sizes[-1] + sizes[-2]
        while start > 0 and sizes[start - 1] <= 2 * total:
            start -= 1
            total += sizes[start]
        whole = joined([c for run in self._runs[start:] for c in run]).sorted()
        self._runs[start:] = [deque((whole,))]

    def release(self, up_to: int) -> list[Chunk]:
        """Take out the elements with time ≤ ``up_to``, in order."""
        parts: list[Chunk] = []
        touched = 0
        for run in self._runs:
            head = run[0]
            if head.time[0] > up_to:
                continue
            touched += 1
            while head.time[-1] <= up_to:
                parts.append(run.popleft())
                if not run:
                    break
                head = run[0]
            else:
                cut = int(head.time.searchsorted(up_to, "right"))
                if cut:
                    parts.append(head.slice(0, cut))
                    run[0] = head.slice(cut, len(head))
        if touched:
            self._runs = [r for r in self._runs if r]
        if touched <= 1 or all(a.time[-1] <= b.time[0] for a, b in pairwise(parts)):
            return parts
        return [joined(parts).sorted()]


def pack(chunks: Iterable[Chunk]) -> dict[str, Any] | None:
    """Chunks as plain data for snapshots; ``unpack`` is the inverse."""
    parts = list(chunks)
    if not parts:
        return None
    whole = joined(parts)
    return {"time": whole.time, "arrival": whole.arrivals, "weight": whole.weight, "rows": whole.rows}


def unpack(packed: Mapping[str, Any] | None) -> list[Chunk]:
    if packed is None:
        return []
    arrival: Int64s = packed["arrival"]
    return [Chunk(packed["time"], packed["rows"], int(arrival.min()), arrival, packed["weight"])]
