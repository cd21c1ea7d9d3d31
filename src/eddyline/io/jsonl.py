"""JSON lines: one object a line, plain or compressed.

A missing field is NULL, an unknown one is ignored, a wrong type makes the row invalid. Declared columns are matched
without regard to case, and a warning names those that the first objects lack. Arrow parses whole blocks; only lines
that Arrow refuses are parsed one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.json as pajson

from eddyline.core.errors import DataError, EddylineError, JobError, did_you_mean
from eddyline.expr.types import DOUBLE, NULL, STRING, is_decimal, is_float, is_integer, normalise, type_name
from eddyline.io.ahead import ahead
from eddyline.io.conform import engine_schema, fit
from eddyline.io.infer import UTC_TIMES, infer
from eddyline.io.nested import flat_batch, nested_schema, path_field, path_of, value_at, wrapped
from eddyline.io.source import BATCH_ROWS, InvalidRow, SourceBatch, dealt, pruned, shorten
from eddyline.io.text import Block, blocks, open_text, reader, utf16
from eddyline.io.text_files import TextFiles

SAMPLE_BYTES: Final = 1 << 18  # read at the start of a file to find its types
LINES_PER_RETRY: Final = 512  # of a refused block; only the parts that Arrow refuses again are parsed line by line


class JsonLinesSource(TextFiles):
    """Files of JSON lines in the given order; the first one with rows gives the schema unless one is declared."""

    def __init__(
        self, paths: Sequence[Path], schema: pa.Schema | None = None, *, sample: int = SAMPLE_BYTES, read_ahead: int = 2
    ) -> None:
        super().__init__(paths, read_ahead)
        self.notes: tuple[str, ...] = ()
        found = None
        if schema is not None:
            found, self.notes = spelled(schema, self.paths, sample)
        for path in self.paths if found is None else ():
            with open_text(path) as stream:
                found = learn(reader(stream, path.name), path.name, sample)
            if found is not None:
                break
        if found is None:
            raise JobError(_empty(self.paths[0].name))
        self.schema = engine_schema(found, self.paths[0].name)
        self.parser: JsonParser = JsonParser(self.schema)


class JsonLinesStream:
    """JSON lines from one open stream that cannot be read twice (standard input). ``exact``: its fields are spelt as
    the columns of ``schema`` are."""

    finite = False

    def __init__(self, stream: BinaryIO, name: str, schema: pa.Schema | None = None, *, exact: bool = False) -> None:
        read, seen = reader(stream, name, live=True), list[bytes]()

        def remember(size: int) -> bytes:
            seen.append(read(size))
            return seen[-1]

        found = schema if schema is not None else learn(remember, name, SAMPLE_BYTES)
        if found is None:
            raise JobError(_empty(name))
        self.schema = engine_schema(found, name)
        self._exact, self._name = exact or schema is None, name
        self._remember = remember
        self._replay: Callable[[int], bytes] = lambda size: seen.pop(0) if seen else read(size)

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        return ahead(self._rows(pruned(self.schema, columns), batch_rows))

    def _rows(self, columns: list[str], batch_rows: int) -> Iterator[SourceBatch]:
        came = self._as_they_come()
        spelt = dict(zip(self.schema.names, came.names, strict=True))
        for batch in JsonParser(came).read(self._replay, self._name, [spelt[c] for c in columns], batch_rows):
            yield batch if came is self.schema else replace(batch, rows=batch.rows.rename_columns(columns))

    def _as_they_come(self) -> pa.Schema:
        """The columns as the first objects spell them. Where they were declared nothing is read before the rows are
        asked for: a slow producer's first row may be far away."""
        rows = [] if self._exact else _first_objects(self._remember, SAMPLE_BYTES)
        found = engine_schema(_matched(self.schema, rows, self._name)[0], self._name) if rows else self.schema
        return self.schema if found.names == self.schema.names else found


