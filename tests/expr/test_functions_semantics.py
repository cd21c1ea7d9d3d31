"""One table of what functions mean; every line is tried with columns, with literals and mixed."""

from __future__ import annotations

import datetime as dt
import itertools
import operator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eddyline.expr.nodes import Expr
from tests.expr.build import F32, F64, I8, I16, I32, I64, INF, IV, NAN, TS, B, D, S, call, col, lit, run, same


class Fails:
    def __init__(self, part: str) -> None:
        self.part = part

    def __repr__(self) -> str:
        return f"Fails({self.part!r})"


ZERO = Fails("division by zero")
OVERFLOW = Fails("overflow")
d = dt.date
t = dt.datetime
Dec = Decimal


def iv(**parts: float) -> dt.timedelta:
    return dt.timedelta(**parts)


# function, argument types, argument values, expected
TABLE: list[tuple[str, tuple[pa.DataType, ...], tuple[Any, ...], Any]] = [
    # integers
    ("add", (I64, I64), (1, 2), 3),
    ("add", (I64, I64), (None, 2), None),
    ("add", (I64, I64), (2**63 - 1, 1), OVERFLOW),
    ("add", (I32, I32), (2**31 - 1, 1), OVERFLOW),
    ("add", (I32, I64), (2**31 - 1, 1), 2**31),
    ("add", (I8, I8), (127, 1), OVERFLOW),
    ("add", (I16, I8), (32767, 1), OVERFLOW),
    ("subtract", (I32, I32), (-(2**31), 1), OVERFLOW),
    ("multiply", (I64, I64), (2**62, 2), OVERFLOW),
    ("multiply", (I32, I32), (65536, 65536), OVERFLOW),
    ("multiply", (I64, I64), (-3, 7), -21),
    ("negate", (I32,), (-(2**31),), OVERFLOW),
    ("negate", (I64,), (5,), -5),
    ("abs", (I64,), (-(2**63),), OVERFLOW),
    ("abs", (I32,), (-7,), 7),
    # division
    ("divide", (I64, I64), (7, 2), 3.5),
    ("divide", (I64, I64), (7, 0), ZERO),
    ("divide", (I64, I64), (None, 0), None),
    ("divide", (I64, I64), (7, None), None),
    ("divide", (F64, F64), (0.0, 0.0), ZERO),
    ("divide", (F64, F64), (1.0, -0.0), ZERO),
    ("divide", (F64, F64), (NAN, 2.0), NAN),
    ("divide", (F64, F64), (1.0, INF), 0.0),
    ("integer_divide", (I32, I32), (-7, 2), -3),
    ("integer_divide", (I64, I64), (7, -2), -3),
    ("integer_divide", (I64, I64), (-7, -2), 3),
    ("integer_divide", (I64, I64), (-(2**63), -1), OVERFLOW),
    ("integer_divide", (I64, I64), (2**62 + 1, 1), 2**62 + 1),
    ("integer_divide", (I64, I64), (1, 0), ZERO),
    ("integer_divide", (I64, I64), (None, 0), None),
    ("mod", (I64, I64), (-7, 3), -1),
    ("mod", (I64, I64), (7, -3), 1),
    ("mod", (I32, I32), (7, 0), ZERO),
    ("mod", (I64, I64), (None, 0), None),
    ("mod", (I64, I64), (-(2**63), -1), 0),
    ("mod", (F64, F64), (-7.5, 2.0), -1.5),
    ("mod", (F64, F64), (1.0, 0.0), ZERO),
    ("mod", (F64, F64), (1.0, NAN), NAN),
    # floats
    ("add", (F64, F64), (1e308, 1e308), INF),
    ("add", (I32, F32), (1, 0.5), 1.5),
    ("add", (F32, F32), (0.5, 0.25), 0.75),
    ("multiply", (F64, F64), (INF, 0.0), NAN),
    ("negate", (F64,), (0.0,), -0.0),
    ("abs", (F64,), (-0.0,), 0.0),
    ("add", (S, I32), ("41", 1), 42),
    ("add", (S, I32), ("x", 1), Fails("cannot read 'x' as bigint")),
    ("multiply", (S, F64), (" 1.5 ", 2.0), 3.0),
    # decimals
    ("add", (pa.decimal128(5, 2), pa.decimal128(5, 1)), (Dec("1.25"), Dec("0.5")), Dec("1.75")),
    ("add", (pa.decimal128(3, 1), I32), (Dec("1.5"), 2), Dec("3.5")),
    ("multiply", (pa.decimal128(5, 2), pa.decimal128(5, 2)), (Dec("1.25"), Dec("2.00")), Dec("2.5000")),
    ("divide", (pa.decimal128(3, 0), pa.decimal128(3, 0)), (Dec(1), Dec(3)), Dec("0.333333")),
    ("divide", (pa.decimal128(3, 0), pa.decimal128(3, 0)), (Dec(1), Dec(0)), ZERO),
    ("mod", (pa.decimal128(3, 1), pa.decimal128(3, 1)), (Dec("-7.5"), Dec("2.0")), Dec("-1.5")),
    ("integer_divide", (pa.decimal128(3, 1), pa.decimal128(3, 1)), (Dec("-7.5"), Dec("2.0")), -3),
    ("multiply", (pa.decimal128(38, 0), pa.decimal128(38, 0)), (Dec(10**37), Dec(10**37)), Fails("does not fit")),
    ("multiply", (pa.decimal128(38, 10), I64), (Dec("0.5"), 3), Dec("1.500000")),
    ("gt", (pa.decimal128(3, 1), I64), (Dec("1.5"), 1), True),
    ("eq", (pa.decimal128(3, 1), F64), (Dec("0.3"), 0.3), True),
    # comparisons
    ("eq", (I32, I64), (1, 1), True),
    ("eq", (I64, I64), (1, None), None),
    ("ne", (I64, I64), (1, 2), True),
    ("lt", (I32, F64), (1, 1.5), True),
    ("eq", (F64, F64), (NAN, NAN), True),
    ("ne", (F64, F64), (NAN, NAN), False),
    ("eq", (F64, F64), (NAN, 1.0), False),
    ("eq", (F64, F64), (-0.0, 0.0), True),
    ("lt", (F64, F64), (-0.0, 0.0), False),
    ("gt", (F64, F64), (NAN, INF), True),
    ("ge", (F64, F64), (NAN, NAN), True),
    ("gt", (F64, F64), (NAN, NAN), False),
    ("lt", (F64, F64), (1.0, NAN), True),
    ("lt", (F64, F64), (NAN, 1.0), False),
    ("le", (F64, F64), (1.0, NAN), True),
    ("le", (F64, F64), (NAN, NAN), True),
    ("le", (F64, F64), (NAN, 1.0), False),
    ("gt", (F64, F64), (1.0, NAN), False),
    ("ge", (F64, F64), (1.0, NAN), False),
    ("gt", (F32, F32), (NAN, 1.0), True),
    ("lt", (S, S), ("Z", "a"), True),
    ("lt", (S, S), ("～", "\U0001f600"), True),
    ("eq", (S, I32), (" 7 ", 7), True),
    ("eq", (S, D), ("2004-06-01", d(2004, 6, 1)), True),
    ("lt", (D, TS), (d(2004, 6, 1), t(2004, 6, 1, 0, 0, 1)), True),
    ("lt", (IV, IV), (iv(seconds=1), iv(minutes=1)), True),
    ("lt", (B, B), (False, True), True),
    ("null_safe_eq", (I64, I64), (None, None), True),
    ("null_safe_eq", (I64, I64), (None, 1), False),
    ("null_safe_eq", (F64, F64), (NAN, NAN), True),
    ("null_safe_eq", (I64, I64), (1, 1), True),
    # logic
    ("and", (B, B), (None, False), False),
    ("and", (B, B), (None, True), None),
    ("or", (B, B), (None, True), True),
    ("or", (B, B), (False, None), None),
    ("and", (B, B, B), (True, True, False), False),
    ("not", (B,), (None,), None),
    ("not", (B,), (True,), False),
    ("is_null", (I64,), (None,), True),
    ("is_null", (F64,), (NAN,), False),
    ("is_not_null", (S,), ("",), True),
    ("isnan", (F64,), (NAN,), True),
    ("isnan", (F64,), (None,), False),
    ("in", (I64, I64, I64), (2, 1, 2), True),
    ("in", (I64, I64, I64), (3, 1, 2), False),
    ("in", (I64, I64, I64), (3, 1, None), None),
    ("in", (I64, I64, I64), (1, 1, None), True),
    ("in", (I64, I64), (None, 1), None),
    ("in", (F64, F64, F64), (NAN, NAN, 1.0), True),
    ("in", (F64, F64), (-0.0, 0.0), True),
    ("in", (F64, F64), (0.0, -0.0), True),
    ("in", (S, S, S), ("b", "a", "b"), True),
    ("coalesce", (I64, I64, I64), (None, None, 3), 3),
    ("ifnull", (I32, F64), (None, 2.5), 2.5),
    ("nvl", (S, S), ("a", "b"), "a"),
    ("nullif", (I64, I64), (1, 1), None),
    ("nullif", (I64, I64), (1, 2), 1),
    ("nullif", (I64, I64), (1, None), 1),
    ("nullif", (F64, F64), (NAN, NAN), None),
    ("greatest", (I64, I64, I64), (1, None, 3), 3),
    ("greatest", (F64, F64), (1.0, NAN), NAN),
    ("least", (F64, F64), (1.0, NAN), 1.0),
    ("least", (F64, F64), (NAN, NAN), NAN),
    ("least", (S, S), ("b", "a"), "a"),
    ("greatest", (D, D), (d(2004, 6, 1), d(2005, 1, 1)), d(2005, 1, 1)),
    ("greatest", (B, B), (False, True), True),
    ("least", (IV, IV), (iv(seconds=1), None), iv(seconds=1)),
    ("if", (B, I64, I64), (True, 1, 2), 1),
    ("if", (B, I64, F64), (None, 1, 2.5), 2.5),
    # patterns
    ("like", (S, S), ("attack-a", "att%"), True),
    ("like", (S, S), ("attack-a", "%-a"), True),
    ("like", (S, S), ("attack-a", "%ack%"), True),
    ("like", (S, S), ("attack", "attack"), True),
    ("like", (S, S), ("attack", "a_t%k"), True),
    ("like", (S, S), ("a.c", "a.c"), True),
    ("like", (S, S), ("abc", "a.c"), False),
    ("like", (S, S), ("a\nc", "a%c"), True),
    ("like", (S, S), ("a\nc", "a_c"), True),
    ("like", (S, S), ("50%", r"50\%"), True),
    ("like", (S, S), ("501", r"50\%"), False),
    ("like", (S, S), ("a%b", r"%\%%"), True),
    ("like", (S, S, S), ("a%b", "a#%b", "#"), True),
    ("like", (S, S), ("x", r"a\b"), Fails("LIKE pattern")),
    ("like", (S, S), ("", ""), True),
    ("like", (S, S), ("", "%"), True),
    ("like", (S, S), (None, "%"), None),
    ("like", (S, S), ("a", None), None),
    ("like", (S, S), ("äß(", "_ß("), True),
    ("like", (S, S), ("ATTACK", "att%"), False),
    ("ilike", (S, S), ("ATTACK", "att%"), True),
    ("ilike", (S, S), ("ÄB", "ä_"), True),
    ("rlike", (S, S), ("abc123", "[0-9]+$"), True),
    ("rlike", (S, S), ("abc", "^b"), False),
    ("rlike", (S, S), ("abab", r"(ab)\1"), Fails("back-references are refused")),
    ("rlike", (S, S), ("ab", "(?=a)"), Fails("look-around and back-references are refused")),
    ("rlike", (S, S), ("ab", "(?<!a)b"), Fails("look-around and back-references are refused")),
    ("rlike", (S, S), ("x", "("), Fails("malformed")),
    ("regexp_like", (S, S), (None, "a"), None),
    ("regexp_extract", (S, S, I64), ("100-200", r"(\d+)-(\d+)", 2), "200"),
    ("regexp_extract", (S, S), ("100-200", r"(\d+)-(\d+)"), "100"),
    ("regexp_extract", (S, S, I64), ("a\n1 b2", "[a-z]([0-9])?", 0), "a"),
    ("regexp_extract", (S, S, I64), ("a1", "(b)?a", 1), ""),
    ("regexp_extract", (S, S, I64), ("abc", "([0-9])", 1), ""),
    ("regexp_extract", (S, S, I64), (None, "([0-9])", 1), None),
    ("regexp_extract", (S, S, I64), ("aab", "a+?", 0), "a"),
    ("regexp_extract", (S, S, I64), ("xay", "^a", 0), ""),
    ("regexp_extract", (S, S, I64), ("abc", "b", 1), Fails("has no group 1")),
    ("regexp_replace", (S, S, S), ("100-200", r"(\d+)", "num"), "num-num"),
    ("regexp_replace", (S, S, S), ("ab ab", "(a)(b)", "$2$1"), "ba ba"),
    ("regexp_replace", (S, S, S), ("a.b", r"\.", r"\$"), "a$b"),
    ("regexp_replace", (S, S, S), ("abc", "x", "y"), "abc"),
    ("regexp_replace", (S, S, S), (None, "x", "y"), None),
    ("regexp_replace", (S, S, S), ("abc", "a", "$1"), Fails("names a group")),
    ("regexp_replace", (S, S, S), ("abc", "a", "$"), Fails("stands for nothing")),
    ("regexp_replace", (S, S, S), ("abc", "(", "y"), Fails("malformed")),
    ("startswith", (S, S), ("abc", "ab"), True),
    ("endswith", (S, S), ("abc", "ab"), False),
    ("contains", (S, S), ("abc", "b"), True),
    ("matches", (S, S), ("an attack-a here", "attack-a"), True),
    ("match", (S, S), ("a.c", "b"), False),
    # texts
    ("upper", (S,), ("aß",), "ASS"),
    ("lower", (S,), ("ÄB",), "äb"),
    ("trim", (S,), ("  a b ",), "a b"),
    ("trim", (S,), ("\ta",), "\ta"),
    ("ltrim", (S, S), ("xxaxx", "x"), "axx"),
    ("rtrim", (S, S), ("xyaxy", "yx"), "xya"),
    ("trim", (S, S), (" a ", ""), " a "),
    ("length", (S,), ("äöü",), 3),
    ("char_length", (S,), ("",), 0),
    ("length", (I64,), (12345,), 5),
    ("substring", (S, I64, I64), ("stream", 2, 3), "tre"),
    ("substring", (S, I64, I64), ("stream", 0, 3), "str"),
    ("substring", (S, I64, I64), ("stream", -3, 2), "ea"),
    ("substring", (S, I64, I64), ("stream", -3, 20), "eam"),
    ("substring", (S, I64, I64), ("stream", -8, 4), "st"),
    ("substring", (S, I64, I64), ("stream", -8, 2), ""),
    ("substring", (S, I64, I64), ("stream", 3, -1), ""),
    ("substring", (S, I64, I64), ("stream", 9, 2), ""),
    ("substr", (S, I64), ("strëam", 4), "ëam"),
    ("substr", (S, I64), ("stream", -2), "am"),
    ("substr", (S, I64), ("stream", -20), "stream"),
    ("left", (S, I64), ("stream", 2), "st"),
    ("left", (S, I64), ("stream", -2), ""),
    ("right", (S, I64), ("stream", 2), "am"),
    ("right", (S, I64), ("stream", 0), ""),
    ("right", (S, I64), ("st", 9), "st"),
    ("concat", (S, S, S), ("a", "b", "c"), "abc"),
    ("concat", (S, S), ("a", None), None),
    ("concat", (S, I64), ("n=", 5), "n=5"),
    ("replace", (S, S, S), ("banana", "an", "x"), "bxxa"),
    ("replace", (S, S), ("banana", "an"), "ba"),
    ("replace", (S, S, S), ("banana", "", "x"), "banana"),
    ("instr", (S, S), ("banana", "an"), 2),
    ("instr", (S, S), ("bänana", "an"), 4),
    ("instr", (S, S), ("banana", "z"), 0),
    ("locate", (S, S), ("an", "banana"), 2),
    ("position", (S, S, I64), ("an", "banana", 3), 4),
    ("locate", (S, S, I64), ("an", "banana", 0), 0),
    ("lpad", (S, I64, S), ("5", 3, "0"), "005"),
    ("lpad", (S, I64), ("abc", 2), "ab"),
    ("rpad", (S, I64, S), ("5", 4, "ab"), "5aba"),
    ("reverse", (S,), ("äbc",), "cbä"),
    ("repeat", (S, I64), ("ab", 2), "abab"),
    ("repeat", (S, I64), ("ab", -2), ""),
    ("repeat", (S, I64), ("ab", 2**62), Fails("too long")),
    ("lpad", (S, I64), ("ab", 2**62), Fails("too long")),
    ("split_part", (S, S, I64), ("a-b-c", "-", 2), "b"),
    ("split_part", (S, S, I64), ("a-b-c", "-", -1), "c"),
    ("split_part", (S, S, I64), ("a-b-c", "-", 9), ""),
    ("split_part", (S, S, I64), ("a-b-c", "-", 0), Fails("must not be 0")),
    ("ascii", (S,), ("A",), 65),
    ("initcap", (S,), ("hELLO wORLD",), "Hello World"),
    # mathematics
    ("sqrt", (F64,), (-1.0,), NAN),
    ("sqrt", (I64,), (9,), 3.0),
    ("ln", (F64,), (0.0,), None),
    ("ln", (F64,), (-1.0,), None),
    ("ln", (F64,), (1.0,), 0.0),
    ("ln", (F64,), (NAN,), NAN),
    ("log", (F64,), (0.0,), None),
    ("log", (F64, F64), (2.0, 8.0), 3.0),
    ("log", (F64, F64), (2.0, 0.0), None),
    ("log10", (F64,), (1000.0,), 3.0),
    ("log2", (F64,), (8.0,), 3.0),
    ("exp", (F64,), (0.0,), 1.0),
    ("power", (I64, I64), (2, 10), 1024.0),
    ("pow", (F64, F64), (1.0, NAN), NAN),
    ("pow", (F64, F64), (NAN, 0.0), 1.0),
    ("sin", (F64,), (INF,), NAN),
    ("asin", (F64,), (2.0,), NAN),
    ("atan2", (F64, F64), (0.0, 1.0), 0.0),
    ("tanh", (F64,), (0.0,), 0.0),
    ("cbrt", (F64,), (27.0,), 3.0),
    ("hypot", (F64, F64), (3.0, 4.0), 5.0),
    ("sign", (I64,), (-5,), -1.0),
    ("degrees", (F64,), (0.0,), 0.0),
    ("radians", (F64,), (180.0,), 3.141592653589793),
    ("ceil", (F64,), (1.2,), 2),
    ("ceil", (F64,), (-1.2,), -1),
    ("floor", (F64,), (-1.2,), -2),
    ("floor", (F64,), (1e300,), Fails("integer overflow")),
    ("floor", (F64,), (-1e300,), Fails("integer overflow")),
    ("ceil", (F64,), (2.0**63,), Fails("integer overflow")),
    ("ceil", (F64,), (-INF,), Fails("integer overflow")),
    ("ceil", (pa.float32(),), (1e20,), Fails("integer overflow")),
    ("ceil", (F64,), (2.0**63 - 1024,), 2**63 - 1024),
    ("floor", (F64,), (-(2.0**63),), -(2**63)),
    ("floor", (F64,), (None,), None),
    ("floor", (F64,), (NAN,), 0),
    ("floor", (I32,), (5,), 5),
    ("ceiling", (pa.decimal128(3, 1),), (Dec("1.2"),), Dec("2")),
    ("round", (F64,), (2.5,), 3.0),
    ("round", (F64,), (-2.5,), -3.0),
    ("round", (F64,), (0.49999999999999994,), 0.0),
    ("round", (F64, I64), (2.675, 2), 2.68),
    ("round", (F64, I64), (1.005, 2), 1.01),
    ("round", (F64, I64), (1.2345, 3), 1.235),
    ("round", (F64, I64), (1250.0, -2), 1300.0),
    ("round", (F64, I64), (1e300, 2), 1e300),
    ("round", (F64, I64), (NAN, 2), NAN),
    ("round", (F64, I64), (5.5, -(2**63)), 0.0),
    ("round", (I64, I64), (5, -(2**63)), 0),
    ("round", (F64, I64), (5.5, 2**63 - 1), 5.5),
    ("round", (I32, I64), (-155, -1), -160),
    ("round", (I64,), (7,), 7),
    ("round", (I8, I64), (127, -1), OVERFLOW),
    ("round", (pa.decimal128(5, 2), I64), (Dec("2.65"), 1), Dec("2.70")),
    # dates and times
    ("year", (TS,), (t(2004, 6, 1, 12, 30, 45),), 2004),
    ("month", (D,), (d(2004, 6, 1),), 6),
    ("day", (S,), ("2004-06-09",), 9),
    ("hour", (TS,), (t(2004, 6, 1, 12, 30, 45),), 12),
    ("minute", (TS,), (t(1969, 12, 31, 23, 59, 59),), 59),
    ("second", (TS,), (t(2004, 6, 1, 12, 30, 45, 999999),), 45),
    ("dayofweek", (D,), (d(2004, 6, 6),), 1),
    ("weekday", (D,), (d(2004, 6, 6),), 6),
    ("dayofyear", (D,), (d(2004, 12, 31),), 366),
    ("quarter", (D,), (d(2004, 6, 1),), 2),
    ("week", (D,), (d(2005, 1, 1),), 53),
    ("date_trunc", (S, TS), ("HOUR", t(2004, 6, 1, 12, 30)), t(2004, 6, 1, 12)),
    ("date_trunc", (S, TS), ("week", t(2004, 6, 6, 12, 30)), t(2004, 5, 31)),
    ("date_trunc", (S, TS), ("quarter", t(2004, 6, 6)), t(2004, 4, 1)),
    ("date_trunc", (S, TS), ("day", t(1969, 12, 31, 5)), t(1969, 12, 31)),
    ("date_trunc", (S, TS), ("fortnight", t(2004, 6, 6)), None),
    (
        "date_format",
        (TS, S),
        (t(2004, 6, 1, 12, 30, 5, 70), "yyyy-MM-dd HH:mm:ss.SSSSSS"),
        "2004-06-01 12:30:05.000070",
    ),
    ("date_format", (TS, S), (t(2004, 6, 1, 0, 3), "EEEE d. MMMM yy, h:mm a"), "Tuesday 1. June 04, 12:03 AM"),
    ("date_format", (TS, S), (t(1969, 12, 31, 23, 59), "D DDD E MMM H m s S"), "365 365 Wed Dec 23 59 0 0"),
    ("date_format", (D, S), (d(204, 6, 1), "yyyy'T'M"), "0204T6"),
    ("date_format", (TS, S), (t(2004, 6, 1), "''yy"), "'04"),
    ("date_format", (TS, S), (None, "yy"), None),
    ("date_format", (TS, S), (t(2004, 6, 1), None), None),
    ("date_format", (TS, S), (t(2004, 6, 1), "VV"), Fails("does not support 'VV'")),
    ("date_format", (TS, S), (t(2004, 6, 1), "yy'"), Fails("not closed")),
    ("date_add", (D, I64), (d(2004, 2, 28), 2), d(2004, 3, 1)),
    ("date_sub", (D, I32), (d(2004, 3, 1), 1), d(2004, 2, 29)),
    ("date_add", (D, I64), (d(2004, 3, 1), 2**40), Fails("date overflow")),
    ("add", (D, I32), (d(2004, 3, 1), 1), d(2004, 3, 2)),
    ("datediff", (D, D), (d(2004, 3, 1), d(2004, 2, 28)), 2),
    ("to_date", (S,), ("2004-6-1",), d(2004, 6, 1)),
    ("to_timestamp", (S,), ("2004-06-01 12:00:00.5",), t(2004, 6, 1, 12, 0, 0, 500000)),
    ("unix_micros", (TS,), (t(1970, 1, 1, 0, 0, 1),), 1_000_000),
    ("unix_millis", (TS,), (t(1969, 12, 31, 23, 59, 59, 999_999),), -1),
    ("unix_seconds", (TS,), (t(1969, 12, 31, 23, 59, 59, 999_999),), -1),
    ("timestamp_micros", (I64,), (1_500_000,), t(1970, 1, 1, 0, 0, 1, 500000)),
    ("timestamp_seconds", (I64,), (-1,), t(1969, 12, 31, 23, 59, 59)),
    ("timestamp_seconds", (I64,), (2**62,), OVERFLOW),
    ("timestamp_micros", (I64,), (2**62,), OVERFLOW),
    ("add", (TS, IV), (t(9999, 12, 31), iv(days=1)), OVERFLOW),
    ("date_sub", (D, I64), (d(1, 1, 1), 1), OVERFLOW),
    ("add", (TS, IV), (t(2004, 6, 1), iv(hours=1)), t(2004, 6, 1, 1)),
    ("add", (IV, TS), (iv(hours=1), t(2004, 6, 1)), t(2004, 6, 1, 1)),
    ("subtract", (D, IV), (d(2004, 6, 1), iv(hours=1)), t(2004, 5, 31, 23)),
    ("subtract", (TS, TS), (t(2004, 6, 1, 1), t(2004, 6, 1)), iv(hours=1)),
    ("subtract", (D, D), (d(2004, 6, 2), d(2004, 6, 1)), iv(days=1)),
    ("add", (IV, IV), (iv(hours=1), iv(minutes=1)), iv(minutes=61)),
    ("multiply", (IV, I64), (iv(hours=1), 3), iv(hours=3)),
    ("multiply", (F64, IV), (0.5, iv(hours=1)), iv(minutes=30)),
    ("divide", (IV, I64), (iv(hours=1), 2), iv(minutes=30)),
    ("divide", (IV, I64), (iv(hours=1), 0), ZERO),
    ("negate", (IV,), (iv(hours=1),), iv(hours=-1)),
    ("abs", (IV,), (iv(hours=-1),), iv(hours=1)),
]


