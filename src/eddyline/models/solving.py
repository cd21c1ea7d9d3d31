"""Predicates as equation systems (Pulse 2.3): when, within each piece, a condition on modelled values is true.

x R y becomes x − y R 0, a polynomial whose roots cut the piece. AND intersects the solutions, OR unites them, NOT is
pushed down to the comparisons. A comparison with a square root is one of polynomials: √p < q where 0 < q and p < q².
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.core.errors import JobError
from eddyline.expr.describe import describe
from eddyline.expr.nodes import Call, Expr, columns_of
from eddyline.kernels import intervals
from eddyline.kernels import polynomials as kernels
from eddyline.kernels.polynomials import EQ, GE, GT, LE, LT, NE
from eddyline.models.arithmetic import (
    MAX_DEGREE,
    Shape,
    constant,
    evaluate,
    product,
    refuse_divisions_by_zero,
    shape_of,
)
from eddyline.models.pieces import Intervals, Pieces, Value, for_kernel

Comparison = Callable[[Expr, Expr, int], Intervals]

CODES: Mapping[str, int] = {"lt": LT, "le": LE, "eq": EQ, "ne": NE, "ge": GE, "gt": GT}
NEGATED: Mapping[str, str] = {"lt": "ge", "le": "gt", "eq": "ne", "ne": "eq", "ge": "lt", "gt": "le"}
TURNED = {LT: GT, LE: GE, EQ: EQ, NE: NE, GE: LE, GT: LT}


def check_condition(e: Expr, shapes: Mapping[str, Shape]) -> None:
    """Refuse a condition that cannot be solved, before anything runs."""
    if not columns_of(e) & shapes.keys():
        return
    match e:
        case Call(function="and" | "or" | "not", args=args):
            for a in args:
                check_condition(a, shapes)
        case Call(function=function, args=(a, b)) if function in CODES:
            one, other = (shape_of(x, shapes) for x in (a, b))
            degrees = [0 if s is None else s.degree * (2 if s.plain else 1) for s in (one, other)]
            both = [s for s in (one, other) if s is not None and not s.plain]
            if any(s.over for s in both) and len(both) == 2:
                raise JobError(f"{describe(e)!r} compares two averages over partly covered windows: leave PARTIAL out.")
            if both and max(degrees) > MAX_DEGREE:
                raise JobError(f"{describe(e)!r} has degree {max(degrees)}, and models have at most {MAX_DEGREE}.")
        case _:
            raise JobError(
                f"{describe(e)!r} cannot be solved for time: conditions on modelled values are comparisons under AND, "
                "OR and NOT."
            )


def gives_points(e: Expr, shapes: Mapping[str, Shape], negated: bool = False) -> bool:
    """Whether single instants may satisfy a condition: it has an equality of modelled values."""
    match e:
        case Call(function="and" | "or", args=args):
            return any(gives_points(a, shapes, negated) for a in args)
        case Call(function="not", args=(a,)):
            return gives_points(a, shapes, not negated)
        case Call(function=function, args=(_, _)) if function == ("ne" if negated else "eq"):
            return bool(columns_of(e) & shapes.keys())
        case _:
            return False


def restrict(pieces: Pieces, conjuncts: Sequence[Expr], scale: float) -> Pieces:
    """The pieces on the intervals on which all conjuncts are true; what reads no modelled value is asked first."""
    modelled = [c for c in conjuncts if columns_of(c) & pieces.values.keys()]
    for c in conjuncts:
        if c not in modelled and len(pieces):
            keep = truths(constant(c, pieces))
            if not keep.all():
                pieces = pieces.take(np.flatnonzero(keep))
    for c in modelled:
        if len(pieces):
            refuse_divisions_by_zero(c, pieces)
            pieces = pieces.cut(solutions(c, pieces, scale))
    return pieces


def truths(array: pa.Array) -> Bools:
    return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def solutions(
    e: Expr, pieces: Pieces, scale: float, negated: bool = False, comparison: Comparison | None = None
) -> Intervals:
    """Where a condition is true, or with ``negated`` where it is false. ``comparison`` says where a comparison holds,
    by the code of its operator; None: where the models' values say so."""
    if not columns_of(e) & pieces.values.keys():
        values = constant(e, pieces)
        keep = truths(pa.compute.invert(values) if negated else values)
        return rows_of(pieces.intervals, np.flatnonzero(keep))
    match e:
        case Call(function="not", args=(a,)):
            return solutions(a, pieces, scale, not negated, comparison)
        case Call(function="and" | "or", args=args):
            parts = [solutions(a, pieces, scale, negated, comparison) for a in args]
            both = intersection if (e.function == "and") != negated else union
            found = parts[0]
            for part in parts[1:]:
                found = both(found, part)
            return found
        case Call(function=function, args=(a, b)):
            code = CODES[NEGATED[function] if negated else function]
            if comparison is not None:
                return comparison(a, b, code)
            return compare(evaluate(a, pieces), evaluate(b, pieces), code, pieces, scale)
    raise AssertionError(f"no condition: {describe(e)}")


def compare(a: Value, b: Value, code: int, pieces: Pieces, scale: float) -> Intervals:
    """Where two values compare as wanted."""
    if a.plain and not b.plain:
        a, b, code = b, a, TURNED[code]
    if a.plain or (a.root and b.root):
        return solve(a.c, b.c, code, pieces, scale)
    if a.over is not None:
        return solve(a.c, product(b.c, a.over), code, pieces, scale)
    zero = np.zeros((len(b.c), 1))
    squares = solve(a.c, product(b.c, b.c), code, pieces, scale)
    if code in (LT, LE, EQ):
        return intersection(solve(b.c, zero, GT if code == LT else GE, pieces, scale), squares)
    return union(solve(b.c, zero, LE if code == GE else LT, pieces, scale), squares)


def solve(a: Float64s, b: Float64s, code: int, pieces: Pieces, scale: float) -> Intervals:
    """Where two polynomials compare as wanted."""
    room = len(pieces) * (max(a.shape[1], b.shape[1]) + 1)
    row, low, high = np.empty(room, np.int64), np.empty(room), np.empty(room)
    closed = np.empty(room, np.uint8)
    arrays = for_kernel(pieces.base, pieces.low, pieces.high, pieces.closed)
    made = kernels.compare(*for_kernel(a, b), scale, *arrays, code, row, low, high, closed)
    return Intervals(row[:made], low[:made], high[:made], closed[:made])


def intersection(a: Intervals, b: Intervals) -> Intervals:
    out = _room(len(a.row) + len(b.row))
    made = intervals.intersect(*_arrays(a), *_arrays(b), *_arrays(out))
    return rows_of(out, slice(0, made))


def union(a: Intervals, b: Intervals) -> Intervals:
    row, low = np.concatenate([a.row, b.row]), np.concatenate([a.low, b.low])
    high, closed = np.concatenate([a.high, b.high]), np.concatenate([a.closed, b.closed])
    order = np.lexsort((1 - (closed & 1).astype(np.int8), low, row))
    out = _room(len(row))
    made = intervals.unite(*_arrays(Intervals(row[order], low[order], high[order], closed[order])), *_arrays(out))
    return rows_of(out, slice(0, made))


def _arrays(a: Intervals) -> tuple[Any, ...]:
    return for_kernel(a.row, a.low, a.high, a.closed)


def _room(n: int) -> Intervals:
    return Intervals(np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n, np.uint8))


def rows_of(a: Intervals, index: Int64s | slice) -> Intervals:
    return Intervals(a.row[index], a.low[index], a.high[index], a.closed[index])
