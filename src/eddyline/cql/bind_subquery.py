"""Subqueries in conditions: each IN and EXISTS becomes a MarkJoin, whose mark the condition uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from eddyline.cql.bind_literal import coerce
from eddyline.cql.places import span_of
from eddyline.cql.scope import OUTER, Context, Scope
from eddyline.cql.text_numbers import text_beside_number
from eddyline.expr.nodes import Column, Expr, columns_of, substitute, walk
from eddyline.expr.types import BOOLEAN, common_type, type_name
from eddyline.plan.logical import MarkJoin, Plan


@dataclass(frozen=True, slots=True)
class Correlated:
    """A bound subquery: its relation, its output columns in order, and the conditions that name outer columns.

    Columns of ``plan`` have names of their own; in ``on`` outer columns still carry their mark.
    """

    plan: Plan
    outputs: tuple[Column, ...]
    on: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    right: Plan
    on: tuple[Expr, ...]
    operands: tuple[tuple[Expr, Expr], ...]


@dataclass(slots=True)
class MarkCollector:
    """Gathers the subqueries of one clause; ``bind_inner`` binds one with the scope around it."""

    context: Context
    scope: Scope
    bind_inner: Callable[[exp.Expression, Scope], Correlated]
    marks: list[Mark] = field(default_factory=list)

    def mark_in(self, operands: Sequence[Expr], query: exp.Expression, node: exp.Expression) -> Expr:
        inner = self.bind_inner(query, self.scope)
        if len(operands) != len(inner.outputs):
            plural = "" if len(operands) == 1 else "s"
            message = f"IN compares {len(operands)} column{plural} with a query of {len(inner.outputs)}."
            raise self.context.error(message, node)
        pairs = []
        for left, right in zip(operands, inner.outputs, strict=True):
            common = common_type(left.type, right.type)
            if common is None:
                message = f"IN cannot compare {type_name(left.type)} with {type_name(right.type)}; cast one of them."
                raise self.context.error(message, node)
            if (mistake := text_beside_number((left, right), common)) is not None:
                raise self.context.error(mistake, node)
            pairs.append((coerce(left, common), coerce(right, common)))
        return self._add(inner, tuple(pairs), node)

    def mark_exists(self, query: exp.Expression, node: exp.Expression) -> Expr:
        return self._add(self.bind_inner(query, self.scope), (), node)

    def _add(self, inner: Correlated, operands: tuple[tuple[Expr, Expr], ...], node: exp.Expression) -> Expr:
        if any(n.startswith(OUTER) for x, _ in operands for n in columns_of(x)):
            message = "a subquery inside a subquery may not use columns of the outermost query."
            raise self.context.error(message, node)
        name = self.context.fresh("_mark")
        on = tuple(_without_marks(c) for c in inner.on)
        self.marks.append(Mark(name, inner.plan, on, operands))
        return Column(name, BOOLEAN, span_of(node))

    def applied(self, left: Plan, lift: Callable[[Expr], Expr] | None = None) -> Plan:
        """``left`` with the mark of each subquery; ``lift`` carries outer expressions above a grouping."""
        for m in self.marks:
            on, operands = m.on, m.operands
            if lift is not None:
                inside = frozenset(m.right.schema.names)
                on = tuple(_lift_outer(c, inside, lift) for c in on)
                operands = tuple((lift(x), q) for x, q in operands)
            left = MarkJoin(left, m.right, m.name, on, operands)
        return left


def _without_marks(e: Expr) -> Expr:
    by: dict[str, Expr] = {
        c.name: Column(c.name.removeprefix(OUTER), c.type, c.span)
        for c in walk(e)
        if isinstance(c, Column) and c.name.startswith(OUTER)
    }
    return substitute(e, by)


def _lift_outer(e: Expr, inside: frozenset[str], lift: Callable[[Expr], Expr]) -> Expr:
    by = {c.name: lift(c) for c in walk(e) if isinstance(c, Column) and c.name not in inside}
    return substitute(e, by)
