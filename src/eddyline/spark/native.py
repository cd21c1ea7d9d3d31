"""Expressions that Spark can compute by itself, in the JVM, with exactly the engine's meaning.

What is translated must (1) never fail, because errors follow the engine's own rules (``expr.predicates``), and
(2) give the same bits. So these stay in Python: whatever the compiled expression says can fail; users' functions;
regular expressions, and upper and lower case (other engines, other Unicode tables); functions that a C library and Java
round differently (``exp``, ``sin``, a double as text); fields of an instant (``hour(ts)``), which Spark would take in
its session's time zone. An expression without columns is computed here and now by the engine, and travels as a literal.

*Floats and files.* Spark pushes comparisons into Parquet and ORC readers. Their statistics ignore NaN and distinguish
−0.0 from 0.0, but for Spark's own operators NaN is the largest number and the zeros are equal: pushed down, ``x > 5``
loses NaN and ``x = 0`` loses −0.0. A float operand is therefore hidden from the readers behind ``nanvl(x, NaN)``, which
is ``x``, unless it is compared by =, < or <= with a literal other than zero and NaN, where both views agree.

Translating needs no Spark session; only making the ``Column`` does, on classic Spark.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from eddyline.expr import types as t
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Call, Case, Cast, Column, Expr, Literal, UserCall, columns_of, walk
from eddyline.spark.types import made_of_ntz, spark_type

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_MAX_COMPARISONS: Final = 100  # that replace an IN of floats; a longer IN stays in Python
_MAX_WILDCARDS: Final = 3
_INT32: Final = range(-(1 << 31), 1 << 31)
_COMPARISONS: Final[dict[str, Callable[[SparkColumn, SparkColumn], SparkColumn]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "null_safe_eq": lambda a, b: a.eqNullSafe(b),
}


class _NotNative(Exception):
    """This expression stays in Python."""


Names = Mapping[str, SparkColumn]
_Build = Callable[[Names], SparkColumn]


@dataclass(frozen=True, slots=True)
class Native:
    """An expression that Spark can compute: ``build`` makes it over the Spark columns of the plan's names.

    ``ntz`` says which of Spark's two kinds a timestamp is (None: a literal, which can be either); ``value`` is the
    Python value of a literal.
    """

    build: _Build
    type: pa.DataType
    ntz: bool | None = False
    literal: bool = False
    value: Any = None


def native(expr: Expr, ntz: Collection[str] = ()) -> Native | None:
    """The native form of an expression, or None if the engine has to compute it.

    ``ntz`` are the plan names whose columns are ``TimestampNTZType``.

    >>> x = Column("x", t.DOUBLE)
    >>> native(Call("sqrt", (x,), t.DOUBLE)) is None, native(Call("exp", (x,), t.DOUBLE)) is None
    (False, True)
    """
    if compile_expr(expr).can_fail:
        return None
    try:
        found = _Translation(ntz).translate(expr, pushed=True)
        if expr.type == t.TIMESTAMP:
            return replace(found, build=_as_kind(found, made_of_ntz([expr], ntz)))
        return found
    except _NotNative:
        return None


def why_not(expr: Expr) -> str | None:
    """Why an expression stays in Python, for people; None for one that calls their own functions, or is native.

    >>> text = Column("text", t.STRING)
    >>> why_not(Call("rlike", (text, Literal("a+b", t.STRING)), t.BOOLEAN))
    'regular expressions mean other things in Java'
    """
    parts = list(walk(expr))
    if any(isinstance(e, UserCall) for e in parts):
        return None
    if any(isinstance(e, Call) and e.function == "rlike" for e in parts):
        return "regular expressions mean other things in Java"
    if any(map(_many_wildcards, parts)):
        return "with so many wildcards Java takes longer than to ship the row"
    if compile_expr(expr).can_fail:
        return "it can fail, and an error is discarded where another condition drops the row"
    return None if native(expr) is not None else "Spark would compute it otherwise"


def to_column(expr: Expr, names: Names, ntz: Collection[str] = ()) -> SparkColumn | None:
    """``native`` over these columns, one for each plan name that the expression reads."""
    found = native(expr, ntz)
    return None if found is None else found.build(names)


def literal(value: Any, type: pa.DataType) -> SparkColumn:
    """A Python value as a Spark literal of the engine's type; a timestamp becomes an instant."""
    if value is None:
        return F.lit(None) if type == t.NULL else F.lit(None).cast(spark_type(type))
    if type == t.TIMESTAMP:
        return F.timestamp_micros(F.lit((value - _EPOCH) // _MICROSECOND))
    if type == t.DATE:
        return F.date_from_unix_date(F.lit((value - _EPOCH.date()).days))
    if type in (t.BOOLEAN, t.STRING, t.DOUBLE, t.BINARY, t.DURATION):
        return F.lit(value)
    return F.lit(value).cast(spark_type(type))


def _as_kind(value: Native, ntz: bool) -> _Build:
    """A timestamp as the wanted kind; from one kind to the other Spark would ask its session's zone."""
    if value.ntz is None and ntz:
        text = None if value.value is None else value.value.isoformat(" ")
        return lambda names: F.lit(text).cast("timestamp_ntz")
    if value.ntz not in (None, ntz):
        raise _NotNative
    return value.build


def _apply(function: Callable[..., SparkColumn], parts: Sequence[_Build]) -> _Build:
    return lambda names: function(*(p(names) for p in parts))


class _Translation:
    def __init__(self, ntz: Collection[str]) -> None:
        self.ntz = ntz

    def translate(self, e: Expr, pushed: bool = False) -> Native:
        """``pushed``: the expression is a filter, or a branch of its ANDs and ORs, so Spark may push it into a reader.
        Anything else is treated as if Spark might turn it round first (``NOT x <= 5`` becomes ``x > 5``)."""
        if isinstance(e, Column):
            name = e.name
            return Native(lambda names: names[name], e.type, name in self.ntz if e.type == t.TIMESTAMP else False)
        if not columns_of(e):
            return self.fold(e)
        match e:
            case Cast():
                return self.cast(e)
            case Case(branches=branches, default=default):
                return self.case(branches, default, e.type)
            case Call(function="if", args=(condition, then, otherwise)):
                return self.case(((condition, then),), otherwise, e.type)
            case Call(function="and" | "or" as name, args=args):
                parts = [self.translate(a, pushed).build for a in args]
                return Native(_apply(lambda *c: reduce(and_ if name == "and" else or_, c), parts), e.type)
            case Call(function=name, args=(a, b)) if name in _COMPARISONS:
                return Native(self.compare(name, self.translate(a), self.translate(b), pushed), e.type)
            case Call(function="in", args=(tested, *listed)):
                return Native(self.member(tested, listed, pushed), e.type)
            case Call(function="nullif", args=(a, b)) if e.type != t.TIMESTAMP:
                x, y = self.translate(a), self.translate(b)
                equal, nothing = self.compare("eq", x, y, False), Literal(None, e.type)
                parts = [equal, self.fold(nothing).build, x.build]
                return Native(_apply(lambda c, none, v: F.when(c, none).otherwise(v), parts), e.type)
            case Call(function=name, args=args) if name in _FUNCTIONS:
                return self.call(e, [self.translate(a) for a in args])
        raise _NotNative

    def fold(self, e: Expr) -> Native:
        if any(isinstance(x, UserCall) for x in walk(e)):
            raise _NotNative
        value = e.value if isinstance(e, Literal) else compile_expr(e)({}, 1)[0].as_py()
        return Native(lambda _: literal(value, e.type), e.type, None if e.type == t.TIMESTAMP else False, True, value)

    def aligned(self, values: Sequence[Native]) -> tuple[list[_Build], bool | None]:
        """Timestamps brought to one kind; other values as they are."""
        if values[0].type != t.TIMESTAMP:
            return [v.build for v in values], False
        kinds = {v.ntz for v in values if v.ntz is not None}
        if len(kinds) != 1:  # both kinds, or literals alone (which were folded before)
            raise _NotNative
        (kind,) = kinds
        return [_as_kind(v, kind) for v in values], kind

    def compare(self, name: str, a: Native, b: Native, pushed: bool) -> _Build:
        if not t.is_float(a.type):
            return _apply(_COMPARISONS[name], self.aligned((a, b))[0])
        if a.literal:
            agreed = pushed and name in ("eq", "gt", "ge") and _ordinary(a)
        else:
            agreed = pushed and name in ("eq", "lt", "le") and b.literal and _ordinary(b)
        return _apply(_COMPARISONS[name], [v.build if agreed or v.literal else _hidden(v) for v in (a, b)])

    def member(self, tested: Expr, listed: Sequence[Expr], pushed: bool) -> _Build:
        x, values = self.translate(tested), [self.translate(e) for e in listed]
        if not t.is_float(x.type):
            return _apply(lambda column, *others: column.isin(list(others)), self.aligned((x, *values))[0])
        # Spark hashes long lists, and −0.0 and 0.0 have different hashes.
        if len(values) > _MAX_COMPARISONS:
            raise _NotNative
        return _apply(lambda *c: reduce(or_, c), [self.compare("eq", x, v, pushed) for v in values])

    def case(self, branches: Sequence[tuple[Expr, Expr]], default: Expr, type: pa.DataType) -> Native:
        conditions = [self.translate(c).build for c, _ in branches]
        values, kind = self.aligned([self.translate(v) for v in (*(v for _, v in branches), default)])

        def build(names: Names) -> SparkColumn:
            chain: Any = F
            for condition, value in zip(conditions, values, strict=False):
                chain = chain.when(condition(names), value(names))
            made: SparkColumn = chain.otherwise(values[-1](names))
            return made

        return Native(build, type, kind)

    def call(self, e: Call, args: Sequence[Native]) -> Native:
        parts, kind = self.aligned(args) if e.function in _ALIKE else ([a.build for a in args], False)
        function = _FUNCTIONS[e.function](e, args)
        if function is None:
            raise _NotNative
        return Native(_apply(function, parts), e.type, kind)

    def cast(self, e: Cast) -> Native:
        operand = self.translate(e.operand)
        source, target = operand.type, e.type
        if source == target:
            return operand
        if source == t.DATE and target == t.TIMESTAMP:
            return Native(_apply(lambda c: c.cast("timestamp_ntz"), [operand.build]), target, True)
        if source == t.TIMESTAMP and (target, operand.ntz) not in ((t.DATE, True), (t.DOUBLE, False)):
            raise _NotNative
        if (e.safe and t.cast_can_fail(source, target)) or not _same_cast(source, target):
            raise _NotNative
        return Native(_apply(lambda c: c.cast(spark_type(target)), [operand.build]), target)


def _ordinary(v: Native) -> bool:
    return v.value is not None and v.value != 0 and not math.isnan(v.value)


def _hidden(v: Native) -> _Build:
    return _apply(lambda c: F.nanvl(c, literal(math.nan, v.type)), [v.build])


def _same_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether Spark's cast gives what the engine's does, for a cast that cannot fail."""
    if target == t.STRING:
        return t.is_integer(source) or source in (t.BOOLEAN, t.DATE)
    if source == t.STRING:
        return bool(target == t.BINARY)
    if t.is_decimal(source):
        return bool(target in (t.DOUBLE, t.BOOLEAN) or t.is_decimal(target))
    return True


# ── functions: for a call and its translated arguments, the function of their columns; None for "not this one" ────────

_Function = Callable[..., SparkColumn]
_Chooser = Callable[[Call, Sequence[Native]], _Function | None]


def _plain(function: _Function) -> _Chooser:
    return lambda e, args: function


def _inexact(function: _Function) -> _Chooser:
    """Integers overflow, so what gets here is a float, or a decimal whose result has digits enough."""
    return lambda e, args: None if t.is_integer(e.type) else lambda *c: function(*c).cast(spark_type(e.type))


def _by_literal(function: _Function) -> _Chooser:
    """Division by a literal that is neither zero nor (for integers) −1."""
    return lambda e, args: function if args[1].literal and args[1].value not in (None, 0, -1) else None


def _with_positions(function: _Function) -> _Chooser:
    """A text and literal positions, which Spark wants as 32-bit integers."""

    def choose(e: Call, args: Sequence[Native]) -> _Function | None:
        numbers = [a.value for a in args[1:] if a.value is not None and a.value in _INT32]
        return (lambda text, *_: function(text, *numbers)) if len(numbers) == len(args) - 1 else None

    return choose


def _with_texts(function: _Function) -> _Chooser:
    """A text and literals that are not empty."""
    return lambda e, args: function if all(a.value for a in args[1:]) else None


def _extreme(function: _Function) -> _Chooser:
    """Of floats −0.0 and 0.0 are equal, and which of them is kept would differ."""
    return lambda e, args: None if t.is_float(e.type) or e.type == t.BINARY else function


def _many_wildcards(e: Expr) -> bool:
    """Java tries all ways to place the texts between the wildcards of LIKE: with four of them, on 200 bytes, some 70 µs
    a row, where to ship the row takes 3 µs and RE2 reads it once."""
    match e:
        case Call(function="like", args=(_, Literal(value=str(pattern)), *_)):
            return pattern.count("%") > _MAX_WILDCARDS
    return False


def _of_instant(function: _Function) -> _Chooser:
    return lambda e, args: function if args[0].ntz is False else None


def _of_clock(function: _Function, of_date: bool = True) -> _Chooser:
    """A field of an NTZ (or of a date), which is the same in every time zone."""
    chosen = (lambda c: function(c.cast("date"))) if of_date else function
    return lambda e, args: chosen if args[0].ntz else None


_ALIKE: Final = ("coalesce", "greatest", "least", "to_timestamp")
_FUNCTIONS: Final[dict[str, _Chooser]] = {
    "not": _plain(lambda a: ~a),
    "is_null": _plain(lambda a: a.isNull()),
    "is_not_null": _plain(lambda a: a.isNotNull()),
    "isnan": _plain(F.isnan),
    "coalesce": _plain(F.coalesce),
    "greatest": _extreme(F.greatest),
    "least": _extreme(F.least),
    "to_date": _plain(lambda a: a),
    "to_timestamp": _plain(lambda a: a),
    # texts
    "like": lambda e, args: None if _many_wildcards(e) else F.like,
    "startswith": _plain(F.startswith),
    "endswith": _plain(F.endswith),
    "contains": _plain(F.contains),
    "length": _plain(F.length),
    "reverse": _plain(F.reverse),
    "concat": _plain(F.concat),
    "substring": _with_positions(lambda text, start, length=(1 << 31) - 1: F.substring(text, start, length)),
    "left": _with_positions(lambda text, count: F.substring(text, 1, count)),
    "trim": _with_texts(F.trim),
    "ltrim": _with_texts(F.ltrim),
    "rtrim": _with_texts(F.rtrim),
    "replace": _with_texts(F.replace),
    "instr": _with_texts(F.instr),
    # numbers
    "add": _inexact(lambda a, b: a + b),
    "subtract": _inexact(lambda a, b: a - b),
    "multiply": _inexact(lambda a, b: a * b),
    "negate": _inexact(lambda a: -a),
    "abs": _inexact(F.abs),
    "divide": _by_literal(lambda a, b: a / b),
    "mod": _by_literal(lambda a, b: a % b),
    "integer_divide": _by_literal(lambda a, b: F.call_function("div", a, b)),
    "sqrt": _plain(F.sqrt),
    # dates and times
    "datediff": _plain(F.datediff),
    "unix_date": _plain(F.unix_date),
    "unix_micros": _of_instant(F.unix_micros),
    "unix_millis": _of_instant(F.unix_millis),
    "unix_seconds": _of_instant(F.unix_seconds),
    "year": _of_clock(F.year),
    "quarter": _of_clock(F.quarter),
    "month": _of_clock(F.month),
    "week": _of_clock(F.weekofyear),
    "day": _of_clock(F.dayofmonth),
    "dayofyear": _of_clock(F.dayofyear),
    "dayofweek": _of_clock(F.dayofweek),
    "weekday": _of_clock(F.weekday),
    "hour": _of_clock(F.hour, of_date=False),
    "minute": _of_clock(F.minute, of_date=False),
    "second": _of_clock(F.second, of_date=False),
}
