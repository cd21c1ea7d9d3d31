"""The scheduling options of a session; ``scheduler`` has the policies, ``executor`` runs the operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta

from eddyline.core import arguments as check
from eddyline.core.errors import JobError
from eddyline.engine.ownership import Turn, in_turn
from eddyline.engine.running_graph import RunningGraph
from eddyline.engine.running_query import RunningQuery


class Scheduled(ABC):
    """Properties of the graph of a session."""

    turn: Turn
    _graph: RunningGraph

    @abstractmethod
    def _advance(self, drain: bool = False) -> None:
        """Answer what has closed."""

    @property
    def scheduler(self) -> str:
        """The policy that chooses which of the ready operators runs next: one for all queries of the session. The
        default is ``fifo``, and ``chain`` as long as there is a budget."""
        return self._graph.scheduler

    @scheduler.setter
    @in_turn
    def scheduler(self, policy: str) -> None:
        self._graph.schedule(check.text(policy, "the scheduler"))

    @property
    def budget(self) -> int | timedelta | None:
        """Runs of operators in one step (a push, a batch that is read), or the time for them; None: until nothing is
        ready. What is left over waits in queues for the next step; ``drain`` and the end of the inputs leave nothing.
        """
        return self._graph.budget

    @budget.setter
    @in_turn
    def budget(self, most: int | timedelta | None) -> None:
        if not isinstance(most, timedelta | None):
            check.positive(most, "the budget")
        elif most is not None and most <= timedelta(0):
            raise JobError(f"the budget is a positive time, not {most}.")
        self._graph.limit(most)

    @property
    def quantum(self) -> int | None:
        """Elements that an operator takes in one run at most, in whole instants: fewer give the scheduler more say and
        cost more."""
        return self._graph.executor.most

    @quantum.setter
    @in_turn
    def quantum(self, elements: int) -> None:
        self._graph.executor.most = check.positive(elements, "the quantum")

    @property
    def queue_bound(self) -> int | None:
        """Elements that a queue holds before its writer waits: an operator does not run, a source is not read, a
        push works off what is there first. None: any number."""
        return self._graph.bound

    @queue_bound.setter
    @in_turn
    def queue_bound(self, elements: int | None) -> None:
        self._graph.bound = None if elements is None else check.positive(elements, "the bound of queues")

    @property
    @in_turn
    def queued(self) -> int:
        """Elements that wait before operators now."""
        return self._graph.queued

    @in_turn
    def drain(self) -> None:
        """Work until nothing is ready, whatever the budget."""
        self._advance(drain=True)

    def _schedule(self, policy: str) -> None:
        self._graph.schedule(policy)

    def _prioritise(self, query: RunningQuery, priority: int) -> None:
        self._graph.prioritise(query, priority)

    def _limit_memory(self, query: RunningQuery, bytes: int | None) -> None:
        self._graph.limit_memory(query, bytes)
