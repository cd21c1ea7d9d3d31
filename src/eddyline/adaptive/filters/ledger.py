"""What filters did and what decisions gained: the books, for people. No policy reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eddyline.core.delta import Float64s, Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.work_history import History

KEPT = 256  # decisions; how many there were is counted
_RECENT = 8192  # rows after which the past counts half
_BEFORE, _AFTER = 3, 16  # batches whose cost a decision's gain is measured by


class Ledger:
    """Totals of a pipeline, the recent past, and decisions with their gain.

    The gain of a decision is what was asked of the filters for a row in the last batches before it, over the same in
    the next ones up to the next decision; both at the prices of now, profiling left out. It is counted, so it also
    holds what else has changed in the data.

    >>> books = Ledger(2)
    >>> prices = np.array([1e-5, 2e-5])
    >>> books.add(100, np.array([100, 50]), np.array([50, 40]), np.array([0, 5]), np.array([1e-3, 1.1e-3]), prices)
    >>> books.decided(Decision(7, "select 1", "filter order", (0, 1), (1, 0), "because", expected_gain=1.3))
    >>> books.add(100, np.array([5, 50]), np.array([4, 5]), np.array([0, 0]), np.array([5e-5, 1e-3]), prices)
    >>> books.decisions[0].expected_gain, round(books.decisions[0].measured_gain, 3)
    (1.3, 1.905)
    """

    def __init__(self, filters: int) -> None:
        self.rows = self.batches = self.changes = 0
        self.totals: Float64s = np.zeros((4, filters))  # rows in, rows out, extra, seconds
        self.recent: Float64s = np.zeros((4, filters))
        self._recent_rows = 0.0
        self._decisions: deque[Decision] = deque(maxlen=KEPT)
        self._last: deque[tuple[int, Int64s]] = deque(maxlen=_BEFORE)  # batches: their rows, and what was asked
        self._before: Float64s | None = None  # what was asked for a row before the last decision
        self._after: Float64s = np.zeros(filters)  # and after it, of
        self._since = [0, 0]  # so many batches and rows
        self._prices: Float64s = np.ones(filters)
        self._known: Float64s = np.full(filters, np.nan)  # the same, NaN where there is none
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
        self._last.append((rows, rows_in))
        known = ~np.isnan(prices)
        self._known = np.where(known, prices, self._known)
        if known.any():
            self._prices = np.where(known, prices, prices[known].mean())
        if self._before is not None:
            self._after += rows_in
            self._since[0] += 1
            self._since[1] += rows
            if self._since[0] >= _AFTER:
                self._settle()

    def decided(self, decision: Decision) -> None:
        self._settle()
        self.changes += 1
        self.history.decided(self.rows)
        self._decisions.append(decision)
        rows = sum(r for r, _ in self._last)
        self._before = sum((a for _, a in self._last), np.zeros(len(self._after))) / rows if rows else None
        self._after, self._since = np.zeros(len(self._after)), [0, 0]
        self._last.clear()

    @property
    def decisions(self) -> Sequence[Decision]:
        """The last ones, oldest first, with the gain of each as far as it is known."""
        found = list(self._decisions)
        if found and (gain := self._gain()) is not None:
            found[-1] = replace(found[-1], measured_gain=gain)
        return found

    def _gain(self) -> float | None:
        if self._before is None or not self._since[1]:
            return None
        return float(self._before @ self._prices / (self._after @ self._prices / self._since[1]))

    def _settle(self) -> None:
        if (gain := self._gain()) is not None:
            self._decisions[-1] = replace(self._decisions[-1], measured_gain=gain)
        self._before = None

    def statistics(self) -> dict[str, Any]:
        """Lists are by filter as written; shares and seconds a row are of the recent past, the rest since the start.
        Seconds a row are the price that decisions rest on, without what held the first calls up; where there is none
        yet, what rows took."""
        rows_in, rows_out, extra, seconds = self.recent
        asked = rows_in + extra
        with np.errstate(invalid="ignore"):
            passes, price = rows_out / rows_in, np.where(np.isnan(self._known), seconds / asked, self._known)
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
            "prices": self._known.copy(),
            "decisions": [d.to_dict() for d in self.decisions],
            "history": self.history.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """A gain that was still being measured stays as it was: what comes next runs elsewhere."""
        self.rows, self.batches, self.changes = (int(state[n]) for n in ("rows", "batches", "changes"))
        self.totals, self.recent = np.array(state["totals"]), np.array(state["recent"])
        self._recent_rows = float(state["recent_rows"])
        self._decisions = deque((Decision(**d) for d in state["decisions"]), maxlen=KEPT)
        self._last.clear()
        self._before = None
        if "prices" in state:  # a snapshot of an earlier version has none
            self._known = np.array(state["prices"], np.float64)
        if "history" in state:  # a snapshot of an earlier version has none
            self.history.load(state["history"])
