"""Views as parts of queries on models: the text of a view is bound again, as if it stood in FROM.

To a query on tuples a view gives rows, of samples (``SAMPLE EVERY``) or of segments. To a query on models it gives its
values as polynomials, so its text is bound as a part of that query: its streams are fitted within that query's bound,
and its windows are part of that query's program. Clauses of models belong to whole queries, so a view with such clauses
is refused there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from sqlglot import exp

from eddyline.core.errors import CqlError, Span
from eddyline.core.time import TimeKind
from eddyline.cql.defaults import Bound
from eddyline.cql.dialect import Source
from eddyline.cql.job import QueryStatement, parse_job
from eddyline.cql.model_syntax import ModelClauses
from eddyline.cql.places import span_of
from eddyline.cql.scope import Context
from eddyline.expr.nodes import AggregateCall, Expr
from eddyline.plan.logical import BoundQuery, Plan

BindView = Callable[[Context, exp.Expression], tuple[Bound, TimeKind | None]]


def bound_again(context: Context, view: BoundQuery, node: Source, bind: BindView) -> tuple[Bound, TimeKind | None]:
    """A view in FROM of a query on models; ``bind`` binds its text."""
    (statement,) = parse_job(view.text)
    assert isinstance(statement, QueryStatement)
    clauses: ModelClauses | None = statement.query.meta.get("clauses")
    if clauses is not None:
        written = statement.text[clauses.span.start : clauses.span.end]
        message = f"the view {view.name} has clauses of models of its own ({written}): only a whole query has them."
        raise context.error(f"{message} Leave them out of the view, and state them here.", node)
    inner = Context(
        context.catalog, statement.text, statement.span, context.kinds, context.counters, context.depth, True,
        context.clauses,
    )  # fmt: skip
    try:
        bound, kind = bind(inner, statement.query)
    except CqlError as error:
        message = f"the view {view.name} in a query on models: {error.message}"
        raise CqlError(message, error.text, error.span) from None
    return replace(bound, plan=placed(bound.plan, span_of(node.this))), kind


def placed(part: Any, span: Span | None) -> Any:
    """A plan whose expressions stand at one place of the text: where a query names the view that they are of. What has
    no place was not written, and stays so."""
    if isinstance(part, tuple):
        return tuple(placed(p, span) for p in part)
    if not isinstance(part, Plan | Expr | AggregateCall):
        return part
    values: dict[str, Any] = {f.name: placed(getattr(part, f.name), span) for f in fields(part)}
    if values.get("span") is not None:
        values["span"] = span
    return replace(part, **values)
