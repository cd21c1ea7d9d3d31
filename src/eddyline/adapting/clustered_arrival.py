"""Clustered arrival, CA(k): between two rows of one value come at most k rows of other values (thesis 6.7).

CA_t(δ): two rows of one value come within δ ticks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eddyline.adapting.monitor_steps import MonitorSteps
from eddyline.adaptive.constraints.forms import Forms
from eddyline.core.delta import Int64s
from eddyline.kernels.constrained_monitors import EMPTY, FORGOTTEN, clustering

VALUES_PER_LOOK_UP = 512  # values that are looked up together: there has to be room for as many new ones
MAX_LOAD = 0.75  # of the places, after which more are made
INITIAL_PLACES = 64
MULTIPLIER = np.int64(-7046029254386353131)  # odd: spreads values over all bits


class ClusteredArrival:
    """CA-Aux: for each value v the count C_v, which is the count of arrivals less those of other values since the first
    arrival of v, and the time of that. An entry is forgotten when its rows have all come, or when ``most`` others came
    since its first. A share ``p`` of the forgotten stays, to see whether they come again.

    >>> from eddyline.adaptive.constraints.adherence import Adherence
    >>> ca = ClusteredArrival(Forms(*(Adherence(W=4, careful=False) for _ in range(2))))
    >>> ca.arrived(np.array([7, 7, 8, 7, 9]), np.array([1, 2, 3, 4, 5]))
    >>> ca.forms.arrivals.k_u, sorted(ca.table[ca.complete(5)].tolist())
    (1, [7, 8])
    """

    def __init__(self, forms: Forms, most: int = 1 << 20) -> None:
        self.forms, self.most, self.p = forms, most, forms.arrivals.p
        self.count = self.entries = self.dead = 0
        self._make(INITIAL_PLACES)

    def _make(self, size: int) -> None:
        self.table, self.times = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.counts = np.full(size, EMPTY, np.int64)

    def arrived(self, values: Int64s, times: Int64s) -> None:
        """The values of rows, in order of arrival, and when they came."""
        if len(values) == 0:
            return
        steps, start = MonitorSteps(self.forms, len(values)), 0
        while start < len(values):
            room = int(MAX_LOAD * len(self.table)) - self.entries
            if room < min(VALUES_PER_LOOK_UP, len(values) - start):
                self._rebuild(min(VALUES_PER_LOOK_UP, len(values) - start))
                room = int(MAX_LOAD * len(self.table)) - self.entries
            given = values[start:], times[start:], self.count + start, room
            self.entries += int(clustering(*given, self.table, self.counts, self.times, *steps.arrays))
            start += int(steps.taken[2])
        self.count += len(values)
        steps.hand_over(self.count, int(times[-1]))

    def complete(self, now: int) -> Int64s:
        """The places in the table of values all of whose rows have come, by CA(k_e) or CA_t(k_e)."""
        k = self.forms.used.k_e
        if math.isinf(k):
            return np.empty(0, np.int64)
        over = self.times < now - k if self.forms.in_ticks else self.counts < self.count - k
        complete: Int64s = np.flatnonzero(over & (self.counts >= 0))
        return complete

    def forget(self, places: Int64s) -> None:
        """Values whose rows were dealt with."""
        mixed = (self.table[places] * MULTIPLIER >> np.int64(48)) & np.int64(65535)
        gone = places[mixed >= int(65536 * self.p)]
        self.counts[gone] = FORGOTTEN
        self.dead += len(gone)
        if 2 * self.dead > self.entries or len(self.table) > 4 * (self.entries - self.dead + VALUES_PER_LOOK_UP):
            self._rebuild(VALUES_PER_LOOK_UP)

    def _rebuild(self, more: int) -> None:
        """A table for the values that are not forgotten, and as many ``more`` as may come at once."""
        places = np.flatnonzero((self.counts >= 0) & (self.counts >= self.count - self.most))
        values, counts, times = self.table[places], self.counts[places], self.times[places]
        self._make(max(INITIAL_PLACES, 1 << int((len(values) + more) / MAX_LOAD).bit_length()))
        # Into an empty table each value goes for the first time, with the count before it less 1.
        nothing = MonitorSteps(self.forms, 0).arrays
        many = len(values)
        self.entries = int(clustering(values, times, 0, many + 1, self.table, self.counts, self.times, *nothing))
        taken = np.flatnonzero(self.counts >= 0)
        self.counts[taken] = counts[self.counts[taken] - 1]
        self.dead = 0

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.counts.nbytes + self.times.nbytes

    def state(self) -> dict[str, Any]:
        at = np.flatnonzero(self.counts >= 0)
        held = {"values": self.table[at], "counts": self.counts[at], "times": self.times[at]}
        return {"forms": self.forms.state(), "count": self.count, "p": self.p, **held}

    def load(self, state: dict[str, Any]) -> None:
        self.forms.load(state["forms"])
        self.count, self.p = int(state["count"]), float(state["p"])
        self.table, self.counts, self.times = (np.array(state[n], np.int64) for n in ("values", "counts", "times"))
        self._rebuild(0)
