"""Conditions between two sides that are one comparison beside equalities: the bounds of one side decide which rows of
the other have a partner."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.core.schema import Schema
from eddyline.expr.nodes import Expr
from eddyline.operators.bound_match import FLIPPED, Comparison
from eddyline.operators.join_plan import Member
from eddyline.plan.conditions import split_conditions
from eddyline.plan.memberships import brief


def comparison(
    keys: Sequence[tuple[Expr, ...]],
    equalities: Sequence[tuple[Member, Member]],
    residual: Sequence[Expr],
    left: Schema,
    right: Schema,
) -> Comparison | None:
    """What is left beside the equalities of ``keys``, if it is a single comparison of values that have an order."""
    if len(residual) != 1:
        return None
    known, conditions, rest = split_conditions(residual, [left, right], keys)
    if rest:
        return None
    (found,) = conditions
    a, op, b = found.left, found.op, found.right
    if a.input == 1:
        a, op, b = b, FLIPPED[op], a
    pairs = [(x, y) if x.input == 0 else (y, x) for x, y in equalities]
    equal = tuple((keys[0][x.key], keys[1][y.key]) for x, y in pairs)
    value = known[1][b.key]
    return Comparison(known[0][a.key], op, value, equal, brief(value))
