"""A task: one operator with its queues and its statistics, the unit of scheduling."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from eddyline.core.delta import Delta, Int64s
from eddyline.core.time import BEGINNING, Clock
from eddyline.engine.queues import Queue

RUNS_UNTIL_HALF = 64  # runs after which the past counts half


class Limit(Protocol):
    """Up to which instant a reader of a task wants its changes, and the first instant of its time (known before there
    is a limit)."""

    limit: int
    start: int | None


class Processor(Protocol):
    """The part of ``operators.base.Operator`` that scheduling uses."""

    name: str

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta: ...

    def complete_to(self, frontier: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """``cost`` is nanoseconds per input element, ``selectivity`` output elements per input element."""

    cost: float
    selectivity: float


class Statistics:
    """Exact totals for reports, and an estimate of the present in which the past fades.

    ``declared`` takes the place of what would be measured.
    """

    def __init__(self, declared: Estimate | None = None) -> None:
        self.runs = 0
        self.elements_in = 0
        self.elements_out = 0
        self.nanoseconds = 0
        self._declared = declared
        self._recent = (0, 0.0, 0.0, 0.0)  # runs, elements in, elements out, nanoseconds

    def record(self, elements_in: int, elements_out: int, nanoseconds: int, queues: int = 1) -> None:
        """``queues`` is how many the output goes to: a scheduler needs the number of elements that wait then."""
        self.runs += 1
        self.elements_in += elements_in
        self.elements_out += elements_out
        self.nanoseconds += nanoseconds
        runs, taken, made, spent = self._recent
        if runs >= RUNS_UNTIL_HALF:
            runs, taken, made, spent = runs // 2, taken / 2, made / 2, spent / 2
        self._recent = (runs + 1, taken + elements_in, made + elements_out * queues, spent + nanoseconds)

    def totals(self) -> list[int]:
        """What a snapshot keeps: the totals are of the query, wherever it went on; an estimate is of this process."""
        return [self.runs, self.elements_in, self.elements_out, self.nanoseconds]

    def load(self, totals: Sequence[int]) -> None:
        self.runs, self.elements_in, self.elements_out, self.nanoseconds = totals

    @property
    def estimate(self) -> Estimate | None:
        """None before any element was processed."""
        if self._declared is not None:
            return self._declared
        _, taken, made, spent = self._recent
        return Estimate(max(spent, 1.0) / taken, made / taken) if taken else None


class Task:
    """``outputs`` are the queues of all consumers: each gets every change. An operator without outputs is a sink.

    ``quantum`` bounds the elements of one run (whole instants; a single instant is never divided): smaller gives the
    scheduler more say, larger costs less. ``declared`` replaces measured statistics.

    ``limits`` belong to those who read it (empty: whatever the inputs bring is wanted). It works up to the furthest of
    them, one after another: what fails behind the limit of a reader does not take from it what comes before.
    """

    def __init__(
        self,
        operator: Processor,
        inputs: Sequence[Queue],
        outputs: Sequence[Queue] = (),
        *,
        quantum: int | None = None,
        declared: Estimate | None = None,
    ) -> None:
        if not inputs:
            raise ValueError(f"the operator {operator.name!r} has no input")
        self.operator = operator
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.quantum = quantum
        self.statistics = Statistics(declared)
        self.limits: tuple[Limit, ...] = ()
        self.measure: Callable[[], None] | None = None  # looks at what the operator holds, after each run
        self.frontier = BEGINNING  # processed up to
        self.position = 0  # in plan order, set by the executor
        self.priority = 0  # larger goes first, whatever the scheduler says
        self.owners: tuple[Hashable, ...] = ()  # the queries that it works for

    @property
    def name(self) -> str:
        return self.operator.name

    @property
    def ready(self) -> bool:
        """Whether every input has closed an instant that was not processed yet."""
        done = self.frontier
        # A plain loop, not all(): this is asked after every run and shows in the latency of small batches.
        for q in self.inputs:
            if q.frontier <= done:
                return False
        for wanted in self.limits:
            if wanted.limit > done:
                return done > BEGINNING or self._begins
        return not self.limits

    @property
    def _begins(self) -> bool:
        """Whether the first run would reach the start of time. Another time line may have brought the inputs to an
        instant before it, and an operator that acts at the start must not be asked about that."""
        if len(self.limits) > 1:
            return True  # such an operator has one
        start = self.limits[0].start
        return start is not None and all(q.frontier >= start for q in self.inputs)

    @property
    def ticket(self) -> int:
        """The oldest arrival that waits here."""
        return self.inputs[0].ticket if len(self.inputs) == 1 else min(q.ticket for q in self.inputs)

    @property
    def queued(self) -> int:
        return self.inputs[0].size if len(self.inputs) == 1 else sum(q.size for q in self.inputs)

    def run(self, clock: Clock, most: int | None = None) -> int:
        """Process what all inputs have closed, within the quantum; returns the number of elements consumed."""
        inputs, limits = self.inputs, self.limits
        frontier = inputs[0].frontier if len(inputs) == 1 else min([q.frontier for q in inputs])
        if len(limits) == 1:  # as good as always, and small batches feel every step
            frontier = min(frontier, limits[0].limit)
        elif limits:
            frontier = min(frontier, min([w.limit for w in limits if w.limit > self.frontier]))
        limit = most if self.quantum is None else self.quantum
        if limit is not None and (inputs[0].size if len(inputs) == 1 else self.queued) > limit:
            frontier = self._horizon(frontier, limit)
        ticket = inputs[0].ticket if len(inputs) == 1 else self.ticket
        deltas: list[Delta] = []
        consumed = 0
        for q in inputs:
            delta = q.pop(frontier)
            deltas.append(delta)
            consumed += len(delta.time)
        begin = clock.nanoseconds()
        try:
            made = self.operator.process(deltas, frontier)
        except Exception as error:
            error.add_note(f"in the operator {self.name!r}, at the instants up to {frontier}")
            raise
        self.statistics.record(consumed, len(made.time), clock.nanoseconds() - begin, len(self.outputs))
        self.frontier = frontier
        reached = self.operator.complete_to(frontier)
        for q in self.outputs:
            q.push(made, reached, ticket)
        if self.measure is not None:
            self.measure()
        return consumed

    def _horizon(self, common: int, most: int) -> int:
        """The instant up to which to process now: as many whole instants as fit, at least one."""
        # The ``most``-th element overall is among the first ``most`` of each queue: the rest need not be looked at.
        heads = [h for h in (q.head(most + 1) for q in self.inputs) if len(h)]
        if sum(len(h) for h in heads) <= most:
            return common
        beyond = _smallest(heads, most)
        if beyond > common:
            return common
        return beyond - 1 if min(int(h[0]) for h in heads) < beyond else beyond


def _smallest(heads: Sequence[Int64s], rank: int) -> int:
    """The element number ``rank`` (from 0) of several sorted arrays, by bisection of its value.

    >>> import numpy as np
    >>> _smallest([np.array([1, 5, 9]), np.array([2, 2, 7])], 3)
    5
    """
    if len(heads) == 1:
        return int(heads[0][rank])
    low, high = min(int(h[0]) for h in heads), max(int(h[-1]) for h in heads)
    while low < high:
        middle = (low + high) // 2
        if sum(int(h.searchsorted(middle, "right")) for h in heads) > rank:
            high = middle
        else:
            low = middle + 1
    return low
