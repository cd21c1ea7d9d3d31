"""Segments: files of spilled rows that never change, of which only what was asked for is read, and verified first.

A file is a sequence of *blocks*. For each port of the rows' input there is a *sorted run*: its keys in order with the
places of their rows, cut into blocks; then the rows themselves in blocks. The manifest, which is in memory because the
file lives no longer than its process, has for each block its place, length and digest, and for each block of a run its
first key. A look-up reads the blocks of the run that its keys can be in, and then the blocks of the rows that it finds.
Nothing that was read is used before its digest is right: a byte that changed on the disk ends the query in a sentence.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Int64s, combine
from eddyline.core.errors import EddylineError

KEYS_PER_BLOCK = 2_048  # of a run: fewer read less for a key, and take more memory for the manifest
ROWS_PER_BLOCK = 1_024  # fewer read less for a row, and take longer to write
DIGEST_BYTES = 16


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
    """Bytes of a file, with the digest of what was written."""

    start: int
    length: int
    digest: bytes


class Segment:
    """A file of rows. ``taken`` says which rows were taken back; nothing is kept until one is.

    >>> import tempfile
    >>> ids, keys = np.arange(4), np.array([[7], [8], [7], [9]])
    >>> rows = SpilledRows(ids, ids + 100, np.zeros(4, np.int64), keys, {"v": pa.array(["a", "b", "c", "d"])})
    >>> folder = tempfile.TemporaryDirectory()
    >>> segment = Segment(Path(folder.name, "0.rows"), rows, 1, 0)
    >>> at = segment.find(0, np.array([7, 10]))
    >>> at.tolist(), segment.read(at).columns["v"].to_pylist()
    ([0, 2], ['a', 'c'])
    """

    def __init__(self, path: Path, rows: SpilledRows, ports: int, generation: int) -> None:
        self.path, self.generation, self.names, self.ports = path, generation, tuple(rows.columns), ports
        self.many, self.taken = len(rows), np.empty(0, np.uint8)  # a bit for each row
        self.last, self.newest = int(rows.leave.max()), int(rows.number.max())
        self.bytes = 0
        self.runs: list[list[Block]] = []
        self.first: list[Int64s] = []  # keys of the blocks of each run
        self.largest: list[int] = []  # and its last key
        self.rows: list[Block] = []
        self.schema = pa.schema([])
        try:
            with open(path, "wb", opener=_private) as out:
                for p in range(ports):
                    self._write_run(out, np.ascontiguousarray(rows.keys[:, p]))
                self._write_rows(out, rows)
        except OSError as error:
            raise EddylineError(f"rows cannot be spilled to {path.parent}: {error.strerror or error}.") from error

    def _write(self, out: IO[bytes], data: Any) -> Block:
        block = Block(self.bytes, len(data), _digest(data))
        out.write(data)
        self.bytes += block.length
        return block

    def _write_run(self, out: IO[bytes], keys: Int64s) -> None:
        order = np.argsort(keys, kind="stable")
        blocks, first = [], []
        for start in range(0, len(keys), KEYS_PER_BLOCK):
            places = order[start : start + KEYS_PER_BLOCK]
            run = np.concatenate([keys[places], places])
            blocks.append(self._write(out, run.tobytes()))
            first.append(run[0])
        self.runs.append(blocks)
        self.first.append(np.array(first, np.int64))
        self.largest.append(int(keys[order[-1]]))

    def _write_rows(self, out: IO[bytes], rows: SpilledRows) -> None:
        whole: dict[str, pa.Array] = {f"row {n}": _plain(c) for n, c in rows.columns.items()}
        whole |= {n: pa.array(getattr(rows, n)) for n in ("number", "leave", "why")}
        whole |= {f"key {p}": pa.array(rows.keys[:, p]) for p in range(self.ports)}
        batch = pa.RecordBatch.from_pydict(whole)
        self.schema = batch.schema
        for start in range(0, len(rows), ROWS_PER_BLOCK):
            part = batch.slice(start, ROWS_PER_BLOCK)
            self.rows.append(self._write(out, memoryview(part.serialize())))

    def _read(self, blocks: Sequence[Block]) -> list[bytes]:
        """The bytes of blocks, as they were written."""
        found = []
        try:
            with self.path.open("rb", buffering=0) as file:
                for b in blocks:
                    file.seek(b.start)
                    data = file.read(b.length)
                    if len(data) != b.length or _digest(data) != b.digest:
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

    def _run(self, port: int, blocks: Sequence[int]) -> list[Int64s]:
        """Blocks of a run: keys in the first line, places of their rows in the second."""
        parts = self._read([self.runs[port][b] for b in blocks])
        return [np.frombuffer(data, np.int64).reshape(2, -1) for data in parts]

    def find(self, port: int, keys: Int64s) -> Int64s:
        """The places of rows with one of these keys."""
        first = self.first[port]
        keys = keys[(keys >= first[0]) & (keys <= self.largest[port])]  # most segments have other keys
        low, high = np.searchsorted(first, keys, "left") - 1, np.searchsorted(first, keys, "right") - 1
        low = np.maximum(low, 0)
        # A key lies in one block, or in all from the last that begins before it to the last that begins with it.
        longer = np.flatnonzero(high > low)
        several = [np.arange(x, y + 1) for x, y in zip(low[longer].tolist(), high[longer].tolist(), strict=True)]
        wanted = np.unique(np.concatenate([low, *several])).tolist()
        found = []
        for run, place in self._run(port, wanted):
            found.append(place[np.isin(run, keys)])
        at: Int64s = np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)
        return self._left(at)

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
        np.bitwise_or.at(self.taken, at >> 3, np.uint8(1) << (at & 7).astype(np.uint8))

    def places(self) -> Int64s:
        """Of all rows that are there."""
        return self._left(np.arange(self.many))

    def _batches(self, blocks: Sequence[int]) -> list[pa.RecordBatch]:
        parts = self._read([self.rows[b] for b in blocks])
        return [pa.ipc.read_record_batch(pa.py_buffer(data), self.schema) for data in parts]

    def read(self, at: Int64s) -> SpilledRows:
        """The rows at increasing places."""
        blocks = np.unique(at // ROWS_PER_BLOCK)
        batches = self._batches(blocks.tolist())
        picked = [
            b.take(pa.array(at[at // ROWS_PER_BLOCK == n] - n * ROWS_PER_BLOCK))
            for n, b in zip(blocks.tolist(), batches, strict=True)
        ]
        whole = pa.concat_batches(picked) if picked else pa.RecordBatch.from_pylist([], self.schema)
        number, leave, why = (whole.column(n).to_numpy() for n in ("number", "leave", "why"))
        keys = np.column_stack([whole.column(f"key {p}").to_numpy() for p in range(self.ports)])
        return SpilledRows(number, leave, why, keys, {n: whole.column(f"row {n}") for n in self.names})

    def keys_of(self, at: Int64s) -> Int64s:
        return self.read(at).keys

    def keys(self, port: int) -> Int64s:
        """The keys of the rows that are there, in any order."""
        parts = self._run(port, range(len(self.runs[port])))
        keys, places = (np.concatenate(x) for x in zip(*parts, strict=True))
        if len(self.taken):
            keys = keys[(self.taken[places >> 3] >> (places & 7).astype(np.uint8)) & 1 == 0]
        return keys

    @property
    def nbytes(self) -> int:
        """Bytes in memory: the manifest, and which rows are there."""
        blocks = sum(map(len, self.runs)) + len(self.rows)
        return self.taken.nbytes + blocks * (16 + DIGEST_BYTES) + sum(f.nbytes + 8 for f in self.first)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()

    def __len__(self) -> int:
        return self.many - int(np.bitwise_count(self.taken).sum())


def _digest(data: Any) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _plain(column: pa.Array) -> pa.Array:
    """Blocks are read one by one, and a dictionary would be in each."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
