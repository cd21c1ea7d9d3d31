"""Aggregates of the reference interpreter: each a function of the rows of a group, computed from scratch.

Sums of doubles are exact with one rounding (``math.fsum``); variances are exact rationals until the last step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.errors import DataError
from eddyline.expr.approximate import hashes_kept, mantissa_bits
from eddyline.expr.nodes import AggregateCall
from eddyline.operators.sketches import buckets, distinct_estimate, middle, value_hashes
from eddyline.testing.rows import evaluate
from eddyline.testing.values import NAN, canonical, order_key


def fold(call: AggregateCall, rows: Sequence[Mapping[str, Any]]) -> Any:
    """The value of an aggregate over the rows of one group, in order of (time, arrival)."""
    if not call.args:
        return len(rows)
    tuples = [tuple(canonical(evaluate(a, row)) for a in call.args) for row in rows]
    if call.function in ("first", "last"):  # NULL counts as a value here, as in Spark
        return None if not tuples else tuples[0 if call.function == "first" else -1][0]
    tuples = [t for t in tuples if all(v is not None for v in t)]
    if call.distinct:
        tuples = list(dict.fromkeys(tuples))
    if call.function == "count":
        return len(tuples)
    if call.user is not None:  # NULL without any value, as for the built-in ones
        return canonical(call.user.function([t[0] if len(t) == 1 else t for t in tuples])) if tuples else None
    values = [t[0] for t in tuples]
    if call.function == "approx_count_distinct":
        hashes = set(value_hashes(pa.array(values, call.args[0].type)))
        return distinct_estimate(sorted(hashes), hashes_kept(*call.parameters))
    match call.function:
        case "sum":
            return total(values, call.type) if values else None
        case "avg":
            return mean(values) if values else None
        case "min":
            return min(values, key=order_key, default=None)
        case "max":
            return max(values, key=order_key, default=None)
        case "approx_percentile":
            share, error = call.parameters
            return None if not values else percentile(values, share, mantissa_bits(error))
        case "variance":
            return rounded(spread(values, 1))
        case "var_pop":
            return rounded(spread(values, 0))
        case "stddev":
            return root(spread(values, 1))
        case "stddev_pop":
            return root(spread(values, 0))
        case other:
            raise NotImplementedError(f"aggregate {other}")


def percentile(values: Sequence[float], share: float, bits: int) -> float:
    """The middle of the bucket in which the exact percentile lies.

    >>> percentile([4.0, 1.0, 9.0], 0.5, 6)
    4.03125
    """
    exact = sorted(values, key=order_key)[max(1, math.ceil(share * len(values))) - 1]
    (bucket,) = buckets(np.array([exact]).view(np.int64), bits).tolist()
    return float(canonical(middle(bucket, bits)))


def total(values: Sequence[Any], type: pa.DataType) -> Any:
    """SUM of a non-empty list.

    >>> total([0.1] * 10, pa.float64())
    1.0
    >>> total([2**62, 2**62], pa.int64())
    Traceback (most recent call last):
    eddyline.core.errors.DataError: the sum 9223372036854775808 does not fit into 64 bits.
    """
    if any(isinstance(v, float) for v in values):
        return float_total(values)
    whole = sum(values[1:], start=values[0])
    if pa.types.is_integer(type) and not -(2**63) <= whole < 2**63:
        raise DataError(f"the sum {whole} does not fit into 64 bits.")
    return whole


def float_total(values: Sequence[float]) -> float:
    """The exact sum, rounded once; infinities and NaN do not take part in it but decide first."""
    if any(math.isnan(v) for v in values) or (math.inf in values and -math.inf in values):
        return NAN
    for infinity in (math.inf, -math.inf):
        if infinity in values:
            return infinity
    exact = sum((Fraction(v) for v in values), start=Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def mean(values: Sequence[Any]) -> Any:
    if any(isinstance(v, float) for v in values):
        return float_total(values) / len(values)
    whole = sum(values[1:], start=values[0])
    return float(whole) / len(values) if isinstance(whole, int) else whole / len(values)


def spread(values: Sequence[Any], less: int) -> Fraction | float | None:
    """Σ(x − mean)² / (n − less); NULL where the divisor is not positive.

    >>> spread([1, 2, 4], 1)
    Fraction(7, 3)
    """
    if len(values) <= less:
        return None
    if any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return NAN
    exact = [Fraction(v) for v in values]
    middle = sum(exact, start=Fraction(0)) / len(exact)
    return sum(((v - middle) ** 2 for v in exact), start=Fraction(0)) / (len(exact) - less)


def rounded(variance: Fraction | float | None) -> float | None:
    """
    >>> rounded(Fraction(1, 3)), rounded(Fraction(10) ** 400)
    (0.3333333333333333, inf)
    """
    try:
        return None if variance is None else float(variance)
    except OverflowError:
        return math.inf


def root(variance: Fraction | float | None) -> float | None:
    """The square root, also where the variance itself is too large for a double.

    >>> root(Fraction(9, 4)), root(Fraction(10) ** 400)
    (1.5, 1e+200)
    """
    if variance is None:
        return None
    try:
        return math.sqrt(variance)
    except OverflowError:
        return math.sqrt(variance / Fraction(4) ** 500) * 2.0**500
