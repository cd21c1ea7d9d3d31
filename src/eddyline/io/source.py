"""The contract of every connector.

Three facts that the rest of the engine relies on:

1. *Arrival order* is (path, row number) for files and position for tables and iterables: a source opened twice yields
   the same rows in the same order, however they are cut into batches (an iterator can be opened once only).
2. A row is malformed or not whatever the query reads: text formats judge every declared column of a row, also those
   that are pruned, so that the plan never changes which rows exist.
3. A malformed row is handed over as ``InvalidRow``, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from eddyline.core.errors import DataError

BATCH_ROWS: Final = 131_072


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """A row that could not be read. ``reason`` names the place, ``row`` is its text as it stood in the input.

    >>> InvalidRow("calls.csv, line 3: 2 fields instead of 3", "7,x").reason
    'calls.csv, line 3: 2 fields instead of 3'
    """

    reason: str
    row: str
    before: int = field(default=0, compare=False, repr=False)  # good rows of the same batch that came before it


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Rows in arrival order, and the malformed ones met on the way. Both may be empty: then it is a sign of life from
    a source that waits (see ``Source.finite``), which lets the runtime send heartbeats."""

    rows: pa.RecordBatch
    invalid: list[InvalidRow] = field(default_factory=list)


def dealt(batches: Sequence[pa.RecordBatch], invalid: Sequence[InvalidRow]) -> Iterator[SourceBatch]:
    """The batches of one block, each with the malformed rows that came with it.

    >>> batches = [pa.record_batch({"a": [1, 2]}), pa.record_batch({"a": [3]})]
    >>> bad = [InvalidRow("", "x", 1), InvalidRow("", "y", 3)]
    >>> [[(r.row, r.before) for r in b.invalid] for b in dealt(batches, bad)]
    [[('x', 1)], [('y', 1)]]
    """
    done = 0
    rest = list(invalid)
    for i, batch in enumerate(batches):
        end = done + batch.num_rows
        mine = rest if i == len(batches) - 1 else [r for r in rest if r.before < end]
        rest = rest[len(mine) :]
        yield SourceBatch(batch, [replace(r, before=r.before - done) for r in mine])
        done = end


def whole(batches: Iterable[SourceBatch], schema: pa.Schema) -> pa.Table:
    """The rows of batches as one table of exactly the schema's types: strings may come dictionary-encoded.

    >>> batch = SourceBatch(pa.record_batch({"s": pa.array(["a", "b"]).dictionary_encode()}))
    >>> whole([batch], pa.schema([("s", pa.string())])).schema.field("s").type
    DataType(string)
    """
    return pa.Table.from_batches([plain(b.rows, schema) for b in batches], schema)


def plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in exactly the schema's types (dictionary-encoded columns are decoded)."""
    if batch.schema.equals(schema):
        return batch
    arrays = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@runtime_checkable
class Source(Protocol):
    """``schema`` has engine types. ``finite`` is False where reading may wait for data that do not exist yet
    (a watched directory, standard input, a generator without end)."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def finite(self) -> bool: ...

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        """Batches of at most ``batch_rows`` rows with exactly ``columns``, in that order (None: all columns).

        A batch without columns cannot carry its number of rows, so an empty list reads the first column instead.
        """


def pruned(schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    """The columns to read.

    >>> s = pa.schema([("ts", pa.int64()), ("key", pa.string())])
    >>> pruned(s, None), pruned(s, ["key"]), pruned(s, [])
    (['ts', 'key'], ['key'], ['ts'])
    """
    if columns is None:
        return list(schema.names)
    return list(columns) if columns else list(schema.names[:1])


@runtime_checkable
class Ordered(Protocol):
    """A source that finds out on the way in which order it reads its parts; ``order`` is theirs so far."""

    order: list[str]


def segment_layout(source: object) -> Any:
    """What the segments of a source model (a ``models.segments.SegmentLayout``); None: its rows are tuples."""
    inner = source.source if isinstance(source, StrictSource) else source
    return getattr(inner, "layout", None)


class StrictSource:
    """Stops at the first malformed row instead of counting it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.notes: tuple[str, ...] = getattr(source, "notes", ())
        if isinstance(source, Ordered):
            self.order = source.order  # the same list

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    @property
    def finite(self) -> bool:
        return self.source.finite

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        for batch in self.source.open(columns, batch_rows):
            if batch.invalid:
                first = batch.invalid[0]
                raise DataError(f"malformed row in strict mode. {first.reason}: {shorten(first.row)}")
            yield batch


def shorten(text: str, width: int = 120) -> str:
    """Raw text for a message: one line, not too long.

    >>> shorten("a\\nb"), len(shorten("x" * 1000))
    ("'a\\\\nb'", 120)
    """
    shown = repr(text[: width + 1])
    return shown if len(shown) <= width else shown[: width - 2] + "…'"
