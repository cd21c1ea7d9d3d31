"""Sinks for results: Parquet, CSV or JSON lines by the name of the file, a table on standard output without one.

A file is written under a temporary name beside its final one and renamed when it is complete: a file with the final
name is never half a result, and a failed run does not change an earlier result.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Protocol, Self, TextIO, cast

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from eddyline.core.errors import EddylineError, JobError, did_you_mean, quoted
from eddyline.io.durable import TEMPORARY, sync
from eddyline.io.locking import try_lock
from eddyline.io.render import TablePrinter, csv_ready, json_lines
from eddyline.io.source import plain

ROWS_PER_GROUP: Final = 131_072
EXTENSIONS: Final = (".parquet", ".csv", ".jsonl", ".csv.gz", ".jsonl.gz")


class Sink(Protocol):
    """``close`` makes the result visible, ``abort`` removes it; as a context manager an error aborts."""

    rows: int
    made_folder: bool  # for its file, because there was none

    @property
    def path(self) -> Path | None:
        """The file; None where it is standard output."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_sink(
    target: str | Path | None,
    schema: pa.Schema,
    *,
    base: Path | None = None,
    stdout: TextIO | None = None,
    hold: int = 0,
) -> Sink:
    """The sink for a path, ``'-'`` (CSV on standard output) or None (a table for people on standard output, whose
    first ``hold`` rows may wait until they can be laid out together).

    >>> import io
    >>> shown = io.StringIO()
    >>> with open_sink(None, pa.schema([("a", pa.int64())]), stdout=shown) as sink:
    ...     sink.write(pa.record_batch({"a": [1]}))
    >>> print(shown.getvalue(), end="")
    a
    -
    1
    (1 row)
    """
    console = stdout if stdout is not None else sys.stdout
    if target is None:
        return _TableSink(schema, console, hold)
    if str(target) == "-":
        return _StdoutCsv(schema, console)
    path = Path(target).expanduser()
    path = path if path.is_absolute() or base is None else base / path
    write = _writer(path)
    try:
        folder = path.is_dir()
    except OSError as error:
        raise JobError(f"the result cannot be written to {quoted(path.name)}: {error.strerror}.") from error
    if folder:
        raise JobError(f"the result cannot be written to {path.name!r}: it is a directory.")
    for above in path.parents:
        if above.is_file():
            raise JobError(f"the result cannot be written to {str(path)!r}: {str(above)!r} is a file, not a directory.")
    return FileSink(path, schema, write)


class _Base:
    rows = 0
    path: Path | None = None
    made_folder = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Writer(Protocol):
    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class FileSink(_Base):
    """Collects small batches into groups, so that the file does not depend much on how results were cut."""

    def __init__(self, path: Path, schema: pa.Schema, writer: Callable[[BinaryIO, pa.Schema], Writer]) -> None:
        self.path: Path = path
        self._schema = schema
        self._temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{TEMPORARY}")
        self._pending: list[pa.RecordBatch] = []
        self._waiting = 0
        try:
            self.made_folder = not path.parent.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(path)
            self._file = self._temporary.open("wb")
            try_lock(self._file.fileno())  # says to others, while it is open, that it is no leftover
        except OSError as error:
            raise EddylineError(f"{path} cannot be written: {error.strerror}.") from error
        try:
            self._writer = writer(self._file, schema)
        except BaseException:
            self.abort()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += len(batch)
        self._pending.append(batch)
        self._waiting += len(batch)
        if self._waiting >= ROWS_PER_GROUP:
            self._flush()

    def close(self) -> None:
        try:
            self._flush()
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._temporary.replace(self.path)
            self._file.close()
            sync([self.path.parent])
        except OSError as error:
            self.abort()
            raise EddylineError(f"{self.path} cannot be written: {error.strerror or error}.") from error
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        # Left open, a Parquet writer would try to write its footer when it is collected, and complain on stderr. There
        # is no writer if making it failed.
        with contextlib.suppress(Exception):
            self._writer.close()
        self._file.close()
        self._temporary.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches([plain(b, self._schema) for b in self._pending], self._schema)
            self._pending, self._waiting = [], 0
            try:
                self._writer.write(table.combine_chunks())
            except OSError as error:
                raise EddylineError(f"{self.path} cannot be written: {error.strerror or error}.") from error


def _remove_leftovers(path: Path) -> None:
    """Remove what killed runs have left of this result: half-written files that no process has open."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]+{re.escape(TEMPORARY)}")
    for left in path.parent.glob(f".*{TEMPORARY}"):
        if name.fullmatch(left.name):
            with contextlib.suppress(OSError), left.open("rb+") as file:
                if try_lock(file.fileno()):
                    left.unlink()


class _TableSink(_Base):
    def __init__(self, schema: pa.Schema, out: TextIO, hold: int) -> None:
        self._printer = TablePrinter(schema, out, hold)

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += len(batch)
        self._printer.rows(batch)

    def close(self) -> None:
        self._printer.end(self.rows)


class _StdoutCsv(_Base):
    def __init__(self, schema: pa.Schema, out: TextIO) -> None:
        self._schema, self._out = schema, out
        self._header = True

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += len(batch)
        buffer = pa.BufferOutputStream()
        table = csv_ready(pa.Table.from_batches([plain(batch, self._schema)], self._schema))
        pacsv.write_csv(table, buffer, pacsv.WriteOptions(include_header=self._header))
        self._header = False
        self._out.write(buffer.getvalue().to_pybytes().decode())
        self._out.flush()

    def close(self) -> None:
        if self._header:  # no row at all: the header says what there would have been
            self.write(pa.RecordBatch.from_pylist([], schema=self._schema))


class _Parquet:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(file, schema, compression="zstd")

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()


class _Csv:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pacsv.CSVWriter(file, csv_ready(schema.empty_table()).schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write(csv_ready(table))

    def close(self) -> None:
        self._writer.close()


class _JsonLines:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file = file

    def write(self, table: pa.Table) -> None:
        self._file.write(json_lines(table).encode())

    def close(self) -> None:
        self._file.flush()


class _Gzip:
    def __init__(self, inner: Callable[[BinaryIO, pa.Schema], Writer], file: BinaryIO, schema: pa.Schema) -> None:
        # No name and no time in the header: equal results make equal files.
        self._zipped = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
        self._inner = inner(cast(BinaryIO, self._zipped), schema)

    def write(self, table: pa.Table) -> None:
        self._inner.write(table)

    def close(self) -> None:
        self._inner.close()
        self._zipped.close()


def _writer(path: Path) -> Callable[[BinaryIO, pa.Schema], Writer]:
    kinds: dict[str, Callable[[BinaryIO, pa.Schema], Writer]] = {
        ".parquet": _Parquet,
        ".csv": _Csv,
        ".jsonl": _JsonLines,
        ".ndjson": _JsonLines,
    }
    suffix = path.suffix.lower()
    if suffix == ".gz":
        inner = kinds.get(path.with_suffix("").suffix.lower())
        if inner is not None and inner is not _Parquet:
            return lambda file, schema: _Gzip(inner, file, schema)
    elif suffix in kinds:
        return kinds[suffix]
    raise JobError(
        f"results cannot be written to {path.name!r}: the name must end in {', '.join(EXTENSIONS)}."
        f"{did_you_mean(suffix, EXTENSIONS) if suffix else ''}"
    )
