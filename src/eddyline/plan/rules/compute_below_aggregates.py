"""compute_below_aggregates: keys and arguments that can fail become columns of a projection below the aggregate.

Only for ``on_error = 'invalid'``: a projection turns away the rows for which an item fails, an aggregate cannot. Where
an error stops the query anyway, the aggregate evaluates its arguments itself and no column is built twice.
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Column, Expr
from eddyline.plan.logical import Aggregate, Plan, Project
from eddyline.plan.rewrite import bottom_up


def compute_below_aggregates(plan: Plan) -> Plan:
    return bottom_up(plan, _compute)


def _compute(p: Plan) -> Plan:
    if not isinstance(p, Aggregate):
        return p
    asked = [*(e for _, e in p.keys), *(e for _, call in p.aggregates for e in call.args)]
    failing = list(dict.fromkeys(e for e in asked if compile_expr(e).can_fail))
    if not failing:
        return p
    named = {e: Column(f"_computed{i}", e.type) for i, e in enumerate(failing)}

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
