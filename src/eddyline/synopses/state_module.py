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
from eddyline.core.time import NEVER
from eddyline.kernels import bit_address as k
from eddyline.synopses.index_maps import BitAddress, Hashed, IndexSpec, equi_depth, most_suitable

ROOM = 1024  # rows that there is room for at first


@dataclass(frozen=True, slots=True)
class Search:
    """Requests that ask for the same attributes: row i wants values in [low[i], high[i]], for each attribute asked.

    ``equal`` are the attributes for which every request gives one value.
    """

    asked: Int64s
    low: Int64s
    high: Int64s
    max_enter: Int64s
    min_leave: Int64s
    equal: frozenset[int]

    def __len__(self) -> int:
        return len(self.max_enter)


class IndexGroup:
    """The indexes of consecutive partitions. ``base`` is the first row's place in the module's arrays."""

    def __init__(self, spec: IndexSpec, base: int, ranged: Int64s, sample: Int64s) -> None:
        self.spec, self.base = spec, base
        self.heads: list[Any] = []
        self.links: list[Any] = []
        self.ranged = ranged
        self.boundaries: list[Int64s] = []  # one matrix for each bit-address index: attributes × boundaries
        for m in spec:
            buckets = m.buckets if isinstance(m, BitAddress) else _buckets(len(sample))
            self.heads.append(np.zeros(buckets, np.int32))
            self.links.append(np.zeros(len(sample), np.int32))
            self.boundaries.append(_boundaries(m.bits, ranged, sample) if isinstance(m, BitAddress) else _NONE)

    def insert(self, begin: int, end: int, codes: Int64s, enter: Int64s) -> None:
        for i, m in enumerate(self.spec):
            needed = end - self.base
            if needed > len(self.links[i]):
                more = max(needed - len(self.links[i]), needed // 4)
                self.links[i] = np.concatenate([self.links[i], np.zeros(more, np.int32)])
            links = self.links[i]
            if isinstance(m, BitAddress):
                bits = np.array(m.bits, np.int64)
                k.insert_bits(
                    begin, end, self.base, codes, enter, bits, self.ranged, self.boundaries[i], self.heads[i], links
                )
            else:
                start = begin
                if end - self.base > 2 * len(self.heads[i]):
                    self.heads[i], start = np.zeros(_buckets(end - self.base), np.int32), self.base
                attributes = np.array(m.attributes, np.int64)
                k.insert_hashed(start, end, self.base, codes, enter, attributes, self.heads[i], links)

    def search(self, s: Search, rows: Sequence[Any], first: int, end: int, out: _Found) -> None:
        """Find rows among those of the group: from ``first``, which is alive, to ``end`` − 1."""
        chosen = most_suitable(self.spec, s.equal)
        if chosen is not None and self._open_buckets(chosen, s) > end - max(first, self.base):
            chosen = None  # to compare all rows is quicker than to visit more buckets than there are rows
        requests = (s.asked, s.low, s.high, s.max_enter, s.min_leave)
        at = 0
        while at < len(s):
            found = (out.requests, out.rows, out.counts)
            if chosen is None:
                at = k.search_all(at, *requests, max(first, self.base), end, *rows, *found)
            else:
                m, heads, links = self.spec[chosen], self.heads[chosen], self.links[chosen]
                if isinstance(m, BitAddress):
                    bits = np.array(m.bits, np.int64)
                    maps = (bits, self.ranged, self.boundaries[chosen])
                    at = k.search_bits(at, *requests, self.base, first, *rows, *maps, heads, links, *found)
                else:
                    places = np.searchsorted(s.asked, np.array(m.attributes, np.int64))
                    at = k.search_hashed(at, *requests, self.base, first, *rows, places, heads, links, *found)
            if at < len(s):
                out.grow()

    def _open_buckets(self, index: int, s: Search) -> int:
        """Buckets that a search visits for the attributes that it gives no value for."""
        m = self.spec[index]
        if isinstance(m, Hashed):
            return 1
        return 1 << sum(
            b for a, b in enumerate(m.bits) if a not in s.equal and (not self.ranged[a] or a not in s.asked)
        )

    @property
    def nbytes(self) -> int:
        return sum(int(a.nbytes) for a in (*self.heads, *self.links, *self.boundaries))


class _Found:
    """Room for what a search finds."""

    def __init__(self, room: int) -> None:
        self.requests, self.rows = np.empty(room, np.int64), np.empty(room, np.int64)
        self.counts = np.zeros(4, np.int64)

    def grow(self) -> None:
        self.requests = np.concatenate([self.requests, np.empty_like(self.requests)])
        self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])


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
            last.group.insert(begin - self.origin, self.end - self.origin, self.codes, self.enter)
            self.insert_hashes += (self.end - begin) * sum(_hashed(m) for m in last.group.spec)

    def _open_partition(self, stop: int) -> None:
        group = self.partitions[-1].group if self.partitions else None
        if group is None or group.spec != self.spec:
            begin = max(self.first, self.end - self.partition_rows) - self.origin
            sample = self.codes[begin : stop - self.origin]
            group = IndexGroup(self.spec, self.end - self.origin, self.ranged, sample)
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
        out = _Found(max(256, 2 * len(s)))
        rows = (self.codes, self.enter, self.leave)
        for group, end in self._groups():
            group.search(s, rows, self.first - self.origin, end - self.origin, out)
        found = int(out.counts[k.FOUND])
        self.counts += out.counts
        return out.requests[:found].copy(), out.rows[:found] + self.origin

    def _groups(self) -> list[tuple[IndexGroup, int]]:
        """Each group with the end of its rows."""
        ends: dict[int, tuple[IndexGroup, int]] = {}
        for p in self.partitions:
            ends[id(p.group)] = (p.group, p.end)
        return list(ends.values())

    def migrate(self, places: Sequence[int], spec: IndexSpec) -> int:
        """Index some of the stored partitions with ``spec``; returns the number of rows that were moved."""
        moving = [i in set(places) for i in range(len(self.partitions))]
        self._rebuild([spec if m else p.group.spec for m, p in zip(moving, self.partitions, strict=True)], moving)
        moved = sum(p.end - p.start for m, p in zip(moving, self.partitions, strict=True) if m)
        self.insert_hashes += moved * sum(map(_hashed, spec))
        return moved

    def _rebuild(self, specs: Sequence[IndexSpec], moving: Sequence[bool]) -> None:
        """Give each partition the indexes of ``specs``. A group is kept if its partitions are neither ``moving`` nor
        joined by others; all other groups are built anew."""
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
            begin, end = self.partitions[run[0]].start - self.origin, self.partitions[run[-1]].end - self.origin
            group = IndexGroup(specs[run[0]], begin, self.ranged, self.codes[begin:end])
            group.insert(begin, end, self.codes, self.enter)
            for i in run:
                self.partitions[i].group = group

    def _make_room(self, n: int) -> None:
        """Places for ``n`` more rows: those of dropped partitions are used again."""
        start = self.partitions[0].start if self.partitions else self.end
        group = self.partitions[0].group if self.partitions else None
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
        shift = start - self.origin
        self.origin = start
        seen: set[int] = set()
        for p in self.partitions:
            if id(p.group) not in seen:
                seen.add(id(p.group))
                p.group.base -= shift
        if group is not None and group.base < 0:
            # The first group began with partitions that are gone: its links are cut to the rows that are left.
            self._rebuild([p.group.spec for p in self.partitions], [p.group is group for p in self.partitions])

    # ── size and state ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def index_bytes(self) -> int:
        return sum(group.nbytes for group, _ in self._groups())

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


