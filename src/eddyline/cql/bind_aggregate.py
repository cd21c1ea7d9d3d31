"""Grouping: aggregate calls, keys, and the expressions above them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from eddyline.core.schema import Schema
from eddyline.cql.bind_expr import ExpressionBinder
from eddyline.cql.bind_literal import coerce
from eddyline.cql.places import span_of
from eddyline.cql.printing import format_expr
from eddyline.cql.scope import Context
from eddyline.expr.approximate import APPROXIMATE, DEFAULT_ERROR, DISTINCT, ERRORS
from eddyline.expr.functions import TypeMismatch, aggregate_name, resolve_aggregate
from eddyline.expr.nodes import AggregateCall, Call, Case, Cast, Column, Expr, Literal, UserCall, walk
from eddyline.expr.types import INT64
from eddyline.plan.logical import Aggregate, Plan


@dataclass(slots=True)
class AggregateCollector:
    """Gathers the aggregate calls of a SELECT; equal calls share one column, named as the call is written."""

    context: Context
    calls: dict[str, AggregateCall] = field(default_factory=dict)
    columns: dict[AggregateCall, str] = field(default_factory=dict)  # the other way round

    def call(
        self, name: str, node: exp.Anonymous, arguments: ExpressionBinder, where: exp.Expression | None = None
    ) -> Expr:
        bound = self._bound(name, node, arguments)
        if where is not None:
            bound = self._filtered(bound, arguments.condition(where, "FILTER"), node)
        if (known := self.columns.get(bound)) is not None:
            return Column(known, bound.type, bound.span)
        column = format_expr(bound)
        while column in self.calls:
            column += "'"
        self.calls[column], self.columns[bound] = bound, column
        return Column(column, bound.type, bound.span)

    def _filtered(self, call: AggregateCall, condition: Expr, node: exp.Anonymous) -> AggregateCall:
        """An aggregate does not count NULLs, so it counts the rows for which the condition is TRUE if its argument is
        NULL for the others."""
        if call.function in ("first", "last"):
            message = f"{call.function} counts NULLs, so FILTER does not go with it: filter in WHERE, in a subquery."
            raise self.context.error(message, node)
        first, *others = call.args or (Literal(1, INT64),)
        only = Case(((condition, first),), Literal(None, first.type), first.type)
        return replace(call, args=(only, *others))

    def _bound(self, name: str, node: exp.Anonymous, arguments: ExpressionBinder) -> AggregateCall:
        nodes = list(node.expressions)
        distinct = len(nodes) == 1 and isinstance(nodes[0], exp.Distinct)
        if distinct:
            nodes = list(nodes[0].expressions)
        star = any(isinstance(n, exp.Star) for n in nodes)
        span = span_of(node)
        if star and (name != "count" or distinct or len(nodes) > 1):
            raise self.context.error(f"{name}({'DISTINCT ' if distinct else ''}*) does not exist.", node)
        known = aggregate_name(name)
        nodes, parameters = self._parameters(known, nodes, distinct, node) if known in APPROXIMATE else (nodes, ())
        args = () if star else tuple(arguments.bind(n) for n in nodes)
        user = self.context.catalog.aggregates.get(name)
        if user is not None:
            return AggregateCall("user", args, user.returns, distinct, user, span)
        if not star and not args:
            raise self.context.error(f"{name} needs an argument.", node)
        try:
            found = resolve_aggregate(name, [a.type for a in args], distinct)
        except TypeMismatch as error:
            raise self.context.error(error.message, node) from None
        cast = tuple(coerce(a, t) for a, t in zip(args, found.arguments, strict=True))
        # The extremes of a set and of the bag are the same.
        distinct = distinct and found.function not in ("min", "max")
        return AggregateCall(found.function, cast, found.returns, distinct, None, span, parameters)

    def _parameters(
        self, name: str, nodes: list[Any], distinct: bool, node: exp.Anonymous
    ) -> tuple[list[Any], tuple[float, ...]]:
        """The value, and the constants behind it: the share of a percentile, and the error."""
        if distinct:
            raise self.context.error(f"{name} takes no DISTINCT.", node)
        least, most = (1, 2) if name == DISTINCT else (2, 3)
        if not least <= len(nodes) <= most:
            form = f"{name}(x, 0.01)" if name == DISTINCT else f"{name}(x, 0.95) or {name}(x, 0.95, 0.01)"
            raise self.context.error(f"{name} takes a value and constants, as in {form}.", node)
        numbers = [_number(n) for n in nodes[1:]]
        error = numbers[-1] if len(nodes) == most else DEFAULT_ERROR[name]
        if error is None or not ERRORS[0] <= error <= ERRORS[1]:
            message = (
                f"the error of {name} is relative, a number between {ERRORS[0]} and {ERRORS[1]}, as in"
                f" {name}({'x, 0.01' if name == DISTINCT else 'x, 0.95, 0.01'})"
                f"{'' if name == DISTINCT else '; it is that of the value, not a number of ranks as in Spark'}."
            )
            raise self.context.error(message, nodes[-1])
        if name == DISTINCT:
            return nodes[:1], (error,)
        if numbers[0] is None or not 0 <= numbers[0] <= 1:
            raise self.context.error(f"{name} takes a share between 0 and 1, as in {name}(x, 0.95).", nodes[1])
        return nodes[:1], (numbers[0], error)


def _number(node: Any) -> float | None:
    return float(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


@dataclass(frozen=True, slots=True)
class Grouping:
    """An Aggregate node and the way to express things above it."""

    plan: Aggregate
    lift: Callable[[Expr], Expr]


def grouping(
    context: Context,
    below: Plan,
    keys: list[Expr] | None,
    collector: AggregateCollector,
    used: list[Expr],
    free: frozenset[str] = frozenset(),
) -> Grouping:
    """Aggregate ``below``; without GROUP BY (``keys`` None) plain columns among ``used`` imply grouping by them.

    ``free`` are columns that exist only above the grouping: the marks of subqueries in HAVING.
    """
    if keys is None:
        keys = _implied_keys(used, collector, free)
    named = _name_keys(keys, below.schema, collector)
    name_of = {key: name for name, key in named}
    node = Aggregate(below, tuple(named), tuple(collector.calls.items()), grouped=bool(named))

    def lift(e: Expr) -> Expr:
        """An expression over the input as one over keys and aggregates; what is neither is an error."""
        if (key := name_of.get(e)) is not None:
            return Column(key, e.type, e.span)
        match e:
            case Column(name=name):
                if name in collector.calls or name in free:
                    return e
                hint = "add it to GROUP BY or put it inside an aggregate"
                raise context.error_at(f"the column {name!r} is neither grouped nor aggregated: {hint}.", e.span)
            case Literal():
                return e
            case Call():
                return Call(e.function, tuple(map(lift, e.args)), e.type, e.span)
            case UserCall():
                return UserCall(e.function, tuple(map(lift, e.args)), e.type, e.span)
            case Cast():
                return Cast(lift(e.operand), e.type, e.safe, e.span)
            case Case():
                branches = tuple((lift(c), lift(v)) for c, v in e.branches)
                return Case(branches, lift(e.default), e.type, e.span)

    return Grouping(node, lift)


def _implied_keys(used: list[Expr], collector: AggregateCollector, free: frozenset[str]) -> list[Expr]:
    taken = collector.calls.keys() | free
    parts = (part for e in used for part in walk(e))
    return list(dict.fromkeys(p for p in parts if isinstance(p, Column) and p.name not in taken))


def _name_keys(keys: list[Expr], schema: Schema, collector: AggregateCollector) -> list[tuple[str, Expr]]:
    """Keys that are columns keep their plan name, others are named as they are written."""
    named: dict[Expr, str] = {}
    taken = set(collector.calls)
    columns = frozenset(schema.names)
    for key in keys:
        if key in named:
            continue
        plain = isinstance(key, Column)
        name = key.name if isinstance(key, Column) else format_expr(key)
        while name in taken or (not plain and name in columns):
            name += "'"
        named[key] = name
        taken.add(name)
    return [(name, key) for key, name in named.items()]
