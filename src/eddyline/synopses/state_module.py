"""A state module (SteM): the rows of one join input, in time partitions, each with an index of its own.

*What a search returns* depends on the rows alone: those in the asked ranges that entered no later and leave no earlier
than the search says. The indexes decide only what must be looked at on the way. So an index can be changed, for rows
to come or for rows that are stored, between any two searches.

Rows come in order of entering and leave in the same order. A partition is a fixed number of consecutive rows;
consecutive partitions with the same indexes share them (an ``IndexGroup``). What has left is dropped by whole
partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import bit_address as k
from eddyline.synopses.index_group import Found, IndexGroup, Search, StoredRows
from eddyline.synopses.index_maps import BitAddress, Hashed, IndexSpec

__all__ = ["Partition", "Search", "StateModule"]

ROOM = 1024  # rows that there is room for at first


@dataclass(slots=True)
class Partition:
    """Rows ``start`` … ``end`` − 1 of a state module, by row number."""

    start: int
    end: int
    group: IndexGroup


class StateModule:
    """``attributes`` are the join attributes of the input, ``ranged`` those that are searched by ranges. ``spec`` is
    what new partitions are indexed with.

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
        self, attributes: int, partition_rows: int, spec: IndexSpec, ranged: frozenset[int] = frozenset()
    ) -> None:
        self.attributes, self.partition_rows, self.spec = attributes, partition_rows, spec
        self.ranged = np.array([int(a in ranged) for a in range(attributes)], np.int64)
        self.origin = 0  # the row number of place 0 of the arrays
        self.first = self.end = 0  # the rows that are alive, by number; those before ``first`` have left
        self.codes = np.empty((ROOM, attributes), np.int64)
        self.enter, self.leave = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
        self.partitions: list[Partition] = []
        self.counts = np.zeros(4, np.int64)  # hashes, visits, comparisons, matches since the start
        self.insert_hashes = 0

    def __len__(self) -> int:
        return self.end - self.first

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def insert(self, codes: Int64s, enter: Int64s, leave: Int64s) -> None:
        """Rows in order of entering. A row that matches nothing (a NULL among its keys) enters at ``NEVER``."""
        n = len(enter)
        self._make_room(n)
        at = self.end - self.origin
        self.codes[at : at + n], self.enter[at : at + n], self.leave[at : at + n] = codes, enter, leave
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

    def set_leave(self, rows: Int64s, leave: Int64s) -> None:
        """Rows of a tuple-based window leave when later ones enter."""
        self.leave[rows - self.origin] = leave

    def expire(self, now: int) -> None:
        """Rows that leave at ``now`` or before are no longer searched; partitions without others are dropped."""
        at, end = self.first - self.origin, self.end - self.origin
        self.first += int(np.searchsorted(self.leave[at:end], now, side="right"))
        while self.partitions and self.partitions[0].end <= self.first and len(self.partitions) > 1:
            self.partitions.pop(0)

    def rows_leaving(self, after: int, now: int) -> Int64s:
        """The numbers of the rows from ``after`` on that leave at ``now`` or before."""
        at, end = after - self.origin, self.end - self.origin
        return np.arange(after, after + int(np.searchsorted(self.leave[at:end], now, side="right")))

    def codes_of(self, rows: Int64s, attribute: int) -> Int64s:
        found: Int64s = self.codes[rows - self.origin, attribute]
        return found

    def recent(self, most: int) -> Int64s:
        """The codes of the newest rows, a line for each."""
        found: Int64s = self.codes[max(self.first, self.end - most) - self.origin : self.end - self.origin]
        return found

    # ── searches and indexes ──────────────────────────────────────────────────────────────────────────────────────

    def search(self, s: Search) -> tuple[Int64s, Int64s]:
        """For every match the number of its request and of its row."""
        out, stored = Found(max(256, 2 * len(s))), self._stored()
        for group in self.groups():
            group.search(s, stored, out)
        found = int(out.counts[k.FOUND])
        self.counts += out.counts
        return out.requests[:found], out.rows[:found] + self.origin

    def groups(self) -> list[IndexGroup]:
        """The different indexes, those of the oldest rows first."""
        return list({id(p.group): p.group for p in self.partitions}.values())

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
        start = self.partitions[0].start if self.partitions else self.end
        used = self.end - self.origin
        if used + n <= len(self.enter):
            return
        live = self.end - start
        room = max(ROOM, 2 * (live + n))
        old = slice(start - self.origin, used)
        codes, enter, leave = self.codes[old], self.enter[old], self.leave[old]
        self.codes = np.empty((room, self.attributes), np.int64)
        self.enter, self.leave = np.empty(room, np.int64), np.empty(room, np.int64)
        self.codes[:live], self.enter[:live], self.leave[:live] = codes, enter, leave
        self.origin = start

    # ── size and state ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def index_bytes(self) -> int:
        return sum(group.nbytes for group in self.groups())

    @property
    def nbytes(self) -> int:
        return self.index_bytes + int(self.codes.nbytes + self.enter.nbytes + self.leave.nbytes)

    def state(self) -> dict[str, Any]:
        """Rows and partitions; indexes are built anew from them."""
        start = self.partitions[0].start if self.partitions else self.end
        rows = slice(start - self.origin, self.end - self.origin)
        return {
            "start": start,
            "first": self.first,
            "codes": np.ascontiguousarray(self.codes[rows]).reshape(-1),
            "enter": self.enter[rows].copy(),
            "leave": self.leave[rows].copy(),
            "ends": [p.end for p in self.partitions],
            "specs": [_plain(p.group.spec) for p in self.partitions],
            "spec": _plain(self.spec),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        start, n = int(state["start"]), len(state["enter"])
        self.origin, self.first, self.end = start, int(state["first"]), start + n
        room = max(ROOM, 2 * n)
        self.codes = np.empty((room, self.attributes), np.int64)
        self.enter, self.leave = np.empty(room, np.int64), np.empty(room, np.int64)
        self.codes[:n] = np.asarray(state["codes"]).reshape(n, self.attributes)
        self.enter[:n], self.leave[:n] = state["enter"], state["leave"]
        self.spec = _spec(state["spec"])
        starts = [start, *state["ends"]][: len(state["ends"])]
        unused = IndexGroup((), 0, self.ranged, self.codes[:0])
        self.partitions = [Partition(int(a), int(b), unused) for a, b in zip(starts, state["ends"], strict=True)]
        self._rebuild([_spec(s) for s in state["specs"]], [True] * len(self.partitions))


def _hashed(m: BitAddress | Hashed) -> int:
    """Hashes that the insertion of a row takes."""
    return sum(b > 0 for b in m.bits) if isinstance(m, BitAddress) else len(m.attributes)


def _plain(spec: IndexSpec) -> list[list[Any]]:
    return [["bits", *m.bits] if isinstance(m, BitAddress) else ["hashed", *m.attributes] for m in spec]


def _spec(plain: Sequence[Sequence[Any]]) -> IndexSpec:
    numbers = [(kind, tuple(int(x) for x in rest)) for kind, *rest in plain]
    return tuple(BitAddress(some) if kind == "bits" else Hashed(some) for kind, some in numbers)
