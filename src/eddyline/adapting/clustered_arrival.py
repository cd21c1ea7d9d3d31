"""Clustered arrival, CA(k): between two rows of one value come at most k rows of other values (thesis 6.7)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eddyline.adaptive.constraints.adherence import Adherence
from eddyline.core.delta import Int64s
from eddyline.kernels.constrained_collect import FORGOTTEN, clustering

AT_ONCE = 512  # values that are looked up together: there has to be room for as many new ones
MULTIPLIER = np.int64(-7046029254386353131)  # odd: spreads values over all bits


class ClusteredArrival:
    """CA-Aux: for each value v the count C_v, which is the count of arrivals less those of other values since the first
    arrival of v. An entry is forgotten when its rows have all come, or when ``most`` others came since its first.

    >>> ca = ClusteredArrival(Adherence(W=4, careful=False))
    >>> ca.arrived(np.array([7, 7, 8, 7, 9]))
    >>> ca.adherence.k_u, sorted(ca.table[ca.complete()].tolist())
    (1, [7, 8])
    """

    def __init__(self, adherence: Adherence, most: int = 1 << 20) -> None:
        self.adherence, self.most = adherence, most
        self.count = self.entries = self.dead = 0
        self._make(64)

    def _make(self, size: int) -> None:
        self.table, self.counts, self.used = (np.zeros(size, np.int64) for _ in range(3))

    def arrived(self, values: Int64s) -> None:
        """The values of rows, in order of arrival."""
        distances = np.zeros(len(values), np.int64)
        for start in range(0, len(values), AT_ONCE):
            part, found = values[start : start + AT_ONCE], distances[start : start + AT_ONCE]
            if 2 * (self.entries + len(part)) > len(self.table):
                self._rebuild(np.flatnonzero(self.used), AT_ONCE)
            self.entries += int(clustering(part, self.count + start, self.table, self.counts, self.used, found))
        seen = np.flatnonzero(distances)
        positions = self.count + seen + 1
        self.count += len(values)
        self.adherence.observe(positions, distances[seen], self.count)

    def complete(self) -> Int64s:
        """The places in the table of values all of whose rows have come, by CA(k_e)."""
        k = self.adherence.k_e
        if math.isinf(k):
            return np.empty(0, np.int64)
        places = np.flatnonzero((self.used != 0) & (self.counts < self.count - k))
        complete: Int64s = places[self.counts[places] != FORGOTTEN]
        return complete

    def forget(self, places: Int64s) -> None:
        """Values whose rows were dealt with. A share p of them stays, to see whether they come again."""
        mixed = (self.table[places] * MULTIPLIER >> np.int64(48)) & np.int64(65535)
        gone = places[mixed >= int(65536 * self.adherence.p)]
        self.counts[gone] = FORGOTTEN
        self.dead += len(gone)
        if 2 * self.dead > self.entries or len(self.table) > 8 * (self.entries - self.dead + AT_ONCE):
            self._rebuild(np.flatnonzero(self.used), AT_ONCE)

    def _rebuild(self, places: Int64s, more: int) -> None:
        counts = self.counts[places]
        places = places[(counts != FORGOTTEN) & (counts >= self.count - self.most)]
        self.dead = 0
        values, counts = self.table[places], self.counts[places]
        self._make(max(64, 1 << (2 * (len(values) + more)).bit_length()))
        self.entries = int(clustering(values, 0, self.table, self.counts, self.used, np.zeros(len(values), np.int64)))
        order = np.argsort(values)
        taken = np.flatnonzero(self.used)
        self.counts[taken] = counts[order][np.searchsorted(values[order], self.table[taken])]

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.counts.nbytes + self.used.nbytes

    def state(self) -> dict[str, Any]:
        at = np.flatnonzero((self.used != 0) & (self.counts != FORGOTTEN))
        held = {"values": self.table[at], "counts": self.counts[at]}
        return {"adherence": self.adherence.state(), "count": self.count, **held}

    def load(self, state: dict[str, Any]) -> None:
        self.adherence.load(state["adherence"])
        self.count = int(state["count"])
        values, counts = np.array(state["values"], np.int64), np.array(state["counts"], np.int64)
        self._make(max(64, 1 << (3 * len(values)).bit_length()))
        self.table[: len(values)], self.counts[: len(values)], self.used[: len(values)] = values, counts, 1
        self._rebuild(np.arange(len(values)), 0)
