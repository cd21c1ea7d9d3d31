"""How many rows of each input of a join arrive in a tick, and during its window."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from eddyline.core.bound import Bound, bound_of
from eddyline.core.delta import Int64s
from eddyline.kernels import constrained_layout as k
from eddyline.operators.constrained_join import ConstrainedJoin

COUNTS_KEPT = 64  # where no window is time-based: more take memory
COUNTS_FOR_RATE = 3  # the last ones: fewer follow a change of the rate sooner, and vary more


class ArrivalRates:
    """Counts of arrivals at some times: those of the longest time-based window, or of the last ``COUNTS_KEPT``."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.history: deque[tuple[int, Int64s]] = deque()
        self._bounds: list[Bound] = []

    def bound(self, join: ConstrainedJoin, i: int) -> Bound:
        """The bound of the window of an input, which never changes."""
        if not self._bounds:
            self._bounds = [bound_of(s.spec.window) for s in join.sides]
        return self._bounds[i]

    def note(self, join: ConstrainedJoin, now: int) -> None:
        ticks = max((self.bound(join, i).ticks or 0 for i in range(self.inputs)), default=0)
        self.history.append((now, join.slots.arrived.copy()))
        while len(self.history) > (1 if ticks else COUNTS_KEPT) and (not ticks or self.history[1][0] <= now - ticks):
            self.history.popleft()

    def _since(self, join: ConstrainedJoin, i: int, counts: int = 0) -> tuple[float, int]:
        """Arrivals since the first time that is remembered, or since the last ``counts``; and ticks."""
        then, before = self.history[-min(counts, len(self.history))]
        return float(join.slots.arrived[i] - before[i]), int(join.progress[k.NOW]) - then

    def in_window(self, join: ConstrainedJoin, i: int) -> float:
        """Arrivals of an input during its window."""
        bound = self.bound(join, i)
        if bound.rows is not None:
            return bound.rows
        if bound.ticks is None or not self.history:
            return math.inf
        came, elapsed = self._since(join, i)
        return came * min(1.0, bound.ticks / max(1, elapsed))

    def per_tick(self, join: ConstrainedJoin, i: int) -> float:
        """Arrivals of an input in a tick, at present; 0: not known."""
        if not self.history:
            return 0.0
        came, elapsed = self._since(join, i, COUNTS_FOR_RATE)
        return came / elapsed if elapsed > 0 else 0.0

    def state(self) -> Int64s:
        lines: Int64s = np.array([[t, *a.tolist()] for t, a in self.history], np.int64).reshape(-1)
        return lines

    def load(self, state: Any) -> None:
        lines = np.array(state, np.int64).reshape(-1, self.inputs + 1)
        self.history = deque((int(line[0]), line[1:].copy()) for line in lines)
