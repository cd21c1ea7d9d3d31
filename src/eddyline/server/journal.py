"""The results of one query, numbered from 1 in the order in which they were computed.

Invariants. A row's number never changes and is never given to another row, also across restarts. A row is visible
when it was committed with the state that it came from (``store``). The last rows are retained, up to a bound; a reader
that asks for older ones is told so (``Gone``) and never given a gap in silence.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from eddyline.core.errors import EddylineError
from eddyline.server.store import Store

CHUNK_ROWS = 10_000  # rows of one saved chunk: what a reader decodes at once
CACHED_ROWS = 20_000  # rows kept in memory for readers that keep up
CACHED_CHUNKS = 256  # the same in chunks: where results are few, a chunk of one row costs a kilobyte


class Gone(EddylineError):
    """Rows were asked for that are not retained any more, or that belong to another query of the same name."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows ``first`` to ``last`` of the results."""

    first: int
    last: int
    rows: pa.RecordBatch

    def after(self, number: int) -> Chunk:
        """The rows with larger numbers."""
        if number < self.first:
            return self
        return Chunk(number + 1, self.last, self.rows.slice(number + 1 - self.first))


class Signal:
    """Lets coroutines of one loop wait for what another thread does. A thousand that wait cost one timer together."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, seconds: float) -> None:
        """Until the next ``notify``, or so long; it may be shorter where others wait, too."""
        if self._event is None or self._loop is not asyncio.get_running_loop():
            self._loop, self._event, self._timer = asyncio.get_running_loop(), asyncio.Event(), None
        until = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > until:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(until, self._pulse)
        await self._event.wait()

    def notify(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._pulse)

    def _pulse(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        event, self._event = self._event, asyncio.Event()
        if event is not None:
            event.set()


class Journal:
    """``status`` is running, ended (its inputs ended), failed (``message`` says why) or dropped."""

    def __init__(self, store: Store, entry: int, schema: pa.Schema | None, retained: tuple[int, int]) -> None:
        self.entry = entry
        self._store, (self._most_rows, self._most_bytes) = store, retained
        self._lock = threading.Lock()
        self._recent: deque[Chunk] = deque()
        self._staged: list[Chunk] = []
        # Rows have numbers without gaps, so these three say all that is retained, however many chunks it is in.
        self.first, self.last, self._bytes = store.extent(entry)
        self._first = self.first  # when what is staged is committed
        self.schema = schema if schema is not None else self._saved_schema()
        self.status, self.message = "running", ""
        self.changed = Signal()

    def _saved_schema(self) -> pa.Schema:
        """Of a query that failed and is not planned again."""
        saved = self._store.chunks(self.entry, 0, 1)
        return decoded(saved[0][2]).schema if saved else pa.schema([])

    # ── the engine's thread ───────────────────────────────────────────────────────────────────────────────────────

    def stage(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Number new results and write them into the open transaction. No reader sees them before ``publish``."""
        for batch in batches:
            for start in range(0, len(batch), CHUNK_ROWS):
                rows = batch.slice(start, CHUNK_ROWS)
                first = (self._staged[-1].last if self._staged else self.last) + 1
                chunk = Chunk(first, first + len(rows) - 1, rows)
                data = encoded(rows)
                self._store.append(self.entry, chunk.first, chunk.last, data)
                self._bytes += len(data)
                self._staged.append(chunk)
        self._prune()

    def _prune(self) -> None:
        """Forget the oldest chunks beyond the bound; the newest stays, however large it is."""
        end = self._staged[-1].last if self._staged else self.last
        kept = self._first
        if end - kept < self._most_rows and self._bytes <= self._most_bytes:
            return
        with closing(self._store.oldest(self.entry)) as chunks:
            for _, last, size in chunks:
                if last == end or (end - kept < self._most_rows and self._bytes <= self._most_bytes):
                    break
                self._bytes, kept = self._bytes - size, last + 1
        if kept > self._first:
            self._first = kept
            self._store.prune(self.entry, kept)

    def publish(self, status: str = "running", message: str = "") -> None:
        """What was staged is committed: followers may see it."""
        changed = bool(self._staged) or status != self.status
        with self._lock:
            if self._staged:
                self._recent.extend(self._staged)
                self.last = self._staged[-1].last
                self.first = self._first
                while len(self._recent) > 1 and (
                    self.last - self._recent[0].last > CACHED_ROWS or len(self._recent) > CACHED_CHUNKS
                ):
                    self._recent.popleft()
                self._staged = []
            self.status, self.message = status, message
        if changed:
            self.changed.notify()

    # ── readers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, after: int, most: int = CHUNK_ROWS) -> list[Chunk]:
        """The committed chunks after a row, with at most about ``most`` rows."""
        with self._lock:
            last, first = self.last, self.first
            recent = list(self._recent)
        if after > last:
            raise Gone(f"row {after} does not exist yet: the last one is {last}.")
        if after + 1 < first:
            raise Gone(f"rows up to {first - 1} are not retained any more; those after {first - 1} are.")
        if recent and recent[0].first <= after + 1:
            found = [c.after(after) for c in recent if c.last > after]
        else:
            saved = [Chunk(f, e, decoded(data)) for f, e, data in self._store.chunks(self.entry, after, most)]
            found = [c.after(after) for c in saved if c.last <= last]
            if found and found[0].first != after + 1:  # pruned meanwhile
                raise Gone(f"rows up to {found[0].first - 1} are not retained any more.")
        return list(_limited(found, most))

    def cached(self, after: int) -> bool:
        """Whether the next rows are in memory, so that reading them does not wait for the disk."""
        recent = self._recent
        return bool(recent) and recent[0].first <= after + 1

    @property
    def over(self) -> bool:
        """Whether no more rows will come."""
        return self.status != "running"


def _limited(chunks: Sequence[Chunk], most: int) -> Iterator[Chunk]:
    left = most
    for c in chunks:
        if left <= 0:
            return
        taken = min(len(c.rows), left)
        yield c if taken == len(c.rows) else Chunk(c.first, c.first + taken - 1, c.rows.slice(0, taken))
        left -= taken


def encoded(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue())


def decoded(data: bytes) -> pa.RecordBatch:
    (batch,) = pa.ipc.open_stream(data)
    return batch
