"""ask_above_joins: users' functions of joined rows stand in a selection above the join, not in its condition.

A join evaluates its condition for a pair when it enters and when it leaves. A selection above it does better: it
evaluates its conjuncts for a row once, in the order that pays, and forgets their errors together. So conjuncts that can
fail are moved with them.
"""

from __future__ import annotations

from eddyline.expr.nodes import UserCall, walk
from eddyline.plan.conjuncts import split_conjuncts
from eddyline.plan.logical import Join, Plan, Select
from eddyline.plan.rewrite import bottom_up, deterministic, movable, select, without


def ask_above_joins(plan: Plan) -> Plan:
    return bottom_up(plan, _ask)


def _ask(p: Plan) -> Plan:
    if isinstance(p, Select):
        return select(p.input, p.conjuncts)  # one of them, if the join below has just got its own
    if not isinstance(p, Join):
        return p
    _, _, residual = split_conjuncts(p.conjuncts, [i.schema for i in p.inputs])
    if not any(isinstance(x, UserCall) for c in residual for x in walk(c)):
        return p
    # What is written behind a function that is not deterministic stays behind it.
    wall = next((i for i, c in enumerate(residual) if not deterministic(c)), len(residual))
    above = [c for i, c in enumerate(residual) if i >= wall or not movable(c)]
    return select(Join(p.inputs, without(p.conjuncts, above)), above)
