"""Segments: spilled rows in a file that never change. Only the blocks with needed rows are read, and verified first.

A segment is a sequence of *blocks* of rows. A block has the columns of fixed width one after another, in the bytes in
which they are in memory, and behind them the other columns (text, columns with NULLs) in Arrow's format. What is the
same for all rows of the segment is not written, nor are keys that a column has. The manifest, which is in memory
because the file lives no longer than its process, has for each block its place, length and checksum. The keys of the
rows are in sorted runs (``spill_runs``), by which rows are found; as long as there are none, they are in the blocks.
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
    """Rows of one input, in any order."""

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
        return SpilledRows(number, leave, why, keys, columns)

    def owned(self) -> SpilledRows:
        """The same rows, in arrays that are no parts of larger ones."""
        arrays = (self.number, self.leave, self.why, self.keys)
        number, leave, why, keys = (a if a.base is None else a.copy() for a in arrays)
        return SpilledRows(number, leave, why, keys, self.columns)

    def by_number(self) -> SpilledRows:
        """The same rows, by increasing number."""
        if (self.number[1:] > self.number[:-1]).all():
            return self
        return self.take(np.argsort(self.number))

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
        file.append(self._blocks(rows))

    def _blocks(self, rows: SpilledRows) -> memoryview:
        """The bytes of all blocks, which are entered into the manifest."""
        raw = {n: fixed(c) for n, c in rows.columns.items()}
        self.types = {n: (c.type, raw[n] is not None) for n, c in rows.columns.items()}
        # The fields of a row by name: columns, then what is known of it, and the keys that no column has.
        fields = {f"row {n}": values for n, values in raw.items() if values is not None}
        self.same: dict[str, int] = {}
        self.key_fields = {}
        for name, values in (("number", rows.number), ("why", rows.why.astype(np.uint16)), ("leave", rows.leave)):
            if (values == values[0]).all():
                self.same[name] = int(values[0])
            else:
                fields[name] = values
        for p in self.keyed:
            mine = rows.keys[:, p]
            known = (
                n for n, values in fields.items() if values.itemsize == 8 and (values.view(np.int64) == mine).all()
            )
            self.key_fields[p] = next(known, f"key {p}")
            if self.key_fields[p] == f"key {p}":
                fields[f"key {p}"] = np.ascontiguousarray(mine)
        self.fields = {n: values.dtype for n, values in fields.items()}
        others = {n: _plain(c) for n, c in rows.columns.items() if raw[n] is None}
        batch = pa.RecordBatch.from_pydict(others) if others else None
        self.schema = None if batch is None else batch.schema
        starts = range(0, len(rows), ROWS_PER_BLOCK)
        more = [] if batch is None else [batch.slice(start, ROWS_PER_BLOCK).serialize() for start in starts]
        made = np.empty(sum(v.nbytes for v in fields.values()) + sum(m.size for m in more), np.uint8)
        whole = made.data
        columns = [(values.view(np.uint8), ROWS_PER_BLOCK * values.itemsize) for values in fields.values()]
        for n in range(len(starts)):
            begin = self.bytes
            for column, size in columns:
                part = column[n * size : (n + 1) * size]
                made[self.bytes : self.bytes + len(part)] = part
                self.bytes += len(part)
            if more:
                made[self.bytes : self.bytes + more[n].size] = np.frombuffer(more[n], np.uint8)
                self.bytes += more[n].size
            data = whole[begin : self.bytes]
            self.rows.append(Block(self.file.bytes + begin, len(data), zlib.crc32(data)))
        return whole

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

    def _rows_in(self, n: int) -> int:
        """How many rows a block has."""
        return min(ROWS_PER_BLOCK, self.row_count - n * ROWS_PER_BLOCK)

    def _fields_of(self, n: int, data: memoryview) -> tuple[dict[str, np.ndarray[Any, Any]], int]:
        """The fields of the rows of a block, and where they end."""
        made, at, many = {}, 0, self._rows_in(n)
        for name, kind in self.fields.items():
            made[name] = np.frombuffer(data, kind, many, at)
            at += many * kind.itemsize
        return made, at

    def keys(self) -> dict[int, Int64s]:
        """The keys of all rows, in order, by the ports whose keys were written with them."""
        parts = [self._fields_of(n, data)[0] for n, data in enumerate(self.file.read(self.rows))]
        return {p: np.concatenate([part[n] for part in parts]).view(np.int64) for p, n in self.key_fields.items()}

    def read(self, at: Int64s, keys: Int64s) -> SpilledRows:
        """The rows at increasing places, with their keys by port."""
        blocks = np.unique(at // ROWS_PER_BLOCK)
        picked: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in self.fields}
        others = []
        for n, data in zip(blocks.tolist(), self.file.read(self.rows[b] for b in blocks.tolist()), strict=True):
            here = at[at // ROWS_PER_BLOCK == n] - n * ROWS_PER_BLOCK
            fields, end = self._fields_of(n, data)
            for name, values in fields.items():
                picked[name].append(values[here])
            if self.schema is not None:
                batch = pa.ipc.read_record_batch(pa.py_buffer(data[end:]), self.schema)
                others.append(batch.take(pa.array(here)))
        rest = None
        if self.schema is not None:
            rest = pa.concat_batches(others) if others else pa.RecordBatch.from_pylist([], self.schema)

        def values_of(name: str) -> np.ndarray[Any, Any]:
            if name in self.same:
                return np.full(len(at), self.same[name], np.int64)
            return np.concatenate([*picked[name], np.empty(0, self.fields[name])])

        columns: dict[str, pa.Array] = {}
        for n, (kind, is_fixed) in self.types.items():
            if is_fixed:
                columns[n] = pa.Array.from_buffers(kind, len(at), [None, pa.py_buffer(values_of(f"row {n}"))])
            else:
                assert rest is not None
                columns[n] = rest.column(n)
        number, leave, why = (values_of(name).astype(np.int64) for name in ("number", "leave", "why"))
        return SpilledRows(number, leave, why, keys, columns)

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
