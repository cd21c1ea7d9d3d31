"""The processing time of each filter for a tuple: an average over recent rows that a single pause changes little."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median_low
from typing import Any

import numpy as np

from eddyline.core.delta import Float64s, Int64s

ROWS_UNTIL_HALF = 4096  # rows after which a measurement counts half
_MIN_WEIGHT_ROWS = 256  # rows that a measurement counts for, at least: an executor may measure few rows of many
_MAX_TIMES_AVERAGE = 4.0  # a longer time counts as this multiple of the average: a pause is not the filter's price
_EARLY_BATCHES = 5  # the first batches, which are compared with their median
_HELD_UP_FACTOR = 16.0  # a batch that took more than this multiple of the median was held up
_MIN_SECONDS = 1e-9  # of one row: a clock may not resolve it, and no filter is free


class ProcessingTimes:
    """Averages weighted by rows, forgetting by halves; a filter that sees few rows of each batch is not left behind.

    A pause of the process looks like a filter that has become dear. It is cut to four times the average, and gone after
    a few thousand rows; a filter that really has become dearer gets there in a few batches. One that was held up at its
    very first rows, to load a model say, costs what the next batches show.

    >>> times = ProcessingTimes(2)
    >>> times.add(np.array([500, 50]), np.array([1.0, 2.0]))
    >>> times.averages().tolist()
    [1.0, 2.0]
    >>> times.add(np.array([500, 0]), np.array([1000.0, np.nan]))
    >>> times.averages().tolist()
    [1.0, 2.0]
    >>> for price in (1.0, 1.0, 1.0, 1000.0):
    ...     times.add(np.array([500, 50]), np.array([price, 2.0]))
    >>> times.averages().round(2).tolist()
    [1.61, 2.0]
    """

    __slots__ = ("_averages", "_early", "declared", "rows", "total")

    def __init__(self, filters: int, costs: tuple[float, ...] | None = None) -> None:
        self.declared: Float64s = np.full(filters, np.nan) if costs is None else np.array(costs, np.float64)
        self.rows: Float64s = np.zeros(filters)
        self.total: Float64s = np.zeros(filters)
        self._early: list[list[float]] = [[] for _ in range(filters)]  # the prices of the first batches
        self._averages: Float64s | None = None

    def add(self, rows: Int64s, seconds: Float64s) -> None:
        """A batch: rows that the filter was asked about, and seconds for each."""
        # Filters are few: arrays would cost more than the numbers in them.
        kept, total = self.rows.tolist(), self.total.tolist()
        for f, (count, price) in enumerate(zip(rows.tolist(), seconds.tolist(), strict=True)):
            if count > 0 and not math.isnan(price):
                price, early = max(price, _MIN_SECONDS), self._early[f]
                asked = max(count, _MIN_WEIGHT_ROWS)
                keep = 0.5 ** (asked / ROWS_UNTIL_HALF)
                if len(early) < _EARLY_BATCHES:
                    early.append(price)
                    kept[f] = kept[f] * keep + asked
                    total[f] = kept[f] * _usual(early)
                else:
                    price = min(price, _MAX_TIMES_AVERAGE * total[f] / kept[f])
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
        early = np.full((len(self._early), _EARLY_BATCHES), np.nan)
        for f, prices in enumerate(self._early):
            early[f, : len(prices)] = prices
        return {"rows": self.rows.copy(), "total": self.total.copy(), "early": early}

    def load(self, state: Mapping[str, Any]) -> None:
        self.rows, self.total = np.array(state["rows"], np.float64), np.array(state["total"], np.float64)
        self._early = [[p for p in prices if p == p] for prices in np.asarray(state["early"], np.float64).tolist()]
        self._averages = None


def _usual(prices: list[float]) -> float:
    """The mean of prices, but for those that are far above most.

    >>> _usual([3.0]), _usual([1000.0, 1.0]), _usual([1.0, 2.0, 9.0])
    (3.0, 1.0, 4.0)
    """
    most = _HELD_UP_FACTOR * median_low(prices)
    believed = [p for p in prices if p <= most]
    return sum(believed) / len(believed)
