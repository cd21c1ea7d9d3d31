"""Standard input, under the name ``'-'``: CSV unless the option ``format`` says ``jsonl``.

Rows are handed over as they come, so a live producer is answered at once. Types come from what is there when the query
starts, which for a slow producer may be a single row: declare the columns of such a stream.
"""

from __future__ import annotations

import sys
from typing import BinaryIO

import pyarrow as pa

from eddyline.core.errors import JobError, did_you_mean
from eddyline.io.csv import CsvStream, Dialect
from eddyline.io.jsonl import JsonLinesStream
from eddyline.io.source import Source

NAME = "standard input"


def stdin_source(
    format: str = "csv",
    schema: pa.Schema | None = None,
    dialect: Dialect | None = None,
    stream: BinaryIO | None = None,
) -> Source:
    """``stream`` stands in for standard input in tests.

    >>> import io
    >>> [b.rows.to_pydict() for b in stdin_source(stream=io.BytesIO(b"ts,v\\n1,2.5\\n")).open()]
    [{'ts': [1], 'v': [2.5]}]
    """
    binary = stream if stream is not None else sys.stdin.buffer
    match format:
        case "csv":
            return CsvStream(binary, NAME, schema, dialect)
        case "tsv":
            return CsvStream(binary, NAME, schema, Dialect(delimiter="\t"))
        case "jsonl" | "json" | "ndjson":
            return JsonLinesStream(binary, NAME, schema)
    near = did_you_mean(format, ["csv", "tsv", "jsonl"])
    raise JobError(f"standard input cannot be read as {format!r}: use 'csv', 'tsv' or 'jsonl'.{near}")
