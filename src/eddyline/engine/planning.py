"""Planning the queries of a session together, and building their operators.

Queries that start with the same elements are optimized together as long as they have seen nothing: what several of them
read (a view, a named query) is taken out of all of them, and brings the columns that any of them asks for. A query that
has seen elements keeps its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa

from eddyline.adapting.filter_choice import Filtering
from eddyline.adapting.planning import choose_operators
from eddyline.core.catalog import Catalog
from eddyline.core.time import Clock
from eddyline.engine.running_query import RunningQuery
from eddyline.expr.evaluate import can_fail
from eddyline.expr.nodes import AggregateCall, Expr
from eddyline.plan.choice import PlannedQuery
from eddyline.plan.graph import Node
from eddyline.plan.logical import BoundQuery, Plan, Project, RelationScan, StreamScan, Window
from eddyline.plan.numbering import Numbering
from eddyline.plan.physical import build
from eddyline.plan.rules import optimize_again, optimize_together
from eddyline.plan.rules.share_subplans import Cuts, Shared, worth_sharing
from eddyline.plan.sameness import Sameness, depends_on_its_start, shows_ticks
from eddyline.plan.traverse import each
from eddyline.synopses.registry import Registry

OPTIONS_OF_NO_OPERATOR = ("on_error", "priority", "scheduler")  # options that change no operator
NODES_WITHOUT_OPTIONS = (Window, Project, StreamScan, RelationScan)  # nodes whose operators read no option


class Planning:
    """``load`` brings the rows of a constant relation."""

    def __init__(self, catalog: Catalog, registry: Registry, load: Callable[[str], pa.Table], clock: Clock) -> None:
        self.catalog, self.registry, self.load, self.clock = catalog, registry, load, clock

    def plan(
        self, new: RunningQuery, running: Sequence[RunningQuery], planned: PlannedQuery | None
    ) -> dict[RunningQuery, tuple[Shared, PlannedQuery]]:
        """Plan a new query, or take the plan that it has from elsewhere; returns new plans of those that have to be
        built anew because of it."""
        if planned is not None:
            shared = Shared(planned.plan, {id(p): p for p in planned.shared})
            new.planned_elsewhere, new.shared, new.planned = True, shared, planned
            return {}
        plans = {
            q: (s, choose_operators(q.query, s.plan, self.catalog)) for q, s in self._together(new, running).items()
        }
        new.shared, new.planned = plans.pop(new)
        return plans

    def plan_again(self, query: RunningQuery, cuts: Cuts) -> None:
        """The plan that a query had when it was saved."""
        if not query.planned_elsewhere:
            query.shared = optimize_again(query.query.plan, cuts, diverts(query.query))
            query.planned = choose_operators(query.query, query.shared.plan, self.catalog)

    def _together(self, new: RunningQuery, running: Sequence[RunningQuery]) -> dict[RunningQuery, Shared]:
        if not new.shares or diverts(new.query):
            return {new: alone(new.query)}
        fresh = [q for q in running if q.shares and q.fresh and not diverts(q.query)]
        if not fresh:  # no query to share with
            return {new: alone(new.query)}
        numbers = Numbering(new.query.plan)
        whole = numbers.of(new.query.plan)
        for q in fresh:
            if numbers.of(q.query.plan) == whole and q.shared is not None:
                return {new: q.shared}
        mine = _worth(new.query.plan, numbers)
        affected = [q for q in fresh if mine & _worth(q.query.plan, numbers)]
        if not affected:
            return {new: alone(new.query)}
        found = optimize_together([q.query.plan for q in (*affected, new)])
        plans = dict(zip((*affected, new), found, strict=True))
        return {q: s for q, s in plans.items() if q is new or not _same(q.shared, s)}

    def build(self, query: RunningQuery) -> None:
        """Make the operators of a query that was planned; the graph makes them run."""
        shared = query.shared
        assert shared is not None
        filtering = Filtering.of(query.query.options, self.clock)
        epochs = {n: i.number for n, i in query.intakes.items()}
        physical = build(
            query.planned, self.catalog, self.registry, self.load, epochs, self.clock, filtering.select,
            filtering.judge, lambda p: id(p) in shared.read_by_others, query.context,
        )  # fmt: skip
        query.install(physical, _keys(query, shared.plan, physical.nodes))


def alone(query: BoundQuery) -> Shared:
    return optimize_together([query.plan], diverts(query))[0]


def diverts(query: BoundQuery) -> bool:
    return bool(query.options.get("on_error") == "invalid")


def _worth(plan: Plan, numbers: Numbering) -> set[int]:
    return {numbers.of(p) for p in each(plan) if worth_sharing(p)}


def _same(old: Shared | None, new: Shared) -> bool:
    if old is None or old.plan != new.plan or len(old.read_by_others) != len(new.read_by_others):
        return False
    return all(any(p == other for other in new.read_by_others.values()) for p in old.read_by_others.values())


def _keys(query: RunningQuery, plan: Plan, nodes: Sequence[Node]) -> list[Hashable]:
    """For each node the key by which other queries find it; None: no other query may read it.

    Failing rows are counted by query: where they are put aside, only what cannot fail is read by several.
    """
    same = Sameness(lambda name: query.intakes[name.lower()])
    options = tuple(sorted((k, repr(v)) for k, v in query.query.options.items() if k not in OPTIONS_OF_NO_OPERATOR))
    keys: list[Hashable] = []
    for node in nodes:
        p = node.subplan
        if p is None or (diverts(query.query) and _can_fail(p)):
            keys.append(None)
            continue
        key: tuple[Hashable, ...] = (same.shared_key(p), node.how, query.query.time_kind)
        below = list(each(p))
        if not all(isinstance(n, NODES_WITHOUT_OPTIONS) for n in below):
            key = (*key, options)
        if depends_on_its_start(below):
            key = (*key, query.line)
        if any(map(shows_ticks, below)):
            key = (*key, same.key(plan))  # its ticks are those of the whole query
        keys.append(key)
    return keys


def _can_fail(p: Plan) -> bool:
    return any(_fails(getattr(n, f.name)) for n in each(p) for f in fields(n))


def _fails(value: Any) -> bool:
    if isinstance(value, AggregateCall):
        return True  # a sum overflows
    if isinstance(value, Expr):
        return can_fail(value)
    return isinstance(value, tuple) and any(map(_fails, value))