def expression(name: str, types: tuple[pa.DataType, ...], values: tuple[Any, ...], literal: tuple[bool, ...]) -> Expr:
    args = [
        lit(v, ty) if fixed else col(f"c{i}", ty)
        for i, (ty, v, fixed) in enumerate(zip(types, values, literal, strict=True))
    ]
    return call(name, *args)


@pytest.mark.parametrize("line", TABLE, ids=[f"{n}{v}" for n, _, v, _ in TABLE])
def test_meaning(line: tuple[str, tuple[pa.DataType, ...], tuple[Any, ...], Any]) -> None:
    name, types, values, expected = line
    for literal in itertools.product((False, True), repeat=len(types)):
        e = expression(name, types, values, literal)
        # the row stands among NULL rows, and in a slice, so that offsets and validity are met too
        columns = {
            f"c{i}": pa.array([None, None, v, None, v], ty).slice(1)
            for i, (ty, v) in enumerate(zip(types, values, strict=True))
        }
        got, errors = run(e, 4, **columns)
        where = f"{e} literal={literal}"
        for row in (1, 3):
            if isinstance(expected, Fails):
                assert got[row] is None, where
                assert expected.part in errors[row], (where, errors)
            else:
                assert not errors.get(row), (where, errors)
                assert same(got[row], expected), (where, got[row], expected)


def test_pi() -> None:
    assert run(call("pi"), 2)[0] == [3.141592653589793] * 2


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_float_comparisons_are_a_total_order(name: str) -> None:
    values = [NAN, INF, 1.0, 0.0, -0.0, -INF, None]
    rank = {INF: 2, 1.0: 1, 0.0: 0, -INF: -1}
    for right_literal in (False, True):
        for b in values:
            e = call(name, col("a", F64), lit(b, F64) if right_literal else col("b", F64))
            got, _ = run(e, 7, a=pa.array(values), b=pa.array([b] * 7, F64))
            for a, g in zip(values, got, strict=True):
                if a is None or b is None:
                    assert g is None
                else:
                    x, y = (3 if v != v else rank[v] for v in (a, b))
                    assert g == getattr(operator, name)(x, y), (a, name, b)
