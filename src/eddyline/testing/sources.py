"""A source made of a list, which can end, fail or pause at a given place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from eddyline.io.source import BATCH_ROWS, InvalidRow, SourceBatch, pruned


@dataclass(frozen=True, slots=True)
class EOF:
    """The input ends here; the next time the source is opened, it goes on past this place."""


@dataclass(frozen=True, slots=True)
class ABORT:
    """Reading fails here, once: the next time the source is opened, it goes on past this place."""

    reason: str = "the test aborts here"


@dataclass(frozen=True, slots=True)
class PAUSE:
    """Nothing to read for the moment: an empty batch, the sign of life of a source that waits."""

    batches: int = 1


class Aborted(Exception):
    """Raised by ``ABORT``: a crash, not a mistake in the job."""


Row = Mapping[str, Any]
Item: TypeAlias = Row | pa.RecordBatch | InvalidRow | EOF | ABORT | PAUSE


class ListSource:
    """A stream written down in a test: rows (dictionaries), batches, malformed rows and markers.

    The source opened for the n-th time passes the first n−1 stops (``EOF`` and ``ABORT``) and yields the same rows
    before them, as a file does that has grown. Without an explicit schema the types are inferred from the rows.

    >>> source = ListSource([{"ts": 1}, PAUSE(), {"ts": 2}, {"ts": 3}, ABORT(), {"ts": 4}])
    >>> opened = source.open()
    >>> next(opened).rows.to_pylist(), next(opened).rows.num_rows, next(opened).rows.to_pylist()
    ([{'ts': 1}], 0, [{'ts': 2}, {'ts': 3}])
    >>> next(opened)
    Traceback (most recent call last):
    eddyline.testing.sources.Aborted: the test aborts here
    >>> sum(batch.rows.num_rows for batch in source.open())
    4
    """

    def __init__(
        self, items: Sequence[Item], schema: pa.Schema | None = None, *, batch_rows: int | None = None
    ) -> None:
        self.items = list(items)
        self.batch_rows = batch_rows
        self._opened = 0
        self._schema = schema if schema is not None else self._infer()

    def _infer(self) -> pa.Schema:
        for item in self.items:
            if isinstance(item, pa.RecordBatch):
                return item.schema
        rows = [item for item in self.items if isinstance(item, Mapping)]
        if not rows:
            raise ValueError("a ListSource without rows needs a schema")
        return pa.Table.from_pylist([dict(r) for r in rows]).schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def finite(self) -> bool:
        return not any(isinstance(item, PAUSE) for item in self.items)

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        names = pruned(self._schema, columns)
        size = min(batch_rows, self.batch_rows or batch_rows)
        passes = self._opened
        self._opened += 1
        return self._read(names, size, passes)

    def _read(self, names: list[str], size: int, passes: int) -> Iterator[SourceBatch]:
        waiting: list[Row] = []
        for item in self.items:
            if isinstance(item, Mapping):
                waiting.append(item)
                if len(waiting) == size:
                    yield self._batch(waiting, names)
                    waiting = []
                continue
            if waiting:
                yield self._batch(waiting, names)
                waiting = []
            match item:
                case pa.RecordBatch():
                    for start in range(0, item.num_rows, size):
                        yield SourceBatch(item.slice(start, size).select(names))
                case InvalidRow():
                    yield SourceBatch(self._batch([], names).rows, [item])
                case PAUSE(batches):
                    for _ in range(batches):
                        yield self._batch([], names)
                case EOF() | ABORT() if passes > 0:
                    passes -= 1
                case EOF():
                    return
                case ABORT(reason):
                    raise Aborted(reason)
        if waiting:
            yield self._batch(waiting, names)

    def _batch(self, rows: Sequence[Row], names: list[str]) -> SourceBatch:
        schema = pa.schema([self._schema.field(n) for n in names])
        return SourceBatch(pa.RecordBatch.from_pylist([dict(r) for r in rows], schema))
