"""The indexes of consecutive time partitions of a state module, over a ring of slots for their rows.

*The invariant.* The rows that are alive and the slots of the ring that they have come in the same order. A row takes
the slot behind that of the row before it. When a slot is used again, its former row is no longer alive, so that no
chain leads there, and no head points to it: heads are cleared some slots in advance.

An index takes two bytes for a slot and two for a bucket, four each if there are more than ``NARROW_SLOTS`` rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.core.time import NEVER
from eddyline.kernels import bit_address as k
from eddyline.kernels.value_search import SEARCH_BITS_BY_VALUE, SEARCH_HASHED_BY_VALUE
from eddyline.synopses.index_maps import BitAddress, Hashed, IndexSpec, by_preference, equi_depth, most_suitable

SLOTS_PER_FREE_SLOT = 8  # free slots let heads be cleared for many rows at once: larger takes less memory
MIN_SLOTS = 64  # of the ring of a group


@dataclass(slots=True)  # not frozen: one is made for each batch, and that takes a fifth of the time
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


@dataclass(frozen=True, slots=True)
class Weights:
    """What a bucket visit, a comparison in a bucket and one along all rows cost, in one unit, and what a row that is
    found along all rows costs more than one in a bucket: a search takes what is cheaper."""

    visit: float = 1.0
    compare: float = 1.0
    scan: float = 1.0
    hit: float = 0.0


class Found:
    """Room for what a search finds."""

    def __init__(self, room: int) -> None:
        self.requests, self.rows = np.empty(room, np.int64), np.empty(room, np.int64)
        self.counts = np.zeros(4, np.int64)
        self.scanned = 0  # of the comparisons those with all rows, one after another

    def grow(self) -> None:
        """Twice the room."""
        self.requests = np.concatenate([self.requests, np.empty_like(self.requests)])
        self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])


@dataclass(slots=True)  # as above
class StoredRows:
    """The rows of a state module: row number r is at the place r − ``origin`` of the arrays; those before ``first`` are
    no longer alive."""

    origin: int
    first: int
    codes: Int64s
    enter: Int64s
    leave: Int64s


@dataclass(slots=True, eq=False)
class Way:
    """How searches by certain attributes go through a group: the number of its index (None: all rows are compared), the
    buckets that it visits, the share of the rows in them, and what its kernels take. A hash index is always used.
    ``fanout`` is how many rows a search found in its last batch."""

    index: int | None
    visited: float = 0.0
    share: float = 0.0
    maps: tuple[Any, ...] = ()
    kernels: tuple[Any, ...] = ()  # for ranges and for values
    fanout: float = 0.0

    def cost(self, alive: int, weights: Weights) -> float:
        return self.visited * weights.visit + self.share * alive * weights.compare


class IndexGroup:
    """``start`` and ``end`` are the numbers of its first row and of the next one to come; ``sample`` are rows from
    which boundaries of ranges are taken.

    The hash indices of a group lie side by side, a line each of one matrix of heads and one of links: rows are put into
    all of them by one call of a kernel."""

    def __init__(self, spec: IndexSpec, start: int, ranged: Int64s, sample: Int64s) -> None:
        self.spec, self.start, self.end = spec, start, start
        self.ranged = ranged
        self.slot = 0  # that the next row takes
        self.slots = 0  # of the ring
        self.cleared = 0  # slots from ``slot`` on that no head points to
        self.maps: list[Int64s] = [
            np.array(m.bits if isinstance(m, BitAddress) else m.attributes, np.int64) for m in spec
        ]
        self._preferred = by_preference(spec)
        self._ways: dict[tuple[frozenset[int], bytes], Way] = {}
        self.boundaries: list[Int64s] = []  # one matrix for each bit-address index: attributes × boundaries
        # Heads and links by block: each bit-address index is one, all hash indices together are the last one.
        self._blocks: list[tuple[Any, Any]] = []
        self._places: list[tuple[int, int]] = []  # of each index: block and line
        hashed = [m.attributes for m in spec if isinstance(m, Hashed)]
        bits = len(spec) - len(hashed)
        for m in spec:
            if isinstance(m, BitAddress):
                self._places.append((len(self._blocks), 0))
                self._blocks.append((np.zeros((1, m.buckets), np.uint16), np.zeros((1, 0), np.uint16)))
            else:
                self._places.append((bits, sum(block == bits for block, _ in self._places)))
            self.boundaries.append(_boundaries(m.bits, ranged, sample) if isinstance(m, BitAddress) else _NONE)
        if hashed:
            heads = np.zeros((len(hashed), _buckets(len(sample))), np.uint16)
            self._blocks.append((heads, np.zeros((len(hashed), 0), np.uint16)))
        self._sizes = np.array([len(a) for a in hashed], np.int64)
        self._hashed = np.zeros((len(hashed), max(map(len, hashed), default=0)), np.int64)
        for line, attributes in zip(self._hashed, hashed, strict=True):
            line[: len(attributes)] = attributes

    @property
    def wide(self) -> bool:
        return self.slots > k.NARROW_SLOTS

    @property
    def heads(self) -> list[Any]:
        """The heads of each index."""
        return [self._blocks[block][0][line] for block, line in self._places]

    # ── insertion ─────────────────────────────────────────────────────────────────────────────────────────────────

    def insert(self, end: int, rows: StoredRows) -> None:
        """Take the rows up to number ``end`` − 1."""
        count, alive = end - self.end, self.end - max(rows.first, self.start)
        if alive + count > self.slots or self.slots > 4 * max(MIN_SLOTS, alive + count):
            self._resize(max(0, alive), count)
        if count > self.cleared:
            self._clear(min(self.slots - alive, max(count, self.slots // SLOTS_PER_FREE_SLOT)))
        for i, m in enumerate(self.spec):
            if isinstance(m, BitAddress):
                self._insert_bits(i, end, rows)
        if len(self._sizes):
            self._insert_hashed(end, alive, rows)
        self.slot, self.end = (self.slot + count) % max(1, self.slots), end
        self.cleared -= count

    def _insert_bits(self, i: int, end: int, rows: StoredRows) -> None:
        (heads,), (links,) = self._blocks[self._places[i][0]]
        maps = (self.maps[i], self.ranged, self.boundaries[i])
        begin = self.end - rows.origin
        k.INSERT_BITS[self.wide](begin, end - rows.origin, self.slot, rows.codes, rows.enter, *maps, heads, links)

    def _insert_hashed(self, end: int, alive: int, rows: StoredRows) -> None:
        """Put rows into all hash indices. When there are two rows for each of their buckets, they get more of these,
        and all rows are put into them anew."""
        begin, slot, (heads, links) = self.end, self.slot, self._blocks[-1]
        if alive + end - begin > 2 * heads.shape[1]:
            heads = np.zeros((len(heads), _buckets(alive + end - begin)), heads.dtype)
            self._blocks[-1] = (heads, links)
            begin, slot = begin - alive, (slot - alive) % self.slots
        maps, begin, end = (self._sizes, self._hashed), begin - rows.origin, end - rows.origin
        k.INSERT_HASHED[self.wide](begin, end, slot, rows.codes, rows.enter, *maps, heads, links)

    def _clear(self, ahead: int) -> None:
        """No head points to the next ``ahead`` slots."""
        after, upto = self.slot + self.cleared, self.slot + ahead
        if after >= self.slots:
            after, upto = after - self.slots, upto - self.slots
        for heads, _ in self._blocks:
            k.CLEAR_HEADS[self.wide](after, upto, max(0, upto - self.slots), heads)
        self.cleared = ahead

    def _resize(self, alive: int, count: int) -> None:
        """A ring for the rows that are alive and ``count`` more; they keep their order and begin at slot 0."""
        slots = max(MIN_SLOTS, (alive + count) * (SLOTS_PER_FREE_SLOT + 1) // SLOTS_PER_FREE_SLOT + 1)
        old = (self.slot - alive + np.arange(alive)) % max(1, self.slots)
        kind = np.uint32 if slots > k.NARROW_SLOTS else np.uint16
        for block, (heads, links) in enumerate(self._blocks):
            back = (self.slot - heads.astype(np.int64)) % max(1, self.slots)  # rows after that of the head
            lives = (heads > 0) & (back < alive)
            more = np.zeros((len(links), slots), kind)
            more[:, :alive] = links[:, old]
            self._blocks[block] = (np.where(lives, alive - back, 0).astype(kind), more)
        self.slots, self.slot, self.cleared = slots, alive, slots - alive

    # ── searches ──────────────────────────────────────────────────────────────────────────────────────────────────

    def search(self, s: Search, rows: StoredRows, out: Found, weights: Weights) -> None:
        """Find rows among those of the group that are alive, by their places in the arrays."""
        first, end = max(rows.first, self.start) - rows.origin, self.end - rows.origin
        asked = s.asked.tobytes()
        way = self._ways.get((s.equal, asked))
        if way is None:
            way = self._ways[s.equal, asked] = self._way(s)
        alive, requests, before = end - first, len(s.max_enter), int(out.counts[k.FOUND])
        if way.index is None or way.cost(alive, weights) > alive * weights.scan + way.fanout * weights.hit:
            out.scanned += requests * max(0, alive)
            self._search_all(s, rows, out, first, end)
        else:
            self._search_index(way, s, rows, out, first, end)
        if requests:
            way.fanout = (int(out.counts[k.FOUND]) - before) / requests

    def _search_index(self, way: Way, s: Search, rows: StoredRows, out: Found, first: int, end: int) -> None:
        assert way.index is not None
        by_value = s.low is s.high and len(s.asked) > 0  # one value for each attribute
        requests = (s.asked, s.low, *(() if by_value else (s.high,)), s.max_enter, s.min_leave)
        newest = (first, end - 1, (self.slot - 1) % max(1, self.slots))  # a new group has no ring
        block, line = self._places[way.index]
        heads, links = self._blocks[block]
        index = (rows.codes, rows.enter, rows.leave, *way.maps, heads[line], links[line])
        kernel = way.kernels[by_value][self.wide]
        at, last = 0, len(s.max_enter)
        while True:
            at = kernel(at, *requests, *newest, *index, out.requests, out.rows, out.counts)
            if at == last:
                break
            out.grow()

    def _search_all(self, s: Search, rows: StoredRows, out: Found, first: int, end: int) -> None:
        requests, at = (s.asked, s.low, s.high, s.max_enter, s.min_leave), 0
        exact = min(k.MAX_COMBINED, len(s.asked)) if s.low is s.high else 0
        stored = (first, end, exact, rows.codes, rows.enter, rows.leave)
        while at < len(s):
            at = k.search_all(at, *requests, *stored, out.requests, out.rows, out.counts)
            if at < len(s):
                out.grow()

    def _way(self, s: Search) -> Way:
        """How searches by these attributes are made. Whether to compare all rows costs less than to visit the buckets
        of a search, as many as the bits that it leaves open number, and to compare the rows in them, as many as the
        bits that it gives leave, depends on the rows that are alive."""
        chosen = most_suitable(self._preferred, s.equal)
        if chosen is None:
            return Way(None)
        m = self.spec[chosen]
        if isinstance(m, Hashed):
            places = np.searchsorted(s.asked, self.maps[chosen])
            return Way(chosen, 0.0, 0.0, (places,), (k.SEARCH_HASHED, SEARCH_HASHED_BY_VALUE))
        asked = s.asked.tolist()
        opened = sum(b for a, b in enumerate(m.bits) if a not in s.equal and (not self.ranged[a] or a not in asked))
        maps = (self.maps[chosen], self.ranged, self.boundaries[chosen])
        share = 1.0 / (1 << (sum(m.bits) - opened))
        return Way(chosen, float(1 << opened), share, maps, (k.SEARCH_BITS, SEARCH_BITS_BY_VALUE))

    @property
    def nbytes(self) -> int:
        return sum(int(a.nbytes) for a in (*(a for block in self._blocks for a in block), *self.boundaries))


_NONE = np.zeros((0, 0), np.int64)


def _buckets(rows: int) -> int:
    """Buckets of a hash index: one for each row or for two rows."""
    return 1 << max(6, max(rows, 1).bit_length() - 1)


def _boundaries(bits: Sequence[int], ranged: Int64s, sample: Int64s) -> Int64s:
    widest = max((b for b, r in zip(bits, ranged.tolist(), strict=True) if r), default=0)
    found = np.full((len(bits), (1 << widest) - 1), NEVER, np.int64)
    for a, b in enumerate(bits):
        if ranged[a] and b:
            found[a, : (1 << b) - 1] = equi_depth(sample[:, a], b)
    return found
