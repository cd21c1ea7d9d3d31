"""Routes tuples by content, for any kind of operators: conjuncts of a selection, relations of a star join.

The protocol is that of ``adaptive.routing.policy``: each tuple of a sub-batch gets an order; again and again the
operator for which most tuples wait processes all of these in one call; the outputs of the operators go back to the
policy. A tuple is out as soon as one operator drops it, so no operator processes a tuple twice, nor one that is out,
and learning costs no evaluation beyond those of a route.

A pinned operator runs when no tuple is left on its way there: so it sees its tuples in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from math import log2
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from eddyline.adapting.eddy_attributes import Attributes
from eddyline.adapting.eddy_statistics import RouteHistory, explain_lines
from eddyline.adapting.plan_hold import PlanHold
from eddyline.adapting.routing_options import Routing
from eddyline.adaptive.filters.filter_statistics import FilterStatistics
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.routing.policy import Classifier, Outputs, RoutingPolicy
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Float64s, Int64s
from eddyline.core.errors import JobError
from eddyline.core.time import Clock, SystemClock
from eddyline.expr.members import INSTANT
from eddyline.streamon.call_times import CallTimes
from eddyline.streamon.decision import Decision
from eddyline.streamon.log import DecisionLog

ROWS_BEFORE_ATTRIBUTES = 256  # seen in the written order before attributes are chosen: more choose better and later
FIRST_ROWS, MAX_ROWS = 512, 1 << 14  # of a sub-batch, at first and at most
SECONDS_PER_PASS = 0.008  # that a sub-batch should take: more spends less on passes, less changes routes sooner
CALL_COST_FACTOR = 8  # times what calling the operators costs before their first row
BATCHES_PER_PINNED_DECISION = 16  # sub-batches of a pinned router between two hypothetical decisions, each on a copy

_NO_ATTRIBUTES: Int64s = np.empty((0, 0), np.int64)

# Shows an operator the rows of a sub-batch with these numbers: how many tuples it makes of each.
Ask = Callable[[int, Int64s], Outputs]


class TupleRouter:
    """Operators called ``texts`` under ``routing``; ``pipeline`` says which of them are pinned and what they cost.

    ``clock`` measures the operators; one that stands still leaves the policy with declared costs. ``size`` fixes the
    rows of a sub-batch. Decisions go into ``log``, which is the query's; a router without one keeps its own.
    """

    joins: ClassVar[bool] = False  # whether operators are relations, which make many tuples of one, or filters

    def __init__(
        self,
        texts: Sequence[str],
        routing: Routing,
        pipeline: Pipeline,
        *,
        clock: Clock | None = None,
        size: int | None = None,
        log: DecisionLog | None = None,
    ) -> None:
        self.texts, self.routing, self.pipeline = tuple(texts), routing, pipeline
        self.clock: Clock = clock or SystemClock()
        self.fixed, self.size = size, size or FIRST_ROWS
        n = len(self.texts)
        self.times, self.seen = CallTimes(n), FilterStatistics(n)
        self.attributes: Attributes | None = None  # None: not chosen yet
        self.policy: RoutingPolicy | None = None
        self.route_history: RouteHistory | None = None
        self.log, self.keeps_log = log if log is not None else DecisionLog(clock=self.clock), log is None
        self.hold, self._unasked = PlanHold(n), 0
        self.segments = pipeline.segments
        initial = pipeline.initial
        self.initial: Int64s = np.arange(n) if initial is None else np.array(initial, np.int64)

    # ── routes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, columns: Mapping[str, pa.Array], length: int) -> None:
        """Before rows are routed: choose the attributes, and with them the policy, once enough rows were seen."""
        if self.policy is None and self.seen.rows + length >= ROWS_BEFORE_ATTRIBUTES:
            offered = {n: c for n, c in columns.items() if n != INSTANT}
            self._use(Attributes.of(self.routing.offered(offered), self.routing.d))

    def _use(self, attributes: Attributes) -> None:
        self.attributes = attributes
        setting = Setting(self.pipeline, attributes.names, attributes.d, attributes.ranges)
        self.policy = self.routing.make(setting)
        self.route_history = RouteHistory(len(attributes.names), attributes.d, len(self.texts))

    def sub_batches(self, length: int) -> Iterator[tuple[int, int]]:
        """Where sub-batches start, and how many rows they have; the size may change from one to the next."""
        start = 0
        while start < length:
            left = length - start
            count = left if left < self.size + self.size // 2 and self.fixed is None else min(left, self.size)
            yield start, count
            start += count

    def route(self, columns: Mapping[str, pa.Array], length: int, now: int | None, ask: Ask) -> Outputs:
        """Take the rows of a sub-batch through the operators: tuples out by row and operator, −1 where not asked."""
        if self.attributes is None or self.policy is None:
            classes, orders = _NO_ATTRIBUTES, np.tile(self.initial, (length, 1))
        else:
            names = self.attributes.names
            classes = self.attributes.classes(columns) if names else np.empty((length, 0), np.int64)
            orders = self.policy.route(classes)
        outputs, seconds = self._flow(length, orders, ask)
        rows_in, rows_out = (outputs >= 0).sum(0), np.maximum(outputs, 0).sum(0, np.int64)
        known = self.times.prices
        prices = np.where(rows_in > 0, known, np.nan)
        self.seen.add(length, rows_in, rows_out, np.zeros_like(rows_in), seconds, known)
        if self.policy is not None and self.route_history is not None:
            self.policy.processed(outputs, prices)
            self.route_history.add(classes, orders, outputs)
            self.hold.add(rows_in, (outputs > 0).sum(0))
            decision = self._decide(self.policy, self.seen.rows if now is None else now)
            if decision is not None:
                self.seen.decided()
                self.log.record(decision)
        self._fit(length, rows_in)
        return outputs

    def _decide(self, policy: RoutingPolicy, now: int) -> Decision | None:
        """What the policy decides. Routes follow what it decides in many small steps, so of a pinned one a copy is
        asked, and nothing that the copy does counts."""
        if not self.hold.pinned:
            return policy.decide(now) if self.hold.lets_decide() else None
        self._unasked += 1
        if self._unasked < BATCHES_PER_PINNED_DECISION or not self.hold.lets_decide():
            return None
        self._unasked = 0
        decision = deepcopy(policy).decide(now)
        if decision is None or decision.before == decision.after:
            return None
        self.hold.wait(reported=True)
        return replace(decision, applied=False)

    def _flow(self, length: int, orders: Int64s, ask: Ask) -> tuple[Outputs, Float64s]:
        """Each row through the operators in its own order: what came out (−1: not asked), and seconds by operator."""
        n = len(self.texts)
        none = np.full((length, n), -1)
        outputs: Outputs = none if self.joins else none.astype(np.int8)
        seconds: Float64s = np.zeros(n)
        position = np.zeros(length, np.int64)
        wanted = orders[:, 0].copy()  # the operator for which a row waits; n once it is through
        while True:
            waiting = np.bincount(wanted, minlength=n + 1)[:n]
            if not waiting.any():
                return outputs, seconds
            earliest = self.segments == self.segments[waiting > 0].min()
            f = int(np.where(earliest, waiting, 0).argmax())
            rows = np.flatnonzero(wanted == f)
            begin = self.clock.nanoseconds()
            made = ask(f, rows)
            spent = (self.clock.nanoseconds() - begin) / 1e9
            call, took = np.zeros(n, np.int64), np.zeros(n)
            call[f], took[f] = len(rows), spent
            self.times.add(call, took)
            seconds[f] += spent
            outputs[rows, f] = made
            position[rows] += 1
            going = (made > 0) & (position[rows] < n)
            wanted[rows] = np.where(going, orders[rows, np.minimum(position[rows], n - 1)], n)

    def _fit(self, count: int, asked: Int64s) -> None:
        """As many rows as take the time of a pass, as a power of two."""
        spent = float(asked @ np.nan_to_num(self.times.marginal))
        if self.fixed is not None or not spent > 0:
            return
        wanted = max(SECONDS_PER_PASS, CALL_COST_FACTOR * float(self.times.fixed[asked > 0].sum())) / (spent / count)
        if not self.size / 2 < wanted < self.size * 4:
            self.size = max(FIRST_ROWS // 2, min(MAX_ROWS, 1 << max(0, int(log2(wanted)))))

    # ── steering ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def usual(self) -> list[int]:
        """The order that most rows take."""
        history = self.route_history
        return list(self.initial.tolist() if history is None else history.usual(self.initial))

    def pin(self, pinned: bool) -> None:
        self.hold.pin(pinned)

    def undo(self, decision: Decision, now: int | None) -> None:
        """Route by the classifiers before a decision; the policy leaves them until statistics drift."""
        if self.policy is None or self.policy.classifier_names != tuple(decision.after):
            raise JobError(f"the classifiers of {decision.operator} have changed since that decision.")
        self.policy.use_classifiers(tuple(decision.before))
        self.hold.wait()

    # ── what it did ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def classifiers(self) -> tuple[Classifier, ...]:
        """For each operator the attributes by which it is routed; None for none."""
        return (None,) * len(self.texts) if self.policy is None else self.policy.classifiers

    def statistics(self) -> dict[str, Any]:
        """For each operator, as written, the tuples that it processed, its outputs and its time; the attributes by
        which rows are routed; and for each attribute ``classes``, ``rows`` by class and ``selectivity``, a matrix of
        classes × operators (None where the operator processed no row of the class)."""
        names = () if self.attributes is None else self.attributes.names
        by = {}
        if self.attributes is not None and self.route_history is not None:
            for a, name in enumerate(names):
                by[name] = self.route_history.table(a, self.attributes.labels(a))
        return {
            "policy": self.routing.policy,
            "filters": list(self.texts),
            "first": [],
            "order": self.usual,
            "pinned": sorted(self.pipeline.pinned),
            "size": self.size,
            **self.seen.statistics(),
            "attributes": list(names),
            "classifiers": [None if c is None else [names[a] for a in c] for c in self.classifiers],
            "by_class": by,
            "policy_statistics": {} if self.policy is None else dict(self.policy.statistics()),
        }

    def adapts(self) -> list[str]:
        """Lines for explain: the operators, the classifiers, and the routes of each class."""
        pruned = {} if self.attributes is None else self.attributes.pruned()
        return explain_lines(self.statistics(), pruned, self.joins)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """What was learned, as plain numbers and arrays."""
        begun = {}
        if self.attributes is not None and self.policy is not None and self.route_history is not None:
            begun = {
                "attributes": self.attributes.state(),
                "learned": self.policy.state(),
                "books": self.route_history.state(),
            }
        return {
            "policy": self._who(),
            "filters": list(self.texts),
            "begun": begun,
            "times": self.times.state(),
            "seen": self.seen.state(),
            "size": self.size,
            "log": self.log.state() if self.keeps_log else None,
            "hold": self.hold.state(),
        }

    def _who(self) -> str:
        """The policy with all that was asked of it: what was learned under other options is shaped otherwise."""
        r = self.routing
        return f"routing: {r.policy}{dict(sorted(r.parameters.items()))} by {r.classifier}, d = {r.d}"

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on with what another one learned about the same operators under the same policy; of others nothing is of
        use, and the answer does not need it."""
        mine = (self._who(), list(self.texts))
        if (state.get("policy"), list(state["filters"])) != mine:
            return
        if begun := state["begun"]:
            self._use(Attributes.load(begun["attributes"]))
            assert self.policy is not None and self.route_history is not None
            self.policy.load(begun["learned"])
            self.route_history.load(begun["books"])
        self.times.load(state["times"])
        self.seen.load(state["seen"])
        if "hold" in state:  # a snapshot of an earlier version has none
            self.hold.load(state["hold"])
        if self.keeps_log and state["log"] is not None:
            self.log.load(state["log"])
        if self.fixed is None:
            self.size = int(state["size"])
