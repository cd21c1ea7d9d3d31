"""Map side: the Arrow batches of one declared stream → a few rows for each shard.

Spark is shipped batches, not rows: what would be 500,000 rows through the shuffle is one blob for each shard. The rows
of this step (``PACKED``):

=========  =============================================================================================
``key``    which engine gets it: ``keys.key_of(group, shard)``
``lane``   number of the lane in its group
``kind``   ``ROWS``, ``PANES`` (what rows add up to, where that is all that is asked for), ``MALFORMED`` (rows that
           a reader could not take apart), ``DISORDER`` (that rows came out of order: how many in ``low``, how far
           back in ``high``) or ``TIMES`` (how many rows have which times, for all shards: ``time_counts``)
``low``    the smallest and the largest timestamp, in ticks, of *all* rows behind this flush, whatever shard they
``high``   went to: so every shard has the progress of the stream, and a quiet one holds nothing back. Of ``PANES``
           the smallest timestamp in them, and NULL
``rows``   how many rows arrived; on one row of a flush and group only, before any copying: adding up counts each once
``ended``  the input is at its end
``blob``   the shard's share as an Arrow record batch without its schema (lanes know it), NULL as a mere heartbeat
=========  =============================================================================================

A row goes to shard Σ coordinateᵢ · strideᵢ; along a dimension in which its lane is copied it goes to every coordinate.
Equal values meet in one shard because the coordinate is a hash of the value alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.delta import Int64s, combine
from eddyline.engine.arrivals import MAX_TICKS, ticks
from eddyline.io.source import InvalidRow
from eddyline.plan.partitioning import ANY
from eddyline.spark.shard_keys import key_of
from eddyline.synopses.codes import hash_codes

if TYPE_CHECKING:
    from eddyline.plan.panes import SourcePanes
    from eddyline.spark.panes import PaneSplitter, Split

PACKED: Final = pa.schema(
    [
        ("key", pa.int64()),
        ("lane", pa.int32()),
        ("kind", pa.int8()),
        ("low", pa.string()),  # numbers as text: a NULL among integers would make pandas turn all into floats
        ("high", pa.string()),
        ("rows", pa.int64()),
        ("ended", pa.bool_()),
        ("blob", pa.binary()),
    ]
)
ROWS: Final = 0
MALFORMED: Final = 1
PANES: Final = 2
DISORDER: Final = 3
TIMES: Final = 4
NOTHING: Final = -1  # in place of a lane, for a group that has none and only must be woken
ARRIVAL: Final = "_arrival"  # hidden column: the position of a row in its source, where the source has positions
ARRIVED: Final = "_arrived"  # hidden column: the timestamp of streams that are stamped on arrival
MALFORMED_SCHEMA: Final = pa.schema([("row", pa.string()), ("reason", pa.string())])
FLUSH_BYTES: Final = 32 << 20  # larger: fewer, larger blobs and more memory in the map task


@dataclass(frozen=True, slots=True)
class Route:
    """How the rows of one stream travel to one group of shards."""

    group: int
    lane: int
    schema: pa.Schema  # of the blobs with rows
    split: tuple[str | None, ...]
    shares: tuple[int, ...]
    panes: SourcePanes | None = None  # what they may add up to on the way
    program: str = ""
    streaming: bool = True
    auto: str | None = None  # the policy behind SLACK AUTO

    @property
    def shards(self) -> int:
        return int(np.prod(self.shares, dtype=np.int64)) if self.shares else 1

    @property
    def strides(self) -> tuple[int, ...]:
        """
        >>> Route(0, 0, pa.schema([]), ("a", None), (4, 2)).strides
        (2, 1)
        """
        return tuple(int(np.prod(self.shares[i + 1 :], dtype=np.int64)) for i in range(len(self.shares)))

    def copies(self) -> list[int]:
        """The shards, relative to the row's own, to which it is copied."""
        steps = [
            [c * stride for c in range(share)] if column is None else [0]
            for column, share, stride in zip(self.split, self.shares, self.strides, strict=True)
        ]
        return [sum(combination) for combination in itertools.product(*steps)]

    def own(self, batch: pa.RecordBatch) -> npt.NDArray[np.uint16]:
        """The row's shard with coordinate 0 along the dimensions in which it is copied."""
        out = np.zeros(batch.num_rows, np.int64)
        for column, share, stride in zip(self.split, self.shares, self.strides, strict=True):
            if column is not None and share > 1:
                out += coordinates(batch, column, share) * stride
        return out.astype(np.uint16)


