"""``date_format``: timestamps as texts, by Spark's pattern letters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError, quoted
from eddyline.expr.builtins.base import Builder
from eddyline.expr.builtins.by_value import by_value
from eddyline.expr.types import STRING

MONTHS: Final = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
                 "November", "December")  # fmt: skip
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PIECE: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")

_HOUR: Final = 3_600_000_000
_SIZES: Final = (("S", 1), ("s", 1_000_000), ("m", 60_000_000), ("Hha", _HOUR))  # the finest letter decides
MIN_TIMES_TO_COMPARE: Final = 64  # with fewer times, to search for equal ones costs more than it saves

Part = Callable[[pa.Array], pa.Array]


def _number(kernel: Callable[[pa.Array], pa.Array], width: int) -> Part:
    return lambda times: pc.utf8_lpad(pc.cast(kernel(times), STRING), width, "0")


def _name(kernel: Callable[[pa.Array], pa.Array], names: tuple[str, ...], length: int | None = None) -> Part:
    return lambda times: pa.array([n[:length] for n in names], STRING).take(kernel(times))


def _fraction(digits: int) -> Part:
    def part(times: pa.Array) -> pa.Array:
        micros = pc.add(pc.multiply(pc.millisecond(times), 1000), pc.microsecond(times))
        return pc.utf8_slice_codeunits(pc.utf8_lpad(pc.cast(micros, STRING), 6, "0"), 0, digits)

    return part


def _twelve(times: pa.Array) -> pa.Array:
    """The hour of a clock: 12, 1, …, 11."""
    hour = pc.hour(times)
    return pc.if_else(pc.equal(hour, 0), 12, pc.if_else(pc.greater(hour, 12), pc.subtract(hour, 12), hour))


def _short_year(times: pa.Array) -> pa.Array:
    return pc.subtract(pc.year(times), pc.multiply(pc.divide(pc.year(times), 100), 100))


def _month(times: pa.Array) -> pa.Array:
    return pc.subtract(pc.month(times), 1)


def _half(times: pa.Array) -> pa.Array:
    return pc.if_else(pc.less(pc.hour(times), 12), "AM", "PM")


PARTS: Final[dict[str, Part]] = {
    **dict.fromkeys(("y", "u"), _number(pc.year, 1)),
    **dict.fromkeys(("yy", "uu"), _number(_short_year, 2)),
    **dict.fromkeys(("yyyy", "uuuu"), _number(pc.year, 4)),
    "M": _number(pc.month, 1),
    "MM": _number(pc.month, 2),
    "MMM": _name(_month, MONTHS, 3),
    "MMMM": _name(_month, MONTHS),
    "d": _number(pc.day, 1),
    "dd": _number(pc.day, 2),
    "D": _number(pc.day_of_year, 1),
    "DDD": _number(pc.day_of_year, 3),
    **dict.fromkeys(("E", "EE", "EEE"), _name(pc.day_of_week, DAYS, 3)),
    "EEEE": _name(pc.day_of_week, DAYS),
    "H": _number(pc.hour, 1),
    "HH": _number(pc.hour, 2),
    "h": _number(_twelve, 1),
    "hh": _number(_twelve, 2),
    "a": _half,
    "m": _number(pc.minute, 1),
    "mm": _number(pc.minute, 2),
    "s": _number(pc.second, 1),
    "ss": _number(pc.second, 2),
    **{"S" * n: _fraction(n) for n in range(1, 7)},
}


def pieces(pattern: str) -> list[Part | str]:
    """A pattern as parts of a time and texts between them."""
    found: list[Part | str] = []
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        if text == "'":
            raise DataError(f"the pattern {quoted(pattern)} of date_format has a quote that is not closed")
        if piece[1] is not None:
            found.append(piece[1].replace("''", "'") or "'")
        elif piece[2] is None:
            found.append(text)
        elif text in PARTS:
            found.append(PARTS[text])
        else:
            known = ", ".join(sorted(PARTS))
            raise DataError(f"date_format does not support {quoted(text)} in {quoted(pattern)}; it supports {known}")
    return found


def coarsest(pattern: str) -> int:
    """The microseconds within which all times have the same text.

    >>> coarsest("yyyy-MM-dd"), coarsest("HH:mm 'sharp'"), coarsest("ss.SSS")
    (86400000000, 60000000, 1)
    """
    letters = {p[2] for p in _PIECE.finditer(pattern) if p[2] is not None}
    return next((size for some, size in _SIZES if letters & set(some)), 24 * _HOUR)


def date_format(times: pa.Array, pattern: str) -> pa.Array:
    """Each text is made once: a batch has few different days, hours or minutes.

    >>> import datetime as dt
    >>> times = pa.array([dt.datetime(2024, 2, 9, 15, 4, 5), None], pa.timestamp("us"))
    >>> date_format(times, "EEE d MMM yy, h:mm a").to_pylist()
    ['Fri 9 Feb 24, 3:04 PM', None]
    """
    size, ticks = coarsest(pattern), times.view(pa.int64())
    if size == 1 or len(times) < MIN_TIMES_TO_COMPARE:
        return _texts(times, pattern)
    missing = np.asarray(times.is_null()) if times.null_count else None
    steps = np.floor_divide((ticks.fill_null(0) if times.null_count else ticks).to_numpy(), size)
    if steps.min() <= np.iinfo(np.int64).min // size:  # its first microsecond is no timestamp
        return _texts(times, pattern)
    coded = pa.array(steps, mask=missing).dictionary_encode()
    first = pa.array(np.asarray(coded.dictionary) * size).view(times.type)
    return _texts(first, pattern).take(coded.indices)


def _texts(times: pa.Array, pattern: str) -> pa.Array:
    empty = pc.if_else(pc.is_valid(times), "", pa.scalar(None, STRING))
    parts = [p if isinstance(p, str) else p(times) for p in pieces(pattern)]
    return pc.binary_join_element_wise(empty, *parts, "", null_handling="emit_null")


def mistake(pattern: str) -> str | None:
    try:
        pieces(pattern)
    except DataError as e:
        return str(e)
    return None


BUILDERS: dict[str, Builder] = {
    "date_format": by_value(
        date_format,
        lambda at, pattern: date_format(pa.array([at], pa.timestamp("us")), pattern)[0].as_py(),
        STRING,
        lambda pattern: pattern is None or mistake(pattern) is not None,
    ),
}
