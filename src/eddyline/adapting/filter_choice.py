"""Which selections adapt, and under which policy: by the options of the query, or by the expected benefit.

By default a conjunction adapts if at least two of its conjuncts can change places and one of them is expensive: a
user's function, a regular expression, a function that runs row by row. Comparisons and similar conjuncts that cannot
fail cost nanoseconds, less than measuring them: they are evaluated first, on whole batches, and are not reordered. A
policy that the query names gets all conjuncts. ``strict_order`` keeps the written order.

A function that is not deterministic or has side effects is *pinned*: it sees the rows that satisfy the conjuncts
written before it, no more and no fewer, so nothing passes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eddyline.adapting.conjunction import AdaptiveConjunction
from eddyline.adapting.eddy import Eddy
from eddyline.adapting.routing_options import Routing
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policies import POLICIES, make_policy, parse_policy
from eddyline.core.errors import JobError
from eddyline.core.schema import Schema
from eddyline.core.time import Clock, SystemClock
from eddyline.expr.members import Conjunct, Evaluable, answering, calls_of
from eddyline.expr.nodes import Expr
from eddyline.operators.adaptive_select import AdaptiveSelect, InOrder, OrdersItself
from eddyline.operators.base import Context, Operator
from eddyline.operators.select import SelectOperator
from eddyline.streamon.log import DecisionLog

DEFAULT = "default"
# Assumed seconds per row of conjuncts beside one with a declared cost, until they are measured.
_CHEAP_SECONDS, _DEAR_SECONDS, _BY_ROW_SECONDS = 5e-9, 2e-7, 2e-6


@dataclass(frozen=True, slots=True)
class Fixed:
    """The order of a conjunction that does not adapt (None: as written), and why it does not."""

    order: tuple[int, ...] | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Filtering:
    """How the selections of one query are run.

    >>> Filtering.of({"filters": "sweep", "p": 0.05}).parameters
    {'p': 0.05}
    >>> Filtering.of({"filters": "swep"})
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: unknown filter policy 'swep'. Did you mean 'sweep'?
    """

    policy: str | None = None  # None: the query names none, and this module chooses
    parameters: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    clock: Clock = field(default_factory=SystemClock)
    routing: Routing | None = None  # then rows are routed, each its own way

    @staticmethod
    def of(options: Mapping[str, Any], clock: Clock | None = None) -> Filtering:
        """From ``WITH (filters = 'a-greedy', p = 0.05)`` or ``strict_order = TRUE``, checked."""
        strict, named = options.get("strict_order", False), options.get("filters")
        if not isinstance(strict, bool):
            raise JobError(f"the option 'strict_order' is TRUE or FALSE, not {strict!r}.")
        routing = Routing.of(options)
        if routing is not None:
            return Filtering(None, {}, strict, clock or SystemClock(), routing)
        name: str | None = None
        written: dict[str, Any] = {}
        if isinstance(named, str):
            name, written = parse_policy(named)
        elif named is not None:
            raise JobError(f"the option 'filters' is one of {', '.join(POLICIES)}, not {named!r}.")
        own = {p.name for p in POLICIES[name or DEFAULT].parameters}
        parameters = {**written, **{k: v for k, v in options.items() if k in own}}
        if name is not None or parameters:  # the default as it is needs no check, and most queries have it
            make_policy(name or DEFAULT, Pipeline(1), **parameters)
        return Filtering(name, parameters, strict, clock or SystemClock())

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the policy's parameters, which are options of the query."""
        if self.routing is not None:
            return self.routing.options
        return tuple(p.name for p in POLICIES[self.policy or DEFAULT].parameters)

    def select(self, name: str, schema: Schema, conjuncts: Sequence[Expr], context: Context) -> Operator:
        """The operator for a selection."""
        found = self._conjunction(name, schema, conjuncts, context.log)
        if isinstance(found, Fixed):
            return SelectOperator(name, schema, conjuncts, context, found.order, found.why)
        return AdaptiveSelect(name, schema, found, context)

    def judge(
        self,
        name: str,
        schema: Schema,
        conjuncts: Sequence[Conjunct],
        log: DecisionLog,
        running: Sequence[Conjunct] | None = None,
    ) -> OrdersItself:
        """The conjunction of a selection, for an operator that holds one: of one that has memberships, and of one that
        has been at work, whose conjuncts stand in the order ``running``."""
        found = self._conjunction(name, schema, conjuncts, log, running)
        return InOrder(conjuncts, found.order, found.why) if isinstance(found, Fixed) else found

    def _conjunction(
        self,
        name: str,
        schema: Schema,
        conjuncts: Sequence[Conjunct],
        log: DecisionLog,
        running: Sequence[Conjunct] | None = None,
    ) -> AdaptiveConjunction | Eddy | Fixed:
        if self.routing is not None:
            self.routing.check(schema, name)
        return self.ordered(name, conjuncts, log, running)

    def ordered(
        self,
        name: str,
        conjuncts: Sequence[Conjunct],
        log: DecisionLog | None = None,
        running: Sequence[Conjunct] | None = None,
    ) -> AdaptiveConjunction | Eddy | Fixed:
        """As the options ask: routed, ordered for all rows alike, or in the order that stays. A policy begins with the
        order ``running`` if one is given."""
        make = self.arrange if self.routing is None else self.route
        return make(name, conjuncts, log, running)

    def route(
        self,
        name: str,
        conjuncts: Sequence[Conjunct],
        log: DecisionLog | None = None,
        running: Sequence[Conjunct] | None = None,
    ) -> Eddy | Fixed:
        """An eddy over the conjuncts, or the order that stays."""
        if self.routing is None:
            raise ValueError("the query does not ask for routing")
        if (stays := self._stays(conjuncts)) is not None:
            return stays
        facts = [_Facts.of(c) for c in conjuncts]
        pinned = frozenset(i for i, f in enumerate(facts) if f.pinned)
        initial = None if running is None else _as_running(conjuncts, running, pinned)
        pipeline = Pipeline(len(facts), pinned, _costs(facts), initial, name)
        if not len(pipeline.free):
            return Fixed(
                why="fixed: conjuncts that are not deterministic keep their places, and no others are left to route"
            )
        return Eddy(conjuncts, self.routing, pipeline, clock=self.clock, log=log)

    def arrange(
        self,
        name: str,
        conjuncts: Sequence[Conjunct],
        log: DecisionLog | None = None,
        running: Sequence[Conjunct] | None = None,
    ) -> AdaptiveConjunction | Fixed:
        """A conjunction that orders itself, or the order that stays."""
        if (stays := self._stays(conjuncts)) is not None:
            return stays
        facts = [_Facts.of(c) for c in conjuncts]
        wall = next((i for i, f in enumerate(facts) if f.pinned), len(facts))
        first = [i for i in range(wall) if facts[i].trivial] if self.policy is None else []
        rest = [i for i in range(len(facts)) if i not in first]
        members = [facts[i] for i in rest]
        pinned = frozenset(i for i, f in enumerate(members) if f.pinned)
        free = Pipeline(len(members), pinned).free if members else ()
        if self.policy is None and not any(members[i].compiled.expensive for i in free):
            return Fixed((*first, *rest), _why_not(members, bool(pinned)))
        costs = _costs(members)
        dear = [conjuncts[i] for i in rest]
        initial = self._initial(costs, pinned) if running is None else _as_running(dear, running, pinned)
        pipeline = Pipeline(len(members), pinned, costs, initial, name)
        policy = make_policy(self.policy or DEFAULT, pipeline, **self.parameters)
        # What is trivial is an expression: to look into a window is not.
        before = [c for c in (conjuncts[i] for i in first) if isinstance(c, Expr)]
        return AdaptiveConjunction(
            dear, policy, first=before, clock=self.clock, asked=self.parameters, log=log, written=conjuncts
        )

    def _stays(self, conjuncts: Sequence[Conjunct]) -> Fixed | None:
        """The order as written, where there is nothing to order or the query forbids it."""
        if len(conjuncts) < 2:
            return Fixed()
        return Fixed(why="as written: strict_order") if self.strict else None

    def _initial(self, costs: tuple[float, ...] | None, pinned: frozenset[int]) -> tuple[int, ...] | None:
        """Before anything is measured the declared costs are all there is to go by; a policy of the papers starts as
        written."""
        if costs is None or self.policy is not None:
            return None
        segments = Pipeline(len(costs), pinned).segments
        return tuple(sorted(range(len(costs)), key=lambda i: (segments[i], costs[i])))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a conjunct before it runs."""

    compiled: Evaluable
    pinned: bool
    declared: float | None
    by_row: bool

    @staticmethod
    def of(conjunct: Conjunct) -> _Facts:
        functions = [call.function for call in calls_of(conjunct)]
        costs = [f.cost for f in functions if f.cost is not None]
        pinned, by_row = not all(f.deterministic for f in functions), any(f.kind == "row" for f in functions)
        return _Facts(answering(conjunct), pinned, sum(costs) if costs else None, by_row)

    @property
    def trivial(self) -> bool:
        return not (self.compiled.expensive or self.compiled.can_fail)

    @property
    def guess(self) -> float:
        if self.declared is not None:
            return self.declared
        return _BY_ROW_SECONDS if self.by_row else _DEAR_SECONDS if self.compiled.expensive else _CHEAP_SECONDS


def _as_running(conjuncts: Sequence[Conjunct], running: Sequence[Conjunct], pinned: frozenset[int]) -> tuple[int, ...]:
    """The order in which they stand now, as numbers; nothing passes a pinned one."""
    segments, place = Pipeline(len(conjuncts), pinned).segments, {id(c): i for i, c in enumerate(running)}
    return tuple(sorted(range(len(conjuncts)), key=lambda i: (segments[i], place[id(conjuncts[i])])))


def _costs(members: Sequence[_Facts]) -> tuple[float, ...] | None:
    """Declared costs, the others guessed; None where nothing is declared."""
    if all(f.declared is None for f in members):
        return None
    return tuple(f.guess for f in members)


def _why_not(members: Sequence[_Facts], pinned: bool) -> str:
    dear = sum(f.compiled.expensive for f in members)
    if not dear:
        return "fixed: they cost less than to measure them"
    if pinned:
        return "fixed: conjuncts that are not deterministic keep their places, and no others are left to order"
    return "fixed: cheap ones first"
