"""Tuples as predictions (Pulse 2.1.1, 2.6): each declares a model that holds until a violation, or for a horizon.

A tuple of a key is *validated*, and nothing is processed for it, in one of two ways:

    accuracy   its modelled values are within their limits of the model that is in force
    slack      no result depends on the key, and the tuple's own model stays so near to the model in force, until that
               ends, that none can (``models.slack``)

The second is for keys without a result, the first for the others: which of them it is follows from each run of the
query. A tuple that neither validates, or that comes when its model has ended, is a violation: it begins the next
segment, and the query runs. A key whose last tuple only slack has validated begins a segment with it then, so that a
run sees every key within its accuracy limits.

The horizon is the user's, or what 90 % of the key's recent segments survived (of all keys, as long as a key has too
few).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Float64s, Int64s, combine
from eddyline.core.schema import Field, Schema
from eddyline.models.arithmetic import numbers
from eddyline.models.sources import DeclaredRows, RowStore
from eddyline.models.state_json import as_text, from_text
from eddyline.streamon.decision import Decision

END = "#end"  # the column of a segment's end, in ticks
LIMIT = "#limit"  # the columns of its values' accuracy limits, by their numbers
RECENT = 50  # segments of a key whose lengths decide about its horizon
SEGMENTS_FOR_HORIZON = 5  # segments before the horizon is a key's own
SURVIVED = 0.9  # share of recent segments that lasted for at least the horizon
TOLD = 2.0  # a horizon that changed by this factor is a decision
Key = tuple[Any, ...]
Models = list[list[float]]  # of each value the coefficients of its polynomial


@dataclass(frozen=True, slots=True)
class PredictedRows(DeclaredRows):
    """Declared models with an end of their own; ``limits`` are absolute bounds of the values."""

    limits: tuple[float, ...] = ()

    @property
    def hidden(self) -> tuple[Field, ...]:
        """The columns of a segment beside those of its row."""
        names = [*(f"{LIMIT}{j}" for j in range(len(self.limits))), *self.coefficient_columns]
        return (Field(END, pa.int64()), *(Field(n, pa.float64()) for n in names))

    @property
    def coefficient_columns(self) -> list[str]:
        """Those of models that rows do not declare."""
        return []

    def ends(self, columns: Mapping[str, pa.Array], start: Int64s, horizon: int | None) -> Float64s:
        return numbers(columns[END])

    def errors(self, columns: Mapping[str, pa.Array]) -> dict[str, Float64s]:
        return {
            name: numbers(columns[f"{LIMIT}{j}"]).reshape(-1, 1)
            for j, (name, _) in enumerate(self.values[: len(self.limits)])
        }

    def constants(self, schema: Schema) -> list[str]:
        return [n for n in DeclaredRows.constants(self, schema) if not n.startswith("#")]


@dataclass(frozen=True, slots=True)
class Offer:
    """A row of a batch, with the time and the models that it declares."""

    key: Key
    time: int
    models: Models
    columns: Mapping[str, pa.Array]
    row: int

    def alone(self) -> Offer:
        """The same without the rest of its batch."""
        return Offer(self.key, self.time, self.models, {n: c.take([self.row]) for n, c in self.columns.items()}, 0)


@dataclass(slots=True)
class Signal:
    """The model of a key that is in force, and how long its segments lasted. ``slack``: how many accuracy limits a
    tuple's model may be away from it. ``waiting``: its last tuple, if only slack has validated it."""

    start: int = 0
    end: int = -(1 << 62)
    models: Models = field(default_factory=list)
    limits: tuple[float, ...] = ()
    lengths: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    told: int = 0
    slack: float = 0.0
    waiting: Offer | None = None


