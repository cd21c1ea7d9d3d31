"""Arithmetic as in Spark's ANSI mode: integers overflow loudly at their own width, division by zero is an error."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError
from eddyline.expr.arrays import Kernel, Value, array_of, both_valid, from_numpy, row_wise, to_numpy
from eddyline.expr.builtins.base import Argument, Builder, Built
from eddyline.expr.failures import Failure, then, within
from eddyline.expr.types import DOUBLE, DURATION, INT64, TIMESTAMP, TIMESTAMP_RANGE, is_decimal, is_float, is_integer

_WIDE = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)


def fit(value: decimal.Decimal, type: pa.DataType) -> decimal.Decimal:
    """Round half up to the scale of a decimal type; too many digits are an error."""
    try:
        rounded = _WIDE.quantize(value, decimal.Decimal(1).scaleb(-type.scale))
    except decimal.InvalidOperation:
        raise DataError(f"{value} does not fit into {type.precision} digits") from None
    if rounded.adjusted() >= type.precision - type.scale and rounded != 0:
        raise DataError(f"{value} does not fit into {type.precision} digits")
    return rounded


def _decimals(operation: Callable[[Any, Any], Any], exact: Callable[..., pa.Array] | None) -> Builder:
    """Arrow's decimal kernels follow Spark's precision rules as long as 38 digits are enough; beyond, row by row."""

    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        slow = row_wise(lambda a, b: fit(operation(a, b), returns), returns)
        if exact is None or returns.precision == 38:
            return Built(slow, can_fail=True)

        def kernel(a: Value, b: Value) -> pa.Array:
            return pc.cast(exact(a, b), returns)

        return Built(kernel)

    return build


def _checked(exact: Kernel, unchecked: Kernel, on_decimals: Builder) -> Builder:
    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        if is_decimal(returns):
            return on_decimals(arguments, returns)
        if returns == TIMESTAMP:
            return Built(lambda a, b: within(exact(a, b), TIMESTAMP_RANGE), can_fail=True)
        return Built(unchecked) if is_float(returns) else Built(exact, can_fail=True)

    return build


def _multiply(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    if returns == DURATION:
        first_is_number = arguments[0].type != DURATION

        def scale(a: Value, b: Value) -> pa.Array:
            duration, number = (b, a) if first_is_number else (a, b)
            if number.type == INT64:
                return pc.cast(pc.multiply_checked(pc.cast(duration, INT64), number), DURATION)
            return _to_duration(pc.multiply(pc.cast(pc.cast(duration, INT64), DOUBLE, safe=False), number))

        return Built(scale, can_fail=True)
    return _MULTIPLY(arguments, returns)


def _to_duration(micros: pa.Array) -> pa.Array:
    """Round half up to whole microseconds."""
    numbers = np.asarray(to_numpy(micros))
    rounded = np.copysign(np.floor(np.abs(numbers) + 0.5), numbers)
    valid = both_valid(micros, micros)
    bad = ~(np.abs(rounded) < 2.0**63)
    if valid is not None:
        bad &= valid
    whole = from_numpy(np.where(bad | ~np.isfinite(rounded), 0, rounded).astype(np.int64), valid, DURATION)
    if bad.any():
        raise Failure(bad, "interval overflow", whole)
    return whole


def _zeros(b: Value, a: Value) -> Any:
    """The mask of rows that divide a number by zero, or None. NULL / 0 is NULL."""
    zero = np.atleast_1d(to_numpy(b) == 0)
    if not zero.any():
        return None
    if isinstance(b, pa.Scalar):
        zero = np.ones(len(a), np.bool_)
    elif isinstance(a, pa.Scalar) and not a.is_valid:
        return None
    valid = both_valid(a, b)
    zero = zero if valid is None else zero & valid
    return zero if zero.any() else None


def _known_non_zero(argument: Argument) -> bool:
    return argument.literal is not None and argument.value not in (0, None)


def _divide(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    if is_decimal(returns):
        return Built(row_wise(lambda a, b: fit(_divide_decimals(a, b), returns), returns), can_fail=True)
    if returns == DURATION:

        def share(a: Value, b: Value) -> pa.Array:
            return _divide_floats(pc.cast(pc.cast(a, INT64), DOUBLE, safe=False), b)

        return Built(then(share, _to_duration), can_fail=True)
    if _known_non_zero(arguments[1]):
        return Built(pc.divide)
    return Built(_divide_floats, can_fail=True)


def _divide_decimals(a: decimal.Decimal, b: decimal.Decimal) -> decimal.Decimal:
    if b == 0:
        raise DataError("division by zero")
    return _WIDE.divide(a, b)


def _divide_floats(a: Value, b: Value) -> pa.Array:
    if isinstance(b, pa.Scalar) and not b.is_valid:
        return pc.divide(a, b)
    bad = _zeros(b, a)
    result = pc.divide(a, b)  # IEEE: gives ±inf or NaN where the divisor is zero
    if bad is not None:
        raise Failure(bad, "division by zero", result)
    return result


def _quotient(a: Value, b: Value) -> pa.Array:
    """Of integers, towards zero; the smallest by −1 overflows."""
    bad = None if _any_null(a, b) else _zeros(b, a)
    if bad is None:
        return pc.divide_checked(a, b)
    divisor = pc.if_else(array_of(bad), pa.scalar(1, b.type), b)
    raise Failure(bad, "division by zero", pc.divide_checked(a, divisor))


def _remainder(a: Value, b: Value) -> pa.Array:
    """With the sign of the dividend, as in C and Java."""
    if _any_null(a, b):
        return pc.add(a, b)  # all NULL, of the right type
    bad = _zeros(b, a)
    x, y = to_numpy(a), to_numpy(b)
    with np.errstate(all="ignore"):
        result = np.fmod(x, np.where(y == 0, 1, y).astype(x.dtype))
    values = from_numpy(result, both_valid(a, b), a.type)
    if bad is not None:
        raise Failure(bad, "division by zero", values)
    return values


def _any_null(*values: Value) -> bool:
    return any(isinstance(v, pa.Scalar) and not v.is_valid for v in values)


def _integer_divide(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    if is_decimal(arguments[0].type):

        def whole(a: decimal.Decimal, b: decimal.Decimal) -> int:
            quotient = int(_divide_decimals(a, b))
            if not -(1 << 63) <= quotient < 1 << 63:
                raise DataError("integer overflow")
            return quotient

        return Built(row_wise(whole, INT64), can_fail=True)
    safe = _known_non_zero(arguments[1]) and arguments[1].value != -1
    return Built(_quotient, can_fail=not safe)


def _mod(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    if is_decimal(returns):

        def remainder(a: decimal.Decimal, b: decimal.Decimal) -> decimal.Decimal:
            if b == 0:
                raise DataError("division by zero")
            return fit(_WIDE.remainder(a, b), returns)

        return Built(row_wise(remainder, returns), can_fail=True)
    return Built(_remainder, can_fail=not _known_non_zero(arguments[1]))


def _signed(exact: Kernel, unchecked: Kernel) -> Builder:
    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        if returns == DURATION:
            return Built(lambda a: pc.cast(exact(pc.cast(a, INT64)), DURATION), can_fail=True)
        return Built(exact, can_fail=True) if is_integer(returns) else Built(unchecked)

    return build


_MULTIPLY = _checked(pc.multiply_checked, pc.multiply, _decimals(_WIDE.multiply, pc.multiply))

BUILDERS: dict[str, Builder] = {
    "add": _checked(pc.add_checked, pc.add, _decimals(_WIDE.add, pc.add)),
    "subtract": _checked(pc.subtract_checked, pc.subtract, _decimals(_WIDE.subtract, pc.subtract)),
    "multiply": _multiply,
    "divide": _divide,
    "integer_divide": _integer_divide,
    "mod": _mod,
    "negate": _signed(pc.negate_checked, pc.negate),
    "abs": _signed(pc.abs_checked, pc.abs),
}
