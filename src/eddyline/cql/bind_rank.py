"""Ranks (``ROW_NUMBER() OVER …``) and ``ORDER BY … LIMIT n``, which is a row number with a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from eddyline.core.schema import Schema
from eddyline.cql.bind_literal import coerce
from eddyline.cql.places import span_of
from eddyline.cql.scope import Context, outer_columns
from eddyline.expr.functions import resolve
from eddyline.expr.nodes import Call, Column, Expr, Literal, columns_of
from eddyline.expr.types import INT32, INT64, STRING, type_name
from eddyline.plan.arrival_order import has_arrivals
from eddyline.plan.logical import Plan, Project, Rank, Select, SortKey

if TYPE_CHECKING:
    from eddyline.cql.bind_expr import ExpressionBinder

FUNCTIONS: Final = ("row_number", "rank", "dense_rank")
RANK: Final = "_rank"  # the column of a LIMIT


@dataclass(frozen=True, slots=True)
class Ordering:
    """An item of ORDER BY."""

    value: Expr
    descending: bool
    nulls_first: bool

    def lifted(self, lift: Callable[[Expr], Expr]) -> Ordering:
        return Ordering(lift(self.value), self.descending, self.nulls_first)


@dataclass(frozen=True, slots=True)
class RankCall:
    """``function() OVER (PARTITION BY … ORDER BY …)``, its expressions over the rows that are ranked."""

    function: str
    partition: tuple[Expr, ...]
    order: tuple[Ordering, ...]

    def read(self) -> list[Expr]:
        return [*self.partition, *(o.value for o in self.order)]

    def lifted(self, lift: Callable[[Expr], Expr]) -> RankCall:
        return RankCall(self.function, tuple(map(lift, self.partition)), tuple(o.lifted(lift) for o in self.order))


@dataclass(slots=True)
class RankCollector:
    """The rank of a SELECT: one, read in as many places as one likes."""

    context: Context
    call: RankCall | None = None
    column: str = ""

    def bind(self, node: exp.Window, binder: ExpressionBinder) -> Expr:
        found = self._bound(node, binder)
        if self.call is None:
            self.call, self.column = found, self.context.fresh("_rank")
        elif found != self.call:
            message = "a SELECT has one rank: put the second into a query around this one, FROM (SELECT …)."
            raise self.context.error(message, node)
        return Column(self.column, INT32, span_of(node))

    def _bound(self, node: exp.Window, binder: ExpressionBinder) -> RankCall:
        name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else ""
        if node.this.expressions:
            raise self.context.error(f"{name.upper()}() takes no argument.", node)
        if node.args.get("spec") is not None:
            raise self.context.error(f"{name.upper()}() takes no frame: leave ROWS or RANGE out.", node)
        if node.args.get("order") is None:
            raise self.context.error(f"{name.upper()}() needs ORDER BY in its OVER (…).", node)
        partition = tuple(binder.bind(p) for p in node.args.get("partition_by") or ())
        order = tuple(ordering(binder.bind(o.this), o, self.context) for o in node.args["order"].expressions)
        for e in (*partition, *(o.value for o in order)):
            if outer_columns(e):
                raise self.context.error("OVER may not use columns of the query around.", node)
        return RankCall(name, partition, order)

    def lift(self, lift: Callable[[Expr], Expr]) -> None:
        """Above a grouping."""
        if self.call is not None:
            self.call = self.call.lifted(lift)

    def applied(self, plan: Plan, read: Iterable[Expr]) -> Plan:
        """The ranked rows. Where their arrival leaves ties, these are ordered by what the SELECT reads (``read``), in
        the order of FROM: rows that agree in all of these look the same in the result."""
        if self.call is None:
            return plan
        if not has_arrivals(plan):
            names = frozenset().union(*(columns_of(e) for e in (*read, *self.call.read())))
            plan = Project(plan, tuple((f.name, Column(f.name, f.type)) for f in plan.schema if f.name in names))
        return ranked(self.context, plan, self.call, self.column)


def ordering(value: Expr, node: exp.Ordered, context: Context) -> Ordering:
    return Ordering(value, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def ranked(context: Context, plan: Plan, call: RankCall, name: str) -> Rank:
    """Rank the rows of a plan; keys that are no columns of it are computed below. Only row numbers break ties."""
    columns: dict[Expr, str] = {}
    computed: list[tuple[str, Expr]] = []
    by_arrival, ties = has_arrivals(plan), tuple[str, ...]()
    if call.function == "row_number" and not by_arrival:
        arrived = context.arrival_order.of(plan)
        plan, by_arrival = arrived.plan, arrived.whole
        ties = tuple(a.number for a in arrived.arrivals)
        if len(ties) > 1:
            came = Call("greatest", tuple(Column(a.time, INT64) for a in arrived.arrivals), INT64)
            columns[came] = context.fresh("_came")
            computed.append((columns[came], came))
            ties = (columns[came], *ties)
    for e in call.read():
        if not isinstance(e, Column) and e not in columns:
            columns[e] = context.fresh("_key")
            computed.append((columns[e], coerce(e, STRING) if str(e.type) == "null" else e))
    if computed:
        kept = tuple((f.name, Column(f.name, f.type)) for f in plan.schema)
        plan = Project(plan, (*kept, *computed))

    def column(e: Expr) -> str:
        return e.name if isinstance(e, Column) else columns[e]

    order = tuple(SortKey(column(o.value), o.descending, o.nulls_first) for o in call.order)
    _check_ordered(context, call, plan.schema, by_arrival)
    return Rank(plan, call.function, tuple(map(column, call.partition)), order, name, by_arrival, ties)  # type: ignore[arg-type]


def _check_ordered(context: Context, call: RankCall, schema: Schema, by_arrival: bool) -> None:
    import pyarrow as pa

    for e in (o.value for o in call.order):
        if pa.types.is_nested(e.type):
            raise context.error_at(f"ORDER BY needs values with an order, not {type_name(e.type)}.", e.span)
    nested = [f.name for f in schema if pa.types.is_nested(f.type)]
    if nested and not by_arrival:
        message = (
            f"rows without an order of arrival are ranked by all columns, and {nested[0]!r} has no order: leave it out."
        )
        raise context.error_at(message, None)


# ORDER BY … LIMIT -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """``ORDER BY … LIMIT count OFFSET skipped``."""

    order: tuple[Ordering, ...]
    count: int
    skipped: int = 0


def has_order(context: Context, node: exp.Expression) -> bool:
    """Whether a query has ORDER BY with LIMIT; one without the other is refused."""
    order, limit, offset = (node.args.get(k) for k in ("order", "limit", "offset"))
    if order is None and limit is None and offset is None:
        return False
    if order is None:
        message = "LIMIT needs ORDER BY, which says what rows stay: add it, or use a window [ROWS n] for the last ones."
        raise context.error(message, limit or offset)
    if limit is None:
        message = (
            "ORDER BY needs LIMIT: a relation has no order that could be shown, but its first n rows by one. For "
            "ranks, write ROW_NUMBER() OVER (ORDER BY …) in the select list."
        )
        raise context.error(message, order)
    return True


def read_limit(context: Context, node: exp.Expression, bind: Callable[[exp.Expression], Expr]) -> Limit:
    keys = tuple(ordering(bind(o.this), o, context) for o in node.args["order"].expressions)
    offset = node.args.get("offset")
    skipped = 0 if offset is None else _count(context, offset, "OFFSET")
    return Limit(keys, _count(context, node.args["limit"], "LIMIT"), skipped)


def _count(context: Context, node: Any, word: str) -> int:
    value = node.args.get("count") if isinstance(node, exp.Fetch) else node.args.get("expression")
    options = node.args.get("limit_options") if isinstance(node, exp.Fetch) else None
    if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
        message = "FETCH FIRST n ROWS ONLY has neither PERCENT nor WITH TIES: for ties, write RANK() … <= n."
        raise context.error(message, node)
    if not (isinstance(value, exp.Literal) and not value.is_string and value.this.isdigit()) or len(value.this) > 9:
        raise context.error(f"{word} takes a whole number, as in {word} 10.", node)
    return int(value.this)


def limited(context: Context, plan: Plan, limit: Limit) -> Project:
    """The first rows of a plan, by columns of it."""
    output = tuple((f.name, Column(f.name, f.type)) for f in plan.schema)
    name = context.fresh(RANK)
    ranks = ranked(context, plan, RankCall("row_number", (), limit.order), name)
    return Project(_between(ranks, name, limit), output)


def _between(ranks: Rank, name: str, limit: Limit) -> Plan:
    conjuncts = [_compare("le", name, limit.skipped + limit.count)]
    if limit.skipped:
        conjuncts.append(_compare("gt", name, limit.skipped))
    return Select(ranks, tuple(conjuncts))


def _compare(function: str, name: str, number: int) -> Expr:
    found = resolve(function, [INT32, INT64])
    args: Sequence[Expr] = (Column(name, INT32), Literal(number, INT64))
    cast = tuple(coerce(a, t) for a, t in zip(args, found.arguments, strict=True))
    return Call(found.function, cast, found.returns)
