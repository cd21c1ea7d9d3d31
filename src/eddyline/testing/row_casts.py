"""Casts of the reference's row evaluator: ANSI, so what does not fit is an error."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import struct
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.types as pat

from eddyline.core.errors import DataError
from eddyline.testing.values import NAN

EPOCH: Final = dt.datetime(1970, 1, 1)
WIDE: Final = decimal.Context(prec=80, rounding=ROUND_HALF_UP)
_BITS: Final = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


def fit_integer(value: int, type: pa.DataType) -> int:
    """The value, if it fits into the type.

    >>> fit_integer(2**31, pa.int32())
    Traceback (most recent call last):
    eddyline.core.errors.DataError: 2147483648 does not fit into int32.
    """
    bits = _BITS[type]
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise DataError(f"{value} does not fit into {type}.")
    return value


def fit_decimal(value: Decimal, type: pa.DataType) -> Decimal:
    """Rounded half up to the scale of the type; more digits than its precision are an error."""
    try:
        rounded = value.quantize(Decimal(1).scaleb(-type.scale), context=WIDE)
    except decimal.InvalidOperation:
        raise DataError(f"{value} does not fit into decimal({type.precision},{type.scale}).") from None
    if rounded and rounded.adjusted() + 1 > type.precision - type.scale:
        raise DataError(f"{value} does not fit into decimal({type.precision},{type.scale}).")
    return rounded if rounded else abs(rounded)  # no negative zero


def fit_float(value: float, type: pa.DataType) -> float:
    """Doubles as they are, floats rounded to 32 bits."""
    if type != pa.float32() or not math.isfinite(value):
        return value
    try:
        narrowed: float = struct.unpack("f", struct.pack("f", value))[0]
        return narrowed
    except OverflowError:
        return math.copysign(math.inf, value)


def fit(value: Any, type: pa.DataType) -> Any:
    if pat.is_integer(type):
        return fit_integer(value, type)
    if pat.is_floating(type):
        return fit_float(float(value), type)
    if pat.is_decimal(type):
        return fit_decimal(value, type)
    return value


def micros(value: dt.datetime) -> int:
    """Microseconds since the epoch."""
    return (value - EPOCH) // dt.timedelta(microseconds=1)


def from_micros(value: int) -> dt.datetime:
    try:
        return EPOCH + dt.timedelta(microseconds=value)
    except OverflowError:
        raise DataError(f"{value} µs is no timestamp between the years 1 and 9999.") from None


def cast(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    """CAST(value AS target).

    >>> cast(" 12 ", pa.string(), pa.int64()), cast(2.9, pa.float64(), pa.int32()), cast(1e7, pa.float64(), pa.string())
    (12, 2, '1.0E7')
    """
    if value is None or source == target:
        return value
    if pat.is_string(target):
        return to_string(value, source)
    if pat.is_boolean(target):
        return to_boolean(value)
    if pat.is_integer(target):
        return fit_integer(to_integer(value), target)
    if pat.is_floating(target):
        return fit_float(to_float(value), target)
    if pat.is_decimal(target):
        return fit_decimal(to_decimal(value), target)
    if pat.is_timestamp(target):
        return to_timestamp(value)
    if pat.is_date(target):
        return to_date(value)
    if pat.is_binary(target) and isinstance(value, str):
        return value.encode()
    raise NotImplementedError(f"the reference cannot cast {source} to {target}")


def to_string(value: Any, source: pa.DataType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value, single=source == pa.float32())
    if isinstance(value, dt.datetime):
        text = value.isoformat(" ", "microseconds" if value.microsecond else "seconds")
        return text.rstrip("0") if value.microsecond else text
    if isinstance(value, dt.timedelta):
        return interval_text(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise DataError("the bytes are not UTF-8.") from None
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


def interval_text(value: dt.timedelta) -> str:
    """A day-time interval as Spark writes it.

    >>> interval_text(dt.timedelta(microseconds=-1500))
    "INTERVAL '-0 00:00:00.0015' DAY TO SECOND"
    """
    whole = value // dt.timedelta(microseconds=1)
    seconds, fraction = divmod(abs(whole), 1_000_000)
    clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    part = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"INTERVAL '{'-' if whole < 0 else ''}{seconds // 86400} {clock}{part}' DAY TO SECOND"


def java_double(value: float, single: bool = False) -> str:
    """A double as Java writes it: shortest digits, scientific outside of [10⁻³, 10⁷).

    >>> java_double(0.001), java_double(12345678.0), java_double(0.5), java_double(-math.inf)
    ('0.001', '1.2345678E7', '0.5', '-Infinity')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shortest = repr(value)
    if single:
        shortest = next(t for p in range(1, 10) if fit_float(float(t := f"{value:.{p}g}"), pa.float32()) == value)
    sign, digit_tuple, exponent = Decimal(shortest).as_tuple()
    digits = "".join(map(str, digit_tuple)).rstrip("0") or "0"
    point = len(digit_tuple) + int(exponent)  # the value is 0.digits × 10^point
    prefix = "-" if sign else ""
    if value == 0:
        return prefix + "0.0"
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{prefix}0.{'0' * -point}{digits}"
        return f"{prefix}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{prefix}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def to_boolean(value: Any) -> bool:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("t", "true", "y", "yes", "1"):
            return True
        if word in ("f", "false", "n", "no", "0"):
            return False
        raise DataError(f"{value!r} is neither true nor false.")
    return bool(value != 0)


