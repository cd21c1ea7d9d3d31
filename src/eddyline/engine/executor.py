"""The executor: runs ready tasks, one at a time, in the order that a scheduler chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.core.time import Clock
from eddyline.engine.queues import Queue
from eddyline.engine.scheduler import Fifo, Scheduler, consumers
from eddyline.engine.task import Task


class Executor:
    """``tasks`` stand in plan order, producers before consumers. ``most`` is the quantum of tasks without their own.

    A task whose output no task in ``tasks`` reads writes to queues for the outside (results). Their elements have left
    the system, so ``queued`` does not count them. ``bound`` is how many elements a queue holds before its writer waits
    (None: any number). A run that has begun is finished, so a queue may exceed ``bound`` by the output of one run.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        clock: Clock,
        scheduler: Scheduler | None = None,
        *,
        most: int | None = None,
    ) -> None:
        self.clock = clock
        self.most = most
        self.bound: int | None = None
        self.prioritised = False
        self.scheduler: Scheduler = Fifo() if scheduler is None else scheduler
        self.tasks: tuple[Task, ...] = ()
        self.current: Task | None = None  # the one that runs, or that failed
        self._affected: dict[Task, tuple[Task, ...]] = {}  # by task itself and those that read it
        self._filled: dict[Task, tuple[tuple[Queue, Task], ...]] = {}  # by task the queues that it fills, with readers
        self.replan(tasks)

    def replan(self, tasks: Sequence[Task], scheduler: Scheduler | None = None) -> None:
        """Go on with other tasks (a query came or went) or another scheduler; queues keep what they hold."""
        self.tasks = tuple(tasks)
        self.prioritised = len({t.priority for t in self.tasks}) > 1
        readers = {id(q): t for t in self.tasks for q in t.inputs}
        self._filled = {t: tuple((q, readers[id(q)]) for q in t.outputs if id(q) in readers) for t in self.tasks}
        if scheduler is not None:
            self.scheduler = scheduler
        for position, t in enumerate(self.tasks):
            t.position = position
        following = consumers(self.tasks)
        self._affected = {t: (t, *after) for t, after in following.items()}
        for t, after in following.items():
            for c in after:
                if c.position <= t.position:
                    raise ValueError(f"{c.name!r} reads from {t.name!r} but stands before it in the plan")
        self.scheduler.attach(self.tasks)

    @property
    def queued(self) -> int:
        """Elements that wait in front of an operator."""
        return sum(t.queued for t in self.tasks)

    def run(self, *, steps: int | None = None, nanoseconds: int | None = None) -> int:
        """Run until nothing is ready, or the budget of runs or of time is spent; returns the number of runs.

        The budget is looked at between runs: a run that was begun is finished. A task that would fill a full queue
        waits, if the reader of the queue could run.
        """
        ready = {t.position: t for t in self.tasks if t.ready}
        end = None if nanoseconds is None else self.clock.nanoseconds() + nanoseconds
        done = 0
        while ready and (steps is None or done < steps) and (end is None or self.clock.nanoseconds() < end):
            task = next(iter(ready.values())) if len(ready) == 1 and self.bound is None else self._choose(ready)
            self.current = task
            task.run(self.clock, self.most)
            done += 1
            # Nothing else can have become ready, or have ceased to be.
            for t in self._affected[task]:
                if t.ready:
                    ready[t.position] = t
                else:
                    ready.pop(t.position, None)
        return done

    def _choose(self, ready: Mapping[int, Task]) -> Task:
        """There is always one: no ready task could empty the queue behind the ready task furthest downstream."""
        able = list(ready.values())
        if self.bound is not None:
            able = [t for t in able if not self._blocked(t, self.bound)]
        if self.prioritised:
            first = max(t.priority for t in able)
            able = [t for t in able if t.priority == first]
        return able[0] if len(able) == 1 else self.scheduler.next(able)

    def _blocked(self, task: Task, bound: int) -> bool:
        """Whether a queue that it fills is full and its reader could empty it. A reader that waits for another input
        might wait for this very task; and results leave the system, they are not counted."""
        return any(q.size >= bound and reader.ready for q, reader in self._filled[task])

    def state(self) -> dict[str, Any]:
        """How far each task is and what waits in front of it; the operators' own state is theirs to save."""
        return {"tasks": [{"frontier": t.frontier, "inputs": [q.state() for q in t.inputs]} for t in self.tasks]}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on where an executor of the same plan stopped."""
        for t, saved in zip(self.tasks, state["tasks"], strict=True):
            t.frontier = saved["frontier"]
            for q, s in zip(t.inputs, saved["inputs"], strict=True):
                q.load(s)
