"""Literals: numbers, texts, dates, timestamps and intervals; and how they change their type.

``1.5`` and ``1e3`` are doubles. (Spark reads the first as a decimal; here that is ``CAST('1.5' AS DECIMAL(2,1))``.)
"""

from __future__ import annotations

import datetime
from decimal import Decimal, InvalidOperation

import pyarrow as pa
from sqlglot import exp

from eddyline.core.errors import Span, clipped, quoted
from eddyline.cql.places import span_of
from eddyline.cql.scope import Context
from eddyline.cql.windows import UNITS, unit_microseconds
from eddyline.expr.nodes import Cast, Expr, Literal
from eddyline.expr.types import BINARY, DATE, DOUBLE, DURATION, INT32, INT64, STRING, TIMESTAMP


def bind_number(text: str, span: Span | None, context: Context, node: exp.Expression) -> Literal:
    """The literal of a number as written, with its sign.

    An integer is an int if it fits, else a bigint, else a decimal.
    """
    digits = text.replace("_", "")
    try:
        if any(c in digits for c in ".eE"):
            return Literal(float(digits), DOUBLE, span)
        value = int(digits)
    except ValueError:
        raise context.error(f"{quoted(text)} is not a number.", node) from None
    if -(1 << 31) <= value < 1 << 31:
        return Literal(value, INT32, span)
    if -(1 << 63) <= value < 1 << 63:
        return Literal(value, INT64, span)
    length = len(str(abs(value)))
    if length > 38:
        raise context.error("a number has at most 38 digits.", node)
    return Literal(Decimal(value), pa.decimal128(length, 0), span)


def bind_literal(node: exp.Literal, context: Context) -> Literal:
    if node.is_string:
        return Literal(node.this, STRING, span_of(node))
    return bind_number(node.this, span_of(node), context, node)


def bind_bytes(text: str, context: Context, node: exp.Expression) -> Literal:
    try:
        return Literal(bytes.fromhex(text), BINARY, span_of(node))
    except ValueError:
        raise context.error(
            f"X'{clipped(text)}' is not a row of bytes: it needs pairs of hexadecimal digits.", node
        ) from None


def bind_date(text: str, context: Context, node: exp.Expression) -> Literal:
    try:
        return Literal(datetime.date.fromisoformat(text.strip()), DATE, span_of(node))
    except ValueError:
        raise context.error(f"{quoted(text)} is not a date; write DATE '2024-12-31'.", node) from None


def bind_timestamp(text: str, context: Context, node: exp.Expression) -> Literal:
    """Timestamps are UTC; an offset in the text is applied."""
    try:
        value = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        message = f"{quoted(text)} is not a timestamp; write TIMESTAMP '2024-12-31 23:59:59'."
        raise context.error(message, node) from None
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return Literal(value, TIMESTAMP, span_of(node))


def interval_unit(node: exp.Interval, context: Context) -> int:
    """The unit of an interval in microseconds."""
    unit = node.args.get("unit")
    if unit is None or not isinstance(unit, exp.Var):
        raise context.error(f"an interval needs one unit: INTERVAL '5' SECOND. Units are {', '.join(UNITS)}.", node)
    micro = unit_microseconds(unit.name)
    if micro is None:
        if unit.name.lower().removesuffix("s") in ("month", "year", "quarter"):
            message = f"{unit.name.lower()}s have no fixed length; use days."
        else:
            message = f"unknown unit {unit.name!r}; units are {', '.join(UNITS)}."
        raise context.error(message, node)
    return micro


def bind_interval(node: exp.Interval, context: Context) -> Literal:
    """``INTERVAL '5' SECOND`` with a literal amount."""
    micro = interval_unit(node, context)
    try:
        ticks = Decimal(node.this.name.strip()) * micro
    except InvalidOperation:
        raise context.error(f"{node.this.name!r} is not the length of an interval.", node) from None
    if ticks != ticks.to_integral_value():
        raise context.error("an interval is a whole number of microseconds.", node)
    try:
        value = datetime.timedelta(microseconds=int(ticks))
    except OverflowError:
        raise context.error("this interval is too long.", node) from None
    return Literal(value, DURATION, span_of(node))


def coerce(e: Expr, target: pa.DataType) -> Expr:
    """An expression of the wanted type; number literals change their type instead of being cast for every row."""
    if e.type == target:
        return e
    if isinstance(e, Literal):
        if e.value is None:
            return Literal(None, target, e.span)
        if isinstance(e.value, int) and not isinstance(e.value, bool):
            if target == INT64:
                return Literal(e.value, target, e.span)
            if target == DOUBLE and abs(e.value) <= 1 << 53:
                return Literal(float(e.value), target, e.span)
    return Cast(e, target, False, e.span)
