"""What the phases of a query within a bound cost, measured while it runs: the prices of ``models.tuples_or_models``.

A phase is timed once for a batch, never for a row, and what one more row of it costs is estimated apart from what the
call costs (``streamon.call_times``). Phases that were not measured yet cost what they do on a typical machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from eddyline.core.time import Clock
from eddyline.models import tuples_or_models
from eddyline.models.tuples_or_models import Prices
from eddyline.streamon.call_times import CallTimes

# Walk along samples and instants on tuples; what is asked of an instant there; the fit of a sample; the equations of a
# segment; a row of the result on models.
WALK, INSTANT, FIT, SEGMENT, SHOWN = range(5)
PHASES: Final = 5


class PhaseCosts:
    """``clock`` None: nothing is measured, and the typical prices hold."""

    def __init__(self, clock: Clock | None) -> None:
        self.clock = clock
        self.times = CallTimes(PHASES)
        self.asked = self.kept = 0  # instants on tuples, and those of them that are in the result
        self._began = 0

    def begin(self) -> None:
        if self.clock is not None:
            self._began = self.clock.nanoseconds()

    def end(self, phase: int, rows: int) -> None:
        """A call of a phase has ended that began at the last ``begin``."""
        if self.clock is not None and rows:
            many, seconds = np.zeros(PHASES, np.int64), np.zeros(PHASES)
            many[phase], seconds[phase] = rows, (self.clock.nanoseconds() - self._began) / 1e9
            self.times.add(many, seconds)

    def prices(self) -> Prices:
        """In nanoseconds; typical ones where nothing is known."""
        typical = tuples_or_models.Prices()
        if self.clock is None or not self.times.settled.any():
            return typical
        walk, instant, fit, segment, shown = (1e9 * self.times.prices).tolist()
        walk = _or(walk, typical.sample)
        share = self.kept / self.asked if self.asked else 1.0
        return Prices(
            sample=walk, instant=_or(walk + instant, typical.instant), fit=_or(fit, typical.fit),
            shown=_or(share * shown, typical.shown), segment=_or(segment, typical.segment),
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        return {"times": self.times.state(), "asked": self.asked, "kept": self.kept}

    def load(self, state: Mapping[str, Any]) -> None:
        self.times.load(state["times"])
        self.asked, self.kept = int(state["asked"]), int(state["kept"])


def _or(price: float, typical: float) -> float:
    return typical if np.isnan(price) else price
