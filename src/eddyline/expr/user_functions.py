"""Calls of users' functions.

A ``row`` function is called once for each row with Python values, never twice for the same row; ``pandas`` and
``arrow`` functions get whole columns, and a call that raises is bisected. What a function returns is brought to its
declared type; what cannot be is an error of that row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.catalog import FunctionDef
from eddyline.core.errors import JobError
from eddyline.expr.arrays import Kernel, broadcast
from eddyline.expr.failures import Failure, reason_of
from eddyline.expr.types import BOOLEAN


def build_user_function(definition: FunctionDef) -> Callable[[Sequence[pa.Array], int], pa.Array]:
    """What runs a function on argument arrays of one length."""
    if definition.kind == "row":
        return lambda args, length: _call_rows(definition, args, length)
    kernel = vectorised(definition)
    return lambda args, length: kernel(*args, length=length)


def _call_rows(definition: FunctionDef, args: Sequence[pa.Array], length: int) -> pa.Array:
    function, returns = definition.function, definition.returns
    rows: Any = zip(*(a.to_pylist() for a in args), strict=True) if args else [()] * length
    values: list[Any] = []
    reasons: dict[int, str] = {}
    for row in rows:
        try:
            values.append(function(*row))
        except Exception as e:  # whatever the user's code raises belongs to this row
            reasons[len(values)] = reason_of(e)
            values.append(None)
    try:
        result = pa.array(values, type=returns)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        result = _convert_one_by_one(definition, values, reasons)
    if reasons:
        mask = np.zeros(length, np.bool_)
        mask[list(reasons)] = True
        raise Failure(mask, reasons.__getitem__, result)
    return result


def _convert_one_by_one(definition: FunctionDef, values: list[Any], reasons: dict[int, str]) -> pa.Array:
    converted: list[Any] = []
    for row, value in enumerate(values):
        if definition.returns == BOOLEAN and isinstance(value, int | np.integer | np.bool_):
            value = bool(value)
        try:
            pa.array([value], type=definition.returns)
            converted.append(value)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            reasons[row] = f"{definition.name} returned {value!r}, which is no {definition.returns}"
            converted.append(None)
    return pa.array(converted, type=definition.returns)


def vectorised(definition: FunctionDef) -> Kernel:
    """The kernel of a ``pandas`` or ``arrow`` function."""
    function, returns = definition.function, definition.returns

    def kernel(*args: pa.Array, length: int | None = None) -> pa.Array:
        expected = len(args[0]) if args else (length or 0)
        if definition.kind == "pandas":
            result = pa.Array.from_pandas(function(*(a.to_pandas() for a in args)))
        else:
            result = function(*args)
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if isinstance(result, pa.Scalar):
            result = broadcast(result, expected)
        if not isinstance(result, pa.Array):
            result = pa.array(result)
        if len(result) != expected:
            raise JobError(
                f"function {definition.name!r} returned {len(result)} values for {expected} rows; "
                f"a {definition.kind} function must return one value for each row."
            )
        return result if result.type == returns else pc.cast(result, returns)

    return kernel
