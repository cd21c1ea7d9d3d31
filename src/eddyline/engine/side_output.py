"""Side outputs: the rows that an input stream turned away, all of them counted, the last of them kept.

Late and invalid rows leave the main path but are never lost silently: ``count`` is always exact, the last ``keep`` rows
can be read with their reasons, and subscribers (the streams ``late(q)`` and ``invalid(q)``) get every row at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s

ROWS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Diverted:
    """Rows turned away together.

    ``rows`` has the source's columns; ``reason`` one text a row. ``at`` is the time that the stream had reached when
    each row came: a late row's own timestamp goes backwards by definition, ``at`` never does, so it can serve as the
    timestamp where the side output is itself read as a stream.
    """

    stream: str
    rows: pa.RecordBatch
    at: Int64s
    reason: pa.Array

    def __len__(self) -> int:
        return len(self.at)

    def last(self, count: int) -> Diverted:
        start = len(self) - count
        return Diverted(self.stream, self.rows.slice(start), self.at[start:], self.reason.slice(start))


Subscriber = Callable[[Diverted], None]


class SideOutput:
    """The late or the invalid rows of one stream.

    ``keep`` bounds the memory: larger keeps more rows to look at afterwards, the count is exact either way.

    >>> late = SideOutput(keep=2)
    >>> rows = pa.RecordBatch.from_pydict({"a": [1, 2, 3]})
    >>> late.add(Diverted("S", rows, np.array([5, 5, 7]), pa.repeat("late", 3)))
    >>> late.count, [r["a"] for r in late.to_pylist()]
    (3, [2, 3])
    """

    def __init__(self, keep: int = ROWS_KEPT) -> None:
        self.keep = keep
        self.count = 0
        self.subscribers: list[Subscriber] = []
        self._parts: deque[Diverted] = deque()
        self._kept = 0
        self._at: int | None = None

    def add(self, part: Diverted) -> None:
        if not len(part):
            return
        at = part.at if self._at is None else np.maximum(part.at, self._at)
        part = Diverted(part.stream, part.rows, np.maximum.accumulate(at), part.reason)
        self._at = int(part.at[-1])
        self.count += len(part)
        for subscriber in self.subscribers:
            subscriber(part)
        if self.keep:
            self._parts.append(part.last(min(self.keep, len(part))))
            self._kept += len(self._parts[-1])
        while self._kept > self.keep:
            surplus = self._kept - self.keep
            oldest = self._parts[0]
            if len(oldest) <= surplus:
                self._parts.popleft()
                self._kept -= len(oldest)
            else:
                self._parts[0] = oldest.last(len(oldest) - surplus)
                self._kept -= surplus

    @property
    def parts(self) -> tuple[Diverted, ...]:
        """The kept rows, oldest first; parts may differ in their columns, as the batches that they came in did."""
        return tuple(self._parts)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The kept rows as dictionaries with ``_reason`` and ``_at``, for reports and for people."""
        return [
            {**row, "_reason": reason, "_at": int(at)}
            for p in self._parts
            for row, reason, at in zip(p.rows.to_pylist(), p.reason.to_pylist(), p.at, strict=True)
        ]

    def state(self) -> dict[str, Any]:
        parts = [{"stream": p.stream, "rows": p.rows, "at": p.at, "reason": p.reason} for p in self._parts]
        return {"count": self.count, "at": self._at, "parts": parts}

    def load(self, state: dict[str, Any]) -> None:
        self.count, self._at = state["count"], state["at"]
        self._parts = deque(Diverted(**p) for p in state["parts"])
        self._kept = sum(len(p) for p in self._parts)
