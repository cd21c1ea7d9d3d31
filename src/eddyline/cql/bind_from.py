"""FROM: names, windows, subqueries and joins.

Comma joins and inner joins become one n-ary join. Outer joins are nested, in the order in which they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa
from sqlglot import exp

from eddyline.core.catalog import RelationDef, StreamDef
from eddyline.core.errors import clipped, did_you_mean
from eddyline.core.schema import Field, Schema
from eddyline.core.system_streams import SYSTEM
from eddyline.core.time import TimeKind
from eddyline.core.window import Unbounded, Until, closes
from eddyline.cql.bind_as_of import as_of_join
from eddyline.cql.bind_expr import ExpressionBinder
from eddyline.cql.defaults import (
    Bound,
    as_stream,
    at_its_instant,
    grows_only,
    has_implicit_window,
    in_order_of_arrival,
    read_back,
)
from eddyline.cql.dialect import Source
from eddyline.cql.model_views import BindView, bound_again
from eddyline.cql.renaming import renamed
from eddyline.cql.scans import scan_of
from eddyline.cql.scope import WINDOW_COLUMNS, Context, Scope, Visible
from eddyline.cql.window_syntax import WindowClause
from eddyline.cql.windows import window_spec
from eddyline.expr.nodes import Column, Expr, columns_of
from eddyline.expr.types import STRING, type_name
from eddyline.plan.logical import (
    BoundQuery,
    Join,
    OuterJoin,
    Plan,
    RelationScan,
    Select,
    StreamScan,
    ToStream,
    Window,
    WindowColumn,
    is_stream,
)

BindQuery = Callable[[exp.Expression], tuple[Bound, TimeKind | None]]
LocalQuery = Callable[[], tuple[Bound, TimeKind | None]]
MAX_INPUTS = 64  # each input of a join has a pipeline through all others, so plans grow faster than their text
SIDE_STREAMS = ("late", "invalid", "shed")
SIDE_COLUMNS = ("stream", "reason", "row")


@dataclass(frozen=True, slots=True)
class Item:
    """One input of FROM: its relation, and for a windowless stream also that of its elements of ``now``."""

    plan: Plan
    columns: tuple[Visible, ...]
    node: Any
    now: Plan | None = None


@dataclass(slots=True)
class Joined:
    """Inputs under one conjunction, in written order; ``columns`` are all columns of them."""

    inputs: list[Plan]
    conjuncts: list[Expr]
    columns: list[Visible]

    def plan(self) -> Plan:
        """The join of the inputs, with conditions on one input in a Select above it."""
        return join_plan(self.inputs, self.conjuncts)


def join_plan(inputs: list[Plan], conjuncts: list[Expr]) -> Plan:
    """Conjuncts over several inputs go into the join, the others into a Select above it, each in written order."""
    if len(inputs) == 1:
        return Select(inputs[0], tuple(conjuncts)) if conjuncts else inputs[0]
    across, within = split_conjuncts(inputs, conjuncts)
    joined: Plan = Join(tuple(inputs), tuple(across))
    return Select(joined, tuple(within)) if within else joined


def split_conjuncts(inputs: list[Plan], conjuncts: list[Expr]) -> tuple[list[Expr], list[Expr]]:
    """Conjuncts that read columns of two or more of the inputs and nothing else, and all the others."""
    owner = {name: i for i, p in enumerate(inputs) for name in p.schema.names}
    across: list[Expr] = []
    within: list[Expr] = []
    for c in conjuncts:
        used = columns_of(c)
        several = len({owner[n] for n in used if n in owner}) > 1
        (across if several and used <= owner.keys() else within).append(c)
    return across, within


@dataclass(slots=True)
class FromBinder:
    """Binds one FROM clause into ``scope``; ``bind_query`` binds a subquery of it, ``bind_view`` a view's text."""

    context: Context
    scope: Scope
    bind_query: BindQuery
    bind_view: BindView
    suffix: WindowClause | None = None
    local: Mapping[str, LocalQuery] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)

    def bind(self, select: exp.Select) -> Joined:
        """All of FROM. A comma binds less tightly than JOIN: ``A, B LEFT JOIN C`` joins B and C first."""
        groups: list[Joined] = []
        current = self.source(select.args["from_"].this)
        for join in select.args.get("joins") or []:
            if join.meta.get("comma"):
                groups.append(current)
                current = self.source(join.this)
            else:
                current = self.join(current, join)
        groups.append(current)
        if len(groups) == 1:
            return current
        return Joined(
            [i for g in groups for i in g.inputs],
            [c for g in groups for c in g.conjuncts],
            [c for g in groups for c in g.columns],
        )

    # Joins ----------------------------------------------------------------------------------------------------

    def join(self, left: Joined, join: exp.Join) -> Joined:
        method, side, kind = (join.args.get(k) or "" for k in ("method", "side", "kind"))
        if method == "ASOF":
            return self._as_of(left, join, side)
        if method or kind in ("SEMI", "ANTI") or kind not in ("", "INNER", "OUTER", "CROSS"):
            raise self.context.error(f"{method or kind} JOIN is not supported: write ON or USING.", join)
        right = self.source(join.this)
        conjuncts = self._conditions(left, right, join, side)
        if not side:
            return Joined(
                left.inputs + right.inputs, left.conjuncts + right.conjuncts + conjuncts, left.columns + right.columns
            )
        if not conjuncts:
            raise self.context.error(f"{side} JOIN needs ON or USING.", join)
        outer: dict[str, Literal["left", "right", "full"]] = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}
        plan = OuterJoin(outer[side], left.plan(), right.plan(), tuple(conjuncts))
        return Joined([plan], [], left.columns + right.columns)

    def _as_of(self, left: Joined, join: exp.Join, side: str) -> Joined:
        """The result is one stream, which takes the places of both sides among the inputs."""
        right = self.source(join.this)
        conjuncts = self._conditions(left, right, join, side)
        plan = as_of_join(self.context, join, left.inputs, right.inputs, conjuncts)
        gone = [p for j in (left, right) for p in j.inputs]
        self.items = [i for i in self.items if not any(i.plan is p for p in gone)]
        columns = (*left.columns, *right.columns)
        windowed = self._windowed(Source(this=join), plan, "", self.context.kinds[-1][0])
        self.items.append(replace(windowed, columns=columns, node=join))
        return Joined([windowed.plan], [], list(columns))

    def _conditions(self, left: Joined, right: Joined, join: exp.Join, side: str) -> list[Expr]:
        on, using = join.args.get("on"), join.args.get("using")
        around = Scope(self.context, left.columns + right.columns, self.scope.hidden, self.scope.merged)
        around._class = self.scope._class
        if using:
            return [self._using(name, left, right, side) for name in using]
        if on is None:
            return []
        parts = conjuncts_of(on)
        note_equalities(parts, around)
        binder = ExpressionBinder(self.context, around, "in ON")
        return [binder.condition(part, "ON") for part in parts]

    def _using(self, name: exp.Identifier, left: Joined, right: Joined, side: str) -> Expr:
        sides = []
        for joined in (left, right):
            scope = Scope(self.context, joined.columns, self.scope.hidden)
            scope._class = self.scope._class
            found = scope.find("", name.name, name)
            if not isinstance(found, Column):
                raise scope.unknown(exp.Column(this=name))
            sides.append(found)
        binder = ExpressionBinder(self.context, self.scope)
        a, b = sides
        self.scope.equate(a.name, b.name)
        self.scope.hidden.add(a.name if side == "RIGHT" else b.name)
        if side == "FULL":
            self.scope.merged[name.name.lower()] = binder.call("coalesce", (a, b), name)
        return binder.call("eq", (a, b), name)

    # Sources --------------------------------------------------------------------------------------------------

    def source(self, node: Source) -> Joined:
        this = node.this
        if node.args.get("models") and not isinstance(this, exp.Identifier):
            raise self.context.error("MODEL belongs to a stream by its name.", node.args["models"][0])
        if isinstance(this, Source):
            return self._nested(node, this)
        item = self._item(node)
        self._add(item)
        joined = Joined([item.plan], [], list(item.columns))
        return self._with_joins(joined, node)

    def _with_joins(self, joined: Joined, node: Source) -> Joined:
        """Joins that the parser hung on a source: ``A JOIN B JOIN C ON … ON …``."""
        for join in node.args.get("joins") or []:
            joined = self.join(joined, join)
        return joined

    def _nested(self, node: Source, inner: Source) -> Joined:
        """Parentheses: around one source they may carry its alias and window, around joins they only group."""
        alias, window = node.args.get("alias"), node.args.get("window")
        if inner.args.get("joins") and not isinstance(inner.this, Source) and (alias or window):
            raise self.context.error("a join in parentheses takes no alias and no window.", alias or window)
        if node.args.get("models"):
            raise self.context.error("MODEL stands behind its stream, inside the parentheses.", node.args["models"][0])
        if alias or window:
            if window is not None and inner.args.get("window") is not None:
                raise self.context.error("a stream takes one window, and this is its second.", window)
            merged = Source(
                this=inner.this, alias=alias or inner.args.get("alias"), window=window or inner.args.get("window"),
                models=inner.args.get("models"),
            )  # fmt: skip
            merged.meta.update(node.meta)
            return self._with_joins(self.source(merged), node)
        return self._with_joins(self.source(inner), node)

    def _add(self, item: Item) -> None:
        alias = item.columns[0].alias if item.columns else ""
        if self.scope.has_alias(alias):
            message = f"the name {alias!r} stands twice in FROM: give one of them another name with AS."
            raise self.context.error(message, item.node)
        if len(self.items) == MAX_INPUTS:
            message = f"a query reads at most {MAX_INPUTS} inputs in one FROM: join some of them in a view."
            raise self.context.error(message, item.node)
        self.scope.visible.extend(item.columns)
        self.items.append(item)

    def _item(self, node: Source) -> Item:
        this = node.this
        if isinstance(this, exp.Identifier):
            return self._named(node, this)
        if isinstance(this, exp.Anonymous):
            return self._side_stream(node, this)
        return self._query(node, *self.bind_query(this))

    def _named(self, node: Source, name: exp.Identifier) -> Item:
        lower = name.name.lower()
        catalog = self.context.catalog
        if lower in self.local:
            return self._query(node, *self.local[lower](), name.name)
        if lower in catalog.streams:
            return self._stream(node, catalog.streams[lower], self._alias(node, name.name))
        if lower in catalog.relations:
            return self._relation(node, catalog.relations[lower], self._alias(node, name.name))
        if lower in catalog.views:
            return self._view(node, catalog.views[lower], name.name)
        if lower in SYSTEM:
            return self._stream(node, SYSTEM[lower], self._alias(node, name.name))
        hint = did_you_mean(name.name, [*catalog.sources(), *self.local])
        hint = hint or f" Declare it before the query: CREATE STREAM {clipped(name.name)} FROM '…' TIMESTAMP BY …;"
        raise self.context.error(f"unknown stream or relation {name.name!r}.{hint}", name)

    def _alias(self, node: Source, default: str) -> str:
        alias = node.args.get("alias")
        return alias.name if alias is not None else default

    def _stream(self, node: Source, stream: StreamDef, alias: str) -> Item:
        self.context.kinds.append((stream.time_kind, stream.name, node))
        if self.context.modelled:
            from eddyline.cql.bind_model import stream_scan

            scan = stream_scan(self.context, node, stream, alias)
        else:
            scan = scan_of(stream, alias)
        return self._windowed(node, scan, alias, stream.time_kind)

    def _relation(self, node: Source, relation: RelationDef, alias: str) -> Item:
        if node.args.get("window") is not None:
            message = f"{relation.name} is a relation, and a window needs a stream."
            raise self.context.error(message, node.args["window"])
        if relation.time_kind is not None and not relation.constant:
            self.context.kinds.append((relation.time_kind, relation.name, node))
        schema = _prefixed(relation.schema, alias)
        scan = RelationScan(relation.name, alias, schema, relation.schema.names, relation.constant)
        return Item(scan, _visible(scan, alias), node)

    def _side_stream(self, node: Source, call: exp.Anonymous) -> Item:
        """``late(q)``, ``invalid(q)`` and ``shed(q)``: what a named query did not process, and why."""
        which = call.this.lower()
        if which not in SIDE_STREAMS:
            hint = did_you_mean(which, [*SIDE_STREAMS, "istream"])
            raise self.context.error(
                f"unknown source {call.this}(…): there are late(q), invalid(q) and shed(q).{hint}", call
            )
        if len(call.expressions) != 1:
            raise self.context.error(f"{which} takes the name of one query.", call)
        name = call.expressions[0].name
        query = self.context.catalog.views.get(name.lower())
        if query is None:
            hint = did_you_mean(name, self.context.catalog.views)
            raise self.context.error(f"unknown query {name!r}: {which}(q) needs the name of a query.{hint}", call)
        self.context.kinds.append((query.time_kind, f"{which}({name})", node))
        alias = self._alias(node, which)
        schema = Schema(tuple(Field(f"{alias}.{c}", STRING) for c in SIDE_COLUMNS))
        scan = StreamScan(f"{which}({query.name or name})", alias, schema, SIDE_COLUMNS)
        return self._windowed(node, scan, alias, query.time_kind)

    def _view(self, node: Source, query: BoundQuery, name: str) -> Item:
        if self.context.modelled:
            return self._query(node, *bound_again(self.context, query, node, self.bind_view), name)
        alias = self._alias(node, name)
        self.context.kinds.append((query.time_kind, query.name or alias, node))
        plan = renamed(query.plan, alias, named=True)
        if is_stream(query.plan):
            return self._windowed(node, plan, alias, query.time_kind)
        if node.args.get("window") is not None:
            return self._windowed(node, renamed(ToStream("istream", query.plan), alias), alias, query.time_kind)
        return Item(plan, _visible(plan, alias), node)

    def _query(self, node: Source, bound: Bound, kind: TimeKind | None, default: str | None = None) -> Item:
        # Without an alias the columns of a subquery are known by their bare names only.
        alias = self._alias(node, default or self.context.fresh("_query"))
        window, named = node.args.get("window"), default is not None
        if window is not None or bound.names_stream:
            return self._windowed(node, renamed(as_stream(bound), alias, named), alias, kind)
        plan = renamed(bound.plan, alias, named)
        if grows_only(bound.plan) and has_implicit_window(bound.plan):
            # A filtered or projected windowless stream is still a windowless stream.
            return Item(
                plan, _visible(plan, alias), node, at_its_instant(plan, renamed(as_stream(bound), alias, named))
            )
        return Item(plan, _visible(plan, alias), node)

    # Windows --------------------------------------------------------------------------------------------------

    def _windowed(self, node: Source, stream: Plan, alias: str, kind: TimeKind | None) -> Item:
        columns = _visible(stream, alias)
        clause = node.args.get("window") or self.suffix
        if clause is None:
            relation = read_back(stream)
            return Item(relation, columns, node, at_its_instant(relation, stream))
        stream = in_order_of_arrival(stream)
        scope = Scope(self.context, list(columns))

        def partition(column: exp.Column) -> str:
            found = scope.column(column)
            assert isinstance(found, Column)
            return found.name

        kind = kind or TimeKind.INTEGER
        spec = window_spec(clause, kind, partition, self.context.text)
        if isinstance(spec, Unbounded):
            spec = replace(spec, implicit=False)
        if isinstance(spec, Until):
            self._check_until(clause, stream.schema[spec.column], kind)
        edges = _window_columns(columns, alias, kind) if closes(spec) else ()
        more = tuple(Visible(alias, c.name[len(alias) + 1 :], c.name, c.type, implicit=True) for c in edges)
        return Item(Window(stream, spec, edges), (*columns, *more), node)

    def _check_until(self, clause: WindowClause, column: Field, kind: TimeKind) -> None:
        fits = pa.types.is_integer if kind is TimeKind.INTEGER else pa.types.is_timestamp
        if not fits(column.type):
            wanted = "an integer, as the stream's time is" if kind is TimeKind.INTEGER else "a timestamp"
            message = f"UNTIL needs {wanted}, and {column.name.rpartition('.')[2]!r} is {type_name(column.type)}."
            raise self.context.error(message, clause)


