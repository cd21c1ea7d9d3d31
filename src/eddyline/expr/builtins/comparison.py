"""Comparisons in Spark's order: NaN equals NaN and stands above every number, −0.0 equals 0.0, texts go by UTF-8 bytes.

Arrow follows IEEE 754, in which every comparison with NaN is false. With a literal that is not NaN the difference
disappears at no cost: ``x > c`` is ``NOT x <= c``. Two columns of floats are searched for NaN first (by a minimum,
which costs a fraction of the comparison), and get the slower comparison only if there is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expr.arrays import Kernel, Value, broadcast, to_numpy
from eddyline.expr.builtins.base import Argument, Builder, Built, plain
from eddyline.expr.types import is_float

_IEEE: dict[str, Kernel] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_NEGATED = {"ne": "eq", "gt": "le", "ge": "lt"}


def has_nan(values: Value) -> bool:
    """Whether there may be a NaN (one below a NULL counts; a false alarm only costs time)."""
    if isinstance(values, pa.Scalar):
        return values.is_valid and math.isnan(values.as_py())
    numbers = to_numpy(values)
    return bool(len(numbers)) and bool(np.isnan(np.minimum.reduce(numbers)))


def _with_nan(name: str) -> Kernel:
    """eq, lt and le of floats among which there are NaN, written out."""

    def kernel(a: Value, b: Value) -> pa.Array:
        nan_a, nan_b = pc.is_nan(a), pc.is_nan(b)
        match name:
            case "eq":
                return pc.or_(pc.equal(a, b), pc.and_(nan_a, nan_b))
            case "lt":
                return pc.or_(pc.less(a, b), pc.and_not(nan_b, nan_a))
            case _:
                return pc.or_(pc.less_equal(a, b), nan_b)

    return kernel


def _compare_floats(name: str) -> Kernel:
    if name in _NEGATED:
        positive = _compare_floats(_NEGATED[name])
        return lambda a, b: pc.invert(positive(a, b))
    fast, careful = _IEEE[name], _with_nan(name)

    def kernel(a: Value, b: Value) -> pa.Array:
        # eq needs NaN on both sides to differ, lt and le on the right
        if has_nan(b) and (name != "eq" or has_nan(a)):
            return careful(a, b)
        return fast(a, b)

    return kernel


def _compare_with_literal(name: str) -> Kernel:
    """Floats against a literal that is not NaN."""
    if name in ("gt", "ge"):
        opposite = _IEEE[_NEGATED[name]]
        return lambda a, b: pc.invert(opposite(a, b))
    return _IEEE[name]


def comparison(name: str) -> Builder:
    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        left, right = arguments
        if not is_float(left.type):
            return Built(_IEEE[name])
        if right.literal is not None and not has_nan(right.literal):
            return Built(_compare_with_literal(name))
        if left.literal is not None and not has_nan(left.literal):
            mirrored = _compare_with_literal(_MIRRORED[name])
            return Built(lambda a, b: mirrored(b, a))
        return Built(_compare_floats(name))

    return build


def _null_safe_eq(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    equal = comparison("eq")(arguments, returns).kernel

    def kernel(a: Value, b: Value) -> pa.Array:
        length = len(a) if isinstance(a, pa.Array) else len(b)
        null_a, null_b = broadcast(pc.is_null(a), length), broadcast(pc.is_null(b), length)
        return pc.if_else(pc.or_(null_a, null_b), pc.and_(null_a, null_b), equal(a, b))

    return Built(kernel, strict=False)


def _in(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    tested, *listed = arguments
    if any(a.literal is None for a in listed):
        equal = [comparison("eq")((tested, a), returns).kernel for a in listed]

        def one_by_one(x: Value, *values: Value) -> pa.Array:
            length = next(len(v) for v in (x, *values) if isinstance(v, pa.Array))
            found = None
            for value, same in zip(values, equal, strict=True):
                if isinstance(x, pa.Scalar) and isinstance(value, pa.Scalar):
                    hit = broadcast(same(broadcast(x, 1), value)[0], length)
                else:
                    hit = same(x, value)
                found = hit if found is None else pc.or_kleene(found, hit)
            return found

        return Built(one_by_one)
    literals = [a.literal for a in listed if a.literal is not None]
    values: list[Any] = [v.as_py() for v in literals if v.is_valid]
    has_null = len(values) < len(literals)
    members = pa.array([v for v in literals if v.is_valid], type=tested.type)
    zero_among = is_float(tested.type) and any(v == 0 for v in values)
    if zero_among:
        members = pc.add(members, pa.scalar(0.0, tested.type))
    options = pc.SetLookupOptions(members, skip_nulls=True)
    unknown = pa.scalar(None, pa.bool_())

    def kernel(x: pa.Array, *_: Value) -> pa.Array:
        if zero_among:
            x = pc.add(x, pa.scalar(0.0, x.type))  # the set is hashed: −0.0 must become 0.0
        found = pc.call_function("is_in", [x], options)
        if x.null_count:
            found = pc.if_else(pc.is_valid(x), found, unknown)
        if has_null:
            found = pc.if_else(found, found, unknown)
        return found

    return Built(kernel)


def _extreme(name: str) -> Builder:
    """``greatest`` and ``least`` skip NULL; NaN is the greatest."""
    pick = pc.max_element_wise if name == "greatest" else pc.min_element_wise

    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        # Arrow's element-wise extremes skip NaN: right for least, wrong for greatest
        floats = is_float(returns) and name == "greatest"
        nan = pa.scalar(math.nan, returns) if floats else None

        def kernel(*args: Value) -> pa.Array:
            result = _pick(args)
            if floats and any(has_nan(a) for a in args):
                for a in args:
                    found = pc.fill_null(pc.is_nan(a), False)
                    result = pc.if_else(found, nan, result)
            return result

        def _pick(args: Sequence[Value]) -> pa.Array:
            return pick(*args)

        def by_hand(args: Sequence[Value]) -> pa.Array:
            """Types for which Arrow has no such kernel: fold with a comparison."""
            length = next(len(a) for a in args if isinstance(a, pa.Array))
            result = broadcast(args[0], length)
            better = pc.greater if name == "greatest" else pc.less
            for a in args[1:]:
                other = broadcast(a, length)
                wins = pc.fill_null(better(other, result), False)
                result = pc.if_else(pc.or_(wins, pc.is_null(result)), other, result)
            return result

        if returns == pa.bool_() or pa.types.is_duration(returns):
            _pick = by_hand
        return Built(kernel, strict=False)

    return build


BUILDERS: dict[str, Builder] = {
    **{name: comparison(name) for name in _IEEE},
    "null_safe_eq": _null_safe_eq,
    "in": _in,
    "is_null": lambda arguments, returns: Built(lambda a: pc.is_null(a), strict=False),
    "is_not_null": lambda arguments, returns: Built(lambda a: pc.is_valid(a), strict=False),
    "isnan": lambda arguments, returns: Built(lambda a: pc.fill_null(pc.is_nan(a), False), strict=False),
    "not": plain(pc.invert),
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
}
