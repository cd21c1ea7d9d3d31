"""Expressions as text, for errors, ``explain`` and printing plans.

Casts that the binder inserted are not shown, so that an error says ``a / b`` as the user wrote it. They have no place
of their own in the text: no span, or the span of their operand.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from typing import Any

from eddyline.expr.nodes import AggregateCall, Call, Case, Cast, Column, Expr, Literal, UserCall
from eddyline.expr.types import type_name

# name → (symbol, precedence); a higher number binds tighter
_INFIX: dict[str, tuple[str, int]] = {
    "or": ("OR", 1),
    "and": ("AND", 2),
    "eq": ("=", 4),
    "ne": ("<>", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "null_safe_eq": ("<=>", 4),
    "like": ("LIKE", 4),
    "ilike": ("ILIKE", 4),
    "rlike": ("RLIKE", 4),
    "concat": ("||", 5),
    "add": ("+", 6),
    "subtract": ("-", 6),
    "multiply": ("*", 7),
    "divide": ("/", 7),
    "integer_divide": ("div", 7),
    "mod": ("%", 7),
}
_NOT, _POSTFIX, _NEGATE, _ATOM = 3, 4, 8, 9


_INTERNAL = re.compile(r"\x00outer:|\b_sub\d+[./]")  # what the binder puts before columns of and around subqueries


def as_written(e: Expr) -> str:
    """The text of an expression for a message: columns have the names of the query, not those of the plan.

    >>> import pyarrow as pa
    >>> as_written(Column("_sub1/q.x", pa.string())), as_written(Column("\\x00outer:p.k", pa.string()))
    ('q.x', 'p.k')
    """
    return _INTERNAL.sub("", describe(e))


def describe(e: Expr) -> str:
    """The text of an expression.

    >>> import pyarrow as pa
    >>> a, b = Column("a", pa.int64()), Column("b", pa.int64())
    >>> describe(Call("multiply", (Call("add", (a, b), pa.int64()), Literal(2, pa.int64())), pa.int64()))
    '(a + b) * 2'
    """
    return _text(e)[0]


def describe_aggregate(call: AggregateCall) -> str:
    """The text of an aggregate call."""
    name = call.user.name if call.user is not None else call.function
    inside = ", ".join((*map(describe, call.args), *map(literal_text, call.parameters))) or "*"
    return f"{name}({'DISTINCT ' if call.distinct else ''}{inside})"


def literal_text(value: Any) -> str:
    """A Python value as a literal.

    >>> literal_text("it's"), literal_text(None), literal_text(datetime.date(2004, 6, 1))
    ("'it''s'", 'NULL', "DATE '2004-06-01'")
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex().upper()}'"
        case datetime.datetime():
            return f"TIMESTAMP '{value}'"
        case datetime.date():
            return f"DATE '{value}'"
        case datetime.timedelta():
            return _interval_text(value)
        case decimal.Decimal():
            return format(value, "f")
        case float() if not math.isfinite(value):
            return f"CAST('{value}' AS double)"
        case _:
            return repr(value)


def _interval_text(span: datetime.timedelta) -> str:
    micros = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
    for unit, size in (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000)):
        if micros and micros % size == 0:
            return f"INTERVAL '{micros // size}' {unit}"
    return f"INTERVAL '{decimal.Decimal(micros).scaleb(-6):f}' SECOND"


def _text(e: Expr) -> tuple[str, int]:
    """The text and how tightly its outermost operator binds."""
    match e:
        case Column(name=name):
            return name, _ATOM
        case Literal(value=value):
            negative = isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool) and value < 0
            return literal_text(value), _NEGATE if negative else _ATOM
        case Cast(operand=operand, safe=safe, span=span):
            if not safe and span in (None, operand.span):
                return _text(operand)
            return f"{'TRY_CAST' if safe else 'CAST'}({describe(operand)} AS {type_name(e.type)})", _ATOM
        case Case(branches=branches, default=default):
            whens = " ".join(f"WHEN {describe(c)} THEN {describe(v)}" for c, v in branches)
            no_else = isinstance(default, Literal) and default.value is None
            return f"CASE {whens}{'' if no_else else f' ELSE {describe(default)}'} END", _ATOM
        case UserCall(function=function, args=args):
            return f"{function.name}({', '.join(map(describe, args))})", _ATOM
        case Call():
            return _call_text(e)


def _inside(e: Expr, least: int) -> str:
    text, strength = _text(e)
    return text if strength >= least else f"({text})"


def _call_text(e: Call) -> tuple[str, int]:
    name, args = e.function, e.args
    if name in _INFIX and (len(args) == 2 or (name in ("and", "or", "concat") and len(args) > 2)):
        symbol, strength = _INFIX[name]
        chained = name in ("and", "or", "concat")
        # a - (b - c) and a = (b = c) need their parentheses, a - b - c does not; comparisons never chain
        first = _inside(args[0], strength + 1 if strength == 4 else strength)
        rest = (_inside(a, strength if chained else strength + 1) for a in args[1:])
        return f" {symbol} ".join((first, *rest)), strength
    match name, args:
        case "not", (Call(function="in" | "like" | "ilike" | "rlike", args=inner) as call,):
            return _negated(call, inner), _POSTFIX
        case "not", (operand,):
            return f"NOT {_inside(operand, _NOT)}", _NOT
        case "is_null", (operand,):
            return f"{_inside(operand, _POSTFIX + 1)} IS NULL", _POSTFIX
        case "is_not_null", (operand,):
            return f"{_inside(operand, _POSTFIX + 1)} IS NOT NULL", _POSTFIX
        case "negate", (operand,):
            return f"-{_inside(operand, _NEGATE + 1)}", _NEGATE
        case "in", (tested, *listed):
            return f"{_inside(tested, _POSTFIX + 1)} IN ({', '.join(map(describe, listed))})", _POSTFIX
        case (("like" | "ilike"), (text, pattern, escape)):
            symbol = _INFIX[name][0]
            return f"{_inside(text, 5)} {symbol} {_inside(pattern, 5)} ESCAPE {describe(escape)}", _POSTFIX
    return f"{name}({', '.join(map(describe, args))})", _ATOM


def _negated(call: Call, inner: tuple[Expr, ...]) -> str:
    positive = _call_text(call)[0]
    tested = _inside(inner[0], _POSTFIX + 1)
    return f"{tested} NOT{positive[len(tested) :]}"
