"""A reader: one query's position in a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.schema import Schema
from eddyline.engine.arrivals import Definition
from eddyline.engine.reorder import Chunk, joined


class Readable(Protocol):
    """The part of an input stream that its readers use."""

    @property
    def definition(self) -> Definition: ...

    def release(self, frontier: int) -> None: ...
    def forget(self, reader: StreamReader) -> None: ...
    def plan_columns(self) -> None: ...


class StreamReader:
    """One query's position in a stream: sees the elements accepted after it registered, each once, in order."""

    def __init__(self, stream: Readable, columns: tuple[str, ...], name: str, since: int) -> None:
        self.stream, self.columns, self.name = stream, columns, name
        self.since = since  # smaller arrival numbers came before this reader
        self.first_time: int | None = None  # the smallest time of an element that it sees
        self.chunks: deque[Chunk] = deque()
        self._empty = Delta.empty(Schema(tuple(stream.definition.schema[c] for c in columns)))
        self._schema: pa.Schema | None = None
        self._places: dict[str, int] | None = None  # of its columns in batches of that schema

    def take(self, frontier: int) -> Delta:
        """The elements with times ≤ ``frontier`` that were not taken before.

        The caller promises that the instants up to ``frontier`` are closed; from now on they are, for this stream.
        """
        parts = self._taken(frontier)
        return self._delta(joined(parts)) if parts else self._empty

    def take_apart(self, frontier: int, most: int) -> list[tuple[Delta, int]]:
        """The same in pieces, each with the instant up to which it is complete; the last one is ``frontier``.

        What is left over of one large batch and the next large batch are not copied together: pieces are of at most
        ``most`` elements, or came as they are. There is always one piece, be it empty.
        """
        taken = self._taken(frontier)
        if not taken:
            return [(self._empty, frontier)]
        if len(taken) == 1:
            return [(self._delta(taken[0]), frontier)]
        groups: list[list[Chunk]] = []
        held = 0
        for c in taken:
            # An instant is never divided between two pieces.
            if groups and (held + len(c) <= most or c.time[0] == groups[-1][-1].time[-1]):
                groups[-1].append(c)
                held += len(c)
            else:
                groups.append([c])
                held = len(c)
        ends = [*(int(g[-1].time[-1]) for g in groups[:-1]), frontier]
        return [(self._delta(joined(g)), end) for g, end in zip(groups, ends, strict=True)]

    def _taken(self, frontier: int) -> list[Chunk]:
        self.stream.release(frontier)
        chunks = self.chunks
        parts: list[Chunk] = []
        while chunks:
            head = chunks[0]
            if head.time[-1] <= frontier:
                parts.append(chunks.popleft())
                continue
            cut = int(head.time.searchsorted(frontier, "right"))
            if cut:
                parts.append(head.slice(0, cut))
                chunks[0] = head.slice(cut, len(head))
            break
        return parts

    def _delta(self, whole: Chunk) -> Delta:
        if whole.first < self.since:
            whole = whole.filter(whole.arrivals >= self.since)
        rows = whole.rows
        if self._places is None or not rows.schema.equals(self._schema):
            self._schema, names = rows.schema, rows.schema.names
            self._places = {n: names.index(n) for n in self.columns if n in names}
        return Delta(whole.time, {n: rows.column(i) for n, i in self._places.items()}, whole.weight)

    def saw(self, low: int) -> None:
        """An element on time has come, though it may be held yet."""
        if self.first_time is None or low < self.first_time:
            self.first_time = low

    def widen(self, columns: Sequence[str]) -> None:
        """Ask for more columns; those elements that are here already must have them."""
        self.columns = tuple(columns)
        self._places = None
        self._empty = Delta.empty(Schema(tuple(self.stream.definition.schema[c] for c in columns)))
        self.stream.plan_columns()

    def __len__(self) -> int:
        """Elements released and not yet taken."""
        return sum(len(c) for c in self.chunks)

    def close(self) -> None:
        self.stream.forget(self)
