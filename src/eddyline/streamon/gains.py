"""Gains of decisions: the cost of a unit of work before a decision over its cost after it.

Filters and joins measure their gains here. Routing policies measure theirs on their own samples: without these, nothing
shows what the same rows would have cost without a classifier.

Work is a vector (evaluations by filter, or one number: accesses) because a price may only be known after the work was
done: both sides are weighed with the prices that are known when the gain is read. So a gain compares two plans on the
same prices, and a filter that was held up once does not count on one side only.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from eddyline.core.delta import Float64s, Int64s
from eddyline.streamon.log import DecisionLog


class GainMeter:
    """Measures the last decision of one operator.

    ``steps_before`` steps before a decision are compared with the steps after it; after ``units_after`` units (rows,
    elements) or ``steps_after`` steps, whichever comes first, the gain is settled. A decision that is followed by
    another one earlier is settled with what there is.

    >>> from eddyline.streamon.decision import Decision
    >>> log = DecisionLog()
    >>> meter = GainMeter(log, 2, steps_before=4, steps_after=2)
    >>> prices = np.array([1e-5, 2e-5])
    >>> for _ in range(4):
    ...     meter.add(100, np.array([100, 50]), prices)
    >>> meter.decided(log.record(Decision("filter order", (0, 1), (1, 0))).sequence)
    >>> meter.add(100, np.array([5, 50]), prices)
    >>> round(meter.gain(), 3)
    1.905
    >>> meter.add(100, np.array([5, 50]), prices)
    >>> [round(d.measured_gain, 3) for d in log]
    [1.905]
    """

    def __init__(
        self,
        log: DecisionLog,
        width: int,
        *,
        steps_before: int,
        steps_after: int | None = None,
        units_after: int | None = None,
        fewest_before: int = 1,
    ) -> None:
        self.log, self.width = log, width
        self.steps_after, self.units_after, self.fewest_before = steps_after, units_after, fewest_before
        self._last: deque[tuple[int, Float64s]] = deque(maxlen=steps_before)  # steps: units, and the work for them
        self._prices: Float64s = np.ones(width)
        self._forget()
        log.measured_by(self)

    def _forget(self) -> None:
        self._sequence: int | None = None
        self._before: Float64s | None = None  # work for a unit before the decision
        self._after: Float64s = np.zeros(self.width)
        self._units = self._steps = 0  # since the decision

    def add(self, units: int, work: Float64s | Int64s, prices: Float64s | None = None) -> None:
        """A step: so many units took so much work. ``prices`` weigh the work; NaN where one is not known."""
        self._last.append((units, np.asarray(work, np.float64)))
        if prices is not None:
            known = ~np.isnan(prices)
            if known.any():
                self._prices = np.where(known, prices, prices[known].mean())
        if self._before is None:
            return
        self._after = self._after + work
        self._units += units
        self._steps += 1
        enough = self.steps_after is not None and self._steps >= self.steps_after
        if enough or (self.units_after is not None and self._units >= self.units_after):
            self.settle()

    def decided(self, sequence: int | None) -> None:
        """A decision takes effect now; the one before it is settled."""
        self.settle()
        units = sum(u for u, _ in self._last)
        if units >= self.fewest_before:
            self._sequence = sequence
            self._before = sum((w for _, w in self._last), np.zeros(self.width)) / units
        self._last.clear()

    def gain(self) -> float | None:
        """The gain of the last decision as measured so far."""
        if self._before is None or not self._units:
            return None
        after = float(self._after @ self._prices) / self._units
        return float(self._before @ self._prices) / after if after > 0 else None

    def so_far(self) -> tuple[int | None, float | None]:
        return self._sequence, self.gain()

    def settle(self) -> None:
        """Enter the gain of the last decision into the log, if it was measured."""
        gain = self.gain()
        if gain is not None:
            self.log.settle(self._sequence, gain)
        self._forget()
