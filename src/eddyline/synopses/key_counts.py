"""Counts of the keys in a relation, as of any instant of the batch that is being processed.

A relation changes between the instants of a batch, and a row that is judged at its own instant must see the relation
of that instant: all changes up to and including it. The changes of the batch are kept beside the counts before it, by
key and time, so that all rows of a batch can be judged in one call, in any order; ``settle`` then adds them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s
from eddyline.synopses.keys import KeyTable

_NOTHING: Int64s = np.empty(0, np.int64)


class Tally:
    """One number that changes with time.

    >>> rows = Tally()
    >>> rows.change(np.array([3, 3, 7]), np.array([1, 1, -1]))
    >>> rows.at(np.array([2, 3, 6, 7])).tolist()
    [0, 2, 2, 1]
    """

    __slots__ = ("_after", "_time", "now")

    def __init__(self, now: int = 0) -> None:
        self.now = now
        self._time, self._after = _NOTHING, np.array([now], np.int64)

    def change(self, time: Int64s, weight: Int64s) -> None:
        """The changes of a batch, in order of time."""
        self._time = time
        self._after = np.concatenate([[self.now], self.now + np.cumsum(weight)])

    def at(self, time: Int64s) -> Int64s:
        found: Int64s = self._after[np.searchsorted(self._time, time, side="right")]
        return found

    def settle(self) -> None:
        if len(self._time):
            self.__init__(int(self._after[-1]))  # type: ignore[misc]


class KeyCounts:
    """The multiplicity of each key. Keys that occur no more are forgotten when a batch is settled.

    >>> window = KeyCounts([pa.int64()])
    >>> window.change(np.array([1, 2, 5]), [pa.array([7, 8, 7])], np.array([1, 1, -1]))
    >>> window.at([pa.array([7, 7, 8, 9])], np.array([4, 5, 1, 9])).tolist()
    [1, 0, 0, 0]
    >>> window.settle()
    >>> len(window), window.at([pa.array([7, 8])], np.array([9, 9])).tolist()
    (1, [0, 1])
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.table = KeyTable(types)
        self.count: Int64s = np.zeros(64, np.int64)
        self._clear()

    def __len__(self) -> int:
        return len(self.table)

    def _clear(self) -> None:
        self._instants = _NOTHING  # of the batch's changes, each once
        self._changed = _NOTHING  # the keys that change, increasing
        self._cells = _NOTHING  # for each change the number of its key and of its instant, as one number, increasing
        self._after = _NOTHING  # the count after it

    def change(self, time: Int64s, columns: Sequence[pa.Array], weight: Int64s) -> None:
        """The changes of a batch, in order of time."""
        ids = self.table.intern(columns, len(time))
        while self.table.capacity > len(self.count):
            self.count = np.concatenate([self.count, np.zeros(len(self.count), np.int64)])
        order = np.argsort(ids, kind="stable")
        grouped, change = ids[order], weight[order]
        begins = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]]) if len(order) else order
        lengths = np.diff(np.r_[begins, len(order)])
        total = np.cumsum(change)
        offset = self.count[grouped[begins]] - (total[begins] - change[begins])
        self._changed = grouped[begins]
        self._instants = np.unique(time)
        number = np.repeat(np.arange(len(begins)), lengths)
        self._cells = number * (len(self._instants) + 1) + np.searchsorted(self._instants, time[order], side="right")
        self._after = total + np.repeat(offset, lengths)

    def at(self, columns: Sequence[pa.Array], time: Int64s) -> Int64s:
        """How often each key is there at the end of each instant."""
        ids = self.table.find(columns, len(time))
        found: Int64s = np.where(ids >= 0, self.count[ids], 0)
        if not len(self._changed):
            return found
        number = np.minimum(np.searchsorted(self._changed, ids), len(self._changed) - 1)
        rows = np.flatnonzero(self._changed[number] == ids)
        stride = len(self._instants) + 1
        cell = number[rows] * stride + np.searchsorted(self._instants, time[rows], side="right")
        last = np.searchsorted(self._cells, cell, side="right") - 1
        # Before its first change in the batch a key has the count that it had before the batch.
        there = (last >= 0) & (self._cells[np.maximum(last, 0)] // stride == number[rows])
        found[rows[there]] = self._after[last[there]]
        return found

    def settle(self) -> None:
        if not len(self._changed):
            return
        ends = np.r_[np.flatnonzero(np.diff(self._cells // (len(self._instants) + 1))), len(self._cells) - 1]
        self.count[self._changed] = self._after[ends]
        self.table.release(self._changed[self._after[ends] == 0])
        self._clear()

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.count.nbytes

    def state(self) -> dict[str, Any]:
        return {"table": self.table.state(), "count": self.count[: self.table.capacity].copy()}

    def load(self, state: dict[str, Any]) -> None:
        self.table.load(state["table"])
        self.count = np.zeros(max(64, self.table.capacity), np.int64)
        self.count[: len(state["count"])] = state["count"]
        self._clear()
