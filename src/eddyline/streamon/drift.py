"""Drift of drop rates against those at the last decision, from what the executor counts anyway.

The executor counts for every filter what share it drops of the rows that reach it, at no extra cost. The rates over the
first rows after a decision are the *reference*; they stay as they are until the next decision. A slow drift therefore
adds up, where a comparison with the step before would never see it.

What this does not detect: a filter behind others that comes to drop more of the tuples that those drop already. Only
profile tuples show that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.core.delta import Float64s, Int64s

REFERENCE_ROWS = 1024  # rows after a decision from which the reference rates are computed
ROWS_UNTIL_HALF = 1024  # rows after which a recent row counts half
_MIN_REFERENCE_ROWS = 16  # a filter that was asked about fewer of them has no reference rate
_MIN_RECENT_ROWS = 64  # the same for the recent rate: more, because it is compared again and again


class DropRates:
    """Rows asked and dropped by filter, since the last decision and recently.

    >>> rates = DropRates(2)
    >>> for passed in (500, 510, 505, 495, 300):
    ...     rates.add(np.array([1000, passed]), np.array([passed, passed // 2]))
    ...     print(round(rates.drift(), 1))
    0.0
    0.0
    0.0
    0.4
    7.3
    """

    __slots__ = ("asked", "dropped", "recently_asked", "recently_dropped")

    def __init__(self, filters: int) -> None:
        self.asked: Float64s = np.zeros(filters)
        self.dropped: Float64s = np.zeros(filters)
        self.recently_asked: Float64s = np.zeros(filters)
        self.recently_dropped: Float64s = np.zeros(filters)

    def add(self, rows_in: Int64s, rows_out: Int64s) -> None:
        if self.asked.max() < REFERENCE_ROWS:
            self.asked += rows_in
            self.dropped += rows_in - rows_out
        else:
            keep = 0.5 ** (int(rows_in.max()) / ROWS_UNTIL_HALF)
            self.recently_asked = self.recently_asked * keep + rows_in
            self.recently_dropped = self.recently_dropped * keep + (rows_in - rows_out)

    def drift(self) -> float:
        """By how many standard deviations the rate of the filter that has moved most is away from its reference.
        Forgotten rows count with their weight, which overstates the deviation to be expected.
        """
        most = 0.0
        counts = (self.asked, self.recently_asked, self.dropped, self.recently_dropped)
        # Filters are few: arrays would cost more than the numbers in them.
        for before, now, dropped, recently in zip(*(c.tolist() for c in counts), strict=True):
            if before >= _MIN_REFERENCE_ROWS and now >= _MIN_RECENT_ROWS:
                pooled = (dropped + recently + 1) / (before + now + 2)  # never 0 nor 1
                deviation = math.sqrt(pooled * (1 - pooled) * (1 / before + 1 / now))
                most = max(most, abs(dropped / before - recently / now) / deviation)
        return most

    def moved(self) -> float:
        """By how much the rate that has moved most has moved, as a share of the rows: what is beyond chance may still
        be too little to matter, above all where rows resemble their neighbours."""
        known = (self.asked >= _MIN_REFERENCE_ROWS) & (self.recently_asked >= _MIN_RECENT_ROWS)
        if not known.any():
            return 0.0
        before, now = self.dropped[known] / self.asked[known], self.recently_dropped[known] / self.recently_asked[known]
        return float(np.abs(before - now).max())

    def settle(self) -> None:
        """A decision was made: what comes now is the reference."""
        for counts in (self.asked, self.dropped, self.recently_asked, self.recently_dropped):
            counts[:] = 0

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name).copy() for name in self.__slots__}

    def load(self, state: Mapping[str, Any]) -> None:
        for name in self.__slots__:
            setattr(self, name, np.array(state[name], np.float64))
