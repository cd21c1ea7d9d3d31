"""Results as server-sent events.

Each event has the number of its last row as id, so that a follower that comes back with ``Last-Event-ID`` gets the rows
after it: none is lost, none is repeated, also when the server was killed in between. The events themselves are made and
sent by a process of their own (``relay``), which gets the connections from ``followers``.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline.io.render import json_lines
from eddyline.server.journal import Chunk, Gone, Journal

EVENT_ROWS = 500  # rows of one event: more are sent in several


class RowsEvent(NamedTuple):
    """Rows ``first`` to ``last`` as they are sent."""

    first: int
    last: int
    data: bytes


def event(kind: str, data: Any, id: str | None = None) -> bytes:
    """
    >>> event("end", {"reason": "dropped"}, "3.7")
    b'id: 3.7\\nevent: end\\ndata: {"reason": "dropped"}\\n\\n'
    """
    head = f"id: {id}\n" if id is not None else ""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"{head}event: {kind}\ndata: {text}\n\n".encode()


def rows_events(entry: int, chunk: Chunk) -> list[RowsEvent]:
    """The events of some rows of the query ``entry``.

    >>> rows = pa.record_batch({"a": [5, 6]})
    >>> rows_events(3, Chunk(7, 8, rows))[0].data.splitlines()[0]
    b'id: 3.8'
    """
    found = []
    for start in range(0, len(chunk.rows), EVENT_ROWS):
        rows = chunk.rows.slice(start, EVENT_ROWS)
        first, last = chunk.first + start, chunk.first + start + len(rows) - 1
        lines = json_lines(pa.Table.from_batches([rows])).rstrip("\n").replace("\n", ", ")
        text = f'{{"first": {first}, "last": {last}, "rows": [{lines}]}}'
        found.append(RowsEvent(first, last, event("rows", text, f"{entry}.{last}")))
    return found


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
