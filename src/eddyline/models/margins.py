"""Conditions within margins: when they hold whatever the errors are, and when only some errors make them hold.

x R y with errors of at most e together is *certain* where x R y ∓ e holds, and *possible* where x R y ± e does. AND
intersects and OR unites both; NOT turns one into the other, which is why what is possible of the negation is exactly
what is not certain. Certain ⊆ true ⊆ possible, at every instant; a piece that is possible and not certain is in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eddyline.core.delta import Bools, Float64s
from eddyline.core.errors import JobError
from eddyline.expr.describe import describe
from eddyline.expr.nodes import Call, Expr, columns_of
from eddyline.kernels.polynomials import EQ, GE, GT, LE, LT, NE
from eddyline.models.arithmetic import Shape, added, constant, product, refuse_divisions_by_zero, shape_of
from eddyline.models.error_bounds import bounded, cut_at_roots, cut_at_signs, with_error
from eddyline.models.fitting import ErrorBound
from eddyline.models.pieces import Intervals, Pieces, Value, concat
from eddyline.models.solving import CODES, TURNED, compare, intersection, solutions, solve, truths, union

CERTAIN, POSSIBLE = -1.0, 1.0
ROUNDED = 1.0 + 2.0**-40  # what a bound may be exceeded by, for bounds that are rounded themselves


def restrict_within(pieces: Pieces, conjuncts: Sequence[Expr], scale: float) -> Pieces:
    """The pieces on the intervals on which all conjuncts may be true; those on which one need not be are in doubt."""
    modelled = [c for c in conjuncts if columns_of(c) & pieces.values.keys()]
    for c in conjuncts:
        if c not in modelled and len(pieces):
            pieces = pieces.take(np.flatnonzero(truths(constant(c, pieces))))
    for c in modelled:
        refuse_divisions_by_zero(c, pieces)
        if len(pieces) and bounded(pieces):
            pieces = cut_at_signs(pieces, [c], scale)
            certain = where(c, pieces, scale, CERTAIN)
            possible = where(c, pieces, scale, POSSIBLE)
            doubtful = intersection(possible, where(c, pieces, scale, POSSIBLE, negated=True))
            pieces = _parts(pieces, certain, doubtful)
        elif len(pieces):
            pieces = pieces.cut(solutions(c, pieces, scale))
    return pieces


def _parts(pieces: Pieces, certain: Intervals, doubtful: Intervals) -> Pieces:
    """The pieces on both kinds of intervals, in their old order."""
    if not len(doubtful.row):
        return pieces.cut(certain)
    sure, unsure = pieces.cut(certain), pieces.cut(doubtful)
    unsure = unsure.with_doubt(np.ones(len(unsure), np.bool_))
    both = concat([sure, unsure])
    row = np.concatenate([certain.row, doubtful.row])
    return both.take(np.lexsort((both.high, both.low, row)))


def where(e: Expr, pieces: Pieces, scale: float, side: float, negated: bool = False) -> Intervals:
    """Where a condition, or with ``negated`` its negation, is certain or possible."""

    def comparison(a: Expr, b: Expr, code: int) -> Intervals:
        return _within(with_error(a, pieces, scale), with_error(b, pieces, scale), code, pieces, scale, side)

    return solutions(e, pieces, scale, negated, comparison)


def _within(a: Value, b: Value, code: int, pieces: Pieces, scale: float, side: float) -> Intervals:
    if a.plain and not b.plain:
        a, b, code = b, a, TURNED[code]
    if code == EQ:
        return intersection(*(_within(a, b, c, pieces, scale, side) for c in (LE, GE)))
    if code == NE:
        return union(*(_within(a, b, c, pieces, scale, side) for c in (LT, GT)))
    # x < y ± e: the errors of both sides move y, a quotient's own its numerator.
    outwards = side if code in (LT, LE) else -side
    moved = b.c
    for error in (b.error, None if a.over is not None else a.error):
        moved = moved if error is None else added(moved, outwards * error)
    if a.over is not None:
        numerator = a.c if a.error is None else added(a.c, -outwards * a.error)
        return solve(numerator, product(moved, a.over), code, pieces, scale)
    return compare(Value(a.c, a.root), Value(moved, b.root), code, pieces, scale)


def check_margins(e: Expr, shapes: Mapping[str, Shape]) -> None:
    """Refuse a comparison of two square roots: its margin is no polynomial."""
    if not columns_of(e) & shapes.keys() or not isinstance(e, Call):
        return
    if e.function in CODES:
        sides = [shape_of(a, shapes) for a in e.args]
        if all(s is not None and s.root for s in sides):
            raise JobError(
                f"{describe(e)!r} compares two square roots, which has no bound of its error: compare their squares."
            )
        return
    for a in e.args:
        check_margins(a, shapes)


def judged(pieces: Pieces, name: str, bound: ErrorBound, scale: float) -> Pieces:
    """The pieces, cut so that the error of a value is within the bound on a whole piece or the piece is in doubt.

    A relative bound is that share of what the value stands for, which is at least |value| − error.
    """
    error = pieces.values[name].error
    if error is None or not len(pieces):
        return pieces
    if not bound.relative:
        sides = [(error, np.full((len(pieces), 1), bound.amount))]
    else:
        pieces = cut_at_roots(pieces, pieces.values[name].c, scale)
        value, error = pieces.values[name], pieces.values[name].error
        assert error is not None
        x = (0.5 * (pieces.low + pieces.high) - pieces.base) * scale
        size = value.c * np.where(value.at(x) < 0, -1.0, 1.0)[:, None]
        sides = [
            (error * (1.0 + bound.amount), size * bound.amount),
            (error, np.full((len(pieces), 1), bound.floor)),
        ]
    within = [solve(a, b, LE, pieces, scale) for a, b in sides]
    beyond = [solve(a, b, GT, pieces, scale) for a, b in sides]
    if len(sides) == 1:
        return _parts(pieces, within[0], beyond[0])
    return _parts(pieces, union(*within), intersection(*beyond))


def exceeds(value: Value, x: Float64s, bound: ErrorBound) -> Bools:
    """Whether the error of each piece's value at x may be beyond the bound."""
    error = value.error_at(x)
    if not bound.relative:
        return np.asarray(error > bound.amount * ROUNDED, np.bool_)
    least = np.maximum(np.abs(value.at(x)) - error, 0.0)
    return np.asarray(error > np.maximum(bound.amount * least, bound.floor) * ROUNDED, np.bool_)
