"""Typed expression nodes.

The binder makes them and inserts every coercion as an explicit ``Cast``, so an evaluator never guesses: the arguments
of a ``Call`` have the types that ``expr.functions.resolve`` asked for. Two evaluators read these nodes and share
nothing else: the vectorised one (``expr.evaluate``) and the row-at-a-time one of the reference interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from eddyline.core.catalog import AggregateDef, FunctionDef
from eddyline.core.errors import Span


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the input, by its plan name."""

    name: str
    type: pa.DataType
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """``value`` is a Python value (None, bool, int, float, str, bytes, date, datetime, timedelta, Decimal)."""

    value: Any
    type: pa.DataType
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A built-in function or operator, by its canonical name (``add``, ``eq``, ``and``, ``like``, ``substring`` …)."""

    function: str
    args: tuple[Expr, ...]
    type: pa.DataType
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """ANSI cast: what does not fit is an error (``safe`` = TRY_CAST: NULL instead)."""

    operand: Expr
    type: pa.DataType
    safe: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE WHEN c THEN v … ELSE d END``; the simple form is bound to this one. A branch not taken cannot fail."""

    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr
    type: pa.DataType
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class UserCall:
    """A call of a user's function."""

    function: FunctionDef
    args: tuple[Expr, ...]
    type: pa.DataType
    span: Span | None = field(default=None, compare=False, repr=False)


Expr = Column | Literal | Call | Cast | Case | UserCall


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """``function`` in count, sum, avg, min, max, stddev, stddev_pop, variance, var_pop, first, last, or ``user``.

    ``args`` is empty for ``count(*)``. ``type`` is the result type. ``parameters`` are constants behind the arguments:
    those of aggregates with a declared error (``expr.approximate``).
    """

    function: str
    args: tuple[Expr, ...]
    type: pa.DataType
    distinct: bool = False
    user: AggregateDef | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    parameters: tuple[float, ...] = ()


def children(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Call(args=args) | UserCall(args=args):
            return args
        case Cast(operand=operand):
            return (operand,)
        case Case(branches=branches, default=default):
            return (*(x for pair in branches for x in pair), default)
        case _:
            return ()


def walk(e: Expr) -> Iterator[Expr]:
    yield e
    for c in children(e):
        yield from walk(c)


def columns_of(e: Expr) -> frozenset[str]:
    """The plan names an expression reads."""
    return frozenset(x.name for x in walk(e) if isinstance(x, Column))


def substitute(e: Expr, by: dict[str, Expr]) -> Expr:
    """Replace columns by expressions, which take the columns' places in the text: so casts that the binder put around
    a column are still distinguished from those that were written."""
    match e:
        case Column(name=name):
            return replace(by[name], span=e.span) if name in by else e
        case Literal():
            return e
        case Call():
            return Call(e.function, tuple(substitute(a, by) for a in e.args), e.type, e.span)
        case UserCall():
            return UserCall(e.function, tuple(substitute(a, by) for a in e.args), e.type, e.span)
        case Cast():
            return Cast(substitute(e.operand, by), e.type, e.safe, e.span)
        case Case():
            return Case(
                tuple((substitute(c, by), substitute(v, by)) for c, v in e.branches),
                substitute(e.default, by),
                e.type,
                e.span,
            )
