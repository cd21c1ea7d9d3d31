"""The events of a run of a constrained join: arrivals in order, and the rows that leave between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from eddyline.core.delta import Bools, Int64s
from eddyline.kernels import constrained_layout as k
from eddyline.synopses.constrained_slots import Slots


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Elements in order of time: their inputs, their numbers within these, when they leave a time-based window, whether
    they can join, whether a filter rejects them, and their keys by port."""

    time: Int64s
    stream: Int64s
    number: Int64s
    leave: Int64s
    valid: Int64s
    failed: Int64s
    keys: Int64s

    def __len__(self) -> int:
        return len(self.time)

    def slice(self, start: int, stop: int) -> Arrivals:
        return Arrivals(*(getattr(self, f.name)[start:stop] for f in fields(self)))

    def filter(self, keep: Bools) -> Arrivals:
        return Arrivals(*(getattr(self, f.name)[keep] for f in fields(self)))

    @staticmethod
    def merged(parts: Sequence[Arrivals]) -> Arrivals:
        """All, by time; at one instant in the order of the parts."""
        whole = [np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Arrivals)]
        order = np.argsort(whole[0], kind="stable")
        return Arrivals(*(column[order] for column in whole))


class RunEvents:
    """``table`` has lines of kinds, inputs, slots and times. Each event has a rank: arrival number a has 2a + 1, a row
    that leaves before it has 2a."""

    def __init__(self, arrivals: Arrivals, kept: Bools, places: Int64s, arrived: Int64s, limits: Int64s) -> None:
        n = len(arrivals)
        self.arrivals, self.before, self.limits = arrivals, arrived, limits
        self.table = np.zeros((4, n), np.int64)
        self.table[0] = np.where(kept, k.ARRIVE, k.COUNT)
        self.table[1], self.table[3] = arrivals.stream, arrivals.time
        self.table[2, kept] = places
        self.rank = 2 * np.arange(n) + 1
        # Of each input where its arrivals stand.
        self.where = [np.flatnonzero(arrivals.stream == i) for i in range(len(limits))]

    def _leaving(self, slots: Slots, candidates: Int64s, until: int) -> tuple[Int64s, Int64s]:
        """The rows among the candidates that leave in this run, as events with their ranks."""
        stream, number = slots.stream[candidates], slots.number[candidates]
        reached = self.before + np.array([len(w) for w in self.where], np.int64)
        pushed = (self.limits[stream] > 0) & (number + self.limits[stream] < reached[stream])
        timed = (self.limits[stream] == 0) & (slots.leave[candidates] <= until)
        rank, time = np.zeros(len(candidates), np.int64), slots.leave[candidates].copy()
        rank[timed] = 2 * np.searchsorted(self.arrivals.time, time[timed], side="left")
        for i in range(len(self.limits)):
            mine = pushed & (stream == i)
            if mine.any():
                by = self.where[i][number[mine] + self.limits[i] - self.before[i]]
                rank[mine], time[mine] = 2 * by, self.arrivals.time[by]
        leaving = pushed | timed
        made = np.zeros((4, int(leaving.sum())), np.int64)
        made[0], made[1], made[2], made[3] = k.LEAVE, stream[leaving], candidates[leaving], time[leaving]
        return made, rank[leaving]

    def add_leaving(self, slots: Slots, candidates: Int64s, until: int) -> None:
        """Rows leave that have a slot before the run begins."""
        self._merge(*self._leaving(slots, candidates, until), 0)

    def insert_leaving(self, slots: Slots, places: Int64s, until: int, event: int) -> None:
        """Rows leave that were brought back when ``event`` was to be applied."""
        self._merge(*self._leaving(slots, places, until), event + 1)

    def _merge(self, made: Int64s, rank: Int64s, start: int) -> None:
        """Put events among those from ``start`` on."""
        if made.shape[1] == 0:
            return
        table = np.hstack([self.table[:, start:], made])
        ranks = np.concatenate([self.rank[start:], rank])
        order = np.lexsort((table[3], ranks))
        self.table = np.ascontiguousarray(np.hstack([self.table[:, :start], table[:, order]]))
        self.rank = np.concatenate([self.rank[:start], ranks[order]])

    def left(self) -> Int64s:
        """The slots of the rows that have left."""
        slots: Int64s = self.table[2, self.table[0] == k.LEAVE]
        return slots
