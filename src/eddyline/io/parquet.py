"""Parquet files: only the columns that the query reads are decoded, by several threads, ahead of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eddyline.core.errors import DataError, JobError
from eddyline.io.ahead import ahead
from eddyline.io.conform import conform, declared_columns, engine_schema
from eddyline.io.nested import flat_batch, flat_schema
from eddyline.io.source import BATCH_ROWS, SourceBatch, pruned

# Bytes of a value in the file up to which a column is a dictionary: a plain string takes at least 4, an index of 65,536
# distinct ones 2.
MAX_BYTES_PER_CODE = 2.5
MAX_DICTIONARY_VALUES = 1 << 16  # of a column that is read as a dictionary: more saves decoding and takes memory
ROW_GROUPS_JUDGED = 16  # whose statistics decide whether a column is read as a dictionary


class ParquetSource:
    """Parquet files in the given order. The first file gives the schema unless one is declared.

    Parameters
    ----------
    dictionary
        Hand strings over dictionary-encoded: reading, keeping and grouping them gets cheaper the fewer distinct ones
        there are. None does it for the columns that the file stores so to good effect.
    read_ahead
        Batches decoded in advance; 0 decodes in the caller's thread.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        schema: pa.Schema | None = None,
        *,
        dictionary: bool | None = None,
        read_ahead: int = 4,
    ) -> None:
        self.paths, self.dictionary, self.read_ahead = tuple(paths), dictionary, read_ahead
        self.finite = True
        with open_parquet(self.paths[0]) as first:
            found = flat_schema(first.schema_arrow)
        if schema is not None:
            schema = declared_columns(schema, found.names, self.paths[0].name)
        self.schema = engine_schema(schema if schema is not None else found, self.paths[0].name)

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        return ahead(self._decode(pruned(self.schema, columns), batch_rows), self.read_ahead)

    def open_file(self, path: Path, columns: list[str], batch_rows: int) -> Iterator[SourceBatch]:
        return self._file(path, pa.schema([self.schema.field(c) for c in columns]), batch_rows, [], None)

    def place(self, path: Path, record: int) -> str:
        return f"{path.name}, row {record + 1}"

    def _decode(self, columns: Sequence[str], batch_rows: int) -> Iterator[SourceBatch]:
        wanted = pa.schema([self.schema.field(c) for c in columns])
        strings = [f.name for f in wanted if pa.types.is_string(f.type)] if self.dictionary is not False else []
        dictionaries = Dictionaries()
        for path in self.paths:
            encoded = strings
            if strings and self.dictionary is None:
                with open_parquet(path) as file:
                    encoded = [name for name in strings if stored_short(file.metadata, name)]
            yield from self._file(path, wanted, batch_rows, encoded, dictionaries if encoded else None)

    def _file(
        self, path: Path, wanted: pa.Schema, batch_rows: int, encoded: list[str], dictionaries: Dictionaries | None
    ) -> Iterator[SourceBatch]:
        with open_parquet(path, encoded) as file:
            declared_columns(wanted, flat_schema(file.schema_arrow).names, path.name)
            row = 1
            try:
                for batch in file.iter_batches(batch_rows, columns=wanted.names, use_threads=True):
                    # Parquet returns the file's order of columns, not the asked one.
                    got = conform(flat_batch(batch).select(wanted.names), wanted, path.name, row)
                    row += batch.num_rows
                    yield got if dictionaries is None else SourceBatch(dictionaries.unified(got.rows), got.invalid)
            except (pa.ArrowException, OSError) as error:
                raise damaged(path, error) from error


def open_parquet(path: Path, dictionary: Sequence[str] = ()) -> pq.ParquetFile:
    """The file, with these columns handed over as it stores them, in dictionaries."""
    try:
        return pq.ParquetFile(path, read_dictionary=list(dictionary), pre_buffer=False)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: a damaged name of a column
        if path.stat().st_size == 0:
            raise JobError(f"{path.name} is empty (0 bytes), so it is not a Parquet file.") from error
        raise JobError(f"{path.name} is not a readable Parquet file: {_first_line(error)}") from error


def damaged(path: Path, error: BaseException) -> DataError:
    return DataError(f"{path.name} is damaged: {_first_line(error)}")


class Dictionaries:
    """Every row group has a dictionary of its own. Rewritten to one that only grows, columns of different row groups
    can be put together without decoding them.

    >>> d = Dictionaries()
    >>> for values in (["a", "b"], ["b", "a", "c"]):
    ...     batch = d.unified(pa.record_batch({"s": pa.array(values).dictionary_encode()}))
    ...     print(batch["s"].dictionary.to_pylist(), batch["s"].to_pylist())
    ['a', 'b'] ['a', 'b']
    ['a', 'b', 'c'] ['b', 'a', 'c']
    """

    def __init__(self) -> None:
        self._known: dict[str, pa.Array] = {}

    def unified(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            self._rewrite(name, column) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _rewrite(self, name: str, column: pa.DictionaryArray) -> pa.DictionaryArray:
        values = column.dictionary
        known = self._known.get(name)
        if known is None or values.equals(known):
            self._known[name] = values
            return column
        place = pc.index_in(values, known)
        if place.null_count:
            known = pa.concat_arrays([known, values.filter(place.is_null())])
            if len(known) > MAX_DICTIONARY_VALUES:
                self._known[name] = values
                return column
            self._known[name] = known
            place = pc.index_in(values, known)
        return pa.DictionaryArray.from_arrays(place.take(column.indices), known)


def stored_short(metadata: pq.FileMetaData, name: str) -> bool:
    """Whether a column of strings is stored as indexes into few distinct ones."""
    names = metadata.schema.names
    if name not in names:
        return False
    place = names.index(name)
    values = size = 0
    for i in range(0, metadata.num_row_groups, max(1, metadata.num_row_groups // ROW_GROUPS_JUDGED)):
        chunk = metadata.row_group(i).column(place)
        if chunk.physical_type != "BYTE_ARRAY" or not chunk.has_dictionary_page or chunk.path_in_schema != name:
            return False
        values, size = values + chunk.num_values, size + chunk.total_uncompressed_size
    return values > 0 and size < MAX_BYTES_PER_CODE * values


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines()[0] if str(error) else type(error).__name__).rstrip(".") + "."
