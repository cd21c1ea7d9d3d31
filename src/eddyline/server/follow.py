"""Results as server-sent events.

Each event has the number of its last row as id, so that a follower that comes back with ``Last-Event-ID`` gets the rows
after it: none is lost, none is repeated, also when the server was killed in between. Followers have no queues: each has
a position in the journal, and one that reads slowly costs no memory. Events are written once for all followers that
are at the same place. A reader that does not take an event for too long is told so and dropped; it can come back.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pyarrow as pa

from eddyline.io.render import json_lines
from eddyline.server.journal import Chunk, Gone, Journal

EVENT_ROWS = 500  # rows of one event: more are sent in several
AT_ONCE = 20 * EVENT_ROWS  # rows that a follower takes from the journal at once
KEEP_ALIVE = 10.0  # seconds without rows after which a comment is sent
SENDS_PER_SECOND = 250  # to all followers of a query together: many followers get larger events less often
PACKET_BYTES = 64 << 10
CACHED_PACKETS = 64  # that several followers may share


def event(kind: str, data: Any, id: str | None = None) -> bytes:
    """
    >>> event("end", {"reason": "dropped"}, "3.7")
    b'id: 3.7\\nevent: end\\ndata: {"reason": "dropped"}\\n\\n'
    """
    head = f"id: {id}\n" if id is not None else ""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"{head}event: {kind}\ndata: {text}\n\n".encode()


class Following:
    """The followers of one query."""

    def __init__(self, journal: Journal, slow_seconds: float) -> None:
        self._journal, self._slow = journal, slow_seconds
        self._made: OrderedDict[int, tuple[bytes, int]] = OrderedDict()  # packets by their first row
        self.followers = self.dropped = 0

    async def events(self, after: int, stopping: Callable[[], bool]) -> AsyncIterator[bytes]:
        """From the row after ``after`` on, until the query is over."""
        journal, position, quiet = self._journal, after, time.monotonic()
        self.followers += 1
        try:
            yield b"retry: 1000\n\n"
            while not stopping():
                over = journal.over  # looked at before reading: what came with the end is read
                try:
                    chunks = await self._read(position)
                except Gone as error:
                    yield event("dropped", {"reason": str(error), "first": journal.first})
                    return
                for packet, last in self._packets(chunks):
                    began = time.monotonic()
                    yield packet  # resumes when the connection takes more
                    position = last
                    if time.monotonic() - began > self._slow:
                        self.dropped += 1
                        reason = f"this reader did not take an event for {self._slow:g} seconds; come back with its id"
                        yield event("dropped", {"reason": reason, "last": position})
                        return
                if chunks:
                    await asyncio.sleep(self.followers / SENDS_PER_SECOND)
                    quiet = time.monotonic()
                elif over:
                    yield event("end", {"status": journal.status, "message": journal.message})
                    return
                else:
                    await journal.changed.wait(KEEP_ALIVE)
                    if time.monotonic() - quiet >= KEEP_ALIVE:
                        quiet = time.monotonic()
                        yield b": still here\n\n"
        finally:
            self.followers -= 1

    async def _read(self, position: int) -> list[Chunk]:
        journal = self._journal
        if position >= journal.last:
            return []
        if journal.cached(position):
            return journal.read(position, AT_ONCE)
        return await asyncio.to_thread(journal.read, position, AT_ONCE)

    def _packets(self, chunks: list[Chunk]) -> Iterator[tuple[bytes, int]]:
        """The events of some rows in packets, each with its last row. They are made once for all followers that are at
        the same place, and small, because a connection holds one that its reader does not take."""
        pieces = [p for c in chunks for p in _pieces(c)]
        ends = {p.last for p in pieces}
        at = 0
        while at < len(pieces):
            found = self._made.get(pieces[at].first)
            if found is None or found[1] not in ends:  # rows may be cut into events in another way
                parts: list[bytes] = []
                size, end = 0, at
                while end < len(pieces) and size < PACKET_BYTES:
                    parts.append(self._event(pieces[end]))
                    size, end = size + len(parts[-1]), end + 1
                found = self._made[pieces[at].first] = b"".join(parts), pieces[end - 1].last
                while len(self._made) > CACHED_PACKETS:
                    self._made.popitem(last=False)
            yield found
            while at < len(pieces) and pieces[at].last <= found[1]:
                at += 1

    def _event(self, piece: Chunk) -> bytes:
        rows = json_lines(pa.Table.from_batches([piece.rows])).rstrip("\n").replace("\n", ", ")
        text = f'{{"first": {piece.first}, "last": {piece.last}, "rows": [{rows}]}}'
        return event("rows", text, f"{self._journal.entry}.{piece.last}")


def _pieces(chunk: Chunk) -> list[Chunk]:
    starts = range(0, len(chunk.rows), EVENT_ROWS)
    rows = [chunk.rows.slice(s, EVENT_ROWS) for s in starts]
    return [Chunk(chunk.first + s, chunk.first + s + len(r) - 1, r) for s, r in zip(starts, rows, strict=True)]


def position_of(journal: Journal, id: str | None, default: int) -> int:
    """The row that an id names. One of another query of the same name is refused."""
    if id is None or not id.strip():
        return default
    entry, _, number = id.strip().rpartition(".")
    if not number.isdecimal() or (entry and not entry.isdecimal()) or len(number) > 18:
        raise ValueError(f"an id is a number, or an event's id such as 3.17, not {id[:40]!r}.")
    if entry and int(entry) != journal.entry:
        raise Gone("this id belongs to another query of the same name, which was dropped; start without an id.")
    return int(number)
