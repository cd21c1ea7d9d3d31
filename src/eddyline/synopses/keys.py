"""The key table: rows of any types ↔ dense ids.

Grouping, duplicate elimination, set operators, partitioned windows and the bags behind joins all need the same thing:
equal rows get the same small integer, NULL is a value, NaN equals NaN, and what is no longer used is given back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s
from eddyline.kernels import keys as kernels
from eddyline.synopses.codes import Dictionary, direct_codes, direct_values, is_direct


class KeyTable:
    """Interns rows of columns.

    >>> t = KeyTable([pa.string(), pa.int64()])
    >>> t.intern([pa.array(["a", "b", "a", None]), pa.array([1, 1, 1, None])], 4).tolist()
    [0, 1, 0, 2]
    >>> [c.to_pylist() for c in t.values(np.array([2, 1]))]
    [[None, 'b'], [None, 1]]
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        # A column of ids more for the NULLs of a row, as a bit mask.
        self.width = len(self.types) + 1
        self.dictionaries = [None if is_direct(t) else Dictionary() for t in self.types]
        self.keys = np.zeros((64, self.width), np.int64)
        self.table = np.full(128, kernels.EMPTY, np.int64)
        self.free = np.zeros(64, np.int64)
        self.meta = np.zeros(4, np.int64)

    def __len__(self) -> int:
        return int(self.meta[kernels.LIVE])

    @property
    def capacity(self) -> int:
        """One more than the largest id ever given: the length that arrays indexed by id need."""
        return int(self.meta[kernels.NEXT])

    @property
    def nbytes(self) -> int:
        strings = sum(d.nbytes for d in self.dictionaries if d is not None)
        return self.keys.nbytes + self.table.nbytes + self.free.nbytes + strings

    def intern(self, columns: Sequence[pa.Array], length: int) -> Int64s:
        if len(columns) == 1 and self.dictionaries[0] is not None:
            return self._intern_strings(columns[0], self.dictionaries[0])
        return self._intern(self._encode(columns, length))

    def _intern_strings(self, column: pa.Array, dictionary: Dictionary) -> Int64s:
        """A single key with a dictionary: only its distinct values are looked up."""
        local, where, nulls = dictionary.positions(column)
        used = np.flatnonzero(local >= 0)
        rows = np.zeros((len(used) + (nulls is not None), 2), np.int64)
        rows[: len(used), 0] = local[used]
        if nulls is not None:
            rows[-1, 1] = 1
        ids = self._intern(rows)
        local[used] = ids[: len(used)]
        out: Int64s = local[where]
        if nulls is not None:
            out[nulls] = ids[-1]
        return out

    def _intern(self, rows: Int64s) -> Int64s:
        length = len(rows)
        out = np.empty(length, np.int64)
        before = self.capacity, int(self.meta[kernels.FREE]), len(self)
        done = 0
        while done < length:
            done = kernels.intern(rows, done, self.keys, self.table, self.free, self.meta, out)
            if done < length:
                self._grow()
        if len(self) != before[2]:
            self._retain_new(out, before[0], before[1])
        return out

    def find(self, columns: Sequence[pa.Array], length: int) -> Int64s:
        """The ids of rows, −1 for those that are not in the table, which stays as it is."""
        rows = self._encode(columns, length, known=True)
        out = np.empty(length, np.int64)
        kernels.find(rows, self.keys, self.table, out)
        return out

    def release(self, ids: Int64s) -> None:
        """Forget ids; the caller guarantees that nothing uses them and that none is named twice."""
        ids = np.ascontiguousarray(ids, np.int64)
        for j, d in enumerate(self.dictionaries):
            if d is not None:
                valid = ids[(self.keys[ids, -1] >> j) & 1 == 0]
                d.give_back(self.keys[valid, j])
        kernels.release(ids, self.keys, self.table, self.free, self.meta)

    def values(self, ids: Int64s) -> list[pa.Array]:
        rows = self.keys[ids]
        out = []
        for j, (type, d) in enumerate(zip(self.types, self.dictionaries, strict=True)):
            nulls = (rows[:, -1] >> j) & 1 == 1
            if d is None:
                out.append(direct_values(np.ascontiguousarray(rows[:, j]), type, nulls))
            elif np.count_nonzero(nulls):
                kept = d.decode(rows[~nulls, j], type)
                index = np.cumsum(~nulls) - 1
                out.append(kept.take(pa.array(index, mask=nulls)))
            else:
                out.append(d.decode(rows[:, j], type))
        return out

    def live_ids(self) -> Int64s:
        mask = np.ones(self.capacity, np.bool_)
        mask[self.free[: int(self.meta[kernels.FREE])]] = False
        return np.flatnonzero(mask)

    def state(self) -> dict[str, Any]:
        ids = self.live_ids()
        return {"ids": ids, "capacity": self.capacity, "columns": {str(i): c for i, c in enumerate(self.values(ids))}}

    def load(self, state: dict[str, Any]) -> None:
        """Live keys get back the very ids they had: the arrays of the owner are indexed by them."""
        ids, capacity = state["ids"], int(state["capacity"])
        self.__init__(self.types)  # type: ignore[misc]
        rows = self._encode([state["columns"][str(i)] for i in range(len(self.types))], len(ids))
        size = 64
        while size < capacity:
            size *= 2
        self.keys = np.zeros((size, self.width), np.int64)
        self.free = np.zeros(size, np.int64)
        self.table = np.full(size * 2, kernels.EMPTY, np.int64)
        self.keys[ids] = rows
        gone = np.setdiff1d(np.arange(capacity), ids)[::-1]
        self.free[: len(gone)] = gone
        self.meta[:] = (capacity, len(gone), 0, len(ids))
        kernels.rebuild(np.ascontiguousarray(ids), self.keys, self.table, self.meta)
        for j, d in enumerate(self.dictionaries):
            if d is not None:
                d.retain(rows[(rows[:, -1] >> j) & 1 == 0, j])

    def _encode(self, columns: Sequence[pa.Array], length: int, known: bool = False) -> Int64s:
        rows = np.empty((length, self.width), np.int64)
        rows[:, -1] = 0
        for j, (column, d) in enumerate(zip(columns, self.dictionaries, strict=True)):
            codes, nulls = direct_codes(column) if d is None else d.encode(column, known)
            rows[:, j] = codes
            if nulls is not None:
                rows[nulls, j] = 0
                rows[nulls, -1] |= 1 << j
        return rows

    def _grow(self) -> None:
        live = self.live_ids()
        if len(live) * 4 >= len(self.table):
            self.table = np.full(len(self.table) * 2, kernels.EMPTY, np.int64)
        else:  # only graves in the way
            self.table = np.full(len(self.table), kernels.EMPTY, np.int64)
        if self.capacity >= len(self.keys):
            self.keys = np.concatenate([self.keys, np.zeros_like(self.keys)])
            self.free = np.concatenate([self.free, np.zeros_like(self.free)])
        kernels.rebuild(np.ascontiguousarray(live), self.keys, self.table, self.meta)

    def _retain_new(self, out: Int64s, fresh: int, free: int) -> None:
        if all(d is None for d in self.dictionaries):
            return
        reused = self.free[int(self.meta[kernels.FREE]) : free]
        new = np.concatenate([reused, np.arange(fresh, self.capacity)])
        for j, d in enumerate(self.dictionaries):
            if d is not None:
                d.retain(self.keys[new[(self.keys[new, -1] >> j) & 1 == 0], j])


