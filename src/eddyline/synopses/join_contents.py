"""The contents of a join's inputs and their indexes as the flat arrays that the kernel works on, and how they grow.

Positions of a ring are row numbers, those of a bag slots; arrays are indexed by position & (capacity − 1). Chains of an
index hold positions, not places, so that rows can be moved without anybody having to look for them.

Growth is amortised. Two things grow, each by a factor when it is full, so that a row is moved and linked anew a bounded
number of times, most rows never:

- *The room for rows* of an input, far ahead of them: pages of a fresh array that were never written take no memory.
  What has to be moved is copied in a few pieces, and indexes stay as they are.
- *The heads of its indexes*, which rows are scattered over, and which are written to before they are used: they follow
  the rows that there are. Only then are the rows of these indexes linked anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from eddyline.core.bound import bound_of
from eddyline.core.delta import Int64s
from eddyline.core.window import Range, Stepping, Unbounded, WindowSpec
from eddyline.kernels import join_layout as k
from eddyline.synopses.bag import Bag
from eddyline.synopses.hash_index import HashIndex
from eddyline.synopses.ring_pieces import pieces
from eddyline.synopses.store import Stub

FIRST_CAPACITY = 256  # rows that an input has room for at first
# Factors by which the room for rows grows at most: more moves rows less often and reserves more address space, which is
# not free everywhere. From MANY_ROWS on less; and less where all rows came at one instant, which says little about the
# next.
MAX_GROWTH, MAX_GROWTH_OF_MANY, GROWTH_IN_ONE_INSTANT = 16, 4, 4
MANY_ROWS = 1 << 20
# Heads of an index for each row, where there is room for many more rows than there are: more makes chains shorter and
# takes memory.
HEADS_PER_ROW, HEADS_PER_ROW_OF_MANY = 4, 2
# Between indexes whose heads are interleaved: more shares cache lines, and fills memory for nothing.
MAX_HEADS_RATIO = 8
PARTS_PER_SPARE = 8  # one part in so many is left free, so that small inputs can grow without large ones being moved


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


class WindowOfInput(Protocol):
    """What the contents depend on of an input's declaration."""

    @property
    def window(self) -> WindowSpec | None: ...
    @property
    def deletes(self) -> int: ...


class Side(Protocol):
    """An input whose rows are kept: a ``ring`` of rows that leave in the order in which they came (in ``stub``), or a
    ``bag``. ``capacity`` is the room that they have here, a power of two."""

    capacity: int

    @property
    def spec(self) -> WindowOfInput: ...
    @property
    def ring(self) -> bool: ...
    @property
    def limit(self) -> int: ...
    @property
    def keys(self) -> Sequence[object]: ...
    @property
    def stub(self) -> Stub | None: ...
    @property
    def bag(self) -> Bag | None: ...

    def key_codes(self, columns: Mapping[str, pa.Array], n: int) -> tuple[Int64s, Int64s]: ...
    def rows_at(self, positions: Int64s) -> dict[str, pa.Array]: ...


