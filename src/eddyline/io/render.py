"""Rows as text: tables for people, JSON and CSV for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, TextIO

import pyarrow as pa
import pyarrow.compute as pc

CELL_CHARACTERS: Final = 60  # of a cell on the console, at most


class TablePrinter:
    """Prints batches as they come. The first ones fix the widths; a later cell that is wider pushes its line out.

    ``hold`` is how many rows are held back until the widths are fixed: more make a tidier table, none is right where
    a user waits for each row."""

    def __init__(self, schema: pa.Schema, out: TextIO, hold: int = 0) -> None:
        self._schema, self._out, self._hold = schema, out, hold
        self._widths: list[int] = []
        self._held: list[pa.RecordBatch] = []
        self._right = [
            bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)) for t in schema.types
        ]

    def rows(self, batch: pa.RecordBatch) -> None:
        if len(batch) == 0:
            return
        if not self._widths:
            self._held.append(batch)
            if sum(map(len, self._held)) <= self._hold:
                return
            batch = self._taken()
        columns = [[shown(v) for v in c.to_pylist()] for c in batch.columns]
        if not self._widths:
            self._start(columns)
        lines = [self._line(list(cells)) for cells in zip(*columns, strict=True)]
        self._out.write("".join(lines))
        self._out.flush()

    def end(self, count: int) -> None:
        self._hold = 0
        if self._held:
            self.rows(self._held.pop())
        if not self._widths:
            self._start([[] for _ in self._schema.names])
        self._out.write(f"({count:,} row{'' if count == 1 else 's'})\n")
        self._out.flush()

    def _taken(self) -> pa.RecordBatch:
        held, self._held = self._held, []
        return pa.Table.from_batches(held).combine_chunks().to_batches()[0]

    def _start(self, columns: list[list[str]]) -> None:
        names = self._schema.names
        self._widths = [max(len(n), *map(len, c)) if c else len(n) for n, c in zip(names, columns, strict=True)]
        self._out.write(self._line(list(names)))
        self._out.write("-+-".join("-" * w for w in self._widths) + "\n")

    def _line(self, cells: list[str]) -> str:
        placed = [
            c.rjust(w) if right else c.ljust(w) for c, w, right in zip(cells, self._widths, self._right, strict=True)
        ]
        return " | ".join(placed).rstrip() + "\n"


def brief(value: Any) -> str:
    """What a decision changed, in one line.

    >>> brief(["a < 1", "b < 2"]), brief({"R": ["S", "T"], "S": ["R"]})
    ('a < 1, b < 2', 'R: S, T; S: R')
    """
    if isinstance(value, Mapping):
        return "; ".join(f"{k}: {brief(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(brief(v) for v in value)
    return str(value)


def shown(value: Any) -> str:
    """A value in a table cell.

    >>> [shown(v) for v in (None, True, 2.50, "a\\nb", b"\\x01")]
    ['NULL', 'true', '2.5', 'a\\\\nb', '01']
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        value = value.hex()
    text = str(value).replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return text if len(text) <= CELL_CHARACTERS else text[: CELL_CHARACTERS - 1] + "…"


def json_lines(table: pa.Table) -> str:
    """One object a line. What JSON lacks is text: times (ISO 8601), bytes (hexadecimal), NaN and infinities.

    >>> print(json_lines(pa.table({"a": [1, None], "b": [float("nan"), 0.5]})), end="")
    {"a": 1, "b": "NaN"}
    {"a": null, "b": 0.5}
    """
    if table.num_rows == 0:
        return ""
    keys = [json.dumps(n, ensure_ascii=False) + ": " for n in table.column_names]
    columns = [[key + _json(v) for v in c.to_pylist()] for key, c in zip(keys, table.columns, strict=True)]
    return "".join("{" + ", ".join(cells) + "}\n" for cells in zip(*columns, strict=True))


def _json(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value is None or isinstance(value, bool | int | float | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return f'"{value.hex()}"'
    return json.dumps(value.isoformat() if hasattr(value, "isoformat") else str(value))


def csv_ready(table: pa.Table) -> pa.Table:
    """Columns that Arrow's CSV writer does not know (bytes, intervals) as texts."""
    columns = []
    for column in table.columns:
        if pa.types.is_binary(column.type):
            column = pa.chunked_array(
                [pa.array([None if v is None else v.hex() for v in column.to_pylist()], pa.string())]
            )
        elif pa.types.is_duration(column.type):
            column = pa.chunked_array(
                [pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())]
            )
        elif pa.types.is_null(column.type):
            column = pc.cast(column, pa.string())
        columns.append(column)
    return pa.table(columns, names=table.column_names)
