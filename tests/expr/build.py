"""Building typed expressions by hand, as the binder would: resolve, then cast each argument."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from eddyline.core.errors import DataError
from eddyline.expr.evaluate import compile_expr, evaluate_rows
from eddyline.expr.functions import resolve
from eddyline.expr.nodes import Call, Cast, Column, Expr, Literal

I8, I16, I32, I64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()
F32, F64, S, B = pa.float32(), pa.float64(), pa.string(), pa.bool_()
D, TS, IV = pa.date32(), pa.timestamp("us"), pa.duration("us")
NAN, INF = math.nan, math.inf


def col(name: str, type: pa.DataType = I64) -> Column:
    return Column(name, type)


def lit(value: Any, type: pa.DataType | None = None) -> Literal:
    return Literal(value, type if type is not None else pa.scalar(value).type)


def call(name: str, *args: Expr) -> Call:
    r = resolve(name, [a.type for a in args])
    cast = tuple(a if a.type == t else Cast(a, t) for a, t in zip(args, r.arguments, strict=True))
    return Call(r.function, cast, r.returns)


def run(e: Expr, length: int = 1, **columns: pa.Array) -> tuple[list[Any], dict[int, str]]:
    values, errors = evaluate_rows(compile_expr(e), columns, length)
    values.validate(full=True)
    assert values.type == e.type, (values.type, e.type)
    assert len(values) == length
    return values.to_pylist(), {row: str(error) for row, error in errors.items()}


def same(a: Any, b: Any) -> bool:
    """Equal, NaN with NaN, and of one kind; −0.0 and 0.0 are told apart."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and a == b


def error_of(errors: dict[int, DataError]) -> dict[int, str]:
    return {row: str(e) for row, e in errors.items()}