def coordinates(batch: pa.RecordBatch, column: str, share: int) -> Int64s:
    """The coordinate of each row along one dimension.

    >>> rows = pa.RecordBatch.from_pydict({"a": ["x", None, "x"], "b": [0.0, -0.0, 1.0]})
    >>> a, b = coordinates(rows, "a", 8), coordinates(rows, "b", 8)
    >>> bool(a[0] == a[2]), bool(b[0] == b[1])
    (True, True)
    """
    if column == ANY:
        spread: Int64s = np.arange(batch.num_rows, dtype=np.int64) * share // max(batch.num_rows, 1)
        return spread
    codes, nulls = hash_codes(batch.column(column))
    if nulls is not None:
        codes = np.where(nulls, 0, codes)
    found: Int64s = (_mixed(codes) % np.uint64(share)).astype(np.int64)
    return found


def _mixed(codes: Int64s) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64 over a column (``kernels.hashing.mix`` for arrays)."""
    x = codes.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Packer:
    """Gathers the batches of one stream and gives them out as packed rows.

    >>> schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    >>> packer = Packer([Route(0, 0, schema, ("k",), (2,))], "ts")
    >>> packed = list(packer(iter([pa.RecordBatch.from_pydict({"ts": [3, 1, 2], "k": [7, 7, 8]})])))
    >>> rows = pa.Table.from_batches(packed)
    >>> rows["low"].to_pylist(), rows["high"].to_pylist(), rows["rows"].to_pylist()
    (['1', '1'], ['3', '3'], [3, 0])
    """

    def __init__(self, routes: Sequence[Route], timestamp: str, bound: Bound | None = None) -> None:
        self.routes, self.timestamp, self.bound = routes, timestamp, bound
        self._pane_splitters: dict[int, PaneSplitter] = {}
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._sampled = False  # whether the lateness of the first rows was reported

    def __call__(self, batches: Iterator[pa.RecordBatch], ended: bool = False) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self.take(batch)
        yield from self.rest(ended)

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if batch.num_rows:
            self._held.append(batch)
            self._bytes += batch.nbytes
            if self._bytes >= FLUSH_BYTES:
                yield self.flush()

    def rest(self, ended: bool = False) -> Iterator[pa.RecordBatch]:
        if self._held or ended:
            yield self.flush(ended)

    def flush(self, ended: bool = False) -> pa.RecordBatch:
        """What was gathered, for every shard of every route."""
        low = high = None
        count = sum(b.num_rows for b in self._held)
        out = _Rows()
        batch = _one(self._held)
        if batch is not None:
            low, high = (None if t is None else str(t) for t in _extent(batch.column(self.timestamp)))
        counted: set[int] = set()
        for number, route in enumerate(self.routes):
            rows = batch if route.lane != NOTHING else None
            panes = None if rows is None else self._panes(number, rows)
            if panes is not None:
                rows, made, first, earliest = panes
                for shard, blob in _blobs(route, first, made).items():
                    out.add(key_of(route.group, shard), route.lane, PANES, str(earliest), None, 0, False, blob)
            blobs = {} if rows is None or not rows.num_rows else _blobs(route, rows, _conform(rows, route.schema))
            for shard in range(route.shards):
                new = count if shard == 0 and route.group not in counted else 0
                key = key_of(route.group, shard)
                out.add(key, route.lane, ROWS, low, high, new, ended, blobs.get(shard))
            counted.add(route.group)
        if batch is not None:
            self._pack_times(batch, out)
        self._held, self._bytes = [], 0
        return out.batch()

    def _pack_times(self, batch: pa.RecordBatch, out: _Rows) -> None:
        """The times of all rows go to every shard where the slack of the stream is chosen by them."""
        policy = next((r.auto for r in self.routes if r.auto is not None), None)
        if policy is None:
            return
        time = _valid_times(batch.column(self.timestamp))
        if not len(time):
            return
        from eddyline.spark.batch_slack import EMPTY, read_lateness
        from eddyline.spark.time_counts import TimeCounts

        late = EMPTY if self._sampled else read_lateness(time, policy)
        self._sampled = True
        blob = np.concatenate([TimeCounts.of(time).packed(), late.packed()]).tobytes()
        for route in self.routes:
            for shard in range(route.shards) if route.auto is not None else ():
                out.add(key_of(route.group, shard), route.lane, TIMES, None, None, 0, False, blob)

    def _panes(self, number: int, batch: pa.RecordBatch) -> Split | None:
        """Rows that must travel as they are, panes of the others and the first row of each; None: all must."""
        route = self.routes[number]
        bound = None if route.panes is None or self.bound is None else self.bound(route)
        if route.panes is None or bound is None:
            return None
        if number not in self._pane_splitters:
            from eddyline.spark.panes import PaneSplitter

            self._pane_splitters[number] = PaneSplitter(route.panes, self.timestamp)
        return self._pane_splitters[number].split(_typed(batch, route.schema), bound)

    def malformed(self, rows: Sequence[InvalidRow]) -> pa.RecordBatch:
        """Rows that could not be read go to the first shard of the first lane of each group, where they are counted."""
        out = _Rows()
        table = pa.RecordBatch.from_pydict(
            {"row": [r.row for r in rows], "reason": [r.reason for r in rows]}, MALFORMED_SCHEMA
        )
        blob = table.serialize().to_pybytes()
        for route in self._first_lanes():
            out.add(key_of(route.group, 0), route.lane, MALFORMED, None, None, len(rows), False, blob)
        return out.batch()

    def out_of_order(self, rows: int, behind: int) -> pa.RecordBatch:
        """So many of the rows that were packed came out of order, the last of them by so many ticks."""
        out = _Rows()
        for route in self._first_lanes():
            out.add(key_of(route.group, 0), route.lane, DISORDER, str(rows), str(behind), 0, False, None)
        return out.batch()

    def _first_lanes(self) -> list[Route]:
        """One route for each group, whose first shard counts for all."""
        return list({r.group: r for r in reversed(self.routes) if r.lane != NOTHING}.values())


Bound = Callable[[Route], int | None]  # what of a route's rows is late now: see ``bounds.known``


def unpack(blob: bytes, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(blob), schema)


class _Rows:
    def __init__(self) -> None:
        self.columns: list[list[Any]] = [[] for _ in PACKED]

    def add(self, *values: Any) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)

    def batch(self) -> pa.RecordBatch:
        arrays = [pa.array(c, f.type) for c, f in zip(self.columns, PACKED, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=PACKED)


def _one(held: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    if not held:
        return None
    if len(held) == 1:
        return held[0]
    columns = [combine([b.column(i) for b in held]) for i in range(held[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, names=held[0].schema.names)


def _extent(column: pa.Array) -> tuple[int | None, int | None]:
    time = _valid_times(column)
    return (int(time.min()), int(time.max())) if len(time) else (None, None)


def _valid_times(column: pa.Array) -> Int64s:
    """Timestamps that are NULL or out of range belong to invalid rows, which show no time."""
    time = ticks(column.drop_null() if column.null_count else column)
    if len(time) and (time.min() < -MAX_TICKS or time.max() > MAX_TICKS):
        return time[(time >= -MAX_TICKS) & (time <= MAX_TICKS)]
    return time


def _blobs(route: Route, keyed: pa.RecordBatch, chosen: pa.RecordBatch) -> dict[int, bytes]:
    """The shares of ``chosen`` by shard; the rows of ``keyed`` have the columns that decide where each goes."""
    if route.shards == 1:
        return {0: chosen.serialize().to_pybytes()}
    own = route.own(keyed)
    copies = route.copies()
    first = int(own[0]) if len(own) else 0
    if (own == first).all():
        starts, parts = [first], [chosen]
    else:
        # Small unsigned integers are sorted by radix: this is a counting sort by shard.
        order = np.argsort(own, kind="stable")
        by_shard = chosen.take(pa.array(order))
        found, at = np.unique(own[order], return_index=True)
        ends = [*at[1:].tolist(), len(own)]
        starts = found.tolist()
        parts = [by_shard.slice(a, b - a) for a, b in zip(at.tolist(), ends, strict=True)]
    out: dict[int, bytes] = {}
    for start, part in zip(starts, parts, strict=True):
        blob = part.serialize().to_pybytes()
        for step in copies:
            out[start + step] = blob
    return out


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """All columns, those of the schema in its types."""
    arrays = [
        _column(c, schema.field(n).type) if n in schema.names else c
        for n, c in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_column(batch.column(f.name), f.type) for f in schema], schema=schema)


def _column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return column if column.type == kind else pc.cast(column, kind)
