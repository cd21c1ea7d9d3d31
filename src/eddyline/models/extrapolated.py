"""Samples as predictions (Pulse 2.1.1): without a declared model a signal goes on along the line of its latest samples.

What is correct: the *line* of a signal at a sample is a line within the limits of all samples of its latest *run*. The
run goes back from the sample as far as there is such a line, over at most ``RUN`` samples, and not beyond a silence of
more than ``MAX GAP``. Of these lines it is the one with the middle of their slopes, in the middle of the room that this
slope leaves. So the line depends on the samples up to its own and on nothing else, and it is within the limit of its
own. Lines of the values of a sample are found apart.

A sample that the line in force does not foretell begins a segment with the line at that sample. Where there is no other
sample to draw a line through (the first one of a signal, or of a run behind a silence) it ends the line in force, and
nothing is predicted until the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Float64s, Int64s
from eddyline.core.schema import Schema
from eddyline.models.arithmetic import numbers
from eddyline.models.predicted import Key, Offer, PredictedRows, PredictedStore
from eddyline.models.state_json import as_text, from_text

RUN: Final = 32  # samples through which a line is drawn: more bear more noise, and cost more where a signal turns


@dataclass(frozen=True, slots=True)
class ExtrapolatedRows(PredictedRows):
    """Samples of ``values``, whose terms are empty: coefficients are found, and kept in columns of their own."""

    max_gap: int | None = None

    @property
    def degrees(self) -> dict[str, int]:
        return {name: 1 for name, _ in self.values}

    @property
    def coefficient_columns(self) -> list[str]:
        return [f"#{name}.{i}" for name, _ in self.values for i in range(2)]

    def read_columns(self) -> frozenset[str]:
        return frozenset((*self.key, *(n for n, _ in self.values)))

    def coefficients(self, columns: Mapping[str, pa.Array]) -> dict[str, Float64s]:
        return {n: np.column_stack([numbers(columns[f"#{n}.{i}"]) for i in range(2)]) for n, _ in self.values}


class ExtrapolatingStore(PredictedStore):
    """The latest samples of each signal beside the segments that begin with their lines."""

    model: ExtrapolatedRows

    def __init__(self, model: ExtrapolatedRows, schema: Schema, prefix: str, horizon: int | None, scale: float) -> None:
        super().__init__(model, schema, prefix, horizon, scale)
        self.recent: dict[Key, deque[tuple[int, list[float]]]] = {}
        self.invalid = self.repeated = 0

    def offers(self, time: Int64s, columns: Mapping[str, pa.Array]) -> list[Offer]:
        values = np.column_stack([numbers(columns[n]) for n, _ in self.model.values])
        good = np.flatnonzero(np.isfinite(values).all(axis=1))
        self.invalid += len(time) - len(good)
        keys = self.keys_of(columns, len(time))
        return [Offer(keys[i], int(time[i]), [[v] for v in values[i].tolist()], columns, i) for i in good.tolist()]

    def offer(self, row: Offer) -> bool:
        recent = self.recent.setdefault(row.key, deque(maxlen=RUN))
        silence = row.time - recent[-1][0] if recent else 0
        if recent and silence == 0:  # of the samples of one instant the first counts
            self.repeated += 1
            return False
        if self.model.max_gap is not None and silence > self.model.max_gap:
            recent.clear()
        recent.append((row.time, [c[0] for c in row.models]))
        return super().offer(row)

    def modelled(self, row: Offer) -> Offer:
        recent = self.recent[row.key]
        if len(recent) < 2:
            return replace(row, models=[])
        x = np.array([t - row.time for t, _ in recent], np.float64) * self.scale
        y = np.array([values for _, values in recent])
        return replace(row, models=[line_of(x, y[:, j], limit) for j, limit in enumerate(self.limits)])

    def _hidden(self, rows: Sequence[Offer], ends: Sequence[int]) -> dict[str, pa.Array]:
        found = super()._hidden(rows, ends)
        none = [[0.0, 0.0]] * len(self.model.values)  # a row that only ends what was in force
        c = np.array([row.models or none for row in rows]).reshape(len(rows), -1)
        return {**found, **{n: pa.array(c[:, i]) for i, n in enumerate(self.model.coefficient_columns)}}

    def statistics(self) -> dict[str, int]:
        return {**super().statistics(), "invalid": self.invalid, "repeated": self.repeated}

    def state(self) -> dict[str, Any]:
        recent = [[list(k), list(samples)] for k, samples in self.recent.items()]
        return {**super().state(), "recent": as_text([recent, self.invalid, self.repeated])}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        recent, self.invalid, self.repeated = from_text(state["recent"])
        self.recent = {tuple(k): deque(((t, v) for t, v in samples), RUN) for k, samples in recent}


def line_of(x: Float64s, y: Float64s, limit: float) -> list[float]:
    """The line of samples in order of time, of which the last is at 0: its value there, and its slope.

    A line of slope b leaves room for all samples iff it does for each two of them, so the slopes that are possible are
    those that every pair allows.

    >>> line_of(np.array([-3.0, -2.0, -1.0, 0.0]), np.array([9.0, 0.0, 1.0, 2.5]), 0.25)  # the first is of no such line
    [2.375, 1.25]
    """
    x, y = x[::-1], y[::-1]  # from the last one back
    newer = np.tri(len(x), k=-1, dtype=np.bool_)  # of each row the samples that came later
    apart = np.where(newer, x[None, :] - x[:, None], 1.0)
    rise = y[None, :] - y[:, None]
    least = np.where(newer, (rise - 2.0 * limit) / apart, -np.inf).max(axis=1)
    most = np.where(newer, (rise + 2.0 * limit) / apart, np.inf).min(axis=1)
    least, most = np.maximum.accumulate(least), np.minimum.accumulate(most)
    many = int(np.argmax(least > most)) or len(x)
    slope = 0.5 * float(least[many - 1] + most[many - 1])
    level = y[:many] - slope * x[:many]
    return [0.5 * float(level.max() + level.min()), slope]