class PredictedStore(RowStore):
    """``offer`` tells which rows violate their models, ``begin`` makes segments of these."""

    model: PredictedRows

    def __init__(self, model: PredictedRows, schema: Schema, prefix: str, horizon: int | None, scale: float) -> None:
        super().__init__(model, Schema((*schema, *model.hidden)), prefix, horizon, scale)
        self.limits = model.limits  # of segments that begin now
        self.signals: dict[Key, Signal] = {}
        self.all_lengths: deque[int] = deque(maxlen=RECENT)
        self.validated = self.by_slack = self.violations = 0
        self.violating: list[Offer] = []
        self.decisions: list[Decision] = []

    def offers(self, time: Int64s, columns: Mapping[str, pa.Array]) -> list[Offer]:
        """The rows of a batch."""
        coefficients = [c.tolist() for c in self.model.coefficients(columns).values()]
        keys = self.keys_of(columns, len(time))
        return [Offer(keys[i], t, [c[i] for c in coefficients], columns, i) for i, t in enumerate(time.tolist())]

    def keys_of(self, columns: Mapping[str, pa.Array], many: int) -> list[Key]:
        keys = list(zip(*(columns[k].to_pylist() for k in self.model.key), strict=True))
        return keys if self.model.key else [()] * many

    def modelled(self, row: Offer) -> Offer:
        """The row with the models that it would begin a segment with; without, if there are none."""
        return row

    def offer(self, row: Offer) -> bool:
        """Whether a row begins a segment: its model in force does not validate it."""
        signal = self.signals.get(row.key)
        if signal is None:
            signal = self.signals[row.key] = Signal()
        if row.time < signal.end and self.limits:
            if self._accurate(signal, row):
                self.validated += 1
                signal.waiting = None
                return False
            row = self.modelled(row)
            if signal.slack > 1.0 and row.models and self._within_slack(signal, row):
                self.by_slack += 1
                signal.waiting = row
                return False
            self.violations += 1
        else:
            row = self.modelled(row)
        signal.waiting = None
        self.violating.append(row)
        return True

    def _accurate(self, signal: Signal, row: Offer) -> bool:
        x = (row.time - signal.start) * self.scale
        for model, new, limit in zip(signal.models, row.models, signal.limits, strict=True):
            value = 0.0
            for c in reversed(model):
                value = value * x + c
            if not abs(value - new[0]) <= limit:
                return False
        return True

    def _within_slack(self, signal: Signal, row: Offer) -> bool:
        """Whether the two models stay together until the one in force ends."""
        by, width = (row.time - signal.start) * self.scale, (signal.end - row.time) * self.scale
        for model, new, limit in zip(signal.models, row.models, signal.limits, strict=True):
            c = list(model)
            for i in range(len(c) - 1):
                for j in range(len(c) - 2, i - 1, -1):
                    c[j] += by * c[j + 1]
            apart = 0.0
            for a, b in zip(reversed(c), reversed(new), strict=True):
                apart = apart * width + abs(a - b)
            if not apart <= signal.slack * limit:
                return False
        return True

    def begin(self) -> list[Offer]:
        """Segments of the rows that violate their models, and of those that wait; all of them, by time."""
        waiting = [s.waiting for s in self.signals.values() if s.waiting is not None]
        rows = sorted([*waiting, *self.violating], key=lambda r: r.time)
        self.violating = []
        if not rows:
            return rows
        ends = [self._begin(row) for row in rows]
        parts: dict[str, pa.Array] = {n: combine([r.columns[n].slice(r.row, 1) for r in rows]) for n in rows[0].columns}
        self.add(np.array([r.time for r in rows], np.int64), {**parts, **self._hidden(rows, ends)})
        return rows

    def _hidden(self, rows: Sequence[Offer], ends: Sequence[int]) -> dict[str, pa.Array]:
        """The columns of segments beside those of their rows."""
        limits = {f"{LIMIT}{j}": pa.array([limit] * len(rows), pa.float64()) for j, limit in enumerate(self.limits)}
        return {END: pa.array(ends, pa.int64()), **limits}

    def _begin(self, row: Offer) -> int:
        signal, t = self.signals[row.key], row.time
        if signal.models and t > signal.start:
            length = t - signal.start
            signal.lengths.append(length)
            self.all_lengths.append(length)
        horizon = self.horizon if self.horizon is not None else self._survived(row.key, signal, t)
        signal.start, signal.end = t, t + horizon if row.models else t
        signal.models, signal.limits = row.models, self.limits
        signal.slack, signal.waiting = 0.0, None
        return signal.end

    def _survived(self, key: Key, signal: Signal, t: int) -> int:
        own = len(signal.lengths) >= SEGMENTS_FOR_HORIZON
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

    def allow(self, slack: Mapping[Key, float], t: int) -> None:
        """What a run found: by how many accuracy limits the models of keys may be missed without a result."""
        turned: dict[bool, list[Key]] = {True: [], False: []}
        for key, signal in self.signals.items():
            now = slack.get(key, 0.0)
            if (now > 1.0) != (signal.slack > 1.0):
                turned[now > 1.0].append(key)
            signal.slack = now
        for to, keys in turned.items():
            if keys:
                self.decisions.append(self._turn(keys, to, t))

    def _turn(self, keys: Sequence[Key], to_slack: bool, t: int) -> Decision:
        names = ("accuracy", "slack")
        which = ", ".join(map(str, keys[0])) or "the signal"
        which = which if len(keys) == 1 else f"{len(keys)} keys, the first {which},"
        because = "no result depends on {key}" if to_slack else "results depend on {key}, or may"
        least = min(self.signals[k].slack for k in keys)
        evidence = {"key": which, "keys": len(keys), "slack": least if least < float("inf") else "any"}
        return Decision("validation", names[not to_slack], names[to_slack], because, evidence, time=t)

    def settle(self) -> None:
        """Forget the batch; of what waits the rows stay."""
        for signal in self.signals.values():
            if signal.waiting is not None and len(next(iter(signal.waiting.columns.values()))) > 1:
                signal.waiting = signal.waiting.alone()

    def on_slack(self) -> int:
        return sum(s.slack > 1.0 for s in self.signals.values())

    def statistics(self) -> dict[str, int]:
        found = {"validated": self.validated, "violations": self.violations}
        return found if not self.limits else {**found, "validated by slack": self.by_slack}

    def state(self) -> dict[str, Any]:
        signals = [
            [list(k), s.start, s.end, s.models, list(s.limits), list(s.lengths), s.told, s.slack]
            for k, s in self.signals.items()
        ]
        rows = [s.waiting for s in self.signals.values() if s.waiting is not None]
        waiting = [[list(r.key), r.time, r.models] for r in rows]
        parts = {n: combine([r.columns[n].slice(r.row, 1) for r in rows]) for n in rows[0].columns} if rows else {}
        counted = [self.validated, self.by_slack, self.violations, list(self.all_lengths), list(self.limits)]
        return {**RowStore.state(self), "signals": as_text([signals, counted, waiting]), "waiting": parts}

    def load(self, state: Mapping[str, Any]) -> None:
        RowStore.load(self, state)
        signals, counted, waiting = from_text(state["signals"])
        self.validated, self.by_slack, self.violations, lengths, limits = counted
        self.all_lengths, self.limits = deque(lengths, RECENT), tuple(limits)
        self.signals = {
            tuple(k): Signal(a, b, m, tuple(own), deque(n, RECENT), told, slack)
            for k, a, b, m, own, n, told, slack in signals
        }
        for i, (key, time, models) in enumerate(waiting):
            row = Offer(tuple(key), time, models, state["waiting"], i)
            self.signals[row.key].waiting = row.alone()