def learn(read: Callable[[int], bytes], place: str, sample: int = SAMPLE_BYTES) -> pa.Schema | None:
    """The fields of the first rows in order of appearance, with types that most of their values have.

    Fields of objects inside a row are columns of their own, named by their path.

    >>> import io
    >>> learn(io.BytesIO(b'{"ts": 1, "v": 2}\\n{"ts": 2, "v": 2.5, "w": "x"}\\n').read, "t").types
    [DataType(int64), DataType(double), DataType(string)]
    >>> learn(io.BytesIO(b'{"ts": 1, "user": {"id": 7}}\\n').read, "t").names
    ['ts', 'user.id']
    """
    values: dict[tuple[str, ...], list[Any]] = {}
    for row in _first_objects(read, sample):
        for path, value in _leaves(row, ()):
            values.setdefault(path, []).append(value)
    types = {p: _type_of(values[p]) for p in _scalars(values)}
    fields = [path_field(p, t) if len(p) > 1 else pa.field(p[0], t) for p, t in types.items() if t is not None]
    return pa.schema(fields) if values else None


def _leaves(row: dict[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _scalars(values: Mapping[tuple[str, ...], list[Any]]) -> list[tuple[str, ...]]:
    """The paths that are columns. One that is a value in some rows and a structure in others is what it is in most;
    the others are malformed rows."""
    values = dict(values)
    for path in sorted(values, key=len):
        below = [p for p in values if p[: len(path)] == path and p != path]
        if path in values and below:
            own = sum(v is not None for v in values[path])
            gone = below if own > max(len(values[p]) for p in below) else [path]
            values = {p: v for p, v in values.items() if p not in gone}
    return list(values)


def _first_objects(read: Callable[[int], bytes], sample: int) -> list[dict[str, Any]]:
    """The objects of the first block that has some with fields."""
    for block in blocks(read, quote=None, size=sample):
        rows = [row for line in block.data.splitlines() if (row := _object(line)) is not None]
        if any(rows):
            return rows
    return []


def spelled(
    declared: pa.Schema, paths: Sequence[Path], sample: int = SAMPLE_BYTES
) -> tuple[pa.Schema, tuple[str, ...]]:
    """The declared columns as the first objects spell them (CQL ignores case), and a sentence for each
    that none of them has: it may come later, but more often its name is misspelt."""
    for path in paths:
        try:
            if not path.is_file():  # what a pipe gave cannot be read again
                continue
            with open_text(path) as stream:
                rows = _first_objects(reader(stream, path.name), sample)
        except EddylineError:
            break  # reading the rows reports the same
        if rows:
            return _matched(declared, rows, path.name)
    return declared, ()


def _matched(declared: pa.Schema, rows: list[dict[str, Any]], place: str) -> tuple[pa.Schema, tuple[str, ...]]:
    """
    >>> declared = pa.schema([("TS", pa.int64()), ("sped", pa.int64())])
    >>> schema, notes = _matched(declared, [{"ts": 1, "speed": 2}], "a.jsonl")
    >>> schema.names, notes
    (['ts', 'sped'],
     ("a.jsonl: the only object has no field 'sped', so this column is NULL. Did you mean 'speed'?",))
    """
    keys = list(dict.fromkeys(key for row in rows for key in row))
    paths = {".".join(p): p for row in rows for p, _ in _leaves(row, ()) if len(p) > 1}
    fields, notes = [], []
    for f in declared:
        inside = [p for n, p in paths.items() if f.name not in keys and n.lower() == f.name.lower()]
        if inside:
            fields.append(path_field(inside[0], f.type))
            continue
        same = [f.name] if f.name in keys else [k for k in keys if k.lower() == f.name.lower()]
        fields.append(f.with_name(same[0]) if len(same) == 1 else f)
        if not same:
            which = "the only object has no" if len(rows) == 1 else f"none of the first {len(rows):,} objects has a"
            notes.append(f"{place}: {which} field {f.name!r}, so this column is NULL.{did_you_mean(f.name, keys)}")
    return pa.schema(fields), tuple(notes)


def _type_of(values: list[Any]) -> pa.DataType | None:
    """Kinds of values are counted: a few strays among numbers are malformed rows, not a reason to read texts."""
    known = [v for v in values if v is not None]
    if not known:
        return pa.string()
    kinds: dict[type[Any], int] = {}
    for v in known:
        kinds[type(v)] = kinds.get(type(v), 0) + 1
    if kinds.get(int) and kinds.get(float):
        kinds[float] += kinds.pop(int)
    best = max(kinds, key=lambda k: kinds[k])
    if best is list:
        element = _type_of([x for v in known if isinstance(v, list) for x in v])
        return None if element is None or pa.types.is_nested(element) else pa.list_(element)
    if best is int:
        small = all(-(1 << 63) <= v < 1 << 63 for v in known if type(v) is int)
        return pa.int64() if small else pa.float64()
    if best is str:
        texts = pa.array([v for v in known if isinstance(v, str)], pa.string())
        return normalise(infer(texts, candidates=UTC_TIMES))
    scalars: dict[type[Any], pa.DataType] = {float: pa.float64(), bool: pa.bool_()}
    return scalars.get(best)


@dataclass(frozen=True, slots=True)
class _Part:
    table: pa.Table
    invalid: list[InvalidRow]


class JsonParser:
    """Turns bytes into batches of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        # Arrow's JSON reader has no texts for dates, bytes and intervals: those are read as texts and cast.
        self._read_as = nested_schema(
            pa.schema([f if _native(f.type) else f.with_type(_text_of(f.type)) for f in schema])
        )

    def read(
        self, read: Callable[[int], bytes], place: str, columns: list[str], batch_rows: int, *, line: int = 1
    ) -> Iterator[SourceBatch]:
        """The rows of a file, or of a stretch of whole lines that begins at ``line``."""
        wanted = pa.schema([self.schema.field(c) for c in columns])
        for block in blocks(read, quote=None, line=line):
            if block.line == 1 and (wrong := utf16(block.data, place)) is not None:
                raise DataError(wrong)
            parts = [self._fast(block.data)]
            if parts[0] is None:
                parts = list(self._stretches(block, place))
            found = [p for p in parts if p is not None]
            table = pa.concat_tables([p.table for p in found]).select(columns).cast(wanted).combine_chunks()
            starts = np.cumsum([0, *(p.table.num_rows for p in found)])
            invalid = [
                replace(row, before=int(at) + row.before)
                for p, at in zip(found, starts[:-1], strict=True)
                for row in p.invalid
            ]
            batches = table.to_batches(max_chunksize=batch_rows) or [pa.RecordBatch.from_pylist([], schema=wanted)]
            yield from dealt(batches, invalid)

    def _fast(self, data: bytes) -> _Part | None:
        if not data.strip():
            return _Part(self.schema.empty_table(), [])
        objects = _objects(data)
        if objects < 0:  # asked first: a NULL that stands before all objects would end the process in Arrow's reader
            return None
        try:
            table = pajson.read_json(
                pa.BufferReader(data),
                read_options=pajson.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=pajson.ParseOptions(explicit_schema=self._read_as, unexpected_field_behavior="ignore"),
            )
            table.validate(full=True)  # the reader does not check UTF-8
        except pa.ArrowInvalid:
            return None
        if len(table) != objects:
            return None
        arrays = []
        whole = flat_batch(table.combine_chunks().to_batches()[0])
        for f in self.schema:
            array, failed = fit(whole.column(f.name), f.type)
            if len(failed):
                return None
            arrays.append(array)
        return _Part(pa.table(arrays, schema=self.schema), [])

    def _stretches(self, block: Block, place: str) -> Iterator[_Part]:
        lines = block.data.split(b"\n")[:-1]
        for start in range(0, len(lines), LINES_PER_RETRY):
            some = lines[start : start + LINES_PER_RETRY]
            part = self._fast(b"\n".join(some) + b"\n")
            yield part if part is not None else self._line_by_line(some, block.line + start, place)

    def line(self, read: Callable[[int], bytes], place: str, record: int) -> int:
        """The line of a record; records are the lines that are not blank, counted from 0.

        >>> import io
        >>> JsonParser(pa.schema([])).line(io.BytesIO(b'{"a": 1}\\n\\n{"a": 2}\\n').read, "t", 1)
        3
        """
        for block in blocks(read, quote=None):
            for number, line in enumerate(block.data.split(b"\n")[:-1], block.line):
                if line.strip():
                    if record == 0:
                        return number
                    record -= 1
        raise DataError(f"{place} has fewer records than it had.")

    def _line_by_line(self, lines: list[bytes], first: int, place: str) -> _Part:
        numbered = [(n, line) for n, line in enumerate(lines, first) if line.strip()]
        reasons: dict[int, str] = {}
        # The kinds of values find nearly all faults and cost little; Arrow, which decides, is called line by
        # line only where that did not suffice (a number out of range, a text that is no time, a field twice).
        for judge in (self._wrong_kind, self._refused):
            reasons |= {n: why for n, line in numbered if n not in reasons and (why := judge(line)) is not None}
            part = self._fast(b"".join(line + b"\n" for n, line in numbered if n not in reasons))
            if part is not None:
                break
        else:  # pragma: no cover - every line passed alone
            raise DataError(f"{place} cannot be read as JSON lines near line {first}.")
        invalid, good = list[InvalidRow](), 0
        for n, line in numbered:
            if n in reasons:
                text = line.decode(errors="replace").strip()
                invalid.append(InvalidRow(f"{place}, line {n}: {reasons[n]}", text, before=good))
            elif line.strip():
                good += 1
        return _Part(part.table, invalid)

    def _wrong_kind(self, line: bytes) -> str | None:
        row = _object(line)
        if row is None:
            return "not a JSON object"
        for f in self.schema:
            value = value_at(row, path_of(f))
            if value is not None and not _fits(value, f.type):
                return _not_a(f, value)
        return None

    def _refused(self, line: bytes) -> str | None:
        if self._fast(line + b"\n") is not None:
            return None
        row = _object(line) or {}
        for f in self.schema:
            value = value_at(row, path_of(f))
            alone = json.dumps(wrapped(path_of(f), value)).encode() + b"\n"
            if JsonParser(pa.schema([f]))._fast(alone) is None:
                return _not_a(f, value)
        return "more than one object, or one in which a field stands twice"


def _not_a(field: pa.Field, value: Any) -> str:
    shown = shorten(value if isinstance(value, str) else json.dumps(value), 60)
    shown = shown if isinstance(value, str) else shown[1:-1]
    return f"field {field.name!r}: {shown} is not a value of type {type_name(field.type)}"


def _objects(data: bytes) -> int:
    """The number of lines that may be objects, -1 if some cannot.

    Arrow would also read an object that is spread over lines, or two on one line; whether it sees all of it depends on
    where the block ends, so neither is a row. Where every line starts with "{" and ends with "}" none is spread, and
    then two on one line show in their number.

    >>> _objects(b'{"a": 1}\\n\\n{"a": 2}\\n'), _objects(b'{"a":\\n 1}\\n')
    (2, -1)
    """
    codes = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(codes == ord("\n"))
    starts = ends[:-1] + 1
    if codes[0] == ord("{") and (codes[starts] == ord("{")).all() and (codes[ends - 1] == ord("}")).all():
        return len(ends)
    lines = [line for line in map(bytes.strip, data.split(b"\n")) if line]
    return len(lines) if all(line[:1] == b"{" and line[-1:] == b"}" for line in lines) else -1


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _native(t: pa.DataType) -> bool:
    if pa.types.is_list(t):
        return _native(t.value_type)
    return bool(pa.types.is_boolean(t) or is_integer(t) or is_float(t) or t in (STRING, NULL) or _timed(t))


def _text_of(t: pa.DataType) -> pa.DataType:
    return pa.list_(pa.string()) if pa.types.is_list(t) else pa.string()


def _timed(t: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(t) or is_decimal(t))


def _fits(value: Any, t: pa.DataType) -> bool:
    """The kind of a JSON value against a type; the range is Arrow's business."""
    if pa.types.is_list(t):
        return isinstance(value, list) and all(x is None or _fits(x, t.value_type) for x in value)
    if isinstance(value, bool):
        return bool(pa.types.is_boolean(t))
    if isinstance(value, int):
        return is_integer(t) or is_float(t) or is_decimal(t)
    if isinstance(value, float):
        return is_float(t) or is_decimal(t) or t == DOUBLE
    return isinstance(value, str) and not (is_integer(t) or is_float(t) or pa.types.is_boolean(t))


def _empty(name: str) -> str:
    return f"{name} holds no JSON object, so its columns are unknown: declare them, or give it a row."
