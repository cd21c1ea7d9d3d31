"""A constraint in its two forms: distances are counted in arrivals of a stream, as in the thesis, or in ticks.

The thesis names time-based constraints beside tuple-based ones (6.1.3) and leaves them out. RIDS_t(δ): the child comes
at most δ ticks after its parent. CA_t(δ): any two rows of one value come within δ ticks. OA_t(δ): two rows that are out
of order come within δ ticks. Where delays are delays of time and rates vary, the largest distance in arrivals is that
of the busiest time, and in quiet times rows wait long for as many arrivals; and without arrivals nothing is ever over,
while heartbeats say that time has passed. Where rates are even, both forms say the same.

Both are measured. By Little's law the rows that wait are as many as arrive while one waits: k_e arrivals, or k_e ticks
at the present rate of the stream that is counted; and all that come while k is infinite. The form is used that kept, or
would have kept, fewer rows on average over the last arrivals of a window. What each would keep at the present
instant says less: in quiet times k in arrivals has fallen to that of quiet times, and is infinite when they end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eddyline.adaptive.constraints.adherence import Adherence
from eddyline.core.delta import Int64s

CHOSEN, ARRIVALS, TICKS = "chosen", "arrivals", "ticks"
MARGIN = 0.9  # of the rows that the form in use kept: the other has to be better than that
PATIENCE = 4  # choices for which a form that was refuted is waited for: fewer lose more, more keep more
UNKNOWN = 1 << 62  # ticks that are looked at as long as no rate is known
NONE: Int64s = np.empty(0, np.int64)


class Forms:
    """``given``: which form may be used; ``chosen`` by the rows that each keeps.

    >>> rids = Forms(Adherence(W=4), Adherence(W=4))
    >>> rids.passed(1_000, rate=0.5)
    >>> rids.choose(arrived=0, window=50)
    >>> rids.arrivals.observe(np.array([1, 9]), np.array([1, 8]), 13)
    >>> rids.observe_ticks(np.array([1_002, 1_010]), np.array([3, 4]), 1_018)
    >>> rids.used.k_u, rids.in_ticks, rids.length
    (8, False, 8.0)
    >>> rids.choose(arrived=13, window=50)
    >>> rids.used.k_u, rids.in_ticks, rids.length
    (4, True, 2.0)
    """

    def __init__(self, arrivals: Adherence, ticks: Adherence, given: str = CHOSEN) -> None:
        self.arrivals, self.ticks, self.given = arrivals, ticks, given
        self.in_ticks = given == TICKS
        self.begun = False  # ticks: a time is known
        self.rate = 0.0  # arrivals for each tick
        self.unknown = 0  # choices since the k of the form in use became infinite
        # By form the rows that wait, and these times the ticks for which they did, of the last arrivals of a window.
        self.waiting, self.kept = (0.0, 0.0), (0.0, 0.0)
        self.now, self.chosen_at = 0, 0  # the time, and the arrivals at the last choice
        self.ticks_since = 0  # the last choice
        ticks.W = UNKNOWN

    @property
    def used(self) -> Adherence:
        return self.ticks if self.in_ticks else self.arrivals

    @property
    def length(self) -> float:
        """Arrivals for which rows are kept, at the present rate."""
        return self._lengths()[int(self.in_ticks)]

    def _lengths(self) -> tuple[float, float]:
        ticks = math.inf if math.isinf(self.ticks.k_e) else self.ticks.k_e * self.rate
        return float(self.arrivals.k_e), ticks

    @property
    def limits(self) -> Int64s:
        """The largest distances that are no increase, in arrivals and in ticks."""
        return np.array([min(UNKNOWN, self.arrivals.limit), min(UNKNOWN, self.ticks.limit)], np.int64)

    def passed(self, now: int, rate: float) -> None:
        """Time has come to ``now``, whether there were arrivals or not; as many ticks are looked at as ``W`` arrivals
        take."""
        self._begin(now)
        self.rate = rate
        self.ticks_since += now - self.now
        self.now = now
        self.ticks.W = max(1, math.ceil(self.arrivals.W / rate)) if rate > 0 else UNKNOWN
        self.ticks.observe(NONE, NONE, now)

    def observe_ticks(self, times: Int64s, distances: Int64s, now: int) -> None:
        """Distances in ticks with the times at which they were seen, by increasing time."""
        if len(times):
            self._begin(int(times[0]))
        self.ticks.observe(times, distances, now)

    def _begin(self, now: int) -> None:
        if not self.begun:
            self.begun, self.ticks.reset_at, self.now = True, now, now

    def choose(self, arrived: int, window: float) -> None:
        """Use the form that keeps fewer rows, when so many have arrived and a window holds about so many. What refutes
        the one will often refute the other a little later, so a form that has just been refuted is not left for the
        other at once."""
        if self.given != CHOSEN:
            return
        lengths = self._lengths()
        self._weigh(lengths, arrived, window)
        here, there = int(self.in_ticks), 1 - int(self.in_ticks)
        self.unknown = self.unknown + 1 if math.isinf(lengths[here]) else 0
        if (
            math.isfinite(lengths[there])
            and self.kept[there] < MARGIN * self.kept[here]
            and (self.unknown == 0 or self.unknown > PATIENCE)
        ):
            self.in_ticks, self.unknown = not self.in_ticks, 0

    def _weigh(self, lengths: tuple[float, float], arrived: int, window: float) -> None:
        """Count what each form keeps since the last choice; what was before counts the less the more have arrived."""
        came, elapsed = arrived - self.chosen_at, max(1, self.ticks_since)
        self.chosen_at, self.ticks_since = arrived, 0
        most = window if math.isfinite(window) else float(arrived)
        # While a k is infinite no row that waits is given up.
        a, b = (
            min(most, waiting + came if length == math.inf else length)
            for waiting, length in zip(self.waiting, lengths, strict=True)
        )
        self.waiting = a, b
        if lengths != (math.inf, math.inf):  # else nothing tells the forms apart
            fades = math.exp(-came / max(1.0, most))
            self.kept = self.kept[0] * fades + a * elapsed, self.kept[1] * fades + b * elapsed

    def refuted(self, arrived: int, now: int) -> None:
        """A row was needed that the form in use had made useless."""
        self.used.refuted(now if self.in_ticks else arrived)

    def state(self) -> dict[str, Any]:
        return {"arrivals": self.arrivals.state(), "ticks": self.ticks.state(), "in_ticks": int(self.in_ticks),
                "begun": int(self.begun), "now": self.now, "waiting": np.array(self.waiting),
                "kept": np.array(self.kept), "chosen_at": self.chosen_at, "ticks_since": self.ticks_since}  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        self.arrivals.load(state["arrivals"])
        self.ticks.load(state["ticks"])
        self.begun, self.now = bool(state["begun"]), int(state.get("now", 0))
        self.waiting, self.kept = (_pair(state.get(n, (0, 0))) for n in ("waiting", "kept"))
        self.chosen_at, self.ticks_since = int(state.get("chosen_at", 0)), int(state.get("ticks_since", 0))
        if self.given == CHOSEN:
            self.in_ticks = bool(state["in_ticks"])


def _pair(values: Any) -> tuple[float, float]:
    a, b = np.array(values, np.float64).tolist()
    return a, b
