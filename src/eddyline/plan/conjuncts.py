"""Conjunctions over several inputs: which conjuncts are join keys, and which are a mark (IN, EXISTS) alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from eddyline.core.schema import Schema
from eddyline.expr.nodes import Call, Column, Expr, columns_of
from eddyline.operators.join_plan import Member
from eddyline.plan.logical import MarkJoin, Select
from eddyline.plan.rewrite import movable


def split_conjuncts(
    conjuncts: Sequence[Expr], schemas: Sequence[Schema]
) -> tuple[tuple[tuple[Expr, ...], ...], tuple[tuple[Member, Member], ...], tuple[Expr, ...]]:
    """Equalities between expressions over single, different inputs become join keys; the rest is residual."""
    names = [set(s.names) for s in schemas]
    keys: list[list[Expr]] = [[] for _ in schemas]
    equalities = []
    residual = []

    def member(e: Expr) -> Member | None:
        read = columns_of(e)
        home = next((i for i, n in enumerate(names) if read and read <= n), None)
        if home is None or not movable(e):
            return None
        if e not in keys[home]:
            keys[home].append(e)
        return Member(home, keys[home].index(e))

    for c in conjuncts:
        if isinstance(c, Call) and c.function == "eq" and c.args[0].type == c.args[1].type:
            homes = [
                next((i for i, n in enumerate(names) if columns_of(a) and columns_of(a) <= n), None) for a in c.args
            ]
            if None not in homes and homes[0] != homes[1] and all(movable(a) for a in c.args):
                a, b = member(c.args[0]), member(c.args[1])
                assert a is not None and b is not None
                equalities.append((a, b))
                continue
        residual.append(c)
    return tuple(tuple(k) for k in keys), tuple(equalities), tuple(residual)


def bare_mark(p: Select) -> Literal["semi", "anti"] | None:
    """Whether a selection uses the mark of the join below as a conjunct of its own and nowhere else: ``WHERE x IN (…)``
    and ``EXISTS`` keep the rows with a partner, ``NOT EXISTS`` those without. ``NOT IN`` needs its NULLs."""
    if not isinstance(p.input, MarkJoin):
        return None
    mark = Column(p.input.mark, pa.bool_())
    users = [c for c in p.conjuncts if p.input.mark in columns_of(c)]
    if users == [mark]:
        return "semi"
    return "anti" if users == [Call("not", (mark,), pa.bool_())] and not p.input.operands else None
