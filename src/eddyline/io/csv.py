"""CSV files, plain or compressed.

Arrow parses whole blocks with all threads. A block that holds a malformed row is read a second time, as texts, to find
which rows they are; the good rows of such a block count like any other. The slow way accepts everything that the fast
way accepts, so the result never shows which of the two ran.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from eddyline.core.errors import DataError, JobError, clipped
from eddyline.expr.types import normalise, type_name
from eddyline.io.ahead import ahead
from eddyline.io.conform import cast, declared_columns, engine_schema, fit
from eddyline.io.infer import infer, parse_type_for
from eddyline.io.source import BATCH_ROWS, InvalidRow, SourceBatch, dealt, pruned, shorten
from eddyline.io.text import BLOCK_BYTES, Block, Int64s, blocks, open_text, reader, record_ends, utf16
from eddyline.io.text_files import TextFiles

LONE_RETURN: Final = re.compile(rb"\r(?!\n)")
SAMPLE_BYTES: Final = 1 << 18  # read at the start of a file to find its types


@dataclass(frozen=True, slots=True)
class Dialect:
    """``null`` are the texts that mean NULL when they stand unquoted; the empty one always does."""

    delimiter: str = ","
    quote: str | None = '"'
    header: bool = True
    null: tuple[str, ...] = ("",)

    @property
    def quote_bytes(self) -> bytes | None:
        return self.quote.encode() if self.quote else None

    def fields(self, line: str) -> list[str]:
        if self.quote is None:
            return line.split(self.delimiter)
        return next(csv.reader([line], delimiter=self.delimiter, quotechar=self.quote), [])


@dataclass(frozen=True, slots=True)
class Layout:
    """How the fields of a file become columns: names as they stand in the file, and parse types of those declared."""

    names: tuple[str, ...]
    parse: Mapping[str, pa.DataType]


@dataclass(frozen=True, slots=True)
class Header:
    """The names of the columns, and how many bytes (a byte order mark aside) and lines come before the first record."""

    names: tuple[str, ...]
    length: int
    lines: int


class CsvSource(TextFiles):
    """CSV files in the given order. The first file that is not empty gives names and types unless they are declared.

    >>> from eddyline.io.resolve import open_source
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "calls.csv").write_text("ts,who\\n1,ann\\n2\\n3,bob\\n")
    ...     source = open_source("calls.csv", Path(folder))
    ...     (batch,) = source.open()
    >>> batch.rows.to_pydict()
    {'ts': [1, 3], 'who': ['ann', 'bob']}
    >>> batch.invalid
    [InvalidRow(reason='calls.csv, line 3: 1 field instead of 2', row='2')]
    """

    def __init__(
        self,
        paths: Sequence[Path],
        schema: pa.Schema | None = None,
        *,
        dialect: Dialect | None = None,
        sample: int = SAMPLE_BYTES,
        read_ahead: int = 2,
    ) -> None:
        super().__init__(paths, read_ahead)
        self.dialect = dialect or Dialect()
        self.parser: CsvParser = CsvParser(self.dialect, schema, sample)
        for path in self.paths:
            with open_text(path) as stream:
                if self.parser.learn(reader(stream, path.name), path.name):
                    break
        if not self.parser.schema.names:
            raise JobError(_empty(self.paths[0].name, self.dialect))
        self.schema = self.parser.schema


class CsvStream:
    """CSV from one open stream that cannot be read twice (standard input)."""

    finite = False

    def __init__(
        self, stream: BinaryIO, name: str, schema: pa.Schema | None = None, dialect: Dialect | None = None
    ) -> None:
        self._name, self._parser = name, CsvParser(dialect or Dialect(), schema, SAMPLE_BYTES)
        read = reader(stream, name, live=True)
        seen: list[bytes] = []

        def remember(size: int) -> bytes:
            seen.append(read(size))
            return seen[-1]

        self._parser.learn(remember, name)
        if not self._parser.schema.names:
            raise JobError(_empty(name, self._parser.dialect))
        self.schema = self._parser.schema

        def replay(size: int) -> bytes:
            return seen.pop(0) if seen else read(size)

        self._replay: Callable[[int], bytes] = replay

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        return ahead(self._parser.read(self._replay, self._name, pruned(self.schema, columns), batch_rows))


class CsvParser:
    """Turns bytes into batches, whatever file or pipe the bytes come from."""

    def __init__(self, dialect: Dialect, declared: pa.Schema | None, sample: int) -> None:
        self.dialect, self._declared, self._sample = dialect, declared, sample
        self.schema: pa.Schema = engine_schema(declared, "the declaration") if declared is not None else pa.schema([])
        self._types: dict[str, pa.DataType] = {f.name: f.type for f in self.schema}

    def learn(self, read: Callable[[int], bytes], place: str) -> bool:
        """Find names and types in the first rows; False if there are none (the header alone gives names)."""
        names: list[str] = []
        for block in self._blocks(read, self._sample):
            rest = block.data
            if not names:
                names, rest = self._header(block, place)
                if self._declared is not None:
                    self._declared = declared_columns(self._declared, names, place)
                    self.schema = engine_schema(self._declared, place)
                else:
                    # Without a row any type will do, and the type of NULL goes with every other.
                    self._set_types(names, [pa.null()] * len(names))
            if rest.strip() and not block.broken:
                texts = self._texts(Block(rest, 1, multiline=block.multiline), names, place).table
                columns = [_utf8(texts.column(n)) for n in names]
                if self._declared is None:
                    self._set_types(names, [infer(c) for c in columns])
                else:
                    declared = {f.name: f.type for f in self._declared}
                    parsed = zip(names, columns, strict=True)
                    self._types = {n: parse_type_for(c, declared[n]) for n, c in parsed if n in declared}
                return True
        return False

    def _set_types(self, names: list[str], types: list[pa.DataType]) -> None:
        self._types = dict(zip(names, types, strict=True))
        self.schema = pa.schema([(n, normalise(t)) for n, t in self._types.items()])

    def header(self, read: Callable[[int], bytes], place: str) -> Header | None:
        """What stands before the first record; None if there is nothing at all."""
        block = next(self._blocks(read, self._sample), None)
        if block is None:
            return None
        names, rest = self._header(block, place)
        return Header(tuple(names), len(block.data) - len(rest), block.data.count(b"\n") - rest.count(b"\n"))

    def read(
        self,
        read: Callable[[int], bytes],
        place: str,
        columns: list[str],
        batch_rows: int,
        *,
        names: Sequence[str] | None = None,
        line: int = 1,
    ) -> Iterator[SourceBatch]:
        """The rows of a file, or of a stretch of whole records that begins at ``line`` and whose columns have these
        ``names``."""
        layout = None if names is None else self._layout(names, place)
        for block in self._blocks(read, line=line):
            if layout is None:
                found, block = self._below_header(block, place)
                layout = self._layout(found, place)
            if block.broken:
                text = block.data.decode(errors="replace").rstrip("\r\n")
                reason = f"{place}, line {block.line}: a quoted value is never closed"
                yield SourceBatch(self._empty_rows(columns), [InvalidRow(reason, text)])
            elif block.data.strip():
                yield from self._batches(block, layout, place, columns, batch_rows)

    def line(self, read: Callable[[int], bytes], place: str, record: int) -> int:
        """The line at which a record of a file begins; records are counted from 0, malformed ones included."""
        first = True
        for block in self._blocks(read):
            if first:
                _, block = self._below_header(block, place)
                first = False
            if block.broken:
                records, count = None, 1
            elif block.data.strip():
                records = _Records(block, self.dialect)
                count = len(records)
            else:
                continue
            if record < count:
                return block.line if records is None else records.line(record)
            record -= count
        raise DataError(f"{place} has fewer records than it had.")

    def _below_header(self, block: Block, place: str) -> tuple[list[str], Block]:
        """The names of the columns, and the rest of the first block of a file."""
        found, rest = self._header(block, place)
        lines = block.data.count(b"\n") - rest.count(b"\n")  # of the header
        return found, Block(rest, block.line + lines, block.broken, block.multiline)

    def _layout(self, names: Sequence[str], place: str) -> Layout:
        declared_columns(self.schema, names, place)
        return Layout(tuple(names), {n: t for n, t in self._types.items() if n in self.schema.names})

    def _blocks(self, read: Callable[[int], bytes], size: int = BLOCK_BYTES, line: int = 1) -> Iterator[Block]:
        quote, delimiter = self.dialect.quote_bytes, self.dialect.delimiter.encode()
        yield from blocks(read, quote=quote, delimiter=delimiter, size=size, line=line)

    def _empty_rows(self, columns: Sequence[str]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=pa.schema([self.schema.field(c) for c in columns]))

    def _header(self, block: Block, place: str) -> tuple[list[str], bytes]:
        """The names of the columns, and the block without the line that gave them."""
        if (wrong := utf16(block.data, place)) is not None:
            raise JobError(wrong)
        data = block.data.lstrip(b"\r\n")
        ends = record_ends(data, self.dialect.quote_bytes, self.dialect.delimiter.encode())
        cut = int(ends[0]) if len(ends) else len(data)
        line = data[:cut].decode("utf-8", errors="replace").rstrip("\r\n")
        try:
            fields = [f.strip() for f in self.dialect.fields(line)]
        except csv.Error as error:  # a carriage return alone, a name of more than 128 kB
            raise JobError(f"the first line of {place} is no line of CSV: {error}.") from error
        if not line:
            raise JobError(_empty(place, self.dialect))
        if not self.dialect.header:
            names = list(self._declared.names) if self._declared is not None else []
            return names or [f"column{i + 1}" for i in range(len(fields))], data
        names = [f or f"column{i + 1}" for i, f in enumerate(fields)]
        for name in names:
            if names.count(name) > 1:
                raise JobError(f"{place} has more than one column named {name!r} in its header.")
        return names, data[cut:]

    def _batches(
        self, block: Block, layout: Layout, place: str, columns: list[str], batch_rows: int
    ) -> Iterator[SourceBatch]:
        table, invalid = self._fast(block, layout), list[InvalidRow]()
        if table is None:
            table, invalid = self._slow(block, layout, place)
        wanted = pa.schema([self.schema.field(c) for c in columns])
        table = pa.table([_as(table.column(c), self.schema.field(c).type) for c in columns], schema=wanted)
        whole = table.combine_chunks().to_batches(max_chunksize=batch_rows) or [self._empty_rows(columns)]
        yield from dealt(whole, invalid)

    def _fast(self, block: Block, layout: Layout) -> pa.Table | None:
        types = {n: layout.parse.get(n, pa.binary()) for n in layout.names}
        try:
            return self._arrow(block, layout.names, types, None, threads=True)
        except pa.ArrowInvalid:
            return None

    def _slow(self, block: Block, layout: Layout, place: str) -> tuple[pa.Table, list[InvalidRow]]:
        texts = self._texts(block, layout.names, place)
        table, bad = texts.table, dict(texts.bad)
        columns = {}
        for name, wanted in layout.parse.items():
            column = _single(table.column(name))
            strings, failed = fit(column, pa.string())
            for row in failed:
                bad.setdefault(int(texts.record[row]), f"column {name!r}: the text is not UTF-8")
            if wanted != pa.string():
                trimmed = pc.utf8_trim_whitespace(strings)
                trimmed = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
                strings, failed = fit(trimmed, wanted)
                for row in failed:
                    shown = shorten(trimmed[int(row)].as_py(), 60)
                    reason = f"column {name!r}: {shown} is not a value of type {type_name(normalise(wanted))}"
                    bad.setdefault(int(texts.record[row]), reason)
            columns[name] = strings
        good = pa.table(columns).filter(pa.array(~np.isin(texts.record, list(bad)))) if columns else pa.table({})
        records = _Records(block, self.dialect)
        return good, [
            InvalidRow(f"{place}, line {records.line(r)}: {bad[r]}", records.text(r), before=r - i)
            for i, r in enumerate(sorted(bad))
        ]

    def _texts(self, block: Block, names: Sequence[str], place: str) -> _Texts:
        """Every field as bytes, with the number of each row's record in the block."""
        bad: dict[int, str] = {}

        def note(row: Any) -> str:
            found, wanted = row.actual_columns, row.expected_columns
            bad[row.number - 1] = f"{found} field{'' if found == 1 else 's'} instead of {wanted}"
            return "skip"

        if not block.data.strip():
            return _Texts(pa.table({n: pa.array([], pa.binary()) for n in names}), np.empty(0, np.int64), {})
        readable, latin = _readable(block)
        try:
            table = self._arrow(readable, names, {n: pa.binary() for n in names}, note, threads=False)
        except pa.ArrowInvalid as error:
            raise DataError(f"{place} cannot be read as CSV near line {block.line}: {clipped(error)}") from error
        if latin:
            table = pa.table([_bytes_of_latin(column) for column in table.columns], names=table.column_names)
        kept = np.ones(len(table) + len(bad), np.bool_)
        kept[list(bad)] = False
        return _Texts(table, np.flatnonzero(kept), bad)

    def _arrow(
        self,
        block: Block,
        names: Sequence[str],
        types: Mapping[str, pa.DataType],
        handler: Callable[[Any], str] | None,
        threads: bool,
    ) -> pa.Table:
        data, dialect = block.data, self.dialect
        # One block in the slow way: rows are numbered, and no row is too long.
        size = 1 << 20 if threads else len(data) + 1
        return pacsv.read_csv(
            pa.BufferReader(data),
            # Nothing to share out in a single block; and a process that ends right after a read by Arrow's threads is
            # sometimes aborted by them (apache/arrow#39862).
            read_options=pacsv.ReadOptions(column_names=list(names), use_threads=len(data) > size, block_size=size),
            parse_options=pacsv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote if dialect.quote else False,
                newlines_in_values=block.multiline,
                invalid_row_handler=handler,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                null_values=list(dict.fromkeys(("", *dialect.null))),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


@dataclass(frozen=True, slots=True)
class _Texts:
    table: pa.Table
    record: Int64s  # row → number of its record in the block, empty lines not counted
    bad: Mapping[int, str]


class _Records:
    """Line number and text of the records of a block, computed when they are first read."""

    def __init__(self, block: Block, dialect: Dialect) -> None:
        self._block = block
        data = LONE_RETURN.sub(b"\n", block.data)  # which ends a record for Arrow, too
        stops = record_ends(data, dialect.quote_bytes, dialect.delimiter.encode())
        if not len(stops) or stops[-1] < len(data):
            stops = np.append(stops, len(data))  # what a quote that nothing closes leaves open is one record
        starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]])
        codes = np.frombuffer(data, np.uint8)
        # Arrow does not count empty lines ("\n" or "\r\n").
        full = (stops - starts > 2) | ((stops - starts == 2) & (codes[starts] != ord("\r")))
        self._starts, self._stops = starts[full], stops[full]
        self._newlines = np.flatnonzero(np.frombuffer(block.data, np.uint8) == ord("\n"))

    def __len__(self) -> int:
        return len(self._starts)

    def line(self, record: int) -> int:
        return self._block.line + int(np.searchsorted(self._newlines, self._starts[record]))

    def text(self, record: int) -> str:
        raw = self._block.data[self._starts[record] : self._stops[record]]
        return raw.decode(errors="replace").rstrip("\r\n")


def _readable(block: Block) -> tuple[Block, bool]:
    """The block, as Latin-1 where it is no UTF-8 (and whether it is): Arrow makes a text of each row that it passes to
    a handler, and where it cannot, it writes a traceback to standard error and gives up the whole block."""
    try:
        block.data.decode()
    except UnicodeDecodeError:
        return replace(block, data=block.data.decode("latin-1").encode()), True
    return block, False


def _bytes_of_latin(column: pa.ChunkedArray) -> pa.Array:
    """The bytes that a block had before it was read as Latin-1."""
    values = (v if v is None or v.isascii() else v.decode().encode("latin-1") for v in column.to_pylist())
    return pa.array(values, pa.binary())


def _single(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _as(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == wanted else cast(_single(column), wanted)


def _utf8(column: pa.ChunkedArray) -> pa.Array:
    return fit(_single(column), pa.string())[0]


def _empty(name: str, dialect: Dialect) -> str:
    if dialect.header:
        return f"{name} is empty: a CSV file starts with a header line that names its columns."
    return f"{name} is empty, so its columns are unknown: declare them, or give it a row."
