"""The join that constraints keep small (k-Mon): ``WITH (constraints = 'exact')``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eddyline.adapting.candidates.routed_join import is_kept_by_join
from eddyline.adapting.join_choice import memory_of
from eddyline.adaptive.constraints.policies import KIND, ConstraintOptions, parse_constraints
from eddyline.core.bound import bound_of
from eddyline.core.catalog import Catalog
from eddyline.core.errors import JobError
from eddyline.expr.describe import describe
from eddyline.expr.nodes import Column, Expr
from eddyline.plan.candidates import Candidate, Planning, Refused, candidate
from eddyline.plan.conjuncts import bare_mark, split_conjuncts
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import alias_of
from eddyline.plan.join_costs import any_order
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
    each,
)
from eddyline.synopses.codes import is_direct

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder

STATUSES = 1.0  # accesses more than a join without them: a row's status is computed when it comes


@candidate
class ConstrainedJoinCandidate(Candidate):
    name = "constrained-join"

    def check(self, options: Mapping[str, Any]) -> None:
        constraint_options(options)

    def suits(self, node: Join, planning: Planning) -> str | Refused:
        mode, _ = planning.read(constraint_options)
        if mode == "off":
            return Refused("the option 'constraints' does not ask for it")
        if mode == "auto" and memory_of(planning.options) is None:
            return Refused("the option 'constraints' is 'auto', and the query has no memory limit", asked=True)
        why = self.obstacle(node, planning)
        return Refused(why, asked=True) if why else "rows stay only as long as constraints allow that they are needed"

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

    def obstacle(self, node: Join, planning: Planning) -> str | None:
        from eddyline.operators.join_plan import JoinGraph
        from eddyline.operators.join_tree import JoinTree, tree_of

        for option in ("joins", "caches", "tree"):
            if planning.options.get(option) is not None:
                return f"the option '{option}' asks for another join"
        for child in node.inputs:
            if not is_kept_by_join(child):
                return f"{alias_of(child)} is neither constant nor a stream under a RANGE or ROWS window"
        keys, equalities, _ = split_conjuncts(node.conjuncts, [i.schema for i in node.inputs])
        tree = tree_of(JoinGraph(keys, equalities))
        return None if isinstance(tree, JoinTree) else tree

    def cost(self, node: Join, planning: Planning) -> float:
        """Less state is what it is asked for, not fewer accesses: it is taken where it suits."""
        return 0.5 * (1.0 + any_order(len(node.inputs)) + STATUSES)

    def build(self, node: Join, builder: Builder, need: Deletions) -> Output:
        from eddyline.adapting.constraint_control import ConstraintWatch, PortFacts
        from eddyline.operators import constrained_join
        from eddyline.operators.join_plan import JoinGraph
        from eddyline.operators.join_tree import JoinTree, tree_of
        from eddyline.synopses.spill import Spill

        mode, options = constraint_options(builder.planning.options)
        parts = builder.join_parts(node, need)
        keys, equalities, residual = split_conjuncts(node.conjuncts, [i.schema for i in node.inputs])
        graph = JoinGraph(keys, equalities)
        tree = tree_of(graph)
        assert isinstance(tree, JoinTree)
        facts = [
            [
                PortFacts(
                    ", ".join(describe(keys[i][c]) for c in columns),
                    declared=is_declared(node.inputs[i], [keys[i][c] for c in columns], builder.planning.catalog),
                    ordered=len(columns) == 1 and is_direct(keys[i][columns[0]].type),
                )
                for columns in tree.keys_of(i)
            ]
            for i in range(tree.size)
        ]
        name = builder.name("constrained-join")
        edges = [(e.a, e.a_port, e.b, e.b_port) for e in tree.edges]
        control = ConstraintWatch(name, edges, facts, tree.width, options, builder.context.log)
        schemas = [i.schema for i in parts.inputs]
        spill = None if mode == "lossy" else Spill(schemas, tree.width, builder.registry.spill)
        operator = constrained_join.ConstrainedJoin(
            name, parts.inputs, graph, tree, residual, node.schema.names, builder.context, control, spill,
            collect_every=options.collect,
        )  # fmt: skip
        return builder.add_join(node, operator, parts)


def is_declared(p: Plan, key: Sequence[Expr], catalog: Catalog) -> bool:
    """Whether no two rows of an input have the same key, by ``UNIQUE`` of its stream or ``KEY`` of its relation."""
    ticks: int | None = None
    while isinstance(p, Select | Window):
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
    ('off', 0.02)
    """
    written = options.get(KIND, "off")
    if not isinstance(written, str):
        raise JobError(f"the option 'constraints' is a text such as 'exact' or 'off', not {written!r}.")
    return parse_constraints(written)
