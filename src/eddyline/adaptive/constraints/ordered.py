"""Ordered arrival, OA(k): rows that come out of order are at most k rows apart (thesis 6.8)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eddyline.adaptive.constraints.adherence import Adherence
from eddyline.core.delta import Int64s

LOWEST = -(1 << 63)
LEAST_KEPT = 2  # times k_e, or W: arrivals remembered while k is known; a row that is later than that is an increase


class OrderedArrival:
    """The running maximum of an attribute at the arrivals at which it rises, and the scrambling distances that it
    shows. Of the last ``most`` arrivals at least, fewer where k is known: a row that is further out of order counts as
    an increase.

    >>> oa = OrderedArrival(Adherence(c=1.2, W=3, careful=False))
    >>> oa.arrived(np.array([1, 2, 5, 3, 4, 6]))
    >>> oa.adherence.k_u, oa.low()
    (2, 5)
    """

    def __init__(self, adherence: Adherence, most: int = 1 << 16) -> None:
        self.adherence, self.most = adherence, most
        self.count = 0
        self.maxima: Int64s = np.empty(0, np.int64)  # increasing
        self.at: Int64s = np.empty(0, np.int64)  # the number of the arrival that raised it
        self.cut = False  # older maxima were forgotten

    def arrived(self, values: Int64s) -> None:
        """The values of rows, in order of arrival."""
        if len(values) == 0:
            return
        before = self.maxima[-1:] if len(self.maxima) else values[:1]
        running = np.maximum.accumulate(np.concatenate([before, values]))
        rise = running[1:] > running[:-1]
        rise[0] |= len(self.maxima) == 0
        rises = np.flatnonzero(rise)
        self.maxima = np.concatenate([self.maxima, running[1:][rises]])
        self.at = np.concatenate([self.at, self.count + rises])
        now = self.count + np.arange(len(values))
        first = np.searchsorted(self.maxima, values, side="right")  # the first maximum that is larger
        larger = first < len(self.maxima)
        distance = np.maximum(np.where(larger, now - self.at[np.minimum(first, len(self.at) - 1)], 0), 0)
        distance[(first == 0) & self.cut & (distance > 0)] += 1  # at least: what is older was forgotten
        seen = np.flatnonzero(distance)
        self.count += len(values)
        self.adherence.observe(now[seen] + 1, distance[seen].astype(np.int64), self.count)
        self._trim()

    def _trim(self) -> None:
        k = self.adherence.k_e
        most = self.most if math.isinf(k) else min(self.most, max(LEAST_KEPT * self.adherence.W, int(LEAST_KEPT * k)))
        # The last maximum before the arrivals that are remembered stays: it is theirs, too.
        start = int(np.searchsorted(self.at, self.count - most, side="right")) - 1
        if start > 0 and 2 * start > len(self.at):
            self.maxima, self.at, self.cut = self.maxima[start:].copy(), self.at[start:].copy(), True

    def low(self) -> int:
        """A value that no future row is below: max_{k_e + 1}, the maximum before the last k_e arrivals."""
        k = self.adherence.k_e
        if math.isinf(k) or k >= self.count:
            return LOWEST
        place = int(np.searchsorted(self.at, self.count - 1 - int(k), side="right")) - 1
        return int(self.maxima[place]) if place >= 0 else LOWEST

    @property
    def nbytes(self) -> int:
        return self.maxima.nbytes + self.at.nbytes

    def state(self) -> dict[str, Any]:
        held = {"maxima": self.maxima.copy(), "at": self.at.copy()}
        return {"adherence": self.adherence.state(), "count": self.count, "cut": int(self.cut), **held}

    def load(self, state: dict[str, Any]) -> None:
        self.adherence.load(state["adherence"])
        self.count, self.cut = int(state["count"]), bool(state["cut"])
        self.maxima, self.at = np.array(state["maxima"], np.int64), np.array(state["at"], np.int64)
