"""Drift of drop rates against those at the last decision, from what the executor counts anyway.

Every filter in the pipeline shows, for free, what share it drops of the rows that reach it. The rates over the first
rows after a decision are the *reference*; they stay as they are until the next decision. A slow drift therefore adds
up, where a comparison with the step before would never see it.

What cannot be seen here: a filter behind others that comes to drop more of the tuples that those drop already. Only
profile tuples show that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.adaptive.filters.policy import Float64s
from eddyline.core.delta import Int64s

SETTLE = 1024  # rows that make up the reference
MEMORY = 1024  # rows after which a recent row counts half
FEW = 64
_FEWEST = 16  # rows without which a rate says nothing


class DropRates:
    """Rows asked and dropped by filter, since the last decision and recently.

    >>> rates = DropRates(2)
    >>> for dropped in (250, 260, 250, 480):
    ...     rates.add(np.array([500, 500 - dropped]), np.array([500 - dropped, 200]))
    ...     print(rates.drift().round(1).tolist())
    [0.0, 0.0]
    [0.0, 0.0]
    [0.4, 0.4]
    [14.8, 4.6]
    """

    __slots__ = ("asked", "dropped", "recently_asked", "recently_dropped")

    def __init__(self, filters: int) -> None:
        self.asked: Float64s = np.zeros(filters)
        self.dropped: Float64s = np.zeros(filters)
        self.recently_asked: Float64s = np.zeros(filters)
        self.recently_dropped: Float64s = np.zeros(filters)

    def add(self, rows_in: Int64s, rows_out: Int64s) -> None:
        if self.asked.max() < SETTLE:
            self.asked += rows_in
            self.dropped += rows_in - rows_out
        else:
            keep = 0.5 ** (int(rows_in.max()) / MEMORY)
            self.recently_asked = self.recently_asked * keep + rows_in
            self.recently_dropped = self.recently_dropped * keep + (rows_in - rows_out)

    def drift(self) -> Float64s:
        """By filter: how many standard deviations the recent rate is from the reference; 0 where too little is known.
        Forgotten rows are counted with their weight, which overstates the deviation to be expected.
        """
        enough = (self.asked >= _FEWEST) & (self.recently_asked >= FEW)
        before, now = np.where(enough, self.asked, 1.0), np.where(enough, self.recently_asked, 1.0)
        pooled = np.where(enough, (self.dropped + self.recently_dropped + 1) / (before + now + 2), 0.5)
        deviation = np.sqrt(pooled * (1 - pooled) * (1 / before + 1 / now))
        apart = np.abs(self.dropped / before - self.recently_dropped / now)
        return np.where(enough, apart / np.where(enough, deviation, 1.0), 0.0)

    def settle(self) -> None:
        """A decision was made: what comes now is the reference."""
        for counts in (self.asked, self.dropped, self.recently_asked, self.recently_dropped):
            counts[:] = 0

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name).copy() for name in self.__slots__}

    def load(self, state: Mapping[str, Any]) -> None:
        for name in self.__slots__:
            setattr(self, name, np.array(state[name], np.float64))
