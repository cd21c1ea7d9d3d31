"""The row evaluator against values looked up in Spark's documentation (ANSI mode)."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eddyline.core.catalog import FunctionDef
from eddyline.core.errors import DataError
from eddyline.expr.nodes import Call, Case, Cast, Column, Literal, UserCall
from eddyline.testing.rows import evaluate

INT, LONG, DOUBLE, STRING, BOOL = pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_()
TIMESTAMP, DATE = pa.timestamp("us"), pa.date32()
NAN = float("nan")


def call(function: str, *values: Any, type: pa.DataType = LONG) -> Any:
    return evaluate(Call(function, tuple(Literal(v, pa.null()) for v in values), type), {})


def cast(value: Any, source: pa.DataType, target: pa.DataType, safe: bool = False) -> Any:
    return evaluate(Cast(Literal(value, source), target, safe), {})


def test_three_valued_logic() -> None:
    values = [True, False, None]
    assert [call("and", a, b) for a in values for b in values] == [
        True, False, None, False, False, False, None, False, None,
    ]  # fmt: skip
    assert [call("or", a, b) for a in values for b in values] == [
        True, True, True, True, False, None, True, None, None,
    ]  # fmt: skip
    assert [call("not", a) for a in values] == [False, True, None]


def test_comparison_with_null_and_nan() -> None:
    assert call("eq", None, 1) is None
    assert call("eq", NAN, NAN) is True
    assert call("gt", NAN, math.inf) is True
    assert call("lt", NAN, 1.0) is False
    assert call("eq", 0.0, -0.0) is True
    assert call("null_safe_eq", None, None) is True
    assert call("null_safe_eq", None, 1) is False


def test_in_list() -> None:
    assert call("in", 1, 1, None) is True
    assert call("in", 2, 1, None) is None
    assert call("in", 2, 1, 3) is False
    assert call("in", None, 1) is None


def test_arithmetic_overflows_and_divides_like_ansi() -> None:
    assert call("add", 1, 2) == 3
    for function, a, b, type_ in [
        ("add", 2**31 - 1, 1, INT),
        ("add", 2**63 - 1, 1, LONG),
        ("multiply", 2**62, 2, LONG),
        ("subtract", -(2**63), 1, LONG),
        ("divide", 1.0, 0.0, DOUBLE),
        ("mod", 1, 0, LONG),
        ("mod", 1.0, 0.0, DOUBLE),
        ("integer_divide", 1, 0, LONG),
        ("integer_divide", -(2**63), -1, LONG),
    ]:
        with pytest.raises(DataError):
            call(function, a, b, type=type_)
    with pytest.raises(DataError):
        call("negate", -(2**63))
    assert call("divide", 1.0, 4.0, type=DOUBLE) == 0.25
    assert [call("mod", a, b) for a, b in [(7, 3), (-7, 3), (7, -3), (-7, -3)]] == [1, -1, 1, -1]
    assert [call("integer_divide", a, b) for a, b in [(7, 2), (-7, 2), (7, -2)]] == [3, -3, -3]
    assert call("mod", -7.5, 2.0, type=DOUBLE) == -1.5
    assert call("add", Decimal("1.10"), Decimal("2.2"), type=pa.decimal128(5, 2)) == Decimal("3.30")


def test_a_branch_not_taken_cannot_fail() -> None:
    fails = Call("divide", (Literal(1.0, DOUBLE), Literal(0.0, DOUBLE)), DOUBLE)
    one = Literal(1.0, DOUBLE)
    assert evaluate(Case(((Literal(True, BOOL), one),), fails, DOUBLE), {}) == 1.0
    assert evaluate(Call("coalesce", (one, fails), DOUBLE), {}) == 1.0
    assert evaluate(Call("if", (Literal(None, BOOL), fails, one), DOUBLE), {}) == 1.0
    assert evaluate(Case(((Literal(None, BOOL), one),), Literal(None, DOUBLE), DOUBLE), {}) is None


def test_null_functions() -> None:
    assert call("nullif", 1, 1) is None
    assert call("nullif", 1, None) == 1
    assert call("greatest", 1.0, None, NAN) is not None and math.isnan(call("greatest", 1.0, None, NAN))
    assert call("least", None, 2, 1) == 1
    assert call("least", None, None) is None
    assert call("is_null", None) is True
    assert call("isnan", None) is False


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        ("abc", "a%", True),
        ("abc", "a_c", True),
        ("abc", "b", False),
        ("a\nc", "a_c", True),
        ("a%c", "a\\%c", True),
        ("abc", "a\\%c", False),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("", "%", True),
        ("", "_", False),
    ],
)
def test_like(text: str, pattern: str, matches: bool) -> None:
    assert call("like", text, pattern) is matches


def test_like_with_a_dangling_escape_is_an_error() -> None:
    with pytest.raises(DataError):
        call("like", "abc", "abc\\")
    assert call("like", "a%", "a#%", "#") is True
    assert call("ilike", "ABC", "a%") is True
    assert call("rlike", "abc123", "[0-9]+$") is True


def test_text_functions() -> None:
    assert [call("substring", "Spark SQL", *args) for args in [(5,), (-3,), (5, 1), (0, 2), (-20, 13)]] == [
        "k SQL", "SQL", "k", "Sp", "Sp",
    ]  # fmt: skip
    assert call("locate", "bar", "foobarbar") == 4
    assert call("locate", "bar", "foobarbar", 5) == 7
    assert call("locate", "bar", "foobarbar", 0) == 0
    assert call("instr", "SparkSQL", "SQL") == 6
    assert [call("lpad", "hi", *args) for args in [(5, "??"), (1, "??"), (4,)]] == ["???hi", "h", "  hi"]
    assert call("rpad", "hi", 5, "ab") == "hiaba"
    assert call("split_part", "11.12.13", ".", 3) == "13"
    assert call("split_part", "11.12.13", ".", -1) == "13"
    assert call("split_part", "11.12.13", ".", 5) == ""
    assert call("initcap", "sPark sql") == "Spark Sql"
    assert call("concat", "a", None) is None
    assert call("right", "Spark SQL", 3) == "SQL"
    assert call("left", "Spark SQL", -3) == ""
    assert call("replace", "ABCabc", "abc", "DEF") == "ABCDEF"
    assert call("trim", "  a ") == "a"
    assert call("repeat", "12", 2) == "1212"
    assert call("ascii", "") == 0


def test_mathematics() -> None:
    assert call("ln", 0.0) is None
    assert math.isnan(call("sqrt", -1.0))
    assert call("pow", 2.0, 3.0) == 8.0
    assert math.isnan(call("pow", -8.0, 1 / 3))
    assert call("exp", 1000.0) == math.inf
    assert [call("round", v, *d, type=DOUBLE) for v, *d in [(2.5,), (-2.5,), (1.005, 2), (15.0, -1)]] == [
        3.0, -3.0, 1.01, 20.0,
    ]  # fmt: skip
    assert call("round", 25, -1) == 30
    assert call("ceil", -0.1) == 0
    assert call("floor", -0.1) == -1
    assert call("floor", NAN) == 0
    assert call("floor", -(2.0**63)) == -(2**63)
    for outside in (2.0**63, -1e300, math.inf, -math.inf):
        with pytest.raises(DataError, match="integer overflow"):
            call("ceil", outside)
    assert call("log", 10.0, 100.0) == pytest.approx(2.0)
    assert call("sign", -3.0) == -1.0


def test_casts() -> None:
    assert cast("12", STRING, LONG) == 12
    assert cast(2.9, DOUBLE, LONG) == 2
    assert cast(-2.9, DOUBLE, INT) == -2
    assert cast("1e3", STRING, DOUBLE) == 1000.0
    assert cast("-Infinity", STRING, DOUBLE) == -math.inf
    assert cast(True, BOOL, LONG) == 1
    assert cast(" yes ", STRING, BOOL) is True
    assert cast(0.5, DOUBLE, BOOL) is True
    assert cast("2.345", STRING, pa.decimal128(3, 2)) == Decimal("2.35")
    assert cast("x", STRING, LONG, safe=True) is None
    for value, source, target in [
        ("1.5", STRING, LONG),
        ("", STRING, DOUBLE),
        ("abc", STRING, BOOL),
        (NAN, DOUBLE, LONG),
        (1e10, DOUBLE, INT),
        (2**31, LONG, INT),
        ("12345", STRING, pa.decimal128(3, 0)),
        ("2024-13-01", STRING, DATE),
    ]:
        with pytest.raises(DataError):
            cast(value, source, target)


def test_casts_to_text_are_javas() -> None:
    numbers = [1.0, 100.0, 1e7, 12345678.9, 0.001, 0.00012, -0.0, NAN, math.inf, 1e-10, 123.456]
    assert [cast(x, DOUBLE, STRING) for x in numbers] == [
        "1.0", "100.0", "1.0E7", "1.23456789E7", "0.001", "1.2E-4", "-0.0", "NaN", "Infinity", "1.0E-10", "123.456",
    ]  # fmt: skip
    assert cast(dt.datetime(2024, 1, 2, 3, 4, 5, 120000), TIMESTAMP, STRING) == "2024-01-02 03:04:05.12"
    assert cast(dt.date(2024, 1, 2), DATE, STRING) == "2024-01-02"
    assert cast(False, BOOL, STRING) == "false"


def test_dates() -> None:
    at = dt.datetime(2024, 2, 29, 13, 14, 15, 161718)
    parts = ["year", "month", "day", "hour", "minute", "second", "dayofweek", "weekday", "dayofyear", "quarter", "week"]
    assert [call(p, at) for p in parts] == [2024, 2, 29, 13, 14, 15, 5, 3, 60, 1, 9]
    assert call("date_trunc", "quarter", at) == dt.datetime(2024, 1, 1)
    assert call("date_trunc", "week", at) == dt.datetime(2024, 2, 26)
    assert call("date_trunc", "nonsense", at) is None
    assert call("date_add", dt.date(2024, 2, 28), 2) == dt.date(2024, 3, 1)
    assert call("datediff", dt.date(2024, 3, 1), dt.date(2024, 2, 28)) == 2
    assert call("unix_seconds", dt.datetime(1969, 12, 31, 23, 59, 59, 500000)) == -1
    assert call("timestamp_millis", 1500) == dt.datetime(1970, 1, 1, 0, 0, 1, 500000)
    assert call("add", at, dt.timedelta(days=1), type=TIMESTAMP) == dt.datetime(2024, 3, 1, 13, 14, 15, 161718)
    with pytest.raises(DataError):
        call("date_add", dt.date(9999, 12, 31), 1)


def test_columns_and_user_functions() -> None:
    twice = FunctionDef("twice", lambda v: None if v is None else 2 * v, LONG)
    expr = UserCall(twice, (Column("S.a", LONG),), LONG)
    assert [evaluate(expr, {"S.a": v}) for v in (4, None)] == [8, None]
    arrow = FunctionDef("half", lambda c: pa.array([v.as_py() // 2 for v in c]), LONG, kind="arrow")
    assert evaluate(UserCall(arrow, (Column("S.a", LONG),), LONG), {"S.a": 8}) == 4
