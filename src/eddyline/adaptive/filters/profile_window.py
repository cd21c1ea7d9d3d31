"""The profile window: drop bits of the last dropped tuples that were profiled, and the times of their filters.

Figure 4.3: a row is a profile tuple with attributes b_1 … b_n; "the times as n additional columns".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.core.delta import Bools, Float64s

_MIN_SECONDS = 1e-9  # of one call: a clock may not resolve it, and no filter is free


class ProfileWindow:
    """A ring of the last ``size`` profile tuples; without the columns of times if not ``timed``.

    >>> window = ProfileWindow(2, 3)
    >>> window.push(np.array([[1, 0, 0], [0, 1, 1]], bool), np.array([1.0, 2.0, 4.0]))[1].tolist()
    []
    >>> window.push(np.array([[0, 0, 1]], bool), np.array([3.0, np.nan, 4.0]))[1].tolist()
    [[True, False, False]]
    >>> window.tuples().astype(int).tolist(), window.averages().tolist()
    ([[0, 1, 1], [0, 0, 1]], [2.0, 2.0, 4.0])
    """

    __slots__ = ("_averages", "_fresh", "at", "bits", "count", "seconds", "size")

    def __init__(self, size: int, filters: int, costs: tuple[float, ...] | None = None, *, timed: bool = True) -> None:
        self.size, self.at, self.count = size, 0, 0
        self.bits: Bools = np.zeros((size, filters), np.bool_)
        self.seconds: Float64s = np.full((size if timed else 0, filters), np.nan)
        self._averages: Float64s = np.full(filters, np.nan) if costs is None else np.array(costs, np.float64)
        self._fresh = True

    def push(self, dropped: Bools, seconds: Float64s | None = None) -> tuple[Bools, Bools]:
        """Insert profile tuples; returns those that entered and those that expired to make room. Of more than ``size``
        at once only the last enter: the others would have come and gone.
        """
        entered = dropped[-self.size :]
        places = (self.at + np.arange(len(entered))) % self.size
        expired = self.bits[places[self.size - self.count :]]
        self.bits[places] = entered
        if seconds is not None:
            self.seconds[places] = seconds[-self.size :] if seconds.ndim == 2 else seconds
            self._fresh = False
        self.at = (self.at + len(entered)) % self.size
        self.count = min(self.size, self.count + len(entered))
        return entered, expired

    def clear(self) -> None:
        """Forget the tuples, not the averages: a filter keeps its last known cost until it is measured again."""
        self.averages()
        self.at = self.count = 0

    def tuples(self, last: int | None = None) -> Bools:
        """The bits, oldest first; only of the ``last`` tuples if given."""
        rows = self.count if last is None else min(last, self.count)
        found: Bools = self.bits[(self.at - rows + np.arange(rows)) % self.size]
        return found

    def averages(self) -> Float64s:
        """a_i: the mean of the processing times in the window. A filter without any keeps its last one; one that was
        never measured is taken to cost what the others do on average.
        """
        if not self._fresh:
            recent = self.seconds[: self.count]
            known = ~np.isnan(recent)
            times = known.sum(0)
            sums = np.where(known, recent, 0.0).sum(0)
            self._averages = np.where(times > 0, np.maximum(sums / np.maximum(times, 1), _MIN_SECONDS), self._averages)
            self._fresh = True
        measured = ~np.isnan(self._averages)
        if measured.all():
            return self._averages
        return np.where(measured, self._averages, self._averages[measured].mean() if measured.any() else 1.0)

    def state(self) -> dict[str, Any]:
        self.averages()
        # As they lie in the ring: sums in another order would differ in their last bit, and a tie with them.
        bits, seconds = self.bits[: self.count].copy(), self.seconds[: self.count].copy()
        return {"at": self.at, "bits": bits, "seconds": seconds, "averages": self._averages.copy()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.at, self.count = int(state["at"]), len(state["bits"])
        self.bits[: self.count], self.seconds[: self.count] = state["bits"], state["seconds"]
        self._averages, self._fresh = np.array(state["averages"], np.float64), True
