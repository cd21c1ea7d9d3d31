"""A query at single instants: what conditions and maps make of rows of numbers, without polynomials.

Tuples with straight lines between them are evaluated exactly at the instants that a query is sampled at: a value there
is a number, a condition is true or false, and nothing is in doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal

import numpy as np

from eddyline.core.delta import Bools, Float64s
from eddyline.expr.nodes import Call, Cast, Column, Expr, Literal, columns_of
from eddyline.models import program as pg
from eddyline.models.arithmetic import constant, evaluate, refuse_divisions_by_zero
from eddyline.models.pieces import Pieces
from eddyline.models.solving import truths

AGGREGATED = "an aggregate reads more than an instant"
_COMPARED = {
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "ge": np.greater_equal, "gt": np.greater,
}  # fmt: skip
_NEGATED = {"lt": "ge", "le": "gt", "eq": "ne", "ne": "eq", "ge": "lt", "gt": "le"}


def by_instants(program: pg.Program) -> str | None:
    """None if the answer at an instant is that of each signal's values there alone; otherwise the reason why not."""
    if program.sample is None:
        return "the result is segments"
    node = below_conditions(program)
    if isinstance(node, pg.Join):
        return "signals are joined"
    return AGGREGATED if isinstance(node, pg.Aggregate) else None


def below_conditions(program: pg.Program) -> pg.Node:
    """The first operator of a program, from its result, that is neither a condition nor a map."""
    node = program.root
    while isinstance(node, pg.Restrict | pg.Map):
        node = node.input
    return node


def first_conditions(program: pg.Program, keys: Collection[str]) -> tuple[Expr, ...]:
    """The conditions on a source itself that read no key."""
    node = program.root
    found: tuple[Expr, ...] = ()
    while isinstance(node, pg.Restrict | pg.Map):
        found = (
            tuple(c for c in node.conjuncts if not columns_of(c) & set(keys)) if isinstance(node, pg.Restrict) else ()
        )
        node = node.input
    return found


def at_instants(node: pg.Node, rows: Pieces) -> Pieces:
    """What a program of conditions and maps computes from values at instants (polynomials of degree 0)."""
    if isinstance(node, pg.Restrict):
        return restricted(at_instants(node.input, rows), node.conjuncts)
    if isinstance(node, pg.Map):
        return pg.run(pg.Map(pg.Source(0), node.items), [at_instants(node.input, rows)], 1.0)
    assert isinstance(node, pg.Source)
    return rows


def restricted(rows: Pieces, conjuncts: Sequence[Expr]) -> Pieces:
    """The rows for which all conjuncts are true; what reads no modelled value is asked first."""
    for c in sorted(conjuncts, key=lambda c: bool(columns_of(c) & rows.values.keys())):
        if len(rows):
            refuse_divisions_by_zero(c, rows)
            keep = holds(c, rows)
            if not keep.all():
                rows = rows.take(np.flatnonzero(keep))
    return rows


def holds(e: Expr, rows: Pieces, negated: bool = False) -> Bools:
    """Whether a condition, or with ``negated`` its negation, is true; what is computed from NULL is neither."""
    if not columns_of(e) & rows.values.keys():
        return truths(constant(Call("not", (e,), e.type) if negated else e, rows))
    match e:
        case Call(function="not", args=(a,)):
            return holds(a, rows, not negated)
        case Call(function="and" | "or", args=args):
            parts = [holds(a, rows, negated) for a in args]
            both = np.logical_and if (e.function == "and") != negated else np.logical_or
            return np.asarray(both.reduce(parts), np.bool_)
        case Call(function=function, args=(a, b)):
            x, y = _numbers(a, rows), _numbers(b, rows)
            function = _NEGATED[function] if negated else function
            found = np.asarray(_COMPARED[function](x, y), np.bool_)
            # No number (NULL) compares as false with everything, but is not equal to anything either.
            return found & ~(np.isnan(x) | np.isnan(y)) if function == "ne" else found
    raise AssertionError("a condition on models is a comparison under AND, OR and NOT")


def _numbers(e: Expr, rows: Pieces) -> Float64s | float:
    """The values of an expression; what is a number or a value itself is not copied."""
    match e:
        case Cast(operand=operand):
            return _numbers(operand, rows)
        case Literal(value=value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            return float(value)
        case Column(name=name) if name in rows.values and rows.values[name].plain:
            return rows.values[name].c[:, 0]
    return evaluate(e, rows).at(np.zeros(len(rows)))
