"""Replaces the policies of operators while they run.

The output of an operator is a function of its input; a policy only chooses how it is computed. So policies may be
exchanged between any two calls of ``process``. The new policy starts with the present plan: the order of the conjuncts,
the orders of the pipelines, and those caches that are candidates for it; it changes them when it decides to. It also
takes over the measurements of filters that stay the same.

An exchange is made in two steps. ``prepare`` checks everything and changes nothing. It returns a function that makes
the change and cannot fail for a reason that could have been checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from eddyline.adapting import join_steering
from eddyline.adapting.adaptive_join import AdaptiveJoin
from eddyline.adapting.conjunction import AdaptiveConjunction
from eddyline.adapting.filter_choice import Filtering
from eddyline.adapting.fixed_join import FixedJoin
from eddyline.adapting.join_choice import Joining, named_in, read_tree
from eddyline.adapting.star_router import StarRouter, StarRouting
from eddyline.adapting.tuple_router import TupleRouter
from eddyline.core.errors import JobError
from eddyline.operators.adaptive_select import SelectionOperator
from eddyline.operators.base import Operator
from eddyline.operators.mjoin import MJoin
from eddyline.operators.star_look_up import StarLookUp
from eddyline.streamon.decision import Decision

Change = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Policies:
    """What the options of a query say about its policies."""

    filtering: Filtering
    joining: Joining

    def prepare(self, operators: Iterable[Operator], *, selections: bool, joins: bool) -> list[Change]:
        """The changes that put these policies in charge: of the selections, of the joins, or of both."""
        changes: list[Change] = []
        everyone = list(operators)
        for operator in everyone:
            if selections and isinstance(operator, SelectionOperator):
                changes.append(self._selection(operator))
            elif selections and isinstance(operator, StarLookUp):
                changes.append(self._star(operator))
            elif joins and isinstance(operator, MJoin) and operator.adapter is not None:
                changes.append(self._join(operator))
        return changes

    def _selection(self, operator: SelectionOperator) -> Change:
        if self.filtering.routing is not None:
            self.filtering.routing.check(operator.schema, operator.name)

        def change() -> None:
            old = operator.conjunction
            new = self.filtering.judge(
                operator.name, operator.schema, old.written, operator.context.log, old.running_order
            )
            _carry(old, new)
            operator.conjunction = new

        return change

    def _star(self, operator: StarLookUp) -> Change:
        stars = StarRouting.of(self.filtering, self.joining)
        old = operator.routes
        assert isinstance(old, StarRouter)
        if stars is None:
            raise JobError(
                f"{operator.name} routes rows over relations, which is decided when a query starts: name another"
                " routing policy, or register the query again without one."
            )
        obstacle = stars.instead or stars.obstacle(operator.changing, operator.name)
        if obstacle is not None:
            raise JobError(f"{operator.name} cannot be routed in this way: {obstacle}.")
        made = stars.router(operator.name, old.texts, operator.context.log)
        made.initial[:] = old.usual

        def change() -> None:
            _carry(old, made)
            operator.routes = made

        return change

    def _join(self, operator: MJoin) -> Change:
        old, joining = operator.adapter, self.joining
        assert isinstance(old, AdaptiveJoin | FixedJoin)
        planted = joining.tree is not None and named_in(joining.tree, old.names)
        if planted:
            read_tree(str(joining.tree), old.names)
        nothing = joining.nothing_to_adapt(operator.graph.size, lambda: operator.graph.simple)

        def change() -> None:
            if isinstance(old, AdaptiveJoin):
                join_steering.retire(old)
            if planted:
                joining.plant(operator, old.names)
            elif joining.tree is not None or nothing is not None:
                fixed = FixedJoin(old.names, "the orders stay as they are, and there are no caches")
                fixed.attach(operator.arrays, operator.arrays.orders)
                operator.adapter = fixed
            else:
                new = joining.adapter(operator, old.names)
                if isinstance(old, AdaptiveJoin):
                    join_steering.take_over(new, old, operator.arrays)
                new.attach(operator.arrays)
                operator.adapter = new

        return change


def _carry(old: object, new: object) -> None:
    """Let what was measured of the same filters go on, and what measured it rest."""
    if isinstance(old, AdaptiveConjunction):
        old.gains.settle()
        old.log.not_measured_by(old.gains)
    both = AdaptiveConjunction if isinstance(old, AdaptiveConjunction) else TupleRouter
    if isinstance(old, both) and isinstance(new, both) and old.texts == new.texts:
        new.times.load(old.times.state())
        new.seen.load(old.seen.state())


def cache_bytes(operators: Iterable[Operator]) -> int:
    """What the caches of joins take."""
    return sum(j.arrays.cache_operators.nbytes for j in _caching(operators))


def _caching(operators: Iterable[Operator]) -> list[MJoin]:
    joins = [o for o in operators if isinstance(o, MJoin) and isinstance(o.adapter, AdaptiveJoin)]
    return [j for j in joins if isinstance(j.adapter, AdaptiveJoin) and j.adapter.caching is not None]


def share_memory(operators: Iterable[Operator], memory: int | None) -> None:
    """Divide a budget evenly between the joins that have caches (thesis 5.6)."""
    caching = _caching(operators)
    for join in caching:
        assert isinstance(join.adapter, AdaptiveJoin)
        join_steering.resize(join.adapter, None if memory is None else memory // len(caching), join.arrays)


def pin(operators: Sequence[Operator], pinned: bool) -> None:
    """Keep all plans as they are, or let policies change them again."""
    for operator in operators:
        if isinstance(operator, SelectionOperator) and isinstance(
            operator.conjunction, AdaptiveConjunction | TupleRouter
        ):
            operator.conjunction.pin(pinned)
        elif isinstance(operator, StarLookUp) and isinstance(operator.routes, StarRouter):
            operator.routes.pin(pinned)
        elif isinstance(operator, MJoin) and isinstance(operator.adapter, AdaptiveJoin):
            join_steering.pin(operator.adapter, pinned, operator.arrays)
            operator.pin(pinned)
        else:
            operator.pin(pinned)


def undo(operator: Operator, decision: Decision, now: int | None) -> None:
    """Set back what a decision changed of its operator, or say in a sentence why it cannot be done."""
    if isinstance(operator, SelectionOperator) and isinstance(operator.conjunction, AdaptiveConjunction | TupleRouter):
        operator.conjunction.undo(decision, now)
    elif isinstance(operator, StarLookUp) and isinstance(operator.routes, StarRouter):
        operator.routes.undo(decision, now)
    elif isinstance(operator, MJoin) and isinstance(operator.adapter, AdaptiveJoin):
        join_steering.undo(operator.adapter, decision, now, operator.arrays)
    elif operator.not_undone:
        raise JobError(f"{operator.not_undone} cannot be undone one by one; PIN QUERY keeps all of them.")
    else:
        raise JobError(f"{decision.operator} no longer changes its plan, so nothing can be undone.")
