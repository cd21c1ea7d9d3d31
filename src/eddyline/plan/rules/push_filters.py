"""push_filters: evaluate a conjunct as soon as its columns are there.

Only conjuncts that cannot fail move, and none passes a function that is not deterministic (``rewrite.may_pass``). No
conjunct moves below a window here: the rule ``push_below_windows`` does that.
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.expr.nodes import Expr, columns_of, substitute
from eddyline.plan.logical import Join, MarkJoin, OuterJoin, Plan, Project, Rank, Select, is_stream
from eddyline.plan.rewrite import bottom_up, deterministic, may_pass, movable, select, without


def push_filters(plan: Plan) -> Plan:
    return bottom_up(plan, _push)


def _push(p: Plan) -> Plan:
    if isinstance(p, Join):
        return _into_join(p, p.conjuncts)
    if isinstance(p, Select):
        return _down(p.input, p.conjuncts)
    return p


def _down(p: Plan, conjuncts: tuple[Expr, ...]) -> Plan:
    """``p`` filtered by the conjuncts, each as low as it may go."""
    if not conjuncts:
        return p
    match p:
        case Select():
            return _down(p.input, (*p.conjuncts, *conjuncts))
        case Join():
            go = may_pass(conjuncts)
            stay = without(conjuncts, go)
            return select(_into_join(p, (*p.conjuncts, *go)), stay)
        case MarkJoin():
            go = tuple(c for c in may_pass(_before(p, conjuncts)) if columns_of(c) <= set(p.left.schema.names))
            stay = without(conjuncts, go)
            return select(MarkJoin(_down(p.left, go), p.right, p.mark, p.on, p.operands), stay)
        case OuterJoin(kind="left"):
            go = tuple(c for c in may_pass(conjuncts) if columns_of(c) <= set(p.left.schema.names))
            stay = without(conjuncts, go)
            return select(OuterJoin(p.kind, _down(p.left, go), p.right, p.conjuncts), stay)
        case Rank():
            go = tuple(c for c in may_pass(conjuncts) if columns_of(c) and columns_of(c) <= set(p.partition))
            stay = without(conjuncts, go)
            return select(replace(p, input=_down(p.input, go)), stay)
        case Project() if not is_stream(p):
            by = dict(p.items)
            go = tuple(c for c in may_pass(conjuncts) if movable(substitute(c, by)))
            stay = without(conjuncts, go)
            return select(Project(_down(p.input, tuple(substitute(c, by) for c in go)), p.items), stay)
        case _:
            return select(p, conjuncts)


def _before(p: MarkJoin, conjuncts: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """What is written before a membership, if that asks a function which is not deterministic; otherwise all."""
    if all(map(deterministic, (*p.on, *(x for pair in p.operands for x in pair)))):
        return conjuncts
    return conjuncts[: next((i for i, c in enumerate(conjuncts) if p.mark in columns_of(c)), len(conjuncts))]


def _into_join(p: Join, conjuncts: tuple[Expr, ...]) -> Plan:
    home = {name: i for i, child in enumerate(p.inputs) for name in child.schema.names}
    going: list[list[Expr]] = [[] for _ in p.inputs]
    rest = []
    for c in conjuncts:
        homes = {home.get(name) for name in columns_of(c)}
        at = homes.pop() if len(homes) == 1 else None
        if at is not None and movable(c):
            going[at].append(c)
        else:
            rest.append(c)
    return Join(tuple(_down(child, tuple(own)) for child, own in zip(p.inputs, going, strict=True)), tuple(rest))
