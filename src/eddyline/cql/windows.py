"""Widths and windows: from syntax to ticks and to the specifications of ``core.window``.

A bare number counts ticks of an integer time and seconds of a timestamp; a unit on an integer time takes the time as
seconds. Nothing is rounded: a width that is no whole number of ticks is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from sqlglot import exp

from eddyline.core.errors import CqlError, Span, did_you_mean
from eddyline.core.time import TimeKind
from eddyline.core.window import Hop, PartitionRows, Range, Rows, Session, Slide, Unbounded, Until, WindowSpec
from eddyline.cql.places import span_of
from eddyline.cql.window_syntax import Duration, WindowClause

_MICROSECONDS: Final = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_SHORT: Final = {
    "us": "microsecond",
    "µs": "microsecond",
    "micro": "microsecond",
    "ms": "millisecond",
    "milli": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "m": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
}
UNITS: Final = tuple(_MICROSECONDS)


@dataclass(frozen=True, slots=True)
class IntervalText:
    """A width as written: ``5 SECONDS``, or ``5`` with ``unit`` None."""

    amount: Decimal
    unit: str | None
    text: str = field(default="", repr=False, compare=False)
    span: Span | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.amount}" if self.unit is None else f"{self.amount} {self.unit}"


def unit_microseconds(unit: str) -> int | None:
    """The length of a unit, in the singular or plural or shortened.

    >>> unit_microseconds("Minutes"), unit_microseconds("ms"), unit_microseconds("parsec")
    (60000000, 1000, None)
    """
    name = unit.lower()
    for candidate in (name, name.removesuffix("s")):
        full = _SHORT.get(candidate, candidate)
        if full in _MICROSECONDS:
            return _MICROSECONDS[full]
    return None


def interval_text(duration: Duration, text: str) -> IntervalText:
    """The duration of a syntax tree as a value, with its unit checked."""
    span = span_of(duration)
    try:
        amount = Decimal(duration.args["amount"].replace("_", "").replace(",", ""))
    except InvalidOperation:
        raise CqlError(f"{duration.args['amount']!r} is not a number.", text, span) from None
    unit = duration.args.get("unit")
    if unit is None:
        return IntervalText(amount, None, text, span)
    if unit_microseconds(unit.name) is None:
        hint = did_you_mean(unit.name, [*UNITS, *(f"{u}s" for u in UNITS)])
        raise CqlError(
            f"unknown unit {unit.name!r}.{hint or ' Units go from microseconds to weeks.'}", text, span_of(unit)
        )
    return IntervalText(amount, unit.name.lower(), text, span)


def resolve_duration(value: IntervalText | int | float, kind: TimeKind) -> int:
    """Ticks of a width; numbers from Python are bare numbers.

    >>> resolve_duration(IntervalText(Decimal(2), "minutes"), TimeKind.TIMESTAMP)
    120000000
    >>> resolve_duration(IntervalText(Decimal(2), "minutes"), TimeKind.INTEGER)
    120
    >>> resolve_duration(30, TimeKind.INTEGER), resolve_duration(30, TimeKind.TIMESTAMP)
    (30, 30000000)
    """
    if not isinstance(value, IntervalText):
        value = IntervalText(Decimal(str(value)), None)
    if value.unit is None:
        ticks = value.amount * kind.ticks_per_second
    else:
        micro = unit_microseconds(value.unit)
        if micro is None:
            raise CqlError(f"unknown unit {value.unit!r}.{did_you_mean(value.unit, UNITS)}", value.text, value.span)
        ticks = value.amount * micro * kind.ticks_per_second / 1_000_000
    if ticks != ticks.to_integral_value():
        tick = "1 second (the time is an integer)" if kind is TimeKind.INTEGER else "1 microsecond"
        raise CqlError(f"{value} is not a whole number of ticks of {tick}.", value.text, value.span)
    if not -(1 << 62) < ticks < 1 << 62:
        raise CqlError(f"{value} is too long.", value.text, value.span)
    return int(ticks)


def window_spec(clause: WindowClause, kind: TimeKind, partition: Callable[[exp.Column], str], text: str) -> WindowSpec:
    """The specification of a window; ``partition`` finds the plan name of a column of the windowed stream."""
    size: Any = clause.args.get("size")
    match clause.args["kind"]:
        case "now":
            return Range(0)
        case "unbounded":
            return Unbounded()
        case "rows":
            return Rows(_count(size, text))
        case "partition":
            return PartitionRows(tuple(partition(c) for c in clause.args["columns"]), _count(size, text))
        case "tumble" | "hop":
            return _hop(clause, kind, text)
        case "session":
            columns = tuple(dict.fromkeys(partition(c) for c in clause.args.get("columns") or ()))
            return Session(_positive(size, "the gap of a session", kind, text), columns)
        case "until":
            return Until(partition(clause.args["columns"][0]))
        case written:
            return _range(clause, written, kind, text)


def _range(clause: WindowClause, written: str, kind: TimeKind, text: str) -> WindowSpec:
    size, slide = clause.args["size"], clause.args.get("slide")
    width = resolve_duration(interval_text(size, text), kind)
    if width < 0:
        raise CqlError(
            f"the window's width must not be negative, and it is {size.args['amount']}.", text, span_of(size)
        )
    if slide is None:
        # ``[size w]`` alone is Pulse's window without an advance: a plain range.
        return Range(width)
    step = resolve_duration(interval_text(slide, text), kind)
    if step <= 0:
        word = "SLIDE" if written == "range" else "advance"
        raise CqlError(f"{word} must be larger than 0, and it is {slide.args['amount']}.", text, span_of(slide))
    if width == 0:
        raise CqlError(
            "a sliding window of width 0 is always empty: give it a width larger than 0.", text, span_of(size)
        )
    return Slide(width, step)


def _hop(clause: WindowClause, kind: TimeKind, text: str) -> Hop:
    size, slide, offset = clause.args["size"], clause.args.get("slide"), clause.args.get("offset")
    width = _positive(size, "the width of a window", kind, text)
    step = width if slide is None else _positive(slide, "EVERY", kind, text)
    shift = 0 if offset is None else resolve_duration(interval_text(offset, text), kind)
    return Hop(width, step, shift % step)


def _positive(length: Duration, what: str, kind: TimeKind, text: str) -> int:
    ticks = resolve_duration(interval_text(length, text), kind)
    if ticks <= 0:
        raise CqlError(f"{what} must be larger than 0, and it is {length.args['amount']}.", text, span_of(length))
    return ticks


def _count(size: Duration, text: str) -> int:
    value = interval_text(size, text)
    if value.amount != value.amount.to_integral_value() or value.amount <= 0:
        raise CqlError(
            f"ROWS needs a whole number larger than 0, and it is {size.args['amount']}.", text, span_of(size)
        )
    if value.amount >= 1 << 62:
        raise CqlError("ROWS is too large; write ROWS UNBOUNDED.", text, span_of(size))
    return int(value.amount)
