"""The join that constraints keep small (k-Mon): ``WITH (constraints = 'exact')``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from eddyline.adapting.candidates.routed_join import is_kept_by_join
from eddyline.adapting.join_choice import Joining, memory_of
from eddyline.adaptive.constraints.handover import HandOver
from eddyline.adaptive.constraints.policies import KIND, ConstraintOptions, parse_constraints
from eddyline.core.amounts import size as spelled_bytes
from eddyline.core.bound import bound_of
from eddyline.core.catalog import Catalog
from eddyline.core.errors import JobError
from eddyline.core.schema import Schema
from eddyline.expr.describe import describe
from eddyline.expr.nodes import Column, Expr
from eddyline.plan.candidates import Candidate, Planning, Refused, candidate
from eddyline.plan.conjuncts import bare_mark, split_conjuncts
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import alias_of
from eddyline.plan.join_costs import any_order
from eddyline.plan.joins import is_simple
from eddyline.plan.logical import (
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    Window,
    WithArrivals,
)
from eddyline.plan.traverse import each
from eddyline.synopses.codes import is_direct

if TYPE_CHECKING:
    from eddyline.adapting.constraint_control import ConstraintWatch, PortFacts
    from eddyline.operators.constrained_join import ConstrainedJoin
    from eddyline.operators.join_plan import JoinGraph
    from eddyline.operators.join_tree import JoinTree
    from eddyline.operators.mjoin import MJoin
    from eddyline.operators.offered_join import Offer
    from eddyline.operators.switching_join import SwitchingJoin
    from eddyline.plan.graph import Output
    from eddyline.plan.joins import JoinParts, MakeOffer
    from eddyline.plan.physical import Builder
    from eddyline.synopses.spill import Spill
    from eddyline.synopses.store import Stub

MadeJoin = TypeVar("MadeJoin", bound="ConstrainedJoin")
OTHER_JOIN_OPTIONS = ("joins", "caches", "tree")  # options that ask for another join than the one under constraints
STATUS_ACCESSES = 1.0  # accesses more than a join without constraints: each row's status is computed on arrival


@candidate
class ConstrainedJoinCandidate(Candidate):
    name = "constrained-join"
    # 2: the join may be run as the plain one; 3: rows know when they came; 4: fewer maxima are remembered; 5: inputs
    # may be relations
    version = 5

    def check(self, options: Mapping[str, Any]) -> None:
        constraint_options(options)

    def suits(self, node: Join, planning: Planning) -> str | Refused:
        mode, _ = planning.read(constraint_options)
        asked = KIND in planning.options
        if not asked or mode == "off":
            return Refused("the option 'constraints' does not ask for it")
        why = obstacle(node, planning.options)
        if why:
            return Refused(why, asked=True)
        if mode == "auto":
            relation = relation_among(node)
            offered = "it is offered to the join that runs, and takes over when a decision says so"
            return Refused(relation or offered, asked=relation is not None)
        return "rows stay only as long as constraints allow that they are needed"

    def check_plan(self, plan: Plan, options: Mapping[str, Any]) -> None:
        if constraint_options(options)[0] != "lossy":
            return
        for p in each(plan):
            name = ""
            if isinstance(p, OuterJoin):
                name = "an outer join"
            elif isinstance(p, SetOperation) and p.kind == "except":
                name = "EXCEPT"
            elif isinstance(p, Select) and isinstance(p.input, MarkJoin) and bare_mark(p) != "semi":
                name = "NOT IN or NOT EXISTS"
            if name:
                raise JobError(
                    f"constraints = 'lossy' may miss rows, and {name} makes wrong results of missing rows: write"
                    " 'exact' instead."
                )

    def cost(self, node: Join, planning: Planning) -> float:
        """Less state is what it is asked for, not fewer accesses: it is taken where it suits."""
        return 0.5 * (1.0 + any_order(len(node.inputs)) + STATUS_ACCESSES)

    def build(self, node: Join, builder: Builder, need: Deletions) -> Output:
        parts = builder.join_parts(node, need)
        name = builder.name("constrained-join")
        make = switching_join if relation_among(node) is None else lasting_join
        return builder.add_join(node, make(name, node, builder, parts), parts)


def obstacle(node: Join, options: Mapping[str, Any]) -> str | None:
    """Why constraints cannot be used in a join; None where they can."""
    from eddyline.operators.join_plan import JoinGraph
    from eddyline.operators.join_tree import JoinTree, tree_of

    for option in OTHER_JOIN_OPTIONS:
        if options.get(option) is not None:
            return f"the option '{option}' names another join"
    keys, equalities, _ = split_conjuncts(node.conjuncts, [i.schema for i in node.inputs])
    tree = tree_of(JoinGraph(keys, equalities))
    return None if isinstance(tree, JoinTree) else tree


def relation_among(node: Join) -> str | None:
    """Why a plain join never hands its rows over to the one under constraints: its bags have no rows by place."""
    for child in node.inputs:
        if not is_kept_by_join(child):
            return (
                f"{alias_of(child)} is neither constant nor a stream under a RANGE or ROWS window: constraints are used"
                " where the option 'constraints' asks for 'exact' or 'lossy'"
            )
    return None


def offer_for(node: Join, builder: Builder) -> MakeOffer | None:
    """Under ``constraints = 'auto'``: what an MJoin over a node needs to hand its rows over; None: it never does."""
    options = builder.planning.options
    mode, _ = builder.planning.read(constraint_options)
    if mode != "auto" or any(options.get(option) is not None for option in OTHER_JOIN_OPTIONS):
        return None

    def offer(name: str, parts: JoinParts) -> Offer:
        from eddyline.operators.offered_join import Offer

        def make() -> SwitchingJoin | str:
            return relation_among(node) or obstacle(node, options) or switching_join(name, node, builder, parts)

        limits = HandOver()

        def watched(memory: int | None) -> float:
            return limits.watched * limits.bytes_under(memory)

        def description(memory: int | None) -> str:
            if KIND not in options and memory is None:
                return ""
            large = spelled_bytes(round(watched(memory)))
            return f"the plain join runs: constraints are watched from {large} of state on"

        return Offer(watched, make, builder.registry.release, description, memory_of(options))

    return offer


@dataclass(frozen=True, slots=True)
class ConstrainedParts:
    """What a join under constraints is made of, beside what any join has."""

    graph: JoinGraph
    tree: JoinTree
    residual: Sequence[Expr]
    facts: list[list[PortFacts]]
    edges: list[tuple[int, int, int, int]]
    control: ConstraintWatch
    spill: Spill | None

    @staticmethod
    def of(name: str, node: Join, builder: Builder, parts: JoinParts) -> ConstrainedParts:
        from eddyline.adapting.constraint_control import ConstraintWatch
        from eddyline.operators.join_plan import JoinGraph
        from eddyline.operators.join_tree import JoinTree, tree_of
        from eddyline.synopses.spill import Spill

        mode, options = constraint_options(builder.planning.options)
        keys, equalities, residual = split_conjuncts(node.conjuncts, [i.schema for i in node.inputs])
        graph = JoinGraph(keys, equalities)
        tree = tree_of(graph)
        assert isinstance(tree, JoinTree)
        facts = port_facts(node, tree, keys, builder.planning.catalog)
        edges = [(e.a, e.a_port, e.b, e.b_port) for e in tree.edges]
        control = ConstraintWatch(name, edges, facts, tree.width, options, builder.context.log)
        schemas = [i.schema for i in parts.inputs]
        spill = None if mode == "lossy" else Spill(schemas, tree.width, builder.registry.spill)
        return ConstrainedParts(graph, tree, residual, facts, edges, control, spill)

    def join(self, kind: type[MadeJoin], name: str, node: Join, builder: Builder, parts: JoinParts) -> MadeJoin:
        _, options = constraint_options(builder.planning.options)
        return kind(
            name, parts.inputs, self.graph, self.tree, self.residual, node.schema.names, builder.context,
            self.control, self.spill, collect_every=options.collect,
        )  # fmt: skip


def lasting_join(name: str, node: Join, builder: Builder, parts: JoinParts) -> ConstrainedJoin:
    """The join under constraints over a node with an input that is a relation; no other kernel takes over."""
    from eddyline.operators.constrained_join import ConstrainedJoin

    return ConstrainedParts.of(name, node, builder, parts).join(ConstrainedJoin, name, node, builder, parts)


def switching_join(name: str, node: Join, builder: Builder, parts: JoinParts) -> SwitchingJoin:
    """The join under constraints over a node without obstacles, which the plain join's kernel may run, too."""
    from eddyline.adapting.join_switch import JoinSwitch, sample_of
    from eddyline.operators.switching_join import SwitchingJoin

    given = builder.planning.options
    mode, options = constraint_options(given)
    made = ConstrainedParts.of(name, node, builder, parts)
    operator = made.join(SwitchingJoin, name, node, builder, parts)
    ordered = [(i, p) for i, mine in enumerate(made.facts) for p, f in enumerate(mine) if f.ordered]
    switch = JoinSwitch(
        name, sample_of(made.edges, ordered, made.tree.size), made.control.in_window, mode == "auto",
        memory_of(given), options.patience, builder.context.log, builder.clock, HandOver(),
    )  # fmt: skip
    operator.follow(switch, partial(plain_join, name, node, builder, parts))
    return operator


