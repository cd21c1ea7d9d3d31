"""Star joins: one changing input and constant relations, each joined by equality with expressions of that input."""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.expr.nodes import Expr
from eddyline.operators.join_plan import JoinGraph
from eddyline.operators.star_relation import StarRelation
from eddyline.plan.conjuncts import split_conjuncts
from eddyline.plan.deletions import is_constant
from eddyline.plan.graph import alias_of, distinct
from eddyline.plan.logical import Join


@dataclass(frozen=True, slots=True)
class Star:
    """``place`` is that of the changing input among the inputs of the join."""

    place: int
    relations: tuple[StarRelation, ...]
    residual: tuple[Expr, ...]


def star_of(p: Join) -> Star | str:
    """A join as a star, or why it is none.

    Members of an equality class are all equal exactly if each member of a relation equals each of the changing input,
    as long as the class has one of the latter.
    """
    names = distinct([alias_of(i) for i in p.inputs])
    changing = [i for i, child in enumerate(p.inputs) if not is_constant(child)]
    if len(changing) != 1:
        return f"routes need one input that changes beside constant relations, and here {_count(len(changing))}"
    if len(p.inputs) < 3:
        return "a single relation leaves nothing to route"
    (place,) = changing
    keys, equalities, residual = split_conjuncts(p.conjuncts, [i.schema for i in p.inputs])
    graph = JoinGraph(keys, equalities)
    pairs: dict[int, list[tuple[Expr, Expr]]] = {i: [] for i in range(len(p.inputs)) if i != place}
    for c in graph.classes:
        members = sorted(c, key=lambda m: (m.input, m.key))
        theirs = [keys[place][m.key] for m in members if m.input == place]
        others = [m for m in members if m.input != place]
        if not theirs:
            joined = " and ".join(dict.fromkeys(names[m.input] for m in others))
            return f"{joined} are joined with each other, by no expression of {names[place]}"
        for m in others:
            pairs[m.input] += [(keys[m.input][m.key], e) for e in theirs]
    for i, some in pairs.items():
        if not some:
            return f"no equality of expressions that cannot fail joins {names[i]} with {names[place]}"
    relations = [
        StarRelation(names[i], p.inputs[i].schema, tuple(a for a, _ in some), tuple(b for _, b in some))
        for i, some in pairs.items()
    ]
    return Star(place, tuple(relations), residual)


def _count(changing: int) -> str:
    return f"{changing} inputs change" if changing else "none changes"