def _window_columns(columns: tuple[Visible, ...], alias: str, kind: TimeKind) -> tuple[WindowColumn, ...]:
    """``window_start`` and ``window_end``, unless the stream has columns of its own with these names."""
    own = {v.name.lower() for v in columns}
    time = pa.int64() if kind is TimeKind.INTEGER else pa.timestamp("us")
    start, end = WINDOW_COLUMNS
    both = WindowColumn(f"{alias}.{start}", time, "start"), WindowColumn(f"{alias}.{end}", time, "end")
    return tuple(c for c in both if c.name.rpartition(".")[2] not in own)


def conjuncts_of(node: Any) -> list[Any]:
    """The conjuncts of a condition in written order, through parentheses."""
    found: list[Any] = []
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, exp.Paren):
            stack.append(part.this)
        elif isinstance(part, exp.And):
            stack.extend((part.expression, part.this))
        else:
            found.append(part)
    return found


def note_equalities(parts: list[Any], scope: Scope) -> None:
    """Record in the scope which columns a join equates, so that a bare name of both is not ambiguous."""
    for part in parts:
        if not isinstance(part, exp.EQ):
            continue
        sides = (part.this, part.expression)
        if all(isinstance(s, exp.Column) and s.table and not isinstance(s.this, exp.Star) for s in sides):
            a, b = (scope.find(s.table, s.name, s) for s in sides)
            if isinstance(a, Column) and isinstance(b, Column):
                scope.equate(a.name, b.name)


def _prefixed(schema: Schema, alias: str) -> Schema:
    return Schema(tuple(Field(f"{alias}.{f.name}", f.type) for f in schema))


def _visible(p: Plan, alias: str) -> tuple[Visible, ...]:
    # '*' does not bring lists: they can be read by some functions only.
    return tuple(
        Visible(alias, f.name[len(alias) + 1 :], f.name, f.type, implicit=pa.types.is_nested(f.type)) for f in p.schema
    )
