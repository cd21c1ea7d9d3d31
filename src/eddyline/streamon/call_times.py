"""What one more row costs a filter, apart from what a call costs.

A vectorised filter takes a + b·k for k rows. Every filter is called once for a batch in whatever order they stand, so
the calls cost the same in all orders, and only b may decide between them. Time divided by rows would make a filter that
stands behind others, and sees few rows at a time, look many times dearer than the same filter in front.

The first calls are unreliable: a filter may load a model at its first row, or its process may be suspended, and there
are no earlier calls to compare with. So the first calls are kept and compared with one another until there are enough.
Whatever a and b are, k rows take at most max(1, k/j) times as long as j rows: a call that took far longer than most
others allow was suspended and is not counted. A price needs two calls that agree on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan, sqrt
from typing import Any

import numpy as np

from eddyline.core.delta import Bools, Float64s, Int64s

_FADING = 1 / 64  # how much of the past a call makes forgotten, if it has as many rows as those before it
_SPREAD = 0.5  # of the numbers of rows, relative to their mean: with less, one line fits as well as another
_CAP = 4.0  # a call is believed up to this multiple of what was expected: a pause is not the filter's price
_EARLY = 8  # calls that are judged by one another; later ones by what was learned before them
# Times what the others allow: what took longer was suspended. With less, some rows may be dearer than others.
_SUSPENDED = 16.0
_ALIKE = 2.0  # times what another allows: calls that agree on a price
_MIN_ROWS_TO_COMPARE = 16  # rows of a call that says something about larger ones: single rows vary by chance
_MIN_SECONDS_PER_ROW = 1e-10  # no call is free


class CallTimes:
    """A line through the calls of each filter, its past fading.

    A call with few rows says nothing about b, so it makes little of the past forgotten: a filter that has moved behind
    others keeps the price that it had in front. Where all calls had about the same number of rows lines cannot be
    distinguished: then the last a stays, and b follows the times as long as rows take most of them.

    >>> times = CallTimes(1)
    >>> for rows in (10, 20, 40, 80, 160):
    ...     b = times.add(np.array([rows]), np.array([50e-6 + 1e-6 * rows]))
    >>> print(f"{b[0]:.2e}")
    1.00e-06
    >>> print(f"{times.add(np.array([10]), np.array([60e-6]))[0]:.2e}")
    1.00e-06

    A row takes a microsecond, and the first one half a second more. One call is no price, nor are two that differ:

    >>> times = CallTimes(1)
    >>> for seconds in (0.5, 0, 0, 0):
    ...     b = times.add(np.array([64]), np.array([64e-6 + seconds]))
    ...     print(f"{b[0]:.1e} {times.marginal[0]:.1e}")
    nan 7.8e-03
    nan 1.0e-06
    1.0e-06 1.0e-06
    1.0e-06 1.0e-06
    """

    __slots__ = ("_early", "_lines", "largest", "marginal", "settled")

    def __init__(self, filters: int) -> None:
        self.marginal: Float64s = np.full(filters, np.nan)  # the best guess, of one call if there is no other
        self.settled: Bools = np.zeros(filters, np.bool_)  # whether it is more than a guess
        self.largest: Int64s = np.zeros(filters, np.int64)  # calls, in rows
        self._lines = [[0.0] * 6 for _ in range(filters)]  # a, then sums: calls, rows, seconds, rows², rows·seconds
        self._early: list[list[tuple[float, float]]] = [[] for _ in range(filters)]  # the first calls: rows, seconds

    @property
    def fixed(self) -> Float64s:
        """What a call costs before its first row."""
        return np.array([line[0] for line in self._lines])

    @property
    def prices(self) -> Float64s:
        """Seconds for one more row, NaN where that is not known."""
        known: Float64s = np.where(self.settled, self.marginal, np.nan)
        return known

    @property
    def guessed(self) -> Bools:
        """Filters that were measured, but whose price is not known yet."""
        return ~self.settled & ~np.isnan(self.marginal)

    def add(self, rows: Int64s, seconds: Float64s) -> Float64s:
        """Calls of one batch, each with its rows and seconds: the ``prices`` after them. A filter with no rows was not
        called, one with no seconds was not measured."""
        # Plain numbers: for the few filters of a query numpy would take five times as long.
        for f, (k, t) in enumerate(zip(rows.tolist(), seconds.tolist(), strict=True)):
            if k > 0 and t > 0:
                self.largest[f] = max(self.largest[f], k)
                self.marginal[f] = self._called(f, float(k), t)
        return self.prices

    def _called(self, f: int, k: float, t: float) -> float:
        line, early = self._lines[f], self._early[f]
        if len(early) == _EARLY:
            return self._learn(line, float(self.marginal[f]), k, t)
        early.append((k, t))
        marginal = float("nan")
        line[:] = [0.0] * 6
        for i, call in enumerate(early):
            if not _held_up(early, i):  # the quickest never was
                marginal = self._learn(line, marginal, *call)
        self.settled[f] = _settled(early)
        return marginal

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
            if slope > 0:
                marginal = max(_MIN_SECONDS_PER_ROW, min(slope, mean_t / mean_k))
            else:  # a pause, or rows that hardly count: the more often that is seen, the less they do
                marginal = max(_MIN_SECONDS_PER_ROW, min(marginal, mean_t / mean_k) / 2)
            fixed = max(0.0, mean_t - marginal * mean_k)
        elif fixed > mean_t:  # which cannot be: it was drawn through a pause
            fixed = mean_t / 2
            marginal = max(_MIN_SECONDS_PER_ROW, fixed / mean_k)
        elif mean_t > 2 * fixed or isnan(marginal):
            marginal = max(_MIN_SECONDS_PER_ROW, (mean_t - fixed) / mean_k)
        line[:] = fixed, calls, sum_k, sum_t, sum_kk, sum_kt
        return marginal

    def state(self) -> dict[str, Any]:
        early = np.zeros((len(self._early), _EARLY, 2))
        for f, calls in enumerate(self._early):
            early[f, : len(calls)] = np.array(calls).reshape(-1, 2)
        lines = np.array(self._lines)
        return {"marginal": self.marginal.copy(), "largest": self.largest.copy(), "lines": lines, "early": early}

    def load(self, state: Mapping[str, Any]) -> None:
        self.marginal = np.array(state["marginal"], np.float64)
        self.largest = np.array(state["largest"], np.int64)
        self._lines = np.asarray(state["lines"], np.float64).tolist()
        early = np.asarray(state["early"], np.float64).tolist()
        self._early = [[(k, t) for k, t in calls if k] for calls in early]
        self.settled = np.array([_settled(calls) for calls in self._early], np.bool_)


def _held_up(calls: Sequence[tuple[float, float]], i: int) -> bool:
    """Whether a call took longer than most of the others allow. Those with next to no rows have no say about many.

    >>> calls = [(64, 0.5), (64, 0.001), (32, 0.0005), (1, 0.1), (32, 0.001)]
    >>> [_held_up(calls, i) for i in range(5)]
    [True, False, False, True, False]
    """
    k, t = calls[i]
    others = (c for place, c in enumerate(calls) if place != i and c[0] >= min(_MIN_ROWS_TO_COMPARE, k / _CAP))
    allowed = sorted(other * max(1.0, k / j) for j, other in others)
    return bool(allowed) and t > _SUSPENDED * allowed[len(allowed) // 2]


def _settled(calls: Sequence[tuple[float, float]]) -> bool:
    """Whether the first calls make a price: there are enough, or the last agrees with another. Those with next to no
    rows have no say.

    >>> [_settled([(64, 2.0), *[(64, 0.001)] * more, (1, 0.5)]) for more in (0, 1, 2)]
    [False, False, True]
    """
    if len(calls) == _EARLY:
        return True
    most = max((k for k, _ in calls), default=0.0)
    heard = [(k, t) for k, t in calls if k >= min(_MIN_ROWS_TO_COMPARE, most / _CAP)]
    if len(heard) < 2:
        return False
    k, t = heard[-1]
    return any(t <= _ALIKE * u * max(1.0, k / j) and u <= _ALIKE * t * max(1.0, j / k) for j, u in heard[:-1])
