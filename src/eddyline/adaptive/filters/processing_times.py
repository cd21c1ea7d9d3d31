"""What a filter takes for a tuple, as an average over recent rows that single hiccups do not move far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.adaptive.filters.policy import Float64s
from eddyline.core.delta import Int64s

MEMORY = 4096  # rows after which a measurement counts half
_FEWEST = 256  # rows that a measurement counts for at least: an executor knows the price of a row from other calls, too
_CAP = 4.0  # a batch is believed up to this multiple of the average: a pause is not the filter's price
_EARLY = 1024  # rows up to which the average is believed up to the same multiple of a batch: it may be of a pause
_LEAST = 1e-9


class ProcessingTimes:
    """Averages weighted by rows, forgetting by halves; a filter that sees few rows of each batch is not left behind.

    A pause of the process looks like a filter that has become dear. It is cut to four times the average, and gone after
    a few thousand rows; a filter that really has become dearer gets there in a few batches. One that was held up at its
    very first rows, to load a model say, is cut as soon as the next batch shows what it costs.

    >>> times = ProcessingTimes(2)
    >>> times.add(np.array([500, 50]), np.array([1.0, 2.0]))
    >>> times.averages().tolist()
    [1.0, 2.0]
    >>> times.add(np.array([500, 0]), np.array([1000.0, np.nan]))
    >>> times.averages().round(2).tolist()
    [2.56, 2.0]
    >>> times.add(np.array([0, 50]), np.array([np.nan, 0.01]))
    >>> times.averages().round(3).tolist()
    [2.563, 0.025]
    """

    __slots__ = ("_averages", "declared", "rows", "total")

    def __init__(self, filters: int, costs: tuple[float, ...] | None = None) -> None:
        self.declared: Float64s = np.full(filters, np.nan) if costs is None else np.array(costs, np.float64)
        self.rows: Float64s = np.zeros(filters)
        self.total: Float64s = np.zeros(filters)
        self._averages: Float64s | None = None

    def add(self, rows: Int64s, seconds: Float64s) -> None:
        """A batch: rows that the filter was asked about, and seconds for each."""
        # Filters are few: arrays would cost more than the numbers in them.
        kept, total = self.rows.tolist(), self.total.tolist()
        for f, (many, price) in enumerate(zip(rows.tolist(), seconds.tolist(), strict=True)):
            if many > 0 and not math.isnan(price):
                price = max(price, _LEAST)
                if kept[f] > 0:
                    price = min(price, _CAP * total[f] / kept[f])
                if kept[f] < _EARLY:
                    total[f] = min(total[f], _CAP * price * kept[f])
                asked = max(many, _FEWEST)
                keep = 0.5 ** (asked / MEMORY)
                kept[f], total[f] = kept[f] * keep + asked, total[f] * keep + asked * price
        self.rows, self.total = np.array(kept), np.array(total)
        self._averages = None

    def averages(self) -> Float64s:
        """A filter that was never asked costs what it was declared to, or what the others do on average."""
        if self._averages is None:
            self._averages = self._compute()
        return self._averages

    def _compute(self) -> Float64s:
        seen = self.rows > 0
        known = np.where(seen, self.total / np.where(seen, self.rows, 1.0), self.declared)
        missing = np.isnan(known)
        if missing.any():
            known = np.where(missing, 1.0 if missing.all() else known[~missing].mean(), known)
        return known

    def state(self) -> dict[str, Any]:
        return {"rows": self.rows.copy(), "total": self.total.copy()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.rows, self.total = np.array(state["rows"], np.float64), np.array(state["total"], np.float64)
        self._averages = None
