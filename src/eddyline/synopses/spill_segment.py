"""Segments: spilled rows in a file that never change. Only the blocks with needed rows are read, and verified first.

A segment is a sequence of *blocks* of rows, by increasing number. A block has one record of fixed size for each row,
with its columns of fixed width in the bytes in which they are in memory, and behind the records the other columns
(text, columns with NULLs) in Arrow's format. The manifest, which is in memory because the file lives no longer than its
process, has for each block its place, length and checksum. The keys of the rows are in sorted runs (``spill_runs``), by
which rows are found; as long as there are none, they are in the records.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Int64s, combine
from eddyline.kernels.constrained_filter import find_keys
from eddyline.synopses.spill_file import Block, SpillFile

ROWS_PER_BLOCK = 1_024  # fewer read less for a row, and take longer to write
MANIFEST_BYTES_PER_BLOCK = 24


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


class Segment:
    """Rows in a file. ``taken`` says which rows were taken back; nothing is kept until one is.

    >>> import tempfile
    >>> from pathlib import Path
    >>> ids, keys = np.arange(4), np.array([[7], [8], [7], [9]])
    >>> rows = SpilledRows(ids, ids + 100, np.zeros(4, np.int64), keys, {"v": pa.array(["a", "b", "c", "d"])})
    >>> folder = tempfile.TemporaryDirectory()
    >>> segment = Segment(SpillFile(Path(folder.name, "0.rows")), rows, 0)
    >>> segment.read(np.array([0, 2]), keys[[0, 2]]).columns["v"].to_pylist()
    ['a', 'c']
    """

    def __init__(self, file: SpillFile, rows: SpilledRows, generation: int, keyed: Sequence[int] = ()) -> None:
        """``keyed``: the ports whose keys are written with the rows."""
        self.file, self.generation, self.keyed = file, generation, tuple(keyed)
        self.row_count, self.taken = len(rows), np.empty(0, np.uint8)  # a bit for each row
        self.left = self.row_count
        self.last, self.newest = int(rows.leave.max()), int(rows.number.max())
        self.bytes = 0
        self.rows: list[Block] = []
        parts = self._blocks(rows)
        file.append(b"".join(parts))

    def _blocks(self, rows: SpilledRows) -> list[bytes]:
        raw = {n: fixed(c) for n, c in rows.columns.items()}
        self.types = {n: (c.type, raw[n] is not None) for n, c in rows.columns.items()}
        # Of tuple-based windows no row has a time at which it leaves.
        self.leave = int(rows.leave[0]) if (rows.leave == rows.leave[0]).all() else None
        head = [("number", "<i8"), ("why", "<u2")]
        head += [("leave", "<i8")] if self.leave is None else []
        head += [(f"key {p}", "<i8") for p in self.keyed]
        columns = [(f"row {n}", values.dtype.str) for n, values in raw.items() if values is not None]
        self.record = np.dtype([*head, *columns])
        records = np.empty(len(rows), self.record)
        records["number"], records["why"] = rows.number, rows.why
        if self.leave is None:
            records["leave"] = rows.leave
        for p in self.keyed:
            records[f"key {p}"] = rows.keys[:, p]
        for n, values in raw.items():
            if values is not None:
                records[f"row {n}"] = values
        others = {n: _plain(c) for n, c in rows.columns.items() if raw[n] is None}
        batch = pa.RecordBatch.from_pydict(others) if others else None
        self.schema = None if batch is None else batch.schema
        made = []
        for start in range(0, len(rows), ROWS_PER_BLOCK):
            data = records[start : start + ROWS_PER_BLOCK].tobytes()
            if batch is not None:
                data += batch.slice(start, ROWS_PER_BLOCK).serialize().to_pybytes()
            self.rows.append(Block(self.file.bytes + self.bytes, len(data), zlib.crc32(data)))
            self.bytes += len(data)
            made.append(data)
        return made

    def is_left(self, at: Int64s) -> Bools:
        """Whether the rows at some places are there."""
        if self.left == 0 or len(self.taken) == 0:
            return np.full(len(at), self.left > 0)
        left: Bools = (self.taken[at >> 3] >> (at & 7).astype(np.uint8)) & 1 == 0
        return left

    def take(self, at: Int64s) -> None:
        """Rows at these places, which are there, are here no longer."""
        if len(self.taken) == 0:
            self.taken = np.zeros(-(-self.row_count // 8), np.uint8)
        self.left -= len(at)
        np.bitwise_or.at(self.taken, at >> 3, np.uint8(1) << (at & 7).astype(np.uint8))

    def keys(self) -> dict[int, Int64s]:
        """The keys of all rows, in order, by the ports whose keys were written with them."""
        size = self.record.itemsize
        parts = []
        for n, data in enumerate(self.file.read(self.rows)):
            many = min(ROWS_PER_BLOCK, self.row_count - n * ROWS_PER_BLOCK)
            parts.append(np.frombuffer(data[: many * size], self.record))
        return {p: np.concatenate([part[f"key {p}"] for part in parts]) for p in self.keyed}

    def read(self, at: Int64s, keys: Int64s) -> SpilledRows:
        """The rows at increasing places, with their keys by port."""
        blocks = np.unique(at // ROWS_PER_BLOCK)
        picked, others = [], []
        for n, data in zip(blocks.tolist(), self.file.read(self.rows[b] for b in blocks.tolist()), strict=True):
            here = at[at // ROWS_PER_BLOCK == n] - n * ROWS_PER_BLOCK
            block_rows = min(ROWS_PER_BLOCK, self.row_count - n * ROWS_PER_BLOCK)
            picked.append(np.frombuffer(data, self.record, block_rows)[here])
            if self.schema is not None:
                batch = pa.ipc.read_record_batch(pa.py_buffer(data[block_rows * self.record.itemsize :]), self.schema)
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
        return SpilledRows(records["number"].copy(), leave, records["why"].astype(np.int64), keys, columns)

    @property
    def nbytes(self) -> int:
        """Bytes in memory: the manifest, and which rows are there."""
        return self.taken.nbytes + len(self.rows) * MANIFEST_BYTES_PER_BLOCK

    def remove(self) -> None:
        """Give the segment up: it is not read again."""
        self.left, self.taken, self.rows = 0, np.empty(0, np.uint8), []
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
