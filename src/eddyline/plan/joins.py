"""Joins: how the planner builds an MJoin over the inputs of a logical join.

A candidate that runs a join as an MJoin calls ``Joins.mjoin`` and passes the object that may change its plan; one with
an operator of its own builds its inputs with ``relation`` and adds the operator with ``add``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from eddyline.core.window import Range, Rows, Stepping, Unbounded, leaves_in_order, spelled
from eddyline.expr.nodes import Expr
from eddyline.operators.base import Operator
from eddyline.operators.join_plan import JoinGraph
from eddyline.plan.closing_nodes import ClosingWindows
from eddyline.plan.conditions import split_conditions
from eddyline.plan.conjuncts import split_conjuncts
from eddyline.plan.deletions import Deletions, is_constant, only_grows
from eddyline.plan.graph import Output, alias_of, conjunction, distinct
from eddyline.plan.logical import Join, Plan, Select, Window
from eddyline.plan.rewrite import movable
from eddyline.plan.time_columns import never_earlier
from eddyline.plan.window_columns import in_one_window
from eddyline.streamon.decision import PLANNER, Decision
from eddyline.synopses.store import Stub

Adapt = Callable[[Any, Sequence[str]], None]  # gets an MJoin and the names of its inputs


class JoinParts(NamedTuple):
    """The inputs of a join as its operator keeps them, the nodes they come from, and how its conjuncts are divided."""

    inputs: tuple[Any, ...]
    stubs: tuple[Callable[[], Stub] | None, ...]
    nodes: tuple[int, ...]
    graph: JoinGraph
    conditions: Sequence[Any]
    residual: Sequence[Expr]
    append_only: bool


MakeOffer = Callable[[str, JoinParts], Any]  # the name of an MJoin and its parts → an ``operators.offered_join.Offer``


class Joins(ClosingWindows):
    """The part of the builder that builds MJoins."""

    def mjoin(self, p: Join, need: Deletions, adapt: Adapt | None = None, offer: MakeOffer | None = None) -> Output:
        """An MJoin over the inputs of a join. ``adapt`` sets its plan, or attaches the object that changes its plan;
        ``offer`` makes another join that may take over while it runs."""
        from eddyline.operators.mjoin import MJoin

        parts = self.join_parts(p, need)
        name = self.name("binary-join" if len(parts.inputs) == 2 else "mjoin")
        given = parts.inputs, parts.graph, parts.residual, parts.stubs, p.schema.names, self.context, parts.conditions
        if offer is None:
            operator = MJoin(name, *given)
        else:
            from eddyline.operators.offered_join import OfferedJoin

            operator = offered = OfferedJoin(name, *given)
            offered.offer = offer(name, parts)
        written = list(operator.orders)
        if adapt is not None:
            adapt(operator, [alias_of(i) for i in p.inputs])
        if operator.orders == written:  # else the user has drawn another plan, which is shown
            self.explain_orders(operator, p)
        return self.add_join(p, operator, parts)

    def join_parts(self, p: Join, need: Deletions) -> JoinParts:
        """What any join operator is made from; the inputs are added to the graph."""
        schemas = [i.schema for i in p.inputs]
        keys, equalities, residual = split_conjuncts(p.conjuncts, schemas)
        keys, conditions, residual = split_conditions(residual, schemas, keys)
        changing = [i for i, child in enumerate(p.inputs) if not is_constant(child)]
        still = need == Deletions.NONE or all(only_grows(child, self.catalog) for child in p.inputs)
        passing = [
            changing == [i] or (still and never_earlier(p.inputs, p.conjuncts, i, self.catalog))
            for i in range(len(p.inputs))
        ]
        made = [self.join_input(c, need, passing=passes) for c, passes in zip(p.inputs, passing, strict=True)]
        inputs, stubs, nodes, grows = zip(*made, strict=True)
        return JoinParts(inputs, stubs, nodes, JoinGraph(keys, equalities), conditions, residual, all(grows))

    def add_join(self, p: Join, operator: Operator, parts: JoinParts) -> Output:
        node = self.add(operator, parts.nodes, note=conjunction(p.conjuncts) or "product")
        return Output(node, operator.schema, append_only=parts.append_only)

    def join_input(self, p: Plan, need: Deletions, passing: bool) -> tuple[Any, Callable[[], Stub] | None, int, bool]:
        """A ring for windows that the join can keep itself and for append-only relations, else a bag. ``passing``:
        no later row of another input joins with its rows; of an input without deletions then nothing need be kept."""
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

    def explain_orders(self, operator: Any, p: Join) -> None:
        names = distinct([alias_of(i) for i in p.inputs])
        orders = {names[i]: [names[j] for j in order] for i, order in enumerate(operator.orders)}
        self.decided("join order", orders, "connected inputs first, in written order", operator.name)

    def decided(self, kind: str, after: Any, why: str, operator: str) -> None:
        self.context.log.record(Decision(kind, None, after, why, operator=operator, by=PLANNER))


def inputs_of(p: Join) -> list[str]:
    """The names of the inputs of a join, with a number where two inputs have the same name."""
    return distinct([alias_of(i) for i in p.inputs])


def is_simple(p: Join) -> bool:
    """Whether no input has two members of one equality class, as caches need it."""
    schemas = [i.schema for i in p.inputs]
    keys, equalities, residual = split_conjuncts(p.conjuncts, schemas)
    return JoinGraph(split_conditions(residual, schemas, keys)[0], equalities).simple
