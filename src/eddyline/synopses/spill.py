"""Spilled rows: rows that are not expected to match again, kept outside of memory and found by key if they do.

Rows are gathered and written as *segments*, at most ``SEGMENT_BYTES`` that never change, one or more in a file
(``spill_segment``). For each port of an input there are *sorted runs*: the keys of the rows of one or more segments in
order, with the places of the rows (``spill_runs``). In memory are the rows that wait to be written, which rows of a
segment were taken back, checksums, and for each port a blocked Bloom filter in two generations: when the newer is full
it becomes the older, if no row is left that only the older contains; else both are built anew.

Most of what constraints make useless is never asked for, and keys mostly come in some order: what arrives is larger
than all that was spilled. So rows enter no filter and have no runs until a key is asked for that lies between the least
and the largest of their piece, which are all that is in memory of its keys (``SortedRuns.unsorted``). The ranges of all
such pieces together are a third line of ``filters``. Where that does not spare anything, because keys come in no order,
most pieces are written with runs at once (``INITIAL_INDEXED_PIECES``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Int64s
from eddyline.core.schema import Schema
from eddyline.kernels.constrained_filter import add_to_filter
from eddyline.kernels.constrained_layout import BLOCK, RANGE
from eddyline.synopses.spill_file import FILE_BYTES, SpillFile
from eddyline.synopses.spill_folder import SpillFolder
from eddyline.synopses.spill_runs import UNSORTED, SortedRuns, is_within, merge_neighbours
from eddyline.synopses.spill_segment import Segment, SpilledRows, positions

SEGMENT_BYTES = FILE_BYTES
RUNS_BYTES = FILE_BYTES // 8  # of a file of runs, or the runs of one merge: smaller frees the disk sooner after a merge
BUFFER_BYTES = 1 << 20  # of the rows of one input that wait in memory to be written, at most
# While little is spilled the buffer is smaller: one byte for so many spilled bytes, but at least so many bytes.
MIN_BUFFER_BYTES, SPILLED_PER_BUFFERED = 1 << 16, 32
BITS_PER_ROW = 12  # of a Bloom filter: about one in a hundred look-ups without a match goes to the segments
MAX_WAITING_PIECES = 8  # of rows that wait to be written; a look-up goes through all of them
INITIAL_FILTER_KEYS = 4_096  # for which a new Bloom filter has room
# Pieces that are indexed as they come after one without index was asked for, at first and at most; twice as many each
# time: fewer notice sooner that keys come in order, more read fewer pieces in vain.
INITIAL_INDEXED_PIECES, MAX_INDEXED_PIECES = 4, 256
NO_RANGE = np.array([(1 << 63) - 1, -(1 << 63)])


class Spill:
    """The spilled rows of one join. ``schemas`` are those of its inputs, ``width`` is the number of ports of each."""

    def __init__(self, schemas: Sequence[Schema], width: int, directory: str | None = None) -> None:
        self.schemas, self.width, self.directory = tuple(schemas), width, directory
        self.groups: list[list[SortedRuns]] = [[] for _ in schemas]  # segments with common runs, the oldest first
        self.waiting: list[list[SpilledRows]] = [[] for _ in schemas]
        self._folder: SpillFolder | None = None
        # By input and kind the file to which is appended: rows (−1), or runs of a level.
        self._files: dict[tuple[int, int], SpillFile] = {}
        self._made = 0
        self.generation = [0] * len(schemas)
        self.room = [0] * len(schemas)  # keys that fit into the newer filter of an input
        self.filled = [0] * len(schemas)
        # By generation and port where each filter begins and its blocks; then by port the least and the largest key of
        # the rows that no filter has.
        self.filters = np.zeros((3, len(schemas) * width, 2), np.int64)
        self.filters[RANGE] = NO_RANGE
        self.spans = [self._no_span() for _ in schemas]  # of the keys, by port, of the rows that wait
        self.noted = [False] * len(schemas)  # by input whether filters have the rows that wait
        # Pieces to be indexed at once, from now on and when one without index is asked for the next time.
        self.still_indexed, self.next_indexed = [0] * len(schemas), [INITIAL_INDEXED_PIECES] * len(schemas)
        self.bits = np.zeros(1, np.uint8)
        self.filter_of = np.arange(len(schemas) * width)  # by port the one whose filter it has; −1: there is no port
        self.total = self.taken = 0  # rows that were ever spilled and brought back

    def share_filters(self, filter_of: Int64s) -> None:
        """Before there are rows: by port the port of the same input that has the same keys, −1 where there is none."""
        assert self.total == 0
        self.filter_of = filter_of

    def _own(self, i: int) -> list[int]:
        """The ports of an input, within it, that have filters of their own."""
        return [p for p in range(self.width) if self.filter_of[i * self.width + p] == i * self.width + p]

    def add(
        self, i: int, number: Int64s, leave: Int64s, keys: Int64s, why: Int64s, columns: Mapping[str, pa.Array]
    ) -> None:
        """Rows of input i. The arrays may be parts of others, which are used again."""
        rows = SpilledRows(number, leave, why, np.ascontiguousarray(keys), dict(columns))
        if not len(rows):
            return
        self.total += len(rows)
        self.spans[i] = _wider(self.spans[i], np.array([(c.min(), c.max()) for c in rows.keys.T]))
        if self.noted[i]:
            self._note(i, rows.keys)
        else:
            self._widen(i, self.spans[i])
        self.waiting[i].append(rows)
        if len(self.waiting[i]) > MAX_WAITING_PIECES:
            self.waiting[i] = [SpilledRows.concat(self.waiting[i])]
        written = sum(g.written for g in self.groups[i])
        if sum(r.nbytes for r in self.waiting[i]) >= min(
            BUFFER_BYTES, max(MIN_BUFFER_BYTES, written // SPILLED_PER_BUFFERED)
        ):
            self._write(i)
        else:
            self.waiting[i][-1] = self.waiting[i][-1].owned()

    def _write(self, i: int) -> None:
        rows = SpilledRows.concat(self.waiting[i])
        self.waiting[i] = []
        run_of = [int(q) - i * self.width if q >= 0 else -1 for q in self.filter_of[i * self.width :][: self.width]]
        if not self.noted[i] and self.groups[i] and self.groups[i][-1].level == UNSORTED:
            self.next_indexed[i] = INITIAL_INDEXED_PIECES  # no look-up has read the piece
        parts = -(-rows.nbytes * 2 // SEGMENT_BYTES)
        for at in np.array_split(np.arange(len(rows)), parts):
            if len(at) == 0:
                continue
            part = rows.take(at) if parts > 1 else rows
            of_rows, own = self._file(i, -1, 2 * part.nbytes), [p for p, q in enumerate(run_of) if p == q]
            if self.noted[i]:
                segment = Segment(of_rows, part, self.generation[i])
                of_keys = self._file(i, 0, 2 * part.keys.nbytes)
                self.groups[i].append(SortedRuns.of(of_keys, segment, part.keys, run_of))
                merge_neighbours(self.groups[i], lambda level, more: self._file(i, level, more))
            else:
                segment = Segment(of_rows, part, self.generation[i], own)
                self.groups[i].append(SortedRuns.unsorted(segment, self.spans[i], run_of))
        self.spans[i] = self._no_span()
        self.still_indexed[i] = max(0, self.still_indexed[i] - 1)
        self.noted[i] = self.still_indexed[i] > 0

    def _file(self, i: int, kind: int, more: int) -> SpillFile:
        """Where rows or runs of an input go that have about so many bytes."""
        file = self._files.get((i, kind))
        if file is None or not file.has_room(more, FILE_BYTES if kind < 0 else RUNS_BYTES):
            if file is not None:
                file.close()
            file = self._files[i, kind] = SpillFile(self.folder() / f"{self._made}.rows")
            self._made += 1
        return file

    def folder(self) -> Path:
        """Where segments are; made when the first is written, and gone with the spill."""
        if self._folder is None:
            self._folder = SpillFolder(self.directory)
        return self._folder.path

    # ── what has no index ─────────────────────────────────────────────────────────────────────────────────────────

    def _no_span(self) -> Int64s:
        return np.tile(NO_RANGE, (self.width, 1))

    def _widen(self, i: int, span: Int64s) -> None:
        """Rows of an input with keys in these ranges, by port, are in no filter."""
        mine = slice(i * self.width, (i + 1) * self.width)
        self.filters[RANGE, mine] = _wider(self.filters[RANGE, mine], span)

    def _measure_ranges(self, i: int) -> None:
        """Find the ranges of the rows of an input that are in no filter anew."""
        self.filters[RANGE, i * self.width : (i + 1) * self.width] = NO_RANGE
        for group in self._unsorted(i):
            self._widen(i, group.ranges)
        if self.waiting[i] and not self.noted[i]:
            self._widen(i, self.spans[i])

    def _unsorted(self, i: int) -> list[SortedRuns]:
        return [g for g in self.groups[i] if g.level == UNSORTED and len(g)]

    def _indexed(self, i: int) -> tuple[list[SortedRuns], list[SpilledRows]]:
        """The segments and the rows that wait whose keys filters have."""
        waiting = self.waiting[i] if self.noted[i] else []
        return [g for g in self.groups[i] if g.level != UNSORTED and len(g)], waiting

    def index(self, asked: Int64s) -> bool:
        """Enter into filters and runs what may have one of the keys asked for, lines of port and key: then filters know
        them all. Returns whether keys were asked for at a port of which filters do not have all rows."""
        made = False
        for port in np.unique(asked[:, 0]).tolist():
            low, high = self.filters[RANGE, port].tolist()
            if low > high:
                continue
            i, p = divmod(port, self.width)
            keys = np.unique(asked[asked[:, 0] == port, 1])
            touched = [g for g in self._unsorted(i) if g.may_have(p, keys)]
            for group in touched:
                self._index(i, group)
            waits = bool(self.waiting[i]) and not self.noted[i] and is_within(keys, self.spans[i][p])
            if waits:  # all at once: as long as these rows are not known to be noted, new filters forget them
                self._note(i, np.concatenate([rows.keys for rows in self.waiting[i]]))
                self.noted[i] = True
            if touched or waits:
                self._measure_ranges(i)
            made = True
        return made

    def _index(self, i: int, group: SortedRuns) -> None:
        """A segment without runs gets them."""
        if group is self.groups[i][-1]:
            self.still_indexed[i], self.next_indexed[i] = (
                self.next_indexed[i],
                min(2 * self.next_indexed[i], MAX_INDEXED_PIECES),
            )
            if not self.waiting[i]:
                self.noted[i] = True
        keys = group.unsorted_keys()
        self._note(i, keys)
        group.sort(self._file(i, 0, 2 * keys.nbytes), keys)
        (segment,) = group.segments
        segment.generation = self.generation[i]

    # ── finding rows ──────────────────────────────────────────────────────────────────────────────────────────────

    def take(
        self, asked: Int64s, worth_it: Callable[[int, Int64s], Bools] | None = None
    ) -> Iterator[tuple[int, SpilledRows]]:
        """Give rows back that have one of the keys asked for: lines of port and key. Of these only rows whose keys
        ``worth_it`` accepts for the port; the others stay. Yields the port with the rows, by increasing number."""
        self.index(asked)
        for port in np.unique(asked[:, 0]).tolist():
            i, p = divmod(port, self.width)
            keys = np.unique(asked[asked[:, 0] == port, 1])
            found = []
            for n, rows in enumerate(self.waiting[i] if is_within(keys, self.spans[i][p]) else []):
                at = positions(np.ascontiguousarray(rows.keys[:, p]), keys)
                if worth_it is not None and len(at):
                    at = at[worth_it(port, rows.keys[at])]
                if len(at):
                    found.append(rows.take(at))
                    left = np.ones(len(rows), np.bool_)
                    left[at] = False
                    self.waiting[i][n] = rows.filter(left)
            self.waiting[i] = [r for r in self.waiting[i] if len(r)]
            for group in self._indexed(i)[0]:
                at, by_port = group.look_up(p, keys)
                if worth_it is not None and len(at):
                    here = worth_it(port, by_port)
                    at, by_port = at[here], by_port[here]
                if len(at):
                    found += group.read(at, by_port)
                    group.take(at)
            if found:
                rows = SpilledRows.concat(found).by_number()
                self.taken += len(rows)
                yield port, rows

    # ── filters ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _note(self, i: int, keys: Int64s) -> None:
        if self.filled[i] + len(keys) > self.room[i]:
            self._make_room(i, len(keys))
        for p in self._own(i):
            base, blocks = self.filters[0, i * self.width + p].tolist()
            add_to_filter(np.ascontiguousarray(keys[:, p]), self.bits, base, blocks)
        self.filled[i] += len(keys)

    def _make_room(self, i: int, more: int) -> None:
        """The newer filter of an input is full."""
        held, waiting = self._indexed(i)
        segments = [s for g in held for s in g.segments if len(s)]
        older = any(s.generation < self.generation[i] for s in segments) or bool(waiting)
        live = sum(map(len, held)) + sum(map(len, waiting))
        pieces = {(g, q): self._piece(g, q) for g in range(2) for q in np.unique(self.filter_of) if q >= 0}
        new = max(INITIAL_FILTER_KEYS, self.room[i], more, 2 * (live + more) if older else 0)
        for q in (i * self.width + p for p in self._own(i)):
            pieces[1, q] = None if older else pieces[0, q]
            pieces[0, q] = np.zeros((new * BITS_PER_ROW // (8 * BLOCK) + 1) * BLOCK, np.uint8)
        self._lay_out(pieces)
        self.room[i], self.filled[i] = new, 0
        self.generation[i] += 1
        if older:
            for s in segments:
                s.generation = self.generation[i]
            for p in self._own(i):
                keys = [g.keys(p) for g in held] + [r.keys[:, p] for r in waiting]
                base, blocks = self.filters[0, i * self.width + p].tolist()
                add_to_filter(np.ascontiguousarray(np.concatenate(keys)), self.bits, base, blocks)
            self.filled[i] = live

    def _piece(self, g: int, q: int) -> np.ndarray[Any, Any] | None:
        base, blocks = self.filters[g, q].tolist()
        return None if blocks == 0 else self.bits[base : base + blocks * BLOCK]

    def _lay_out(self, pieces: Mapping[tuple[int, int], np.ndarray[Any, Any] | None]) -> None:
        self.filters[:RANGE] = 0
        at, parts = 0, []
        for (g, q), piece in pieces.items():
            if piece is not None:
                self.filters[g, q] = at, len(piece) // BLOCK
                parts.append(piece)
                at += len(piece)
        self.bits = np.concatenate(parts) if parts else np.zeros(1, np.uint8)
        there = np.flatnonzero(self.filter_of >= 0)
        self.filters[:RANGE, there] = self.filters[:RANGE, self.filter_of[there]]

    def rows_of(self, i: int) -> list[SpilledRows]:
        """All rows of an input."""
        found = [part for g in self.groups[i] if len(g) for part in g.all()]
        return found + [r for r in self.waiting[i] if len(r)]

    def clear(self) -> None:
        """Forget all rows; another operator has taken them over."""
        self._remove_all()
        input_count = len(self.schemas)
        self.generation, self.room, self.filled = [0] * input_count, [0] * input_count, [0] * input_count
        self.filters[:RANGE], self.filters[RANGE], self.bits = 0, NO_RANGE, np.zeros(1, np.uint8)
        self.noted, self.still_indexed, self.next_indexed = (
            [False] * input_count,
            [0] * input_count,
            [INITIAL_INDEXED_PIECES] * input_count,
        )

    def _remove_all(self) -> None:
        for group in (g for mine in self.groups for g in mine):
            group.remove()
        self.groups, self.waiting = [[] for _ in self.schemas], [[] for _ in self.schemas]
        self.spans = [self._no_span() for _ in self.schemas]

    # ── what others read ──────────────────────────────────────────────────────────────────────────────────────────

    def expire(self, now: int, arrived: Int64s, limits: Int64s) -> None:
        """Forget rows that have left their windows: segments as a whole. Limits are rows, 0 for windows that are
        time-based, below for relations, whose rows stay until they are deleted."""
        for i, mine in enumerate(self.groups):
            if limits[i] < 0:
                continue
            oldest, counted = int(arrived[i] - limits[i]), bool(limits[i])

            def is_over(s: Segment, oldest: int = oldest, counted: bool = counted) -> bool:
                return s.newest < oldest if counted else s.last <= now

            self.groups[i] = [g for g in mine if g.expire(is_over)]
            if len(self.groups[i]) < len(mine):
                self._measure_ranges(i)
            if any(int(r.number.min()) < oldest if limits[i] else int(r.leave.min()) <= now for r in self.waiting[i]):
                rows = [r.filter(r.number >= oldest if limits[i] else r.leave > now) for r in self.waiting[i]]
                self.waiting[i] = [r for r in rows if len(r)]

    def rows(self) -> list[int]:
        """Rows by input."""
        return [sum(map(len, s)) + sum(map(len, w)) for s, w in zip(self.groups, self.waiting, strict=True)]

    def by_input(self) -> list[tuple[int, int]]:
        """Rows, those that wait to be written included, and bytes in files."""
        return list(zip(self.rows(), map(_in_files, self.groups), strict=True))

    @property
    def disk(self) -> int:
        """Bytes in files."""
        return sum(map(_in_files, self.groups))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        waiting = sum(r.nbytes for mine in self.waiting for r in mine)
        there = sum(g.nbytes for mine in self.groups for g in mine)
        return self.bits.nbytes + self.filters.nbytes + waiting + there

    def state(self) -> dict[str, Any]:
        out: dict[str, Any] = {"total": self.total, "taken": self.taken}
        for i in range(len(self.schemas)):
            parts = self.rows_of(i)
            out[str(i)] = {
                str(n): {
                    "number": p.number, "leave": p.leave, "why": p.why,
                    "keys": np.ascontiguousarray(p.keys.reshape(-1)), "rows": dict(p.columns),
                }
                for n, p in enumerate(parts) if len(p)
            }  # fmt: skip
        return out

    def load(self, state: dict[str, Any]) -> None:
        self._remove_all()
        for i in range(len(self.schemas)):
            for p in state.get(str(i), {}).values():
                number = np.array(p["number"])
                keys = np.array(p["keys"]).reshape(len(number), self.width)
                self.add(i, number, np.array(p["leave"]), keys, np.array(p["why"]), p["rows"])
        self.total, self.taken = int(state["total"]), int(state["taken"])


def _wider(one: Int64s, other: Int64s) -> Int64s:
    """Ranges that hold two each."""
    made: Int64s = np.column_stack([np.minimum(one[:, 0], other[:, 0]), np.maximum(one[:, 1], other[:, 1])])
    return made


def _in_files(groups: Sequence[SortedRuns]) -> int:
    """Bytes of the files that some rows of an input and their runs are in, with those of others that are gone."""
    files = {id(f): f for g in groups for f in (*g.files, *(s.file for s in g.segments if len(s)))}
    return sum(f.bytes for f in files.values())
