"""One hash index for several joins over the same rows: of queries that came at different times, with windows of
different widths, and not equally far.

Positions are the row numbers of the store that the joins' windows share (``synopses.store``); a join that shares an
index counts its rows as the store does. The kernel of each join puts rows in and walks along chains as in an index of
its own, whether or not other joins share it.

*Why a join sees its own rows and no others.* A chain holds rows by descending number. A walk ends at the first row
below the join's own ``first``: rows that left its window, or came before its query, are behind. Rows that the join has
not come to, because another one is ahead, would be in front. So before a join runs, the index is *brought to* the row
where that join stands: the newest rows are taken out again, the last first (``kernels.join_index.rewind``), or those
are put in that it has and the index has not. Since heads are what they were, the join then puts in the same rows with
the same records as the one before it. So the index is no state of any join, and holds the rows of ``floor`` … ``end`` −
1.

*What it takes.* Heads and records are there once, for the rows from the oldest that any reader needs to the newest that
any has: readers add nothing. To bring the index back costs a visit for each row that a join is behind another: for
joins that take the same batches in turn one for each row that arrives. A join that stands far behind or ahead would pay
more (``MAX_REWINDS_PER_ARRIVAL``): it has an index of its own until it stands near.

*What would be wrong*: to let walks skip rows in front that are too new, for a join with a narrow window that takes
large batches would skip far more rows than it finds; to share between two inputs of one join, for within a run they
stand at different rows; to share where one join leaves out rows that another puts in (``IndexReader.kind``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import join_index
from eddyline.kernels import join_layout as k
from eddyline.synopses.index_pool import IndexPool
from eddyline.synopses.store import Store, Stub

INITIAL_ROOM = 256  # rows for which a new index has room
GROWTH_FACTOR = 2  # an index that grows gets room for so many times its rows: larger moves rows less often
SHRINK_FACTOR = 16  # an index with room for so many times its rows is made smaller
# Rows that may be taken out or put in again for a join: so many for each row that arrives, and so many besides. More
# lets joins share that are farther apart, and costs time.
MAX_REWINDS_PER_ARRIVAL, FREE_REWINDS = 4, 1 << 14
MAX_ROWS_APART = 1 << 12  # rows between two joins that may share again


class SharedIndex:
    """An index ``on`` some keys, as they are called in explain. ``row`` describes it as joins repeat it in theirs
    (``kernels.join_layout``)."""

    def __init__(self, pool: IndexPool, on: Sequence[str], gone: Callable[[], object]) -> None:
        self.pool, self.on, self._gone = pool, tuple(on), gone
        columns = len(on)
        self.row = np.zeros((1, k.INDEX_FIELDS), np.int64)
        self.row[0, [k.IX_HEAD_STRIDE, k.IX_REC_WIDTH, k.IX_COLS]] = 1, 1 + columns, columns
        self.readers: dict[
            IndexReader, tuple[int, int]
        ] = {}  # the rows that each needs: the first, and behind the last
        self.floor = self.end = 0
        self.empty = True
        self.rewound = 0  # rows that were taken out to be put in again
        self.room = 0

    @property
    def width(self) -> int:
        return int(self.row[0, k.IX_REC_WIDTH])

    @property
    def heads(self) -> int:
        return int(self.row[0, k.IX_HEAD_MASK]) + 1 if self.room else 0

    def __len__(self) -> int:
        return 0 if self.empty else self.end - self.floor

    @property
    def nbytes(self) -> int:
        held = max((tail for _, tail in self.readers.values()), default=0) - self._low
        return 8 * (self.heads + min(held, self.room) * self.width)

    @property
    def _low(self) -> int:
        return min((first for first, _ in self.readers.values()), default=self.end)

    # ── room ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def make_room(self, reader: IndexReader, first: int, end: int) -> None:
        """Have room for the rows that a reader needs who will come to row ``end``, and for those of the readers near.
        One that has no row in common with it (it waits for another stream) puts its rows in anew when it goes on."""
        self.readers[reader] = (first, end)
        near = [(f, t) for f, t in self.readers.values() if f <= end and first <= t]
        low = min(f for f, _ in near)
        need = max(INITIAL_ROOM, max(t for _, t in near) - low)
        if need > self.room or need * SHRINK_FACTOR < self.room:
            self._resize(1 << (GROWTH_FACTOR * need - 1).bit_length(), low)

    def _resize(self, room: int, low: int) -> None:
        """Move the records that are needed, and hash all rows anew."""
        low, old, was = max(self.floor, low, self.end - room), self.row.copy(), self.room
        self.floor = low
        linked = np.zeros(max(0, self.end - low), np.int64)
        if len(linked):
            join_index.rewind(0, low, self.end, self.row, self.pool.heads.array, self.pool.records.array, linked)
        rows = np.arange(low, low + len(linked))
        width, offset = self.width, int(old[0, k.IX_REC_OFF])
        each = np.arange(width)
        kept = self.pool.records.array[(offset + (rows & int(old[0, k.IX_REC_MASK])) * width)[:, None] + each]
        if was:
            self.free()
        self.room = room
        heads, records = self.pool.heads.take(room), self.pool.records.take(room * width)
        self.row[0, [k.IX_HEAD_OFF, k.IX_HEAD_MASK, k.IX_REC_OFF, k.IX_REC_MASK]] = heads, room - 1, records, room - 1
        self.pool.heads.array[heads : heads + room] = -1
        self.pool.records.array[(records + (rows & (room - 1)) * width)[:, None] + each] = kept
        if len(linked):
            self._relink(low, linked)

    def _relink(self, low: int, linked: Int64s) -> None:
        """Put rows in by the codes in their records."""
        inputs = np.zeros((1, k.INPUT_FIELDS), np.int64)
        columns, records = int(self.row[0, k.IX_COLS]), self.pool.records.array
        code = int(self.row[0, k.IX_REC_OFF]) + self.width - columns
        inputs[0, [k.KIND, k.POS_MASK, k.CODE_OFF, k.CODE_WIDTH]] = k.RING, self.room - 1, code, self.width
        there = np.zeros(self.room, np.int64)
        there[(low + np.arange(len(linked))) & (self.room - 1)] = linked
        numbers = np.arange(max(1, columns))
        join_index.relink(
            0, 0, low, low + len(linked), inputs, self.row, numbers, self.pool.heads.array, records, records, there,
            there,
        )  # fmt: skip

    def free(self) -> None:
        self.pool.heads.give(int(self.row[0, k.IX_HEAD_OFF]), self.room)
        self.pool.records.give(int(self.row[0, k.IX_REC_OFF]), self.room * self.width)
        self.room = 0

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def bring_to(self, first: int, tail: int, insert: Callable[[int, int], None]) -> int:
        """Hold the rows ``first`` … ``tail`` − 1, older ones maybe, and none behind; ``insert`` puts a range of the
        join's own rows in. How many rows were taken out or put in."""
        if self.empty or self.floor > first or self.end < first:
            heads = int(self.row[0, k.IX_HEAD_OFF])
            self.pool.heads.array[heads : heads + self.room] = -1
            self.empty, self.floor, self.end = False, first, first
        moved = abs(self.end - tail)
        if self.end > tail:
            linked = np.empty(moved, np.int64)
            join_index.rewind(0, tail, self.end, self.row, self.pool.heads.array, self.pool.records.array, linked)
            self.rewound += moved
        elif self.end < tail:
            insert(self.end, tail)
        self.end = tail
        return moved

    def ran(self, reader: IndexReader, first: int, tail: int) -> None:
        """A join has put its rows in up to ``tail`` − 1, and needs those from ``first`` on."""
        self.end = tail
        self.readers[reader] = (first, tail)
        # Rows that have lain a ring's length behind are overwritten.
        self.floor = max(self.floor, min(self._low, tail), tail - self.room)

    def remove(self, reader: IndexReader) -> None:
        self.readers.pop(reader, None)
        if not self.readers:
            if self.room:
                self.free()
            self._gone()


