"""Time lines: queries that read the same inputs from the same elements on close the same instants.

An operator that several time lines read works for the one that is furthest; those behind find what it made in the
queues before their own operators. What comes behind the end of a query's time (another one, over more inputs, goes on)
is never handed to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.core.time import BEGINNING
from eddyline.engine.closing import frontier as closed
from eddyline.engine.closing import start as start_of_time
from eddyline.engine.intake import Intake
from eddyline.operators.base import Context
from eddyline.plan.closing_windows import end_of_time
from eddyline.plan.logical import Plan


class TimeLine:
    """``limit`` is the last instant that has closed; over constant relations only there is one instant. ``plan`` is
    that of a query whose windows are still to close after the last element."""

    def __init__(self, intakes: Sequence[Intake], plan: Plan | None = None) -> None:
        self.intakes, self.plan = tuple(intakes), plan
        self._streams = [i.stream for i in self.intakes]
        self.start: int | None = None
        self.limit = BEGINNING
        self.queries = 0
        self._contexts: list[Context] = []  # of operators that wait for the start of time

    @property
    def reached(self) -> int | None:
        return None if self.limit == BEGINNING else self.limit

    def set_start_of(self, context: Context) -> None:
        """Set when time starts for the operators of a query, now or as soon as it is known."""
        context.start = self.start
        if self.start is None:
            self._contexts.append(context)

    @property
    def _closed(self) -> int | None:
        if not self.intakes:
            return 0
        streams = self._streams
        frontier = closed(streams, self.reached)
        if self.plan is not None and frontier is not None and all(s.finished for s in streams):
            last = max((s.last_time for s in streams if s.last_time is not None), default=None)
            return frontier if last is None else max(frontier, end_of_time(self.plan, last))
        return frontier

    @property
    def can_advance(self) -> bool:
        frontier = self._closed
        if frontier is None or frontier <= self.limit:
            return False
        return self.start is not None or start_of_time([i.reader for i in self.intakes], frontier) is not None

    def advance(self) -> bool:
        """Close what can be closed now; whether that is more than before."""
        frontier = self._closed
        if self.start is None:
            self.start = start_of_time([i.reader for i in self.intakes], frontier) if self.intakes else 0
            if self.start is None:
                return False
            for context in self._contexts:
                context.start = self.start
            self._contexts = []
        if frontier is None or frontier <= self.limit:
            return False
        self.limit = frontier
        return True

    def state(self) -> dict[str, Any]:
        return {"start": self.start, "limit": self.limit}

    def load(self, state: Mapping[str, Any]) -> None:
        self.limit = state["limit"]
        if state["start"] is not None:
            self.start = state["start"]
            for context in self._contexts:
                context.start = self.start
            self._contexts = []
