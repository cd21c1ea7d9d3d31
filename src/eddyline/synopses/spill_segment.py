"""Segments: spilled rows in a file that never change, of which only what was asked for is read, and verified first.

A segment is a sequence of *blocks*. For each port of the rows' input there is a *sorted run*: its keys in order with
the keys of the other ports and the places of their rows, cut into blocks; then the rows themselves in blocks. So what
a look-up finds is known by all its keys before a row is read: most of it is of no use to whoever asks. A block of rows
has one record of fixed size for each row, with its columns of fixed width in the bytes in which they are in memory, and
behind the records the other columns (text, columns with NULLs) in Arrow's format. The manifest, which is in memory
because the file lives no longer than its process, has for each block its place, length and checksum, and for each block
of a run its first key. A look-up reads the blocks of the run that its keys can be in, and then the blocks of the rows
that are asked for. Nothing that was read is used before its checksum is right: a byte that changed on the disk ends the
query in a sentence.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Int64s, combine
from eddyline.core.errors import EddylineError
from eddyline.kernels.constrained_filter import find_keys
from eddyline.synopses.spill_file import SpillFile

KEYS_PER_BLOCK = 2_048  # of a run: fewer read less for a key, and take more memory for the manifest
ROWS_PER_BLOCK = 1_024  # fewer read less for a row, and take longer to write
BLOCK_BYTES = 24  # of a block in the manifest


@dataclass(frozen=True, slots=True)
class SpilledRows:
    """Rows of one input, by increasing number."""

    number: Int64s
    leave: Int64s
    why: Int64s
    keys: Int64s
    columns: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.number)

    def filter(self, keep: Bools) -> SpilledRows:
        if keep.all():
            return self
        return self.take(np.flatnonzero(keep))

    def take(self, at: Int64s) -> SpilledRows:
        where = pa.array(at)
        columns = {n: c.take(where) for n, c in self.columns.items()}
        return SpilledRows(self.number[at], self.leave[at], self.why[at], self.keys[at], columns)

    @staticmethod
    def concat(parts: Sequence[SpilledRows]) -> SpilledRows:
        if len(parts) == 1:
            return parts[0]
        columns = {n: combine([p.columns[n] for p in parts]) for n in parts[0].columns}
        number, leave, why, keys = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("number", "leave", "why", "keys")
        )
        whole = SpilledRows(number, leave, why, keys, columns)
        return whole.take(np.argsort(whole.number, kind="stable"))

    @property
    def nbytes(self) -> int:
        arrays = self.number.nbytes + self.leave.nbytes + self.why.nbytes + self.keys.nbytes
        return arrays + sum(int(c.nbytes) for c in self.columns.values())


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of a file, with the checksum of what was written: CRC-32, which notices every change of up to 32 bits in a
    row, and of others all but one in four thousand million."""

    start: int
    length: int
    checksum: int