def plain_join(name: str, node: Join, builder: Builder, parts: JoinParts) -> MJoin:
    """The join without constraints over the same inputs, with stores of its own; its orders adapt as elsewhere."""
    from eddyline.operators.mjoin import MJoin
    from eddyline.synopses.store import Store, Stub

    def stub(schema: Schema) -> Callable[[], Stub]:
        return lambda: Stub(Store(schema))

    stubs = [stub(i.schema) for i in parts.inputs]
    made = MJoin(
        name, parts.inputs, parts.graph, parts.residual, stubs, node.schema.names, builder.context, parts.conditions
    )
    joining = Joining.of(builder.planning.options, builder.clock)
    if joining.nothing_to_adapt(len(node.inputs), lambda: is_simple(node)) is None:
        joining.attach(made, [alias_of(i) for i in node.inputs])
    return made


def port_facts(node: Join, tree: JoinTree, keys: Sequence[Sequence[Expr]], catalog: Catalog) -> list[list[PortFacts]]:
    """What is known of the ports of each input before there are rows."""
    from eddyline.adapting.constraint_control import PortFacts

    return [
        [
            PortFacts(
                ", ".join(describe(keys[i][c]) for c in columns),
                declared=is_declared(node.inputs[i], [keys[i][c] for c in columns], catalog),
                ordered=len(columns) == 1 and is_direct(keys[i][columns[0]].type),
            )
            for columns in tree.keys_of(i)
        ]
        for i in range(tree.size)
    ]


