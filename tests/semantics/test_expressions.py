"""Two evaluators, one meaning: the vectorised one against the reference's, for every function and every cast.

Both get the same typed nodes; values, NULLs and *which rows fail* must agree. The messages of errors may differ, and
transcendental functions may differ in the last digits.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eddyline.core.errors import DataError
from eddyline.expr.evaluate import compile_expr, evaluate_rows
from eddyline.expr.functions import ALIASES, TypeMismatch, function_names, resolve
from eddyline.expr.nodes import Call, Case, Cast, Column, Expr, Literal
from eddyline.expr.types import castable
from eddyline.testing.rows import evaluate
from eddyline.testing.values import canonical

NAN, INF = math.nan, math.inf
POOLS: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False, None],
    pa.int8(): [0, 1, -1, 127, -128, None],
    pa.int32(): [0, 1, -1, 2, 3, 7, -7, 2**31 - 1, -(2**31), None],
    pa.int64(): [0, 1, -1, 2, 3, 10, -7, 100, 2**53 + 1, 2**63 - 1, -(2**63), None],
    pa.float32(): [0.0, -0.0, 0.5, 1.5, -2.5, 16777216.0, NAN, INF, None],
    pa.float64(): [0.0, -0.0, 0.25, 0.5, 2.5, -2.5, 1.005, 0.1, 7.0, 1e10, -1e300, NAN, INF, -INF, None],
    pa.decimal128(6, 2): [Decimal("0.00"), Decimal("1.25"), Decimal("-7.50"), Decimal("9999.99"), None],
    pa.string(): ["", "a", "ab", "Ab c", " 12 ", "1.5", "x%_y", "é😀z", "true", "2024-02-29", "-3", "a.b", None],
    pa.date32(): [dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(2023, 1, 1), None],
    pa.timestamp("us"): [
        dt.datetime(1970, 1, 1),
        dt.datetime(2024, 2, 29, 13, 14, 15, 161718),
        dt.datetime(1969, 12, 31, 23, 59, 59, 500000),
        None,
    ],
    pa.duration("us"): [dt.timedelta(0), dt.timedelta(days=1), dt.timedelta(microseconds=-1500), None],
}
LISTS: dict[pa.DataType, list[Any]] = {  # only functions read them
    pa.list_(pa.int64()): [[], [1], [2, None, 3, -7], [None], [100, 0, 1], None],
    pa.list_(pa.string()): [[], ["a"], ["", None, "é😀z"], ["ab", "a", "ab"], None],
}
ROUNDED = {
    *("exp", "ln", "log10", "log2", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"),
    *("tanh", "cbrt", "pow", "atan2", "hypot", "log", "degrees", "radians"),
}
ROWS = 60


LENGTHS = ("repeat", "lpad", "rpad")  # as long as their argument says: small numbers only


def columns_of_types(
    types: list[pa.DataType], rng: random.Random, largest: int | None = None
) -> tuple[list[Column], dict[str, pa.Array]]:
    columns = [Column(f"c{i}", t) for i, t in enumerate(types)]

    def pool(t: pa.DataType) -> list[Any]:
        return [v for v in {**POOLS, **LISTS}[t] if largest is None or not isinstance(v, int) or abs(v) <= largest]

    return columns, {c.name: pa.array(rng.choices(pool(c.type), k=ROWS), c.type) for c in columns}


def built(name: str, args: list[Expr]) -> Call:
    """A call as the binder makes it; TypeMismatch where there is none."""
    found = resolve(name, [a.type for a in args])
    cast = tuple(a if a.type == t else Cast(a, t) for a, t in zip(args, found.arguments, strict=True))
    return Call(found.function, cast, found.returns)


def agree(expr: Expr, data: dict[str, pa.Array], digits: int | None = None) -> None:
    values, errors = evaluate_rows(compile_expr(expr), data, ROWS)
    ours = values.to_pylist()
    rows = [dict(zip(data, row, strict=True)) for row in zip(*(c.to_pylist() for c in data.values()), strict=True)]
    for i, row in enumerate(rows or [{}] * ROWS):
        try:
            expected, failed = canonical(evaluate(expr, row)), False
        except DataError as e:
            expected, failed = e, True
        where = f"{expr}\n  row {row}\n  engine {errors.get(i, ours[i])!r}, reference {expected!r}"
        assert (i in errors) == failed, where
        if not failed:
            assert close(canonical(ours[i]), expected, digits), where


def close(a: Any, b: Any, digits: int | None) -> bool:
    if digits is not None and isinstance(a, float) and isinstance(b, float) and math.isfinite(a) and math.isfinite(b):
        return math.isclose(a, b, rel_tol=10.0**-digits, abs_tol=1e-300)
    return bool((a,) == (b,))


FUNCTIONS = sorted(set(function_names()) - set(ALIASES))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    rng = random.Random(name)
    tried = 0
    for _ in range(600):
        types = [rng.choice([*POOLS, *LISTS]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 3]))]
        columns, data = columns_of_types(types, rng, 100 if name in LENGTHS else None)
        try:
            expr = built(name, list(columns))
        except TypeMismatch:
            continue
        agree(expr, data, 12 if name in ROUNDED else None)
        tried += 1
        if tried == 8:
            return
    assert tried, "no arguments fit"


@pytest.mark.parametrize("source", list(POOLS), ids=str)
def test_cast(source: pa.DataType) -> None:
    rng = random.Random(str(source))
    for target in POOLS:
        if castable(source, target) and pa.duration("us") not in (source, target):
            (column,), data = columns_of_types([source], rng)
            for safe in (False, True):
                agree(Cast(column, target, safe), data)


def drawn(rng: random.Random, columns: list[Column], depth: int) -> Expr:
    """A random expression; where the types do not fit, a simpler one."""
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.8:
            return rng.choice(columns)
        type_ = rng.choice([pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_()])
        return Literal(rng.choice(POOLS[type_]), type_)
    args = [drawn(rng, columns, depth - 1) for _ in range(rng.choice([1, 2, 2, 2, 3]))]
    if rng.random() < 0.15 and len(args) == 3 and args[0].type == pa.bool_() and args[1].type == args[2].type:
        return Case(((args[0], args[1]),), args[2], args[1].type)
    for _ in range(10):
        try:
            return built(rng.choice([f for f in FUNCTIONS if f not in ROUNDED and f not in LENGTHS]), args)
        except TypeMismatch:
            continue
    return args[0]


@pytest.mark.parametrize("seed", range(4))
def test_nested_expressions(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        columns, data = columns_of_types(rng.sample(list(POOLS), 3), rng)
        agree(drawn(rng, columns, 3), data)
