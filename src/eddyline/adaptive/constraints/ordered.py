"""Ordered arrival, OA(k): rows that come out of order are at most k rows apart (thesis 6.8)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eddyline.adaptive.constraints.adherence import Adherence
from eddyline.core.delta import Int64s

LOWEST = -(1 << 63)
LEAST_KEPT = (
    2  # times k_e, or W: maxima that are remembered while k is known; a row that is later than that is an increase
)


class OrderedArrival:
    """The running maximum of an attribute after each of the last arrivals, and the scrambling distances that it shows.
    It remembers ``most`` of them: a row that is further out of order counts as an increase.

    >>> oa = OrderedArrival(Adherence(c=1.2, W=3, careful=False))
    >>> oa.arrived(np.array([1, 2, 5, 3, 4, 6]))
    >>> oa.adherence.k_u, oa.low()
    (2, 5)
    """

    def __init__(self, adherence: Adherence, most: int = 1 << 16) -> None:
        self.adherence, self.most = adherence, most
        self.count = 0
        self.held: Int64s = np.zeros(64, np.int64)  # maxima, with room for more
        self.start = self.end = 0  # of those that are remembered
        self.cut = False  # older maxima were forgotten

    def arrived(self, values: Int64s) -> None:
        """The values of rows, in order of arrival."""
        kept = self.end - self.start
        before = self.maxima[-1:] if kept else values[:1]
        self._append(np.maximum.accumulate(np.concatenate([before, values]))[1:])
        whole = self.maxima
        at = kept + np.arange(len(values))
        earliest = np.searchsorted(whole, values, side="right")  # the first maximum that is larger
        distance = np.maximum(at - earliest, 0)
        forgotten = (earliest == 0) & self.cut & (distance > 0)
        distance[forgotten] = kept + 1 + np.arange(len(values))[forgotten]  # at least: what is older was forgotten
        seen = np.flatnonzero(distance)
        self.count += len(values)
        positions = self.count - len(values) + seen + 1
        self.adherence.observe(positions, distance[seen].astype(np.int64), self.count)
        k = self.adherence.k_e
        most = self.most if math.isinf(k) else min(self.most, max(LEAST_KEPT * self.adherence.W, int(LEAST_KEPT * k)))
        if len(whole) > most:
            self.start, self.cut = self.end - most, True
        if len(self.held) > 256 and len(self.held) > 2 * (self.end - self.start):
            self.held = self.maxima.copy()
            self.start, self.end = 0, len(self.held)

    @property
    def maxima(self) -> Int64s:
        return self.held[self.start : self.end]

    def _append(self, maxima: Int64s) -> None:
        if self.end + len(maxima) > len(self.held):
            left = self.maxima
            self.held = np.zeros(max(64, 2 * (len(left) + len(maxima))), np.int64)
            self.held[: len(left)] = left
            self.start, self.end = 0, len(left)
        self.held[self.end : self.end + len(maxima)] = maxima
        self.end += len(maxima)

    def low(self) -> int:
        """A value that no future row is below: max_{k_e + 1}, the maximum before the last k_e arrivals."""
        k = self.adherence.k_e
        if math.isinf(k) or k >= len(self.maxima):
            return LOWEST
        return int(self.maxima[len(self.maxima) - 1 - int(k)])

    @property
    def nbytes(self) -> int:
        return self.held.nbytes

    def state(self) -> dict[str, Any]:
        maxima = self.maxima.copy()
        return {"adherence": self.adherence.state(), "count": self.count, "maxima": maxima, "cut": int(self.cut)}

    def load(self, state: dict[str, Any]) -> None:
        self.adherence.load(state["adherence"])
        self.count, self.cut = int(state["count"]), bool(state["cut"])
        self.start = self.end = 0
        self._append(np.array(state["maxima"], np.int64))
