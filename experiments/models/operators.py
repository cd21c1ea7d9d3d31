"""An operator on tuples, on stored segments and with the fit, by the tuples of a segment (Figures 2.4 to 2.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import eddyline as ed
from experiments.models.harness import crossing, medians, objects, rows

LENGTHS = (4, 16, 64, 256, 1024)
ERROR = 0.01  # metres: each leg has a segment of its own, however short it is


@dataclass
class Curve:
    """Processor nanoseconds for a tuple of each way, by tuples of a segment."""

    per_segment: list[float] = field(default_factory=list)
    tuples: list[float] = field(default_factory=list)
    stored: list[float] = field(default_factory=list)
    fitted: list[float] = field(default_factory=list)
    # Of tuples and stored segments, without what a query costs before its first row.
    rows_alone: list[tuple[float, float]] = field(default_factory=list)

    @property
    def even(self) -> str:
        """What ``even_stored`` is a number of."""
        most = ", at most (the shortest that was measured)" if self.stored[0] <= self.tuples[0] else ""
        return f"tuples a segment from which stored segments are faster{most}"

    @property
    def even_stored(self) -> float:
        return crossing(self.per_segment, [s / t for s, t in zip(self.stored, self.tuples, strict=True)])

    @property
    def even_alone(self) -> float:
        return crossing(self.per_segment, [s / t for t, s in self.rows_alone])

    @property
    def even_fitted(self) -> float:
        return crossing(self.per_segment, [s / t for s, t in zip(self.fitted, self.tuples, strict=True)])

    def lines(self, **more: object) -> list[dict[str, object]]:
        parts = zip(self.per_segment, self.tuples, self.stored, self.fitted, strict=True)
        return [
            {**more, "tuples_a_segment": p, "tuples_ns": t, "stored_ns": s, "with_fit_ns": f} for p, t, s, f in parts
        ]

    def draw(self, title: str) -> Figure:
        figure, axis = plt.subplots(figsize=(6, 3.6))
        for name, ys in (("tuples", self.tuples), ("stored segments", self.stored), ("with the fit", self.fitted)):
            axis.loglog(self.per_segment, [1e9 / y for y in ys], "o-", label=name)
        axis.set(xlabel="tuples of a segment", ylabel="tuples a second of processor time", title=title)
        axis.legend()
        figure.tight_layout()
        return figure


def measured(
    many: int, on_tuples: str, on_models: str, lengths: Sequence[int] = LENGTHS, values: Sequence[str] = ("x",)
) -> Curve:
    """Both queries over objects with legs of different lengths, of which what the queries read is fitted."""
    found = Curve()
    for length in lengths:
        table, segments = objects(many, length, error=ERROR, values=values)
        one_row, one_segment = table.slice(0, 1), segments.slice(0, 1)
        tuples, stored, fit, before_tuples, before_segments = medians(
            lambda t=table: rows({"S": t}, on_tuples),  # type: ignore[misc]
            lambda s=segments: rows({"S": s}, on_models),  # type: ignore[misc]
            lambda t=table: ed.fit(t, key="id", time="ts", value=list(values), error=ERROR),  # type: ignore[misc]
            lambda t=one_row: rows({"S": t}, on_tuples),  # type: ignore[misc]
            lambda s=one_segment: rows({"S": s}, on_models),  # type: ignore[misc]
        )
        found.rows_alone.append((max(tuples - before_tuples, 1e-9), max(stored - before_segments, 1e-9)))
        found.per_segment.append(len(table) / len(segments))
        for to, seconds in ((found.tuples, tuples), (found.stored, stored), (found.fitted, stored + fit)):
            to.append(1e9 * seconds / len(table))
    return found
