"""Counts of the rows of a micro-batch by time, in little space: all shards receive them for SLACK AUTO.

Times are counted in *cells* of 2^``level`` ticks; the level is the smallest at which at most ``MAX_CELLS`` cells
hold a row. So a micro-batch whose times are few is counted exactly, and in others a cell is about a thousandth of the
time that its rows cover, however far away single rows lie. Cells of a level lie within those of the next, so counts
of parts added up are the counts of the whole: it does not matter which task has read which row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from eddyline.core.delta import Bools, Int64s

MAX_CELLS: Final = 1024  # more are finer, and all of them are sent to every shard


@dataclass(frozen=True, slots=True)
class TimeCounts:
    """Of each cell in order of time: its number, the rows in it, their smallest and their largest time.

    >>> both = TimeCounts.of(np.array([7, 3, 7])), TimeCounts.of(np.array([900]))
    >>> counts = TimeCounts.merged(both)
    >>> counts.count.tolist(), counts.last.tolist(), counts.rows, counts.median
    ([1, 2, 1], [3, 7, 900], 4, 7)
    >>> TimeCounts.unpack(counts.packed())[0].first.tolist()
    [3, 7, 900]
    """

    level: int
    cell: Int64s
    count: Int64s
    first: Int64s
    last: Int64s

    @staticmethod
    def of(time: Int64s) -> TimeCounts:
        found, count = np.unique(time, return_counts=True)
        return _coarser(TimeCounts(0, found, count.astype(np.int64), found, found))

    @staticmethod
    def merged(parts: Iterable[TimeCounts]) -> TimeCounts:
        some = [p for p in parts if len(p.cell)]
        if len(some) == 1:
            return some[0]
        level = max((p.level for p in some), default=0)
        arrays = [(p.cell >> (level - p.level), p.count, p.first, p.last) for p in some]
        cell, count, first, last = (
            np.concatenate([a[i] for a in arrays]) if arrays else np.empty(0, np.int64) for i in range(4)
        )
        order = np.argsort(cell, kind="stable")
        return _coarser(_grouped(level, cell[order], count[order], first[order], last[order]))

    @property
    def rows(self) -> int:
        return int(self.count.sum())

    @property
    def median(self) -> int:
        """The largest time of the cell with the row in the middle (the lower one of two)."""
        return int(self.last[np.searchsorted(np.cumsum(self.count), (self.rows + 1) // 2)])

    def up_to(self, time: int) -> TimeCounts:
        return self._part(self.last <= time)

    def beyond(self, time: int) -> TimeCounts:
        return self._part(self.last > time)

    def _part(self, cells: Bools) -> TimeCounts:
        return TimeCounts(self.level, self.cell[cells], self.count[cells], self.first[cells], self.last[cells])

    def reached(self, time: int, reach: int) -> int:
        """How far time comes from here in steps of at most ``reach``."""
        above = self.beyond(time)
        if not len(above.cell):
            return time
        steps = above.first - np.concatenate([[time], above.last[:-1]])
        far = np.flatnonzero(steps > reach)
        stop = int(far[0]) if len(far) else len(steps)
        return int(above.last[stop - 1]) if stop else time

    def step(self, share: float, before: int | None) -> int:
        """A step that for this share of the rows leads from the time before to theirs (``before``: what the first may
        be compared with)."""
        if not len(self.cell):
            return 0
        start = self.first[0] if before is None else min(before, int(self.first[0]))
        steps = np.maximum(self.first - np.concatenate([[start], self.last[:-1]]), self.last - self.first)
        order = np.argsort(steps, kind="stable")
        place = np.searchsorted(np.cumsum(self.count[order]), share * self.rows)
        return int(steps[order[min(int(place), len(order) - 1)]])

    def behind(self, time: int, most: int) -> Int64s:
        """How far rows lie behind a time, at most ``most`` of them and evenly drawn: 0 for those that do not."""
        ranks = (np.arange(min(most, self.rows)) * 2 + 1) * self.rows // (2 * max(1, min(most, self.rows)))
        found: Int64s = np.maximum(time - self.first[np.searchsorted(np.cumsum(self.count), ranks, "right")], 0)
        return found

    def packed(self) -> Int64s:
        """As one array; ``unpack`` takes several behind each other."""
        head = np.array([self.level, len(self.cell)], np.int64)
        return np.concatenate([head, self.cell, self.count, self.first, self.last])

    @staticmethod
    def unpack(numbers: Int64s) -> list[TimeCounts]:
        found = []
        while len(numbers):
            level, cells = (int(n) for n in numbers[:2])
            found.append(TimeCounts(level, *numbers[2 : 2 + 4 * cells].reshape(4, cells)))
            numbers = numbers[2 + 4 * cells :]
        return found


def _coarser(found: TimeCounts) -> TimeCounts:
    while len(found.cell) > MAX_CELLS:
        found = _grouped(found.level + 1, found.cell >> 1, found.count, found.first, found.last)
    return found


def _grouped(level: int, cell: Int64s, count: Int64s, first: Int64s, last: Int64s) -> TimeCounts:
    """Equal cells, which stand beside each other, become one."""
    if not len(cell):
        return TimeCounts(level, cell, count, first, last)
    starts = np.flatnonzero(np.concatenate([[True], cell[1:] != cell[:-1]]))
    low, high = np.minimum.reduceat(first, starts), np.maximum.reduceat(last, starts)
    return TimeCounts(level, cell[starts], np.add.reduceat(count, starts), low, high)
