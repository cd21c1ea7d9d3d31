"""Conjuncts of a join that are no equalities and yet can be judged by the join itself: comparisons of two inputs."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.core.schema import Schema
from eddyline.expr.nodes import Call, Expr, columns_of
from eddyline.operators.join_plan import Condition, Member
from eddyline.plan.rewrite import movable
from eddyline.synopses.codes import is_direct

COMPARISONS = ("lt", "le", "gt", "ge", "ne")


def split_conditions(
    residual: Sequence[Expr], schemas: Sequence[Schema], keys: Sequence[tuple[Expr, ...]]
) -> tuple[tuple[tuple[Expr, ...], ...], tuple[Condition, ...], tuple[Expr, ...]]:
    """The comparisons among ``residual`` whose sides each belong to one input and have codes that order as they do;
    the keys with those sides added, and what is left. NULL on either side is not true: a row with one joins with
    nothing, as if it were a key of an equality."""
    names = [set(s.names) for s in schemas]
    all_keys = [list(k) for k in keys]
    conditions, rest = [], []

    def home(e: Expr) -> int | None:
        read = columns_of(e)
        return next((i for i, n in enumerate(names) if read and read <= n), None)

    for c in residual:
        if isinstance(c, Call) and c.function in COMPARISONS and len(c.args) == 2:
            left, right = c.args
            a, b = home(left), home(right)
            alike = left.type == right.type and is_direct(left.type)
            if a is not None and b is not None and a != b and alike and movable(left) and movable(right):
                members = []
                for i, e in ((a, left), (b, right)):
                    if e not in all_keys[i]:
                        all_keys[i].append(e)
                    members.append(Member(i, all_keys[i].index(e)))
                conditions.append(Condition(members[0], c.function, members[1]))
                continue
        rest.append(c)
    return tuple(tuple(k) for k in all_keys), tuple(conditions), tuple(rest)
