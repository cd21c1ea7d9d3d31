"""The built-in functions of the reference's row evaluator.

``FUNCTIONS[name](type, *values)`` gets the result type and values that are not NULL: a NULL argument gives NULL, but
for the functions in ``NULL_AWARE``, which get the list of their arguments.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from eddyline.core.errors import DataError
from eddyline.testing.row_casts import WIDE, fit, fit_integer, from_micros, micros
from eddyline.testing.row_text_functions import TEXT_FUNCTIONS
from eddyline.testing.values import NAN, compare, order_key

FUNCTIONS: dict[str, Callable[..., Any]] = dict(TEXT_FUNCTIONS)
NULL_AWARE: dict[str, Callable[[list[Any]], Any]] = {
    "is_null": lambda v: v[0] is None,
    "is_not_null": lambda v: v[0] is not None,
    "isnan": lambda v: v[0] is not None and math.isnan(v[0]),
    "null_safe_eq": lambda v: v[0] is v[1] if None in v else compare(*v) == 0,
    "nullif": lambda v: None if None not in v and compare(*v) == 0 else v[0],
    "greatest": lambda v: max((x for x in v if x is not None), key=order_key, default=None),
    "least": lambda v: min((x for x in v if x is not None), key=order_key, default=None),
}


def define(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return note


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does not look at its result type."""
    return lambda _, *values: function(*values)


# -- comparison and arithmetic -------------------------------------------------------------------------------------

FUNCTIONS |= {
    "eq": lambda _, a, b: compare(a, b) == 0,
    "ne": lambda _, a, b: compare(a, b) != 0,
    "lt": lambda _, a, b: compare(a, b) < 0,
    "le": lambda _, a, b: compare(a, b) <= 0,
    "gt": lambda _, a, b: compare(a, b) > 0,
    "ge": lambda _, a, b: compare(a, b) >= 0,
    "not": lambda _, a: not a,
    "negate": lambda t, a: fit(-a, t),
    "abs": lambda t, a: fit(abs(a), t),
}


@define("add")
def _add(type: pa.DataType, a: Any, b: Any) -> Any:
    return fit(WIDE.add(a, b) if isinstance(a, Decimal) else a + b, type)


@define("subtract")
def _subtract(type: pa.DataType, a: Any, b: Any) -> Any:
    return fit(WIDE.subtract(a, b) if isinstance(a, Decimal) else a - b, type)


@define("multiply")
def _multiply(type: pa.DataType, a: Any, b: Any) -> Any:
    if isinstance(a, dt.timedelta) or isinstance(b, dt.timedelta):
        length, factor = (a, b) if isinstance(a, dt.timedelta) else (b, a)
        return length * factor if isinstance(factor, int) else _scaled(length, factor)
    return fit(WIDE.multiply(a, b) if isinstance(a, Decimal) else a * b, type)


@define("divide")
def _divide(type: pa.DataType, a: Any, b: Any) -> Any:
    if b == 0:
        raise DataError("division by zero.")
    if isinstance(a, dt.timedelta):
        return _scaled(a, 1 / b)
    return fit(WIDE.divide(a, b) if isinstance(a, Decimal) else a / b, type)


