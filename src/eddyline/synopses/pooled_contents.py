"""The contents of a join that shares some indexes with other joins (``synopses.shared_index``).

The kernel finds all heads in one array, and all records. So a join that shares an index has those of its other indexes
in the arrays of the same pool too, in blocks of its own. A join that shares none has arrays of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import join_layout as k
from eddyline.synopses.hash_index import HashIndex
from eddyline.synopses.index_pool import IndexPool, Pool
from eddyline.synopses.join_contents import JoinContents, Laid, Side
from eddyline.synopses.shared_index import IndexReader, SharedIndex

SHARED_FIELDS = (
    k.IX_HEAD_OFF, k.IX_HEAD_MASK, k.IX_HEAD_STRIDE, k.IX_REC_OFF, k.IX_REC_WIDTH, k.IX_REC_MASK,
)  # fmt: skip


class Block:
    """Words of a pool that belong to one join."""

    def __init__(self, pool: Pool, words: int) -> None:
        self.pool, self.words, self.at = pool, words, pool.take(words)

    def give(self) -> None:
        self.pool.give(self.at, self.words)


class PooledContents(JoinContents):
    """``readers`` are those of the inputs that may share their indexes."""

    pool: IndexPool | None = None  # while any index is shared

    def __init__(
        self, sides: Sequence[Side], key_class: Mapping[tuple[int, int], int], readers: Mapping[int, IndexReader]
    ) -> None:
        super().__init__(sides, key_class)
        self.readers = dict(readers)
        self._blocks: dict[str, Block] = {}
        self._shared: dict[int, tuple[IndexReader, tuple[int, ...]]] = {}  # by number of an index
        for reader in self.readers.values():
            reader.gone = self.release

    def owns(self, x: int) -> bool:
        return x not in self._shared

    def release(self) -> None:
        """Give the blocks back: the join was removed, or has its own arrays from now on."""
        for block in self._blocks.values():
            block.give()
        self._blocks = {}

    # ── laying out ────────────────────────────────────────────────────────────────────────────────────────────────

    def lay_out(self, capacities: Sequence[int], fresh: bool = False) -> None:
        if fresh:
            self.release()
            pools = [r.stub.pool for r in self.readers.values() if r.home is not None]
            self.pool = pools[0] if pools else None
        self._shared = {}
        for i, reader in self.readers.items():
            if reader.home is not None:
                mine = {columns: x for (target, columns), x in self.index_of.items() if target == i}
                reader.keep(mine)
                self._shared |= {x: (reader, columns) for columns, x in mine.items()}
        self._place()
        super().lay_out(capacities, fresh)

    def _lay_out_heads(self, old: Laid | None) -> None:
        super()._lay_out_heads(old)
        self._place()

    def _place(self) -> bool:
        """Repeat where shared indexes are; whether that has changed."""
        changed = False
        for x, (reader, columns) in self._shared.items():
            row = reader.indexes[columns].row[0, SHARED_FIELDS]
            if not np.array_equal(self.indexes[x, SHARED_FIELDS], row):
                self.indexes[x, SHARED_FIELDS] = row
                changed = True
        return changed

    def _new_records(self, words: int) -> Int64s:
        if self.pool is None:
            return super()._new_records(words)
        return self._block("records", self.pool.records, words, k.IX_REC_OFF)

    def _new_heads(self, words: int) -> Int64s:
        if self.pool is None:
            return super()._new_heads(words)
        array = self._block("heads", self.pool.heads, words, k.IX_HEAD_OFF)
        array[self._blocks["heads"].at :][:words] = -1
        return array

    def _block(self, name: str, pool: Pool, words: int, field: int) -> Int64s:
        """A block instead of the one before, for the indexes that are not shared."""
        if name in self._blocks:
            self._blocks[name].give()  # rows are put in again by their codes, so nothing of it is needed
        block = self._blocks[name] = Block(pool, words)
        own = [x for x in range(len(self.indexes)) if self.owns(x)]
        self.indexes[own, field] += block.at
        return pool.array

    def _heads_stay(self, old: Laid) -> bool:
        return self.pool is None and super()._heads_stay(old)

    def _take_over(self, x: int, old: Laid) -> bool:
        return self.pool is None and super()._take_over(x, old)

    def _grow_into_spare(self, capacities: Sequence[int]) -> bool:
        return self.pool is None and super()._grow_into_spare(capacities)

    def hash_index(self, x: int) -> HashIndex:
        self._refresh()
        return super().hash_index(x)

    def _refresh(self) -> None:
        """The arrays of a pool are others when it has grown."""
        if self.pool is not None:
            self.heads, self.records = self.pool.heads.array, self.pool.records.array

    # ── before and after a run ────────────────────────────────────────────────────────────────────────────────────

    def _each(self) -> Iterator[tuple[int, int, IndexReader, SharedIndex]]:
        for x, (reader, columns) in self._shared.items():
            yield x, int(self.indexes[x, k.IX_INPUT]), reader, reader.indexes[columns]

    def bring_indexes(self, coming: Sequence[int]) -> None:
        """Have shared indexes where this join stands, with room for the elements that may come, by input."""
        if self.pool is None:
            return
        for _, i, reader, index in self._each():
            index.make_room(reader, int(self.first[i]), int(self.tail[i]) + coming[i])
        self._refresh()
        if self._place():
            self.moved()
        for x, i, reader, index in self._each():
            reader.moved += index.bring_to(int(self.first[i]), int(self.tail[i]), self.hash_index(x).insert)

    def indexes_ran(self, before: Sequence[int]) -> None:
        """The kernel has put rows in; ``before`` are the ends of the inputs before it ran."""
        for _, i, reader, index in self._each():
            index.ran(reader, int(self.first[i]), int(self.tail[i]))
            reader.arrived += int(self.tail[i]) - before[i]

    @property
    def nbytes(self) -> int:
        if self.pool is None:
            return super().nbytes
        heads = 8 * len(self.heads)  # of the whole pool
        own = 8 * self._blocks["heads"].words if "heads" in self._blocks else 0
        shared = sum(index.nbytes // max(1, len(index.readers)) for *_, index in self._each())
        return super().nbytes - heads + own + shared
