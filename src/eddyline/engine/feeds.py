"""Feeds: pull sources turned into pushes.

A feed reads one declared source in arrival order and hands its rows to the input stream. The session always pulls
from the feed whose stream is furthest behind, so that finite inputs are merged by time with little held back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np

from eddyline.engine.input_manager import InputStream
from eddyline.engine.row_places import place_among
from eddyline.io.parquet import ParquetSource
from eddyline.io.source import BATCH_ROWS, Ordered, Source, SourceBatch


class Feed:
    """``columns`` (None: all) are decided when reading starts; a query that comes later and needs more makes the feed
    read anew, past the rows it has already handed over."""

    def __init__(self, source: Source, stream: InputStream, batch_rows: int = BATCH_ROWS) -> None:
        self.source, self.stream, self.batch_rows = source, stream, batch_rows
        self.columns: tuple[str, ...] | None = ()
        self.rows = self.invalid = 0  # handed over so far: good ones, and malformed ones
        self._batches: Iterator[SourceBatch] | None = None
        self._first: Future[SourceBatch | None] | None = None

    @property
    def done(self) -> bool:
        return self.stream.finished

    def want(self, columns: Sequence[str]) -> None:
        """Make sure that these columns are read from now on."""
        assert self.columns is not None
        missing = [c for c in columns if c not in self.columns]
        if missing:
            self.columns = tuple(n for n in self.source.schema.names if n in {*self.columns, *missing})
            self._batches = self._first = None

    @property
    def can_begin(self) -> bool:
        """Whether its first batch can be read by another thread: our own readers can; a user's iterator might mind."""
        return self._batches is None and isinstance(self.source, ParquetSource)

    def begin(self, pool: Executor) -> None:
        """Start to read, so that the first batches of several files are decoded side by side."""
        self._batches = self._open()
        self._first = pool.submit(next, self._batches, None)

    def pull(self) -> int:
        """Hand over the next batch; at the end finish the stream. Returns the number of rows."""
        if self._batches is None:
            self._batches = self._open()
        if self._first is not None:
            batch, self._first = self._first.result(), None
        else:
            batch = next(self._batches, None)
        if batch is None:
            self.stream.finish()
            return 0
        if batch.invalid:
            at = self.stream.reached(batch.rows, np.array([i.before for i in batch.invalid], np.int64))
            self.stream.reject([i.row for i in batch.invalid], [i.reason for i in batch.invalid], at)
            self.invalid += len(batch.invalid)
        count = int(batch.rows.num_rows)
        if count:
            self.stream.accept(batch.rows)
            self.rows += count
        elif not batch.invalid:
            self.stream.tick()
        return count + len(batch.invalid)

    def place_among(self, values: Mapping[str, Any], time: int, before: int) -> str | None:
        """Where a row stands in its file that was handed over."""
        return place_among(self.source, self.stream.definition.timestamp, values, time, before, self.rows)

    def state(self) -> dict[str, Any]:
        order = list(self.source.order) if isinstance(self.source, Ordered) else []
        return {"rows": self.rows, "invalid": self.invalid, "order": order}

    def load(self, state: Mapping[str, Any]) -> None:
        self.rows, self.invalid = state["rows"], state["invalid"]
        if isinstance(self.source, Ordered):
            self.source.order[:] = state["order"]

    def _open(self) -> Iterator[SourceBatch]:
        """The batches of the source without what was handed over, however they are cut this time."""
        rows, invalid = self.rows, self.invalid
        for batch in self.source.open(self.columns, self.batch_rows):
            if rows or invalid:
                passed, seen = min(rows, batch.rows.num_rows), min(invalid, len(batch.invalid))
                rows, invalid = rows - passed, invalid - seen
                if passed or seen:
                    batch = SourceBatch(batch.rows.slice(passed), batch.invalid[seen:])
                    if batch.rows.num_rows == 0 and not batch.invalid:
                        continue
            yield batch
