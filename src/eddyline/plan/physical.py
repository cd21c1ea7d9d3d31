"""From the logical plan to operators.

Two questions are decided here, and both are visible in ``explain``:

*Which deletions are computed.* A relation's − elements are needed only where they can show. ``Deletions.NONE``: they
cannot; ``AT_ARRIVALS``: only at instants at which something enters (below ``Istream``, through operators that are
linear in their input); ``ALL``: always (below aggregates, differences, antijoins, ``Dstream``, signed results, and
wherever state must forget). Under ``Istream`` equal rows could cancel within an instant; that is impossible where every
windowed stream's timestamp is kept, and then no deletion is needed at all.

*Where windows live.* A time-based window below a join is kept by the join (a ring, no − elements in between); otherwise
a seq-window operator produces the changes. Windows over the same elements of a stream share one store.

Operators with kernels are imported where they are built: a query that only filters never waits for the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from eddyline.core.catalog import Catalog
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.core.window import (
    PartitionRows,
    Range,
    Rows,
    Session,
    Stepping,
    Unbounded,
    Until,
    counts_elements,
    leaves_in_order,
    spelled,
)
from eddyline.expr.describe import describe_aggregate
from eddyline.expr.nodes import Column, Expr, substitute
from eddyline.operators.adaptive_select import in_order
from eddyline.operators.append_only import AppendOnlyWindow
from eddyline.operators.base import Operator
from eddyline.operators.bundles import Bundles
from eddyline.operators.join_plan import JoinGraph
from eddyline.operators.select import SelectOperator
from eddyline.operators.streams import Changes, ConstantRelation, OrderTies, UnionAll
from eddyline.plan.closing_nodes import ClosingWindows
from eddyline.plan.conditions import split_conditions
from eddyline.plan.conjuncts import split_conjuncts
from eddyline.plan.deletions import Deletions, cannot_cancel, is_constant
from eddyline.plan.graph import MakeJudge, MakeSelect, Output, PhysicalPlan, alias_of, conjunction, distinct, needed
from eddyline.plan.logical import (
    Aggregate,
    BoundQuery,
    Distinct,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    ToStream,
    Window,
    each,
    is_stream,
)
from eddyline.plan.numbering import Numbering
from eddyline.plan.panes import panes_below, same_panes
from eddyline.plan.rewrite import movable
from eddyline.plan.stars import RouteStars, star_of
from eddyline.plan.window_columns import in_one_window
from eddyline.streamon.decision import PLANNER, Decision
from eddyline.synopses.store import Elements, Registry, Stub

AdaptJoin = Callable[[Any, Sequence[str]], None]


def build(query: BoundQuery, plan: Plan, catalog: Catalog, registry: Registry, load: Callable[[str], pa.Table],
          epochs: Mapping[str, int], select: MakeSelect = SelectOperator, judge: MakeJudge = in_order,
          adapt: AdaptJoin | None = None, stars: RouteStars | None = None,
          ) -> PhysicalPlan:  # fmt: skip
    """``load`` brings the rows of a constant relation; ``epochs`` tell from which element on a stream is read, so that
    only windows over the very same elements share a store; ``select`` makes the operators of selections, ``judge`` the
    conjunctions of those with memberships, ``adapt`` gives a join somebody who changes its plan, ``stars`` those of one
    stream with constant relations somebody who routes rows."""
    builder = _Builder(query.time_kind, catalog, registry, load, epochs, select, judge, adapt, stars)
    return builder.finish(plan)


class _Builder(ClosingWindows):
    def __init__(self, kind: TimeKind, catalog: Catalog, registry: Registry, load: Callable[[str], pa.Table],
                 epochs: Mapping[str, int], select: MakeSelect, judge: MakeJudge,
                 adapt: AdaptJoin | None, stars: RouteStars | None) -> None:  # fmt: skip
        super().__init__(select, judge, kind)
        self.adapt, self.stars = adapt, stars
        self.catalog, self.registry, self.load, self.epochs = catalog, registry, load, epochs
        self.scans: dict[Hashable, int] = {}
        self.paned: dict[Hashable, Output] = {}
        self.made: dict[int, Output] = {}  # sub-plans that several others read
        self.ordered = False  # whether first or last is asked for

    def finish(self, plan: Plan) -> PhysicalPlan:
        self.plan, self.numbers = plan, Numbering(plan)
        kind = "signed"
        calls = [a for n in each(plan) if isinstance(n, Aggregate) for _, a in n.aggregates]
        self.counting = any(isinstance(n, Window) and counts_elements(n.spec) for n in each(plan))
        self.ordered = any(a.function in ("first", "last") for a in calls)
        if is_stream(plan):
            out = self.stream(plan)
            root = next(n for n in each(plan) if isinstance(n, ToStream | StreamScan))
            kind = root.kind if isinstance(root, ToStream) else "istream"
        else:
            child = self.relation(plan, Deletions.ALL)
            out = self.changes(child, "signed")
        return PhysicalPlan(self.nodes, out.node, kind, out.schema, self.context, self.stubs)

    # ── streams ───────────────────────────────────────────────────────────────────────────────────────────────────

    def stream(self, p: Plan, ordered: bool = False) -> Output:
        """What several read is in the order that any of them could ask for."""
        ordered = ordered or (self.numbers.shared(p) and self.counting)
        return self.read_once(p, lambda: self.one_stream(p, ordered))

    def read_once(self, p: Plan, make: Callable[[], Output]) -> Output:
        """The operators of a sub-plan that is read in several places are built for the first, and the others read
        what they bring."""
        if not self.numbers.shared(p):
            return make()
        number = self.numbers.of(p)
        if number not in self.made:
            self.made[number] = make()
        return self.made[number]

    def one_stream(self, p: Plan, ordered: bool) -> Output:
        """A stream-typed plan: its elements are all insertions. A derived stream has no order of arrival: where
        somebody counts its elements (``ordered``) or asks for the first, those of one instant are ordered by value."""
        match p:
            case StreamScan():
                return self.scan(p)
            case Select():
                return self.filter(p, self.stream(p.input, ordered))
            case Project():
                return self.project(p, self.stream(p.input, ordered))
            case ToStream():
                out = self.to_stream(p)
                if ordered or self.ordered:
                    operator = OrderTies(self.name("order"), out.schema)
                    out = Output(self.add(operator, (out.node,)), out.schema, append_only=True)
                return out
            case _:
                raise AssertionError(f"not a stream: {type(p).__name__}")

    def to_stream(self, p: ToStream) -> Output:
        if p.kind == "rstream":
            return self.rstream(p)
        if p.kind == "wstream":
            return self.wstream(p)
        if p.kind == "dstream":
            return self.changes(self.relation(p.input, Deletions.ALL), "dstream")
        need = Deletions.NONE if cannot_cancel(p.input, self.catalog) else Deletions.AT_ARRIVALS
        return self.changes(self.relation(p.input, need), "istream")

    def scan(self, p: StreamScan | RelationScan) -> Output:
        name = p.stream if isinstance(p, StreamScan) else p.relation
        key = (name, p.alias, p.schema.names)
        if key not in self.scans:
            self.scans[key] = self.add(None, (), p)
        constant = isinstance(p, StreamScan)
        return Output(self.scans[key], p.schema, append_only=constant)

    def changes(self, child: Output, kind: str) -> Output:
        netted = child.append_only or (child.identity is not None and child.identity <= set(child.schema.names))
        name = {"istream": "i-stream", "dstream": "d-stream"}.get(kind, "changes")
        operator = Changes(self.name(name), child.schema, kind, netted)
        node = self.add(operator, (child.node,))
        return Output(node, child.schema, append_only=kind != "signed")

    def rstream(self, p: ToStream) -> Output:
        from eddyline.operators.rstream import RStream

        momentary = self.judged_elements(p.input)
        if momentary is not None:
            return momentary

        child = self.relation(p.input, Deletions.ALL)
        everything = list(each(self.plan))  # the ticks are those of the whole query, not of the part below
        windows = [n.spec for n in everything if isinstance(n, Window)]
        steps = sorted({(w.slide, w.offset) for w in windows if isinstance(w, Stepping)})
        scans = [n for n in everything if isinstance(n, StreamScan | RelationScan)]
        ticks = tuple(self.scan(n).node for n in scans if isinstance(n, StreamScan) or not n.constant)
        sessions = self.closing([n for n in each(p.input) if isinstance(n, Window)])
        operator = RStream(self.name("r-stream"), child.schema, steps, child.ids, self.context, len(sessions))
        return Output(self.add(operator, (child.node, *ticks, *sessions)), child.schema, append_only=True)

    # ── relations ─────────────────────────────────────────────────────────────────────────────────────────────────

    def relation(self, p: Plan, need: Deletions) -> Output:
        """What several read is built once, so with all deletions that any of them could need."""
        shared = self.numbers.shared(p)
        return self.read_once(p, lambda: self.one_relation(p, Deletions.ALL if shared else need))

    def one_relation(self, p: Plan, need: Deletions) -> Output:
        match p:
            case RelationScan():
                return self.relation_scan(p)
            case Window():
                return self.window(p, need)
            case Select():
                below = needed(p.conjuncts, need)
                return self.judged(p, need) or self.semijoin(p) or self.filter(p, self.relation(p.input, below))
            case Project():
                return self.project(p, self.relation(p.input, needed([e for _, e in p.items], need)))
            case Join():
                return self.join(p, need)
            case OuterJoin():
                return self.outer_join(p)
            case MarkJoin():
                return self.mark_join(p)
            case Aggregate():
                return self.aggregate(p, need)
            case Distinct():
                return self.distinct(p)
            case SetOperation():
                return self.set_operation(p, need)
            case _:
                raise AssertionError(f"not a relation: {type(p).__name__}")

    def relation_scan(self, p: RelationScan) -> Output:
        if not p.constant:
            out = self.scan(p)
            return Output(out.node, out.schema)
        table = self.load(p.relation)
        columns = {f.name: _contiguous(table.column(c)) for f, c in zip(p.schema, p.columns, strict=True)}
        operator = ConstantRelation(self.name("relation"), p.schema, columns, table.num_rows, self.context)
        return Output(self.add(operator, ()), p.schema, ids=True, append_only=True)

    def windowed(self, p: Window, child: Output, need: Deletions, shared: bool = True) -> Output:
        """A window over a stream that is built already; with ``shared`` it is the stream of the plan."""
        if isinstance(p.spec, Unbounded) or (isinstance(p.spec, Range) and need == Deletions.NONE):
            operator: Operator = AppendOnlyWindow(self.name("seq-window"), p.schema)
            node = self.add(operator, (child.node,), note=spelled(p.spec, self.kind))
            return Output(node, p.schema, ids=True, fifo=True, append_only=True)
        if isinstance(p.spec, Session | Until):
            return self.own_time(p, p.spec, child, need)
        from eddyline.operators.seq_window import PartitionWindow, RowsWindow, TimeWindow

        if isinstance(p.spec, PartitionRows):
            operator = PartitionWindow(self.name("seq-window"), p.schema, p.spec)
            node = self.add(operator, (child.node,), note=spelled(p.spec, self.kind))
            return Output(node, p.schema, ids=True, leaving=True)
        stub = self.stub_for(p.input) if shared else self.private_stub(p.schema)
        if isinstance(p.spec, Rows):
            operator = RowsWindow(self.name("seq-window"), p.schema, p.spec, stub, need)
        else:
            operator = TimeWindow(self.name("seq-window"), p.schema, p.spec, stub, need, spelled(p.spec, self.kind))
        node = self.add(operator, (child.node,), note=spelled(p.spec, self.kind))
        # Rows that leave a time window while nothing enters may never be told.
        leaving = need == Deletions.ALL or (isinstance(p.spec, Rows) and need != Deletions.NONE)
        return Output(node, p.schema, ids=True, fifo=True, append_only=need == Deletions.NONE, leaving=leaving)

    def stub_for(self, stream: Plan) -> Callable[[], Stub]:
        what, prefix, fields = self.signature(stream)

        def make() -> Stub:
            stub = self.registry.stub(what, fields, prefix)
            self.stubs.append(stub)
            return stub

        return make

    def signature(self, stream: Plan) -> tuple[Elements | None, str, Schema]:
        """What a store over this stream plan would hold, independent of aliases: filters over a scan can be shared."""
        conjuncts: list[Expr] = []
        p = stream
        while isinstance(p, Select):
            conjuncts = [*p.conjuncts, *conjuncts]
            p = p.input
        if isinstance(p, StreamScan) and p.stream.lower() in self.catalog.streams:
            by: dict[str, Expr] = {f.name: Column(c, f.type) for f, c in zip(p.schema, p.columns, strict=True)}
            written = tuple(substitute(c, by) for c in conjuncts)
            name = p.stream.lower()
            return Elements(name, self.epochs.get(name, 0), written), f"{p.alias}.", p.schema
        return None, "", stream.schema

    # ── joins ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def join(self, p: Join, need: Deletions) -> Output:
        from eddyline.operators.mjoin import MJoin

        star = None if self.stars is None else self.star_join(p, need, self.stars)
        if isinstance(star, Output):
            return star
        schemas = [i.schema for i in p.inputs]
        keys, equalities, residual = split_conjuncts(p.conjuncts, schemas)
        keys, conditions, residual = split_conditions(residual, schemas, keys)
        graph = JoinGraph(keys, equalities)
        inputs, stubs, nodes = [], [], []
        append_only = True
        changing = [i for i, child in enumerate(p.inputs) if not is_constant(child)]
        for i, child in enumerate(p.inputs):
            spec, stub, node, grows = self.join_input(child, need, passing=changing == [i])
            inputs.append(spec)
            stubs.append(stub)
            nodes.append(node)
            append_only = append_only and grows
        kind = "binary-join" if len(inputs) == 2 else "mjoin"
        operator = MJoin(self.name(kind), inputs, graph, residual, stubs, p.schema.names, self.context, conditions)
        if star is not None:
            self.decided("join routing", "none", star, operator.name)
        written = list(operator.orders)
        if self.adapt is not None:
            self.adapt(operator, [alias_of(i) for i in p.inputs])
        if operator.orders == written:  # else somebody has drawn another plan, and tells it
            self.explain_orders(operator, p)
        note = conjunction(p.conjuncts) or "product"
        node = self.add(operator, tuple(nodes), note=note)
        return Output(node, operator.schema, append_only=append_only)

    def star_join(self, p: Join, need: Deletions, stars: RouteStars) -> Output | str:
        """The join with its rows routed, or why they are not. It is linear in the input that changes: it needs no more
        of the deletions than what is above."""
        from eddyline.operators.star_look_up import StarLookUp

        star = star_of(p) if stars.instead is None else stars.instead
        if isinstance(star, str):
            return star
        name, changing = self.name("star-look-up"), p.inputs[star.place].schema
        labels = [r.label for r in star.relations]
        routes = stars.router(name, changing, labels, self.context.log)
        if isinstance(routes, str):
            return routes
        inputs = [self.relation(c, need if i == star.place else Deletions.ALL) for i, c in enumerate(p.inputs)]
        operator = StarLookUp(
            name, changing, star.place, star.relations, star.residual, p.schema.names, routes, self.context
        )
        self.decided("join routing", labels, "each row asks them in an order of its own", name)
        node = self.add(operator, tuple(i.node for i in inputs), note=conjunction(p.conjuncts))
        return Output(node, operator.schema, append_only=inputs[star.place].append_only)

    def join_input(self, p: Plan, need: Deletions, passing: bool) -> tuple[Any, Callable[[], Stub] | None, int, bool]:
        """A ring for windows that the join can keep itself and for append-only relations, else a bag. ``passing``:
        all other inputs are constant, so that of an input without deletions nothing need be kept."""
        from eddyline.operators.join_side import JoinInput

        filters: tuple[Expr, ...] = ()
        below = p
        while isinstance(below, Select):
            filters, below = (*below.conjuncts, *filters), below.input
        if isinstance(below, Window) and isinstance(below.spec, Rows) and all(map(movable, filters)):
            child = self.stream(below.input, ordered=True)
            label = f"{alias_of(p)} {below.spec}"
            spec = JoinInput(below.schema, below.spec, deletes=need, label=label, filters=filters)
            return spec, self.stub_for(below.input), child.node, False

        if isinstance(p, Window) and leaves_in_order(p.spec) and (not p.columns or in_one_window(p)):
            child = self.element_columns(p) if p.columns else self.stream(p.input)
            grows = isinstance(p.spec, Unbounded) or need == Deletions.NONE
            deletes = Deletions.NONE if isinstance(p.spec, Unbounded) else need
            label = f"{alias_of(p)} {spelled(p.spec, self.kind)}"
            passing = passing and grows
            kept = Range(0) if passing and not isinstance(p.spec, Stepping) else p.spec
            spec = JoinInput(p.schema, kept, deletes=deletes, label=label, passing=passing)
            stub = self.private_stub(p.schema) if p.columns else self.stub_for(p.input)
            return spec, stub, child.node, grows
        child = self.relation(p, Deletions.ALL)
        if child.append_only:
            label = f"{alias_of(p)} (all of it)"
            kept = Range(0) if passing else Unbounded()
            spec = JoinInput(child.schema, kept, deletes=Deletions.NONE, label=label, passing=passing)
            return spec, self.private_stub(child.schema), child.node, True
        label = f"{alias_of(p)} (as it changes)"
        return JoinInput(child.schema, None, by_id=child.ids, label=label), None, child.node, False

    def private_stub(self, schema: Schema) -> Callable[[], Stub]:
        def make() -> Stub:
            stub = self.registry.stub(None, schema, "")
            self.stubs.append(stub)
            return stub

        return make

    def explain_orders(self, operator: Any, p: Join) -> None:
        names = distinct([alias_of(i) for i in p.inputs])
        orders = {names[i]: [names[j] for j in order] for i, order in enumerate(operator.orders)}
        self.decided("join order", orders, "connected inputs first, in written order", operator.name)

    def decided(self, kind: str, after: Any, why: str, operator: str) -> None:
        self.context.log.record(Decision(kind, None, after, why, operator=operator, by=PLANNER))

    # ── aggregates and sets ───────────────────────────────────────────────────────────────────────────────────────

    def groups(self, p: Aggregate, need: Deletions) -> Output:
        from eddyline.operators.aggregate import AggregateOperator

        bundles = panes_below(p)
        child = self.relation(p.input, Deletions.ALL) if bundles is None else self.panes(p, bundles)
        operator = AggregateOperator(
            self.name("aggregate"), p.keys, p.aggregates, child.schema, p.grouped, self.context, fifo=child.fifo,
            inserts_only=need == Deletions.NONE, append_only=child.append_only, bundles=bundles,
        )  # fmt: skip
        node = self.add(operator, (child.node,), note=", ".join(describe_aggregate(a) for _, a in p.aggregates))
        # Old and new row of a group differ, but only where all columns are kept can one tell.
        append_only = need == Deletions.NONE
        return Output(node, p.schema, append_only=append_only, identity=frozenset(p.schema.names))

    def panes(self, p: Aggregate, bundles: Bundles) -> Output:
        """A sliding window over panes. Panes of the same elements that hold the same are made once."""
        from eddyline.operators.panes import Panes

        window = p.input
        assert isinstance(window, Window)
        alike = self.same_panes(p)
        if alike is None or alike not in self.paned:
            others = [n for n in each(self.plan) if alike is not None and self.same_panes(n) == alike]
            windows: list[Any] = [n.input.spec for n in (p, *others)]  # type: ignore[union-attr]
            operator = Panes(self.name("panes"), bundles, windows)
            node = self.add(operator, (self.stream(window.input).node,), note=bundles.describe())
            alike = node if alike is None else alike
            self.paned[alike] = Output(node, operator.schema, append_only=True)
        source = StreamScan("", "", bundles.schema, bundles.schema.names)
        return self.windowed(Window(source, window.spec), self.paned[alike], Deletions.ALL, shared=False)

    def same_panes(self, p: Plan) -> Hashable | None:
        if not (isinstance(p, Aggregate) and isinstance(p.input, Window)):
            return None
        return same_panes(p, self.signature(p.input.input)[0])

    def distinct(self, p: Distinct) -> Output:
        from eddyline.operators.sets import SetOperator

        child = self.relation(p.input, Deletions.ALL)
        operator = SetOperator(self.name("duplicate-eliminate"), p.schema, "distinct", False)
        return self.set_output(operator, (child,))

    def set_operation(self, p: SetOperation, need: Deletions) -> Output:
        from eddyline.operators.sets import SetOperator

        if p.kind == "union" and p.all:
            # What leaves on one side may cancel what enters on the other.
            need = Deletions.NONE if need == Deletions.NONE else Deletions.ALL
            left, right = self.relation(p.left, need), self.relation(p.right, need)
            node = self.add(UnionAll(self.name("union"), p.schema), (left.node, right.node))
            return Output(node, p.schema, append_only=left.append_only and right.append_only)
        left, right = self.relation(p.left, Deletions.ALL), self.relation(p.right, Deletions.ALL)
        return self.set_output(SetOperator(self.name(p.kind), p.schema, p.kind, p.all), (left, right))

    def set_output(self, operator: Operator, sides: Sequence[Output]) -> Output:
        node = self.add(operator, tuple(s.node for s in sides))
        append_only = operator.name.split(" ")[0] not in ("except",) and all(s.append_only for s in sides)
        return Output(node, operator.schema, append_only=append_only, identity=frozenset(operator.schema.names))


def _contiguous(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