class IndexReader:
    """What an input of a join has of indexes that it shares, by the columns that they are on.

    ``kind`` says what the rows of an index are, beside the store: inputs with the same ``kind`` put the same rows in,
    under the same codes. ``owner`` is the join; ``names`` are those of the keys.
    """

    def __init__(self, stub: Stub, kind: Hashable, owner: object, names: Sequence[str]) -> None:
        self.stub, self.kind, self.owner, self.names = stub, kind, owner, tuple(names)
        self.home: Store | None = None  # the store whose rows the indexes are over; None: the join has its own
        self.offset = 0  # by which the join's row numbers are larger than its stub's
        self.indexes: dict[tuple[int, ...], SharedIndex] = {}
        self.tail = 0  # where its join stands, as the store counts
        self._seen: tuple[int, int] | None = None  # the company in which it last looked for others
        self.moved = self.arrived = 0  # rows taken out of indexes or put in before runs; rows that came
        self._alone_until: int | None = None  # the row before which it does not share again
        self.gone: Callable[[], None] = _nothing  # to be called when the join is removed
        stub.companion = self

    # ── whom it shares with ───────────────────────────────────────────────────────────────────────────────────────

    def peers(self) -> list[IndexReader]:
        """Inputs of other joins with the same rows and keys."""
        found = (s.companion for s in self.stub.store.stubs)
        return [
            c for c in found if isinstance(c, IndexReader) and c.kind == self.kind and c.owner is not self.owner
        ]  # fmt: skip

    def wants_change(self, tail: int) -> bool:
        """Whether to begin or to end sharing, now that the join stands at row ``tail`` of its stub."""
        store = self.stub.store
        self.tail = tail + self.stub.shift
        if self.arrived > 1 << 20:  # what was long ago counts less
            self.moved, self.arrived = self.moved // 2, self.arrived // 2
        if self.home is not None:
            return self.home is not store or self.moved > MAX_REWINDS_PER_ARRIVAL * self.arrived + FREE_REWINDS
        company = (id(store), store.company)
        if len(store.stubs) == 1 or (company == self._seen and self._alone_until is None):
            return False
        self._seen = company
        if self.stub.low + self.stub.shift < 0 or (self._alone_until is not None and self.tail < self._alone_until):
            return False
        peers = self.peers()
        apart = self._alone_until is not None and not any(abs(p.tail - self.tail) <= MAX_ROWS_APART for p in peers)
        return bool(peers) and not apart

    def change(self) -> None:
        """Begin to share or end it. The join has to number its rows and to lay its indexes out anew."""
        if self.home is None:
            self.home, self.offset, self._alone_until = self.stub.store, self.stub.shift, None
        else:
            if self.home is self.stub.store:
                self._alone_until = self.tail + max(len(self.stub), MAX_ROWS_APART)
            self.leave()
        self.moved = self.arrived = 0

    def leave(self) -> None:
        for index in list(self.indexes.values()):
            index.remove(self)
        self.indexes, self.home, self.offset, self._seen = {}, None, 0, None

    def forget(self) -> None:
        """Its join was removed."""
        self.leave()
        self.gone()

    # ── its indexes ───────────────────────────────────────────────────────────────────────────────────────────────

    def keep(self, wanted: Iterable[tuple[int, ...]]) -> None:
        """Have indexes on these columns and no others."""
        assert self.home is not None
        wanted = set(wanted)
        for columns in [c for c in self.indexes if c not in wanted]:
            self.indexes.pop(columns).remove(self)
        for columns in wanted - self.indexes.keys():
            self.indexes[columns] = self._index(self.home, columns)

    def _index(self, store: Store, columns: tuple[int, ...]) -> SharedIndex:
        known, key = store.indexes, (self.kind, columns)
        if key not in known:
            known[key] = SharedIndex(self.stub.pool, [self.names[c] for c in columns], lambda: known.pop(key))
        found: Any = known[key]
        found.readers[self] = (self.stub.low + self.offset, self.tail)
        assert isinstance(found, SharedIndex)
        return found


def _nothing() -> None:
    pass
