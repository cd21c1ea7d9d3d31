"""Functions whose results could differ between shards: a plan that calls one is not divided."""

from __future__ import annotations

from eddyline.expr.nodes import Expr, UserCall, walk
from eddyline.plan.logical import Aggregate, Join, MarkJoin, ModelQuery, OuterJoin, Plan, Project, Select
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
        case ModelQuery(program=program):
            return _of_program(program.root)
        case _:
            return []


def _of_program(node: object) -> list[Expr]:
    from eddyline.models import program as pg

    match node:
        case pg.Restrict(input=below, conjuncts=conjuncts):
            return [*conjuncts, *_of_program(below)]
        case pg.Map(input=below, items=items):
            return [*(e for _, e in items), *_of_program(below)]
        case pg.Join(left=left, right=right, conjuncts=conjuncts):
            return [*conjuncts, *_of_program(left), *_of_program(right)]
        case pg.Aggregate(input=below, groups=groups, functions=functions):
            return [*(e for _, e in groups), *(e for _, _, e in functions), *_of_program(below)]
        case _:
            return []
