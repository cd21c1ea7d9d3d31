"""The base of all operators: changes in, changes out, for whole instants.

``process`` gets, for every input, all changes with times in (previous frontier, frontier] and returns the changes of
its output with times in the same interval, or in that between the instants up to which it is complete. Nothing else may
influence the result, neither the lengths of the intervals nor the time of the call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from eddyline.core.bound import Bound
from eddyline.core.delta import Delta
from eddyline.core.errors import DataError
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.operators.failed_rows import Locate, described, for_row
from eddyline.streamon.log import DecisionLog
from eddyline.synopses.store import Stub

# An operator counts the rows that it holds within one run, whose elements may span many windows: once for so many
# elements, and so many times at most. More counts give a more exact maximum and cost time.
ELEMENTS_PER_ROW_COUNT, ROW_COUNTS_PER_RUN = 256, 16


@dataclass(slots=True)
class Context:
    """The data that the operators of one query share. ``start`` is the first instant of the query's time, set before
    the first call of ``process``, because an instant closes only after every stream has shown one that is later.
    """

    start: int | None = None
    log: DecisionLog = field(default_factory=DecisionLog)
    # Takes a row that failed, with its time; None: an error stops the query.
    divert: Callable[[DataError, Mapping[str, Any], int], None] | None = None
    # To say which row failed: the kind of its time, and the stream or relation of each alias.
    time_kind: TimeKind = TimeKind.INTEGER
    sources: Mapping[str, str] = field(default_factory=dict)
    # Finds a row of a stream in its file by some values and its time, for an error's message; None: there are no files.
    locate: Locate | None = None

    def fail(self, delta: Delta, errors: Mapping[int, DataError]) -> None:
        """Errors of single rows: the first stops the query, or all rows are diverted (``on_error = 'invalid'``).

        What comes and goes within one instant was never there, so it cannot have failed either.
        """
        there = lasting(delta, sorted(errors))
        for row, error in sorted(errors.items()):
            if row not in there:
                continue
            values, time = {n: c[row].as_py() for n, c in delta.columns.items()}, int(delta.time[row])
            if self.divert is None:
                which = described(values, time, self.time_kind, self.sources, self.locate)
                raise for_row(error, which) from error
            if delta.weight is None or delta.weight[row] > 0:  # the deletion of a diverted row is not news
                self.divert(error, values, time)


def lasting(delta: Delta, rows: Sequence[int]) -> frozenset[int]:
    """Those of the rows whose value is still changed at the end of their instant.

    >>> import numpy as np, pyarrow as pa
    >>> d = Delta(np.array([1, 1, 2]), {"a": pa.array([7, 7, 7])}, np.array([1, -1, 1]))
    >>> sorted(lasting(d, [0, 1, 2]))
    [2]
    """
    if delta.weight is None:
        return frozenset(rows)
    values = {row: (int(delta.time[row]), *(repr(c[row].as_py()) for c in delta.columns.values())) for row in rows}
    change: dict[tuple[Any, ...], int] = {}
    for row, value in values.items():
        change[value] = change.get(value, 0) + int(delta.weight[row])
    return frozenset(row for row, value in values.items() if change[value])


class Operator(ABC):
    """A physical operator. ``state`` holds all that ``load`` needs to go on exactly where another instance stopped."""

    not_undone: ClassVar[str] = ""  # what its decisions change and UNDO cannot set back, as a plural

    def __init__(self, name: str, schema: Schema) -> None:
        self.name = name
        self.schema = schema

    @abstractmethod
    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        """Consume the changes up to and including ``frontier``; return the output's changes up to it."""

    def complete_to(self, frontier: int) -> int:
        """The instant up to which the output is complete, after ``process`` up to ``frontier``: an operator whose
        answer at an instant rests on later elements is behind."""
        return frontier

    def state(self) -> dict[str, Any]:
        """Nested dicts of numpy arrays, Arrow arrays and batches, and plain scalars."""
        return {}

    def load(self, state: dict[str, Any]) -> None:  # noqa: B027 (a stateless operator has nothing to load)
        """The inverse of ``state``."""

    def size(self) -> tuple[int, int]:
        """Rows and bytes of state."""
        return 0, 0

    def give_back(self, bytes: int) -> int:
        """Free up to so many bytes of state, or some more, between two calls of ``process``: the bytes that were freed.
        No answer depends on it (``synopses.protocol``)."""
        return 0

    def spilled(self) -> tuple[int, int]:
        """Rows and bytes outside of memory."""
        return 0, 0

    def limit_memory(self, bytes: int | None) -> None:  # noqa: B027 (most operators cannot do with less)
        """The state of its query is to stay within so many bytes; None: there is no limit."""

    def private_stubs(self) -> Sequence[Stub]:
        """Views of row stores that it made while it ran, beside those of its plan: their rows may go to the disk."""
        return ()

    def most_rows(self, now: int) -> int:
        """The most rows of state during the last run, as far as the operator counted: at least ``now``, the rows that
        it has at the end of the run. Given, because to count them again costs as much as a small run."""
        return now

    def describe(self) -> str:
        """One line for explain: what is kept, its bound and why. Empty for a stateless operator."""
        return ""

    def bounds(self) -> dict[str, Bound]:
        """How much is held at most, by input or part; for operators that keep something."""
        return {}

    def approximate(self) -> str:
        """Why results may not be exact; empty where they are."""
        return ""

    def adapts(self) -> list[str]:
        """Lines for explain: alternatives, the present plan, statistics. Empty if the operator does not adapt."""
        return []

    def pin(self, pinned: bool) -> None:  # noqa: B027 (most operators have one plan)
        """Keep the plan as it is, or let policies change it again."""

    def statistics(self) -> dict[str, Any]:
        """Statistics and decisions of an operator that adapts, as plain data. Empty if it does not."""
        return {}