def to_integer(value: Any) -> int:
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?[0-9]+", value.strip()):
            raise DataError(f"{value!r} is not a whole number.")
        return int(value)
    if isinstance(value, dt.datetime):
        return micros(value) // 1_000_000
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{value} is not a whole number.")
    return int(value)


def to_float(value: Any) -> float:
    if isinstance(value, str):
        word = value.strip()
        special = {"nan": NAN, "inf": math.inf, "infinity": math.inf}.get(word.lstrip("+-").lower())
        if special is not None:
            return -special if word.startswith("-") else special
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", word):
            raise DataError(f"{value!r} is not a number.")
        return float(word)
    if isinstance(value, dt.datetime):
        return micros(value) / 1_000_000
    return float(value)


def to_decimal(value: Any) -> Decimal:
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value.strip()):
            raise DataError(f"{value!r} is not a number.")
        return Decimal(value.strip())
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError(f"{value} is not a decimal number.")
        return Decimal(repr(value))
    if isinstance(value, dt.datetime):
        return Decimal(micros(value)) / 1_000_000
    return Decimal(value)


def to_timestamp(value: Any) -> dt.datetime:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        return timestamp_text(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError(f"{value} is not a timestamp.")
        return from_micros(int(value * 1_000_000))
    return from_micros(int(value * 1_000_000))


_TIMESTAMP: Final = re.compile(
    r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)(?:[T ](\d\d?)(?::(\d\d?)(?::(\d\d?)(?:\.(\d{0,9}))?)?)?\s*(\S+)?)?)?)?"
)


def timestamp_text(text: str) -> dt.datetime:
    """What Spark takes for a timestamp: parts of one digit, parts left out at the end, a zone after the time.

    >>> print(timestamp_text(" 2004-6-1 2:3:4.5 "), timestamp_text("2004-06"), timestamp_text("2004-06-01 00:30+01:00"))
    2004-06-01 02:03:04.500000 2004-06-01 00:00:00 2004-05-31 23:30:00
    """
    found = _TIMESTAMP.fullmatch(text.strip())
    try:
        if found:
            *parts, fraction, zone = found.groups()
            numbers = [int(p or least) for p, least in zip(parts, (1, 1, 1, 0, 0, 0), strict=True)]
            at = dt.datetime(*numbers, int(f"{fraction or '0':0<6}"[:6]))  # type: ignore[arg-type, call-arg]
            return at - offset(zone, at)
    except (ValueError, OverflowError, ZoneInfoNotFoundError):
        pass
    raise DataError(f"{text!r} is not a timestamp.")


def offset(zone: str | None, at: dt.datetime) -> dt.timedelta:
    """How far a zone is ahead of UTC.

    >>> offset("-5", EPOCH), offset("Z", EPOCH)
    (datetime.timedelta(days=-1, seconds=68400), datetime.timedelta(0))
    """
    if zone is None or zone in ("Z", "UTC", "GMT"):
        return dt.timedelta(0)
    if number := re.fullmatch(r"([+-])(\d\d?)(?::?(\d\d))?", zone):
        ahead = dt.timedelta(hours=int(number[2]), minutes=int(number[3] or 0))
        return ahead if number[1] == "+" else -ahead
    return at.replace(tzinfo=ZoneInfo(zone)).utcoffset() or dt.timedelta(0)


def to_date(value: Any) -> dt.date:
    if isinstance(value, str):
        found = re.match(r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?\s*$", value)
        try:
            if found:
                return dt.date(int(found[1]), int(found[2] or 1), int(found[3] or 1))
        except ValueError:
            pass
        raise DataError(f"{value!r} is not a date.")
    date: dt.date = value.date() if isinstance(value, dt.datetime) else value
    return date
