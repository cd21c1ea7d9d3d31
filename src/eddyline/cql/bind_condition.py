"""Conditions: ``IN``, ``BETWEEN``, ``IS``, ``NOT`` and ``EXISTS``, from the syntax tree to typed nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sqlglot import exp

from eddyline.cql.dialect import StreamQuery
from eddyline.cql.places import span_of
from eddyline.cql.scope import Context, Scope
from eddyline.expr.nodes import Column, Expr


class Marks(Protocol):
    """Where subqueries in conditions go."""

    def mark_in(self, operands: Any, query: Any, node: Any) -> Expr: ...

    def mark_exists(self, query: Any, node: Any) -> Expr: ...


class ConditionBinder(Protocol):
    """The part of the binder of expressions (``bind_expr``) that conditions use."""

    context: Context
    scope: Scope
    where: str

    @property
    def marks(self) -> Marks | None: ...

    def bind(self, node: Any) -> Expr: ...

    def call(self, name: str, args: Sequence[Expr], node: Any) -> Expr: ...


def bind_in(binder: ConditionBinder, node: exp.In) -> Expr:
    """A list becomes a call, a query a mark."""
    query = node.args.get("query")
    if query is not None:
        if binder.marks is None:
            raise binder.context.error(f"a subquery is not allowed {binder.where}.", node)
        return binder.marks.mark_in(_operands(binder, node.this), query, node)
    if node.args.get("field") is not None or node.args.get("unnest") is not None:
        raise binder.context.error("IN needs a list of values or a query in parentheses.", node)
    values = node.expressions
    if not values:
        raise binder.context.error("IN needs at least one value in its list.", node)
    if isinstance(values[0], StreamQuery):
        raise binder.context.error("a subquery of IN is a relation: leave the stream operator out.", values[0])
    if isinstance(_bare(node.this), exp.Tuple):
        return _row_in(binder, node)
    return binder.call("in", [binder.bind(node.this), *map(binder.bind, values)], node)


def _row_in(binder: ConditionBinder, node: exp.In) -> Expr:
    """``(a, b) IN ((1, 2), (3, 4))``: one of the rows is equal."""
    left = _operands(binder, node.this)
    found: list[Expr] = []
    for row in node.expressions:
        if not isinstance(row, exp.Tuple) or len(row.expressions) != len(left):
            raise binder.context.error(f"IN compares {len(left)} columns here, so each row needs {len(left)}.", row)
        same = [binder.call("eq", (a, binder.bind(b)), row) for a, b in zip(left, row.expressions, strict=True)]
        found.append(same[0] if len(same) == 1 else binder.call("and", same, row))
    return found[0] if len(found) == 1 else binder.call("or", found, node)


def _operands(binder: ConditionBinder, node: Any) -> list[Expr]:
    """The left side of IN: one value, a row, or a stream's name used as its tuple."""
    inner = _bare(node)
    if isinstance(inner, exp.Tuple):
        return [binder.bind(e) for e in inner.expressions]
    if isinstance(inner, exp.Column) and not inner.table and _is_tuple_name(binder, inner.name):
        return [Column(v.plan_name, v.type, span_of(inner)) for v in binder.scope.of_alias(inner.name)]
    return [binder.bind(node)]


def bind_between(binder: ConditionBinder, node: exp.Between) -> Expr:
    """Two comparisons."""
    if node.args.get("symmetric"):
        raise binder.context.error("BETWEEN SYMMETRIC is not supported.", node)
    value = binder.bind(node.this)
    low = binder.call("ge", (value, binder.bind(node.args["low"])), node)
    high = binder.call("le", (value, binder.bind(node.args["high"])), node)
    return binder.call("and", (low, high), node)


def bind_is(binder: ConditionBinder, node: exp.Is) -> Expr:
    """With NULL, TRUE or FALSE."""
    value = binder.bind(node.this)
    if isinstance(node.expression, exp.Null):
        return binder.call("is_null", (value,), node)
    if isinstance(node.expression, exp.Boolean):
        return binder.call("null_safe_eq", (value, binder.bind(node.expression)), node)
    raise binder.context.error("IS takes NULL, TRUE or FALSE.", node)


def bind_not(binder: ConditionBinder, node: exp.Not) -> Expr:
    """``NOT x IS NULL`` is one call."""
    inner = _bare(node.this)
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        return binder.call("is_not_null", (binder.bind(inner.this),), node)
    return binder.call("not", (binder.bind(node.this),), node)


def bind_exists(binder: ConditionBinder, node: exp.Exists) -> Expr:
    """A mark."""
    if binder.marks is None:
        raise binder.context.error(f"a subquery is not allowed {binder.where}.", node)
    return binder.marks.mark_exists(node.this, node)


def _is_tuple_name(binder: ConditionBinder, name: str) -> bool:
    return not binder.scope.has_bare(name) and binder.scope.has_alias(name)


def _bare(node: Any) -> Any:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
