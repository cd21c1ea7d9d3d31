"""w-stream: the relation at each instant at which one of its windows closes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.operators.base import Context
from eddyline.operators.held_relation import HeldRelation, ShowsWhenClosed, closing_times, steps_while_held


class WStream(ShowsWhenClosed):
    """``steps`` (with their offsets) are those of the windows that close at regular intervals; inputs after the first
    are windows with sessions. An instant at which the relation is empty shows nothing."""

    def __init__(
        self, name: str, schema: Schema, steps: Sequence[tuple[int, int]], by_id: bool, context: Context
    ) -> None:
        super().__init__(name, schema)
        self.steps, self.context = tuple(steps), context
        self.held = HeldRelation(schema, by_id)
        self.rows = 0
        self.done = None

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        delta = deltas[0]
        out = self.held.at(delta, self._ticks(delta, deltas[1:], frontier))
        self.rows += int(delta.weights.sum())
        return out

    def _ticks(self, delta: Delta, sessions: Sequence[Delta], frontier: int) -> Int64s:
        start = self.context.start
        if start is None:
            return np.empty(0, np.int64)
        since = start if self.done is None else self.done + 1
        parts = [closing_times(d) for d in sessions]
        for step, offset in self.steps:
            parts.append(steps_while_held(step, offset, delta, self.rows, since, frontier))
        self.done = max(frontier, since - 1)
        return np.unique(np.concatenate(parts))

    def describe(self) -> str:
        return "the relation as it is, because Wstream shows all of it when a window closes"