def _scaled(length: dt.timedelta, factor: float) -> dt.timedelta:
    if not math.isfinite(factor):
        raise DataError(f"an interval cannot be multiplied by {factor}.")
    return dt.timedelta(microseconds=_half_up(Decimal(length // dt.timedelta(microseconds=1)) * Decimal(factor)))


def _half_up(value: Decimal) -> int:
    return int(value.to_integral_value("ROUND_HALF_UP"))


@define("integer_divide")
def _integer_divide(type: pa.DataType, a: Any, b: Any) -> Any:
    if b == 0:
        raise DataError("division by zero.")
    quotient = int(abs(a) // abs(b))
    return fit_integer(quotient if (a < 0) == (b < 0) else -quotient, type)


@define("mod")
def _mod(type: pa.DataType, a: Any, b: Any) -> Any:
    """The remainder has the sign of the dividend."""
    if b == 0:
        raise DataError("division by zero.")
    if isinstance(a, float):
        return NAN if math.isnan(a) or math.isinf(a) or math.isnan(b) else fit(math.fmod(a, b), type)
    if isinstance(a, Decimal):
        return fit(WIDE.remainder(a, b), type)
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


# -- mathematics ---------------------------------------------------------------------------------------------------


def _real(function: Callable[..., float], overflow: float = math.inf) -> Callable[..., Any]:
    """IEEE manners: NaN outside of the domain, infinity on overflow."""

    def call(_: pa.DataType, *values: float) -> float:
        try:
            return function(*values)
        except ValueError:
            return NAN
        except OverflowError:
            return overflow

    return call


def _logarithm(function: Callable[[float], float], above: float = 0.0) -> Callable[..., Any]:
    """Spark: NULL outside of the domain."""
    return lambda _, x: None if x <= above else function(x)


FUNCTIONS |= {
    "sqrt": _real(math.sqrt),
    "cbrt": _real(math.cbrt),
    "exp": _real(math.exp),
    "expm1": _real(math.expm1),
    "ln": _logarithm(math.log),
    "log10": _logarithm(math.log10),
    "log2": _logarithm(math.log2),
    "log1p": _logarithm(math.log1p, above=-1.0),
    **{n: _real(getattr(math, n)) for n in ("sin", "cos", "tan", "asin", "acos", "atan", "cosh", "tanh")},
    **{n: _real(getattr(math, n)) for n in ("atan2", "hypot", "degrees", "radians")},
    "sinh": lambda _, x: math.copysign(math.inf, x) if abs(x) > 711 else math.sinh(x),
    "sign": lambda _, x: x if x == 0 or math.isnan(x) else math.copysign(1.0, x),
    "pi": lambda _: math.pi,
}


@define("log")
def _log(_: pa.DataType, base: float, x: float) -> float | None:
    if base <= 0 or x <= 0:
        return None
    above, below = math.log(x), math.log(base)
    if below == 0:
        return NAN if above == 0 or math.isnan(above) else math.copysign(math.inf, above)
    return NAN if math.isinf(above) and math.isinf(below) else above / below


@define("pow")
def _pow(_: pa.DataType, a: float, b: float) -> float:
    if math.isnan(b) or (abs(a) == 1 and math.isinf(b)):
        return NAN  # as Java has it; C disagrees
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        if a == 0:  # 0 to a negative power
            return -math.inf if math.copysign(1, a) < 0 and b % 2 == 1 else math.inf
        return NAN


def _whole(function: Callable[[Any], int]) -> Callable[..., Any]:
    """To bigint: NaN is 0, what does not fit is an error."""

    def call(_: pa.DataType, x: Any) -> Any:
        if isinstance(x, Decimal):
            return Decimal(function(x))
        if isinstance(x, float) and math.isnan(x):
            return 0
        if (isinstance(x, float) and math.isinf(x)) or not -(2**63) <= (found := function(x)) < 2**63:
            raise DataError("integer overflow")
        return found

    return call


FUNCTIONS |= {"ceil": _whole(math.ceil), "floor": _whole(math.floor)}


@define("round")
def _round(type: pa.DataType, x: Any, digits: int = 0) -> Any:
    """Half away from zero, on the digits that one sees."""
    if isinstance(x, float):
        if not math.isfinite(x) or digits > 330:
            return x
        if digits < -330:
            return 0.0
        return fit(float(Decimal(repr(x)).quantize(Decimal(1).scaleb(-digits), "ROUND_HALF_UP", context=_HUGE)), type)
    if isinstance(x, int):
        if digits >= 0:
            return x
        if digits < -20:
            return 0
        return fit(int(Decimal(x).quantize(Decimal(1).scaleb(-digits), "ROUND_HALF_UP", context=WIDE)), type)
    digits = max(min(digits, x.as_tuple().exponent * -1), -40)  # more digits than there are change nothing
    return fit(x.quantize(Decimal(1).scaleb(-digits), "ROUND_HALF_UP", context=_HUGE), type)


_HUGE = WIDE.copy()
_HUGE.prec = 1000

# -- dates and times -----------------------------------------------------------------------------------------------


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def _date_part(at: dt.datetime, letters: str) -> str | None:
    """What a run of one pattern letter stands for; None: nothing."""
    count, hour = len(letters), at.hour % 12 or 12
    match letters[0]:
        case "y" | "u":
            return {1: str(at.year), 2: f"{at.year % 100:02d}", 4: f"{at.year:04d}"}.get(count)
        case "M" if count > 2:
            return {3: _MONTHS[at.month - 1][:3], 4: _MONTHS[at.month - 1]}.get(count)
        case "E":
            return {4: _DAYS[at.weekday()]}.get(count, _DAYS[at.weekday()][:3] if count < 4 else None)
        case "D":
            return {1: str(at.timetuple().tm_yday), 3: f"{at.timetuple().tm_yday:03d}"}.get(count)
        case "S":
            return f"{at.microsecond:06d}"[:count] if count <= 6 else None
        case "a":
            return ("AM" if at.hour < 12 else "PM") if count == 1 else None
        case letter:
            numbers = {"M": at.month, "d": at.day, "H": at.hour, "h": hour, "m": at.minute, "s": at.second}
            return f"{numbers[letter]:0{count}d}" if letter in numbers and count <= 2 else None


@define("date_format")
def _date_format(_: pa.DataType, at: dt.datetime, pattern: str) -> str:
    """Letter by letter: texts stand in quotes, two quotes are one."""
    out, i = "", 0
    while i < len(pattern):
        if pattern[i] == "'":
            text, i, closed = "", i + 1, False
            while i < len(pattern) and not closed:
                if pattern[i] != "'":
                    text += pattern[i]
                elif pattern[i + 1 : i + 2] == "'":
                    text, i = text + "'", i + 1
                else:
                    closed = True
                i += 1
            if not closed:
                raise DataError(f"date_format: a quote in {pattern!r} is not closed.")
            out += text or "'"
            continue
        if not ("a" <= pattern[i].lower() <= "z"):
            out, i = out + pattern[i], i + 1
            continue
        end = i
        while end < len(pattern) and pattern[end] == pattern[i]:
            end += 1
        part = _date_part(at, pattern[i:end])
        if part is None:
            raise DataError(f"date_format: {pattern[i:end]!r} is not known.")
        out, i = out + part, end
    return out


@define("date_trunc")
def _date_trunc(_: pa.DataType, unit: str, at: dt.datetime) -> dt.datetime | None:
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit.lower():
        case "year" | "yyyy" | "yy":
            return midnight.replace(month=1, day=1)
        case "quarter":
            return midnight.replace(month=(at.month - 1) // 3 * 3 + 1, day=1)
        case "month" | "mon" | "mm":
            return midnight.replace(day=1)
        case "week":
            return midnight - dt.timedelta(days=at.weekday())
        case "day" | "dd":
            return midnight
        case "hour":
            return at.replace(minute=0, second=0, microsecond=0)
        case "minute":
            return at.replace(second=0, microsecond=0)
        case "second":
            return at.replace(microsecond=0)
        case "millisecond":
            return at.replace(microsecond=at.microsecond // 1000 * 1000)
        case "microsecond":
            return at
        case _:
            return None


FUNCTIONS |= {
    **{
        n: (lambda name: lambda _, at: getattr(at, name))(n)
        for n in ("year", "month", "day", "hour", "minute", "second")
    },
    "dayofweek": lambda _, at: at.isoweekday() % 7 + 1,  # Sunday is 1
    "weekday": lambda _, at: at.weekday(),  # Monday is 0
    "dayofyear": lambda _, at: at.timetuple().tm_yday,
    "quarter": lambda _, at: (at.month - 1) // 3 + 1,
    "week": lambda _, at: at.isocalendar().week,
    "date_add": lambda _, day, n: day + dt.timedelta(days=n),
    "date_sub": lambda _, day, n: day - dt.timedelta(days=n),
    "datediff": lambda _, end, start: (end - start).days,
    "to_date": lambda _, day: day,
    "to_timestamp": lambda _, at: at,
    "unix_micros": lambda _, at: micros(at),
    "unix_millis": lambda _, at: micros(at) // 1000,
    "unix_seconds": lambda _, at: micros(at) // 1_000_000,
    "unix_date": lambda _, day: (day - dt.date(1970, 1, 1)).days,
    "timestamp_micros": lambda _, n: from_micros(n),
    "timestamp_millis": lambda _, n: from_micros(n * 1000),
    "timestamp_seconds": lambda _, n: from_micros(n * 1_000_000),
}


# -- lists ---------------------------------------------------------------------------------------------------------


def _element_at(_: pa.DataType, items: list[Any], position: int) -> Any:
    if position == 0:
        raise DataError("element_at counts from 1.")
    if abs(position) > len(items):
        raise IndexError(position)
    return items[position - 1] if position > 0 else items[position]


def _strict_element_at(type: pa.DataType, items: list[Any], position: int) -> Any:
    try:
        return _element_at(type, items, position)
    except IndexError:
        raise DataError(f"there is no element {position}.") from None


def _lenient_element_at(type: pa.DataType, items: list[Any], position: int) -> Any:
    try:
        return _element_at(type, items, position)
    except IndexError:
        return None


def _array_contains(_: pa.DataType, items: list[Any], value: Any) -> bool | None:
    if any(x is not None and compare(x, value) == 0 for x in items):
        return True
    return None if None in items else False


FUNCTIONS |= {
    "element_at": _strict_element_at,
    "try_element_at": _lenient_element_at,
    "size": lambda _, items: len(items),
    "array_contains": _array_contains,
}
