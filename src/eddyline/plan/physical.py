"""From the logical plan to operators. Which operator runs a join or a membership was chosen before (``plan.choice``).

Two questions are decided here, and both are visible in ``explain``:

*Which deletions are computed.* A relation's − elements are needed only where they can show (``plan.deletions``). Under
``Istream`` equal rows could cancel within an instant; that is impossible where every windowed stream's timestamp is
kept, and then no deletion is needed at all.

*Where windows live.* A time-based window below a join is kept by the join (a ring, no − elements in between); otherwise
a seq-window operator produces the changes (``plan.window_nodes``).

``Builder`` has its parts in files of their own, each a class that stands on the one before: ``graph`` (the operators so
far), ``window_nodes``, ``matches``, ``aggregate_nodes``, ``closing_nodes`` and ``joins``.

Operators with kernels are imported where they are built: a query that only filters never waits for the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from eddyline.core.catalog import Catalog
from eddyline.core.time import Clock, SystemClock
from eddyline.core.window import (
    Stepping,
    counts_elements,
)
from eddyline.operators.adaptive_select import in_order
from eddyline.operators.base import Context, Operator
from eddyline.operators.number import NumberOperator
from eddyline.operators.select import SelectOperator
from eddyline.operators.streams import Changes, ConstantRelation, OrderTies, UnionAll
from eddyline.plan.candidates import Planning, Refused, subject_of
from eddyline.plan.choice import Choices, Chosen, PlannedQuery, choose_for
from eddyline.plan.deletions import Deletions, cannot_cancel
from eddyline.plan.graph import MakeJudge, MakeSelect, Output, PhysicalPlan, needed
from eddyline.plan.joins import Joins
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    Distinct,
    Explode,
    Join,
    MarkJoin,
    ModelQuery,
    OuterJoin,
    Over,
    Plan,
    Project,
    Rank,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    ToStream,
    Window,
    WithArrivals,
    is_stream,
)
from eddyline.plan.matching import Matching
from eddyline.plan.numbering import Numbering
from eddyline.plan.traverse import each
from eddyline.synopses.registry import Registry


def build(planned: PlannedQuery, catalog: Catalog, registry: Registry, load: Callable[[str], pa.Table],
          epochs: Mapping[str, int], clock: Clock, select: MakeSelect = SelectOperator, judge: MakeJudge = in_order,
          others_read: Callable[[Plan], bool] = lambda p: False, context: Context | None = None,
          ) -> PhysicalPlan:  # fmt: skip
    """``load`` brings the rows of a constant relation; ``epochs`` say from which element on a stream is read, so that
    only windows over the very same elements share a store; ``select`` makes the operators of selections, ``judge`` the
    conjunctions of those with memberships. Which operators run joins and memberships was chosen before.
    ``others_read`` says which sub-plans are read by other queries, too; ``context`` is that of a query that was built
    before."""
    builder = Builder(planned, catalog, registry, load, epochs, clock, select, judge)
    builder.others_read = others_read
    builder.context = context or builder.context
    return builder.finish()


def choose_matches(planned: PlannedQuery, catalog: Catalog) -> PlannedQuery:
    """Choose how rows with partners are found. That depends on which changes the operators below bring, so the query is
    built once to see it, without rows and for nothing else."""
    if not planned.choices.match:
        return planned

    # By the plan and not by the catalog: a plan for shards may read a relation under a name of its own.
    columns: dict[str, dict[str, pa.Array]] = {}
    for n in each(planned.plan):
        if isinstance(n, RelationScan):
            typed = zip(n.columns, n.schema, strict=True)
            columns.setdefault(n.relation, {}).update((c, pa.array([], f.type)) for c, f in typed)

    def empty(relation: str) -> pa.Table:
        return pa.table(columns[relation])

    builder = Builder(planned, catalog, Registry(), empty, {}, SystemClock(), SelectOperator, in_order)
    builder.others_read = lambda p: False
    builder.finish()
    made = tuple(
        (node, replace(chosen, matches=tuple(builder.matches.get(builder.numbers.of(node), ()))))
        for node, chosen in planned.choices.made
    )
    return replace(planned, choices=Choices(made))


class Builder(Joins):
    """Builds the operators of a planned query. Candidates get it to build theirs."""

    others_read: Callable[[Plan], bool]

    def __init__(self, planned: PlannedQuery, catalog: Catalog, registry: Registry, load: Callable[[str], pa.Table],
                 epochs: Mapping[str, int], clock: Clock, select: MakeSelect, judge: MakeJudge) -> None:  # fmt: skip
        super().__init__(select, judge, planned.query.time_kind)
        self.plan, self.clock = planned.plan, clock
        self.others_read = lambda p: False
        self.catalog, self.registry, self.load, self.epochs = catalog, registry, load, epochs
        self.planning = Planning(catalog, planned.query.time_kind, planned.query.options)
        self.numbers = Numbering(self.plan)
        self.chosen = planned.choices.by_number(self.numbers)
        self.built: list[tuple[str, Chosen]] = []
        self.building: list[int] = []  # the numbers of the nodes that candidates are building, the innermost last
        self.matches: dict[int, list[Chosen]] = {}  # how rows with partners are found, by node
        self.scans: dict[Hashable, int] = {}
        self.made: dict[int, Output] = {}  # sub-plans that several others read
        self.ordered = False  # whether first or last is asked for

    def finish(self) -> PhysicalPlan:
        plan, kind = self.plan, "signed"
        calls = [a for n in each(plan) if isinstance(n, Aggregate) for _, a in n.aggregates]
        self.counting = any(isinstance(n, Window) and counts_elements(n.spec) for n in each(plan))
        ranks = any(isinstance(n, Rank) and n.by_arrival for n in each(plan))
        self.ordered = ranks or any(a.function in ("first", "last") for a in calls)
        if isinstance(plan, ModelQuery) and plan.predict:
            out = self.stream(plan)
        elif is_stream(plan):
            out = self.stream(plan)
            root = next(n for n in each(plan) if isinstance(n, ToStream | StreamScan))
            kind = root.kind if isinstance(root, ToStream) else "istream"
        else:
            child = self.relation(plan, Deletions.ALL)
            out = self.marked(plan, self.changes(child, "signed"), "signed")
        return PhysicalPlan(self.nodes, out.node, kind, out.schema, self.context, self.stubs, self.built)

    # ── streams ───────────────────────────────────────────────────────────────────────────────────────────────────

    def stream(self, p: Plan, ordered: bool = False) -> Output:
        """The operators of a stream. What several read has the order that any of them could need."""
        ordered = ordered or self.others_read(p) or (self.numbers.shared(p) and self.counting)
        out = self.read_once(p, lambda: self.one_stream(p, ordered))
        derived = (ordered or self.ordered) and any(isinstance(n, ToStream) for n in each(p))  # others are in order
        return self.marked(p, out, "stream", derived)

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
        elements are counted (``ordered``) or the first is asked for, those of one instant are ordered by value."""
        match p:
            case StreamScan():
                return self.scan(p)
            case Select():
                return self.filter(p, self.stream(p.input, ordered))
            case Project():
                return self.project(p, self.stream(p.input, ordered))
            case AsOfJoin() | Over() | ModelQuery():
                return self.run_chosen(p, Deletions.NONE)
            case WithArrivals():
                child = self.stream(p.input, ordered=True)
                operator: Operator = NumberOperator(self.name("number"), child.schema, p.time, p.number)
                return replace(child, node=self.add(operator, (child.node,)), schema=operator.schema)
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
        if self.numbers.shared(p) or self.others_read(p):
            need = Deletions.ALL
        out = self.read_once(p, lambda: self.one_relation(p, need))
        return self.marked(p, out, "relation", need, self.ordered)

    def one_relation(self, p: Plan, need: Deletions) -> Output:
        match p:
            case RelationScan():
                return self.relation_scan(p)
            case Window():
                return self.window(p, need)
            case Select() if subject_of(p) is None:
                return self.filter(p, self.relation(p.input, needed(p.conjuncts, need)))
            case Project():
                return self.project(p, self.relation(p.input, needed([e for _, e in p.items], need)))
            case Explode():
                return self.explode(p, self.relation(p.input, need))
            case Select() | Join() | OuterJoin() | MarkJoin() | Rank():
                return self.run_chosen(p, need)
            case Aggregate():
                return self.aggregate(p, need)
            case Distinct():
                return self.distinct(p)
            case SetOperation():
                return self.set_operation(p, need)
            case _:
                raise AssertionError(f"not a relation: {type(p).__name__}")

    def explode(self, p: Explode, child: Output) -> Output:
        from eddyline.operators.explode import ExplodeOperator

        operator = ExplodeOperator(self.name("explode"), child.schema, p.column, p.name)
        out = self.add(operator, (child.node,), note=p.column)
        return Output(out, operator.schema, append_only=child.append_only)

    def run_chosen(self, p: Plan, need: Deletions) -> Output:
        """The operators of the candidate that was chosen for a node."""
        chosen = self.choice_of(p)
        self.building.append(self.numbers.of(p))
        out = chosen.candidate.build(p, self, need)
        number = self.building.pop()
        if number in self.matches:
            chosen = replace(chosen, matches=tuple(self.matches[number]))
        self.enter(chosen, out)
        return out

    def choice_of_match(self, matching: Matching) -> Chosen:
        """As it was chosen with the query; it is chosen here only while that is done (``choose_matches``)."""
        number = self.building[-1]
        here = self.matches.setdefault(number, [])
        given = self.chosen[number].matches
        found: Chosen | None = given[len(here)] if len(here) < len(given) else None
        # What other queries read too brings more deletions than the query alone was planned for.
        if found is None or isinstance(found.candidate.suits(matching, self.planning), Refused):
            found = choose_for(matching, self.planning)
        assert found is not None
        here.append(found)
        return found

    def choice_of(self, p: Plan) -> Chosen:
        found = self.chosen.get(self.numbers.of(p))
        assert found is not None, f"no operator was chosen for {type(p).__name__}: a candidate reads what it hides"
        return found

    def enter(self, chosen: Chosen, out: Output) -> None:
        """Record a choice with the name of the operator that it led to."""
        node = self.nodes[out.node]
        assert node.operator is not None
        node.chosen = chosen
        self.built.append((node.operator.name, chosen))
        self.context.log.record(chosen.decision(node.operator.name))

    def relation_scan(self, p: RelationScan) -> Output:
        if not p.constant:
            out = self.scan(p)
            return Output(out.node, out.schema)
        table = self.load(p.relation)
        columns = {f.name: _contiguous(table.column(c)) for f, c in zip(p.schema, p.columns, strict=True)}
        operator = ConstantRelation(self.name("relation"), p.schema, columns, table.num_rows, self.context)
        called = p.relation if p.alias == p.relation else f"{p.relation} AS {p.alias}"
        return Output(self.add(operator, (), note=called), p.schema, ids=True, append_only=True)

    # ── sets ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
