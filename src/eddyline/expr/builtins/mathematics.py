"""Mathematical functions of doubles, with Java's special cases, and rounding.

Arrow's kernels call the C library, as Python's ``math`` does, so both give the same last bit; numpy's vectorised
versions would not.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError
from eddyline.expr.arrays import Kernel, Value, both_valid, broadcast, from_numpy, row_wise, to_numpy, valid_mask
from eddyline.expr.builtins.arithmetic import fit
from eddyline.expr.builtins.base import Argument, Builder, Built, plain
from eddyline.expr.failures import Failure
from eddyline.expr.types import DOUBLE, INT64, is_decimal, is_integer


def _above(kernel: Kernel, bound: float) -> Builder:
    """Logarithms are NULL at and below their pole."""

    def compute(a: pa.Array) -> pa.Array:
        outside = pc.less_equal(a, bound)
        result = kernel(a)
        return pc.if_else(outside, pa.scalar(None, DOUBLE), result) if pc.any(outside).as_py() else result

    return plain(compute)


def _log(base: Value, a: Value) -> pa.Array:
    length = len(base) if isinstance(base, pa.Array) else len(a)
    x, b = broadcast(a, length), broadcast(base, length)
    outside = pc.or_(pc.less_equal(x, 0.0), pc.less_equal(b, 0.0))
    return pc.if_else(outside, pa.scalar(None, DOUBLE), pc.divide(pc.ln(x), pc.ln(b)))


def _pow(a: Value, b: Value) -> pa.Array:
    """Java, unlike C, has no 1 for 1^NaN and (±1)^±inf."""
    result = pc.power(a, b)
    x, y = to_numpy(a), to_numpy(b)
    odd = ((np.isnan(y) & (x == 1)) | (np.isinf(y) & (np.abs(x) == 1))) if _valid(a) and _valid(b) else np.False_
    if odd.any():
        values = np.where(odd, np.nan, to_numpy(result))
        return from_numpy(values, valid_mask(result), DOUBLE)
    return result


def _valid(value: Value) -> bool:
    return isinstance(value, pa.Array) or value.is_valid


def _numpy(function: Any) -> Builder:
    def kernel(*args: Value) -> pa.Array:
        if not all(_valid(a) for a in args):
            return pc.add(args[0], args[-1])  # all NULL
        with np.errstate(all="ignore"):
            return from_numpy(function(*map(to_numpy, args)), both_valid(args[0], args[-1]), DOUBLE)

    return plain(kernel)


def _cbrt(x: Any) -> Any:
    """One Newton step after the C library's, which is off in the last bit even at perfect cubes."""
    root = np.cbrt(x)
    better = root - (root * root * root - x) / (3 * root * root)
    return np.where(np.isfinite(better), better, root)


def _scaled(factor: float) -> Builder:
    return plain(lambda a: pc.multiply(a, factor))


def _to_whole(kernel: Kernel, up: bool) -> Builder:
    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        source = arguments[0].type
        if is_integer(source):
            return Built(lambda a: a)
        if is_decimal(source):
            mode = decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
            return Built(row_wise(lambda x: fit(x.to_integral_value(mode), returns), returns), can_fail=True)

        def whole(a: pa.Array) -> pa.Array:
            """As Spark's ANSI mode: what is outside of bigint is an error, and NaN is 0 all the same."""
            numbers = to_numpy(kernel(a))
            valid = valid_mask(a)
            bad = (numbers < -(2.0**63)) | (numbers >= 2.0**63)
            if valid is not None:
                bad &= valid
            fitting = from_numpy(np.where(bad | np.isnan(numbers), 0, numbers).astype(np.int64), valid, INT64)
            if bad.any():
                raise Failure(bad, "integer overflow", fitting)
            return fitting

        return Built(whole, can_fail=True)

    return build


def round_half_up(x: float, digits: int) -> float:
    """Rounds the decimal that the number is printed as, halves away from zero.

    >>> round_half_up(2.675, 2), round_half_up(-0.5, 0), round_half_up(1250.0, -2)
    (2.68, -1.0, 1300.0)
    """
    if not math.isfinite(x):
        return x
    if digits < -308:
        return math.copysign(0.0, x)
    exact = decimal.Decimal(repr(x))
    if -exact.as_tuple().exponent <= digits:  # type: ignore[operator]
        return x
    with decimal.localcontext(prec=400):
        rounded = exact.quantize(decimal.Decimal(1).scaleb(-digits), rounding=decimal.ROUND_HALF_UP)
    return math.copysign(float(rounded), x)


