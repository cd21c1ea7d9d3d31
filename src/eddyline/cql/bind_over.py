"""``LAG``, ``LEAD`` and aggregates with ``OVER (PARTITION BY … ORDER BY ts ROWS …)``: values of the rows around an
element of a stream."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from sqlglot import exp

from eddyline.cql.bind_aggregate import AggregateCollector
from eddyline.cql.bind_rank import FUNCTIONS, RankCollector
from eddyline.cql.defaults import elements_of, implicit_window
from eddyline.cql.over_remedies import NOT_HERE, beside, instead_of
from eddyline.cql.places import span_of
from eddyline.cql.scope import Context, outer_columns
from eddyline.expr.functions import is_aggregate
from eddyline.expr.nodes import AggregateCall, Call, Column, Expr
from eddyline.expr.types import type_name
from eddyline.plan.logical import Frame, Neighbour, Over, Plan, Project
from eddyline.plan.time_columns import time_columns

if TYPE_CHECKING:
    from eddyline.cql.bind_expr import ExpressionBinder

MAX_FRAME_ROWS: Final = 1_000_000  # in a frame, and between an element and its neighbour
_NEIGHBOURS: Final = ("lag", "lead")


@dataclass(frozen=True, slots=True)
class NeighbourCall:
    """``LAG(value, n, default)``: ``shift`` is −n, and n for LEAD."""

    value: Expr
    shift: int
    default: Expr | None


@dataclass(frozen=True, slots=True)
class FrameCall:
    """An aggregate of the last ``rows`` rows up to the one ``shift`` rows on."""

    call: AggregateCall
    rows: int | None
    shift: int


@dataclass(slots=True)
class OverCollector:
    """What a SELECT has with OVER: one rank, or values of the rows around each element, of one PARTITION BY."""

    context: Context
    ranks: RankCollector
    calls: dict[NeighbourCall | FrameCall, str] = field(default_factory=dict)
    partition: tuple[Expr, ...] = ()
    order: Expr | None = None
    node: exp.Window | None = None

    def bind(self, node: exp.Window, binder: ExpressionBinder) -> Expr:
        inner, where = node.this, None
        if isinstance(inner, exp.Filter):
            inner, where = inner.this, inner.expression.this
        name = inner.this.lower() if isinstance(inner, exp.Anonymous) and isinstance(inner.this, str) else ""
        if name in FUNCTIONS:
            return self.ranks.bind(node, binder)
        if name in NOT_HERE and name not in self.context.catalog.aggregates:
            raise self.context.error(instead_of(name, node, inner), node)
        self._same_rows(node, name, binder.inside("in OVER"))
        found = self._bound(node, name, inner, where, binder.inside("inside OVER"))
        column = self.calls.setdefault(found, self.context.fresh("_over"))
        return Column(column, found.value.type if isinstance(found, NeighbourCall) else found.call.type, span_of(node))

    def _bound(
        self, node: exp.Window, name: str, inner: Any, where: Any, binder: ExpressionBinder
    ) -> NeighbourCall | FrameCall:
        if name in _NEIGHBOURS:
            if where is not None:
                raise self.context.error(f"{name.upper()} has no FILTER: filter in WHERE.", node)
            return self._neighbour(node, name, inner, binder)
        if name not in self.context.catalog.aggregates and not is_aggregate(name):
            raise self.context.error("OVER (…) can follow only ranks, LAG, LEAD and aggregates.", node)
        rows, shift = self._frame(node)
        collector = AggregateCollector(self.context)
        collector.call(name, inner, binder, where)
        (call,) = collector.calls.values()
        return FrameCall(replace(call, span=None), rows, shift)

    def _neighbour(self, node: exp.Window, name: str, inner: Any, binder: ExpressionBinder) -> NeighbourCall:
        upper = name.upper()
        if node.args.get("spec") is not None:
            raise self.context.error(f"{upper} takes no frame: leave ROWS or RANGE out.", node)
        if not 1 <= len(inner.expressions) <= 3:
            raise self.context.error(
                f"{upper} takes a value, a number of rows and a default, as in {upper}(x, 1, 0).", node
            )
        value, *others = inner.expressions
        count = others[0] if others else exp.Literal.number(1)
        if not _is_count(count):
            message = f"{upper} counts rows by a whole number up to {MAX_FRAME_ROWS:,}, as in {upper}(x, 2)."
            raise self.context.error(message, count)
        bound = binder.bind(value)
        default = binder.bind(others[1]) if len(others) > 1 else None
        if pa.types.is_nested(bound.type):
            raise self.context.error(f"{upper} takes a value, not {type_name(bound.type)}.", value)
        if default is not None:
            both = binder.call("coalesce", (bound, default), node)
            assert isinstance(both, Call)
            bound, default = both.args
        sign = -1 if name == "lag" else 1
        return NeighbourCall(bound, sign * int(count.this), default)

    def _frame(self, node: exp.Window) -> tuple[int | None, int]:
        """How many rows, and where the last of them is."""
        spec = node.args.get("spec")
        if spec is None or spec.args.get("kind") != "ROWS":
            raise self.context.error(self._without_rows(node, spec), node)
        first = self._edge(node, spec.args.get("start"), spec.args.get("start_side"))
        last = self._edge(node, spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"))
        if last is None:
            message = "a frame up to UNBOUNDED FOLLOWING is never complete: end it at CURRENT ROW or n FOLLOWING."
            raise self.context.error(message, node)
        if first is not None and first > last:
            raise self.context.error("the frame ends before it begins, so it has no rows.", node)
        return None if first is None else last - first + 1, last

    def _edge(self, node: exp.Window, value: Any, side: Any) -> int | None:
        """Rows from the element; None: unbounded."""
        if value == "CURRENT ROW":
            return 0
        if value == "UNBOUNDED":
            return None
        if not _is_count(value):
            message = f"a frame counts rows by whole numbers up to {MAX_FRAME_ROWS:,}, as in 9 PRECEDING."
            raise self.context.error(message, node)
        return int(value.this) * (1 if side == "FOLLOWING" else -1)

    def _without_rows(self, node: exp.Window, spec: Any) -> str:
        call = node.this.sql()
        keys = ", ".join(p.sql() for p in node.args.get("partition_by") or ())
        arguments: dict[str, Any] = {} if spec is None else spec.args
        kind, start = arguments.get("kind"), arguments.get("start")
        if kind == "RANGE" and start is not None and (isinstance(start, exp.Interval) or _is_count(start)):
            timed = isinstance(start, exp.Interval)
            width = f"{start.this.name} {start.args['unit']}" if timed else start.this
            return (
                f"a frame of time is a window on the stream, beside which each element is read: {beside(node, width)}"
            )
        if kind == "RANGE" and start == "UNBOUNDED":
            return (
                "RANGE would count the rows of one instant together: write ROWS, "
                f"{call} OVER (… ROWS UNBOUNDED PRECEDING)."
            )
        if kind == "GROUPS":
            return f"GROUPS is not supported: count rows, {call} OVER (… ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)."
        order = f" {node.args['order'].sql().strip()}" if node.args.get("order") is not None else " ORDER BY ts"
        partition = f"PARTITION BY {keys}" if keys else ""
        within = f"{partition}{order}".strip()
        return (
            f"say which rows: {call} OVER ({within} ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) for the last ten,"
            f" or ROWS UNBOUNDED PRECEDING for all so far."
        )

    def _same_rows(self, node: exp.Window, name: str, binder: ExpressionBinder) -> None:
        """All values of a SELECT are of the same partitions."""
        partition = tuple(binder.bind(p) for p in node.args.get("partition_by") or ())
        ordered = node.args.get("order")
        keys = [] if ordered is None else ordered.expressions
        if len(keys) > 1 or (keys and keys[0].args.get("desc")):
            message = (
                "rows stand in the order of the stream's time, ORDER BY ts, and ties by arrival: leave DESC and further"
                " keys out; what comes before in a descending order is LEAD."
            )
            raise self.context.error(message, node)
        order = binder.bind(keys[0].this) if keys else None
        for e in (*partition, *(() if order is None else (order,))):
            if outer_columns(e):
                raise self.context.error("OVER may not use columns of the query around.", node)
        if self.node is not None and (partition, order) != (self.partition, self.order):
            message = (
                "all OVER (…) of a SELECT have the same PARTITION BY and ORDER BY: put the other into a query around"
                " this one, FROM (SELECT …)."
            )
            raise self.context.error(message, node)
        self.partition, self.order, self.node = partition, order, node

    # -- the plan --------------------------------------------------------------------------------------------------

    def applied(self, plan: Plan, alone: bool) -> Plan:
        """The elements with their values, as an append-only relation. ``alone``: the SELECT neither groups nor has
        subqueries."""
        if not self.calls:
            return plan
        assert self.node is not None
        stream = elements_of(plan)
        if stream is None or not alone or self.ranks.call is not None:
            raise self.context.error(_NOT_A_STREAM, self.node)
        self._check_order(stream)
        columns: dict[Expr, str] = {}

        def column(e: Expr) -> str:
            return e.name if isinstance(e, Column) else columns.setdefault(e, self.context.fresh("_value"))

        partition = tuple(map(column, self.partition))
        values: list[tuple[str, Neighbour | Frame]] = []
        for call, name in self.calls.items():
            if isinstance(call, NeighbourCall):
                default = None if call.default is None else column(call.default)
                values.append((name, Neighbour(column(call.value), call.shift, default, call.value.type)))
            else:
                args = tuple(Column(column(a), a.type) for a in call.call.args)
                values.append((name, Frame(replace(call.call, args=args), call.rows, call.shift)))
        if columns:
            kept = tuple((f.name, Column(f.name, f.type)) for f in stream.schema)
            stream = Project(stream, (*kept, *((n, e) for e, n in columns.items())))
        return implicit_window(Over(stream, partition, tuple(values)))

    def _check_order(self, stream: Plan) -> None:
        times = sorted(time_columns(stream, self.context.catalog))
        if isinstance(self.order, Column) and self.order.name in times:
            return
        if self.order is None and not times:
            return
        if times:
            message = f"OVER (…) must follow the time of the stream: write ORDER BY {times[0].rpartition('.')[2]}."
        else:
            message = (
                "the time of this stream is in none of its columns, so OVER (…) goes without ORDER BY: rows stand in"
                " the order of the stream."
            )
        raise self.context.error(message, self.node)


_NOT_A_STREAM: Final = (
    "LAG, LEAD and aggregates with OVER (…) read one stream without a window, filtered by WHERE, in a SELECT of their"
    " own: put joins, subqueries and grouping into a query in FROM, or around this one, and a window on the result,"
    " FROM (SELECT … OVER (…) … FROM S) [RANGE …]."
)


def _is_count(value: Any) -> bool:
    whole = isinstance(value, exp.Literal) and not value.is_string and value.this.isdigit()
    return whole and len(value.this) <= 7 and int(value.this) <= MAX_FRAME_ROWS
