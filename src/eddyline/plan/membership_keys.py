"""The keys that a membership (IN, EXISTS) compares, computed for a left row once instead of for every pair.

``f(S.a) IN (SELECT …)`` compares keys like any other membership as soon as f(S.a) is a column. So an expression that
may not be moved (a user's function, an expression that can fail) and reads only the left row is *lifted*: it becomes a
hidden column beside a note of its error, if it has one.

Such an error counts if some pair of rows has it: iff there is some right row for which no other condition of the
subquery is FALSE or NULL. An operand of IN is evaluated after those conditions, so an operand that fails does so for
each of the rows that satisfy them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from eddyline.expr.nodes import Call, Case, Cast, Column, Expr, UserCall, columns_of, substitute, walk
from eddyline.operators.deferred_errors import Computation
from eddyline.plan.logical import MarkJoin
from eddyline.plan.rewrite import movable

Hidden = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Lifted:
    """``join`` reads the columns that ``items`` make of the left row; ``lost`` is the condition under which a row whose
    items fail has failed; ``total`` whether any right row at all will do."""

    join: MarkJoin
    items: tuple[Computation, ...]
    lost: tuple[Expr, ...]

    @property
    def total(self) -> bool:
        return not self.lost or (len(self.lost) == 1 and not self.join.operands and bool(self.items))

    @property
    def conditions(self) -> tuple[Expr, ...]:
        return (*self.join.on, *(Call("eq", pair, pa.bool_()) for pair in self.join.operands))

    def written(self, e: Expr) -> Expr:
        """An expression over the left row as it was before."""
        return substitute(e, {i.name: i.expr for i in self.items})


def lift(join: MarkJoin, hidden: Hidden) -> Lifted:
    left, right = frozenset(join.left.schema.names), frozenset(join.right.schema.names)
    items: list[Computation] = []

    def column(e: Expr) -> Column:
        items.append(Computation(hidden("key"), hidden("note"), e))
        return Column(items[-1].name, e.type, e.span)

    on: list[Expr] = []
    lost: list[Expr] = []
    for c in join.on:
        if isinstance(c, Call) and c.function == "eq" and c.args[0].type == c.args[1].type:
            sides = [(columns_of(a) <= left, columns_of(a) <= right) for a in c.args]
            for mine, other in ((0, 1), (1, 0)):
                if sides[mine][0] and sides[other][1] and not movable(c.args[mine]) and movable(c.args[other]):
                    args = [c.args[0], c.args[1]]
                    args[mine] = column(c.args[mine])
                    c = replace(c, args=tuple(args))
                    failed = Call("is_not_null", (Column(items[-1].note, pa.string()),), pa.bool_())
                    lost.append(Call("or", (failed, c), pa.bool_()))
                    break
            else:
                lost.append(c)
        else:
            lost.append(c)
        on.append(c)
    operands = tuple((x if movable(x) else column(x), q) for x, q in join.operands)
    return Lifted(replace(join, on=tuple(on), operands=operands), tuple(items), tuple(lost))


def lift_calls(e: Expr, marks: frozenset[str], hidden: Hidden) -> tuple[Expr, tuple[Computation, ...]]:
    """A condition that reads marks, without users' functions that do not: they are asked once, however often the marks
    of a row change."""
    items: list[Computation] = []

    def rewritten(e: Expr) -> Expr:
        if not any(isinstance(x, UserCall) for x in walk(e)):
            return e
        if not columns_of(e) & marks:
            items.append(Computation(hidden("key"), hidden("note"), e))
            return items[-1].read
        match e:
            case Call() | UserCall():
                return replace(e, args=tuple(map(rewritten, e.args)))
            case Cast():
                return replace(e, operand=rewritten(e.operand))
            case Case():
                branches = tuple((rewritten(c), rewritten(v)) for c, v in e.branches)
                return replace(e, branches=branches, default=rewritten(e.default))
            case _:
                return e

    return rewritten(e), tuple(items)


def all_null(items: Sequence[Computation]) -> tuple[Expr, ...]:
    """Whether none of the items has failed."""
    return tuple(Call("is_null", (Column(i.note, pa.string()),), pa.bool_()) for i in items)
