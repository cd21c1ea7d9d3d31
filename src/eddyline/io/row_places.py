"""The place of a row in its file, which is searched for only when an error message is about the row.

Rows carry no line numbers through the engine, because every row would pay for them. A row that failed is identified by
its values: the file is read once more, and the first row that has these values is the one, or one that fails in the
same way. A row that was changed or removed meanwhile is not found, and the message has no place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.io.directory import DirectorySource
from eddyline.io.source import BATCH_ROWS, Source, SourceBatch, StrictSource, plain

ROWS_SEARCHED: Final = 4_000_000  # at most: more finds rows further behind, and keeps the user waiting longer


@runtime_checkable
class Files(Protocol):
    """A source over files whose records have numbers."""

    paths: tuple[Path, ...]

    @property
    def schema(self) -> pa.Schema: ...

    def open_file(self, path: Path, columns: list[str], batch_rows: int) -> Iterator[SourceBatch]:
        """The batches of one of the files."""

    def place(self, path: Path, record: int) -> str:
        """How a user finds a record, malformed ones counted: the file, and its line or row."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row with the values that were looked for."""

    files: Files
    path: Path
    record: int

    def place(self) -> str:
        return self.files.place(self.path, self.record)


def candidates(source: Source, values: Mapping[str, Any], most: int = ROWS_SEARCHED) -> Iterator[Candidate]:
    """The rows among the first ``most`` that have these values, in order of arrival.

    >>> import tempfile
    >>> from eddyline.io.resolve import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "calls.csv").write_text("ts,who\\n1,ann\\nx,y\\n\\n3,bob\\n")
    ...     source = open_source("calls.csv", Path(folder))
    ...     [c.place() for c in candidates(source, {"who": "bob"})]
    ['calls.csv, line 5']
    """
    wanted, rows = list(values), 0
    for files, path in _parts(source):
        if not set(wanted) <= set(files.schema.names):
            return
        schema = pa.schema([files.schema.field(c) for c in wanted])
        records = 0
        for batch in files.open_file(path, wanted, BATCH_ROWS):
            found = plain(batch.rows, schema)
            for i in _equal(found, values).tolist():
                if rows + i >= most:
                    return
                malformed = sum(r.before <= i for r in batch.invalid)
                yield Candidate(files, path, records + i + malformed)
            rows += found.num_rows
            records += found.num_rows + len(batch.invalid)
            if rows >= most:
                return


def in_files(source: Source) -> bool:
    """Whether rows of the source have places."""
    inner = source.source if isinstance(source, StrictSource) else source
    return isinstance(inner, Files)


def _parts(source: Source) -> Iterator[tuple[Files, Path]]:
    if isinstance(source, StrictSource):
        yield from _parts(source.source)
    elif isinstance(source, DirectorySource):
        for name in list(source.order):
            yield from _parts(source.reader(source.folder / name, source.schema))
    elif isinstance(source, Files):
        for path in source.paths:
            if path.is_file():  # what a pipe gave cannot be read again
                yield source, path


def _equal(rows: pa.RecordBatch, values: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The numbers of the rows that have these values. NULL equals NULL here, and NaN NaN."""
    same = np.ones(rows.num_rows, np.bool_)
    for name, value in values.items():
        column = rows.column(name)
        if value is None:
            equal = pc.is_null(column)
        elif isinstance(value, float) and value != value:
            equal = pc.is_nan(column)
        else:
            equal = pc.equal(column, pa.scalar(value, column.type))
        same &= equal.fill_null(False).to_numpy(zero_copy_only=False)
    return np.flatnonzero(same)