_NONE = np.zeros((0, 0), np.int64)


def _buckets(rows: int) -> int:
    """Buckets of a hash index: about one for each row."""
    return 1 << max(6, (max(rows, 1) - 1).bit_length())


def _hashed(m: BitAddress | Hashed) -> int:
    """Hashes that the insertion of a row takes."""
    return sum(b > 0 for b in m.bits) if isinstance(m, BitAddress) else len(m.attributes)


def _boundaries(bits: Sequence[int], ranged: Int64s, sample: Int64s) -> Int64s:
    widest = max((b for b, r in zip(bits, ranged.tolist(), strict=True) if r), default=0)
    found = np.full((len(bits), (1 << widest) - 1), NEVER, np.int64)
    for a, b in enumerate(bits):
        if ranged[a] and b:
            found[a, : (1 << b) - 1] = equi_depth(sample[:, a], b)
    return found


def _plain(spec: IndexSpec) -> list[list[Any]]:
    return [["bits", *m.bits] if isinstance(m, BitAddress) else ["hashed", *m.attributes] for m in spec]


def _spec(plain: Sequence[Sequence[Any]]) -> IndexSpec:
    numbers = [(kind, tuple(int(x) for x in rest)) for kind, *rest in plain]
    return tuple(BitAddress(some) if kind == "bits" else Hashed(some) for kind, some in numbers)
