"""An operator of the graph: its task, the queries that read it, and its state."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from eddyline.engine.held_state import HeldState
from eddyline.engine.intake import Intake
from eddyline.engine.task import Limit, Task
from eddyline.operators.base import Context, Operator
from eddyline.synopses.store import Stub


class Reader(Protocol):
    """A query that reads an operator."""

    @property
    def line(self) -> Limit: ...

    @property
    def priority(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def number(self) -> int: ...

    def __hash__(self) -> int: ...


class SharedOperator:
    """``key`` says what it answers: queries with a sub-plan of this key read it (None: it has one reader for ever).

    It has the names of the query that built it, be that gone by now: ``context`` is that query's, and decisions go to
    its log first (``streamon.forwarding`` hands them on to the logs of the others).
    """

    def __init__(
        self,
        task: Task,
        inputs: Sequence[SharedOperator | Intake],
        context: Context,
        query: str,
        stubs: Sequence[Stub] = (),
        key: Hashable = None,
    ) -> None:
        self.task, self.inputs, self.context, self.key = task, tuple(inputs), context, key
        self.query = query  # the name of the one that built it
        self.stubs = tuple(stubs)
        self.readers: list[Reader] = []
        self.held = (0, 0)
        kind = type(self.operator)
        if kind.size is not Operator.size or kind.most_rows is not Operator.most_rows:
            task.measure = self.measure  # an operator without state has nothing to look at
        self.observers: list[HeldState] = []

    @property
    def passes_all_columns(self) -> bool:
        """Whether it hands on all columns that are read of a stream, whichever its plan asks for."""
        found = self.key[0] if isinstance(self.key, tuple) else None
        return isinstance(found, tuple) and found[0] == "filtered"

    def read_by(self) -> list[str]:
        """The names of the queries that read it."""
        return [q.name for q in self.readers]

    @property
    def operator(self) -> Operator:
        return self.task.operator  # type: ignore[return-value]

    @property
    def frontier(self) -> int:
        return self.task.frontier

    @property
    def complete_to(self) -> int:
        """The instant up to which its output is complete: what its readers have seen."""
        return self.operator.complete_to(self.task.frontier)

    def spilled(self) -> tuple[int, int]:
        """Rows and bytes outside of memory: those of the operator, and of its windows' stores."""
        found = [self.operator.spilled(), *(stub.spilled() for stub in self.stubs)]
        return sum(rows for rows, _ in found), sum(bytes for _, bytes in found)

    def serve(self) -> None:
        """Work for those who read it: up to the furthest of their limits, with the highest of their priorities."""
        self.task.limits = tuple({id(q.line): q.line for q in self.readers}.values())
        self.task.priority = max((q.priority for q in self.readers), default=0)
        self.task.owners = tuple(self.readers)

    def measure(self) -> None:
        """Look at what it holds after a run."""
        operator: Operator = self.task.operator  # type: ignore[assignment]
        rows, bytes = now = operator.size()
        within = operator.most_rows(rows) - rows
        if now == self.held and not within:
            return
        rows_then, bytes_then = self.held
        self.held = now
        for held in self.observers:
            held.change(rows - rows_then, bytes - bytes_then, within)
