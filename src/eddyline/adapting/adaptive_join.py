"""A join that changes its plan while it runs: kernel, policies, and the conversation between them (thesis 5.5.6).

The kernel obeys orders and caches and knows no reason; the policies see statistics and know no rows. Elements are
applied in *runs*. In a look, some elements are profiled: the policies that order pipelines learn which inputs would
have dropped them, A-Caching learns what the operators cost and how often keys repeat. In a quiet run nothing is
profiled and nothing is paid for it. While plans change, looks and quiet runs are short; while they do not, quiet runs
grow. Looks are paid for from a small share of the work so far, so that a short join has none; where they win, there are
more. Policies of the papers by name look at all elements, as the papers do.

Work is counted in *accesses*: a probe of an index or of a cache, a record or an entry's row that is followed. So the
same data lead to the same decisions, whatever else the machine does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eddyline.adapting.cache_profiling import CacheProfiles
from eddyline.adapting.cache_sizes import CacheSizes, specs
from eddyline.adapting.join_history import RunHistory, accesses
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.adaptive.joins.probe_monitor import CHECK_ELEMENTS, RAREST_CHECK_ELEMENTS, Done, ProbeMonitor
from eddyline.adaptive.joins.profiling_budget import ProfilingBudget
from eddyline.adaptive.joins.shape import LogicalFilters, Shape
from eddyline.core.delta import Int64s
from eddyline.core.time import Clock
from eddyline.kernels import join_layout as k
from eddyline.operators.join_arrays import JoinArrays
from eddyline.streamon.decision import Decision
from eddyline.streamon.log import DecisionLog

# Elements of a profiling run, and of a quiet run at first and at most: longer quiet runs spend less on profiling and
# find better plans later.
PROFILING_RUN_ELEMENTS, QUIET_RUN_ELEMENTS, LONGEST_QUIET_RUN_ELEMENTS = 4096, 1 << 16, 1 << 20
QUIET_RUN_GROWTH = 4  # times as long as the one before is a quiet run, if the profiling run between showed nothing
# Profiling runs in a row: more find a plan that fits sooner, and cost more where an alarm was false.
PROFILING_RUNS_AFTER_ALARM, PROFILING_RUNS_AFTER_NEW_ORDER = 3, 2
QUIET_RUN_SECONDS = 2.0  # after which a quiet run ends whatever it has seen: the thesis's re-optimisation interval
# Samples of a pipeline in a profiling run, while A-Caching collects statistics of candidates, and while it uses caches:
# sampled elements use no cache. More give surer estimates and cost accesses.
SAMPLES_FOR_CANDIDATE_CACHES, SAMPLES_FOR_USED_CACHES = 12, 6
ELEMENTS_PER_CACHE_SAMPLE = 96  # while A-Caching collects: at least one sample for so many elements
# Samples of a pipeline in a profiling run of the default, where profiling runs are rare: enough to be sure of an order.
SAMPLES_FOR_ORDERS = 96
# Of the accesses of an element: an order that saves less is taken where it is found, but no profiling run is spent on
# it.
NEGLIGIBLE_SAVING_SHARE = 0.01
SIGNIFICANT_DEVIATIONS = 3.0  # standard deviations by which a drop rate must move to be no chance
ROUTINE_RUNS_PER_REPORT = (
    8  # profiling runs without news of which policies are told one: telling costs more than the run
)
CHECKS_PER_QUIET_RUN = 8  # of the probes: more see a change sooner and cost time


@dataclass(frozen=True, slots=True)
class Pace:
    """Elements of a profiling run, and of a quiet run at first and at most. ``longest_quiet_run`` 0: there are only
    profiling runs."""

    profiling_run: int = PROFILING_RUN_ELEMENTS
    quiet_run: int = QUIET_RUN_ELEMENTS
    longest_quiet_run: int = LONGEST_QUIET_RUN_ELEMENTS


class AdaptiveJoin:
    """``policies`` order the pipelines, one each; None where orders stay. ``asked`` says who they are, with their
    parameters: what was learned under others is shaped otherwise, and of no use. ``caching`` places caches, or is None.
    """

    def __init__(
        self,
        operator: str,
        names: Sequence[str],
        shape: Shape,
        policies: Sequence[FilterPolicy] | None,
        caching: ACaching | None,
        clock: Clock,
        pace: Pace,
        weight: float = 1.0,
        asked: str = "",
        log: DecisionLog | None = None,
    ) -> None:
        self.operator, self.names, self.shape = operator, tuple(names), shape
        self.policies, self.caching, self.pace, self.asked = policies, caching, pace, asked
        self.weight = weight  # of an access of a cache
        self.filters = tuple(LogicalFilters(shape, i) for i in range(shape.size))
        self.clock, self.run_history = clock, RunHistory(operator, self.names, clock, log)
        self.budget = ProfilingBudget(shape.size)
        # Who looks now and then begins without: nothing is known yet of what a look could win.
        self.in_profiling_run, self.quiet_run = (
            pace.longest_quiet_run == 0 or self.budget.affords_profiling_run(),
            pace.quiet_run,
        )
        self.left = pace.profiling_run  # of the run: elements still to come
        self.profiling_runs_due = 1  # windows are empty at first: what is seen then is not worth a second look
        all_after = np.triu(np.ones((shape.size - 1, shape.size - 1), np.bool_), 1)
        self._sees_all = [bool((p.reach >= all_after).all()) for p in policies or ()]
        self._both = 1.0  # elements that came or left for each that came, of late
        self.elements = 0
        self._start_over()

    def _start_over(self) -> None:
        """With what was learned, but nothing that was going on."""
        shape = self.shape
        self.since = self.clock.nanoseconds()  # the beginning of the run
        self.probe_monitor = ProbeMonitor()
        self._shares, self._each = [1.0] * shape.size, 0.0  # elements by input, and accesses an element, of late
        self._profiles: list[Int64s] = []
        self._told = self._untold = [[0] * shape.size] * shape.size  # by pipeline: samples, dropped by each filter
        self._kept_back = 0  # looks of which the policies know nothing
        self._arrived = self._left = [0] * shape.size  # by input, since the policies last spoke
        self._taken = [0] * shape.size  # samples of the look that goes on, by pipeline
        self._due = False  # whether a look waits for nothing but to be paid for
        self._learning = 0  # accesses of that look that were made only to learn
        self._stores, self.sizes = CacheProfiles(self.weight), CacheSizes()
        self._next, self._came = np.zeros(shape.size, np.int64), np.zeros(shape.size, np.int64)
        self._counted: list[int] = []  # when the stretch began
        # The stretch of a quiet run that goes on, if one does: of which join, and how many elements it has at most.
        self._going: JoinArrays | None = None
        self._stretch = self._so_far = self._now = 0

    def attach(self, arrays: JoinArrays, orders: Sequence[tuple[int, ...]] | None = None) -> None:
        """Put a join under this plan, before its first element or after it was restored."""
        if self.policies is not None:
            arrays.logical = tuple(f.paths for f in self.filters)
        orders = list(arrays.orders) if orders is None else list(orders)
        sizes = None
        if self.caching is not None:
            self.run_history.decided(self.caching.orders(orders, None))
            sizes = self.sizes.fit(arrays, self.caching)
        self._plan(arrays, orders, sizes)

    # ── before and after a run ────────────────────────────────────────────────────────────────────────────────────

    def begin(self, arrays: JoinArrays, next_event: Int64s, lengths: Sequence[int]) -> int:
        self._next = next_event
        if self._going is not None:
            self._came -= next_event
            self.run_history.resume()
            return self._stretch - self._so_far
        before, self._counted = next_event.tolist(), arrays.counters.tolist()
        self._came[:] = -next_event
        self.run_history.begin(accesses(arrays, self._counted))
        arrays.profiling = self.in_profiling_run
        if self.in_profiling_run:
            waiting = [n - b for n, b in zip(lengths, before, strict=True)]
            share = min(1.0, self.left / max(1, sum(waiting)))
            counts = [math.ceil(n * share) for n in waiting]
            chosen = [[b + n for n in s] for b, s in zip(before, self._samples(counts), strict=True)]
            leaving = [max(1, n // len(c)) if c else 0 for n, c in zip(counts, chosen, strict=True)]
            arrays.sample(chosen, max(256, 2 * sum(map(len, chosen)) + 64), leaving)
            arrays.pause_after()
            return self.left
        arrays.sample_none()
        check, most = self._check, self.probe_monitor.most(self._both * self._check)
        if self.pace.longest_quiet_run > 0 and not self.budget.affords_profiling_run(alarmed=True):
            # Nothing that is seen before could be looked at.
            check, most = self.left, max(CHECK_ELEMENTS, self.budget.missing(alarmed=True))
        self.probe_monitor.begin(arrays.rows())
        arrays.pause_after(most)
        self._going, self._stretch, self._so_far = arrays, min(self.left, check), 0
        return self._stretch

    def _samples(self, counts: Sequence[int]) -> Iterator[Sequence[int]]:
        """By input, which of its next elements are profiled. A look may see its elements in many small pieces: at each
        it has taken its share of what it is to take in all."""
        part = (self.pace.profiling_run - self.left + sum(counts)) / self.pace.profiling_run
        least = SAMPLES_FOR_ORDERS if self.policies is not None and self.pace.longest_quiet_run else 0
        collecting = self.caching is not None and bool(self.caching.profiled)
        if not collecting and self.caching is not None and self.caching.used:
            least = max(least, SAMPLES_FOR_USED_CACHES)
        asks = self.policies is not None and not self._idle
        for i, count in enumerate(counts):
            wanted: Sequence[int] = self.policies[i].wants_profile(count).tolist() if asks and count else ()  # type: ignore[index]
            due = int(part * (max(least, SAMPLES_FOR_CANDIDATE_CACHES) if collecting else least)) - self._taken[i]
            many = min(count, max(0, due, count // ELEMENTS_PER_CACHE_SAMPLE if collecting else 0))
            if many > len(wanted):
                spread = [n * count // many for n in range(many)]
                wanted = sorted({*wanted, *spread}) if wanted else spread
            self._taken[i] += len(wanted)
            yield wanted

    def end(self, arrays: JoinArrays, now: int) -> None:
        self._came += self._next
        self._now = now
        if self._going is not None:
            # Elements may come in many small pieces, and to keep books of each would cost more than to join it.
            self._so_far = int(self._came.sum())
            probes, most = arrays.counters[k.CN_PROBES], arrays.counters[k.CN_MAX_PROBES]
            since = (
                self._so_far + self.probe_monitor.done[-1]
            )  # the last check, or what was closed because somebody asked
            if 2 * since < self._stretch and probes < most and not self._late:
                self.run_history.rest()
                return
        looked = self.in_profiling_run and arrays.counters[k.CN_SAMPLES] > 0
        done = self._account(arrays)
        if looked:
            self._profiles.append(arrays.profiles().copy())
        moved = not self.in_profiling_run and self._moved(arrays, done)  # also if the run is over: a look may see less
        if self.left > 0 and not moved and not (self._due and self._affords_profiling_run):
            return
        if self.in_profiling_run or (self.caching is not None and self.caching.used):
            self._reoptimize(arrays, now)
        elif self._affords_profiling_run:
            self._pace(False)  # nothing was looked at
        else:
            self._due = True
            self.since = self.clock.nanoseconds()
            earned = (self._each + 1) * self._both  # for each element that comes
            self.left = int(min(self.quiet_run, max(self._check, self.budget.missing() / earned)))

    @property
    def _affords_profiling_run(self) -> bool:
        return self.pace.longest_quiet_run == 0 or self.budget.affords_profiling_run(self.profiling_runs_due > 1)

    def _account(self, arrays: JoinArrays) -> Done:
        """Enter what was done since the stretch began, which is over.

        Lists: this is done every few thousand elements, and arrays of a few numbers cost more than the numbers."""
        self._going = None
        counters = arrays.counters.tolist()
        arrived = self._came.tolist()
        counted = [a - b for a, b in zip(counters, self._counted, strict=True)]
        gone, many = counted[k.CN_LEFT :], sum(arrived)
        elements = many + sum(gone)
        self.elements += elements
        work = self.run_history.end(arrays.orders, accesses(arrays, counters), self._now, elements)
        self.budget.earn(work, elements)
        self._learning += counted[k.CN_PROFILING]
        self._arrived = [a + b for a, b in zip(self._arrived, arrived, strict=True)]
        self._left = [a + b for a, b in zip(self._left, gone, strict=True)]
        self.left -= many
        if elements:
            self._both = min(2.0, elements / many) if many else self._both  # after a gap many leave at once
            self._each = (counted[k.CN_PROBES] + counted[k.CN_LINKS]) / elements
        return counted[k.CN_PROBES], work - counted[k.CN_PROBES] - counted[k.CN_LINKS], elements

    def _close(self) -> None:
        """Enter what was done so far, for somebody asks. The next element begins another stretch."""
        if self._going is not None:
            self.probe_monitor.add(self._account(self._going))

    @property
    def _late(self) -> bool:
        return self.clock.nanoseconds() - self.since > QUIET_RUN_SECONDS * 1e9

    @property
    def _check(self) -> int:
        """Elements. The longer all has been quiet, the longer a change may go unseen: a small share of the run."""
        return min(RAREST_CHECK_ELEMENTS, max(CHECK_ELEMENTS, self.quiet_run // CHECKS_PER_QUIET_RUN))

    def _moved(self, arrays: JoinArrays, done: Done) -> bool:
        """Whether a quiet run is to end early: the data have changed, or it is time."""
        if not self.probe_monitor.moved(done, arrays.rows(), self._check):
            return self._late
        self.quiet_run, self.profiling_runs_due = self.pace.quiet_run, PROFILING_RUNS_AFTER_ALARM
        for policy in self.policies or ():
            policy.alarm()
        return True

    def _reoptimize(self, arrays: JoinArrays, now: int) -> None:
        """A run is over: let the policies speak."""
        arrived, counts = self._arrived, [a + b for a, b in zip(self._arrived, self._left, strict=True)]
        self._arrived = self._left = [0] * self.shape.size
        changed = False
        orders = list(arrays.orders)
        profiles = self._by_input()
        self._shares = [n / max(1, sum(counts)) for n in counts]
        little = True
        for i in range(self.shape.size) if self.policies is not None and self._news(profiles) else ():
            decision = self._order(i, profiles[i], now)
            if decision is not None:
                order = self.filters[i].order_of(self.policies[i].order)  # type: ignore[index]
                if order != orders[i]:
                    self.run_history.decided([self._named(decision, i, orders[i], order)])
                    orders[i] = order
                    changed = True
                    saved = float(decision.evidence.get("saved", np.inf)) * self._shares[i]
                    little = little and saved <= NEGLIGIBLE_SAVING_SHARE * self._each
        if self.caching is not None:
            made = self._cache(arrays, profiles, orders, counts, arrived, now, changed)
            little = little and made == changed
            changed = made
        elif changed:
            self._plan(arrays, orders)
        self._pace(changed and not little)

    def _by_input(self) -> list[Int64s]:
        """The profiles of the run that is over."""
        parts, self._profiles = self._profiles, []
        if not parts:
            return [np.empty((0, 3 * self.shape.size - 1), np.int64)] * self.shape.size
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return [rows[rows[:, 0] == i] for i in range(self.shape.size)]

    def _pace(self, changed: bool) -> None:
        self.since, self._due = self.clock.nanoseconds(), False
        self.probe_monitor.run_over()
        self._taken = [0] * self.shape.size
        if self.pace.longest_quiet_run == 0:
            self.left = self.pace.profiling_run
            return
        if changed:
            self.quiet_run, self.profiling_runs_due = (
                self.pace.quiet_run,
                max(self.profiling_runs_due, PROFILING_RUNS_AFTER_NEW_ORDER),
            )
        if changed or self.in_profiling_run:
            self.probe_monitor.profiling_run_over(changed)
        if self.in_profiling_run:
            self.budget.spend(self._learning)
            if changed:
                self.budget.win()
            self._learning = 0
            # Nobody who looked hard has seen a better order: once was enough.
            self.profiling_runs_due = 0 if self._content else max(0, self.profiling_runs_due - 1)
            self.in_profiling_run = self.profiling_runs_due > 0
        else:
            self.quiet_run = min(QUIET_RUN_GROWTH * self.quiet_run, self.pace.longest_quiet_run)
            self.in_profiling_run = True
        self.in_profiling_run = self.in_profiling_run and self._affords_profiling_run
        self.left = self.pace.profiling_run if self.in_profiling_run else self.quiet_run

    @property
    def _content(self) -> bool:
        """Whether all the better orders that are suspected would spare too little to look for them."""
        hoped = [p.hoped for p in self.policies or ()]
        # An input without elements contributes nothing.
        spared = sum(h * s for h, s in zip(hoped, self._shares, strict=False) if s)
        return spared <= NEGLIGIBLE_SAVING_SHARE * self._each

    @property
    def _idle(self) -> bool:
        """Looks are a matter of routine: nothing has happened, and nobody suspects a better order."""
        return self.pace.longest_quiet_run > 0 and self.profiling_runs_due == 0 and self._content

    def _news(self, profiles: Sequence[Int64s]) -> bool:
        """Whether policies are to be told of a look, which costs more than the look: if it is no matter of routine, or
        if what the filters drop has moved by more than chance since they were told. Once in a while they are told
        anyway, for what all filters together drop can change while none of them does."""
        m = self.shape.size
        if self.pace.longest_quiet_run == 0:
            return True
        if not any(map(len, profiles)):
            return False
        seen = [[len(rows), *np.count_nonzero(rows[:, 1:m] < 0, axis=0).tolist()] for rows in profiles]
        self._untold = [[a + b for a, b in zip(*both, strict=True)] for both in zip(self._untold, seen, strict=True)]
        self._kept_back += 1
        if (
            self._idle
            and self._kept_back < ROUTINE_RUNS_PER_REPORT
            and unlikely(self._told, self._untold) < SIGNIFICANT_DEVIATIONS
        ):
            return False
        self._told, self._untold, self._kept_back = seen, [[0] * m] * m, 0
        return True

    # ── orders ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _order(self, i: int, rows: Int64s, now: int) -> Decision | None:
        """Tell the policy of a pipeline what the sampled elements met, as if the samples had been the batch."""
        assert self.policies is not None
        policy, m = self.policies[i], self.shape.size
        if len(rows):
            work = rows[:, 1:m]
            dropped = work < 0
            order = list(policy.order)
            in_order = dropped[:, order]
            place = np.where(in_order.any(1), in_order.argmax(1), m - 1)  # where each was dropped
            gone = np.bincount(place, minlength=m)
            passed = len(rows) - gone[: m - 1].cumsum()  # each position
            rows_in, rows_out = np.zeros(m - 1, np.int64), np.zeros(m - 1, np.int64)
            rows_in[order], rows_out[order] = passed + gone[: m - 1], passed
            price = np.abs(work).mean(0)
            policy.processed(rows_in, rows_out, np.where(rows_in > 0, price, np.nan))
            if not self._sees_all[i]:  # a bit that the policy did not ask for is no drop
                beyond = np.arange(m - 1)[None, :] > place[:, None]
                in_order &= ~beyond | policy.reach[np.minimum(place, m - 2)]
                dropped = np.empty_like(dropped)
                dropped[:, order] = in_order
            policy.profiled(dropped, price)
        return policy.decide(now)

    def _named(self, decision: Decision, i: int, before: tuple[int, ...], after: tuple[int, ...]) -> Decision:
        labels = ["⋈".join(self.names[x] for x in path) for path in self.filters[i].paths]
        return replace(
            decision,
            operator=self.operator,
            kind=f"order of Δ{self.names[i]}",
            before=[self.names[x] for x in before],
            after=[self.names[x] for x in after],
            names=tuple(labels),
        )

    # ── caches ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _cache(
        self,
        arrays: JoinArrays,
        profiles: Sequence[Int64s],
        orders: list[tuple[int, ...]],
        counts: Sequence[int],
        arrived: Sequence[int],
        now: int,
        changed: bool,
    ) -> bool:
        caching = self.caching
        assert caching is not None
        # Caches are for given orders (5.5): those come first.
        settled = not changed and (self.profiling_runs_due <= 1 or self.pace.longest_quiet_run == 0)
        # After an alarm new orders may come; but a cache that no longer pays goes at once.
        alarmed = not changed and not settled and not self.in_profiling_run
        if settled or alarmed:
            self._stores.tell(caching, arrays, profiles, counts, arrived)
        else:
            self._stores.pass_over(arrays)
        made = caching.orders(orders, now) if changed else []
        before = (caching.used, caching.profiled)
        if settled:
            made += caching.decide(now, self.elements)
        elif alarmed:
            made += caching.monitor(now, self.elements)
        self.run_history.decided(made)
        sizes = self.sizes.fit(arrays, caching)
        if changed or sizes or before != (caching.used, caching.profiled) or made:
            self._plan(arrays, orders, sizes)
        return changed or bool(made)

    def _plan(
        self, arrays: JoinArrays, orders: Sequence[tuple[int, ...]], sizes: Mapping[Any, Any] | None = None
    ) -> None:
        self.run_history.orders = [tuple(o) for o in orders]
        caching = self.caching
        if caching is None:
            arrays.set_plan(orders)
            return
        used = [s for s in specs(caching.used) if self.sizes.has_room(s)]
        kept = [s for s in specs(caching.suspended) if s.store in arrays.cache_operators.ids and self.sizes.has_room(s)]
        bloom = self.sizes.bloom(caching)
        arrays.set_plan(orders, used, specs(caching.profiled), kept=kept, sizes=sizes, bloom=bloom)

    # ── what it did ───────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self, arrays: JoinArrays) -> list[str]:
        self._close()
        return self.run_history.describe(self, arrays)

    def statistics(self, arrays: JoinArrays) -> dict[str, Any]:
        self._close()
        return self.run_history.statistics(self, arrays)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """What was learned. What caches hold is not state: they fill again."""
        self._close()
        return {
            "names": list(self.names),
            "orders": [list(o) for o in self.run_history.orders],
            "asked": self.asked,
            "policies": None if self.policies is None else [p.state() for p in self.policies],
            "caching": None if self.caching is None else self.caching.state(),
            "elements": self.elements,
            "run": [int(self.in_profiling_run), self.left, self.quiet_run, self.profiling_runs_due],
            "budget": self.budget.held,
            "books": self.run_history.state(),
        }

    def load(self, state: Mapping[str, Any], arrays: JoinArrays) -> None:
        """Go on with what another learned about the same join under the same policies; else learn anew."""
        self._start_over()
        if list(state["names"]) != list(self.names) or "policies" not in state:  # of a plan that stayed
            self.attach(arrays)
            return
        orders = [tuple(int(x) for x in o) for o in state["orders"]] or list(arrays.orders)
        saved = state["policies"]
        run = state["run"]
        if self.policies is None or saved is None or state["asked"] != self.asked:
            orders = list(arrays.orders)
            run = run if self.policies is None and saved is None else None
        else:
            for policy, mine in zip(self.policies, saved, strict=True):
                policy.load(mine)
        self.elements = int(state["elements"])
        if run is not None:
            looking, self.left, self.quiet_run, self.profiling_runs_due = (int(x) for x in run)
            self.in_profiling_run = bool(looking)
            self.budget.held = float(state.get("budget", 0.0))  # a snapshot of an earlier version has none
        if self.pace.longest_quiet_run == 0:
            self.in_profiling_run, self.left = True, max(1, min(self.left, self.pace.profiling_run))
        self.run_history.load(state["books"])
        learned = state["caching"]
        if self.caching is not None and learned is not None and learned.get("given") == self.caching.given:
            self.caching.load(learned)
        self.attach(arrays, orders)


def unlikely(before: Sequence[Sequence[int]], now: Sequence[Sequence[int]]) -> float:
    """By how many standard deviations the share that has moved most has moved; rows are samples, then drops by filter.

    >>> round(unlikely([[100, 50, 20]], [[400, 200, 140]]), 1)
    2.9
    """
    most = 0.0
    for (many, *dropped), (more, *lately) in zip(before, now, strict=True):
        for was, is_now in zip(dropped, lately, strict=True) if many and more else ():
            pooled = (was + is_now + 1) / (many + more + 2)  # never 0 nor 1
            deviation = math.sqrt(pooled * (1 - pooled) * (1 / many + 1 / more))
            most = max(most, abs(was / many - is_now / more) / deviation)
    return most
