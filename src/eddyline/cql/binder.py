"""From text to a bound query: names resolved, types checked, defaults made explicit.

``bind`` is the way in. ``QueryBinder`` binds a query of any shape, ``SelectBinder`` (``bind_select``) one SELECT.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from eddyline.core.catalog import Catalog
from eddyline.core.errors import CqlError, Span
from eddyline.core.time import TimeKind
from eddyline.cql.bind_from import LocalQuery
from eddyline.cql.bind_literal import coerce
from eddyline.cql.bind_rank import Limit, has_order, limited, read_limit
from eddyline.cql.bind_select import SelectBinder
from eddyline.cql.bind_subquery import Correlated
from eddyline.cql.defaults import Bound, as_relation, check_closing, result
from eddyline.cql.dialect import StreamQuery
from eddyline.cql.job import CreateView, QueryStatement, Statement, parse_job
from eddyline.cql.modifiers import refuse_modifiers
from eddyline.cql.parsing import SHALLOWER, tokenize, with_remedy
from eddyline.cql.renaming import renamed, with_names
from eddyline.cql.scans import is_modelled
from eddyline.cql.scope import MAX_DEPTH, Context, Scope
from eddyline.cql.text_numbers import text_beside_number
from eddyline.cql.window_syntax import WindowClause
from eddyline.expr.nodes import Column
from eddyline.expr.types import common_type, type_name
from eddyline.plan.logical import BoundQuery, Plan, Project, SetOperation
from eddyline.plan.traverse import depth

_SET_OPERATORS = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}


def bind(query: str | Statement, catalog: Catalog) -> BoundQuery:
    """Bind a query (its text, or a statement of a job) against a catalog.

    >>> import pyarrow as pa
    >>> from eddyline.core.catalog import StreamDef
    >>> from eddyline.core.schema import Field, Schema
    >>> from eddyline.cql.printing import format_plan
    >>> catalog = Catalog()
    >>> schema = Schema((Field("a", pa.int32()), Field("t", pa.int64())))
    >>> catalog.add("streams", StreamDef("S", schema, TimeKind.INTEGER, "t"))
    >>> print(format_plan(bind("SELECT a FROM S [RANGE 10] WHERE a > 3", catalog).plan))
    project S.a AS a
    └─ select S.a > 3
       └─ window [RANGE 10]
          └─ stream S (S.a, S.t)
    """
    statement = _one_query(query) if isinstance(query, str) else query
    if not isinstance(statement, QueryStatement | CreateView):
        raise CqlError("this statement is not a query.", statement.text, statement.span)
    context = Context(catalog, statement.text, statement.span)
    context.modelled = is_modelled(statement.query, catalog)
    context.clauses = statement.query.meta.get("clauses")
    try:
        bound = QueryBinder(context).bind(statement.query)
    except RecursionError:
        raise CqlError(f"this query is nested too deeply: {SHALLOWER}.", statement.text, statement.span) from None
    except CqlError as error:
        tokens = [t for t in tokenize(statement.text) if statement.span.start <= t.start < statement.span.end]
        raise with_remedy(error, tokens, statement.text) from None
    if context.modelled:
        from eddyline.cql.bind_model import model_query

        plan: Plan = model_query(context, statement.query, bound)
    else:
        plan = context.arrival_order.together(result(bound))
    if depth(plan) > MAX_DEPTH:
        message = f"this query has more than {MAX_DEPTH} operators one below another: {SHALLOWER}."
        raise CqlError(message, statement.text, statement.span)
    kind = one_kind_of_time(context)
    target = statement.target if isinstance(statement, QueryStatement) else None
    return BoundQuery(statement.name, plan, kind, statement.query_text, target, dict(statement.options))


def _one_query(text: str) -> Statement:
    statements = parse_job(text)
    if not statements:
        raise CqlError("the text holds no query.", text, Span(0, max(1, len(text))))
    if len(statements) > 1:
        raise CqlError("expected one query, but the text holds several statements.", text, statements[1].span)
    return statements[0]


def one_kind_of_time(context: Context) -> TimeKind:
    """The kind of time of a query; all its inputs must agree. A query over constant relations alone counts ticks."""
    if not context.kinds:
        return TimeKind.INTEGER
    first, first_name, _ = context.kinds[0]
    for kind, name, node in context.kinds:
        if kind is not first:
            message = (
                f"a query has one kind of time: {first_name} has {first.value} time, {name} has {kind.value} time."
            )
            raise context.error(message, node)
    return first


@dataclass(slots=True)
class QueryBinder:
    """Binds queries: SELECT, set operators, stream operators around them, and WITH.

    ``suffix`` is the window of a suffix WINDOW around this query, ``local`` the queries that WITH names, ``around``
    a query whose columns must not be used in this one, with the reason.
    """

    context: Context
    suffix: WindowClause | None = None
    local: dict[str, LocalQuery] = field(default_factory=dict)
    around: tuple[Scope, str] | None = None

    def bind(self, node: Any) -> Bound:
        if isinstance(node, StreamQuery):
            return self._stream_query(node)
        if isinstance(node, exp.Subquery):
            refuse_modifiers(self.context, node, ("this", "with_"))
            return self._with_local(node).bind(node.this)
        if isinstance(node, exp.SetOperation):
            return self._with_local(node)._set_operation(node)
        if isinstance(node, exp.Select):
            return self._with_local(node).select(node).bound()
        raise self.context.error("this is not a query.", node)

    def within(self, suffix: WindowClause | None, around: tuple[Scope, str] | None) -> QueryBinder:
        """The binder of queries in the FROM of a SELECT."""
        return QueryBinder(self.context, suffix, self.local, around)

    def with_kind(self, node: Any) -> tuple[Bound, TimeKind | None]:
        """A bound query and the kind of time it runs on, None if it reads constant relations alone."""
        seen = len(self.context.kinds)
        bound = self.bind(node)
        kinds = self.context.kinds[seen:]
        return bound, kinds[0][0] if kinds else None

    def of_view(self, context: Context, node: Any) -> tuple[Bound, TimeKind | None]:
        """The query of a view, whose text is another one and has its own context."""
        return QueryBinder(context).with_kind(node)

    def select(self, node: exp.Select, parent: Scope | None = None) -> SelectBinder:
        binder = SelectBinder(self.context, self, Scope(self.context, parent=parent, blocked=self.around))
        binder.bind(node)
        return binder

    def _with_local(self, node: exp.Expression) -> QueryBinder:
        """Add the queries of a WITH clause; a later one sees the earlier ones."""
        clause = node.args.get("with_")
        if clause is None:
            return self
        if clause.args.get("recursive"):
            raise self.context.error("WITH RECURSIVE is not supported.", clause)
        local = dict(self.local)
        for cte in clause.expressions:
            refuse_modifiers(self.context, cte, ("this", "alias", "materialized"))
            definition = QueryBinder(self.context, self.suffix, dict(local), self.around)
            local[cte.alias.lower()] = definition._named(cte)
        return QueryBinder(self.context, self.suffix, local, self.around)

    def _named(self, cte: exp.CTE) -> _NamedQuery:
        """A query of a WITH clause, bound whether or not it is read: its mistakes are mistakes of the text."""
        kinds = self.context.kinds
        seen = len(kinds)
        bound = self.bind(cte.this)
        mine = list({(k, n): (k, n, node) for k, n, node in kinds[seen:]}.values())
        del kinds[seen:]  # only the queries that read it run on its kind of time
        columns = cte.args["alias"].args.get("columns") or []
        if columns:
            bound = replace(bound, plan=with_names(bound.plan, self._listed(cte.alias, columns, bound.plan)))
        return _NamedQuery(kinds, bound, mine)

    def _listed(self, name: str, columns: list[exp.Identifier], plan: Plan) -> list[str]:
        """The column list of ``WITH name(columns)``."""
        have = len(plan.schema.names)
        if len(columns) != have:
            message = f"{name} names {len(columns)} columns, but its query has {have}: name each of them, or none."
            raise self.context.error(message, exp.Tuple(expressions=[c.copy() for c in columns]))
        seen: set[str] = set()
        for column in columns:
            if column.name.lower() in seen:
                raise self.context.error(f"{name} has two columns {column.name!r}: rename one of them.", column)
            seen.add(column.name.lower())
        return [c.name for c in columns]

    def _stream_query(self, node: StreamQuery) -> Bound:
        inner = self._with_local(node).bind(node.this)
        if inner.kind is not None:
            raise self.context.error("a query has one stream operator, and this one has two.", node)
        check_closing(self.context, node.args["kind"], inner.plan, node)
        return Bound(inner.plan, node.args["kind"], inner.judged)

    def _set_operation(self, node: exp.SetOperation) -> Bound:
        refuse_modifiers(self.context, node, ("this", "expression", "distinct", "with_", "order", "limit", "offset"))
        sides = [self.bind(node.this), self.bind(node.expression)]
        for bound, side in zip(sides, (node.this, node.expression), strict=True):
            if bound.kind is not None:
                message = "a stream operator encloses the whole query: write Istream(SELECT … UNION SELECT …)."
                raise self.context.error(message, side)
        left, right = self._same_types(as_relation(sides[0]), as_relation(sides[1]), node)
        kind = _SET_OPERATORS[type(node)]
        plan = SetOperation(kind, not node.args.get("distinct"), left, right)  # type: ignore[arg-type]
        return Bound(limited(self.context, plan, self._limit(node, plan)) if has_order(self.context, node) else plan)

    def _limit(self, node: exp.SetOperation, plan: Plan) -> Limit:
        """ORDER BY behind a set operator names columns of the result."""
        names = plan.schema.names

        def bind(key: Any) -> Column:
            if isinstance(key, exp.Literal) and key.this.isdigit() and 1 <= int(key.this) <= len(names):
                name = names[int(key.this) - 1]
            else:
                wanted = key.name.lower() if isinstance(key, exp.Column) and not key.table else None
                found = [n for n in names if n.lower() == wanted]
                if not found:
                    message = "ORDER BY behind a set operator takes names or positions of its columns:"
                    raise self.context.error(f"{message} {', '.join(names)}.", key)
                name = found[0]
            return Column(name, plan.schema[name].type)

        return read_limit(self.context, node, bind)

    def _same_types(self, left: Plan, right: Plan, node: exp.SetOperation) -> tuple[Plan, Plan]:
        word = type(node).__name__.upper()
        a, b = left.schema.fields, right.schema.fields
        if len(a) != len(b):
            message = f"both sides of {word} need the same number of columns, not {len(a)} and {len(b)}."
            raise self.context.error(message, node.expression)
        types = []
        for f, g in zip(a, b, strict=True):
            common = common_type(f.type, g.type)
            if common is None:
                message = (
                    f"{word} cannot combine {type_name(f.type)} ({f.name}) with {type_name(g.type)} ({g.name}); "
                    "cast one of them."
                )
                raise self.context.error(message, node.expression)
            both = (Column(f.name, f.type), Column(g.name, g.type))
            if (mistake := text_beside_number(both, common)) is not None:
                raise self.context.error(f"{word}: {mistake}", node.expression)
            types.append(common)
        return _cast_all(left, types), _cast_all(right, types)

    def value(self, query: Any, around: tuple[Scope, str]) -> Bound:
        """A subquery that stands as a value."""
        return QueryBinder(self.context, self.suffix, self.local, around).bind(query)

    def inner(self, query: exp.Expression, scope: Scope) -> Correlated:
        """A subquery of a condition; a plain SELECT may use the columns of the query around it."""
        node: Any = query
        while isinstance(node, exp.Subquery) and not node.args.get("alias"):
            node = node.this
        name = self.context.fresh("_sub")
        if isinstance(node, exp.Select):
            return self._with_local(node).select(node, scope).correlated(name)
        reason = "a subquery with a set operator or a stream operator may not use columns of the query around it."
        bound = QueryBinder(self.context, self.suffix, self.local, (scope, reason)).bind(node)
        plan = renamed(as_relation(bound), name)
        return Correlated(plan, tuple(Column(f.name, f.type) for f in plan.schema), ())


@dataclass(frozen=True, slots=True)
class _NamedQuery:
    """A query of a WITH clause, bound once, so that all readers read the same plan. A reader adds its
    kinds of time to those of the whole query."""

    kinds: list[Any]
    bound: Bound
    mine: list[Any]

    def __call__(self) -> tuple[Bound, TimeKind | None]:
        self.kinds.extend(self.mine)
        return self.bound, self.mine[0][0] if self.mine else None


def _cast_all(p: Plan, types: list[Any]) -> Plan:
    if all(f.type == t for f, t in zip(p.schema, types, strict=True)):
        return p
    return Project(p, tuple((f.name, coerce(Column(f.name, f.type), t)) for f, t in zip(p.schema, types, strict=True)))
