"""One chained hash index of a join's input (``kernels.join_layout`` draws its arrays)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.core.bound import Bound
from eddyline.core.delta import Int64s
from eddyline.kernels import join_index
from eddyline.kernels import join_layout as k


@dataclass(frozen=True, slots=True)
class HashIndex:
    """Index number ``number`` of a join, an ``Index``. Places are row numbers of a ring and slots of a bag."""

    number: int
    inputs: Int64s
    indexes: Int64s
    index_columns: Int64s
    heads: Int64s
    records: Int64s
    codes: Int64s
    leave: Int64s
    weight: Int64s
    first: Int64s
    bound: Bound

    @property
    def input(self) -> int:
        return int(self.indexes[self.number, k.IX_INPUT])

    def insert(self, begin: int, end: int) -> None:
        join_index.relink(
            self.input, self.number, begin, end, self.inputs, self.indexes, self.index_columns, self.heads,
            self.records, self.codes, self.leave, self.weight,
        )  # fmt: skip

    def expire(self, place: int) -> None:
        """Take a bag's row out of the chains of its input. Rows of a ring are out as soon as they are below ``first``:
        a walk along a chain ends there."""
        if self.inputs[self.input, k.KIND] == k.BAG:
            join_index.unlink(self.input, place, self.inputs, self.indexes, self.heads, self.records)

    def probe(self, key: Sequence[int]) -> Int64s:
        return self._walk(np.array([*key, 0], np.int64))

    def __len__(self) -> int:
        """Rows in all its chains."""
        off, mask, stride = self.indexes[self.number, k.IX_HEAD_OFF : k.IX_HEAD_STRIDE + 1].tolist()
        begun = self.heads[off : off + (mask + 1) * stride : stride]
        low, total = int(self.first[self.input]), 0
        while len(begun := begun[begun >= low]):
            total += len(begun)
            begun = self.records[self._record(begun)]
        return total

    def _record(self, places: Int64s) -> Int64s:
        width, mask = self.indexes[self.number, [k.IX_REC_WIDTH, k.IX_REC_MASK]].tolist()
        found: Int64s = int(self.indexes[self.number, k.IX_REC_OFF]) + (places & mask) * width
        return found

    def _walk(self, key: Int64s) -> Int64s:
        found = np.empty(0, np.int64)
        room = 64
        while True:
            found = np.empty(room, np.int64)
            found_count = int(
                join_index.probe(
                    self.number, key, self.inputs, self.indexes, self.heads, self.records, self.first, found
                )
            )
            if found_count <= room:
                return found[:found_count]
            room = found_count

    @property
    def nbytes(self) -> int:
        """Of its heads and of the records of the rows in it."""
        heads = int(self.indexes[self.number, k.IX_HEAD_MASK]) + 1
        return 8 * (heads + len(self) * int(self.indexes[self.number, k.IX_REC_WIDTH]))

    def give_back(self, bytes: int) -> int:
        """Heads of several indexes lie side by side: only the contents of the join as a whole can be made smaller."""
        return 0
