"""Calls: built-in functions, users' functions, aggregates, casts written as functions, and ``lookup``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from sqlglot import exp

from eddyline.core.errors import CqlError, did_you_mean
from eddyline.cql.bind_literal import coerce
from eddyline.cql.dialect import Source
from eddyline.cql.places import span_of
from eddyline.cql.scope import Context, Scope
from eddyline.expr.functions import function_names, is_aggregate
from eddyline.expr.nodes import Expr, Literal, UserCall
from eddyline.expr.types import implicitly_castable, parse_type, type_name

# Spark's casts that are written as functions.
_CASTS: Final = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
    *("string", "binary", "date", "timestamp"),
)
LIST_FUNCTIONS: Final = ("element_at", "try_element_at", "size", "cardinality", "array_size", "array_contains")
EXPLODE_ALONE: Final = (
    "explode stands in the select list, alone and without grouping: SELECT ts, explode(tags) AS tag FROM S. Put that"
    " query into FROM to filter, group or join its rows."
)
_PARTS: Final = {"dow": "dayofweek", "doy": "dayofyear", "isodow": "weekday"}
NO_CLOCK: Final = "is not available in a query: its answer depends on its elements only, not on the clock."


class Marks(Protocol):
    """Where ``lookup`` goes: a mark of a join."""

    def mark_in(self, operands: Any, query: Any, node: Any) -> Expr: ...


class Aggregates(Protocol):
    """Where aggregate calls go."""

    def call(self, name: str, node: exp.Anonymous, arguments: Any, where: Any = None) -> Expr: ...


class CallBinder(Protocol):
    """The part of the binder of expressions (``bind_expr``) that calls use."""

    context: Context
    scope: Scope
    where: str

    @property
    def marks(self) -> Marks | None: ...

    @property
    def aggregates(self) -> Aggregates | None: ...

    def bind(self, node: Any) -> Expr: ...

    def call(self, name: str, args: Sequence[Expr], node: Any) -> Expr: ...

    def cast_to(self, bound: Expr, wanted: Any, node: Any) -> Expr: ...

    def inside(self, where: str) -> Any: ...


def bind_call(binder: CallBinder, node: exp.Anonymous) -> Expr:
    name = node.this if isinstance(node.this, str) else node.this.name
    lower = name.lower()
    catalog = binder.context.catalog
    if lower in catalog.aggregates or (is_aggregate(lower) and lower not in catalog.functions):
        if binder.aggregates is None:
            raise binder.context.error(f"the aggregate {name} is not allowed {binder.where}.", node)
        return binder.aggregates.call(lower, node, binder.inside("inside an aggregate"))
    if lower == "lookup" and (relation := _looked_up(binder, node)) is not None:
        return _lookup(binder, node, relation)
    for argument in node.expressions:
        if isinstance(argument, exp.Star):
            raise binder.context.error(f"{name}(*) does not exist; only count takes '*'.", node)
        if isinstance(argument, exp.Distinct):
            raise binder.context.error(f"{name} is no aggregate, so DISTINCT means nothing in it.", node)
    if lower in catalog.functions:
        return _user_call(binder, node, lower)
    if lower in ("now", "current_timestamp", "current_date", "localtimestamp"):
        raise binder.context.error(f"{name} {NO_CLOCK}", node)
    if lower in ("explode", "explode_outer"):
        raise binder.context.error(EXPLODE_ALONE, node)
    args = [
        _list_argument(binder, a) if lower in LIST_FUNCTIONS and not i else binder.bind(a)
        for i, a in enumerate(node.expressions)
    ]
    if lower in _CASTS and len(args) == 1:
        return binder.cast_to(args[0], parse_type(lower), node)
    if lower == "date_part" and len(args) == 2 and isinstance(args[0], Literal):
        return binder.call(date_part(str(args[0].value)), args[1:], node)
    return binder.call(name, args, node)


def _list_argument(binder: CallBinder, node: Any) -> Expr:
    """A column of lists, which no other expression may name."""
    if isinstance(node, exp.Column) and (node.table or binder.scope.has_bare(node.name) or "." in node.sql()):
        return binder.scope.column(node)
    return binder.bind(node)


def list_refusal(name: str) -> str:
    return (
        f"{name!r} is a list, which has no value of its own here: read it with element_at({name}, 1), size({name}) or"
        f" array_contains({name}, …), or put explode({name}) into the select list."
    )


def bind_filter(binder: CallBinder, node: exp.Filter) -> Expr:
    """``sum(x) FILTER (WHERE c)``."""
    call = node.this
    name = call.this if isinstance(call, exp.Anonymous) and isinstance(call.this, str) else ""
    lower = name.lower()
    if lower not in binder.context.catalog.aggregates and not is_aggregate(lower):
        raise binder.context.error("FILTER (WHERE …) belongs to an aggregate.", node)
    if binder.aggregates is None:
        raise binder.context.error(f"the aggregate {name} is not allowed {binder.where}.", node)
    return binder.aggregates.call(lower, call, binder.inside("inside an aggregate"), node.expression.this)


def _user_call(binder: CallBinder, node: exp.Anonymous, lower: str) -> Expr:
    function = binder.context.catalog.functions[lower]
    args = [binder.bind(a) for a in node.expressions]
    wanted = function.arguments
    if wanted is not None:
        if len(wanted) != len(args):
            plural = "" if len(wanted) == 1 else "s"
            message = f"{function.name} takes {len(wanted)} argument{plural}, not {len(args)}."
            raise binder.context.error(message, node)
        for i, (arg, want) in enumerate(zip(args, wanted, strict=True)):
            if not implicitly_castable(arg.type, want):
                message = f"{function.name} wants {type_name(want)} as argument {i + 1}, not {type_name(arg.type)}."
                raise binder.context.error(message, node.expressions[i])
        args = [coerce(a, t) for a, t in zip(args, wanted, strict=True)]
    return UserCall(function, tuple(args), function.returns, span_of(node))


def _looked_up(binder: CallBinder, node: exp.Anonymous) -> exp.Column | None:
    """The table of ``lookup(x, T)``, if the second argument names one."""
    if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Column):
        return None
    table = node.expressions[1]
    lower = table.name.lower()
    catalog = binder.context.catalog
    known = lower in catalog.relations or lower in catalog.views or lower in catalog.streams
    # A user's function of this name may be given a column; otherwise the second argument is always a table.
    column = "lookup" in catalog.functions and binder.scope.has_bare(lower)
    return table if known and not table.table and not column else None


def _lookup(binder: CallBinder, node: exp.Anonymous, table: exp.Column) -> Expr:
    """``lookup(x, T)`` (thesis 4.1.1): whether x is in the first column of T."""
    if binder.marks is None:
        raise binder.context.error("lookup is allowed in WHERE and HAVING only.", node)
    lower = table.name.lower()
    catalog = binder.context.catalog
    if lower in catalog.views:
        first = catalog.views[lower].plan.schema.names[0]
    else:
        first = (catalog.relations.get(lower) or catalog.streams[lower]).schema.names[0]
    name = exp.Identifier(this=table.name).update_positions(table.this)
    query = exp.Select(expressions=[exp.Column(this=exp.to_identifier(first))], from_=exp.From(this=Source(this=name)))
    return binder.marks.mark_in((binder.bind(node.expressions[0]),), query, node)


def unknown_function(context: Context, name: str, node: Any) -> CqlError:
    catalog = context.catalog
    own = [f.name for f in catalog.functions.values()] + [a.name for a in catalog.aggregates.values()]
    builtin = [*function_names(), "count", "sum", "avg", "min", "max", "stddev", "variance", "first", "last"]
    hint = did_you_mean(name, [*builtin, *own])
    return context.error(f"unknown function {name!r}.{hint}", node)


def date_part(name: str) -> str:
    """The function that gives a part of a date."""
    lower = name.lower()
    return _PARTS.get(lower, lower)