class JoinContents:
    """Synopses of the inputs of a join, with a chained hash index for every set of columns that is probed. Keys of one
    ``key_class`` are equal where rows join."""

    laid: Laid  # as of the last layout
    _from: list[int]  # by input the first position that was moved then, or has been written to since

    def __init__(self, sides: Sequence[Side], key_class: Mapping[tuple[int, int], int]) -> None:
        self.sides: Sequence[Side] = list(sides)
        self.key_class = dict(key_class)  # by input and key
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

    def owns(self, x: int) -> bool:
        """Whether an index is laid out here; else it is shared with other joins (``pooled_contents``)."""
        return True

    def _own(self, i: int) -> list[int]:
        return [x for x in self.indexes_of(i) if self.owns(x)]

    def _new_records(self, words: int) -> Int64s:
        return np.zeros(words, np.int64)

    def _new_heads(self, words: int) -> Int64s:
        return np.full(words, -1, np.int64)

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
            self.inputs[i, k.DELETES : k.LIMIT + 1] = s.spec.deletes, low, high, s.limit
            self._assign(i, capacities[i])
        self._from = [self._begin(i) for i in range(m)]
        # Zeros that were not read yet take no memory.
        pos, code, records = (max(1, n + n // PARTS_PER_SPARE) for n in self._free)
        self.records, self.codes = self._new_records(records), np.zeros(code, np.int64)
        self.leave, self.weight, self.rownum, self.born = (np.zeros(pos, np.int64) for _ in range(4))
        for i in range(m):
            if old is not None:
                self._move(i, old)
        self._lay_out_heads(old)
        self.number_rows()
        self._done()

    def _done(self) -> None:
        for i, s in enumerate(self.sides):
            mine = self.indexes[self._own(i)]
            self.inputs[i, k.ROOM] = min([s.capacity, *(mine[mine[:, k.IX_COLS] > 0, k.IX_HEAD_MASK] + 1).tolist()])
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
        for x in self._own(i):
            self.indexes[x, [k.IX_REC_OFF, k.IX_REC_MASK]] = self._free[2], capacity - 1
            self._free[2] += capacity * int(self.indexes[x, k.IX_REC_WIDTH])

    def _lay_out_heads(self, old: Laid | None) -> None:
        """Give indexes as many heads as they need, take over those that have as many as before, build the others anew.

        Heads of indexes over the same classes of keys are interleaved, for equal keys have equal hashes. All get as
        many as the largest needs, which makes the chains of the others shorter; but not where all inputs only grow, and
        the largest would have ever more memory filled for the others."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for (target, columns), x in self.index_of.items():
            if not self.owns(x):
                continue
            groups.setdefault(tuple(self.key_class[target, c] for c in columns), []).append(x)
        heads = 0
        for classes, indexes in groups.items():
            need = {x: self._heads_for(x, old) if classes else 1 for x in indexes}
            apart = not any(self._bounded(int(self.indexes[x, k.IX_INPUT])) for x in indexes)
            for group in alike(need) if apart else (indexes,):
                slots = max(need[x] for x in group)
                for j, x in enumerate(group):
                    self.indexes[x, k.IX_HEAD_OFF : k.IX_HEAD_STRIDE + 1] = heads + j, slots - 1, len(group)
                heads += slots * len(group)
        if old is None or not self._heads_stay(old):
            self.heads = self._new_heads(max(heads, 1))
        for i in range(len(self.sides)):
            for x in self._own(i):
                if old is None or not self._take_over(x, old):
                    self.relink(i, x)

    def _heads_stay(self, old: Laid) -> bool:
        heads = slice(k.IX_HEAD_OFF, k.IX_HEAD_STRIDE + 1)
        return self.index_of == old.index_of and np.array_equal(self.indexes[:, heads], old.indexes[:, heads])

    def _heads_for(self, x: int, old: Laid | None) -> int:
        """How many heads an index needs: as many as there is room for rows, if that is near. What it had is kept, as
        long as that is not far too much."""
        i = int(self.indexes[x, k.IX_INPUT])
        side, rows = self.sides[i], self._end(i) - self._begin(i)
        times = HEADS_PER_ROW if rows < MANY_ROWS else min(HEADS_PER_ROW, HEADS_PER_ROW_OF_MANY)
        bounded = self._bounded(i)  # and the room is what its window needs
        near = max((2 * HEADS_PER_ROW if bounded else times) * rows, FIRST_CAPACITY)
        fits = side.capacity <= near
        need = side.capacity if fits else 1 << (max(times * rows, FIRST_CAPACITY) - 1).bit_length()
        was = None if old is None else self._before(x, old)
        had = 0 if was is None else int(was[k.IX_HEAD_MASK]) + 1
        enough = rows < had and not (bounded and fits and need > had)
        return had if enough and had < MAX_HEADS_RATIO * need else need

    def _bounded(self, i: int) -> bool:
        """Whether rows leave an input as others come."""
        return self.sides[i].ring and not isinstance(self.sides[i].spec.window, Unbounded)

    def _before(self, x: int, old: Laid) -> Int64s | None:
        """An index as it was laid out before, if it is not new."""
        was = old.index_of.get(next(key for key, number in self.index_of.items() if number == x))
        return None if was is None else old.indexes[was]

    def _move(self, i: int, old: Laid) -> None:
        # How often a ring's rows were born is never read: a copy of it would only take memory.
        names = ("leave", "weight") if self.sides[i].ring else ("leave", "weight", "born")
        for was, now, n in self._pieces(i, old):
            a, b = int(old.inputs[i, k.POS_OFF]) + was, int(self.inputs[i, k.POS_OFF]) + now
            for name in names:
                getattr(self, name)[b : b + n] = getattr(old, name)[a : a + n]
            width = len(self.sides[i].keys)
            a = int(old.inputs[i, k.CODE_OFF]) + was * width
            b = int(self.inputs[i, k.CODE_OFF]) + now * width
            self.codes[b : b + n * width] = old.codes[a : a + n * width]

    def _take_over(self, x: int, old: Laid) -> bool:
        """Have an index as it was, if it has as many heads as it had: to build it anew is to go to as many places in
        memory as it has rows."""
        new, before = self.indexes[x], self._before(x, old)
        if before is None or before[k.IX_HEAD_MASK] != new[k.IX_HEAD_MASK]:
            return False
        self._move_records(x, before, old)
        if old.heads is not self.heads:
            _heads_of(self.heads, new)[:] = _heads_of(old.heads, before)
        return True

    def _move_records(self, x: int, before: Int64s, old: Laid) -> None:
        new, i = self.indexes[x], int(self.indexes[x, k.IX_INPUT])
        if old.records is self.records and before[k.IX_REC_OFF] == new[k.IX_REC_OFF]:
            return
        width = int(new[k.IX_REC_WIDTH])
        for start, begin, n in self._pieces(i, old):
            a, b = int(before[k.IX_REC_OFF]) + start * width, int(new[k.IX_REC_OFF]) + begin * width
            self.records[b : b + n * width] = old.records[a : a + n * width]

    def _pieces(self, i: int, old: Laid) -> Iterator[tuple[int, int, int]]:
        was, now = int(old.inputs[i, k.POS_MASK]), int(self.inputs[i, k.POS_MASK])
        return pieces(self._begin(i), min(self._end(i), self._begin(i) + was + 1), was, now)

    def number_rows(self, i: int | None = None, slots: Int64s | None = None) -> None:
        """Repeat where the rows of bags are: of one bag, and of some of its slots, if they are named."""
        for j, s in enumerate(self.sides):
            if s.bag is not None and i in (None, j):
                at = int(self.inputs[j, k.POS_OFF])
                if slots is None:
                    many = min(s.bag.table.capacity, s.capacity)
                    self.rownum[at : at + many] = s.bag.rownum[:many]
                else:
                    self.rownum[at + slots] = s.bag.rownum[slots]

    # ── growing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def grow(self, i: int) -> None:
        """Have more room for an input that is full, and for those that soon will be, or more heads."""
        if int(self.tail[i] - self.first[i]) < self.sides[i].capacity:
            self.fit_heads()
        else:
            self.resize([self._room_for(j, full=j == i) for j in range(len(self.sides))])

    def fit_heads(self) -> None:
        """Have more heads for the indexes of inputs with as many rows as heads, where there is room for more rows."""
        rooms = self.inputs[:, k.ROOM].tolist()
        if any(self._end(i) - self._begin(i) >= rooms[i] < s.capacity for i, s in enumerate(self.sides)):
            self._lay_out_heads(self.laid)
            self._done()

    def resize(self, capacities: Sequence[int]) -> None:
        """Have room for so many rows, never fewer than now."""
        if not self._grow_into_spare(capacities):
            self.lay_out(capacities)

    def _room_for(self, i: int, full: bool) -> int:
        """What a ring needs: as many rows as its window will hold if it goes on as in the part that is filled, and half
        as many, but not more than a multiple of what it has held, because it may not; at least the double where it is
        full. A window without an end gets that multiple."""
        side, held = self.sides[i], int(self.tail[i] - self.first[i])
        if not side.ring or held < 2:
            return side.capacity
        window, stride = side.spec.window, stride_from(held)
        ahead = stride * held if 2 * held > side.capacity else held
        if side.limit:
            ahead = side.limit + 1
        elif isinstance(window, Range | Stepping):
            begin, end = self.leave[self.place(i, np.array([self.first[i], self.tail[i] - 1]))]
            span = max(int(end - begin), window.slide if isinstance(window, Stepping) else 0)
            ahead = 3 * held * window.width // (2 * span) if span else GROWTH_IN_ONE_INSTANT * held if full else held
        need = max(min(ahead, stride * held), 2 * held if full else held)
        return max(side.capacity, 1 << (need - 1).bit_length())

    def _grow_into_spare(self, capacities: Sequence[int]) -> bool:
        """Move the inputs that grow, and no others, if there is room."""
        growing = [i for i, s in enumerate(self.sides) if capacities[i] != s.capacity]
        need = [0, 0, 0]
        for i in growing:
            records = int(self.indexes[self._own(i), k.IX_REC_WIDTH].sum())
            widths = 1, len(self.sides[i].keys), records
            need = [n + capacities[i] * w for n, w in zip(need, widths, strict=True)]
        room = len(self.leave), len(self.codes), len(self.records)
        if any(f + n > r for f, n, r in zip(self._free, need, room, strict=True)):
            return False
        for i in growing:
            self._assign(i, capacities[i])
            self._move(i, self.laid)
            self.number_rows(i)
        self._lay_out_heads(self.laid)
        self._done()
        return True

    # ── rows and their places ─────────────────────────────────────────────────────────────────────────────────────

    def indexes_of(self, i: int) -> range:
        return range(int(self.inputs[i, k.INDEX_FROM]), int(self.inputs[i, k.INDEX_TO]))

    def rows(self) -> list[int]:
        """How many rows each window has; 0 for bags, which are not counted."""
        held = zip(self.sides, self.first.tolist(), self.tail.tolist(), strict=True)
        return [tail - first if side.ring else 0 for side, first, tail in held]

    def _begin(self, i: int) -> int:
        """The first position that may hold a row."""
        return int(self.first[i]) if self.sides[i].ring else 0

    def _end(self, i: int) -> int:
        """The position after the last that may."""
        bag = self.sides[i].bag
        return int(self.tail[i]) if bag is None else bag.table.capacity

    def live(self, i: int) -> Int64s:
        """Positions of input i that hold a row."""
        if self.sides[i].ring:
            return np.arange(self.first[i], self.tail[i], dtype=np.int64)
        off, end = int(self.inputs[i, k.POS_OFF]), min(self._end(i), self.sides[i].capacity)
        return np.flatnonzero(self.weight[off : off + end])

    def place(self, i: int, positions: Int64s) -> Int64s:
        """Where the leave times, weights and row numbers of positions are."""
        return int(self.inputs[i, k.POS_OFF]) + (positions & int(self.inputs[i, k.POS_MASK]))

    def put(self, i: int, positions: Int64s, leaves: Int64s, weights: Int64s) -> None:
        """Fill one input with rows that its synopsis already holds, and index them."""
        self.fit_heads()  # of this input and those that are still to come, which are empty
        side, at = self.sides[i], self.place(i, positions)
        codes, valid = side.key_codes(side.rows_at(positions), len(positions))
        self.leave[at], self.weight[at] = leaves if side.ring else valid, weights
        width, code = len(side.keys), int(self.inputs[i, k.CODE_OFF])
        base = code + (positions & int(self.inputs[i, k.POS_MASK])) * width
        for j in range(width):
            self.codes[base + j] = codes[:, j]
        for x in self._own(i):
            self.relink(i, x)

    def relink(self, i: int, x: int) -> None:
        """Build an index of an input from its codes."""
        self.hash_index(x).insert(self._begin(i), self._end(i))

    def hash_index(self, x: int) -> HashIndex:
        """One index, good until things lie elsewhere."""
        return HashIndex(
            x, self.inputs, self.indexes, self.index_columns, self.heads, self.records, self.codes, self.leave,
            self.weight, self.first, bound_of(self.sides[int(self.indexes[x, k.IX_INPUT])].spec.window),
        )  # fmt: skip

    def give_back(self, bytes: int) -> int:
        """Lay out anew with as much room as there are rows, if that frees anything."""
        need = [
            max(FIRST_CAPACITY, 1 << (max(1, self._end(i) - self._begin(i)) - 1).bit_length())
            for i in range(len(self.sides))
        ]
        before = self.nbytes
        if all(n == s.capacity for n, s in zip(need, self.sides, strict=True)):
            return 0
        self.lay_out([min(n, s.capacity) for n, s in zip(need, self.sides, strict=True)])
        return max(0, before - self.nbytes)

    @property
    def nbytes(self) -> int:
        """What has been written to: room for rows that have not come takes no memory."""
        total = 8 * len(self.heads)
        widths = self.indexes[:, k.IX_REC_WIDTH].tolist()  # asked after every batch: numpy takes longer for a few
        for i, s in enumerate(self.sides):
            records = sum([widths[x] for x in self._own(i)])
            written = min(s.capacity, self._end(i) - int(self._from[i]))
            total += 8 * written * (len(s.keys) + records + (2 if s.ring else 4))
        return total


def alike(need: Mapping[int, int]) -> Iterator[list[int]]:
    """Indexes whose heads lie side by side: those that need about as many.

    >>> list(alike({0: 1024, 1: 16384, 2: 4096, 3: 512}))
    [[1, 2], [0, 3]]
    """
    left = dict(need)
    while left:
        most = max(left.values())
        group = [x for x, n in left.items() if MAX_HEADS_RATIO * n > most]
        yield group
        left = {x: n for x, n in left.items() if x not in group}


def stride_from(rows: int) -> int:
    """How many times as much room there is at most after growth."""
    return MAX_GROWTH if rows < MANY_ROWS else min(MAX_GROWTH, MAX_GROWTH_OF_MANY)


def _heads_of(heads: Int64s, index: Int64s) -> Int64s:
    off, mask, stride = index[k.IX_HEAD_OFF : k.IX_HEAD_STRIDE + 1].tolist()
    return heads[off : off + (mask + 1) * stride : stride]
