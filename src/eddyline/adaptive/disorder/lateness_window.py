"""The lateness of the last rows of a stream, and its quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.core.delta import Int64s


class LatenessWindow:
    """A ring of the last ``size`` values. Lateness is how far a row lies behind the largest time before it, 0 if it
    does not.

    >>> window = LatenessWindow(4)
    >>> window.push(np.array([9, 1, 2, 3, 7]))
    >>> window.exceeded_by(0), window.exceeded_by(1), window.exceeded_by(4), len(window)
    (7, 3, 0, 4)
    """

    def __init__(self, size: int) -> None:
        self.values: Int64s = np.zeros(size, np.int64)
        self.count = 0  # values so far, those that have left included

    def __len__(self) -> int:
        return min(self.count, len(self.values))

    def push(self, lateness: Int64s) -> None:
        size = len(self.values)
        last = lateness[-size:]
        begin = (self.count + len(lateness) - len(last)) % size
        first = min(len(last), size - begin)
        self.values[begin : begin + first] = last[:first]
        self.values[: len(last) - first] = last[first:]
        self.count += len(lateness)

    def exceeded_by(self, rows: int) -> int:
        """The smallest lateness that at most ``rows`` rows of the window exceed."""
        held = len(self)
        if rows >= held:
            return 0
        place = held - 1 - rows
        return int(np.partition(self.values[:held], place)[place])

    def state(self) -> dict[str, Any]:
        return {"values": self.values[: len(self)].copy(), "count": self.count}

    def load(self, state: Mapping[str, Any]) -> None:
        self.values[: len(state["values"])] = state["values"]
        self.count = int(state["count"])
