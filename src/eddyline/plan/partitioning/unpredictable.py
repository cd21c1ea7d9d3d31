"""Functions on whose answers shards would not agree: a plan that calls one is not divided."""

from __future__ import annotations

from eddyline.expr.nodes import Expr, UserCall, walk
from eddyline.plan.logical import Aggregate, Join, MarkJoin, OuterJoin, Plan, Project, Select
from eddyline.plan.traverse import each


def unpredictable(plan: Plan) -> list[str]:
    """User's functions that may answer differently to the same question. No built-in function does."""
    calls = [e for n in each(plan) for top in _expressions(n) for e in walk(top)]
    return [e.function.name for e in calls if isinstance(e, UserCall) and not e.function.deterministic]


def _expressions(p: Plan) -> list[Expr]:
    match p:
        case Select() | Join() | OuterJoin():
            return list(p.conjuncts)
        case Project():
            return [e for _, e in p.items]
        case MarkJoin():
            return [*p.on, *(e for pair in p.operands for e in pair)]
        case Aggregate():
            return [*(e for _, e in p.keys), *(e for _, a in p.aggregates for e in a.args)]
        case _:
            return []
