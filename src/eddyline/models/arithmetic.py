"""Expressions over models: sums, differences and products of polynomials are polynomials.

What an expression may be is decided from its shape alone, before anything runs (``shape_of``); ``evaluate`` then
computes it for pieces. A part that reads no modelled value is computed like any expression, once for each piece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Float64s
from eddyline.core.errors import DataError, JobError
from eddyline.expr.describe import describe
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.failures import RowErrors
from eddyline.expr.nodes import Call, Cast, Column, Expr, Literal, columns_of, walk
from eddyline.models.pieces import Pieces, Value, horner, padded

MAX_DEGREE = 16


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a modelled value before there is one."""

    degree: int
    root: bool = False
    over: bool = False

    @property
    def plain(self) -> bool:
        return not self.root and not self.over


class NotPolynomial(JobError):
    """An expression that no polynomial can stand for."""


def shape_of(e: Expr, shapes: Mapping[str, Shape]) -> Shape | None:
    """The shape of an expression, None if it reads no modelled value; otherwise a refusal that says what to do."""
    if not columns_of(e) & shapes.keys():
        return None
    match e:
        case Column():
            return shapes[e.name]
        case Cast(operand=operand) if pa.types.is_floating(e.type):
            return shape_of(operand, shapes)
        case Call(function="negate", args=(a,)):
            return _plain(shape_of(a, shapes), e)
        case Call(function="add" | "subtract" | "multiply", args=(a, b)):
            one, other = (_plain(shape_of(x, shapes), e) for x in (a, b))
            degrees = [0 if s is None else s.degree for s in (one, other)]
            return _bounded(sum(degrees) if e.function == "multiply" else max(degrees), e)
        case Call(function="divide", args=(a, b)):
            if shape_of(b, shapes) is not None:
                raise NotPolynomial(f"{describe(e)!r} divides by a modelled value, which gives no polynomial.")
            if literal(b) == 0:
                raise NotPolynomial(f"{describe(e)!r} divides by zero.")
            return _plain(shape_of(a, shapes), e)
        case Call(function="pow", args=(a, b)):
            power = exponent(b)
            if power is None:
                raise NotPolynomial(f"{describe(e)!r}: a modelled value takes whole powers from 0 to {MAX_DEGREE}.")
            found = _plain(shape_of(a, shapes), e)
            assert found is not None
            return _bounded(found.degree * power, e)
        case Call(function="sqrt", args=(a,)):
            found = _plain(shape_of(a, shapes), e)
            assert found is not None
            return Shape(found.degree, root=True)
        case _:
            raise NotPolynomial(
                f"{describe(e)!r} is no polynomial of time: modelled values take +, −, ·, division by values "
                "that are not modelled, whole powers and one outermost square root."
            )


def _plain(s: Shape | None, e: Expr) -> Shape | None:
    if s is not None and not s.plain:
        what = "a square root" if s.root else "an average over partly covered windows"
        raise NotPolynomial(f"{describe(e)!r} computes with {what}, which is no polynomial; it can only be compared.")
    return s


def _bounded(degree: int, e: Expr) -> Shape:
    if degree > MAX_DEGREE:
        raise NotPolynomial(f"{describe(e)!r} has degree {degree}, and models have at most {MAX_DEGREE}.")
    return Shape(degree)


def literal(e: Expr) -> Any:
    """The value of a constant; None: it is none."""
    while isinstance(e, Cast):
        e = e.operand
    return e.value if isinstance(e, Literal) else None


def exponent(e: Expr) -> int | None:
    """The whole power that an expression is, if it is one."""
    value = literal(e)
    if value is None or isinstance(value, bool | str) or not 0 <= value <= MAX_DEGREE or value != int(value):
        return None
    return int(value)


def evaluate(e: Expr, pieces: Pieces) -> Value:
    """The value of an expression of which ``shape_of`` knows the shape; constants have degree 0."""
    if not columns_of(e) & pieces.values.keys():
        return Value(numbers(constant(e, pieces)).reshape(-1, 1))
    match e:
        case Column():
            return pieces.values[e.name]
        case Cast(operand=operand):
            return evaluate(operand, pieces)
        case Call(function="negate", args=(a,)):
            return Value(-evaluate(a, pieces).c)
        case Call(function="sqrt", args=(a,)):
            return Value(evaluate(a, pieces).c, root=True)
        case Call(function="pow", args=(a, b)):
            base, result = evaluate(a, pieces).c, np.ones((len(pieces), 1))
            for _ in range(cast(int, exponent(b))):
                result = product(result, base)
            return Value(result)
        case Call(args=(a, b)):
            return Value(_ARITHMETIC[e.function](evaluate(a, pieces).c, evaluate(b, pieces).c))
    raise AssertionError(f"no polynomial: {describe(e)}")


def constant(e: Expr, pieces: Pieces) -> pa.Array:
    """What reads no modelled value, for each piece."""
    try:
        return compile_expr(e)(pieces.columns, len(pieces))
    except RowErrors as failed:
        row = min(failed.errors)
        raise _for_piece(str(failed.errors[row]), e, pieces, row) from None


def refuse_divisions_by_zero(e: Expr, pieces: Pieces) -> None:
    """A modelled value is divided by what is not modelled: where that is zero the query stops, as it does on tuples.
    Below AND and OR the other side may make up for it, and the comparison is neither true nor false instead."""
    if any(isinstance(part, Call) and part.function in ("and", "or") for part in walk(e)):
        return
    for part in walk(e):
        if isinstance(part, Call) and part.function == "divide" and columns_of(part) & pieces.values.keys():
            zero = numbers(constant(part.args[1], pieces)) == 0.0
            if zero.any():
                message = f"division by zero in {describe(part)!r}"
                raise _for_piece(message, part, pieces, int(np.flatnonzero(zero)[0]))


def _for_piece(message: str, e: Expr, pieces: Pieces, row: int) -> DataError:
    """The error of an expression for one piece."""
    read = sorted(columns_of(e) & pieces.columns.keys())
    shown = ", ".join(f"{n.rpartition('.')[2]} = {pieces.columns[n][row].as_py()!r}" for n in read)
    which = f", where {shown}" if shown else ""
    return DataError(f"{message.rstrip('.')}{which}: leave such signals out (WHERE).")


def numbers(array: pa.Array) -> Float64s:
    """NULL is no number: what is computed from it has no value, and compares with nothing."""
    found: Float64s = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found


def product(a: Float64s, b: Float64s) -> Float64s:
    out = np.zeros((len(a), a.shape[1] + b.shape[1] - 1))
    for i in range(a.shape[1]):
        for j in range(b.shape[1]):
            out[:, i + j] += a[:, i] * b[:, j]
    return out


def added(a: Float64s, b: Float64s) -> Float64s:
    width = max(a.shape[1], b.shape[1])
    total: Float64s = padded(a, width) + padded(b, width)
    return total


def magnitude(c: Float64s, reach: Float64s) -> Float64s:
    """Σ |cᵢ|·reachⁱ: how large the terms are that far from the base."""
    return horner(np.abs(c), reach)


def quotient(a: Float64s, b: Float64s) -> Float64s:
    """By zero it is no number, which compares with nothing: where it would be a result it is refused before."""
    by = np.where(b[:, :1] == 0.0, np.nan, b[:, :1])
    found: Float64s = a / by
    return found


_ARITHMETIC: dict[str, Callable[[Float64s, Float64s], Float64s]] = {
    "add": added,
    "subtract": lambda a, b: added(a, -b),
    "multiply": product,
    "divide": quotient,
}
