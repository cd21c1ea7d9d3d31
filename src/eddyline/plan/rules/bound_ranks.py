"""bound_ranks: a rank that a selection bounds is computed up to the bound only.

``SELECT … WHERE rn <= 10`` above a rank never shows a row whose rank is greater, so the operator need not number the
rest of the partition, and without deletions need not keep it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from eddyline.expr.nodes import Call, Cast, Column, Expr, Literal
from eddyline.plan.logical import Plan, Rank, Select
from eddyline.plan.rewrite import bottom_up, select, without

# rank OP n means rank <= n - less; those of the first kind say nothing more than that.
_EXACT = {"le": 0, "lt": 1}
_ALSO = {"eq": 0}
_TURNED = {"ge": "le", "gt": "lt", "eq": "eq", "le": "ge", "lt": "gt"}


def bound_ranks(plan: Plan) -> Plan:
    return bottom_up(plan, _bound)


def _bound(p: Plan) -> Plan:
    if not (isinstance(p, Select) and isinstance(p.input, Rank)):
        return p
    rank, implied = p.input, list[Expr]()
    for conjunct in p.conjuncts:
        for function, number in _comparisons(conjunct, rank.name):
            if function not in _EXACT | _ALSO:
                continue
            most = max(0, number - (_EXACT | _ALSO)[function])
            rank = replace(rank, limit=most if rank.limit is None else min(rank.limit, most))
            if function in _EXACT and conjunct_is_one(conjunct):
                implied.append(conjunct)
    return select(rank, without(p.conjuncts, implied))


def conjunct_is_one(e: Expr) -> bool:
    """A single comparison, not a conjunction of several as BETWEEN is."""
    return isinstance(e, Call) and e.function != "and"


def _comparisons(e: Expr, name: str) -> Iterator[tuple[str, int]]:
    """Comparisons of the rank with a number, the rank on the left; all of them must be TRUE."""
    if not isinstance(e, Call):
        return
    if e.function == "and":
        for a in e.args:
            yield from _comparisons(a, name)
    elif e.function in _TURNED:
        left, right = map(_plain, e.args)
        if _is(left, name) and isinstance(right, Literal) and isinstance(right.value, int):
            yield e.function, right.value
        elif _is(right, name) and isinstance(left, Literal) and isinstance(left.value, int):
            yield _TURNED[e.function], left.value


def _plain(e: Expr) -> Expr:
    """Below a cast: numbers are compared in their common type, which changes no integer's value."""
    if isinstance(e, Cast) and e.type in (pa.int32(), pa.int64()):
        return e.operand
    return e


def _is(e: Expr, name: str) -> bool:
    return isinstance(e, Column) and e.name == name
