"""Intakes: the elements of an input from one arrival on, read once for all operators that began with that arrival.

A query answers as if its inputs began when it was registered. So two queries see the same elements of a stream exactly
if no element came between their registrations: then they have one intake. Its number is part of the key by which two
sub-plans are equal (``plan.sameness``).

A timed relation *is* something before a query comes, and a query first gets its content. Two queries get the same
content and the same changes only if nothing was released to the first between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.core.delta import Delta
from eddyline.core.time import BEGINNING
from eddyline.engine.input_manager import InputStream, StreamReader
from eddyline.engine.queues import Queue

COMBINED_BATCH_ROWS = 1 << 12  # batches up to this size are put together: copying is cheaper than two passes


class Intake:
    """``number`` names it among the intakes of its input, now and in snapshots."""

    def __init__(self, stream: InputStream, number: int) -> None:
        self.stream, self.number = stream, number
        self.reader: StreamReader = stream.reader((), str(number))
        self.frontier = BEGINNING
        self.users = 0  # queries
        self.taken = False  # whether elements were handed on
        self.after = stream.largest_time  # of the elements that came before
        self._begin = stream.accepted
        self._content = len(self.reader.chunks)
        self._outputs: list[tuple[str, Queue]] = []  # with what stands before the names of columns there

    @property
    def fresh(self) -> bool:
        """Whether a query that is registered now would see exactly what this intake hands on."""
        if self.stream.accepted != self._begin:
            return False
        return not self.stream.remembers or not (self.taken or len(self.reader.chunks) != self._content)

    def want(self, columns: Sequence[str]) -> None:
        """Read these columns, too. Windows that share a store bring all columns that any of them keeps."""
        wanted = tuple(dict.fromkeys((*self.reader.columns, *columns)))
        if wanted != self.reader.columns:
            self.reader.widen(wanted)

    @property
    def longest(self) -> int:
        """Elements in the longest queue that it fills."""
        return max((q.size for _, q in self._outputs), default=0)

    def connect(self, prefix: str, queue: Queue) -> None:
        self._outputs.append((prefix, queue))

    def disconnect(self, queue: Queue) -> None:
        self._outputs = [(p, q) for p, q in self._outputs if q is not queue]

    def advance(self, frontier: int) -> None:
        """Hand on the elements up to an instant that has closed."""
        if frontier <= self.frontier:
            return
        self.frontier = frontier
        for delta, end in self.reader.take_apart(frontier, COMBINED_BATCH_ROWS):
            self.taken = self.taken or len(delta) > 0
            # Kernels are compiled for arrays they may write to; a column of an Arrow batch is read-only.
            time = delta.time if delta.time.flags.writeable else delta.time.copy()
            named: dict[str, Delta] = {}
            for prefix, queue in self._outputs:
                if prefix not in named:
                    columns = {prefix + n: c for n, c in delta.columns.items()}
                    named[prefix] = Delta(time, columns, delta.weight)
                queue.push(named[prefix], end)

    def close(self) -> None:
        self.reader.close()

    def state(self) -> dict[str, Any]:
        kept = {"begin": self._begin, "content": self._content, "after": self.after}
        return {"frontier": self.frontier, "taken": self.taken, **kept}

    def load(self, state: Mapping[str, Any]) -> None:
        self.frontier, self.taken = state["frontier"], state["taken"]
        self._begin, self._content = state["begin"], state["content"]
        self.after = state.get("after")
