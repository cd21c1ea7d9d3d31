"""One SELECT: FROM, WHERE, grouping, the select list, and the defaults of its windowless stream."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from eddyline.core.time import TimeKind
from eddyline.cql.bind_aggregate import AggregateCollector, grouping
from eddyline.cql.bind_call import EXPLODE_ALONE
from eddyline.cql.bind_expr import ExpressionBinder
from eddyline.cql.bind_from import FromBinder, LocalQuery, conjuncts_of, join_plan, note_equalities, split_conjuncts
from eddyline.cql.bind_literal import coerce
from eddyline.cql.bind_over import OverCollector
from eddyline.cql.bind_rank import Limit, Ordering, RankCollector, has_order, limited, read_limit
from eddyline.cql.bind_scalar import ScalarCollector
from eddyline.cql.bind_subquery import Correlated, MarkCollector
from eddyline.cql.defaults import Bound, StreamKind, as_relation, changes, check_closing, substitute_node
from eddyline.cql.dialect import StreamList, StreamQuery
from eddyline.cql.modifiers import refuse_modifiers
from eddyline.cql.places import item_text, span_of
from eddyline.cql.renaming import renamed
from eddyline.cql.scope import Context, Scope, outer_columns
from eddyline.cql.select_items import SelectItem, star_items, unique_names
from eddyline.cql.window_syntax import WindowClause
from eddyline.expr.nodes import Column, Expr, columns_of, substitute
from eddyline.expr.types import NULL, STRING, type_name
from eddyline.plan.logical import Distinct, Explode, Join, Plan, Project, Select


class Queries(Protocol):
    """Who binds the queries inside a SELECT (``binder.QueryBinder``)."""

    suffix: WindowClause | None
    local: dict[str, LocalQuery]
    around: tuple[Scope, str] | None

    def within(self, suffix: WindowClause | None, around: tuple[Scope, str] | None) -> Queries:
        """For the queries in the FROM of a SELECT."""

    def with_kind(self, node: Any) -> tuple[Bound, TimeKind | None]: ...

    def of_view(self, context: Context, node: Any) -> tuple[Bound, TimeKind | None]:
        """For a view whose text is bound again, in a context of its own."""

    def inner(self, node: Any, scope: Scope) -> Correlated: ...

    def value(self, query: Any, around: tuple[Scope, str]) -> Bound: ...


_READ = (
    "expressions",
    "distinct",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "windows",
    "with_",
    "order",
    "limit",
    "offset",
    "qualify",
)


@dataclass(slots=True)
class SelectBinder:
    """Binds one SELECT; ``bound`` gives it as a query, ``correlated`` as a subquery of a condition."""

    context: Context
    queries: Queries
    scope: Scope
    kind: StreamKind | None = None
    operator: Any = None  # the stream operator as it is written
    distinct: bool = False
    aggregated: bool = False
    judged: bool = False
    below: Plan | None = None  # the relation that the select list is evaluated over
    items: list[SelectItem] = field(default_factory=list)
    limit: Limit | None = None
    qualify: list[Expr] = field(default_factory=list)  # conditions on ranks and other values with OVER
    exploded: tuple[str, str] | None = None  # a column of lists, and the name of its elements
    outer: list[Expr] = field(default_factory=list)  # conjuncts of WHERE that name columns of the query around

    def bind(self, node: exp.Select) -> None:
        refuse_modifiers(self.context, node, _READ)
        if node.args.get("from_") is None:
            raise self.context.error("a query needs FROM with at least one stream or relation.", node)
        sources, plan, marks, values = self._from_where(node)
        projections = self._select_list(node)
        collector = AggregateCollector(self.context)
        ranks, scalars = RankCollector(self.context), self._scalars()
        over = OverCollector(self.context, ranks)
        raw = self._bind_items(projections, collector, over, scalars)
        if has_order(self.context, node):
            self._bind_limit(node, projections, collector, over)
        if node.args.get("qualify") is not None:
            self._bind_qualify(node.args["qualify"], projections, collector, over)
        if over.calls:
            grouped = collector.calls or node.args.get("group") or node.args.get("having") or self.exploded
            plan = over.applied(plan, not (grouped or scalars.plans))
        if self.exploded is not None:
            if collector.calls or ranks.call is not None or node.args.get("group") is not None:
                raise self.context.error(EXPLODE_ALONE, node)
            plan = Explode(plan, *self.exploded)
        plan = self._group(node, projections, raw, collector, ranks, scalars, plan)
        ordered = () if self.limit is None else tuple(o.value for o in self.limit.order)
        plan = self._judged(plan, sources, marks, [*values.plans, *scalars.plans])
        self.below = ranks.applied(plan, (*(i.value for i in self.items), *ordered, *self.qualify))
        if self.qualify:
            self.below = Select(self.below, tuple(self.qualify))

    def _scalars(self) -> ScalarCollector:
        return ScalarCollector(self.context, self.scope, self.queries.value)

    # FROM and WHERE -------------------------------------------------------------------------------------------

    def _from_where(self, node: exp.Select) -> tuple[FromBinder, Plan, MarkCollector, ScalarCollector]:
        windows = node.args.get("windows")
        suffix = windows[0] if windows else self.queries.suffix
        queries = self.queries.within(suffix, self._around_from())
        self.queries = queries

        sources = FromBinder(self.context, self.scope, queries.with_kind, queries.of_view, suffix, queries.local)
        joined = sources.bind(node)
        where = node.args.get("where")
        parts = [] if where is None else conjuncts_of(where.this)
        note_equalities(parts, self.scope)
        marks = MarkCollector(self.context, self.scope, queries.inner)
        values = self._scalars()
        binder = ExpressionBinder(self.context, self.scope, "in WHERE", marks, scalars=values)
        conditions = [binder.condition(part, "WHERE") for part in parts]
        self.outer = [c for c in conditions if outer_columns(c)]
        own = [*joined.conjuncts, *(c for c in conditions if not outer_columns(c))]
        return sources, self._filtered([*joined.inputs, *values.plans], own, marks), marks, values

    def _around_from(self) -> tuple[Scope, str] | None:
        if self.scope.parent is None:
            return self.queries.around
        return self.scope.parent, "a subquery in FROM may not use columns of a query around it."

    def _filtered(self, inputs: list[Plan], conjuncts: list[Expr], marks: MarkCollector) -> Plan:
        """The join, the marks of its subqueries, and above them the conditions that are not the join's own."""
        if not marks.marks:
            return join_plan(inputs, conjuncts)
        across, within = split_conjuncts(inputs, conjuncts) if len(inputs) > 1 else ([], conjuncts)
        joined: Plan = Join(tuple(inputs), tuple(across)) if len(inputs) > 1 else inputs[0]
        return Select(marks.applied(joined), tuple(within)) if within else marks.applied(joined)

    def _judged(self, plan: Plan, sources: FromBinder, marks: MarkCollector, values: list[Plan]) -> Plan:
        """Apply the rule of the windowless stream (``defaults``, rule 2)."""
        if self.context.modelled:
            return plan  # a model has a value at every instant, and joins meet at each
        windowless = [i for i in sources.items if i.now is not None]
        if len(windowless) > 1:
            names = " and ".join(i.columns[0].alias for i in windowless[:2])
            message = (
                f"{names} are joined without windows: give each a window, or write [ROWS UNBOUNDED] to keep "
                "all of their elements for ever."
            )
            raise self.context.error(message, windowless[1].node)
        if not windowless:
            return plan
        (item,) = windowless
        others = [i.plan for i in sources.items if i is not item] + [m.right for m in marks.marks] + values
        if not any(map(changes, others)):
            return plan
        assert item.now is not None
        self.judged = True
        return substitute_node(plan, item.plan, item.now)

    # The select list ------------------------------------------------------------------------------------------

    def _select_list(self, node: exp.Select) -> list[Any]:
        """The select items, out of a stream operator that encloses them."""
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise self.context.error("DISTINCT ON is not supported: group by the columns instead.", node)
        self.distinct = distinct is not None
        projections = list(node.expressions)
        if not projections:
            raise self.context.error("the select list is empty.", node)
        operators = [p for p in projections if isinstance(p.unalias(), StreamList)]
        if not operators:
            return projections
        if len(projections) > 1:
            name = operators[0].unalias().args["kind"].capitalize()
            raise self.context.error(f"{name}(…) encloses the whole select list: put all items inside.", operators[0])
        enclosed = self.operator = projections[0].unalias()
        self.kind = enclosed.args["kind"]
        self.distinct = self.distinct or bool(enclosed.args.get("distinct"))
        inside = list(enclosed.expressions)
        if isinstance(projections[0], exp.Alias):
            if len(inside) != 1 or isinstance(inside[0], exp.Star | exp.Alias):
                raise self.context.error("AS after a stream operator needs one item inside it.", projections[0])
            return [exp.Alias(this=inside[0], alias=projections[0].args["alias"])]
        return inside

    def _bind_items(
        self, projections: list[Any], collector: AggregateCollector, over: OverCollector, scalars: ScalarCollector
    ) -> list[SelectItem]:
        where = "in the select list"
        binder = ExpressionBinder(self.context, self.scope, where, None, collector, ranks=over, scalars=scalars)
        items: list[SelectItem] = []
        for node in projections:
            star = node.this if isinstance(node, exp.Column) else node
            if isinstance(star, exp.Star):
                table = node.table if isinstance(node, exp.Column) else ""
                items.extend(star_items(self.context, self.scope, star, table))
                continue
            value = node.this if isinstance(node, exp.Alias) else node
            if isinstance(value, StreamQuery):
                raise self.context.error("Istream(SELECT …) is a query of its own.", value)
            bound = self._explode(value) if _is_explode(value) else binder.bind(value)
            if outer_columns(bound):
                raise self.context.error(
                    "the select list of a subquery may not use columns of the query around.", value
                )
            if isinstance(node, exp.Alias):
                name = node.alias
            elif isinstance(value, exp.Column):
                name = value.name
            else:
                name = item_text(node, self.context.text)
            if bound.type == NULL:
                bound = coerce(bound, STRING)  # a bare NULL has to have some type
            is_plain = isinstance(bound, Column) and not isinstance(node, exp.Alias)
            qualifier = bound.name.rpartition(".")[0] if is_plain and isinstance(bound, Column) else ""
            items.append(SelectItem(name, qualifier, bound))
        return items

    def _explode(self, node: exp.Anonymous) -> Expr:
        """The element of a list, as a column: the rows below have one for each."""
        if self.exploded is not None:
            message = "a SELECT explodes one list: put the second explode into a query around this one."
            raise self.context.error(message, node)
        if len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Column):
            raise self.context.error("explode takes a column of lists, as in explode(tags).", node)
        lists = self.scope.column(node.expressions[0])
        if not isinstance(lists, Column) or not pa.types.is_list(lists.type) or outer_columns(lists):
            raise self.context.error(f"explode takes a column of lists, not {type_name(lists.type)}.", node)
        self.exploded = (lists.name, self.context.fresh("_element"))
        return Column(self.exploded[1], lists.type.value_type, span_of(node))

    def _bind_limit(
        self, node: exp.Select, projections: list[Any], collector: AggregateCollector, over: OverCollector
    ) -> None:
        """ORDER BY names an item by its position or alias, or is an expression over the same rows as the items."""
        binder = ExpressionBinder(self.context, self.scope, "in ORDER BY", None, collector, ranks=over)
        aliases = {p.alias.lower(): p.this for p in projections if isinstance(p, exp.Alias)}

        def bind(key: Any) -> Expr:
            if isinstance(key, exp.Literal) and not key.is_string and key.this.isdigit():
                if not 1 <= int(key.this) <= len(projections):
                    raise self.context.error(f"ORDER BY {key.this}: there are {len(projections)} items.", key)
                key = projections[int(key.this) - 1].unalias()
                if isinstance(key, exp.Star) or isinstance(key.this, exp.Star):
                    raise self.context.error("ORDER BY a position does not count the columns of '*': name one.", key)
            elif isinstance(key, exp.Column) and not key.table:
                key = aliases.get(key.name.lower(), key)
            bound = binder.bind(key)
            if outer_columns(bound):
                raise self.context.error("ORDER BY of a subquery may not use columns of the query around.", key)
            return bound

        self.limit = read_limit(self.context, node, bind)

    def _bind_qualify(
        self, node: exp.Qualify, projections: list[Any], collector: AggregateCollector, over: OverCollector
    ) -> None:
        """``QUALIFY`` keeps rows by what stands with OVER, there or under its alias in the select list."""
        aliases = {p.alias.lower(): p.this for p in projections if isinstance(p, exp.Alias)}
        binder = ExpressionBinder(self.context, self.scope, "in QUALIFY", None, collector, aliases, ranks=over)
        self.qualify = [binder.condition(part, "QUALIFY") for part in conjuncts_of(node.this)]
        if any(outer_columns(c) for c in self.qualify):
            raise self.context.error("QUALIFY of a subquery may not use columns of the query around.", node)
        if over.ranks.call is None and not over.calls:
            message = "QUALIFY keeps rows by a rank or another value with OVER (…): write WHERE, or HAVING for groups."
            raise self.context.error(message, node)

    # Grouping -------------------------------------------------------------------------------------------------

    def _group(
        self,
        node: exp.Select,
        projections: list[Any],
        raw: list[SelectItem],
        collector: AggregateCollector,
        ranks: RankCollector,
        scalars: ScalarCollector,
        plan: Plan,
    ) -> Plan:
        group, having = node.args.get("group"), node.args.get("having")
        aliases = {p.alias.lower(): p.this for p in projections if isinstance(p, exp.Alias)}
        marks = MarkCollector(self.context, self.scope, self.queries.inner)
        condition: list[Expr] = []
        if having is not None:
            binder = ExpressionBinder(self.context, self.scope, "in HAVING", marks, collector, aliases, scalars=scalars)
            condition = [binder.condition(part, "HAVING") for part in conjuncts_of(having.this)]
            if any(outer_columns(c) for c in condition):
                raise self.context.error("HAVING of a subquery may not use columns of the query around.", having)
        if group is None and having is None and not collector.calls:
            self.items = raw
            return scalars.applied(plan)
        self.aggregated = True
        keys = None if group is None else self._keys(group, projections, aliases)
        ranked = [] if ranks.call is None else ranks.call.read()
        ordered = [] if self.limit is None else [o.value for o in self.limit.order]
        used = [*(i.value for i in raw), *condition, *(x for m in marks.marks for x, _ in m.operands)]
        used += [*ranked, *ordered, *self.qualify]
        free = frozenset((*(m.name for m in marks.marks), ranks.column, *scalars.names))
        grouped = grouping(self.context, plan, keys, collector, used, free)
        self.items = [SelectItem(i.name, i.qualifier, grouped.lift(i.value)) for i in raw]
        self.qualify = [grouped.lift(c) for c in self.qualify]
        ranks.lift(grouped.lift)
        if self.limit is not None:
            self.limit = replace(self.limit, order=tuple(o.lifted(grouped.lift) for o in self.limit.order))
        above: Plan = scalars.applied(marks.applied(grouped.plan, grouped.lift))
        if condition:
            above = Select(above, tuple(map(grouped.lift, condition)))
        return above

    def _keys(self, group: exp.Group, projections: list[Any], aliases: dict[str, Any]) -> list[Expr]:
        for key, value in group.args.items():
            if key != "expressions" and value not in (None, False, []):
                raise self.context.error("GROUP BY takes a list of expressions only.", group)
        binder = ExpressionBinder(self.context, self.scope, "in GROUP BY", aliases=aliases)
        if not group.expressions:
            raise self.context.error("GROUP BY needs at least one expression.", group)
        keys = []
        for node in group.expressions:
            target = node
            if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
                if not 1 <= int(node.this) <= len(projections):
                    raise self.context.error(f"GROUP BY {node.this}: there are {len(projections)} items.", node)
                target = projections[int(node.this) - 1].unalias()
            bound = binder.bind(target)
            if outer_columns(bound):
                raise self.context.error("GROUP BY of a subquery may not use columns of the query around.", node)
            keys.append(bound)
        return keys

    # Results --------------------------------------------------------------------------------------------------

    def _projected(self) -> Plan:
        assert self.below is not None
        return Project(self.below, tuple(unique_names(self.items)))

    def bound(self) -> Bound:
        if self.outer:
            raise self.context.error("this query may not use columns of the query around it.", None)
        plan = self._projected() if self.limit is None else self._first(self.limit)
        check_closing(self.context, self.kind, plan, self.operator)
        return Bound(Distinct(plan) if self.distinct and self.limit is None else plan, self.kind, self.judged)

    def _first(self, limit: Limit) -> Plan:
        """The first rows of the result, by values that need not be part of it."""
        assert self.below is not None
        named = unique_names(self.items)
        by_value = {e: n for n, e in reversed(named)}
        hidden = list(dict.fromkeys(o.value for o in limit.order if o.value not in by_value))
        if hidden and self.distinct:
            message = (
                "ORDER BY of SELECT DISTINCT takes items of the select list only: equal rows may differ in others."
            )
            raise self.context.error_at(message, hidden[0].span)
        names = by_value | {e: self.context.fresh("_by") for e in hidden}
        plan: Plan = Project(self.below, (*named, *((names[e], e) for e in hidden)))
        plan = Distinct(plan) if self.distinct else plan
        order = tuple(
            Ordering(Column(names[o.value], o.value.type, o.value.span), o.descending, o.nulls_first)
            for o in limit.order
        )
        found = limited(self.context, plan, replace(limit, order=order))
        return Project(found.input, tuple((n, Column(n, e.type)) for n, e in named))

    def correlated(self, name: str) -> Correlated:
        """This SELECT as a subquery: its columns renamed to ``name.column``, the conditions on outer columns apart."""
        assert self.below is not None
        if not self.outer:
            whole = renamed(as_relation(self.bound()), name)
            return Correlated(whole, tuple(Column(f.name, f.type) for f in whole.schema), ())
        if self.aggregated or self.kind is not None or self.limit is not None:
            what = "groups or aggregates" if self.aggregated else "names a stream operator"
            what = "has a LIMIT" if self.limit is not None else what
            message = f"a subquery that {what} may not use columns of the query around it."
            raise self.context.error_at(message, self.outer[0].span)
        # Duplicates do not matter to IN and EXISTS, so DISTINCT is dropped together with its meaning.
        outputs = [(f"{name}.{n}", e) for n, e in unique_names(self.items)]
        needed = sorted(
            {n for c in self.outer for n in columns_of(c)} - {n for c in self.outer for n in outer_columns(c)}
        )
        inner: dict[str, Expr] = {}
        extra = []
        for n in needed:
            column = Column(n, self.below.schema[n].type)
            inner[n] = Column(f"{name}/{n}", column.type)
            extra.append((f"{name}/{n}", column))
        plan = as_relation(Bound(Project(self.below, (*outputs, *extra)), None, self.judged))
        on = tuple(substitute(c, inner) for c in self.outer)
        return Correlated(plan, tuple(Column(n, e.type) for n, e in outputs), on)


def _is_explode(node: Any) -> bool:
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() == "explode"
