"""Statistics of filters: totals, the recent past and a history, for people. No policy reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.core.delta import Float64s, Int64s
from eddyline.streamon.work_history import History

_RECENT = 8192  # rows after which the past counts half


class FilterStatistics:
    """Totals of a pipeline and the recent past, by filter as written.

    >>> seen = FilterStatistics(2)
    >>> prices = np.array([1e-5, 2e-5])
    >>> seen.add(100, np.array([100, 50]), np.array([50, 40]), np.array([0, 5]), np.array([1e-3, 1.1e-3]), prices)
    >>> seen.statistics()["asked"], seen.statistics()["selectivity"]
    ([100, 50], [0.5, 0.8])
    """

    def __init__(self, filters: int) -> None:
        self.rows = self.batches = self.changes = 0
        self.totals: Float64s = np.zeros((4, filters))  # rows in, rows out, extra, seconds
        self.recent: Float64s = np.zeros((4, filters))
        self._recent_rows = 0.0
        self._prices: Float64s = np.full(filters, np.nan)  # of one more row; NaN where it is not known
        self.history = History()

    def add(
        self, rows: int, rows_in: Int64s, rows_out: Int64s, extra: Int64s, seconds: Float64s, prices: Float64s
    ) -> None:
        """A batch; ``seconds`` are those of all rows that a filter was asked about, ``prices`` those of one more row
        (NaN: not known)."""
        batch = np.array([rows_in, rows_out, extra, seconds])
        self.totals += batch
        if self._recent_rows >= _RECENT:
            self._recent_rows /= 2
            self.recent /= 2
        self.recent += batch
        self._recent_rows += rows
        self.rows += rows
        self.batches += 1
        self.history.add(rows, int(rows_in.sum()), int(extra.sum()))
        self._prices = np.where(np.isnan(prices), self._prices, prices)

    def decided(self) -> None:
        """A decision was taken after the rows so far."""
        self.changes += 1
        self.history.decided(self.rows)

    def statistics(self) -> dict[str, Any]:
        """Lists are by filter as written; shares and seconds a row are of the recent past, the rest since the start.
        Seconds a row are the price that decisions rest on, without what held the first calls up; where there is none
        yet, what rows took."""
        rows_in, rows_out, extra, seconds = self.recent
        asked = rows_in + extra
        with np.errstate(invalid="ignore"):
            passes, price = rows_out / rows_in, np.where(np.isnan(self._prices), seconds / asked, self._prices)
        return {
            "rows": self.rows,
            "asked": [int(x) for x in self.totals[0]],
            "passed": [int(x) for x in self.totals[1]],
            "profiling": [int(x) for x in self.totals[2]],
            "seconds": [float(x) for x in self.totals[3]],
            "selectivity": [None if np.isnan(x) else float(x) for x in passes],
            "seconds_per_row": [None if np.isnan(x) else float(x) for x in price],
            "decisions": self.changes,
            "history": self.history.statistics(),
        }

    def state(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "batches": self.batches,
            "changes": self.changes,
            "totals": self.totals.copy(),
            "recent": self.recent.copy(),
            "recent_rows": self._recent_rows,
            "prices": self._prices.copy(),
            "history": self.history.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.rows, self.batches, self.changes = (int(state[n]) for n in ("rows", "batches", "changes"))
        self.totals, self.recent = np.array(state["totals"]), np.array(state["recent"])
        self._recent_rows = float(state["recent_rows"])
        self._prices = np.array(state["prices"], np.float64)
        if "history" in state:  # a snapshot of an earlier version has none
            self.history.load(state["history"])
