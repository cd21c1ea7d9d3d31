"""CAST and TRY_CAST, one line for each pair of types that differs in kind."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eddyline.core.errors import Span
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Cast
from eddyline.expr.types import cast_can_fail
from tests.expr.build import F32, F64, I8, I16, I32, I64, INF, IV, NAN, TS, B, D, S, col, lit, run, same

BIN = pa.binary()
DEC = pa.decimal128(5, 2)
FAIL = object()
t, d = dt.datetime, dt.date

TABLE: list[tuple[pa.DataType, Any, pa.DataType, Any]] = [
    (S, "42", I32, 42),
    (S, "  +42\n", I64, 42),
    (S, "-0042", I64, -42),
    (S, "4.2", I32, FAIL),
    (S, "0x1F", I64, FAIL),
    (S, "", I64, FAIL),
    (S, "300", I8, FAIL),
    (S, "99999999999999999999", I64, FAIL),
    (S, " 1.5e3 ", F64, 1500.0),
    (S, ".5", F64, 0.5),
    (S, "5.", F64, 5.0),
    (S, "-Infinity", F64, -INF),
    (S, "+inf", F64, INF),
    (S, "nan", F64, NAN),
    (S, "1e400", F64, INF),
    (S, "1,5", F64, FAIL),
    (S, "1.5", F32, 1.5),
    (S, "Yes ", B, True),
    (S, "f", B, False),
    (S, "maybe", B, FAIL),
    (S, "2004-6-1", D, d(2004, 6, 1)),
    (S, "2004", D, d(2004, 1, 1)),
    (S, "2004-06-01T10:00", D, d(2004, 6, 1)),
    (S, "2004-13-01", D, FAIL),
    (S, "2004-06-01 10:00:00.123456789", TS, t(2004, 6, 1, 10, 0, 0, 123456)),
    (S, "2004-06-01T10:00:00Z", TS, t(2004, 6, 1, 10)),
    (S, "2004-06-01T10:00:00+02:00", TS, t(2004, 6, 1, 8)),
    (S, "2004-06-01 10:00:00 Europe/Paris", TS, t(2004, 6, 1, 8)),
    (S, "2004-06", TS, t(2004, 6, 1)),
    (S, "noon", TS, FAIL),
    (S, "1 02:03:04.5", IV, dt.timedelta(1, 4, 500000, 0, 3, 2)),
    (S, "1.235", DEC, Decimal("1.24")),
    (S, "12345", DEC, FAIL),
    (S, "x", DEC, FAIL),
    (S, "ä", BIN, "ä".encode()),
    (BIN, b"abc", S, "abc"),
    (BIN, b"\xff", S, FAIL),
    (F64, 2.9, I32, 2),
    (F64, -2.9, I64, -2),
    (F64, 1e10, I32, FAIL),
    (F64, NAN, I64, FAIL),
    (F64, INF, I64, FAIL),
    (F64, 9.3e18, I64, FAIL),
    (F64, -(2.0**63), I64, -(2**63)),
    (F64, 0.1, F32, pa.scalar(0.1, F32).as_py()),
    (F64, 1e300, F32, INF),
    (F64, 1.005, DEC, Decimal("1.01")),
    (F64, 1e5, DEC, FAIL),
    (F64, NAN, DEC, FAIL),
    (F64, 0.0, B, False),
    (F64, NAN, B, True),
    (I64, 2**40, I32, FAIL),
    (I64, -5, I8, -5),
    (I16, 300, I8, FAIL),
    (I8, -5, I64, -5),
    (I64, 2**53 + 1, F64, float(2**53)),
    (I64, 7, DEC, Decimal("7.00")),
    (I64, 1000, DEC, FAIL),
    (I32, 2, B, True),
    (I64, 0, B, False),
    (B, True, I32, 1),
    (B, True, F64, 1.0),
    (B, True, DEC, Decimal("1.00")),
    (B, False, S, "false"),
    (DEC, Decimal("2.99"), I64, 2),
    (DEC, Decimal("-2.99"), I32, -2),
    (DEC, Decimal("300.00"), I8, FAIL),
    (DEC, Decimal("0.30"), F64, 0.3),
    (DEC, Decimal("2.65"), pa.decimal128(4, 1), Decimal("2.7")),
    (DEC, Decimal("-2.65"), pa.decimal128(4, 1), Decimal("-2.7")),
    (DEC, Decimal("999.99"), pa.decimal128(3, 0), FAIL),
    (DEC, Decimal("1.50"), S, "1.50"),
    (DEC, Decimal("0.00"), B, False),
    (F64, 1.0, S, "1.0"),
    (F64, 1e10, S, "1.0E10"),
    (F64, 1.25e-5, S, "1.25E-5"),
    (F64, 123456.789, S, "123456.789"),
    (F64, 1e7, S, "1.0E7"),
    (F64, 0.001, S, "0.001"),
    (F64, -0.0, S, "-0.0"),
    (F64, NAN, S, "NaN"),
    (F64, -INF, S, "-Infinity"),
    (F32, pa.scalar(0.1, F32).as_py(), S, "0.1"),
    (I64, -5, S, "-5"),
    (D, d(2004, 6, 1), S, "2004-06-01"),
    (D, d(2004, 6, 1), TS, t(2004, 6, 1)),
    (TS, t(2004, 6, 1, 10), S, "2004-06-01 10:00:00"),
    (TS, t(2004, 6, 1, 10, 0, 0, 120000), S, "2004-06-01 10:00:00.12"),
    (TS, t(1969, 12, 31, 23), D, d(1969, 12, 31)),
    (TS, t(1970, 1, 1, 0, 0, 1, 500000), I64, 1),
    (TS, t(1969, 12, 31, 23, 59, 59, 500000), I64, -1),
    (TS, t(1970, 1, 1, 0, 0, 1, 500000), F64, 1.5),
    (TS, t(2100, 1, 1), I32, FAIL),
    (I64, 5, TS, t(1970, 1, 1, 0, 0, 5)),
    (I64, 2**62, TS, FAIL),
    (F64, 1.5, TS, t(1970, 1, 1, 0, 0, 1, 500000)),
    (F64, NAN, TS, FAIL),
    (F64, 1e300, TS, FAIL),
    (I64, 2**40, TS, FAIL),
    (IV, dt.timedelta(hours=-25), S, "INTERVAL '-1 01:00:00' DAY TO SECOND"),
    (pa.null(), None, I64, None),
]


@pytest.mark.parametrize("line", TABLE, ids=[f"{v!r}-{target}" for _, v, target, _ in TABLE])
def test_cast(line: tuple[pa.DataType, Any, pa.DataType, Any]) -> None:
    source, value, target, expected = line
    column = pa.array([None, None, value, None, value], source).slice(1)
    for operand in (col("a", source), lit(value, source)):
        strict = Cast(operand, target, span=Span(0, 1))
        got, errors = run(strict, 4, a=column)
        if expected is FAIL:
            assert got[1] is None
            assert "CAST(" in errors[1] and "\n" not in errors[1]
            assert cast_can_fail(source, target)
            assert compile_expr(strict).can_fail
        else:
            assert not errors
            assert same(got[1], expected) and same(got[3], expected), got
        got, errors = run(Cast(operand, target, safe=True), 4, a=column)
        assert not errors
        assert same(got[1], None if expected is FAIL else expected)


def test_only_the_bad_rows_fail() -> None:
    texts = pa.array(["1", "x", None, "99999999999999999999", " 2 "])
    got, errors = run(Cast(col("s", S), I64, span=Span(0, 1)), 5, s=texts)
    assert got == [1, None, None, None, 2]
    assert errors[1] == "cannot read 'x' as bigint in 'CAST(s AS bigint)'"
    assert set(errors) == {1, 3}


def test_there_is_no_such_cast() -> None:
    with pytest.raises(TypeError, match="no cast from boolean to timestamp"):
        compile_expr(Cast(col("b", B), TS))
