"""Operator scheduling (thesis 2.3.2): which of the ready operators runs next.

No choice here can change an answer, only how much waits in queues meanwhile. All keep the same promise: among
operators of equal rank the oldest arrival goes first, and of one arrival the operator furthest downstream.

==============  ========================================================================================
``Fifo``        an arrival passes through all operators before the next one starts
``RoundRobin``  queries take turns, whatever their operators cost
``Greedy``      the operator that reduces the total queue size fastest
``Chain``       the block of consecutive operators that together reduce it fastest; FIFO within a block
==============  ========================================================================================

When they lose: ``Fifo`` keeps raw input waiting that a cheap filter would have thrown away; ``Greedy`` starves a fast
operator behind a slow one; ``Chain`` lets the tail of a plan wait in a burst, so results come later.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

from eddyline.engine.task import Estimate, Task
from eddyline.streamon.decision import SCHEDULER, Decision
from eddyline.streamon.parameters import Parameter
from eddyline.streamon.strategies import find, strategy

PERIOD = Parameter(
    "period",
    1,
    1_000_000,
    "choices between two comparisons of statistics: fewer react sooner and cost more",
    whole=True,
)
DRIFT = Parameter("drift", 0, 1000, "relative change of a statistic that calls for new priorities: larger is steadier")
UNMEASURED = math.inf  # the rate of an operator without measurements: it runs first, and is measured


class Scheduler(Protocol):
    def attach(self, tasks: Sequence[Task]) -> None:
        """Learn the plan, producers before consumers; called again whenever it changes."""

    def next(self, ready: Sequence[Task]) -> Task:
        """One of ``ready``, which is not empty."""


class Fifo:
    """Batches are passed through all operators one after another."""

    def attach(self, tasks: Sequence[Task]) -> None:
        """Needs no statistics."""

    def next(self, ready: Sequence[Task]) -> Task:
        return min(ready, key=lambda t: (t.ticket, -t.position))


class RoundRobin:
    """Queries take turns: the operator runs whose queries were served longest ago; FIFO among those of one query.

    A query with a dear operator gets no more runs than one with a cheap one, and waits no longer than one turn of every
    other.
    """

    def __init__(self) -> None:
        self._served: dict[Hashable, int] = {}
        self._turn = 0

    def attach(self, tasks: Sequence[Task]) -> None:
        known = {o for t in tasks for o in (t.owners or (t,))}
        self._served = {o: self._served.get(o, 0) for o in known}

    def next(self, ready: Sequence[Task]) -> Task:
        served = self._served
        chosen = min(ready, key=lambda t: (min(served[o] for o in t.owners or (t,)), t.ticket, -t.position))
        self._turn += 1
        for o in chosen.owners or (chosen,):
            served[o] = self._turn
        return chosen


class Prioritised(ABC):
    """Priorities computed from statistics, and kept until those have drifted.

    Every ``period`` choices the statistics are compared with those *of the last decision*; priorities are recomputed
    when one of them moved by more than ``drift`` (a ratio). A shorter period reacts sooner, a smaller drift more
    often. ``report`` gets a ``Decision`` when the order changed.
    """

    def __init__(
        self, *, period: int = 64, drift: float = 0.25, report: Callable[[Decision], Any] | None = None
    ) -> None:
        self.period, self.drift, self.report = period, drift, report
        self._tasks: Sequence[Task] = ()
        self._priority: dict[Task, float] = {}
        self._basis: dict[Task, Estimate | None] = {}
        self._choices = 0

    @abstractmethod
    def priorities(self, tasks: Sequence[Task]) -> Mapping[Task, float]:
        """Larger runs first; in reduction of queue size (elements) per nanosecond."""

    @abstractmethod
    def order(self, tasks: Sequence[Task]) -> list[list[str]]:
        """What was decided, for people: groups of operators, those that run first in front."""

    def attach(self, tasks: Sequence[Task]) -> None:
        self._tasks = tuple(tasks)
        self._decide()

    def next(self, ready: Sequence[Task]) -> Task:
        self._choices += 1
        if self._choices >= self.period:
            self._choices = 0
            if self._drifted():
                self._decide()
        priority = self._priority
        return min(ready, key=lambda t: (-priority[t], t.ticket, -t.position))

    def _drifted(self) -> bool:
        for t in self._tasks:
            now, then = t.statistics.estimate, self._basis[t]
            if now is None or now is then:
                continue
            if then is None or _apart(now.cost, then.cost, self.drift):
                return True
            if _apart(now.selectivity, then.selectivity, self.drift):
                return True
        return False

    def _decide(self) -> None:
        # What is ordered by ignorance is no decision, and the plan may have changed under an older one.
        settled = self._basis.keys() == set(self._tasks) and None not in self._basis.values()
        before = self.order(self._tasks) if settled else []
        self._basis = {t: t.statistics.estimate for t in self._tasks}
        self._priority = dict(self.priorities(self._tasks))
        after = self.order(self._tasks)
        if self.report is not None and before != after and None not in self._basis.values():
            evidence = {t.name: (e.cost, e.selectivity) for t, e in self._basis.items() if e is not None}
            name = type(self).__name__.lower()
            because = "cost or selectivity of an operator drifted" if before else "first statistics of all operators"
            self.report(Decision(name, before, after, because, evidence, operator="scheduler", by=SCHEDULER))


class Greedy(Prioritised):
    """The operator with the greatest rate of reduction in total queue size per unit time: (1 − selectivity) / cost."""

    def priorities(self, tasks: Sequence[Task]) -> Mapping[Task, float]:
        return {t: _rate([t]) for t in tasks}

    def order(self, tasks: Sequence[Task]) -> list[list[str]]:
        ranked = sorted(tasks, key=lambda t: (-self._priority[t], t.position))
        return [[t.name] for t in ranked]


class Chain(Prioritised):
    """Blocks of consecutive operators that together reduce the total queue size fastest.

    From the first operator, take the block starting there with the greatest reduction per unit time; go on after it.
    A block follows the data while there is one way to go. Where the output of an operator has several consumers the
    block ends and each of them starts its own. An operator with several inputs may end up in the blocks of several
    of them; it gets the greatest of their rates.
    """

    def __init__(
        self, *, period: int = 64, drift: float = 0.25, report: Callable[[Decision], Any] | None = None
    ) -> None:
        super().__init__(period=period, drift=drift, report=report)
        self.chains: list[list[Task]] = []

    def priorities(self, tasks: Sequence[Task]) -> Mapping[Task, float]:
        following = consumers(tasks)
        fed = {c for group in following.values() for c in group}
        current = [t for t in tasks if t not in fed]
        started = set(current)
        self.chains = []
        priority: dict[Task, float] = {}
        for first in current:  # grows while it is walked
            block, rate = self._best_block(first, following)
            self.chains.append(block)
            for t in block:
                priority[t] = max(rate, priority.get(t, -math.inf))
            for after in following[block[-1]]:
                if after not in started:
                    started.add(after)
                    current.append(after)
        return priority

    def _best_block(self, first: Task, following: Mapping[Task, Sequence[Task]]) -> tuple[list[Task], float]:
        path, best, best_rate = [first], 1, _rate([first])
        # What was never measured has no rate to be weighed against others: it stands alone, and runs first.
        while best_rate < UNMEASURED and len(following[path[-1]]) == 1:
            path.append(following[path[-1]][0])
            rate = _rate(path)
            if rate == UNMEASURED:
                break
            if rate >= best_rate:  # of equal blocks the longer one: it leaves less in between
                best, best_rate = len(path), rate
        return path[:best], best_rate

    def order(self, tasks: Sequence[Task]) -> list[list[str]]:
        ranked = sorted(self.chains, key=lambda block: (-self._priority[block[0]], block[0].position))
        return [[t.name for t in block] for block in ranked]


def consumers(tasks: Sequence[Task]) -> dict[Task, list[Task]]:
    """The readers of what each task writes."""
    reader = {id(q): t for t in tasks for q in t.inputs}
    return {t: list(dict.fromkeys(reader[id(q)] for q in t.outputs if id(q) in reader)) for t in tasks}


def _rate(block: Sequence[Task]) -> float:
    """The reduction in queue size per nanosecond by passing one element through a block of operators."""
    size, time = 1.0, 0.0
    for t in block:
        e = t.statistics.estimate
        if e is None:
            return UNMEASURED
        time += size * e.cost
        size *= e.selectivity
    return (1.0 - size) / time


def _apart(now: float, then: float, drift: float) -> bool:
    return abs(now - then) > drift * max(abs(then), 1e-9)


strategy("scheduler", name="fifo")(Fifo)
strategy("scheduler", name="greedy", parameters=(PERIOD, DRIFT))(Greedy)
strategy("scheduler", name="chain", parameters=(PERIOD, DRIFT))(Chain)
strategy("scheduler", name="round-robin")(RoundRobin)


class Records(Protocol):
    """Who keeps decisions: a log, or a graph whose queries have one each."""

    def record(self, decision: Decision) -> Any: ...


def make_scheduler(text: str, log: Records | None = None) -> Scheduler:
    """A scheduler as named in ``WITH (scheduler = 'chain(drift=0.5)')``; its decisions go into the log.

    >>> make_scheduler("chain(period = 16)").period
    16
    >>> make_scheduler("fair")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: unknown scheduling policy 'fair'. There are: fifo, greedy, chain, round-robin.
    """
    found, written = find("scheduler", text)
    report = {} if log is None or not found.parameters else {"report": log.record}
    made: Scheduler = found.make(**found.checked(written), **report)
    return made
