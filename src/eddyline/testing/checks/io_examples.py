"""The sources and sinks of the package, over files in a folder that lasts as long as the process."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.io.resolve import open_source
from eddyline.io.sinks import EXTENSIONS, open_sink
from eddyline.io.source import Source, whole
from eddyline.io.stdin import stdin_source
from eddyline.testing.checks.sinks import SCHEMA, SinkExample
from eddyline.testing.checks.sources import SourceExample
from eddyline.testing.sources import ListSource

ROWS = 40


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    """Removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="eddyline-checks-")


@cache
def folder() -> Path:
    """A folder with the same rows in every format; two rows of the text files are malformed."""
    path = Path(_kept().name)
    table = rows()
    pq.write_table(table, path / "rows.parquet", row_group_size=11)
    lines = [",".join("" if v is None else str(v) for v in row.values()) for row in table.to_pylist()]
    lines[9:9] = ["9,broken"]
    lines[30:30] = ["thirty,a,1.0"]
    (path / "rows.csv").write_text("\n".join(["ts,name,value", *lines, ""]))
    (path / "rows.tsv").write_text("\n".join(["ts,name,value", *lines, ""]).replace(",", "\t"))
    objects = [_json(row) for row in table.to_pylist()]
    objects[9:9] = ['{"ts": 9, "name"']
    (path / "rows.jsonl").write_text("\n".join([*objects, ""]))
    parts = path / "parts"
    parts.mkdir()
    for i in range(3):
        pq.write_table(table.slice(15 * i, 15), parts / f"{i}.parquet")
    return path


def _json(row: dict[str, Any]) -> str:
    import json

    return json.dumps(row)


def rows() -> pa.Table:
    """
    >>> rows().num_rows
    40
    """
    names = [None if i % 9 == 4 else f"name {i % 5}" for i in range(ROWS)]
    return pa.table({"ts": [i // 2 for i in range(ROWS)], "name": names, "value": [i / 4 for i in range(ROWS)]})


def _file(name: str, **options: Any) -> Source:
    return open_source(str(folder() / name), options=options)


def _missing(name: str) -> Source:
    return open_source(str(folder() / f"no-{name}"))


def _damaged(name: str) -> Source:
    path = folder() / f"damaged-{name}"
    path.write_bytes(b"\x00\xffPAR1")
    return open_source(str(path))


def _standard_input(kind: str) -> Source:
    return stdin_source(kind, stream=io.BytesIO((folder() / f"rows.{kind}").read_bytes()))


def source_examples() -> Iterator[SourceExample]:
    """The sources of the package."""
    for name in ("rows.csv", "rows.tsv", "rows.jsonl", "rows.parquet", "parts"):
        yield SourceExample(f"file {name}", partial(_file, name), "ts", partial(_missing, name))
    yield SourceExample("damaged parquet", partial(_file, "rows.parquet"), "ts", partial(_damaged, "rows.parquet"))
    yield SourceExample("watched directory", partial(_file, "parts", watch=True, until_idle=0.0, poll=0.01), "ts")
    yield SourceExample("dictionary-encoded parquet", partial(_file, "rows.parquet", dictionary=True), "ts")
    for kind in ("csv", "tsv", "jsonl"):
        yield SourceExample(f"standard input {kind}", partial(_standard_input, kind))
    yield SourceExample("table", lambda: open_source(rows()), "ts", lambda: open_source(7))
    yield SourceExample("rows", lambda: open_source(rows().to_pylist()), "ts")
    yield SourceExample("batches", lambda: open_source(rows().to_batches(max_chunksize=9)), "ts")
    yield SourceExample("list source", lambda: ListSource(rows().to_pylist(), rows().schema), "ts")
    uri = "generate:trades?events=500&seed=3"
    yield SourceExample("generator", lambda: open_source(uri), "ts", lambda: open_source("generate:traids"))
    yield SourceExample("endless generator", lambda: open_source("generate:trades?seed=3"), endless=300)


def _sink(extension: str, folder: Path, schema: pa.Schema) -> Any:
    return open_sink(folder / f"result{extension}", schema)


def _result(extension: str, folder: Path) -> pa.Table | None:
    path = folder / f"result{extension}"
    if not path.exists():
        return None
    return whole(open_source(str(path), schema=SCHEMA).open(), SCHEMA)


def sink_examples() -> Iterator[SinkExample]:
    """The sinks of the package: one for each extension."""
    make: Callable[..., Any]
    for extension in EXTENSIONS:
        make, read = partial(_sink, extension), partial(_result, extension)
        yield SinkExample(f"file {extension}", make, read)
