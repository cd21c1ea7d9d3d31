"""Python values of one column as an Arrow array, refusing every value that the column's type cannot hold exactly.

``pyarrow.array(values, type)`` converts more than it should: 2.9 becomes the integer 2, and 5 becomes a date. Files and
tables refuse such values (``io.conform``), so rows of Python values must refuse them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Integral
from types import NoneType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from eddyline.core.errors import did_you_mean, quoted
from eddyline.io.conform import cast
from eddyline.io.nested import flat_row

# What the conversion of a value that does not fit raises.
REFUSALS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)


class BadRow(ValueError):
    """A row that is not made of the columns; the text says why."""


def column_array(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """The values as ``wanted``; one of ``REFUSALS`` is raised where a value is not of that type.

    >>> column_array([1, 2.0, None], pa.int64()).to_pylist()
    [1, 2, None]
    >>> column_array([1, 2.5], pa.int64())
    Traceback (most recent call last):
    ...
    ValueError: 2.5 is not an integer
    """
    kinds = set(map(type, values)) - {NoneType}
    if pat.is_integer(wanted):
        return pa.array(values if kinds <= {int} else [_integer(v) for v in values], wanted)
    if pat.is_floating(wanted):
        if any(issubclass(k, bool | np.bool_) for k in kinds):
            raise ValueError("a boolean is not a number")
    elif pat.is_temporal(wanted):
        return _times(values, wanted)
    return pa.array(values, wanted, from_pandas=False)


def _integer(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool | np.bool_):
        raise ValueError("a boolean is not a number")
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, float | np.floating | Decimal) and value == int(value):
        return int(value)
    raise ValueError(f"{value!r} is not an integer")


def _times(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """Dates, timestamps and intervals, from values that are such themselves: a number has no unit of time."""
    if len(values) > 1 and len(set(map(type, values)) - {NoneType}) > 1:
        # Among values of several kinds Arrow takes the date of a timestamp, and a number for an interval.
        return pa.concat_arrays([_times((v,), wanted) for v in values])
    found = pa.array(values)
    same = pat.is_duration(wanted) == pat.is_duration(found.type)
    if not (pat.is_null(found.type) or (pat.is_temporal(found.type) and same)):
        raise ValueError("not a time")
    return cast(found, wanted)


class ColumnNames:
    """The columns of rows: finds the value of each, by name (without regard to case) or by position.

    A named tuple is read by name if its fields are columns, and else by position like any tuple.

    >>> names = ColumnNames(["ts", "v"])
    >>> names.values({"TS": 1, "v": 2}), names.values({"ts": 1}), names.values([1, 2])
    ((1, 2), (1, None), (1, 2))
    >>> names.values({"ts": 1, "vv": 2})
    Traceback (most recent call last):
    ...
    eddyline.io.row_values.BadRow: there is no column 'vv'. Did you mean 'v'?
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._exact = tuple(names), frozenset(names)
        self._folded = {n.lower(): n for n in reversed(self._names)}

    def values(self, row: Any) -> tuple[Any, ...]:
        if isinstance(row, Mapping):
            row = flat_row(row)
            found = row if row.keys() <= self._exact else self._by_column(row)
            return tuple([found.get(n) for n in self._names])
        if isinstance(row, tuple | list):
            fields = getattr(row, "_fields", self._names)
            if fields != self._names and all(f.lower() in self._folded for f in fields):
                return self.values(dict(zip(fields, row, strict=True)))
            if len(row) != len(self._names):
                raise BadRow(f"{len(row)} values instead of {len(self._names)}")
            return tuple(row)
        raise BadRow(f"a {type(row).__name__} is not a row (a mapping or a tuple)")

    def _by_column(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        keys: dict[str, Any] = {}
        for key, value in row.items():
            text = str(key)
            column = text if text in self._exact else self._folded.get(text.lower())
            if column is None and value is None and any(n.startswith(f"{text}.") for n in self._names):
                continue  # a structure that is NULL
            if column is None:
                hint = did_you_mean(text, self._names) or f" The columns are: {', '.join(self._names)}."
                raise BadRow(f"there is no column {quoted(text, 60)}.{hint}")
            if column in found:
                raise BadRow(f"the keys {keys[column]!r} and {key!r} name the same column")
            found[column], keys[column] = value, key
        return found