class Segment:
    """Rows in a file. ``taken`` says which rows were taken back; nothing is kept until one is. ``run_of`` has by port
    the port of the same input whose sorted run it uses, −1 where there is no such port; None: each has its own.

    >>> import tempfile
    >>> ids, keys = np.arange(4), np.array([[7], [8], [7], [9]])
    >>> rows = SpilledRows(ids, ids + 100, np.zeros(4, np.int64), keys, {"v": pa.array(["a", "b", "c", "d"])})
    >>> folder = tempfile.TemporaryDirectory()
    >>> segment = Segment(SpillFile(Path(folder.name, "0.rows")), rows, 1, 0)
    >>> at = segment.find(0, np.array([7, 10]))
    >>> at.tolist(), segment.read(at).columns["v"].to_pylist()
    ([0, 2], ['a', 'c'])
    """

    def __init__(
        self, file: SpillFile, rows: SpilledRows, ports: int, generation: int, run_of: Sequence[int] | None = None
    ) -> None:
        self.file, self.generation, self.ports = file, generation, ports
        self.run_of = tuple(range(ports)) if run_of is None else tuple(run_of)
        self.many, self.taken = len(rows), np.empty(0, np.uint8)  # a bit for each row
        self.left = self.many
        self.last, self.newest = int(rows.leave.max()), int(rows.number.max())
        self.bytes = 0
        self.runs: list[list[Block]] = []
        self.first: list[Int64s] = []  # keys of the blocks of each run
        self.largest: list[int] = []  # and its last key
        self.rows: list[Block] = []
        self._start, self._parts = file.bytes, list[Any]()
        self.own = [p for p, same in enumerate(self.run_of) if same == p]
        for p, same in enumerate(self.run_of):
            self._add_run(rows.keys if same == p else rows.keys[:0], p)
        self._add_rows(rows)
        file.append(b"".join(self._parts))
        self._parts = []

    @property
    def path(self) -> Path:
        return self.file.path

    def _add(self, *data: Any) -> Block:
        length = checksum = 0
        for part in data:
            length, checksum = length + len(part), zlib.crc32(part, checksum)
        block = Block(self._start + self.bytes, length, checksum)
        self._parts += data
        self.bytes += length
        return block

    def _add_run(self, keys: Int64s, port: int) -> None:
        order = np.argsort(keys[:, port])
        columns: list[np.ndarray[Any, Any]] = [keys[:, p][order] for p in (port, *self._others(port))]
        ordered, places = columns[0], order.astype(np.int32)
        starts = range(0, len(keys), KEYS_PER_BLOCK)
        cuts = [slice(start, start + KEYS_PER_BLOCK) for start in starts]
        self.runs.append([self._add(*(x[c].tobytes() for x in (*columns, places))) for c in cuts])
        self.first.append(ordered[::KEYS_PER_BLOCK].copy())
        self.largest.append(int(ordered[-1]) if len(keys) else -(1 << 63))

    def _others(self, port: int) -> list[int]:
        """The ports whose keys are in the run of a port besides its own."""
        return [p for p in self.own if p != port]

    def _add_rows(self, rows: SpilledRows) -> None:
        raw = {n: fixed(c) for n, c in rows.columns.items()}
        self.types = {n: (c.type, raw[n] is not None) for n, c in rows.columns.items()}
        # Of tuple-based windows no row has a time at which it leaves.
        self.leave = int(rows.leave[0]) if (rows.leave == rows.leave[0]).all() else None
        head = [("number", "<i8"), ("why", "<u2")]
        head += [("leave", "<i8")] if self.leave is None else []
        columns = [(f"row {n}", values.dtype.str) for n, values in raw.items() if values is not None]
        self.record = np.dtype([*head, *columns])
        records = np.empty(len(rows), self.record)
        records["number"], records["why"] = rows.number, rows.why
        if self.leave is None:
            records["leave"] = rows.leave
        for n, values in raw.items():
            if values is not None:
                records[f"row {n}"] = values
        others = {n: _plain(c) for n, c in rows.columns.items() if raw[n] is None}
        batch = pa.RecordBatch.from_pydict(others) if others else None
        self.schema = None if batch is None else batch.schema
        for start in range(0, len(rows), ROWS_PER_BLOCK):
            parts = [records[start : start + ROWS_PER_BLOCK].tobytes()]
            if batch is not None:
                parts.append(batch.slice(start, ROWS_PER_BLOCK).serialize().to_pybytes())
            self.rows.append(self._add(*parts))

    def _read(self, blocks: Sequence[Block]) -> list[bytearray]:
        """The bytes of blocks, as they were written."""
        found = []
        try:
            with self.path.open("rb", buffering=0) as file:
                for b in blocks:
                    file.seek(b.start)
                    data = bytearray(b.length)
                    if file.readinto(data) != b.length or zlib.crc32(data) != b.checksum:
                        raise self._damaged(f"{b.length:,} bytes at {b.start:,} are not those that were written")
                    found.append(data)
        except OSError as error:
            raise self._damaged(error.strerror or str(error)) from error
        return found

    def _damaged(self, what: str) -> EddylineError:
        return EddylineError(
            f"{self.path} cannot be read, or was damaged while the query ran ({what}): the rows spilled to it are lost."
            " Go on from a snapshot, with a spill directory that nobody else writes to."
        )

    def _run(self, port: int, blocks: Sequence[int]) -> list[tuple[list[Int64s], np.ndarray[Any, Any]]]:
        """Blocks of a run: keys of the port and of the others, and the places of their rows."""
        made = []
        for data in self._read([self.runs[port][b] for b in blocks]):
            lines = len(self.own)
            many = len(data) // (8 * lines + 4)
            keys: list[Int64s] = [np.frombuffer(data, np.int64, many, 8 * many * n) for n in range(lines)]
            made.append((keys, np.frombuffer(data, np.int32, many, 8 * many * lines)))
        return made

    def _spread(self, port: int, keys: Sequence[Int64s]) -> Int64s:
        """Keys by port, from those that the run of one has."""
        by_port = dict(zip((port, *self._others(port)), keys, strict=True))
        made = np.zeros((len(keys[0]), self.ports), np.int64)
        for p, same in enumerate(self.run_of):
            if same >= 0:
                made[:, p] = by_port[same]
        return made

    def find(self, port: int, keys: Int64s) -> Int64s:
        """The places of rows with one of these keys, which are in order."""
        return self.look_up(port, keys)[0]

    def look_up(self, port: int, keys: Int64s) -> tuple[Int64s, Int64s]:
        """The places of rows with one of these keys, which are in order, and all keys of each."""
        port = self.run_of[port]
        first = self.first[port]
        none = np.empty(0, np.int64), np.empty((0, self.ports), np.int64)
        if len(keys) == 0 or len(first) == 0 or keys[0] > self.largest[port] or keys[-1] < first[0]:
            return none  # most segments have other keys
        keys = keys[np.searchsorted(keys, first[0]) : np.searchsorted(keys, self.largest[port], "right")]
        if len(keys) == 0:
            return none
        low, high = np.searchsorted(first, keys, "left") - 1, np.searchsorted(first, keys, "right") - 1
        low = np.maximum(low, 0)
        # A key lies in one block, or in all from the last that begins before it to the last that begins with it.
        longer = np.flatnonzero(high > low)
        several = [np.arange(x, y + 1) for x, y in zip(low[longer].tolist(), high[longer].tolist(), strict=True)]
        wanted = np.unique(np.concatenate([low, *several])).tolist()
        places, found = [], []
        for run, place in self._run(port, wanted):
            here = positions(run[0], keys)
            places.append(place[here].astype(np.int64))
            found.append(self._spread(port, [x[here] for x in run]))
        at, by_port = np.concatenate(places), np.concatenate(found)
        order = np.argsort(at)
        if len(self.taken):
            order = order[self._is_left(at[order])]
        return at[order], by_port[order]

    def _is_left(self, at: Int64s) -> Bools:
        """Whether the rows at some places are there; one was taken."""
        left: Bools = (self.taken[at >> 3] >> (at & 7).astype(np.uint8)) & 1 == 0
        return left

    def take(self, at: Int64s) -> None:
        """Rows at these places, which are there, are here no longer."""
        if len(self.taken) == 0:
            self.taken = np.zeros(-(-self.many // 8), np.uint8)
        self.left -= len(at)
        np.bitwise_or.at(self.taken, at >> 3, np.uint8(1) << (at & 7).astype(np.uint8))

    def places(self) -> Int64s:
        """Of all rows that are there."""
        at = np.arange(self.many)
        return at[self._is_left(at)] if len(self.taken) else at

    def _keys_of(self, at: Int64s) -> Int64s:
        """The keys of the rows at some places, by port."""
        made = np.zeros((self.many, self.ports), np.int64)
        for keys, places in self._run(self.own[0], range(len(self.runs[self.own[0]]))):
            made[places] = self._spread(self.own[0], keys)
        return made[at]

    def read(self, at: Int64s, keys: Int64s | None = None) -> SpilledRows:
        """The rows at increasing places; ``keys`` by port, if they were looked up."""
        blocks = np.unique(at // ROWS_PER_BLOCK)
        picked, others = [], []
        for n, data in zip(blocks.tolist(), self._read([self.rows[b] for b in blocks.tolist()]), strict=True):
            here = at[at // ROWS_PER_BLOCK == n] - n * ROWS_PER_BLOCK
            many = min(ROWS_PER_BLOCK, self.many - n * ROWS_PER_BLOCK)
            picked.append(np.frombuffer(data, self.record, many)[here])
            if self.schema is not None:
                batch = pa.ipc.read_record_batch(pa.py_buffer(data[many * self.record.itemsize :]), self.schema)
                others.append(batch.take(pa.array(here)))
        records = np.concatenate(picked) if picked else np.empty(0, self.record)
        rest = None
        if self.schema is not None:
            rest = pa.concat_batches(others) if others else pa.RecordBatch.from_pylist([], self.schema)
        columns: dict[str, pa.Array] = {}
        for n, (kind, is_fixed) in self.types.items():
            if is_fixed:
                data = pa.py_buffer(np.ascontiguousarray(records[f"row {n}"]))
                columns[n] = pa.Array.from_buffers(kind, len(records), [None, data])
            else:
                assert rest is not None
                columns[n] = rest.column(n)
        leave = records["leave"].copy() if self.leave is None else np.full(len(records), self.leave, np.int64)
        keys = self._keys_of(at) if keys is None else keys
        return SpilledRows(records["number"].copy(), leave, records["why"].astype(np.int64), keys, columns)

    def keys(self, port: int) -> Int64s:
        """The keys of the rows that are there, in any order."""
        port = self.run_of[port]
        parts = self._run(port, range(len(self.runs[port])))
        keys, places = np.concatenate([run[0] for run, _ in parts]), np.concatenate([p for _, p in parts])
        return keys[self._is_left(places)] if len(self.taken) else keys

    @property
    def nbytes(self) -> int:
        """Bytes in memory: the manifest, and which rows are there."""
        blocks = sum(map(len, self.runs)) + len(self.rows)
        return self.taken.nbytes + blocks * BLOCK_BYTES + sum(f.nbytes + 8 for f in self.first)

    def remove(self) -> None:
        """Nobody will read it again."""
        self.file.release()

    def __len__(self) -> int:
        return self.left


def positions(column: Int64s, keys: Int64s) -> Int64s:
    """Where some keys are in a column.

    >>> positions(np.array([4, 7, 5, 7]), np.array([6, 7])).tolist()
    [1, 3]
    """
    found = np.empty(len(column), np.int64)
    table = np.full(1 << (2 * len(keys)).bit_length(), -1, np.int64)
    return found[: int(find_keys(column, keys, table, found))]


def fixed(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """The values of a column as they are in memory, where each has the same number of whole bytes and none is NULL.

    >>> fixed(pa.array([3, 4], pa.int16())), fixed(pa.array([3, None])), fixed(pa.array(["x"]))
    (array([3, 4], dtype=uint16), None, None)
    """
    kind = column.type
    if column.null_count or not pa.types.is_primitive(kind) or pa.types.is_boolean(kind):
        return None
    size = kind.bit_width // 8
    return np.frombuffer(column.buffers()[1], f"<u{size}", len(column), column.offset * size)


def _plain(column: pa.Array) -> pa.Array:
    """Blocks are read one by one, and a dictionary would be in each."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
