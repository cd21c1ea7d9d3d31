"""Results in a notebook, as a table that updates.

A query that is the last line of a cell shows its plan and its decisions (``Query._repr_html_``); ``watch`` shows its
results as they come. Both work for a session of this process, for a server (``ed.connect``) and, the plan, on Spark.
"""

from __future__ import annotations

import html
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa

from eddyline.core.errors import JobError
from eddyline.io.render import shown

UPDATE_SECONDS = 0.25  # between two updates: shorter is smoother, and costs more


class WatchedQuery(Protocol):
    """A ``Query``, or a ``RemoteQuery``."""

    name: str

    def results(self) -> Iterator[pa.RecordBatch]: ...


class ResultsTable:
    """The last results of a query, and how many there were.

    >>> table = ResultsTable("large", 2)
    >>> table.add(pa.record_batch({"size": [700, 900, 1500], "host": ["a", "<b>", "c"]}))
    >>> table.count, [row["size"] for row in table.rows]
    (3, [900, 1500])
    >>> "&lt;b&gt;" in table._repr_html_()
    True
    """

    def __init__(self, name: str, rows: int) -> None:
        self.name, self.count, self.over = name, 0, False
        self.rows: deque[dict[str, Any]] = deque(maxlen=rows)

    def add(self, batch: pa.RecordBatch) -> None:
        self.count += len(batch)
        self.rows.extend(batch.slice(max(0, len(batch) - (self.rows.maxlen or 0))).to_pylist())

    def _repr_html_(self) -> str:
        columns = list(self.rows[-1]) if self.rows else []
        head = "".join(f'<th scope="col">{html.escape(c)}</th>' for c in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(shown(row[c]))}</td>" for c in columns) + "</tr>" for row in self.rows
        )
        state = "" if self.over else ", more may come"
        counted = f"{self.count:,} {'row' if self.count == 1 else 'rows'}"
        caption = f"<caption>{html.escape(self.name)}: {counted}{state}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def watch(query: WatchedQuery, rows: int = 20, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Show the last ``rows`` results of a query in a table that updates, until there are no more or the cell is
    interrupted. The results are taken, as ``query.results()`` takes them; an interrupted query goes on."""
    try:
        from IPython.display import display
    except ImportError as error:
        raise JobError(
            f"watch is for notebooks, and there is no IPython here ({error}): pip install ipython."
        ) from None
    table = ResultsTable(query.name, rows)
    handle, last = display(table, display_id=True), clock()
    try:
        for batch in query.results():
            table.add(batch)
            if clock() - last >= UPDATE_SECONDS:
                handle.update(table)
                last = clock()
        table.over = True
    except KeyboardInterrupt:
        pass
    handle.update(table)
