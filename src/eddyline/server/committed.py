"""Committed results as events, read from the catalog by the process that serves followers.

An event is made once for all followers and kept while there is room and followers ask for it now and then. Events of a
chunk of the journal are cut at the same rows for everybody; only a follower that asks for the rows after one within an
event gets a cut of its own.
"""

from __future__ import annotations

import sqlite3
import time
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from eddyline.server.follow import RowsEvent, rows_events
from eddyline.server.journal import Chunk, Gone, decoded

KEPT_BYTES = 32 << 20  # of events that are kept: more lets followers that are far apart share more of the work
KEPT_SECONDS = 30.0  # that a chunk is kept after it was used: more lets followers that are slower share it
OBJECT_BYTES = 600  # of a chunk that is kept beside its text: most chunks of a query with few results have one row


@dataclass(slots=True)
class _Kept:
    """The events of one chunk, their bytes, and when they were used last."""

    events: list[RowsEvent]
    size: int
    used: float


class CommittedResults:
    """Reads what the server has committed; it never sees a row that a kill of the server could take back.

    >>> import tempfile, pyarrow as pa
    >>> from eddyline.server.journal import Journal
    >>> from eddyline.server.store import Store
    >>> path = Path(tempfile.mkdtemp()) / "catalog.sqlite"
    >>> store = Store(path); journal = Journal(store, 1, None, (100, 10**6))
    >>> journal.stage([pa.record_batch({"a": [5, 6, 7]})]); store.commit()
    >>> results = CommittedResults(path)
    >>> [(e.first, e.last) for e in results.after(1, 1, 3, 1000)]
    [(2, 3)]
    >>> results.close(); store.close()
    """

    def __init__(self, catalog: Path, kept_bytes: int = KEPT_BYTES) -> None:
        self._catalog = sqlite3.connect(f"{catalog.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        self._kept: OrderedDict[tuple[int, int], _Kept] = OrderedDict()  # by entry and first row, the last used last
        self._firsts: dict[int, list[int]] = {}  # of the chunks that are kept, by entry, sorted
        self._most, self._size = kept_bytes, 0

    def close(self) -> None:
        self._catalog.close()

    def after(self, entry: int, position: int, last: int, most: int) -> list[RowsEvent]:
        """The events after a row up to ``last``, until they have ``most`` bytes. ``Gone``: the next row is not retained
        any more. Empty before ``last``: the query was dropped, and its rows with it."""
        found: list[RowsEvent] = []
        size = 0
        while position < last and size < most:
            events = self._chunk(entry, position + 1)
            if not events:
                break
            for e in events[bisect_right(events, position, key=lambda e: e.last) :]:
                whole = e if e.first == position + 1 else self._rest(entry, position, e)
                if whole is None:
                    return found
                found.append(whole)
                size, position = size + len(whole.data), whole.last
                if size >= most:
                    break
        return found

    def first(self, entry: int) -> int:
        """The oldest row that is retained."""
        row = self._catalog.execute("SELECT min(first) FROM chunks WHERE entry = ?", (entry,)).fetchone()
        return int(row[0] or 1)

    def _chunk(self, entry: int, row: int) -> list[RowsEvent]:
        """The events of the chunk with this row."""
        firsts = self._firsts.get(entry, [])
        at = bisect_right(firsts, row) - 1
        if at >= 0:
            key = entry, firsts[at]
            kept = self._kept[key]
            if kept.events[-1].last >= row:
                self._kept.move_to_end(key)
                kept.used = time.monotonic()
                return kept.events
        chunk = self._read(entry, row)
        if chunk is None:
            return []
        if chunk.first > row:
            raise Gone(f"rows up to {chunk.first - 1} are not retained any more; those after {chunk.first - 1} are.")
        events = rows_events(entry, chunk)
        size = OBJECT_BYTES + sum(len(e.data) for e in events)
        self._kept[entry, chunk.first] = _Kept(events, size, time.monotonic())
        insort(self._firsts.setdefault(entry, []), chunk.first)
        self._size += size
        while self._size > self._most and len(self._kept) > 1:
            self._forget_oldest()
        return events

    def forget_unused(self, now: float) -> None:
        """Forget what no follower has asked for in a while: all have it, or have gone."""
        while self._kept and now - next(iter(self._kept.values())).used > KEPT_SECONDS:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        (entry, first), kept = self._kept.popitem(last=False)
        self._size -= kept.size
        firsts = self._firsts[entry]
        del firsts[bisect_left(firsts, first)]
        if not firsts:
            del self._firsts[entry]

    def _read(self, entry: int, row: int) -> Chunk | None:
        sql = "SELECT first, last, data FROM chunks WHERE entry = ? AND last >= ? ORDER BY last LIMIT 1"
        found = self._catalog.execute(sql, (entry, row)).fetchone()
        return None if found is None else Chunk(found[0], found[1], decoded(found[2]))

    def _rest(self, entry: int, position: int, within: RowsEvent) -> RowsEvent | None:
        """The rows of an event after one of them."""
        chunk = self._read(entry, position + 1)
        if chunk is None or chunk.first > position + 1:
            return None
        rest = chunk.after(position)
        rows = rest.rows.slice(0, within.last - position)
        return rows_events(entry, Chunk(position + 1, within.last, rows))[0]
