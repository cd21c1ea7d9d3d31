"""Text files that are read one after the other: the base of the sources for CSV and for JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from eddyline.io.ahead import ahead
from eddyline.io.source import BATCH_ROWS, SourceBatch, pruned
from eddyline.io.text import open_text, reader


class Parser(Protocol):
    """Turns the bytes of a file into batches."""

    def read(
        self, read: Callable[[int], bytes], place: str, columns: list[str], batch_rows: int
    ) -> Iterator[SourceBatch]: ...

    def line(self, read: Callable[[int], bytes], place: str, record: int) -> int:
        """The line at which a record begins; records are counted from 0."""
        ...


class TextFiles:
    """Reads ``paths`` in their order, so many batches ahead; a subclass sets ``schema`` and ``parser``."""

    finite = True
    schema: pa.Schema
    parser: Parser

    def __init__(self, paths: Sequence[Path], read_ahead: int) -> None:
        self.paths, self.read_ahead = tuple(paths), read_ahead

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        return ahead(self._read(pruned(self.schema, columns), batch_rows), self.read_ahead)

    def _read(self, columns: list[str], batch_rows: int) -> Iterator[SourceBatch]:
        for path in self.paths:
            yield from self.open_file(path, columns, batch_rows)

    def open_file(self, path: Path, columns: list[str], batch_rows: int) -> Iterator[SourceBatch]:
        with open_text(path) as stream:
            yield from self.parser.read(reader(stream, path.name), path.name, columns, batch_rows)

    def place(self, path: Path, record: int) -> str:
        """Where a record stands, in words."""
        with open_text(path) as stream:
            return f"{path.name}, line {self.parser.line(reader(stream, path.name), path.name, record)}"
