"""A join that changes its plan while it runs (thesis 5.5.6): the steps before and after each run of its elements.

The kernel applies orders and caches; the policies get statistics and see no rows. Between the two stand

- ``join_pacing``: when a profiling run is due and the budget allows it, and how long runs are;
- ``join_sampling``: which elements of a profiling run are profiled;
- ``join_ordering``: the policies that order the pipelines;
- ``join_fanouts``: orders for elements that find many partners, which those policies cannot choose;
- ``join_caching``: A-Caching, which places caches in them;
- ``join_history``: the history of the join, for people.

Work is counted in *accesses*: a probe of an index or of a cache, or a visit of a record or of an entry's row. So the
same data lead to the same decisions, whatever else the machine does. Policies of the papers that are asked for by name
profile in all runs, as the papers do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eddyline.adapting.join_caching import JoinCaching, RunStatistics, Sizes
from eddyline.adapting.join_fanouts import JoinFanouts
from eddyline.adapting.join_history import RunHistory, accesses
from eddyline.adapting.join_ordering import JoinOrdering
from eddyline.adapting.join_pacing import Pace, RunPacing
from eddyline.adapting.join_sampling import SAMPLES_FOR_ORDERS, SAMPLES_FOR_USED_CACHES, ProfileSamples
from eddyline.adapting.plan_hold import PlanHold
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.adaptive.joins.probe_monitor import Done
from eddyline.adaptive.joins.shape import Shape
from eddyline.core.delta import Int64s
from eddyline.core.time import Clock
from eddyline.kernels import join_layout as k
from eddyline.operators.join_arrays import JoinArrays
from eddyline.streamon.decision import Decision
from eddyline.streamon.log import DecisionLog

# Of the accesses of an element: an order that saves less is taken where it is found, but no profiling run is spent on
# it.
NEGLIGIBLE_SAVING_SHARE = 0.01


class AdaptiveJoin:
    """``policies`` order the pipelines, one each; None where orders stay. ``asked`` says who they are, with their
    parameters: what was learned under others is shaped otherwise, and of no use. ``caching`` places caches, or is None.
    """

    def __init__(
        self,
        operator: str,
        names: Sequence[str],
        shape: Shape,
        policies: list[FilterPolicy] | None,
        caching: ACaching | None,
        clock: Clock,
        pace: Pace,
        weight: float = 1.0,
        asked: str = "",
        log: DecisionLog | None = None,
    ) -> None:
        self.names, self.shape, self.asked = tuple(names), shape, asked
        self.policies, self.caching = policies, caching
        self.ordering = None if policies is None else JoinOrdering(operator, self.names, shape, policies)
        self.fanouts = None if self.ordering is None or pace.always_profiles else JoinFanouts(self.ordering)
        self.cache_choice = None if caching is None else JoinCaching(caching, weight)
        self.pacing = RunPacing(pace, shape.size, clock)
        self.run_history = RunHistory(operator, self.names, clock, log)
        self.elements = 0
        self._start_over()

    def _start_over(self) -> None:
        """With what was learned, but nothing that was going on."""
        m = self.shape.size
        for part in (self.pacing, self.ordering, self.fanouts, self.cache_choice):
            if part is not None:
                part.start_over()
        self.samples = ProfileSamples(m)
        self._profiles: list[Int64s] = []  # of the profiling run that goes on
        self._came = self._left = [0] * m  # elements by input, since the policies last decided
        # The stretch of a run that goes on between two calls of the operator, which elements may come in many of.
        self._next, self._arrived = np.zeros(m, np.int64), np.zeros(m, np.int64)
        self._counted: list[int] = []  # the kernel's counters when it began
        self._going: JoinArrays | None = None  # the join of the quiet run that goes on, if one does
        self._stretch = self._so_far = self._now = 0  # its elements at most and so far; the time reached

    def attach(self, arrays: JoinArrays, orders: Sequence[tuple[int, ...]] | None = None) -> None:
        """Put a join under this plan, before its first element or after it was restored."""
        if self.ordering is not None:
            arrays.logical = tuple(f.paths for f in self.ordering.filters)
        orders = list(arrays.orders) if orders is None else list(orders)
        sizes = None
        if self.cache_choice is not None:
            decisions, sizes = self.cache_choice.attach(arrays, orders)
            self.run_history.decided(decisions)
        self._apply(arrays, orders, sizes)

    # ── before and after a run ────────────────────────────────────────────────────────────────────────────────────

    def begin(self, arrays: JoinArrays, next_event: Int64s, lengths: Sequence[int]) -> int:
        pacing = self.pacing
        self._next = next_event
        if self._going is not None:
            self._arrived -= next_event
            self.run_history.resume()
            return self._stretch - self._so_far
        before, self._counted = next_event.tolist(), arrays.counters.tolist()
        self._arrived[:] = -next_event
        self.run_history.begin(accesses(arrays, self._counted))
        arrays.profiling = pacing.in_profiling_run
        if pacing.in_profiling_run:
            waiting = [n - b for n, b in zip(lengths, before, strict=True)]
            share = min(1.0, pacing.elements_left / max(1, sum(waiting)))
            counts = [math.ceil(n * share) for n in waiting]
            chosen = [[b + n for n in s] for b, s in zip(before, self._samples(counts), strict=True)]
            leaving = [max(1, n // len(c)) if c else 0 for n, c in zip(counts, chosen, strict=True)]
            arrays.sample(chosen, max(256, 2 * sum(map(len, chosen)) + 64), leaving)
            arrays.pause_after()
            return pacing.elements_left
        arrays.sample_none()
        until_review = None if self.fanouts is None else self.fanouts.missing
        self._stretch, max_probes = pacing.begin_quiet(arrays.rows(), until_review)
        arrays.pause_after(max_probes)
        self._going, self._so_far = arrays, 0
        return self._stretch

    def _samples(self, counts: Sequence[int]) -> Iterator[Sequence[int]]:
        """By input, which of its next elements are profiled."""
        pace, caching = self.pacing.pace, self.caching
        least = SAMPLES_FOR_ORDERS if self.ordering is not None and not pace.always_profiles else 0
        collecting = caching is not None and bool(caching.profiled)
        if not collecting and caching is not None and caching.used:
            least = max(least, SAMPLES_FOR_USED_CACHES)
        part = (pace.profiling_run - self.pacing.elements_left + sum(counts)) / pace.profiling_run
        draw = None if self.ordering is None or self._routine else self.ordering.draw
        return self.samples.choose(counts, part, least, collecting, draw)

    def end(self, arrays: JoinArrays, now: int) -> None:
        pacing = self.pacing
        self._arrived += self._next
        self._now = now
        if self._going is not None:
            # To account for each of many small pieces would cost more than to join them.
            self._so_far = int(self._arrived.sum())
            probes, most = arrays.counters[k.CN_PROBES], arrays.counters[k.CN_MAX_PROBES]
            since = self._so_far + pacing.probe_monitor.done[-1]  # the last check, or the last report
            if 2 * since < self._stretch and probes < most and not pacing.late:
                self.run_history.rest()
                return
        profiled = pacing.in_profiling_run and arrays.counters[k.CN_SAMPLES] > 0
        done = self._account(arrays)
        if profiled:
            self._profiles.append(arrays.profiles().copy())
        reviewed = not pacing.in_profiling_run and self._review(arrays, now)
        # Also if the run is over: a profiling run may see less of a change than this.
        ends_early = not pacing.in_profiling_run and not reviewed and self._ends_early(arrays, done)
        if pacing.goes_on and not ends_early:
            return
        if pacing.in_profiling_run or (self.caching is not None and self.caching.used):
            self._reoptimize(arrays, now)
        elif pacing.affords_profiling_run:
            self._run_over(changed=False)
        else:
            pacing.wait_for_budget()

    def _account(self, arrays: JoinArrays) -> Done:
        """Enter what was done since the stretch began, which is over.

        Lists: this is done every few thousand elements, and arrays of a few numbers cost more than the numbers."""
        self._going = None
        counters = arrays.counters.tolist()
        arrived = self._arrived.tolist()
        counted = [a - b for a, b in zip(counters, self._counted, strict=True)]
        left = counted[k.CN_LEFT :]
        elements = sum(arrived) + sum(left)
        self.elements += elements
        work = self.run_history.end(arrays.orders, accesses(arrays, counters), self._now, elements)
        indexes = counted[k.CN_PROBES] + counted[k.CN_LINKS]
        self.pacing.account(sum(arrived), elements, indexes, work, counted[k.CN_PROFILING])
        if self.fanouts is not None:
            self.fanouts.account(elements, work)
        self._came = [a + b for a, b in zip(self._came, arrived, strict=True)]
        self._left = [a + b for a, b in zip(self._left, left, strict=True)]
        return counted[k.CN_PROBES], work - indexes, elements

    def close(self) -> None:
        """Enter what was done so far, because a report was asked for. The next element begins another stretch."""
        if self._going is not None:
            self.pacing.probe_monitor.add(self._account(self._going))

    def _ends_early(self, arrays: JoinArrays, done: Done) -> bool:
        """Whether a quiet run is to end early: the data have changed, or it is time."""
        if not self.pacing.alarmed(done, arrays.rows()):
            return self.pacing.late
        if self.ordering is not None:
            self.ordering.alarm()
        return True

    def _review(self, arrays: JoinArrays, now: int) -> bool:
        """Whether partial results of an element have become so many that orders were changed."""
        if self.fanouts is None or not self.fanouts.due or (self.caching is not None and self.caching.used):
            return False
        came = [a + b for a, b in zip(self._came, self._left, strict=True)]
        made, suggested = self.fanouts.review(arrays, [n / max(1, sum(came)) for n in came], now)
        self.run_history.suggested(suggested)
        if not made:
            return False
        self.run_history.decided([n.decision for n in made])
        changed = {n.pipeline: n.order for n in made}
        self.replan(arrays, [changed.get(i, order) for i, order in enumerate(arrays.orders)])
        self.pacing.plan_changed()
        return True

    # ── between two runs ──────────────────────────────────────────────────────────────────────────────────────────

    def _reoptimize(self, arrays: JoinArrays, now: int) -> None:
        """A run is over: report it to the policies, and apply what they decide."""
        run = RunStatistics(
            self._by_input(), [a + b for a, b in zip(self._came, self._left, strict=True)], self._came
        )  # fmt: skip
        self._came = self._left = [0] * self.shape.size
        orders, negligible = list(arrays.orders), True
        made: list[tuple[Decision, float]] = []
        if self.ordering is not None:
            self.ordering.shares = [n / max(1, sum(run.came_or_left)) for n in run.came_or_left]
            if self.pacing.pace.always_profiles or self.ordering.news(run.profiles, self._routine):
                refused = None if self.fanouts is None else self.fanouts.refuses(arrays)
                made, suggested = self.ordering.reorder(run.profiles, orders, now, refused)
                self.run_history.suggested(suggested)
                negligible = all(saved <= self._negligible_saving for _, saved in made)
                for decision, _ in made:
                    self.run_history.decided([decision])
        changed, saved = bool(made), sum(saved for _, saved in made)  # accesses an element
        if self.cache_choice is not None:
            decisions, applied = self._choose_caches(self.cache_choice, arrays, run, orders, now, changed)
            negligible = negligible and applied == changed
            changed = applied
            saved += sum(self._saving(d) for d in decisions)
        elif changed:
            self._apply(arrays, orders, None)
        self._run_over(changed and not negligible, saved * self.elements)

    def _saving(self, decision: Decision) -> float:
        """Accesses an element that caches are expected to save."""
        gain = decision.expected_gain
        return 0.0 if gain is None else max(0.0, 1 - 1 / gain) * self.pacing.accesses_per_element

    def _by_input(self) -> list[Int64s]:
        """The profiles of the run that is over."""
        parts, self._profiles = self._profiles, []
        if not parts:
            return [np.empty((0, 3 * self.shape.size - 1), np.int64)] * self.shape.size
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return [rows[rows[:, 0] == i] for i in range(self.shape.size)]

    def _choose_caches(
        self,
        choice: JoinCaching,
        arrays: JoinArrays,
        run: RunStatistics,
        orders: list[tuple[int, ...]],
        now: int,
        new_orders: bool,
    ) -> tuple[list[Decision], bool]:
        """Have caches chosen, if orders are settled: they are for given orders (5.5). The decisions, and whether the
        plan has changed."""
        pacing = self.pacing
        settled = not new_orders and (pacing.profiling_runs_due <= 1 or pacing.pace.always_profiles)
        # After an alarm new orders may come; but a cache that no longer pays is dropped at once.
        alarmed = not new_orders and not settled and not pacing.in_profiling_run
        if settled or alarmed:
            choice.observe(arrays, run)
        else:
            choice.skip(arrays)
        given = orders if new_orders else None
        made, sizes, differs = choice.decide(arrays, given, now, self.elements, settled, alarmed)
        self.run_history.suggested([d for d in made if not d.applied])
        made = [d for d in made if d.applied]
        self.run_history.decided(made)
        if new_orders or differs:
            self._apply(arrays, orders, sizes)
        return made, new_orders or bool(made)

    def replan(self, arrays: JoinArrays, orders: Sequence[tuple[int, ...]] | None = None) -> None:
        """Apply orders or cache settings that were changed from outside the policies, between two elements."""
        self.close()
        orders = list(arrays.orders) if orders is None else list(orders)
        sizes = None
        if self.cache_choice is not None:
            decisions, sizes = self.cache_choice.attach(arrays, orders, self._now)
            self.run_history.decided(decisions)
            self.cache_choice.skip(arrays)
        self._apply(arrays, orders, sizes)

    @property
    def holds(self) -> list[PlanHold]:
        """What keeps the orders, by pipeline, and the caches as they are."""
        orders = [] if self.ordering is None else self.ordering.holds
        return [*orders, *([] if self.cache_choice is None else [self.cache_choice.hold])]

    def _run_over(self, changed: bool, saved: float = 0.0) -> None:
        self.samples = ProfileSamples(self.shape.size)
        self.pacing.run_over(changed, self._content, saved)

    @property
    def _negligible_saving(self) -> float:
        """Accesses an element."""
        return NEGLIGIBLE_SAVING_SHARE * self.pacing.accesses_per_element

    @property
    def _content(self) -> bool:
        """Whether all the better orders that are suspected would save too little to spend profiling runs on them."""
        return self.ordering is None or self.ordering.hoped_saving <= self._negligible_saving

    @property
    def _routine(self) -> bool:
        """Profiling runs are a matter of routine: nothing has happened, and no policy suspects a better order."""
        return self.pacing.routine and self._content

    def _apply(self, arrays: JoinArrays, orders: Sequence[tuple[int, ...]], sizes: Sizes | None) -> None:
        self.run_history.orders = [tuple(o) for o in orders]
        if self.cache_choice is None:
            arrays.set_plan(orders)
        else:
            self.cache_choice.apply(arrays, orders, sizes)

    # ── what it did ───────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self, arrays: JoinArrays) -> list[str]:
        self.close()
        return self.run_history.describe(self, arrays)

    def statistics(self, arrays: JoinArrays) -> dict[str, Any]:
        self.close()
        return self.run_history.statistics(self, arrays)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """What was learned. What caches hold is not state: they fill again."""
        self.close()
        return {
            "names": list(self.names),
            "orders": [list(o) for o in self.run_history.orders],
            "asked": self.asked,
            "policies": None if self.policies is None else [p.state() for p in self.policies],
            "caching": None if self.cache_choice is None else self.cache_choice.state(),
            "elements": self.elements,
            "run": self.pacing.state(),
            "budget": self.pacing.budget.held,
            "holds": [h.state() for h in self.holds],
            "books": self.run_history.state(),
        }

    def load(self, state: Mapping[str, Any], arrays: JoinArrays) -> None:
        """Go on with what another learned about the same join under the same policies; else learn anew."""
        self._start_over()
        if list(state["names"]) != list(self.names) or "policies" not in state:  # of a plan that stayed
            self.attach(arrays)
            return
        orders = [tuple(int(x) for x in o) for o in state["orders"]] or list(arrays.orders)
        saved, run = state["policies"], state["run"]
        if self.policies is None or saved is None or state["asked"] != self.asked:
            orders = list(arrays.orders)
            run = run if self.policies is None and saved is None else None
        else:
            for policy, mine in zip(self.policies, saved, strict=True):
                policy.load(mine)
        self.elements = int(state["elements"])
        self.pacing.load(run, float(state.get("budget", 0.0)))  # a snapshot of an earlier version has no budget
        self.run_history.load(state["books"])
        if len(state.get("holds", ())) == len(self.holds):  # an earlier version has none, other policies others
            for hold, held in zip(self.holds, state["holds"], strict=True):
                hold.load(held)
        if self.cache_choice is not None:
            self.cache_choice.load(state["caching"])
        self.attach(arrays, orders)
