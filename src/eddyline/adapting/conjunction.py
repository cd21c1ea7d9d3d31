"""An adaptive conjunction: the evaluation, a policy that orders the conjuncts, and the calls between the two.

The evaluation (``expr.observed``) applies an order; the policy (``adaptive.filters``) sees statistics
and no rows. Here batches are cut into *sub-batches*, because an order can only change between two passes: small
ones while rows are dear, so that a change is noticed after few of them, larger ones where a pass would cost more than
the rows that it judges. How a batch is cut does not change the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.adapting.plan_hold import PlanHold, held_decision, impose
from eddyline.adaptive.filters.filter_statistics import FilterStatistics
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.core.delta import Bools, Int64s
from eddyline.core.errors import DataError, JobError
from eddyline.core.time import Clock, SystemClock
from eddyline.expr.members import Conjunct, answering, calls_of, text_of
from eddyline.expr.nodes import Expr
from eddyline.expr.observed import Observation, observe
from eddyline.expr.predicates import Conjunction, Selection
from eddyline.streamon.call_times import CallTimes
from eddyline.streamon.decision import Decision
from eddyline.streamon.gains import GainMeter
from eddyline.streamon.log import DecisionLog
from eddyline.streamon.wording import in_units

FIRST_ROWS = 64  # of the first two sub-batches: one to warm vectorised filters up, one to measure them
TRIAL_ROWS = 512  # of the next sub-batches, if some filters are so cheap that FIRST_ROWS cannot measure them
MAX_TRIAL_SECONDS = 0.04  # a filter that takes longer for its first rows needs no more rows to be measured
MIN_ROWS, MAX_ROWS = 32, 1 << 16  # of all other sub-batches
# A sub-batch should take so many seconds, some thirty times what a pass costs beside the filters, and so many times
# what calling the filters costs before their first row: more spends less on passes, less changes the order sooner.
SECONDS_PER_PASS, CALL_COST_FACTOR = 0.03, 8
PASSES_TO_PRICE_ALL = 12  # within which every filter should have been called often enough to have a price
# While the policy profiles more than this share of the rows, sub-batches are shorter, so that it can decide soon: they
# have at most BURST_ROWS rows, and at most the BURST_DIVISOR-th part of an ordinary one.
BURST_PROFILE_SHARE = 0.02
BURST_ROWS, BURST_DIVISOR = 1024, 4

BATCHES_BEFORE, BATCHES_AFTER = 3, 16  # sub-batches by whose cost the gain of a decision is measured

_NO_ROWS: Int64s = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Step:
    """A sub-batch: how many rows, and which of them are profiled. With ``trial`` they are for measuring those filters,
    and are not reported to the policy."""

    count: int
    profile: Int64s
    trial: tuple[int, ...] | None = None


class AdaptiveConjunction:
    """``conjuncts`` in written order, asked in the order that ``policy`` wants, which is for as many filters.

    ``first`` are conjuncts that cost next to nothing and cannot fail: they are asked before all others, on whole
    batches. ``clock`` measures the conjuncts; one that stands still leaves the policy with declared costs. ``size``
    fixes the rows of a sub-batch: smaller adapts sooner and costs more passes. ``asked`` are the parameters that were
    asked of the policy: what was learned under others is shaped otherwise, and of no use. Decisions go into ``log``,
    which is the query's; a conjunction without one keeps its own. ``written`` are all conjuncts as written, ``first``
    included, for another policy that takes the place of this one. ``hold`` keeps the order where a user says so.

    It can be pickled, with what it has learned, wherever its functions can be.

    >>> from eddyline.adaptive.filters.pipeline import Pipeline
    >>> from eddyline.adaptive.filters.policies import make_policy
    >>> from eddyline.expr.nodes import Call, Column, Literal
    >>> a = Column("a", pa.int64())
    >>> conjuncts = [Call(f, (a, Literal(v, pa.int64())), pa.bool_()) for f, v in (("gt", 1), ("lt", 3))]
    >>> both = AdaptiveConjunction(conjuncts, make_policy("a-greedy", Pipeline(2)))
    >>> both.evaluate({"a": pa.array([1, 2, 3, None])}, 4).keep.tolist()
    [False, True, False, False]
    >>> both.statistics()["asked"]
    [4, 2]
    """

    def __init__(
        self,
        conjuncts: Sequence[Conjunct],
        policy: FilterPolicy,
        *,
        first: Sequence[Expr] = (),
        clock: Clock | None = None,
        size: int | None = None,
        asked: Mapping[str, Any] | None = None,
        log: DecisionLog | None = None,
        written: Sequence[Conjunct] | None = None,
    ) -> None:
        if policy.pipeline.filters != len(conjuncts):
            raise ValueError(f"a policy for {policy.pipeline.filters} filters and {len(conjuncts)} conjuncts")
        self.conjuncts, self.first, self.policy = tuple(conjuncts), tuple(first), policy
        self.written = tuple(conjuncts if written is None else written)
        self.texts = tuple(map(text_of, conjuncts))
        self.who = f"{policy.name}{dict(sorted((asked or {}).items()))}"
        self.clock: Clock = clock or SystemClock()
        self.fixed = size
        self.size, self.burst_rows = size or FIRST_ROWS, BURST_ROWS
        self.times = CallTimes(len(conjuncts))
        self.seen = FilterStatistics(len(conjuncts))
        self.log, self.keeps_log = log if log is not None else DecisionLog(clock=self.clock), log is None
        self.gains = GainMeter(self.log, len(conjuncts), steps_before=BATCHES_BEFORE, steps_after=BATCHES_AFTER)
        self.hold = PlanHold(len(conjuncts))
        self._compile()

    def _compile(self) -> None:
        self.compiled = tuple(map(answering, self.conjuncts))
        self.before = Conjunction(self.first) if self.first else None
        self.read = tuple(sorted(frozenset[str]().union(*(c.columns for c in self.compiled))))
        self.movable = len(self.policy.pipeline.free) > 0
        # Functions that are called row by row need no trial: their calls cost nothing beside their rows.
        by_row = [any(e.function.kind == "row" for e in calls_of(c)) for c in self.conjuncts]
        self.vectorised = tuple(f for f in self.policy.pipeline.free.tolist() if not by_row[f])

    # ── evaluation ────────────────────────────────────────────────────────────────────────────────────────────────

    def evaluate(self, columns: Mapping[str, pa.Array], length: int, times: Int64s | None = None) -> Selection:
        """Which rows satisfy all conjuncts, and the errors of the others. ``times`` of the rows are for decisions."""
        alive = None if self.before is None else np.flatnonzero(self.before.evaluate(columns, length).keep)
        if alive is not None and len(alive) == length:
            alive = None
        keep = np.zeros(length, np.bool_)
        errors: dict[int, DataError] = {}
        total, start = length if alive is None else len(alive), 0
        while start < total:
            step = self._next(total - start)
            stop = start + step.count
            low, high = (start, stop) if alive is None else (int(alive[start]), int(alive[stop - 1]) + 1)
            rows = None if alive is None or high - low == step.count else alive[start:stop] - low
            part = columns if high - low == length else {n: columns[n].slice(low, high - low) for n in self.read}
            seen = self._pass(step, part, high - low, rows, None if times is None else int(times[high - 1]))
            keep[seen.alive + low if low else seen.alive] = True
            for row, error in seen.errors.items():
                keep[low + row] = False
                errors[low + row] = error
            start = stop
        return Selection(keep, errors)

    def _next(self, left: int) -> _Step:
        """The next sub-batch, of at most ``left`` rows."""
        if not self.movable:
            return _Step(left, _NO_ROWS)
        if trial := self._unpriced():
            count = min(left, FIRST_ROWS if self.seen.batches < 2 else TRIAL_ROWS)
            return _Step(count, np.arange(count), trial)
        # A small rest is not worth a pass of its own.
        count = left if left < self.size + self.size // 2 else self.size
        burst = self.burst_rows
        profile = self.policy.wants_profile(min(count, burst))
        if count > burst:
            if len(profile) > BURST_PROFILE_SHARE * burst:  # do not let it wait
                return _Step(burst, profile)
            more = self.policy.wants_profile(count - burst)
            profile = np.concatenate([profile, more + burst]) if len(more) else profile
        return _Step(count, profile)

    def _unpriced(self) -> tuple[int, ...]:
        """Filters that have no price: at first all, then those whose calls were so small that the rows in them hardly
        counted. They are shown more rows once; one for which that would take long has a price already."""
        if self.fixed is not None or self.seen.batches > 2:
            return ()
        if self.seen.batches < 2:
            return self.vectorised
        largest, price = self.times.largest, self.times.marginal
        return tuple(
            f for f in self.vectorised if largest[f] < TRIAL_ROWS // 2 and price[f] * TRIAL_ROWS < MAX_TRIAL_SECONDS
        )

    def _pass(
        self, step: _Step, columns: Mapping[str, pa.Array], length: int, alive: Int64s | None, now: int | None
    ) -> Observation:
        policy, profile = self.policy, step.profile
        reach = policy.reach if step.trial is None else self._shown_to(step.trial)
        if alive is not None:
            profile = alive[profile]
        seen = observe(self.compiled, columns, length, policy.order, self.clock, alive, profile, reach)
        seconds = seen.nanoseconds / 1e9
        asked = seen.rows_in + seen.extra
        if step.trial is None or self.seen.batches:  # the time of the very first call is no measure of a price
            self.times.add(asked, seconds)
        prices = self.times.prices
        self.seen.add(step.count, seen.rows_in, seen.rows_out, seen.extra, seconds, prices)
        self.gains.add(step.count, seen.rows_in, prices)
        if step.trial is not None:
            # The policy receives reliable prices only, and no rows but those that it would have asked for.
            self._fit(step.count, asked)
            return seen
        policy.processed(seen.rows_in, seen.rows_out, prices)
        if len(profile):
            policy.profiled(seen.dropped, prices)
        self.hold.add(seen.rows_in, seen.rows_out)
        if not self._guesses():
            self._decide(self.seen.rows if now is None else now)
        self._fit(step.count, asked)
        return seen

    def _decide(self, now: int) -> None:
        self.policy, decision = held_decision(self.hold, self.policy, now)
        if decision is None:
            return
        record = self.log.record(self._named(decision))
        if record.applied:
            self.seen.decided()
            self.gains.decided(record.sequence)

    def _guesses(self) -> bool:
        """Whether an order would rest on the price of a single call, which may have loaded a model. The next passes
        show; a conjunct that is hardly ever evaluated is not waited for."""
        return self.seen.batches < PASSES_TO_PRICE_ALL and bool(self.times.guessed[self.policy.pipeline.free].any())

    def _shown_to(self, trial: tuple[int, ...]) -> Bools:
        """Profiled rows go on to the filters that are tried, but past no pinned one."""
        order, segments = list(self.policy.order), self.policy.pipeline.segments
        shown: Bools = (segments[:, None] == segments[None, :]) & np.isin(order, trial)[None, :]
        return shown

    def _fit(self, count: int, asked: Int64s) -> None:
        """As many rows as take the time of a pass, as a power of two: not for every hiccup another size."""
        spent = float(asked @ np.nan_to_num(self.times.marginal))
        if self.fixed is not None or not spent > 0:
            return
        price, calls = spent / count, float(self.times.fixed[asked > 0].sum())
        wanted = max(SECONDS_PER_PASS, CALL_COST_FACTOR * calls) / price
        if not self.size / 2 < wanted < self.size * 4:
            self.size = max(MIN_ROWS, min(MAX_ROWS, 1 << max(0, int(log2(wanted)))))
        self.burst_rows = max(MIN_ROWS, min(BURST_ROWS, self.size // BURST_DIVISOR), int(calls / price))

    # ── what it did ───────────────────────────────────────────────────────────────────────────────────────────────

    def _named(self, decision: Decision) -> Decision:
        texts = self.texts
        before, after = ([texts[f] for f in order] for order in (decision.before, decision.after))
        return replace(decision, before=before, after=after, names=texts)

    def statistics(self) -> dict[str, Any]:
        """The order, and for each conjunct as written what it was asked, let pass and took; what the policy sees."""
        return {
            "policy": self.policy.name,
            "filters": list(self.texts),
            "first": [text_of(c) for c in self.first],
            "order": list(self.policy.order),
            "pinned": sorted(self.policy.pipeline.pinned),
            "size": self.size,
            **self.seen.statistics(),
            "policy_statistics": dict(self.policy.statistics()),
        }

    def adapts(self) -> list[str]:
        """Lines for explain: the order that is in force, and what is known of each conjunct."""
        s = self.statistics()
        lines = [f"ordered by the policy {s['policy']}, {s['rows']:,} rows in passes of {s['size']:,}"]
        if s["first"]:
            lines.append(f"first, on whole batches: {', '.join(s['first'])}")
        for place, f in enumerate(s["order"], 1):
            passes, price = s["selectivity"][f], s["seconds_per_row"][f]
            known = "not evaluated yet" if passes is None else f"passes {passes:.1%} of {s['asked'][f]:,} rows"
            cost = "" if not price else f", {in_units(price)} a row"
            lines.append(f"{place}. {s['filters'][f]}: {known}{cost}{', keeps its place' if f in s['pinned'] else ''}")
        asked, extra = sum(s["asked"]), sum(s["profiling"])
        if extra:
            lines.append(f"to learn: {extra:,} more evaluations, {extra / (asked + extra):.2%} of all")
        return lines

    # ── steering ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def running_order(self) -> tuple[Conjunct, ...]:
        """All conjuncts in the order in which they are asked now."""
        return (*self.first, *(self.conjuncts[f] for f in self.policy.order))

    def pin(self, pinned: bool) -> None:
        self.hold.pin(pinned)

    def undo(self, decision: Decision, now: int | None) -> None:
        """Put the conjuncts back into the order before a decision; the policy leaves it until statistics drift."""
        if [self.texts[f] for f in self.policy.order] != list(decision.after):
            raise JobError(f"the order of {decision.operator} has changed since that decision.")
        impose(self.policy, places_of(decision.before, self.texts))
        self.gains.settle()
        self.hold.wait()

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """What was learned, as plain numbers and arrays."""
        return {
            "policy": self.who,
            "filters": list(self.texts),
            "learned": self.policy.state(),
            "times": self.times.state(),
            "seen": self.seen.state(),
            "log": self.log.state() if self.keeps_log else None,
            "size": self.size,
            "look": self.burst_rows,
            "hold": self.hold.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on with what another one learned about the same conjuncts under the same policy. What was learned about
        others is of no use here, and the answer does not need it: then this one learns anew."""
        if state.get("policy") != self.who or list(state["filters"]) != list(self.texts):
            return
        self.policy.load(state["learned"])
        self.times.load(state["times"])
        self.seen.load(state["seen"])
        if "hold" in state:  # a snapshot of an earlier version has none
            self.hold.load(state["hold"])
        if self.keeps_log and state["log"] is not None:
            self.log.load(state["log"])
        if self.fixed is None:
            self.size, self.burst_rows = int(state["size"]), int(state["look"])

    def __getstate__(self) -> dict[str, Any]:
        compiled = ("compiled", "before", "read", "movable", "vectorised")
        return {k: v for k, v in self.__dict__.items() if k not in compiled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()


def places_of(order: Sequence[str], texts: Sequence[str]) -> tuple[int, ...]:
    """An order of conjuncts by text as numbers; of equal texts the first written comes first.

    >>> places_of(["b", "a", "b"], ["a", "b", "b"])
    (1, 0, 2)
    """
    left = list(enumerate(texts))
    found = []
    for text in order:
        place = next(p for p in left if p[1] == text)
        left.remove(place)
        found.append(place[0])
    return tuple(found)
