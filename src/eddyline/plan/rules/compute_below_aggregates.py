"""compute_below_aggregates: some keys and arguments become columns of a projection below the aggregate.

Those with users' functions: an aggregate evaluates its arguments when a row enters and when it leaves, a projection
calls functions once. With ``on_error = 'invalid'`` all that can fail: a projection turns away the rows for which an
item fails, an aggregate cannot. Otherwise the aggregate evaluates its arguments itself and no column is built twice.
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.expr.evaluate import compile_expr
from eddyline.expr.members import calls_of
from eddyline.expr.nodes import Column, Expr
from eddyline.plan.logical import Aggregate, Plan, Project
from eddyline.plan.rewrite import bottom_up


def compute_below_aggregates(plan: Plan, diverting: bool = False) -> Plan:
    return bottom_up(plan, lambda p: _compute(p, diverting) if isinstance(p, Aggregate) else p)


def _compute(p: Aggregate, diverting: bool) -> Plan:
    asked = [*(e for _, e in p.keys), *(e for _, call in p.aggregates for e in call.args)]
    moved = list(dict.fromkeys(e for e in asked if (compile_expr(e).can_fail if diverting else calls_of(e))))
    if not moved:
        return p
    named = {e: Column(f"_computed{i}", e.type) for i, e in enumerate(moved)}

    def computed(e: Expr) -> Expr:
        return named.get(e, e)

    kept = tuple((f.name, Column(f.name, f.type)) for f in p.input.schema)
    below = Project(p.input, (*kept, *((c.name, e) for e, c in named.items())))
    return Aggregate(
        below,
        tuple((n, computed(e)) for n, e in p.keys),
        tuple((n, replace(call, args=tuple(computed(e) for e in call.args))) for n, call in p.aggregates),
        p.grouped,
    )
