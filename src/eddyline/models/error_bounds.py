"""How far an expression over models may be from the same expression over what the models stand for.

Invariant: if every modelled value x of a piece satisfies |x(t) − x̂(t)| ≤ e_x(t) on it, the value v of an expression
satisfies |v(t) − v̂(t)| ≤ e_v(t), where e_v is a polynomial that is not negative on the piece. The rules are those of
interval arithmetic, and the factors of e_x are the Lipschitz constants of the operators:

    x ± y    e_x + e_y
    x · y    |x|·e_y + |y|·e_x + e_x·e_y
    xⁿ       (|x| + e_x)ⁿ − |x|ⁿ
    √Σuᵢ²    √Σ e_uᵢ², the norm being 1-Lipschitz; √p otherwise √e_p

|x| is no polynomial, but on a piece without a change of its sign it is ±x: pieces are cut at the roots of factors first
(``cut_at_signs``), so that the bound is as tight near a root as elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from eddyline.core.delta import Float64s
from eddyline.expr.nodes import Call, Cast, Column, Expr, columns_of
from eddyline.kernels.polynomials import EQ, HIGH_CLOSED, LOW_CLOSED
from eddyline.models.arithmetic import added, evaluate, exponent, magnitude, product, quotient
from eddyline.models.pieces import Intervals, Pieces, Value, horner, shifted
from eddyline.models.solving import solve


def bounded(pieces: Pieces) -> bool:
    """Whether the values of pieces have bounds of their error."""
    return any(v.error is not None for v in pieces.values.values())


def with_error(e: Expr, pieces: Pieces, scale: float) -> Value:
    """The value of an expression with the bound of its error; pieces are cut at the signs of its factors."""
    value = evaluate(e, pieces)
    error = error_of(e, pieces, scale)
    return Value(value.c, value.root, value.over, error)


def error_of(e: Expr, pieces: Pieces, scale: float) -> Float64s | None:
    """The bound as a polynomial for each piece; None where nothing modelled with a bound is read."""
    read = columns_of(e) & pieces.values.keys()
    if all(pieces.values[n].error is None for n in read):
        return None
    match e:
        case Column():
            return pieces.values[e.name].error
        case Cast(operand=operand):
            return error_of(operand, pieces, scale)
        case Call(function="negate", args=(a,)):
            return error_of(a, pieces, scale)
        case Call(function="add" | "subtract", args=(a, b)):
            return _sum(error_of(a, pieces, scale), error_of(b, pieces, scale))
        case Call(function="divide", args=(a, b)):
            error, by = error_of(a, pieces, scale), np.abs(evaluate(b, pieces).c[:, :1])
            return None if error is None else quotient(error, by)
        case Call(function="multiply", args=(a, b)):
            return _product_error(a, b, pieces, scale)
        case Call(function="pow", args=(a, b)):
            return _power_error(a, exponent(b) or 0, pieces, scale)
        case Call(function="sqrt", args=(a,)):
            return _root_error(a, pieces, scale)
    raise AssertionError("an expression of models is one of those above")


def _sum(a: Float64s | None, b: Float64s | None) -> Float64s | None:
    if a is None or b is None:
        return b if a is None else a
    return added(a, b)


def _product_error(a: Expr, b: Expr, pieces: Pieces, scale: float) -> Float64s | None:
    one, other = error_of(a, pieces, scale), error_of(b, pieces, scale)
    total: Float64s | None = None
    if other is not None:
        total = product(_size(a, pieces, scale), other)
    if one is not None:
        total = _sum(total, product(_size(b, pieces, scale), one))
    if one is not None and other is not None:
        total = _sum(total, product(one, other))
    return total


def _power_error(a: Expr, power: int, pieces: Pieces, scale: float) -> Float64s | None:
    error = error_of(a, pieces, scale)
    if error is None:
        return None
    size = _size(a, pieces, scale)
    largest = added(size, error)
    high = low = np.ones((len(pieces), 1))
    for _ in range(power):
        high, low = product(high, largest), product(low, size)
    return added(high, -low)


def _root_error(a: Expr, pieces: Pieces, scale: float) -> Float64s | None:
    squares = list(squared(a))
    if squares and all(s is not None for s in squares):
        errors = [error_of(s, pieces, scale) for s in squares if s is not None]
        tops = [highest(e, pieces, scale) for e in errors if e is not None]
        return np.sqrt(sum(t * t for t in tops)).reshape(-1, 1)
    error = error_of(a, pieces, scale)
    return None if error is None else np.sqrt(highest(error, pieces, scale)).reshape(-1, 1)


def squared(e: Expr) -> Iterator[Expr | None]:
    """The u of a sum of squares u·u or u²; None for a term that is no square."""
    match e:
        case Cast(operand=operand):
            yield from squared(operand)
        case Call(function="add", args=(a, b)):
            yield from squared(a)
            yield from squared(b)
        case Call(function="multiply", args=(a, b)) if a == b:
            yield a
        case Call(function="pow", args=(a, b)) if exponent(b) == 2:
            yield a
        case _:
            yield None


def _size(e: Expr, pieces: Pieces, scale: float) -> Float64s:
    """|x| as a polynomial: x with its sign, where that is the same at both ends; its largest magnitude elsewhere."""
    c = evaluate(e, pieces).c
    x_low, x_high = (pieces.low - pieces.base) * scale, (pieces.high - pieces.base) * scale
    at_low, at_high, middle = (horner(c, x) for x in (x_low, x_high, 0.5 * (x_low + x_high)))
    noise = 2.0**-40 * magnitude(c, np.maximum(np.abs(x_low), np.abs(x_high)))
    sign = np.where(middle < 0, -1.0, 1.0)
    same = (sign * at_low >= -noise) & (sign * at_high >= -noise)
    signed = c * sign[:, None]
    signed[:, 0] += noise
    if not same.all():
        flat = np.zeros_like(c)
        flat[:, 0] = highest(np.abs(shifted(c, x_low)), pieces, scale, shift=False)
        signed = np.where(same[:, None], signed, flat)
    return signed


def highest(c: Float64s, pieces: Pieces, scale: float, *, shift: bool = True) -> Float64s:
    """A number that a polynomial does not exceed on its piece; exact for what is constant or linear."""
    by = (pieces.low - pieces.base) * scale
    local = shifted(c, by) if shift and c.shape[1] > 1 else c
    width = (pieces.high - pieces.low) * scale
    if c.shape[1] <= 2:
        return np.maximum(local[:, 0], horner(local, width))
    return horner(np.abs(local), width)


# ── cutting at signs ──────────────────────────────────────────────────────────────────────────────────────────────────


def factors(e: Expr) -> Iterator[Expr]:
    """The factors of products and powers, whose magnitudes the bound of an expression reads."""
    match e:
        case Cast(operand=operand):
            yield from factors(operand)
        case Call(function="sqrt", args=(a,)) if all(s is not None for s in squared(a)):
            for s in squared(a):
                if s is not None:
                    yield from factors(s)
        case Call(function="multiply", args=(a, b)):
            yield from (a, b) if a != b else (a,)
            yield from factors(a)
            yield from factors(b)
        case Call(function="pow", args=(a, _)):
            yield a
            yield from factors(a)
        case Call(args=args):
            for a in args:
                yield from factors(a)


def cut_at_signs(pieces: Pieces, expressions: Iterable[Expr], scale: float) -> Pieces:
    """The same pieces, cut where a factor of one of the expressions changes its sign."""
    if not bounded(pieces):
        return pieces
    seen: list[Expr] = []
    for e in expressions:
        for factor in factors(e):
            if factor in seen or not columns_of(factor) & pieces.values.keys():
                continue
            seen.append(factor)
            value = evaluate(factor, pieces)
            pieces = cut_at_roots(pieces, value.c, scale)
    return pieces


def cut_at_roots(pieces: Pieces, c: Float64s, scale: float) -> Pieces:
    """The same pieces, cut at the roots of a polynomial; a root belongs to the part behind it."""
    zero = np.zeros((len(pieces), 1))
    found = solve(c, zero, EQ, pieces, scale)
    inside = (found.low == found.high) & (found.low > pieces.low[found.row]) & (found.low < pieces.high[found.row])
    if not inside.any():
        return pieces
    row = np.concatenate([np.arange(len(pieces)), found.row[inside]])
    low = np.concatenate([pieces.low, found.low[inside]])
    first = np.concatenate([np.ones(len(pieces), np.bool_), np.zeros(int(inside.sum()), np.bool_)])
    order = np.lexsort((low, ~first, row))
    row, low, first = row[order], low[order], first[order]
    last = np.r_[row[1:] != row[:-1], True]
    high = np.where(last, pieces.high[row], np.r_[low[1:], 0.0])
    begins = np.where(first, pieces.closed[row] & LOW_CLOSED, LOW_CLOSED)
    ends = np.where(last, pieces.closed[row] & HIGH_CLOSED, 0)
    return pieces.cut(Intervals(row, low, high, (begins | ends).astype(np.uint8)))


def same_everywhere(errors: Sequence[Float64s]) -> bool:
    """Whether all errors are one constant."""
    flat = [e for e in errors if len(e)]
    return all(e.shape[1] == 1 and bool((e == flat[0][0, 0]).all()) for e in flat)
