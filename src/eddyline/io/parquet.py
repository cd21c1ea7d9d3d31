"""Parquet files: only the columns that the query reads are decoded, by several threads, ahead of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.core.errors import DataError, JobError
from eddyline.io.ahead import ahead
from eddyline.io.conform import conform, declared_columns, engine_schema
from eddyline.io.source import BATCH_ROWS, SourceBatch, pruned


class ParquetSource:
    """Parquet files in the given order. The first file gives the schema unless one is declared.

    Parameters
    ----------
    dictionary
        Hand strings over dictionary-encoded where the file stores them so: grouping and joining by them gets cheaper,
        passing them through dearer.
    read_ahead
        Batches decoded in advance; 0 decodes in the caller's thread.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        schema: pa.Schema | None = None,
        *,
        dictionary: bool = False,
        read_ahead: int = 4,
    ) -> None:
        self.paths, self.dictionary, self.read_ahead = tuple(paths), dictionary, read_ahead
        self.finite = True
        with self._file(self.paths[0]) as first:
            found = first.schema_arrow
        if schema is not None:
            schema = declared_columns(schema, found.names, self.paths[0].name)
        self.schema = engine_schema(schema if schema is not None else found, self.paths[0].name)

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        wanted = pa.schema([self.schema.field(c) for c in pruned(self.schema, columns)])
        return ahead(self._decode(wanted, batch_rows), self.read_ahead)

    def _decode(self, wanted: pa.Schema, batch_rows: int) -> Iterator[SourceBatch]:
        strings = [f.name for f in wanted if pa.types.is_string(f.type)] if self.dictionary else []
        for path in self.paths:
            with self._file(path, strings) as file:
                declared_columns(wanted, file.schema_arrow.names, path.name)
                try:
                    for batch in file.iter_batches(batch_rows, columns=wanted.names, use_threads=True):
                        # Parquet returns the file's order of columns, not the asked one.
                        yield conform(batch.select(wanted.names), wanted, path.name)
                except (pa.ArrowException, OSError) as error:
                    raise DataError(f"{path.name} is damaged: {_first_line(error)}") from error

    def _file(self, path: Path, dictionary: Sequence[str] = ()) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(path, read_dictionary=list(dictionary), pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            if path.stat().st_size == 0:
                raise JobError(f"{path.name} is empty (0 bytes), so it is not a Parquet file.") from error
            raise JobError(f"{path.name} is not a readable Parquet file: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
