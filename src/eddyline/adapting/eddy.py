"""An eddy over the conjuncts of a selection: each row takes them in the order that its content suggests.

The conversation is that of ``adaptive.routing.policy``: rows of a sub-batch get an order each; again and again the
conjunct for which most rows wait is shown all of these in one call; what became of the rows goes back to the policy. A
row is out as soon as one conjunct drops it, so no conjunct is asked about a row twice, nor about one that is out, and
learning costs no evaluation beyond those of a route. The law of errors is that of ``expr.predicates``.

A pinned conjunct is asked when no row is left on its way there: so it sees its rows as they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.adapting.eddy_attributes import Attributes
from eddyline.adapting.eddy_statistics import Books, told
from eddyline.adapting.routing_options import Routing
from eddyline.adaptive.filters.filter_statistics import FilterStatistics
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.routing.policy import Classifier, RoutingPolicy
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.core.errors import DataError
from eddyline.core.time import Clock, SystemClock
from eddyline.expr.members import INSTANT, Conjunct, answering, text_of
from eddyline.expr.observed import ask, lasting
from eddyline.expr.predicates import Selection
from eddyline.streamon.call_times import CallTimes
from eddyline.streamon.log import DecisionLog

BEGIN = 256  # rows that are seen before attributes are chosen; until then the order is the written one
SIZE, MOST = 512, 1 << 14  # rows of a sub-batch
PASS = 0.008  # seconds that the rows of one should take
CALLS = 8  # times what calling the conjuncts costs before their first row

_NO_ATTRIBUTES: Int64s = np.empty((0, 0), np.int64)


class Eddy:
    """``conjuncts`` in written order under ``routing``; ``pipeline`` says which of them are pinned and what they cost.

    ``clock`` measures the conjuncts; one that stands still leaves the policy with declared costs. ``size`` fixes the
    rows of a sub-batch. Decisions go into ``log``, which is the query's; an eddy without one keeps its own.

    >>> from eddyline.expr.nodes import Call, Column, Literal
    >>> a = Column("a", pa.int64())
    >>> conjuncts = [Call(f, (a, Literal(v, pa.int64())), pa.bool_()) for f, v in (("gt", 1), ("lt", 3))]
    >>> eddy = Eddy(conjuncts, Routing("content-learns"), Pipeline(2))
    >>> eddy.evaluate({"a": pa.array([1, 2, 3, None])}, 4).keep.tolist()
    [False, True, False, False]
    """

    def __init__(
        self,
        conjuncts: Sequence[Conjunct],
        routing: Routing,
        pipeline: Pipeline,
        *,
        clock: Clock | None = None,
        size: int | None = None,
        log: DecisionLog | None = None,
    ) -> None:
        self.conjuncts, self.routing, self.pipeline = tuple(conjuncts), routing, pipeline
        self.texts = tuple(map(text_of, conjuncts))
        self.clock: Clock = clock or SystemClock()
        self.fixed, self.size = size, size or SIZE
        n = len(self.conjuncts)
        self.times, self.seen = CallTimes(n), FilterStatistics(n)
        self.attributes: Attributes | None = None  # None: not chosen yet
        self.policy: RoutingPolicy | None = None
        self.books: Books | None = None
        self.log, self.keeps_log = log if log is not None else DecisionLog(clock=self.clock), log is None
        self._compile()

    def _compile(self) -> None:
        self.compiled = tuple(map(answering, self.conjuncts))
        self.segments = self.pipeline.segments
        self.read = frozenset[str]().union(*(c.columns for c in self.compiled))
        initial = self.pipeline.initial
        self.initial: Int64s = np.arange(len(self.compiled)) if initial is None else np.array(initial, np.int64)

    # ── evaluation ────────────────────────────────────────────────────────────────────────────────────────────────

    def evaluate(self, columns: Mapping[str, pa.Array], length: int, times: Int64s | None = None) -> Selection:
        """Which rows satisfy all conjuncts, and the errors of the others. ``times`` of the rows are for decisions."""
        if self.policy is None and self.seen.rows + length >= BEGIN:
            self._begin(columns)
        keep, errors = np.zeros(length, np.bool_), dict[int, DataError]()
        needed = self.read if self.attributes is None else self.read.union(self.attributes.names)
        start = 0
        while start < length:
            left = length - start
            count = left if left < self.size + self.size // 2 and self.fixed is None else min(left, self.size)
            part = columns if count == length else {n: columns[n].slice(start, count) for n in needed}
            alive, failed = self._pass(part, count, None if times is None else int(times[start + count - 1]))
            keep[start : start + count] = alive
            errors |= {start + row: error for row, error in failed.items()}
            start += count
        keep[list(errors)] = False
        return Selection(keep, errors)

    def _begin(self, columns: Mapping[str, pa.Array]) -> None:
        """Choose the attributes, and with them the policy."""
        offered = {n: c for n, c in columns.items() if n != INSTANT}
        self._use(Attributes.of(self.routing.offered(offered), self.routing.d))

    def _use(self, attributes: Attributes) -> None:
        self.attributes = attributes
        setting = Setting(self.pipeline, attributes.names, attributes.d, attributes.ranges)
        self.policy = self.routing.make(setting)
        self.books = Books(len(attributes.names), attributes.d, len(self.conjuncts))

    def _pass(
        self, columns: Mapping[str, pa.Array], length: int, now: int | None
    ) -> tuple[Bools, dict[int, DataError]]:
        if self.attributes is None or self.policy is None:
            classes, orders = _NO_ATTRIBUTES, np.tile(self.initial, (length, 1))
        else:
            names = self.attributes.names
            classes = self.attributes.classes(columns) if names else np.empty((length, 0), np.int64)
            orders = self.policy.route(classes)
        outputs, failures, seconds = self._flow(columns, length, orders)
        asked, alive = outputs >= 0, ~(outputs == 0).any(1)
        rows_in, rows_out = asked.sum(0), (outputs > 0).sum(0)
        known = self.times.prices
        prices = np.where(rows_in > 0, known, np.nan)
        self.seen.add(length, rows_in, rows_out, np.zeros_like(rows_in), seconds, known)
        if self.policy is not None and self.books is not None:
            self.policy.processed(outputs, prices)
            self.books.add(classes, orders, outputs)
            decision = self.policy.decide(self.seen.rows if now is None else now)
            if decision is not None:
                self.seen.decided()
                self.log.record(decision)
        self._fit(length, rows_in)
        return alive, lasting(np.flatnonzero(alive), failures)

    def _flow(
        self, columns: Mapping[str, pa.Array], length: int, orders: Int64s
    ) -> tuple[np.typing.NDArray[np.int8], dict[int, dict[int, DataError]], Float64s]:
        """Each row through the conjuncts in its own order: what came out (−1: not asked), errors by conjunct and row,
        and seconds by conjunct."""
        n = len(self.compiled)
        outputs = np.full((length, n), -1, np.int8)
        failures: dict[int, dict[int, DataError]] = {}
        seconds: Float64s = np.zeros(n)
        position = np.zeros(length, np.int64)
        wanted = orders[:, 0].copy()  # the conjunct for which a row waits; n once it is through
        while True:
            waiting = np.bincount(wanted, minlength=n + 1)[:n]
            if not waiting.any():
                return outputs, failures, seconds
            earliest = self.segments == self.segments[waiting > 0].min()
            f = int(np.where(earliest, waiting, 0).argmax())
            rows = np.flatnonzero(wanted == f)
            begin = self.clock.nanoseconds()
            passed, errors = ask(self.compiled[f], columns, length, None if len(rows) == length else rows)
            spent = (self.clock.nanoseconds() - begin) / 1e9
            if errors:
                failures.setdefault(f, {}).update({int(rows[i]): e for i, e in errors.items()})
            call, took = np.zeros(n, np.int64), np.zeros(n)
            call[f], took[f] = len(rows), spent
            self.times.add(call, took)
            seconds[f] += spent
            outputs[rows, f] = passed
            position[rows] += 1
            going = passed & (position[rows] < n)
            wanted[rows] = np.where(going, orders[rows, np.minimum(position[rows], n - 1)], n)

    def _fit(self, count: int, asked: Int64s) -> None:
        """As many rows as take the time of a pass, as a power of two."""
        spent = float(asked @ np.nan_to_num(self.times.marginal))
        if self.fixed is not None or not spent > 0:
            return
        wanted = max(PASS, CALLS * float(self.times.fixed[asked > 0].sum())) / (spent / count)
        if not self.size / 2 < wanted < self.size * 4:
            self.size = max(SIZE // 2, min(MOST, 1 << max(0, int(log2(wanted)))))

    # ── what it did ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def classifiers(self) -> tuple[Classifier, ...]:
        """For each conjunct the attributes by which it is routed; None for none."""
        return (None,) * len(self.conjuncts) if self.policy is None else self.policy.classifiers

    def statistics(self) -> dict[str, Any]:
        """What each conjunct as written was asked, let pass and took; by which attributes rows are routed; and for each
        attribute ``classes``, ``rows`` by class and ``selectivity``, a matrix of classes × conjuncts (None where
        nobody was asked)."""
        names = () if self.attributes is None else self.attributes.names
        by = {}
        if self.attributes is not None and self.books is not None:
            for a, name in enumerate(names):
                by[name] = self.books.table(a, self.attributes.labels(a))
        return {
            "policy": self.routing.policy,
            "filters": list(self.texts),
            "first": [],
            "order": list(self.initial.tolist() if self.books is None else self.books.usual(self.initial)),
            "pinned": sorted(self.pipeline.pinned),
            "size": self.size,
            **self.seen.statistics(),
            "attributes": list(names),
            "classifiers": [None if c is None else [names[a] for a in c] for c in self.classifiers],
            "by_class": by,
            "policy_statistics": {} if self.policy is None else dict(self.policy.statistics()),
        }

    def adapts(self) -> list[str]:
        """Lines for explain: the conjuncts, the classifiers, and the routes of each class."""
        pruned = {} if self.attributes is None else self.attributes.pruned()
        return told(self.statistics(), pruned)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """What was learned, as plain numbers and arrays."""
        begun = {}
        if self.attributes is not None and self.policy is not None and self.books is not None:
            begun = {
                "attributes": self.attributes.state(),
                "learned": self.policy.state(),
                "books": self.books.state(),
            }
        return {
            "policy": self._who(),
            "filters": list(self.texts),
            "begun": begun,
            "times": self.times.state(),
            "seen": self.seen.state(),
            "size": self.size,
            "log": self.log.state() if self.keeps_log else None,
        }

    def _who(self) -> str:
        """The policy with all that was asked of it: what was learned under other options is shaped otherwise."""
        r = self.routing
        return f"routing: {r.policy}{dict(sorted(r.parameters.items()))} by {r.classifier}, d = {r.d}"

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on with what another one learned about the same conjuncts under the same policy; of others nothing is of
        use, and the answer does not need it."""
        mine = (self._who(), list(self.texts))
        if (state.get("policy"), list(state["filters"])) != mine:
            return
        if begun := state["begun"]:
            self._use(Attributes.load(begun["attributes"]))
            assert self.policy is not None and self.books is not None
            self.policy.load(begun["learned"])
            self.books.load(begun["books"])
        self.times.load(state["times"])
        self.seen.load(state["seen"])
        if self.keeps_log and state["log"] is not None:
            self.log.load(state["log"])
        if self.fixed is None:
            self.size = int(state["size"])

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("compiled", "segments", "read", "initial")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()
