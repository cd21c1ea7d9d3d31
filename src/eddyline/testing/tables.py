"""Tables written as text, for tests and examples that one can read.

The first line names the columns, optionally with a type (``price:double``); cells are separated by ``|``. A column
without a declared type gets the narrowest of bool, int64, double, date, timestamp and string that fits all its cells.
An empty cell and ``NULL`` are NULL; quotes keep a text from being taken for something else (``'7'``, ``'a|b'``).
Change streams carry ``_time`` and ``_sign`` (``1``, ``-1``, also ``+`` and ``-``).
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

_CELL = re.compile(r"\s*('(?:[^']|'')*'|\"[^\"]*\"|[^|]*)\s*(?:\||$)")
_TYPES: Final[dict[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "text": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}


def table(text: str) -> pa.Table:
    """Read a table from text.

    >>> t = table('''
    ...     ts | symbol | price
    ...     1  | IBM    | 82.5
    ...     2  | NULL   |
    ... ''')
    >>> t.to_pylist()
    [{'ts': 1, 'symbol': 'IBM', 'price': 82.5}, {'ts': 2, 'symbol': None, 'price': None}]
    """
    names, types, cells = parse(text)
    columns = [column([row[i] for row in cells], types[i]) for i in range(len(names))]
    return pa.table(columns, schema=pa.schema([pa.field(n, c.type) for n, c in zip(names, columns, strict=True)]))


def parse(text: str) -> tuple[list[str], list[pa.DataType | None], list[list[str]]]:
    """Names, declared types and raw cells."""
    lines = [line.strip() for line in text.strip().splitlines()]
    lines = [line for line in lines if line and not re.fullmatch(r"[-+| :]*---*[-+| :]*", line)]
    if not lines:
        raise ValueError("a table needs at least a line with the names of its columns")
    names: list[str] = []
    types: list[pa.DataType | None] = []
    for head in split(lines[0]):
        name, _, type_name = head.partition(":")
        if type_name and type_name.strip().lower() not in _TYPES:
            raise ValueError(f"unknown type {type_name.strip()!r} of column {name!r}; one of {', '.join(_TYPES)}")
        names.append(name.strip())
        types.append(_TYPES[type_name.strip().lower()] if type_name else None)
    if "_sign" in names:
        types[names.index("_sign")] = pa.int64()
    rows = [split(line) for line in lines[1:]]
    for line, row in zip(lines[1:], rows, strict=True):
        if len(row) != len(names):
            raise ValueError(f"{len(names)} columns, but {len(row)} cells in: {line}")
    return names, types, rows


def split(line: str) -> list[str]:
    """The cells of a line; one leading and one trailing bar are decoration."""
    line = line.strip()
    if line.startswith("|") and line.endswith("|") and len(line) > 1:
        line = line[1:-1]
    cells: list[str] = []
    position = 0
    while True:
        match = _CELL.match(line, position)
        if match is None:
            raise ValueError(f"cannot read the cells of: {line}")
        cells.append(match.group(1).strip())
        position = match.end()
        if not match.group(0).endswith("|"):
            return cells


def column(cells: Sequence[str], declared: pa.DataType | None) -> pa.Array:
    readers = [(declared, reader_of(declared))] if declared is not None else _INFERENCE
    for type_, read in readers:
        try:
            values = [None if c == "" or c.upper() == "NULL" else read(c) for c in cells]
            return pa.array(values, type_)
        except (ValueError, pa.ArrowInvalid):
            if declared is not None:
                raise
    raise AssertionError("every cell can be read as a string")


def _bool(cell: str) -> bool:
    if cell.lower() not in ("true", "false"):
        raise ValueError(cell)
    return cell.lower() == "true"


def _int(cell: str) -> int:
    return {"+": 1, "-": -1, "−": -1}.get(cell) or int(cell)


def _inferred_int(cell: str) -> int:
    return int(cell)


def _text(cell: str) -> str:
    if len(cell) >= 2 and cell[0] == cell[-1] and cell[0] in "'\"":
        return cell[1:-1].replace("''", "'") if cell[0] == "'" else cell[1:-1]
    return cell


def _timestamp(cell: str) -> dt.datetime:
    return dt.datetime.fromisoformat(cell)


def reader_of(type_: pa.DataType) -> Callable[[str], Any]:
    if pa.types.is_boolean(type_):
        return _bool
    if pa.types.is_integer(type_):
        return _int
    if pa.types.is_floating(type_):
        return float
    if pa.types.is_date(type_):
        return dt.date.fromisoformat
    if pa.types.is_timestamp(type_):
        return _timestamp
    return _text


_INFERENCE: Final[list[tuple[pa.DataType, Callable[[str], Any]]]] = [
    (pa.int64(), _inferred_int),
    (pa.float64(), float),
    (pa.bool_(), _bool),
    (pa.date32(), dt.date.fromisoformat),
    (pa.timestamp("us"), _timestamp),
    (pa.string(), _text),
]


def format_table(data: pa.Table | pa.RecordBatch, types: bool = False) -> str:
    """Write a table as text that ``table`` reads back.

    >>> print(format_table(pa.table({"a": [1, None], "s": ["x", "7"]})))
    a    | s
    1    | x
    NULL | '7'
    """
    names = [f"{f.name}:{_type_name(f.type)}" if types else f.name for f in data.schema]
    rows = [[show(v) for v in row] for row in rows_of(data)]
    widths = [max(len(line[i]) for line in [names, *rows]) for i in range(len(names))]
    lines = [" | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in [names, *rows]]
    return "\n".join(lines)


def _type_name(type_: pa.DataType) -> str:
    return next((name for name, known in _TYPES.items() if known == type_), "string")


def show(value: Any) -> str:
    """One cell as text."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        plain = value == value.strip() and "|" not in value and value and "'" not in value and '"' not in value
        looks_special = value.upper() == "NULL" or any(_reads(value, read) for _, read in _INFERENCE[:-1])
        return value if plain and not looks_special else "'" + value.replace("'", "''") + "'"
    return str(value)


def _reads(cell: str, read: Callable[[str], Any]) -> bool:
    try:
        read(cell)
    except ValueError:
        return False
    return True


def rows_of(data: pa.Table | pa.RecordBatch) -> list[tuple[Any, ...]]:
    columns = [c.to_pylist() for c in data.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * data.num_rows


def comparable(value: Any, digits: int | None = None) -> Any:
    """A value as it is compared: NaN equals NaN, −0.0 equals 0.0, doubles to so many significant digits."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if digits is not None and math.isfinite(value):
            return float(f"{value:.{digits - 1}e}") + 0.0
        return value + 0.0
    if isinstance(value, list | tuple):
        return tuple(comparable(v, digits) for v in value)
    return value


def difference(
    actual: Iterable[Sequence[Any]], expected: Iterable[Sequence[Any]], digits: int | None = None
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """(missing, unexpected) rows, as bags."""
    have = Counter(tuple(comparable(v, digits) for v in row) for row in actual)
    want = Counter(tuple(comparable(v, digits) for v in row) for row in expected)
    return list((want - have).elements()), list((have - want).elements())


def same_rows(left: pa.Table, right: pa.Table, digits: int | None = None) -> bool:
    """Whether two tables have the same column names and hold the same bag of rows.

    >>> same_rows(table("a\\n1\\n2"), table("a\\n2\\n1"))
    True
    """
    return left.schema.names == right.schema.names and difference(rows_of(left), rows_of(right), digits) == ([], [])
