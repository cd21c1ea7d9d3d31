"""What the phases of a query within a bound cost, measured while it runs: the prices of ``models.tuples_or_models``.

A phase is timed once for a batch, never for a row. Phases on tuples see all rows of a batch, and their price is that of
the quickest of the recent batches with enough rows: a pause of the process is no price, and would speak for models.
Those on models may see few rows: what one more costs is estimated apart from what the call costs
(``streamon.call_times``). That takes tens of microseconds for a call, which a query on tuples alone does not spend.
Phases that were not measured yet cost what they do on a typical machine.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from eddyline.core.time import Clock
from eddyline.models import tuples_or_models
from eddyline.models.tuples_or_models import Prices
from eddyline.streamon.call_times import CallTimes

# Walk along samples and instants on tuples; what is asked of an instant there; the fit of a sample; the equations of a
# segment; a row of the result on models.
FIT, SEGMENT, SHOWN, WALK, INSTANT = range(5)
ON_MODELS: Final = 3  # phases that are so
BATCHES: Final = 16  # whose times count on tuples
# Rows of a call on tuples from which its time is a price of a row: with few it is mostly that of the call.
ROWS_FOR_A_PRICE: Final = 1 << 12


class PhaseCosts:
    """``clock`` None: nothing is measured, and the typical prices hold."""

    def __init__(self, clock: Clock | None) -> None:
        self.clock = clock
        self.times = CallTimes(ON_MODELS)
        self.on_tuples: dict[int, deque[float]] = {p: deque(maxlen=BATCHES) for p in (WALK, INSTANT)}
        self.asked = self.kept = 0  # instants on tuples, and those of them that are in the result
        self.repeats = 1.0  # how often a segment is solved: again with each batch, as long as a window reaches it
        self._began = 0

    def begin(self) -> None:
        if self.clock is not None:
            self._began = self.clock.nanoseconds()

    def end(self, phase: int, rows: int) -> None:
        """A call of a phase has ended that began at the last ``begin``."""
        if self.clock is None or not rows:
            return
        spent = self.clock.nanoseconds() - self._began
        if phase in self.on_tuples:
            if rows >= ROWS_FOR_A_PRICE:
                self.on_tuples[phase].append(spent / rows)
            return
        many, seconds = np.zeros(ON_MODELS, np.int64), np.zeros(ON_MODELS)
        many[phase], seconds[phase] = rows, spent / 1e9
        self.times.add(many, seconds)

    def prices(self) -> Prices:
        """In nanoseconds; typical ones where nothing is known."""
        typical = tuples_or_models.Prices()
        if self.clock is None:
            return typical
        walk, instant = (min(self.on_tuples[phase], default=np.nan) for phase in (WALK, INSTANT))
        fit, segment, shown = (1e9 * self.times.prices).tolist()
        walk = _or(walk, typical.sample)
        share = self.kept / self.asked if self.asked else 1.0
        return Prices(
            sample=walk, instant=_or(walk + instant, typical.instant), fit=_or(fit, typical.fit),
            shown=_or(share * shown, typical.shown), segment=_or(self.repeats * segment, typical.segment),
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        tuples = json.dumps([list(w) for w in self.on_tuples.values()])
        return {
            "models": self.times.state(),
            "tuples": tuples,
            "asked": self.asked,
            "kept": self.kept,
            "repeats": self.repeats,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.times.load(state["models"])
        for window, own in zip(self.on_tuples.values(), json.loads(state["tuples"]), strict=True):
            window.clear()
            window.extend(own)
        self.asked, self.kept = int(state["asked"]), int(state["kept"])
        self.repeats = float(state["repeats"])


def _or(price: float, typical: float) -> float:
    return typical if np.isnan(price) else price
