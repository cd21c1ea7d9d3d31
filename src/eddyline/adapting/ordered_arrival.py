"""Ordered arrival, OA(k): rows that come out of order are at most k rows apart (thesis 6.8); OA_t(δ): δ ticks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eddyline.adapting.monitor_steps import MonitorSteps
from eddyline.adaptive.constraints.forms import UNKNOWN, Forms
from eddyline.core.delta import Int64s
from eddyline.kernels.constrained_layout import MARKS
from eddyline.kernels.constrained_monitors import HELD, scrambling

LOWEST = -(1 << 63)
MAXIMA_ONE_BY_ONE = 512  # so many are remembered one by one; of more, neighbours are taken together
RESOLUTION = 100  # of more, those of about one hundredth of their age are taken together: more measure k more exactly
LEAST_KEPT = 2  # times k_e, or W: arrivals remembered while k is known; a row that is later than that is an increase
LEAST_MARKED = 16  # arrivals between two marks: fewer notice a growth of a small k sooner
REMEMBERED = ("maxima", "at", "when", "last", "until")  # as the kernel has them


class OrderedArrival:
    """The running maximum of an attribute at the arrivals at which it rises, and the scrambling distances that it
    shows. Of the last ``most`` arrivals at least, fewer where k is known: a row that is further out of order counts as
    an increase.

    Where there are many maxima, neighbours are remembered together as the last of them, with the arrivals of the first
    and the last. A distance is counted from the first, and a maximum counts from the last on: both err on the side of a
    larger k, by a few hundredths.

    >>> from eddyline.adaptive.constraints.adherence import Adherence
    >>> oa = OrderedArrival(Forms(*(Adherence(c=1.2, W=3, careful=False) for _ in range(2))))
    >>> oa.arrived(np.array([1, 2, 5, 3, 4, 6]), np.array([10, 20, 30, 31, 32, 40]))
    >>> oa.forms.arrivals.k_u, oa.low(40)
    (2, 5)
    """

    def __init__(self, forms: Forms, most: int = 1 << 16) -> None:
        self.forms, self.most = forms, most
        self.count = 0
        self.maxima: Int64s = np.empty(0, np.int64)  # increasing
        self.at: Int64s = np.empty(0, np.int64)  # the number of the arrival that raised it, the first of several
        self.when: Int64s = np.empty(0, np.int64)  # and its time
        self.last: Int64s = np.empty(0, np.int64)  # the same of the last of several
        self.until: Int64s = np.empty(0, np.int64)
        self.cut = False  # older maxima were forgotten
        self._dense = MAXIMA_ONE_BY_ONE  # maxima above which neighbours are taken together

    def arrived(self, values: Int64s, times: Int64s) -> None:
        """The values of rows, in order of arrival, and when they came."""
        if len(values) == 0:
            return
        many = len(self.maxima)
        held = np.empty((HELD, many + len(values)), np.int64)
        for line, name in enumerate(REMEMBERED):
            held[line, :many] = getattr(self, name)
        steps = MonitorSteps(self.forms, len(values))
        known = int(scrambling(values, times, self.count, many, held, int(self.cut), *steps.arrays))
        for line, name in enumerate(REMEMBERED):
            setattr(self, name, held[line, :known].copy())
        self.count += len(values)
        steps.hand_over(self.count, int(times[-1]))
        self._trim(int(times[-1]))

    def _trim(self, now: int) -> None:
        """Forget maxima that are older than ``most`` arrivals, and than a form looks at whose k is known."""
        known = []
        for form, marks, end in ((self.forms.arrivals, self.at, self.count), (self.forms.ticks, self.when, now)):
            if not math.isinf(form.k_e) and form.W < UNKNOWN:
                known.append(self._older(marks, end - LEAST_KEPT * max(form.W, int(form.k_e))))
        start = max(self._older(self.at, self.count - self.most), min(known, default=0))
        if start > 0 and 2 * start > len(self.at):
            for name in REMEMBERED:
                setattr(self, name, getattr(self, name)[start:].copy())
            self.cut = True
        if len(self.at) > self._dense:
            self._thin(now)
            self._dense = max(MAXIMA_ONE_BY_ONE, 2 * len(self.at))

    def _thin(self, now: int) -> None:
        """Take maxima together whose first arrivals, and the times of these, are about equally long ago."""
        ages = (self.count - self.at, now - self.when + 1)
        cells = [np.floor(RESOLUTION * np.log(np.maximum(age, 1))) for age in ages]
        changes = np.flatnonzero((np.diff(cells[0]) != 0) | (np.diff(cells[1]) != 0))
        first, last = np.append(0, changes + 1), np.append(changes, len(self.at) - 1)
        self.at, self.when = self.at[first], self.when[first]
        self.maxima, self.last, self.until = self.maxima[last], self.last[last], self.until[last]

    @staticmethod
    def _older(marks: Int64s, end: int) -> int:
        """The last maximum before those that are remembered, which is theirs, too."""
        return int(np.searchsorted(marks, end, side="right")) - 1

    def low(self, now: int, k: float | None = None) -> int:
        """A value that no future row is below: max_{k_e + 1}, the maximum before the last k_e (or k) arrivals or
        ticks."""
        k = self.forms.used.k_e if k is None else k
        if math.isinf(k):
            return LOWEST
        if self.forms.in_ticks:
            place = int(np.searchsorted(self.until, now - int(k), side="left")) - 1
        else:
            place = int(np.searchsorted(self.last, self.count - 1 - int(k), side="right")) - 1
        return int(self.maxima[place]) if place >= 0 else LOWEST

    def marks_every(self) -> int:
        """Arrivals, or ticks, between two marks of the largest key in the kernel: half of those by which a row is kept
        longer than is noticed, and so many that the last marks reach back as far as rows are kept."""
        k_e, growing = self.forms.used.k_e, self.forms.used.growing
        least = 1 if self.forms.in_ticks else LEAST_MARKED
        return max(least, int((k_e - growing) / 2), int(k_e / (MARKS - 2)))

    @property
    def nbytes(self) -> int:
        return sum(int(getattr(self, name).nbytes) for name in REMEMBERED)

    def state(self) -> dict[str, Any]:
        held = {name: getattr(self, name).copy() for name in REMEMBERED}
        return {"forms": self.forms.state(), "count": self.count, "cut": int(self.cut), **held}

    def load(self, state: dict[str, Any]) -> None:
        self.forms.load(state["forms"])
        self.count, self.cut = int(state["count"]), bool(state["cut"])
        for name in REMEMBERED:
            setattr(self, name, np.array(state[name], np.int64))
