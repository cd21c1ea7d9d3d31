"""r-stream: the whole relation at every instant of an input element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.operators.base import Context, Operator
from eddyline.operators.held_relation import HeldRelation, closing_times, steps_between


class RStream(Operator):
    """The whole relation at every tick: inputs after the first are the query's streams, whose instants are ticks; the
    last ``sessions`` of them are windows, which are ticks when a session closes. ``steps`` (with their offsets) are
    those of windows that slide."""

    MIN_RESULT_ROWS = 1 << 14  # rows for which there is room, at least

    def __init__(
        self, name: str, schema: Schema, steps: Sequence[tuple[int, int]], by_id: bool, context: Context,
        sessions: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(name, schema)
        self.steps = tuple(steps)
        self.context, self.sessions = context, sessions
        self.held = HeldRelation(schema, by_id)
        self.done: int | None = None  # ticks up to here have been answered

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        return self.held.at(deltas[0], self._ticks(deltas[1:], frontier), self.MIN_RESULT_ROWS)

    def _ticks(self, streams: Sequence[Delta], frontier: int) -> Int64s:
        start = self.context.start
        if start is None:
            return np.empty(0, np.int64)
        since = start if self.done is None else self.done + 1
        counted = len(streams) - self.sessions
        parts = [d.time for d in streams[:counted]] + [closing_times(d) for d in streams[counted:]]
        parts += [steps_between(step, offset, since, frontier) for step, offset in self.steps]
        self.done = max(frontier, since - 1)
        ticks = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        return ticks[ticks >= start]

    def state(self) -> dict[str, Any]:
        return {**self.held.state(), "done": self.done}

    def load(self, state: dict[str, Any]) -> None:
        self.held.load(state)
        self.done = state["done"]

    def size(self) -> tuple[int, int]:
        return self.held.size()

    def describe(self) -> str:
        return "the relation as it is, because Rstream shows all of it at every instant"
