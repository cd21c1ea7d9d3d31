"""What one more row costs a filter, apart from what a call costs.

A vectorised filter takes a + b·k for k rows. Every filter is called once for a batch in whatever order they stand, so
the calls cost the same in all orders, and only b may decide between them. Time divided by rows would make a filter that
stands behind others, and sees few rows at a time, look many times dearer than the same filter in front.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, sqrt
from typing import Any

import numpy as np

from eddyline.adaptive.filters.policy import Float64s
from eddyline.core.delta import Int64s

_FADING = 1 / 64  # how much of the past a call makes forgotten, if it has as many rows as those before it
_SPREAD = 0.5  # of the numbers of rows, relative to their mean: with less, one line fits as well as another
_CAP = 4.0  # a call is believed up to this multiple of what was expected: a pause is not the filter's price
_LEAST = 1e-10


class CallTimes:
    """A line through the calls of each filter, its past fading.

    A call with few rows tells nothing about b, so it makes little of the past forgotten: a filter that has moved behind
    others keeps the price that it had in front. Where all calls had about the same number of rows a line cannot be told
    from another: then the last a stays, and b follows the times as long as rows take most of them.

    >>> times = CallTimes(1)
    >>> for rows in (10, 20, 40, 80, 160):
    ...     b = times.add(np.array([rows]), np.array([50e-6 + 1e-6 * rows]))
    >>> print(f"{b[0]:.2e}")
    1.00e-06
    >>> print(f"{times.add(np.array([10]), np.array([60e-6]))[0]:.2e}")
    1.00e-06
    """

    __slots__ = ("_lines", "largest", "marginal")

    def __init__(self, filters: int) -> None:
        self.marginal: Float64s = np.full(filters, np.nan)
        self.largest: Int64s = np.zeros(filters, np.int64)  # calls, in rows
        self._lines = [[0.0] * 6 for _ in range(filters)]  # a, then sums: calls, rows, seconds, rows², rows·seconds

    @property
    def fixed(self) -> Float64s:
        """What a call costs before its first row."""
        return np.array([line[0] for line in self._lines])

    def add(self, rows: Int64s, seconds: Float64s) -> Float64s:
        """Calls of one batch, each with its rows and seconds: seconds for one more row, NaN where that is not known.
        A filter with no rows was not called, one with no seconds was not measured."""
        # Plain numbers: for the few filters of a query numpy would take five times as long.
        for f, (k, t) in enumerate(zip(rows.tolist(), seconds.tolist(), strict=True)):
            if k > 0 and t > 0:
                self.largest[f] = max(self.largest[f], k)
                self.marginal[f] = self._learn(self._lines[f], float(self.marginal[f]), float(k), t)
        return self.marginal

    def _learn(self, line: list[float], marginal: float, k: float, t: float) -> float:
        fixed, calls, sum_k, sum_t, sum_kk, sum_kt = line
        if calls > 2:
            t = min(t, _CAP * (fixed + marginal * k))
        usual = sqrt(sum_kk / calls) if calls else k
        keep = 1 - _FADING * min(1.0, k / usual)
        calls = keep * calls + 1
        sum_k, sum_t = keep * sum_k + k, keep * sum_t + t
        sum_kk, sum_kt = keep * sum_kk + k * k, keep * sum_kt + k * t
        mean_k, mean_t = sum_k / calls, sum_t / calls
        variance = sum_kk / calls - mean_k * mean_k
        if calls > 1.5 and variance > (_SPREAD * mean_k) ** 2:
            slope = (sum_kt / calls - mean_k * mean_t) / variance
            # Neither part can be negative: what would be is noise, and belongs to the other.
            marginal = max(_LEAST, min(slope, mean_t / mean_k))
            fixed = mean_t - marginal * mean_k
        elif mean_t > 2 * fixed or isnan(marginal):
            marginal = max(_LEAST, (mean_t - fixed) / mean_k)
        line[:] = fixed, calls, sum_k, sum_t, sum_kk, sum_kt
        return marginal

    def state(self) -> dict[str, Any]:
        return {"marginal": self.marginal.copy(), "largest": self.largest.copy(), "lines": np.array(self._lines)}

    def load(self, state: Mapping[str, Any]) -> None:
        self.marginal = np.array(state["marginal"], np.float64)
        self.largest = np.array(state["largest"], np.int64)
        self._lines = np.asarray(state["lines"], np.float64).tolist()
