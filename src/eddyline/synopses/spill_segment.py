"""Segments: spilled rows in a file that never change, of which only what was asked for is read, and verified first.

A segment is a sequence of *blocks*. For each port of the rows' input there is a *sorted run*: its keys in order with
the places of their rows, cut into blocks; then the rows themselves in blocks. A block of rows has one record of fixed
size for each row, with its columns of fixed width in the bytes in which they are in memory, and behind the records the
other columns (text, columns with NULLs) in Arrow's format. The manifest, which is in memory because the file lives no
longer than its process, has for each block its place, length and checksum, and for each block of a run its first key.
A look-up reads the blocks of the run that its keys can be in, and then the blocks of the rows that it finds. Nothing
that was read is used before its checksum is right: a byte that changed on the disk ends the query in a sentence.
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
        for p, same in enumerate(self.run_of):
            self._add_run(np.ascontiguousarray(rows.keys[:, p]) if same == p else rows.keys[:0, p])
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

    def _add_run(self, keys: Int64s) -> None:
        order = np.argsort(keys)
        ordered, places = keys[order], order.astype(np.int32)
        starts = range(0, len(keys), KEYS_PER_BLOCK)
        cuts = [slice(start, start + KEYS_PER_BLOCK) for start in starts]
        self.runs.append([self._add(ordered[c].tobytes(), places[c].tobytes()) for c in cuts])
        self.first.append(ordered[::KEYS_PER_BLOCK].copy())
        self.largest.append(int(ordered[-1]) if len(keys) else -(1 << 63))

    def _add_rows(self, rows: SpilledRows) -> None:
        raw = {n: fixed(c) for n, c in rows.columns.items()}
        self.types = {n: (c.type, raw[n] is not None) for n, c in rows.columns.items()}
        # Of tuple-based windows no row has a time at which it leaves.
        self.leave = int(rows.leave[0]) if (rows.leave == rows.leave[0]).all() else None
        head = [("number", "<i8"), ("why", "<u2"), ("keys", "<i8", (self.ports,))]
        head += [("leave", "<i8")] if self.leave is None else []
        columns = [(f"row {n}", values.dtype.str) for n, values in raw.items() if values is not None]
        self.record = np.dtype([*head, *columns])
        records = np.empty(len(rows), self.record)
        records["number"], records["why"], records["keys"] = rows.number, rows.why, rows.keys
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

    def _read(self, blocks: Sequence[Block]) -> list[bytes]:
        """The bytes of blocks, as they were written."""
        found = []
        try:
            with self.path.open("rb", buffering=0) as file:
                for b in blocks:
                    file.seek(b.start)
                    data = file.read(b.length)
                    if len(data) != b.length or zlib.crc32(data) != b.checksum:
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

    def _run(self, port: int, blocks: Sequence[int]) -> list[tuple[Int64s, Int64s]]:
        """Blocks of a run: keys, and the places of their rows."""
        made = []
        for data in self._read([self.runs[port][b] for b in blocks]):
            many = len(data) // 12
            places: Int64s = np.frombuffer(data, np.int32, many, 8 * many).astype(np.int64)
            made.append((np.frombuffer(data, np.int64, many), places))
        return made

    def find(self, port: int, keys: Int64s) -> Int64s:
        """The places of rows with one of these keys, which are in order."""
        port = self.run_of[port]
        first = self.first[port]
        none = np.empty(0, np.int64)
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
        found = [place[np.isin(run, keys)] for run, place in self._run(port, wanted)]
        return self._left(np.sort(np.concatenate(found)))

    def _left(self, at: Int64s) -> Int64s:
        """Those of some places whose rows are there."""
        if len(self.taken) == 0:
            return at
        left: Int64s = at[(self.taken[at >> 3] >> (at & 7).astype(np.uint8)) & 1 == 0]
        return left

    def take(self, at: Int64s) -> None:
        """Rows at these places, which are there, are here no longer."""
        if len(self.taken) == 0:
            self.taken = np.zeros(-(-self.many // 8), np.uint8)
        self.left -= len(at)
        np.bitwise_or.at(self.taken, at >> 3, np.uint8(1) << (at & 7).astype(np.uint8))

    def places(self) -> Int64s:
        """Of all rows that are there."""
        return self._left(np.arange(self.many))

    def read(self, at: Int64s) -> SpilledRows:
        """The rows at increasing places."""
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
        keys = np.ascontiguousarray(records["keys"])
        return SpilledRows(records["number"].copy(), leave, records["why"].astype(np.int64), keys, columns)

    def keys(self, port: int) -> Int64s:
        """The keys of the rows that are there, in any order."""
        port = self.run_of[port]
        parts = self._run(port, range(len(self.runs[port])))
        keys, places = (np.concatenate(x) for x in zip(*parts, strict=True))
        if len(self.taken):
            keys = keys[(self.taken[places >> 3] >> (places & 7).astype(np.uint8)) & 1 == 0]
        return keys

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