def _round_doubles(a: pa.Array, digits: int) -> pa.Array:
    """Vectorised where the binary arithmetic provably agrees with the decimal one, by hand near the halves."""
    numbers = to_numpy(a)
    valid = valid_mask(a)
    if not 0 <= digits <= 15:
        return row_wise(round_half_up, DOUBLE)(a, pa.scalar(digits))
    power = 10.0**digits
    with np.errstate(all="ignore"):
        shifted = np.abs(numbers) * power
        below = np.floor(shifted)
        fraction = shifted - below
        result = np.copysign((below + (fraction >= 0.5)) / power, numbers)
        # the product is off by at most half a unit in its last place: only then can it cross the half
        unsure = ~(shifted < 2.0**50) | ((np.abs(fraction - 0.5) <= shifted * 2.0**-51) & (digits > 0))
        # a fraction of almost one may be a whole number that the product missed; both round to the same
    if valid is not None:
        unsure &= valid
    if unsure.any():
        result[unsure] = [round_half_up(x, digits) for x in numbers[unsure].tolist()]
    return from_numpy(result, valid, DOUBLE)


def _round(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    source = arguments[0].type
    digits = 0 if len(arguments) == 1 else arguments[1].value
    if is_integer(source):
        if digits is not None and digits >= 0:
            return Built(lambda a, *_: a)
        bits = {1: 8, 2: 16, 4: 32, 8: 64}[source.bit_width // 8]

        def round_whole(x: int, digits: int) -> int:
            if digits >= 0:
                return x
            if digits < -20:
                return 0
            unit: int = 10**-digits
            rounded = (abs(x) + unit // 2) // unit * unit * (1 if x >= 0 else -1)
            if not -(1 << (bits - 1)) <= rounded < 1 << (bits - 1):
                raise DataError("integer overflow")
            return rounded

        return Built(row_wise(round_whole, source), can_fail=True, expensive=True)
    if is_decimal(source):

        def round_decimal(x: decimal.Decimal, digits: int = 0) -> decimal.Decimal:
            if digits >= source.scale:
                return x
            if digits < -40:
                return decimal.Decimal(0)
            with decimal.localcontext(prec=100):
                rounded = x.quantize(decimal.Decimal(1).scaleb(-digits), rounding=decimal.ROUND_HALF_UP)
            return fit(rounded, returns)

        return Built(row_wise(round_decimal, returns), can_fail=True, expensive=True)
    if digits is None or arguments[0].literal is not None:
        single = source != DOUBLE
        return Built(
            row_wise(lambda x, digits=0: _round_single(x, digits) if single else round_half_up(x, digits), source),
            expensive=True,
        )
    if source != DOUBLE:
        return Built(row_wise(lambda x, *_: _round_single(x, digits), source), expensive=True)
    return Built(lambda a, *_: _round_doubles(a, digits))


def _round_single(x: float, digits: int) -> float:
    return round_half_up(float(str(np.float32(x))), digits)


BUILDERS: dict[str, Builder] = {
    **{
        name: plain(getattr(pc, name))
        for name in ("sqrt", "exp", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "atan2")
    },
    **{name: plain(getattr(pc, name)) for name in ("sinh", "cosh", "tanh", "sign")},
    "ln": _above(pc.ln, 0.0),
    "log10": _above(pc.log10, 0.0),
    "log2": _above(pc.log2, 0.0),
    "log1p": _above(pc.log1p, -1.0),
    "log": plain(_log),
    "pow": plain(_pow),
    "cbrt": _numpy(_cbrt),
    "hypot": _numpy(np.hypot),
    "degrees": _scaled(180.0 / math.pi),
    "radians": _scaled(math.pi / 180.0),
    "pi": lambda arguments, returns: Built(lambda: pa.array([math.pi])),
    "ceil": _to_whole(pc.ceil, up=True),
    "floor": _to_whole(pc.floor, up=False),
    "round": _round,
}
