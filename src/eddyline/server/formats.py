"""Rows as they travel: JSON lines, CSV and Arrow IPC, in requests and answers."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

import pyarrow as pa
import pyarrow.csv as pacsv

from eddyline.core.errors import JobError, quoted
from eddyline.core.overload import WEIGHT
from eddyline.io.conform import declared_columns
from eddyline.io.csv import CsvStream
from eddyline.io.jsonl import JsonLinesStream
from eddyline.io.memory import memory_source
from eddyline.io.render import csv_ready, json_lines
from eddyline.io.source import BATCH_ROWS, Source, SourceBatch

JSON_LINES, CSV, ARROW = "application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream"
TYPES: Final = {
    JSON_LINES: "jsonl",
    "application/jsonl": "jsonl",
    "application/json": "json",
    CSV: "csv",
    ARROW: "arrow",
}
NAMES: Final = re.compile(rb'"([^"\\]{1,200})"\s*:')  # of fields, as they are written
ALIKE: Final = 0.75  # of two names, one of which may be the other misspelt: a letter of four differs
ANSWERS: Final = {"jsonl": JSON_LINES, "csv": CSV, "arrow": ARROW}


class Parsed:
    """Rows that were read as a whole, with the malformed ones: a push takes all of them or none."""

    finite = True

    def __init__(self, schema: pa.Schema, batches: Sequence[SourceBatch]) -> None:
        self.schema, self._batches = schema, batches
        self.count = sum(b.rows.num_rows for b in batches)
        self.invalid = sum(len(b.invalid) for b in batches)

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        return iter(self._batches)

    def without(self, timestamp: str | None) -> int:
        """Rows whose timestamp is NULL: they are read, and are invalid all the same."""
        return sum(b.rows.column(timestamp).null_count for b in self._batches) if timestamp is not None else 0

    def reason(self) -> str | None:
        """Why the first of the malformed rows is one."""
        return next((row.reason for b in self._batches for row in b.invalid), None)


def parsed(body: bytes, kind: str, schema: pa.Schema) -> Parsed:
    """The rows of a request for a stream with this schema.

    >>> schema = pa.schema({"ts": pa.int64(), "a": pa.string()})
    >>> rows = parsed(b'{"ts": 1, "a": "x"}\\n{"ts": "late"}\\n', "application/x-ndjson", schema)
    >>> rows.count, rows.invalid
    (1, 1)
    """
    wanted = pa.schema([f for f in schema if f.name != WEIGHT])
    form = TYPES.get(kind.partition(";")[0].strip().lower())
    if form is None:
        raise JobError(f"rows come as {', '.join(TYPES)}, not as {quoted(kind)}.")
    if not body.strip():
        return Parsed(wanted, [])
    source: Source
    if form == "arrow":
        source = _arrow(body, wanted)
    elif form == "csv":
        source = CsvStream(io.BytesIO(body), "the body", wanted)
    elif form == "json":
        source = _json(body, wanted)
    else:
        source = _json_lines(body, wanted)
    return Parsed(wanted, [_as_declared(b, wanted.names) for b in source.open()])


def _as_declared(batch: SourceBatch, names: Sequence[str]) -> SourceBatch:
    """The same rows, with columns called as they were declared (CQL ignores case)."""
    declared = {n.lower(): n for n in names}
    called = [declared.get(n.lower(), n) for n in batch.rows.schema.names]
    return batch if called == batch.rows.schema.names else replace(batch, rows=batch.rows.rename_columns(called))


def _spelt(body: bytes, names: Sequence[str]) -> bytes:
    """JSON lines whose fields are spelt as the columns are declared: CQL ignores case, the parser does not.

    Names are replaced where they stand, so that numbers stay as they were written. Within a text a quote is escaped,
    so what looks like a field there is none.

    >>> _spelt(rb'{"TS": 1, "Note": "\\"TS\\": 2"}', ["ts"]) == rb'{"ts": 1, "Note": "\\"TS\\": 2"}'
    True
    """
    written = {n.lower(): json.dumps(n, ensure_ascii=False).encode() for n in names}
    folded = body.lower()
    if all(folded.count(w.lower()) == body.count(w) for w in written.values()):
        return body

    def rename(field: re.Match[bytes]) -> bytes:
        name = field[1].decode(errors="replace").lower()
        return written[name] + b":" if name in written else field[0]

    return NAMES.sub(rename, body)


def _check_names(body: bytes, wanted: pa.Schema) -> None:
    """Refuse a row with a field that looks like a column which the row lacks: a misspelt name would make the column
    NULL in silence. Other fields that the stream does not have are left out, as documented.

    >>> _check_names(b'{"ts": 1, "size": 5}\\n{"ts": 1, "sise": 5, "note": "x"}', pa.schema({"size": pa.int64()}))
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: row 2 has a field 'sise' and none called 'size'. Did you mean 'size'? ...
    """
    columns = {f.name.lower() for f in wanted}
    folded = body.lower()
    lines = folded.splitlines()
    for column in wanted.names:
        written = json.dumps(column.lower(), ensure_ascii=False).encode()
        if folded.count(written) >= len(lines):
            continue
        without = [n for n, line in enumerate(lines) if written not in line]
        found = set(NAMES.findall(b"\n".join(lines[n] for n in without)))
        for name in sorted(n.decode(errors="replace") for n in found - {c.encode() for c in columns}):
            row = _row_with(name, lines, without) if get_close_matches(name, [column.lower()], 1, ALIKE) else None
            if row is not None:
                raise JobError(
                    f"row {row + 1} has a field {quoted(name)} and none called {column!r}. Did you mean {column!r}?"
                    " Nothing was taken."
                )


def _row_with(name: str, lines: list[bytes], numbers: list[int]) -> int | None:
    """The first of these rows that has a field of this name: the text may occur within a value, too."""
    for n in numbers:
        if name.encode() in lines[n]:
            try:
                if name in json.loads(lines[n]):
                    return n
            except (ValueError, RecursionError):
                pass  # a malformed row is none that is taken
    return None


def _arrow(body: bytes, wanted: pa.Schema) -> Source:
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise JobError(f"the body is no Arrow IPC stream: {error}.") from error
    declared_columns(wanted, table.column_names, "the body")
    return memory_source(table, wanted)


def _json(body: bytes, wanted: pa.Schema) -> Source:
    """Rows as JSON lines: they mean the same in either form, missing columns and misspelt names included."""
    try:
        rows = json.loads(body)
        lines = [_line(row) for row in (rows if isinstance(rows, list) else [rows])]
    except (ValueError, RecursionError) as error:
        raise JobError(f"the body is no JSON: {error}.") from None
    return _json_lines(b"\n".join(lines), wanted) if lines else Parsed(wanted, [])


def _line(row: object) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a character; as an escape it is read as it came
        return json.dumps(row).encode()


def _json_lines(body: bytes, wanted: pa.Schema) -> Source:
    body = _spelt(body, wanted.names)
    _check_names(body, wanted)
    return JsonLinesStream(io.BytesIO(body), "the body", wanted, exact=True)


def rendered(rows: Sequence[pa.RecordBatch], schema: pa.Schema, form: str) -> bytes:
    """Results in one of the three forms."""
    table = pa.Table.from_batches(list(rows), schema)
    if form == "jsonl":
        return json_lines(table).encode()
    sink = pa.BufferOutputStream()
    if form == "csv":
        pacsv.write_csv(csv_ready(table), sink)
    else:
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_table(table)
    return bytes(sink.getvalue())


def accepted(accept: str, form: str | None) -> str:
    """The form of an answer: as asked for in the address, else by the header, else JSON lines."""
    if form is not None:
        if form not in ANSWERS:
            raise JobError(f"results come as {', '.join(ANSWERS)}, not as {quoted(form)}.")
        return form
    for part in accept.split(","):
        kind = TYPES.get(part.partition(";")[0].strip().lower())
        if kind is not None:
            return "jsonl" if kind == "json" else kind
    return "jsonl"
