"""Sorted runs: the keys of spilled rows in order, by which the rows of some neighbouring segments are found.

For each port of the rows' input there is a run: its keys in order with the keys of the other ports and the places of
their rows, cut into blocks. So a look-up compares all keys of its matches before it reads a row: most matches are not
needed. The manifest has for each block its first key and its checksum. A look-up reads the blocks that its keys can be
in, and uses a block only if its checksum is right.

A new segment has runs of its own. With each segment a look-up takes longer, for where keys come in no order they are
in the ranges of all segments. So the runs of ``RUNS_PER_MERGE`` of one size are merged as soon as look-ups in them have
taken as long as reading all of their blocks, and merged runs again up to ``FILE_BYTES``. To merge takes about as
long as that. Where nothing is looked up nothing is merged. Rows stay where they are.

A segment may also be written without runs (``unsorted``): its keys lie with its rows, and in memory are the least and
the largest of each port. Runs are made when a key within these is looked up.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from eddyline.core.delta import Bools, Int64s
from eddyline.kernels.key_order import in_order
from eddyline.synopses.spill_file import FILE_BYTES, Block, SpillFile
from eddyline.synopses.spill_segment import Segment, SpilledRows

KEYS_PER_BLOCK = 128  # fewer read less for a key, and take more memory for the manifest
RUNS_PER_MERGE = 5  # fewer leave fewer runs to search, and write each key more often
BLOCKS_PER_LOOK_UP = 16  # the fixed cost of a look-up, as the number of blocks that are read in that time
BLOCKS_PER_PIECE = 512  # blocks that are merged at a time: more take more memory
UNSORTED = -1  # the level of a segment without runs
Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Run:
    """Keys of a port in a file: where they begin, and of each block the first key and the checksum."""

    start: int
    key_count: int = 0
    largest: int = -(1 << 63)
    first: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    checksums: Array = field(default_factory=lambda: np.empty(0, np.uint32))


class SortedRuns:
    """The rows of ``segments``, whose places follow one another. ``run_of`` has by port the port of the same input
    whose run it uses, −1 where there is no such port.

    >>> import tempfile, pyarrow as pa
    >>> from pathlib import Path
    >>> ids, keys = np.arange(4), np.array([[7], [8], [7], [9]])
    >>> rows = SpilledRows(ids, ids + 100, np.zeros(4, np.int64), keys, {"v": pa.array(["a", "b", "c", "d"])})
    >>> folder = tempfile.TemporaryDirectory()
    >>> of_rows, of_keys = (SpillFile(Path(folder.name, name)) for name in ("0.rows", "1.rows"))
    >>> two = [SortedRuns.of(of_keys, Segment(of_rows, rows, 0), keys, [0]) for _ in range(2)]
    >>> runs = SortedRuns.merged(SpillFile(Path(folder.name, "2.rows")), two)
    >>> places, by_port = runs.look_up(0, np.array([7, 10]))
    >>> places.tolist(), [part.columns["v"].to_pylist() for part in runs.read(places, by_port)]
    ([0, 2, 4, 6], [['a', 'c'], ['a', 'c']])
    """

    def __init__(self, file: SpillFile | None, segments: Sequence[Segment], run_of: Sequence[int], level: int) -> None:
        self.segments, self.run_of, self.level = tuple(segments), tuple(run_of), level
        self.starts = np.cumsum([0, *(s.row_count for s in segments)])  # of the places of each segment
        self.own = [p for p, same in enumerate(run_of) if same == p]
        self.bytes = self.searched = 0  # blocks that could have been read in the time of the look-ups
        self.blocks = 0  # of all runs
        self.bytes_of_rows = sum(s.bytes for s in segments)
        self.runs: dict[int, Run] = {}
        self.ranges = np.empty((0, 2), np.int64)  # by port the least and the largest key of an unsorted segment
        self._file = file
        if file is not None:
            file.append(b"")

    @property
    def file(self) -> SpillFile:
        """Where the runs are."""
        assert self._file is not None
        return self._file

    @property
    def files(self) -> tuple[SpillFile, ...]:
        """That file, where there are runs."""
        return () if self._file is None else (self._file,)

    @staticmethod
    def unsorted(segment: Segment, ranges: Int64s, run_of: Sequence[int]) -> SortedRuns:
        """A new segment without runs, which has its keys; all of a port are in its range. ``sort`` makes them.

        >>> import tempfile, pyarrow as pa
        >>> from pathlib import Path
        >>> keys = np.array([[7], [5]])
        >>> zeros = np.zeros(2, np.int64)
        >>> rows = SpilledRows(np.arange(2), zeros, zeros, keys, {"v": pa.array([1, 2])})
        >>> folder = tempfile.TemporaryDirectory()
        >>> of_rows, of_keys = (SpillFile(Path(folder.name, name)) for name in ("0.rows", "1.rows"))
        >>> runs = SortedRuns.unsorted(Segment(of_rows, rows, 0, keyed=[0]), np.array([(5, 7)]), [0])
        >>> runs.may_have(0, np.array([3, 6])), runs.may_have(0, np.array([3, 8]))
        (True, False)
        >>> runs.sort(of_keys, runs.unsorted_keys())
        >>> runs.look_up(0, np.array([3, 5]))[0]
        array([1])
        """
        made = SortedRuns(None, [segment], run_of, UNSORTED)
        made.ranges = ranges
        return made

    def may_have(self, port: int, keys: Int64s) -> bool:
        """Whether some of these increasing keys lies among those of an unsorted segment at a port."""
        return is_within(keys, self.ranges[port])

    def unsorted_keys(self) -> Int64s:
        """The keys by port of all rows of an unsorted segment."""
        (segment,) = self.segments
        found = segment.keys()
        made = np.zeros((segment.row_count, len(self.run_of)), np.int64)
        for p, same in enumerate(self.run_of):
            if same >= 0:
                made[:, p] = found[same]
        return made

    def sort(self, file: SpillFile, keys: Int64s) -> None:
        """Make the runs of an unsorted segment, whose rows have these keys by port."""
        self._file, self.level, self.ranges = file, 0, self.ranges[:0]
        file.append(b"")
        self._sort(keys)

    def _sort(self, keys: Int64s) -> None:
        for port in self.own:
            order = in_order(keys[:, port])
            records = np.empty(len(keys), self._record(port))
            records["place"] = order
            for p in self.own:
                records[f"{p}"] = keys[order, p]
            self._write(port, iter([records]))

    @staticmethod
    def of(file: SpillFile, segment: Segment, keys: Int64s, run_of: Sequence[int]) -> SortedRuns:
        """The runs of a new segment, whose rows have these keys by port."""
        made = SortedRuns(file, [segment], run_of, 0)
        made._sort(keys)
        return made

    @staticmethod
    def merged(file: SpillFile, parts: Sequence[SortedRuns]) -> SortedRuns:
        """The runs of neighbours as one, without rows that are not there any more."""
        segments = [s for part in parts for s in part.segments]
        made = SortedRuns(file, segments, parts[0].run_of, 1 + max(p.level for p in parts))
        for port in made.own:
            made._write(port, _merge(port, parts))
        return made

    def _record(self, port: int) -> np.dtype[Any]:
        """What a run has of each row: first the key at its port."""
        others = [(f"{p}", "<i8") for p in self.own if p != port]
        return np.dtype([(f"{port}", "<i8"), ("place", "<i4"), *others])

    def _write(self, port: int, pieces: Iterator[Array]) -> None:
        """Write a run, piece by piece: of each but the last as many blocks as are full."""
        run = self.runs[port] = Run(self.file.bytes)
        size, first, checksums = self._record(port).itemsize, [run.first], list[int]()
        rest = np.empty(0, self._record(port))
        piece = next(pieces, rest)
        while len(piece):
            following = next(pieces, rest[:0])
            piece = np.concatenate([rest, piece]) if len(rest) else piece
            key_count = len(piece) if len(following) == 0 else len(piece) // KEYS_PER_BLOCK * KEYS_PER_BLOCK
            data, block = memoryview(piece[:key_count].tobytes()), KEYS_PER_BLOCK * size
            checksums += [zlib.crc32(data[at : at + block]) for at in range(0, len(data), block)]
            first.append(piece[f"{port}"][:key_count:KEYS_PER_BLOCK])
            self.file.extend(data)
            run.key_count, run.largest = run.key_count + key_count, int(piece[f"{port}"][-1])
            rest, piece = piece[key_count:], following
        run.first, run.checksums = np.concatenate(first), np.array(checksums, np.uint32)
        self.bytes += run.key_count * size
        self.blocks += len(run.first)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _records(self, port: int, blocks: Sequence[int]) -> Array:
        """What some blocks of a run have, one after another."""
        run, record = self.runs[port], self._record(port)
        size, last, part = KEYS_PER_BLOCK * record.itemsize, len(run.first) - 1, run.key_count * record.itemsize
        data = self.file.read(
            Block(run.start + b * size, part - b * size if b == last else size, int(run.checksums[b])) for b in blocks
        )
        return np.frombuffer(b"".join(data), record)

    def within(self, port: int, low: int | None, high: int | None) -> Array:
        """What a run has of keys from ``low`` on and below ``high``."""
        first = self.runs[port].first
        start = 0 if low is None else max(0, int(np.searchsorted(first, low)) - 1)
        stop = len(first) if high is None else int(np.searchsorted(first, high))
        records = self._records(port, range(start, stop))
        keys = records[f"{port}"]
        a = 0 if low is None else int(np.searchsorted(keys, low))
        return records[a : len(keys) if high is None else int(np.searchsorted(keys, high))]

    def look_up(self, port: int, keys: Int64s) -> tuple[Int64s, Int64s]:
        """The places of rows with one of some increasing keys, in order, and all keys of each."""
        port = self.run_of[port]
        run = self.runs[port]
        if len(run.first):
            keys = keys[np.searchsorted(keys, run.first[0]) : np.searchsorted(keys, run.largest, "right")]
        if len(run.first) == 0 or len(keys) == 0:
            return np.empty(0, np.int64), np.empty((0, len(self.run_of)), np.int64)
        low, high = np.searchsorted(run.first, keys, "left") - 1, np.searchsorted(run.first, keys, "right") - 1
        low = np.maximum(low, 0)
        # A key lies in one block, or in all from the last that begins before it to the last that begins with it.
        longer = np.flatnonzero(high > low)
        several = [np.arange(x, y + 1) for x, y in zip(low[longer].tolist(), high[longer].tolist(), strict=True)]
        blocks = np.unique(np.concatenate([low, *several])).tolist()
        self.searched += len(blocks) + BLOCKS_PER_LOOK_UP
        records = self._records(port, blocks)
        column = np.ascontiguousarray(records[f"{port}"])
        begin, end = np.searchsorted(column, keys, "left"), np.searchsorted(column, keys, "right")
        counts = end - begin
        found = records[np.repeat(begin - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))]
        found = found[np.argsort(found["place"])]
        places = found["place"].astype(np.int64)
        left = self._is_left(places)
        if not left.all():
            found, places = found[left], places[left]
        return places, self._by_port(found)

    def _by_port(self, records: Array) -> Int64s:
        """Keys by port, from those that a run has."""
        made = np.zeros((len(records), len(self.run_of)), np.int64)
        for p, same in enumerate(self.run_of):
            if same >= 0:
                made[:, p] = records[f"{same}"]
        return made

    def _is_left(self, places: Int64s) -> Bools:
        """Whether the rows at some increasing places are there."""
        return np.concatenate([s.is_left(at) for s, at, _ in self._split(places)] or [np.ones(0, np.bool_)])

    def _split(self, places: Int64s) -> Iterator[tuple[Segment, Int64s, slice]]:
        """The segments that some increasing places are in, with the places within each."""
        cuts = np.searchsorted(places, self.starts).tolist()
        for n, segment in enumerate(self.segments):
            if cuts[n] < cuts[n + 1]:
                here = slice(cuts[n], cuts[n + 1])
                yield segment, places[here] - self.starts[n], here

    def read(self, places: Int64s, by_port: Int64s) -> list[SpilledRows]:
        """The rows at some places, which a look-up found with their keys by port; those of each segment apart."""
        return [segment.read(at, by_port[here]) for segment, at, here in self._split(places)]

    def take(self, places: Int64s) -> None:
        """Rows at these places, which are there, are here no longer."""
        for segment, at, _ in self._split(places):
            segment.take(at)

    def keys(self, port: int) -> Int64s:
        """The keys of the rows that are there, in any order."""
        port = self.run_of[port]
        records = self.within(port, None, None)
        return np.ascontiguousarray(records[f"{port}"][self.left()[records["place"]]])

    def left(self) -> Bools:
        """By place whether the row is there."""
        return np.concatenate([s.is_left(np.arange(s.row_count)) for s in self.segments])

    def all(self) -> list[SpilledRows]:
        """All rows that are there, those of each segment apart."""
        if self.level == UNSORTED:
            return self.read(np.arange(self.segments[0].row_count), self.unsorted_keys())
        records = self.within(self.own[0], None, None)
        records = records[self.left()[records["place"]]]
        records = records[np.argsort(records["place"])]
        return self.read(records["place"].astype(np.int64), self._by_port(records))

    # ── what there is ─────────────────────────────────────────────────────────────────────────────────────────────

    def expire(self, is_over: Callable[[Segment], bool]) -> bool:
        """Remove segments whose rows are not needed any more; whether others are left."""
        for segment in self.segments:
            if segment.rows and (len(segment) == 0 or is_over(segment)):
                segment.remove()
        if any(map(len, self.segments)):
            return True
        for file in self.files:
            file.release()
        return False

    def remove(self) -> None:
        """Remove all segments: none of their rows is read again."""
        self.expire(lambda _: True)

    @property
    def written(self) -> int:
        """Bytes of the runs, and of all rows that segments had."""
        return self.bytes + self.bytes_of_rows

    @property
    def nbytes(self) -> int:
        """Bytes in memory: manifests, and which rows are there."""
        runs = sum(r.first.nbytes + r.checksums.nbytes for r in self.runs.values())
        return runs + self.ranges.nbytes + sum(s.nbytes for s in self.segments)

    def __len__(self) -> int:
        return sum(map(len, self.segments))


def is_within(keys: Int64s, span: Int64s) -> bool:
    """Whether one of some increasing keys lies in a range.

    >>> is_within(np.array([3, 9]), np.array((4, 8))), is_within(np.array([3, 8]), np.array((4, 8)))
    (False, True)
    """
    return bool(np.searchsorted(keys, span[0], "left") < np.searchsorted(keys, span[1], "right"))


def _merge(port: int, parts: Sequence[SortedRuns]) -> Iterator[Array]:
    """What some runs have of a port, in pieces by increasing keys; places follow one another."""
    firsts = np.sort(np.concatenate([part.runs[part.run_of[port]].first for part in parts]))
    cuts = [None, *np.unique(firsts[BLOCKS_PER_PIECE::BLOCKS_PER_PIECE]).tolist(), None]
    starts, left = np.cumsum([0, *(part.starts[-1] for part in parts)]), [part.left() for part in parts]
    for low, high in pairwise(cuts):
        pieces = []
        for part, there, start in zip(parts, left, starts.tolist(), strict=False):
            piece = part.within(port, low, high)
            piece = piece[there[piece["place"]]]
            piece["place"] += start
            pieces.append(piece)
        piece = np.concatenate(pieces)
        if len(piece):
            yield piece[in_order(piece[f"{port}"])]


def merge_neighbours(groups: list[SortedRuns], file: Callable[[int, int], SpillFile]) -> None:
    """Merge runs of neighbours that were searched enough. ``file`` has room for so many bytes of runs of a level."""
    start = 0
    while start + RUNS_PER_MERGE <= len(groups):
        mine = groups[start : start + RUNS_PER_MERGE]
        level = mine[0].level
        sorted_ = mine[-1].level == level != UNSORTED
        enough = sorted_ and sum([g.searched for g in mine]) >= sum([g.blocks for g in mine])
        if enough and all(g.level == level for g in mine) and (size := sum(g.bytes for g in mine)) <= FILE_BYTES:
            groups[start : start + RUNS_PER_MERGE] = [SortedRuns.merged(file(level + 1, size), mine)]
            for group in mine:
                group.file.release()
        else:
            start += 1
