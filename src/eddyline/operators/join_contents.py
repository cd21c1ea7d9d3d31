"""The contents of a join's inputs and their indexes as the flat arrays that the kernel works on, and how they grow.

Positions of a ring are row numbers, those of a bag slots; arrays are indexed by position & (capacity − 1). Chains of an
index hold positions, not places, so that rows can be moved without anybody having to look for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.core.window import Range, Slide
from eddyline.kernels import join_index
from eddyline.kernels import join_layout as k
from eddyline.operators.join_plan import JoinGraph, Member
from eddyline.operators.join_side import JoinSide

STRIDE = 16  # what a ring grows by at most
BURST = 4  # … where all came at one instant, which says nothing about the next
SPARE = 8  # one part in so many is left free, so that small inputs can grow without large ones being moved


@dataclass(frozen=True, slots=True)
class Laid:
    """How things lay before they are moved."""

    index_of: dict[tuple[int, tuple[int, ...]], int]
    indexes: Int64s
    inputs: Int64s
    heads: Int64s
    records: Int64s
    codes: Int64s
    leave: Int64s
    weight: Int64s
    born: Int64s


class JoinContents:
    """Synopses of the inputs of a join, with a chained hash index for every set of columns that is probed."""

    laid: Laid  # as of the last layout

    def __init__(self, sides: Sequence[JoinSide], graph: JoinGraph) -> None:
        self.sides, self.graph = list(sides), graph
        self.first = np.zeros(len(self.sides), np.int64)
        self.tail = np.zeros(len(self.sides), np.int64)
        for i, s in enumerate(self.sides):
            if s.stub is not None:
                self.first[i] = self.tail[i] = s.stub.low
        self.index_of: dict[tuple[int, tuple[int, ...]], int] = {}  # by input and columns

    def index(self, wanted: set[tuple[int, tuple[int, ...]]]) -> None:
        """Have indexes on these columns of these inputs; they are there after the next layout."""
        self.index_of = {key: x for x, key in enumerate(sorted(wanted))}
        self.indexes = np.zeros((len(wanted), k.INDEX_FIELDS), np.int64)
        columns: list[int] = []
        for (target, cols), x in self.index_of.items():
            self.indexes[x, k.IX_INPUT] = target
            self.indexes[x, k.IX_COLS] = len(cols)
            self.indexes[x, k.IX_COL_OFF] = len(columns)
            self.indexes[x, k.IX_REC_WIDTH] = len(cols) + (1 if self.sides[target].ring else 2)
            columns += cols
        self.index_columns = np.array(columns or [0], np.int64)

    def moved(self) -> None:
        """What is to be done when synopses lie elsewhere."""

    # ── laying out ────────────────────────────────────────────────────────────────────────────────────────────────

    def lay_out(self, capacities: Sequence[int], fresh: bool = False) -> None:
        """Lay the synopses out for new capacities, keep their contents, build the indexes that do not fit anew."""
        old = None if fresh else self.laid
        m = len(self.sides)
        if old is None:
            self.inputs = np.zeros((m, k.INPUT_FIELDS), np.int64)  # else they may be in the middle of events
        self._free = [0, 0, 0]  # where the next position, code and record go
        for i, s in enumerate(self.sides):
            mine = np.flatnonzero(self.indexes[:, k.IX_INPUT] == i)
            low, high = (int(mine[0]), int(mine[-1]) + 1) if len(mine) else (0, 0)
            self.inputs[i, k.KIND] = k.RING if s.ring else k.BAG
            self.inputs[i, k.CODE_WIDTH] = len(s.keys)
            self.inputs[i, k.DELETES :] = s.spec.deletes, low, high, s.limit
            self._assign(i, capacities[i])
        self.heads = np.full(max(self._lay_out_heads(), 1), -1, np.int64)
        # Zeros that nobody has asked for yet take no memory.
        pos, code, records = (max(1, n + n // SPARE) for n in self._free)
        self.records, self.codes = np.zeros(records, np.int64), np.zeros(code, np.int64)
        self.leave, self.weight, self.rownum, self.born = (np.zeros(pos, np.int64) for _ in range(4))
        for i in range(m):
            if old is not None:
                self._move(i, old)
            for x in self.indexes_of(i):
                if old is None or not self._take_over(x, old):
                    self.relink(i, x)
        self._number_rows()
        self._done()

    def _done(self) -> None:
        self.laid = Laid(
            self.index_of, self.indexes.copy(), self.inputs.copy(), self.heads, self.records, self.codes, self.leave,
            self.weight, self.born,
        )  # fmt: skip
        self.moved()

    def _assign(self, i: int, capacity: int) -> None:
        """Give an input and its indexes the next free places."""
        side = self.sides[i]
        side.capacity = capacity
        self.inputs[i, [k.POS_OFF, k.POS_MASK, k.CODE_OFF]] = self._free[0], capacity - 1, self._free[1]
        self._free[0] += capacity
        self._free[1] += capacity * len(side.keys)
        for x in self.indexes_of(i):
            self.indexes[x, k.IX_REC_OFF] = self._free[2]
            self._free[2] += capacity * int(self.indexes[x, k.IX_REC_WIDTH])

    def _lay_out_heads(self) -> int:
        """Heads of indexes over the same classes of keys are interleaved: equal keys have equal hashes."""
        number = {m: c for c, members in enumerate(self.graph.classes) for m in members}
        groups: dict[tuple[int, ...], list[int]] = {}
        for (target, columns), x in self.index_of.items():
            groups.setdefault(tuple(number[Member(target, c)] for c in columns), []).append(x)
        heads = 0
        for classes, group in groups.items():
            largest = max(self.sides[int(self.indexes[x, k.IX_INPUT])].capacity for x in group)
            slots = largest if classes else 1
            for j, x in enumerate(group):
                self.indexes[x, k.IX_HEAD_OFF : k.IX_HEAD_STRIDE + 1] = heads + j, slots - 1, len(group)
            heads += slots * len(group)
        return heads

    def _move(self, i: int, old: Laid) -> None:
        for was, now, n in self._pieces(i, old):
            a, b = int(old.inputs[i, k.POS_OFF]) + was, int(self.inputs[i, k.POS_OFF]) + now
            for name in ("leave", "weight", "born"):
                getattr(self, name)[b : b + n] = getattr(old, name)[a : a + n]
            width = len(self.sides[i].keys)
            a = int(old.inputs[i, k.CODE_OFF]) + was * width
            b = int(self.inputs[i, k.CODE_OFF]) + now * width
            self.codes[b : b + n * width] = old.codes[a : a + n * width]

    def _take_over(self, x: int, old: Laid) -> bool:
        """Have an index as it was, if it has as many heads as it had: to build it anew is to go to as many places in
        memory as it has rows. Those of bags name places of their heads, and are built anew."""
        new, i = self.indexes[x], int(self.indexes[x, k.IX_INPUT])
        was = old.index_of.get(next(key for key, number in self.index_of.items() if number == x))
        if was is None or not self.sides[i].ring or old.indexes[was, k.IX_HEAD_MASK] != new[k.IX_HEAD_MASK]:
            return False
        before, width = old.indexes[was], int(new[k.IX_REC_WIDTH])
        for start, begin, n in self._pieces(i, old):
            a, b = int(before[k.IX_REC_OFF]) + start * width, int(new[k.IX_REC_OFF]) + begin * width
            self.records[b : b + n * width] = old.records[a : a + n * width]
        if old.heads is not self.heads:
            _heads_of(self.heads, new)[:] = _heads_of(old.heads, before)
        return True

    def _pieces(self, i: int, old: Laid) -> Iterator[tuple[int, int, int]]:
        was, now = int(old.inputs[i, k.POS_MASK]), int(self.inputs[i, k.POS_MASK])
        if self.sides[i].ring:
            return pieces(int(self.first[i]), int(self.tail[i]), was, now)
        return pieces(0, min(was, now) + 1, was, now)

    def _number_rows(self) -> None:
        for i, s in enumerate(self.sides):
            if s.bag is not None:
                slots = np.arange(min(s.bag.table.capacity, s.capacity))
                self.rownum[self.place(i, slots)] = s.bag.rownum[slots]

    # ── growing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def grow(self, i: int) -> None:
        """Make the ring of an input that is full larger, and with it those that soon will be."""
        capacities = [self._room_for(j, full=j == i) for j in range(len(self.sides))]
        if not self._grow_into_spare(capacities):
            self.lay_out(capacities)

    def _room_for(self, i: int, full: bool) -> int:
        """What a ring needs: as many rows as its window will hold if it goes on as in the part that is filled, and half
        as many, but not more than ``STRIDE`` times what it has held, because it may not; at least the double where it
        is full."""
        side, held = self.sides[i], int(self.tail[i] - self.first[i])
        if not side.ring or held < 2:
            return side.capacity
        window, ahead = side.spec.window, 2 * held
        if side.limit:
            ahead = side.limit + 1
        elif isinstance(window, Range | Slide):
            begin, end = self.leave[self.place(i, np.array([self.first[i], self.tail[i] - 1]))]
            span = max(int(end - begin), window.slide if isinstance(window, Slide) else 0)
            ahead = 3 * held * window.width // (2 * span) if span else BURST * held if full else held
        need = max(min(ahead, STRIDE * held), 2 * held if full else held)
        return max(side.capacity, 1 << (need - 1).bit_length())

    def _grow_into_spare(self, capacities: Sequence[int]) -> bool:
        """Move the inputs that grow, and no others, if there is room and their indexes need no more heads."""
        growing = [i for i, s in enumerate(self.sides) if capacities[i] != s.capacity]
        need = [0, 0, 0]
        for i in growing:
            mine = self.indexes[list(self.indexes_of(i))]
            if (mine[mine[:, k.IX_COLS] > 0, k.IX_HEAD_MASK] < capacities[i] - 1).any():
                return False
            widths = 1, len(self.sides[i].keys), int(mine[:, k.IX_REC_WIDTH].sum())
            need = [n + capacities[i] * w for n, w in zip(need, widths, strict=True)]
        room = len(self.leave), len(self.codes), len(self.records)
        if any(f + n > r for f, n, r in zip(self._free, need, room, strict=True)):
            return False
        for i in growing:
            self._assign(i, capacities[i])
            self._move(i, self.laid)
            for x in self.indexes_of(i):
                self._take_over(x, self.laid)
        self._done()
        return True

    # ── rows and their places ─────────────────────────────────────────────────────────────────────────────────────

    def indexes_of(self, i: int) -> range:
        return range(int(self.inputs[i, k.INDEX_FROM]), int(self.inputs[i, k.INDEX_TO]))

    def rows(self) -> list[int]:
        """How many rows each window has; 0 for bags, which nobody counts."""
        held = zip(self.sides, self.first.tolist(), self.tail.tolist(), strict=True)
        return [tail - first if side.ring else 0 for side, first, tail in held]

    def live(self, i: int) -> Int64s:
        """Positions of input i that hold a row."""
        if self.sides[i].ring:
            return np.arange(self.first[i], self.tail[i], dtype=np.int64)
        off, cap = int(self.inputs[i, k.POS_OFF]), self.sides[i].capacity
        return np.flatnonzero(self.weight[off : off + cap])

    def place(self, i: int, positions: Int64s) -> Int64s:
        """Where the leave times, weights and row numbers of positions are."""
        return int(self.inputs[i, k.POS_OFF]) + (positions & int(self.inputs[i, k.POS_MASK]))

    def put(self, i: int, positions: Int64s, leaves: Int64s, weights: Int64s) -> None:
        """Fill one input with rows that its synopsis already holds, and index them."""
        side, at = self.sides[i], self.place(i, positions)
        self.leave[at], self.weight[at] = leaves, weights
        codes, _ = side.key_codes(side.rows_at(positions), len(positions))
        width, code = len(side.keys), int(self.inputs[i, k.CODE_OFF])
        base = code + (positions & int(self.inputs[i, k.POS_MASK])) * width
        for j in range(width):
            self.codes[base + j] = codes[:, j]
        for x in self.indexes_of(i):
            self.relink(i, x)

    def relink(self, i: int, x: int) -> None:
        """Build an index of an input from its codes."""
        live = self.live(i)
        if self.sides[i].ring:
            live = np.ascontiguousarray(self.weight[self.place(i, live)])
        else:
            _, valid = self.sides[i].key_codes(self.sides[i].rows_at(live), len(live))
            live = live[valid != 0]
        join_index.relink(
            i, x, self.inputs, self.indexes, self.index_columns, self.heads, self.records, self.codes, self.first,
            self.tail, live,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        pos, code, records = self._free
        return 8 * (len(self.heads) + records + code + 4 * pos)


def _heads_of(heads: Int64s, index: Int64s) -> Int64s:
    off, mask, stride = index[k.IX_HEAD_OFF : k.IX_HEAD_STRIDE + 1].tolist()
    return heads[off : off + (mask + 1) * stride : stride]


def pieces(first: int, end: int, old_mask: int, mask: int) -> Iterator[tuple[int, int, int]]:
    """The positions ``first`` … ``end`` in pieces that two rings have in one piece: where each begins, its length.

    >>> list(pieces(6, 11, 7, 15)), list(pieces(14, 18, 7, 15))
    ([(6, 6, 2), (0, 8, 3)], [(6, 14, 2), (0, 0, 2)])
    """
    while first < end:
        was, now = first & old_mask, first & mask
        n = min(end - first, old_mask + 1 - was, mask + 1 - now)
        yield was, now, n
        first += n
