"""Tuples as predictions (Pulse 2.1.1, 2.6): each declares a model that holds until a violation, or for a horizon.

A tuple of a key whose modelled values are within their bounds of the model that is in force is only *validated*:
nothing is processed for it. One that is not, or that comes when the model has ended, begins the next segment. The
horizon is the user's, or what 90 % of the key's recent segments survived (of all keys, as long as a key has too few).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.models.arithmetic import numbers
from eddyline.models.sources import DeclaredRows, RowStore
from eddyline.streamon.decision import Decision

END = "#end"  # the column of a segment's end, in ticks
RECENT = 50  # segments of a key whose lengths decide about its horizon
ENOUGH = 5  # segments before the horizon is a key's own
SURVIVED = 0.9  # share of recent segments that lasted for at least the horizon
TOLD = 2.0  # a horizon that changed by this factor is a decision


@dataclass(frozen=True, slots=True)
class PredictedRows(DeclaredRows):
    """Declared models with an end of their own; ``limits`` are absolute bounds of the values."""

    limits: tuple[float, ...] = ()

    def ends(self, columns: Mapping[str, pa.Array], start: Int64s, horizon: int | None) -> Float64s:
        return numbers(columns[END])

    def errors(self, columns: Mapping[str, pa.Array]) -> dict[str, Float64s]:
        n = len(columns[END])
        return {name: np.full((n, 1), e) for (name, _), e in zip(self.values, self.limits, strict=False)}

    def constants(self, schema: Schema) -> list[str]:
        return [n for n in DeclaredRows.constants(self, schema) if n != END]


@dataclass(slots=True)
class _Signal:
    """The model of a key that is in force, and how long its segments lasted."""

    start: int = 0
    end: int = -(1 << 62)
    models: list[list[float]] = field(default_factory=list)
    lengths: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    told: int = 0


class PredictedStore(RowStore):
    """``accepted`` tells which rows begin segments; ``add`` takes those."""

    model: PredictedRows

    def __init__(self, model: PredictedRows, schema: Schema, prefix: str, horizon: int | None, scale: float) -> None:
        super().__init__(model, Schema((*schema, Field(END, pa.int64()))), prefix, horizon, scale)
        self.signals: dict[tuple[Any, ...], _Signal] = {}
        self.all_lengths: deque[int] = deque(maxlen=RECENT)
        self.validated = self.violations = 0
        self.decisions: list[Decision] = []

    def accepted(self, time: Int64s, columns: Mapping[str, pa.Array]) -> tuple[Bools, Int64s]:
        """Whether each row begins a segment, and where that ends at most."""
        n = len(time)
        keep, ends = np.zeros(n, np.bool_), np.zeros(n, np.int64)
        coefficients = [c.tolist() for c in self.model.coefficients(columns).values()]
        keys = list(zip(*(columns[k].to_pylist() for k in self.model.key), strict=True)) if self.model.key else [()] * n
        for i, t in enumerate(time.tolist()):
            signal = self.signals.get(keys[i])
            if signal is None:
                signal = self.signals[keys[i]] = _Signal()
            mine = [c[i] for c in coefficients]
            if t < signal.end and self._holds(signal, t, mine):
                self.validated += 1
                continue
            keep[i], ends[i] = True, self._begin(keys[i], signal, t, mine)
        return keep, ends

    def _holds(self, signal: _Signal, t: int, mine: list[list[float]]) -> bool:
        if not self.model.limits:
            return False
        x = (t - signal.start) * self.scale
        for model, new, limit in zip(signal.models, mine, self.model.limits, strict=True):
            value = 0.0
            for c in reversed(model):
                value = value * x + c
            if not abs(value - new[0]) <= limit:
                self.violations += 1
                return False
        return True

    def _begin(self, key: tuple[Any, ...], signal: _Signal, t: int, models: list[list[float]]) -> int:
        if signal.models and t > signal.start:
            length = t - signal.start
            signal.lengths.append(length)
            self.all_lengths.append(length)
        horizon = self.horizon if self.horizon is not None else self._survived(key, signal, t)
        signal.start, signal.end, signal.models = t, t + horizon, models
        return signal.end

    def _survived(self, key: tuple[Any, ...], signal: _Signal, t: int) -> int:
        own = len(signal.lengths) >= ENOUGH
        lengths = sorted(signal.lengths if own else self.all_lengths)
        if not lengths:
            return 1  # nothing is known of the future
        horizon = max(1, lengths[int((1.0 - SURVIVED) * len(lengths))])
        if own and not signal.told / TOLD < horizon < signal.told * TOLD:
            self.decisions.append(
                Decision(
                    "horizon", signal.told or None, horizon,
                    "{share} of the last {segments} segments of {key} survived so many ticks",
                    {"share": SURVIVED, "segments": len(lengths), "key": ", ".join(map(str, key))},
                    time=t,
                )
            )  # fmt: skip
            signal.told = horizon
        return horizon

    def statistics(self) -> dict[str, int]:
        return {"validated": self.validated, "violations": self.violations}

    def state(self) -> dict[str, Any]:
        signals = [
            [list(k), s.start, s.end, s.models, list(s.lengths), s.told] for k, s in self.signals.items()
        ]  # fmt: skip
        counted = [self.validated, self.violations, list(self.all_lengths)]
        return {**RowStore.state(self), "signals": json.dumps([signals, counted])}

    def load(self, state: Mapping[str, Any]) -> None:
        RowStore.load(self, state)
        signals, (self.validated, self.violations, lengths) = json.loads(state["signals"])
        self.all_lengths = deque(lengths, RECENT)
        self.signals = {tuple(k): _Signal(a, b, m, deque(n, RECENT), told) for k, a, b, m, n, told in signals}
