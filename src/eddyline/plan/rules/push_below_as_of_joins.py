"""push_below_as_of_joins: filter the left side of an as-of join before it looks for partners.

Each element of the left side has its result alone, so one that a condition drops need not be joined. The right side is
another matter: to drop one of its elements would make an earlier one the partner. Only a condition on the keys may go
there, because elements of other keys are no partners anyway: then they are not kept either.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from eddyline.expr.nodes import Column, Expr, columns_of, substitute
from eddyline.plan.logical import AsOfJoin, Plan, Select
from eddyline.plan.rewrite import bottom_up, may_pass, select, without


def push_below_as_of_joins(plan: Plan) -> Plan:
    return bottom_up(plan, _push)


def _push(p: Plan) -> Plan:
    if isinstance(p, Select) and isinstance(p.input, AsOfJoin):
        return _down(p.input, p.conjuncts)
    return p


def _down(p: Plan, conjuncts: tuple[Expr, ...]) -> Plan:
    if not isinstance(p, AsOfJoin):
        return select(p, conjuncts)
    mine = set(p.left.schema.names)
    types = {f.name: f.type for side in (p.left, p.right) for f in side.schema}
    # A function may give different results for equal doubles (0.0 and −0.0), so a condition on one side
    # does not imply the condition on the other.
    same = [(a, b) for a, b in p.keys if types[a] == types[b] and not pa.types.is_floating(types[a])]
    to_left: dict[str, Expr] = {b: Column(a, types[a]) for a, b in same}
    to_right: dict[str, Expr] = {a: Column(b, types[b]) for a, b in same}
    left, right, gone = list[Expr](), list[Expr](), list[Expr]()
    for c in may_pass(conjuncts):
        read = columns_of(c)
        if read and read <= mine:
            left.append(c)
        elif read and read <= to_left.keys() and not p.outer:  # a row without a partner has NULL in place of its key
            left.append(substitute(c, to_left))
        else:
            continue
        gone.append(c)
        if columns_of(left[-1]) <= to_right.keys():
            right.append(substitute(left[-1], to_right))
    if not gone:
        return select(p, conjuncts)
    below = replace(p, left=_down(p.left, tuple(left)), right=_down(p.right, tuple(right)) if right else p.right)
    return select(below, without(conjuncts, gone))
