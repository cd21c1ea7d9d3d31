"""CAST in ANSI mode: a value either has its counterpart in the target type or is an error.

``build_cast`` picks the kernel once. Texts are read as Spark reads them (white space around them is ignored); numbers
are written as Java writes them (``1.0E10``), so that a result looks the same on Spark and inline.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError
from eddyline.expr.arrays import Bools, Kernel, from_numpy, mask_of, row_wise, to_numpy, valid_mask
from eddyline.expr.builtins.arithmetic import fit
from eddyline.expr.failures import Failure, then, within
from eddyline.expr.read_times import parse_date, parse_timestamp
from eddyline.expr.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    DURATION,
    FLOAT,
    INT64,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_RANGE,
    castable,
    is_decimal,
    is_float,
    is_integer,
    type_name,
)

_SPACE = "".join(map(chr, range(33))) + "\x7f"
_INTEGER = r"^[+-]?[0-9]+$"
_NUMBER = r"(?i)^[+-]?([0-9]+\.?[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|inf|infinity|nan)$"
_DAY_TO_SECOND = re.compile(
    r"(?:interval\s+)?'?([+-])?(\d+) (\d+):(\d+):(\d+)(?:\.(\d{1,6}))?'?(?:\s+day to second)?", re.IGNORECASE
)
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")


def build_cast(source: pa.DataType, target: pa.DataType) -> Kernel:
    """The kernel of ``CAST(source AS target)``.

    >>> build_cast(pa.float64(), pa.string())(pa.array([1.0, 1e10, None])).to_pylist()
    ['1.0', '1.0E10', None]
    """
    if not castable(source, target):
        raise TypeError(f"there is no cast from {type_name(source)} to {type_name(target)}.")
    if source == target:
        return lambda a: a
    if source == NULL:
        return lambda a: pa.nulls(len(a), target)
    if target == STRING:
        return _to_text(source)
    if source == STRING:
        return _from_text(target)
    if target == BOOLEAN:
        zero = pa.scalar(decimal.Decimal(0) if is_decimal(source) else 0, source)
        return lambda a: pc.not_equal(a, zero)
    if source == TIMESTAMP:
        return _from_timestamp(target)
    if source == DATE:
        return lambda a: pc.cast(a, TIMESTAMP)
    if target == TIMESTAMP:
        return then(_number_to_timestamp(source), lambda a: within(a, TIMESTAMP_RANGE))
    if is_float(source):
        return _float_to_number(target)
    return _exact_to_number(source, target)


def _fail(bad: Bools, a: pa.Array, values: pa.Array, target: pa.DataType) -> Failure:
    name = type_name(target)
    return Failure(bad, lambda row: f"cannot read {a[row].as_py()!r} as {name}", values)


def _bad_rows(a: pa.Array, bad: Bools) -> Bools:
    valid = valid_mask(a)
    return bad if valid is None else bad & valid


# -- between numbers -----------------------------------------------------------------------------------------------


def _float_to_number(target: pa.DataType, name: str | None = None) -> Kernel:
    if is_float(target):
        return lambda a: pc.cast(a, target, safe=False)
    if is_decimal(target):
        return row_wise(lambda x: _double_to_decimal(x, target), target)
    bits = target.bit_width

    def truncate(a: pa.Array) -> pa.Array:
        numbers = to_numpy(a).astype(np.float64)
        whole = np.trunc(numbers)
        bad = ~((whole >= -(2.0 ** (bits - 1))) & (whole < 2.0 ** (bits - 1)))
        dtype = np.dtype(f"int{bits}")
        values = from_numpy(np.where(bad, 0, whole).astype(dtype), valid_mask(a), target)
        bad = _bad_rows(a, bad)
        if bad.any():
            what = name or type_name(target)
            raise Failure(bad, lambda row: f"{numbers[row]} does not fit into {what}", values)
        return values

    return truncate


def _double_to_decimal(x: float, target: pa.DataType) -> decimal.Decimal:
    if not math.isfinite(x):
        raise DataError(f"{x} is not a number that {type_name(target)} holds")
    return fit(decimal.Decimal(repr(x)), target)


def _exact_to_number(source: pa.DataType, target: pa.DataType) -> Kernel:
    """From integers, decimals and Booleans."""
    if is_decimal(source):
        return _decimal_to_number(source, target)
    if is_decimal(target):
        # through a decimal that holds every integer, since Arrow looks at the types and not at the values
        between = pa.decimal128(19, 0)
        rescale = _decimal_to_number(between, target)
        return lambda a: rescale(pc.cast(pc.cast(a, INT64), between))
    if is_float(target):
        return lambda a: pc.cast(a, target, safe=False)  # rounds to the nearest
    if source == BOOLEAN or target.bit_width >= source.bit_width:
        return lambda a: pc.cast(a, target)

    def narrow(a: pa.Array) -> pa.Array:
        numbers = to_numpy(a)
        small = numbers.astype(np.dtype(f"int{target.bit_width}"))
        values = from_numpy(small, valid_mask(a), target)
        bad = small != numbers
        if bad.any():
            bad = _bad_rows(a, bad)
        if bad.any():
            name = type_name(target)
            raise Failure(bad, lambda row: f"{numbers[row]} does not fit into {name}", values)
        return values

    return narrow


def _decimal_to_number(source: pa.DataType, target: pa.DataType) -> Kernel:
    if is_float(target):
        return row_wise(float, target)  # correctly rounded, which Arrow's cast is not
    if is_decimal(target):
        if target.scale >= source.scale:
            return lambda a: pc.cast(a, target)
        wider = pa.decimal128(38, source.scale)

        def rescale(a: pa.Array) -> pa.Array:
            # in the widest type, for rounding may need one digit more
            rounded = pc.round(pc.cast(a, wider), ndigits=target.scale, round_mode="half_towards_infinity")
            return pc.cast(rounded, target)

        return rescale
    options = pc.CastOptions(target_type=target, allow_decimal_truncate=True)
    return lambda a: pc.cast(a, options=options)


# -- times ---------------------------------------------------------------------------------------------------------


def _from_timestamp(target: pa.DataType) -> Kernel:
    if target == DATE:
        return lambda a: from_numpy(np.floor_divide(to_numpy(a), 86_400_000_000), valid_mask(a), DATE)
    if is_float(target):
        return lambda a: from_numpy(to_numpy(a) / 1e6, valid_mask(a), target)
    if is_decimal(target):
        micro = decimal.Decimal(1).scaleb(-6)
        by_row = row_wise(lambda x: fit(x * micro, target), target)
        return lambda a: by_row(pc.cast(a, INT64))
    narrow = _exact_to_number(INT64, target)
    return lambda a: narrow(from_numpy(np.floor_divide(to_numpy(a), 1_000_000), valid_mask(a), INT64))


def _number_to_timestamp(source: pa.DataType) -> Kernel:
    """A number counts seconds since the epoch."""
    million = pa.scalar(1_000_000)
    if is_integer(source):
        return lambda a: pc.cast(pc.multiply_checked(pc.cast(a, INT64), million), TIMESTAMP)
    if is_decimal(source):
        by_row = row_wise(lambda x: int(x * 1_000_000), INT64)
        return lambda a: pc.cast(by_row(a), TIMESTAMP)

    def micros(a: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            return from_numpy(to_numpy(a).astype(np.float64) * 1e6, valid_mask(a), DOUBLE)

    truncated = then(micros, _float_to_number(INT64, "timestamp"))
    return then(truncated, lambda a: pc.cast(a, TIMESTAMP))


# -- texts ---------------------------------------------------------------------------------------------------------


def _from_text(target: pa.DataType) -> Kernel:
    if target == BINARY:
        return lambda a: pc.cast(a, BINARY)
    if target == BOOLEAN:
        return _text_to_boolean
    if target == DATE:
        return _or_by_row(lambda a: pc.cast(a, DATE), _reader(parse_date, DATE))
    if target == TIMESTAMP:
        return _or_by_row(_plain_timestamps, _reader(parse_timestamp, TIMESTAMP))
    if target == DURATION:
        return _reader(_parse_duration, DURATION)
    if is_decimal(target):
        return _reader(lambda text: _parse_decimal(text, target), target)
    pattern = _INTEGER if is_integer(target) else _NUMBER

    def to_number(a: pa.Array) -> pa.Array:
        trimmed = pc.ascii_trim(a, characters=_SPACE)
        matches = pc.match_substring_regex(trimmed, pattern)
        bad = _bad_rows(a, ~mask_of(matches))
        bare = pc.ascii_ltrim(pc.if_else(matches, trimmed, "0"), characters="+")
        if not bad.any():
            return pc.cast(bare, target)  # may still overflow; then the caller finds the rows
        raise _fail(bad, a, _cast_where_possible(bare, target, a, bad), target)

    def with_reason(a: pa.Array) -> pa.Array:
        try:
            return to_number(a)
        except pa.ArrowInvalid as e:
            if len(a) > 1:
                raise
            raise DataError(f"{a[0].as_py()!r} does not fit into {type_name(target)}") from e

    return with_reason


def _cast_where_possible(bare: pa.Array, target: pa.DataType, a: pa.Array, bad: Bools) -> pa.Array:
    """The readable rows; those that overflow join the bad ones."""
    try:
        return pc.cast(bare, target)
    except pa.ArrowInvalid:
        bits = target.bit_width
        wide = [None if x is None else int(x) for x in bare.to_pylist()]
        fits = [x is None or -(1 << (bits - 1)) <= x < 1 << (bits - 1) for x in wide]
        bad |= ~np.array(fits)
        return pa.array([x if ok else None for x, ok in zip(wide, fits, strict=True)], target)


def _or_by_row(fast: Kernel, careful: Kernel) -> Kernel:
    """Arrow reads the usual form quickly and refuses the batch at the first text of another one."""

    def kernel(a: pa.Array) -> pa.Array:
        try:
            return fast(a)
        except pa.ArrowInvalid:
            return careful(a)

    return kernel


def _plain_timestamps(a: pa.Array) -> pa.Array:
    return pc.cast(a, TIMESTAMP)


def _reader(parse: Callable[[str], Any], target: pa.DataType) -> Kernel:
    """Texts row by row; ``parse`` gives None for what it cannot read."""

    def kernel(a: pa.Array) -> pa.Array:
        texts = a.to_pylist()
        values = [None if t is None else parse(t.strip(_SPACE)) for t in texts]
        bad = np.array([v is None and t is not None for v, t in zip(values, texts, strict=True)], np.bool_)
        result = pa.array(values, target)
        if bad.any():
            raise _fail(bad, a, result, target)
        return result

    return kernel


def _text_to_boolean(a: pa.Array) -> pa.Array:
    word = pc.ascii_lower(pc.ascii_trim(a, characters=_SPACE))
    true = pc.is_in(word, pa.array(_TRUE))
    known = mask_of(pc.or_(true, pc.is_in(word, pa.array(_FALSE))))
    values = pc.if_else(pc.is_valid(a), true, pa.scalar(None, BOOLEAN))
    bad = _bad_rows(a, ~known)
    if bad.any():
        raise _fail(bad, a, values, BOOLEAN)
    return values


def _parse_decimal(text: str, target: pa.DataType) -> decimal.Decimal | None:
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None
    if not value.is_finite() or "_" in text:
        return None
    try:
        return fit(value, target)
    except (DataError, decimal.InvalidOperation):
        return None


def _parse_duration(text: str) -> datetime.timedelta | None:
    """``[-]D HH:MM:SS[.ffffff]``, also inside ``INTERVAL '…' DAY TO SECOND``."""
    inner = _DAY_TO_SECOND.fullmatch(text)
    if inner is None:
        return None
    sign, days, hours, minutes, seconds, fraction = inner.groups()
    span = datetime.timedelta(int(days), int(seconds), int((fraction or "").ljust(6, "0")), 0, int(minutes), int(hours))
    return -span if sign == "-" else span


def _to_text(source: pa.DataType) -> Kernel:
    if source == DOUBLE:
        return row_wise(double_to_text, STRING)
    if source == FLOAT:
        return row_wise(lambda x: double_to_text(float(str(np.float32(x)))), STRING)
    if source == TIMESTAMP:
        return _timestamps_to_text
    if source == DURATION:
        return row_wise(duration_to_text, STRING)
    if is_decimal(source):
        return row_wise(lambda x: format(x, "f"), STRING)
    return lambda a: pc.cast(a, STRING)


def double_to_text(x: float) -> str:
    """Java's: plain between 10^-3 and 10^7, otherwise with an exponent; always a digit after the point.

    >>> [double_to_text(x) for x in (1.0, 0.001, 1e7, 1.25e-5, -12345.678, float("inf"))]
    ['1.0', '0.001', '1.0E7', '1.25E-5', '-12345.678', 'Infinity']
    """
    if not math.isfinite(x):
        return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
    if x == 0 or 1e-3 <= abs(x) < 1e7:
        text = repr(x)
        return text if "e" not in text else format(decimal.Decimal(text), "f")
    sign, digits, exponent = decimal.Decimal(repr(x)).normalize().as_tuple()
    power = len(digits) - 1 + int(exponent)
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{power}"


def _timestamps_to_text(a: pa.Array) -> pa.Array:
    valid = valid_mask(a)
    times = to_numpy(a).view("datetime64[us]")
    if valid is not None:
        times = np.where(valid, times, np.datetime64(0, "us"))
    texts = np.datetime_as_string(times, unit="us")
    out = pa.array(np.char.replace(texts, "T", " "), STRING) if len(a) else pa.array([], STRING)
    short = pc.ascii_rtrim(pc.ascii_rtrim(out, characters="0"), characters=".")
    return short if valid is None else pc.if_else(pc.is_valid(a), short, pa.scalar(None, STRING))


def duration_to_text(span: datetime.timedelta) -> str:
    """Spark's day-time interval.

    >>> duration_to_text(datetime.timedelta(hours=25, milliseconds=1500))
    "INTERVAL '1 01:00:01.5' DAY TO SECOND"
    """
    micros = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
    seconds, fraction = divmod(abs(micros), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    sign = "-" if micros < 0 else ""
    return f"INTERVAL '{sign}{days} {hours:02d}:{minutes:02d}:{seconds:02d}{tail}' DAY TO SECOND"
