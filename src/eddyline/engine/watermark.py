"""The watermark of one stream: a row that comes with a smaller time is late.

``bound`` = the largest over the past of (largest time shown − slack at that time). With a slack that never changes
this is shown − slack. A larger slack does not lower it: instants below it are closed, and their results may have been
delivered. So a larger slack takes effect only when later times are shown, a smaller one at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.core.delta import Bools, Int64s
from eddyline.core.time import BEGINNING

BEHIND = "late: more than the slack behind the largest time shown before it"
BEFORE = "late: within the slack, but before a time that was closed while the slack was smaller"
SHUT = "late: its instant was closed while the stream was idle"


@dataclass(slots=True)
class Watermark:
    """
    >>> mark = Watermark(slack=2)
    >>> mark.show(7)
    >>> mark.bound
    5
    >>> mark.change(4)
    >>> mark.bound
    5
    >>> mark.show(12)
    >>> mark.bound
    8
    """

    slack: int = 0
    shown: int | None = None  # the largest time shown by element or heartbeat
    floor: int = BEGINNING  # the bound when the slack was changed last

    @property
    def bound(self) -> int:
        """All smaller times are late; BEGINNING while nothing was shown."""
        shown = self.shown
        if shown is None or shown - self.slack < self.floor:
            return self.floor
        return shown - self.slack

    def show(self, time: int) -> None:
        if self.shown is None or time > self.shown:
            self.shown = time

    def change(self, slack: int) -> None:
        """Another slack from now on."""
        self.floor, self.slack = self.bound, slack

    def late(self, time: Int64s, closed: int = BEGINNING) -> LateRows | None:
        """Which of the rows that come next, in order of arrival, are late; None: none of them.

        ``closed`` is the largest instant that was closed by others.
        """
        before = np.empty_like(time)  # the largest time shown before each row; the first row of all is on time
        before[0] = time[0] if self.shown is None else self.shown
        np.maximum(np.maximum.accumulate(time[:-1]), before[0], out=before[1:])
        behind: Bools = time < before - self.slack
        below: Bools = (time < self.floor) & ~behind
        shut: Bools = (time <= closed) & ~behind & ~below
        rows = behind | below | shut
        return LateRows(rows, before, below * np.int8(1) + shut * np.int8(2)) if rows.any() else None


@dataclass(frozen=True, slots=True)
class LateRows:
    """The late rows of a batch: ``rows`` says which, ``before`` what was shown before each row of the batch, ``why``
    is 0 for BEHIND, 1 for BEFORE and 2 for SHUT."""

    rows: Bools
    before: Int64s
    why: Any  # int8 for each row of the batch