def numbered(columns: Sequence[pa.Array], length: int) -> tuple[Int64s, int]:
    """Equal rows get equal numbers, dense from 0, that mean nothing beyond this call; also how many there are.

    >>> numbered([pa.array(["a", "b", "a", None]), pa.array([1.5, 1.5, 1.5, None])], 4)
    (array([0, 1, 0, 2]), 3)
    """
    rows = np.zeros((length, len(columns) + 1), np.int64)
    for j, column in enumerate(columns):
        if is_direct(column.type):
            codes, nulls = direct_codes(column)
        else:
            if pa.types.is_dictionary(column.type):  # nothing forbids a dictionary to hold a value twice
                column = column.dictionary_decode()
            index = column.dictionary_encode().indices
            nulls = None if index.null_count == 0 else np.asarray(index.is_null())
            codes = (index if nulls is None else index.fill_null(0)).to_numpy(zero_copy_only=False)
        rows[:, j] = codes
        if nulls is not None:
            rows[nulls, j] = 0
            rows[nulls, -1] |= 1 << j
    table = np.full(1 << max(4 * length - 1, 1).bit_length(), kernels.EMPTY, np.int64)
    out, meta = np.empty(length, np.int64), np.zeros(4, np.int64)
    done = kernels.intern(rows, 0, np.empty_like(rows), table, np.zeros(1, np.int64), meta, out)
    assert done == length
    return out, int(meta[kernels.NEXT])
