"""The gradient split of declared models (Pulse 2.6.3): their limits follow how fast the segments that begin move.

|x′| of an attribute is the mean over segments of the models' own derivative at their beginning. It is reviewed after so
many segments; the past counts half each time. A segment keeps the limits with which it began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from eddyline.core.catalog import Attribute
from eddyline.models.gradients import Movement
from eddyline.models.inversion import inverted, lineage
from eddyline.models.inverting import clearly
from eddyline.models.predicted import Offer, PredictedRows
from eddyline.models.program import Program

SEGMENTS: Final = 32  # between two reviews: fewer follow a change sooner


class DeclaredBounds:
    """``limits`` are those of segments that begin now, by attribute."""

    def __init__(self, program: Program, models: Sequence[PredictedRows], aliases: Sequence[str]) -> None:
        self.program, self.models = program, models
        both = enumerate(zip(aliases, models, strict=True))
        self.names = {i: {f"{a}.{n}": n for n in m.degrees} for i, (a, m) in both}
        self.results = tuple(n for n, modelled in program.columns if modelled)
        self.movements = {(i, n): Movement() for i, m in enumerate(models) for n in m.degrees}
        self.since = 0
        self.limits = self._limits()

    def begun(self, given: Sequence[Sequence[Offer]]) -> Mapping[Attribute, float] | None:
        """Segments of each input that began; the gradients, if the limits are others from now on."""
        for i, rows in enumerate(given):
            for row in (r for r in rows if r.models):
                for (name, _), c in zip(self.models[i].values, row.models, strict=True):
                    one = self.movements[i, name]
                    one.way, one.time = one.way + abs(c[1] if len(c) > 1 else 0.0), one.time + 1.0
            self.since += len(rows)
        if self.since < SEGMENTS:
            return None
        self.since = 0
        limits, means = self._limits(), {a: m.gradient for a, m in self.movements.items()}
        for m in self.movements.values():
            m.way, m.time = 0.5 * m.way, 0.5 * m.time
        if not clearly(limits, self.limits):
            return None
        self.limits = limits
        return means

    def _limits(self) -> dict[Attribute, Any]:
        assert self.program.bound is not None
        found = lineage(self.program.root, self.names, {}, self.program.scale)
        means = {a: m.gradient for a, m in self.movements.items()}
        return inverted(found, self.results, self.program.bound, self.program.split, means)

    def of(self, i: int) -> tuple[float, ...]:
        """The limits of an input's values."""
        limits = self.limits
        return tuple(limits[i, n].amount if (i, n) in limits else float("inf") for n, _ in self.models[i].values)

    def state(self) -> list[Any]:
        return [[[i, n, m.way, m.time] for (i, n), m in self.movements.items()], self.since]

    def load(self, state: Sequence[Any]) -> None:
        moved, self.since = state
        self.movements = {(i, n): Movement(way, time) for i, n, way, time in moved}