def is_declared(p: Plan, key: Sequence[Expr], catalog: Catalog) -> bool:
    """Whether no two rows of an input have the same key, by ``UNIQUE`` of its stream or ``KEY`` of its relation."""
    ticks: int | None = None
    while isinstance(p, Select | Window | WithArrivals):
        ticks = bound_of(p.spec).ticks if isinstance(p, Window) else ticks
        p = p.input
    if not isinstance(p, StreamScan | RelationScan):
        return False
    named = {f.name: c for f, c in zip(p.schema, p.columns, strict=True)}
    columns = {named.get(e.name) for e in key if isinstance(e, Column)}
    if isinstance(p, StreamScan):
        stream = catalog.streams.get(p.stream.lower())
        if stream is None or (stream.within is not None and (ticks is None or ticks > stream.within)):
            return False  # a key may come again while its row is in the window
        return any(columns.issuperset(u) for u in stream.unique)
    relation = catalog.relations.get(p.relation.lower())
    return relation is not None and bool(relation.key) and columns.issuperset(relation.key)


def constraint_options(options: Mapping[str, Any]) -> tuple[str, ConstraintOptions]:
    """What the option 'constraints' says, checked.

    >>> constraint_options({})[0], constraint_options({"constraints": "lossy(p=0.02)"})[1].p
    ('auto', 0.02)
    """
    written = options.get(KIND, "auto")
    if not isinstance(written, str):
        raise JobError(f"the option 'constraints' is a text such as 'exact' or 'off', not {written!r}.")
    return parse_constraints(written)
