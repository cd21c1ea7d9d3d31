"""A state module (SteM): the rows of one join input, in time partitions, each with an index of its own.

*The result of a search* depends on the rows alone: those in the asked ranges that entered no later and leave no earlier
than the search says. The indexes decide only which rows are compared on the way. So an index can be changed, for rows
to come or for rows that are stored, between any two searches.

Rows come in order of entering and leave in the same order. A partition is a fixed number of consecutive rows;
consecutive partitions with the same indexes share them (an ``IndexGroup``). What has left is dropped by whole
partitions.

Joins read and write a module through views (``synopses.module_view``), several joins the same module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.core.delta import Bools, Int64s
from eddyline.core.time import NEVER
from eddyline.kernels import bit_address as k
from eddyline.synopses.index_group import Found, IndexGroup, Search, StoredRows, Weights
from eddyline.synopses.index_maps import BitAddress, Hashed, IndexSpec

__all__ = ["Partition", "Search", "StateModule", "Weights"]

MIN_ROOM = 1024  # rows for which there is room, at least


@dataclass(slots=True)
class Partition:
    """Rows ``start`` … ``end`` − 1 of a state module, by row number."""

    start: int
    end: int
    group: IndexGroup


class StateModule:
    """``attributes`` are the join attributes of the input, ``ranged`` those that are searched by ranges. ``spec`` is
    what new partitions are indexed with. With ``keeps_leaves`` it holds the time at which each row leaves; else its
    views derive that from the times of entering, for which there are ``tail`` places behind the last row.

    >>> module = StateModule(2, partition_rows=3, spec=(BitAddress((2, 1)),))
    >>> module.insert(np.array([[7, 1], [8, 2], [7, 3], [7, 4]]), np.arange(4), np.arange(4) + 10)
    >>> at = np.array([3])
    >>> asked = Search(np.array([0]), np.array([[7]]), np.array([[7]]), at, at, frozenset({0}))
    >>> sorted(module.search(asked)[1].tolist())
    [0, 2, 3]
    >>> [p.end - p.start for p in module.partitions]
    [3, 1]
    """

    def __init__(
        self,
        attributes: int,
        partition_rows: int,
        spec: IndexSpec,
        ranged: frozenset[int] = frozenset(),
        *,
        keeps_leaves: bool = True,
        tail: int = 0,
    ) -> None:
        self.attributes, self.partition_rows, self.spec = attributes, partition_rows, spec
        self.keeps_leaves, self.tail = keeps_leaves, tail
        self.ranged = np.array([int(a in ranged) for a in range(attributes)], np.int64)
        self.origin = 0  # the row number of place 0 of the arrays
        self.first = self.end = 0  # the rows that are alive, by number; those before ``first`` have left
        self.partitions: list[Partition] = []
        self._allocate(MIN_ROOM)
        self.counts = np.zeros(4, np.int64)  # hashes, visits, comparisons, matches since the start
        self.searched = np.zeros(4, np.int64)  # the same of the last search
        self.scanned = 0  # of the comparisons those without an index
        self.insert_hashes = 0
        self.weights = Weights()

    def __len__(self) -> int:
        return self.end - self.first

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _allocate(self, room: int) -> None:
        """Places for ``room`` rows. What lies behind the last row has not entered: its time is ``NEVER``."""
        self.codes = np.empty((room, self.attributes), np.int64)
        self.time = np.full(room + self.tail, NEVER, np.int64)  # of entering, for all rows
        self.enter = self.time  # for rows that can match; an array of its own from the first row on that cannot
        self.leave = np.empty(room if self.keeps_leaves else 0, np.int64)

    def insert(self, codes: Int64s, time: Int64s, leave: Int64s | None = None, valid: Bools | None = None) -> None:
        """Rows in order of entering. Those that are not ``valid`` (a NULL among their keys) match nothing; a row whose
        time is ``NEVER`` does not either."""
        n = len(time)
        self._make_room(n)
        at = self.end - self.origin
        self.codes[at : at + n], self.time[at : at + n] = codes, time
        if leave is not None:
            self.leave[at : at + n] = leave
        if valid is not None and not valid.all() and self.enter is self.time:
            self.enter = self.time.copy()
        if self.enter is not self.time:
            self.enter[at : at + n] = time if valid is None else np.where(valid, time, NEVER)
        stop = self.end + n
        while self.end < stop:
            room = self.partition_rows - self.end % self.partition_rows
            if room == self.partition_rows or not self.partitions:
                self._open_partition(min(stop, self.end + room))
            last = self.partitions[-1]
            begin, self.end = self.end, min(stop, self.end + room)
            last.end = self.end
            last.group.insert(self.end, self._stored())
            self.insert_hashes += (self.end - begin) * sum(_hashed(m) for m in last.group.spec)

    def _open_partition(self, stop: int) -> None:
        group = self.partitions[-1].group if self.partitions else None
        if group is None or group.spec != self.spec:
            begin = max(self.first, self.end - self.partition_rows) - self.origin
            sample = self.codes[begin : stop - self.origin]
            group = IndexGroup(self.spec, self.end, self.ranged, sample)
        self.partitions.append(Partition(self.end, self.end, group))

    def expire(self, now: int) -> None:
        """Rows that leave at ``now`` or before are no longer searched; partitions without others are dropped."""
        at, end = self.first - self.origin, self.end - self.origin
        self.drop(self.first + int(np.searchsorted(self.leave[at:end], now, side="right")))

    def drop(self, first: int) -> None:
        """Rows before number ``first`` are no longer searched; partitions without others are dropped."""
        self.first = max(self.first, first)
        while self.partitions and self.partitions[0].end <= self.first and len(self.partitions) > 1:
            self.partitions.pop(0)

    def open(self, first: int, tail: int) -> None:
        """Rows from number ``first`` on are searched (again), all of them can match, and there are ``tail`` places
        behind the last row."""
        rebuilt = self.enter is not self.time or first < self.first
        if tail > self.tail:
            self.time = np.concatenate([self.time, np.full(tail - self.tail, NEVER, np.int64)])
            self.tail = tail
        self.enter, self.first = self.time, min(self.first, max(first, self.start))
        if rebuilt:  # indexes lack rows that could not match, and those that had left
            self._rebuild([p.group.spec for p in self.partitions], [True] * len(self.partitions))

    def codes_of(self, rows: Int64s, attribute: int) -> Int64s:
        found: Int64s = self.codes[rows - self.origin, attribute]
        return found

    def recent(self, most: int) -> Int64s:
        """The codes of the newest rows, a line for each."""
        found: Int64s = self.codes[max(self.first, self.end - most) - self.origin : self.end - self.origin]
        return found

    # ── searches and indexes ──────────────────────────────────────────────────────────────────────────────────────

    def search(
        self, s: Search, leave: Int64s | None = None, first: int | None = None, room: int = 0
    ) -> tuple[Int64s, Int64s]:
        """For every match the number of its request and of its row. ``leave`` says when rows leave, by place, where the
        module does not; rows before number ``first`` are left out. ``room`` is for how many matches there is room at
        first, where more than two for a request are expected."""
        out = Found(max(256, 2 * len(s), room))
        stored = StoredRows(
            self.origin, self.first if first is None else first, self.codes, self.enter,
            self.leave if leave is None else leave,
        )  # fmt: skip
        for group in self.groups():
            group.search(s, stored, out, self.weights)
        found = int(out.counts[k.FOUND])
        self.searched = out.counts
        self.counts += out.counts
        self.scanned += out.scanned
        rows = out.rows[:found]
        if self.origin:
            rows += self.origin
        return out.requests[:found], rows

    def groups(self) -> list[IndexGroup]:
        """The different indexes, those of the oldest rows first."""
        found: list[IndexGroup] = []
        for p in self.partitions:  # consecutive ones share theirs
            if not found or p.group is not found[-1]:
                found.append(p.group)
        return found

    def _stored(self) -> StoredRows:
        return StoredRows(self.origin, self.first, self.codes, self.enter, self.leave)

    def migrate(self, places: Sequence[int], spec: IndexSpec) -> int:
        """Index some of the stored partitions with ``spec``; returns the number of rows that were moved."""
        moving = [i in set(places) for i in range(len(self.partitions))]
        specs = [spec if m else p.group.spec for m, p in zip(moving, self.partitions, strict=True)]
        return self._rebuild(specs, moving)

    def _rebuild(self, specs: Sequence[IndexSpec], moving: Sequence[bool]) -> int:
        """Give each partition the indexes of ``specs``. A group is kept if its partitions are neither ``moving`` nor
        joined by others; all other groups are built anew. Returns the number of rows that they have."""
        moved = 0
        before = [p.group for p in self.partitions]
        runs: list[list[int]] = []
        for i in range(len(self.partitions)):
            if runs and specs[i] == specs[runs[-1][-1]]:
                runs[-1].append(i)
            else:
                runs.append([i])
        for run in runs:
            same = [i for i, g in enumerate(before) if g is before[run[0]]]
            if same == run and not any(moving[i] for i in run):
                continue
            begin, end = max(self.first, self.partitions[run[0]].start), self.partitions[run[-1]].end
            sample = self.codes[begin - self.origin : end - self.origin]
            group = IndexGroup(specs[run[0]], min(begin, end), self.ranged, sample)
            group.insert(end, self._stored())
            moved += group.end - group.start
            self.insert_hashes += (group.end - group.start) * sum(map(_hashed, group.spec))
            for i in run:
                self.partitions[i].group = group
        return moved

    def _make_room(self, n: int) -> None:
        """Places for ``n`` more rows: those of dropped partitions are used again."""
        start = self.start
        used = self.end - self.origin
        if used + n <= len(self.codes):
            return
        live = self.end - start
        room = max(MIN_ROOM, 2 * (live + n))
        old = slice(start - self.origin, used)
        rows = self.codes[old], self.time[old], self.enter[old], self.leave[old if self.keeps_leaves else slice(0)]
        one_array = self.enter is self.time
        self._allocate(room)
        self._put(*rows, one_array=one_array)
        self.origin = start

    def _put(self, codes: Int64s, time: Int64s, enter: Int64s, leave: Int64s, *, one_array: bool) -> None:
        """Rows at the first places of arrays that were just allocated."""
        n = len(time)
        self.codes[:n], self.time[:n] = codes, time
        self.leave[: len(leave)] = leave
        if not one_array:
            self.enter = self.time.copy()
            self.enter[:n] = enter

    # ── size and state ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def index_bytes(self) -> int:
        return sum(group.nbytes for group in self.groups())

    @property
    def nbytes(self) -> int:
        times = self.time.nbytes if self.enter is self.time else self.time.nbytes + self.enter.nbytes
        return self.index_bytes + int(self.codes.nbytes + times + self.leave.nbytes)

    def state(self) -> dict[str, Any]:
        """Rows and partitions; indexes are built anew from them."""
        start = self.start
        rows = slice(start - self.origin, self.end - self.origin)
        return {
            "start": start,
            "first": self.first,
            "codes": np.ascontiguousarray(self.codes[rows]).reshape(-1),
            "time": self.time[rows].copy(),
            "enter": self.enter[rows if self.enter is not self.time else slice(0)].copy(),
            "leave": self.leave[rows if self.keeps_leaves else slice(0)].copy(),
            "ends": [p.end for p in self.partitions],
            "specs": [to_plain(p.group.spec) for p in self.partitions],
            "spec": to_plain(self.spec),
        }

    @property
    def start(self) -> int:
        """The number of the first row that is stored."""
        return self.partitions[0].start if self.partitions else self.end

    def load(self, state: Mapping[str, Any]) -> None:
        start, n = int(state["start"]), len(state["time"])
        self.origin, self.first, self.end = start, int(state["first"]), start + n
        self._allocate(max(MIN_ROOM, 2 * n))
        codes = np.asarray(state["codes"]).reshape(n, self.attributes)
        self._put(codes, state["time"], state["enter"], state["leave"], one_array=len(state["enter"]) < n)
        self.spec = from_plain(state["spec"])
        starts = [start, *state["ends"]][: len(state["ends"])]
        unused = IndexGroup((), 0, self.ranged, self.codes[:0])
        self.partitions = [Partition(int(a), int(b), unused) for a, b in zip(starts, state["ends"], strict=True)]
        self._rebuild([from_plain(s) for s in state["specs"]], [True] * len(self.partitions))


def _hashed(m: BitAddress | Hashed) -> int:
    """Hashes that the insertion of a row takes."""
    return sum(b > 0 for b in m.bits) if isinstance(m, BitAddress) else len(m.attributes)


def to_plain(spec: IndexSpec) -> list[list[Any]]:
    return [["bits", *m.bits] if isinstance(m, BitAddress) else ["hashed", *m.attributes] for m in spec]


def from_plain(plain: Sequence[Sequence[Any]]) -> IndexSpec:
    numbers = [(kind, tuple(int(x) for x in rest)) for kind, *rest in plain]
    return tuple(BitAddress(some) if kind == "bits" else Hashed(some) for kind, some in numbers)
