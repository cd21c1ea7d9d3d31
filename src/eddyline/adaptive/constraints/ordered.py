"""Ordered arrival, OA(k): rows that come out of order are at most k rows apart (thesis 6.8)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eddyline.adaptive.constraints.adherence import Adherence
from eddyline.core.delta import Int64s

LOWEST = -(1 << 63)


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
        self.maxima: Int64s = np.zeros(0, np.int64)
        self.cut = False  # older maxima were forgotten

    def arrived(self, values: Int64s) -> None:
        """The values of rows, in order of arrival."""
        kept = len(self.maxima)
        before = self.maxima[-1:] if kept else values[:1]
        running = np.maximum.accumulate(np.concatenate([before, values]))[1:]
        whole = np.concatenate([self.maxima, running])
        at = kept + np.arange(len(values))
        earliest = np.searchsorted(whole, values, side="right")  # the first maximum that is larger
        distance = np.maximum(at - earliest, 0)
        forgotten = (earliest == 0) & self.cut & (distance > 0)
        distance[forgotten] = self.most + 1
        seen = np.flatnonzero(distance)
        self.count += len(values)
        positions = self.count - len(values) + seen + 1
        self.adherence.observe(positions, distance[seen].astype(np.int64), self.count)
        self.maxima, self.cut = whole[-self.most :], self.cut or len(whole) > self.most

    def low(self) -> int:
        """A value that no future row is below: max_{k_e + 1}, the maximum before the last k_e arrivals."""
        k = self.adherence.k_e
        if math.isinf(k) or k >= len(self.maxima):
            return LOWEST
        return int(self.maxima[len(self.maxima) - 1 - int(k)])

    @property
    def nbytes(self) -> int:
        return self.maxima.nbytes

    def state(self) -> dict[str, Any]:
        return {"adherence": self.adherence.state(), "count": self.count, "maxima": self.maxima, "cut": int(self.cut)}

    def load(self, state: dict[str, Any]) -> None:
        self.adherence.load(state["adherence"])
        self.count, self.cut = int(state["count"]), bool(state["cut"])
        self.maxima = np.array(state["maxima"], np.int64)
