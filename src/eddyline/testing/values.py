"""Values and bags of the reference interpreter: what is equal, what is less, what a bag is.

A row is a tuple of Python values. Equality inside bags, groups and DISTINCT is Spark's: NULL equals NULL, NaN equals
NaN, −0.0 equals 0.0. Python agrees once all NaNs are the same object (tuples and dictionaries look at identity first),
so every value that enters the interpreter goes through ``canonical``.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

Row = tuple[Any, ...]
NAN: Final = float("nan")


class Failed:
    """A value that could not be computed; reading it fails. Equal to itself only."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def canonical(value: Any) -> Any:
    """The representative of a value: one NaN, one zero; lists become tuples.

    >>> (canonical(float("nan")),) == (canonical(float("inf") - float("inf")),)
    True
    """
    if isinstance(value, float):
        return NAN if value != value else value + 0.0  # −0.0 + 0.0 is 0.0
    if isinstance(value, list):
        return tuple(canonical(v) for v in value)
    return value


def ticks(value: Any) -> int:
    """A timestamp as a count of ticks: integers as they are, dates and times in microseconds since the epoch.

    >>> ticks(7), ticks(dt.datetime(1970, 1, 1, 0, 0, 1))
    (7, 1000000)
    """
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days * 86_400_000_000
    return int(value)


def instant(ticks: int) -> dt.datetime:
    """A count of microseconds since the epoch as a time; the inverse of ``ticks``."""
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=ticks)


def order_key(value: Any) -> tuple[Any, ...]:
    """A sort key: NULL first, NaN greatest, strings by code point (which is the order of their UTF-8 bytes).

    >>> sorted([2.0, NAN, None, -1.0, math.inf], key=order_key)
    [None, -1.0, 2.0, inf, nan]
    """
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value)
    return (1, 0, value)


def row_key(row: Row) -> tuple[Any, ...]:
    return tuple(order_key(v) for v in row)


def compare(a: Any, b: Any) -> int:
    """−1, 0 or 1 for two values that are not NULL."""
    x, y = order_key(a), order_key(b)
    return (x > y) - (x < y)


def bag_difference(left: Iterable[Row], right: Iterable[Row]) -> list[Row]:
    """left − right by value, with multiplicities, in row order.

    >>> bag_difference([(1,), (1,), (2,)], [(1,), (3,)])
    [(1,), (2,)]
    """
    return sorted((Counter(left) - Counter(right)).elements(), key=row_key)
