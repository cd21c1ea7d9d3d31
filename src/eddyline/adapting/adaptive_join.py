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
from eddyline.adapting.join_history import JoinBooks, accesses
from eddyline.adapting.plan_hold import PlanHold, held_decision
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.adaptive.joins.probe_monitor import CHECK, SELDOM, Done, Watch
from eddyline.adaptive.joins.profiling_budget import LookBudget
from eddyline.adaptive.joins.shape import LogicalFilters, Shape
from eddyline.core.delta import Int64s
from eddyline.core.time import Clock
from eddyline.kernels import join_layout as k
from eddyline.operators.join_arrays import JoinArrays
from eddyline.streamon.decision import Decision
from eddyline.streamon.log import DecisionLog

LOOK, QUIET, LONGEST = 4096, 1 << 16, 1 << 20  # elements
LONGER = 4  # times as long is a quiet run as the one before, if the look between them showed nothing
HARD, AGAIN = 3, 2  # looks in a row after an alarm, and after a new order
PATIENCE = 2.0  # seconds after which a quiet run ends whatever it has seen: the thesis's re-optimisation interval
ENOUGH, SOME = 12, 6  # samples of a pipeline in a look, if A-Caching is collecting or has caches: they use none
LITTLE = 0.01  # of the accesses of an element: what spares less is taken where it is found, and not looked for
CHANCE, OFTEN = 3.0, 8  # standard deviations that are chance; looks of which policies are told at least one
FEW = 96  # or one in so many
PLENTY = 96  # samples of a pipeline in a look of the default, where looks are rare: enough to be certain of an order


@dataclass(frozen=True, slots=True)
class Pace:
    """How many elements a look has, and a quiet run at first and at most. ``longest`` 0: there are only looks."""

    look: int = LOOK
    quiet: int = QUIET
    longest: int = LONGEST


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
        self.operator, self.names, self.shape = operator, tuple(names), shape
        self.policies, self.caching, self.pace, self.asked = policies, caching, pace, asked
        self.weight = weight  # of an access of a cache
        self.filters = tuple(LogicalFilters(shape, i) for i in range(shape.size))
        self.clock, self.books = clock, JoinBooks(operator, self.names, clock, log)
        self.budget = LookBudget(shape.size)
        # What keeps the orders, by pipeline, and the caches as they are.
        self.holds = [PlanHold(shape.size - 1) for _ in range(shape.size)]
        self.cache_hold = PlanHold((shape.size - 1) * shape.size)
        # Who looks now and then begins without: nothing is known yet of what a look could win.
        self.looking, self.quiet = pace.longest == 0 or self.budget.affords_look(), pace.quiet
        self.left = pace.look  # of the run: elements still to come
        self.hard = 1  # windows are empty at first: what is seen then is not worth a second look
        all_after = np.triu(np.ones((shape.size - 1, shape.size - 1), np.bool_), 1)
        self._sees_all = [bool((p.reach >= all_after).all()) for p in policies or ()]
        self._both = 1.0  # elements that came or left for each that came, of late
        self.elements = 0
        self._start_over()

    def _start_over(self) -> None:
        """With what was learned, but nothing that was going on."""
        shape = self.shape
        self.since = self.clock.nanoseconds()  # the beginning of the run
        self.watch = Watch()
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
            self.books.decided(self.caching.orders(orders, None))
            sizes = self.sizes.fit(arrays, self.caching)
        self._plan(arrays, orders, sizes)

    # ── before and after a run ────────────────────────────────────────────────────────────────────────────────────

    def begin(self, arrays: JoinArrays, next_event: Int64s, lengths: Sequence[int]) -> int:
        self._next = next_event
        if self._going is not None:
            self._came -= next_event
            self.books.resume()
            return self._stretch - self._so_far
        before, self._counted = next_event.tolist(), arrays.counters.tolist()
        self._came[:] = -next_event
        self.books.begin(accesses(arrays, self._counted))
        arrays.profiling = self.looking
        if self.looking:
            waiting = [n - b for n, b in zip(lengths, before, strict=True)]
            share = min(1.0, self.left / max(1, sum(waiting)))
            counts = [math.ceil(n * share) for n in waiting]
            chosen = [[b + n for n in s] for b, s in zip(before, self._samples(counts), strict=True)]
            leaving = [max(1, n // len(c)) if c else 0 for n, c in zip(counts, chosen, strict=True)]
            arrays.sample(chosen, max(256, 2 * sum(map(len, chosen)) + 64), leaving)
            arrays.pause_after()
            return self.left
        arrays.sample_none()
        check, most = self._check, self.watch.most(self._both * self._check)
        if self.pace.longest > 0 and not self.budget.affords_look(alarmed=True):
            # Nothing that is seen before could be looked at.
            check, most = self.left, max(CHECK, self.budget.missing(alarmed=True))
        self.watch.begin(arrays.rows())
        arrays.pause_after(most)
        self._going, self._stretch, self._so_far = arrays, min(self.left, check), 0
        return self._stretch

    def _samples(self, counts: Sequence[int]) -> Iterator[Sequence[int]]:
        """By input, which of its next elements are profiled. A look may see its elements in many small pieces: at each
        it has taken its share of what it is to take in all."""
        part = (self.pace.look - self.left + sum(counts)) / self.pace.look
        least = PLENTY if self.policies is not None and self.pace.longest else 0
        collecting = self.caching is not None and bool(self.caching.profiled)
        if not collecting and self.caching is not None and self.caching.used:
            least = max(least, SOME)
        asks = self.policies is not None and not self._idle
        for i, count in enumerate(counts):
            wanted: Sequence[int] = self.policies[i].wants_profile(count).tolist() if asks and count else ()  # type: ignore[index]
            due = int(part * (max(least, ENOUGH) if collecting else least)) - self._taken[i]
            many = min(count, max(0, due, count // FEW if collecting else 0))
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
            probes, most = arrays.counters[k.CN_PROBES], arrays.counters[k.CN_MOST]
            since = self._so_far + self.watch.done[-1]  # the last check, or what was closed because somebody asked
            if 2 * since < self._stretch and probes < most and not self._late:
                self.books.rest()
                return
        looked = self.looking and arrays.counters[k.CN_SAMPLES] > 0
        done = self._account(arrays)
        if looked:
            self._profiles.append(arrays.profiles().copy())
        moved = not self.looking and self._moved(arrays, done)  # also if the run is over: a look may see less
        if self.left > 0 and not moved and not (self._due and self._affords_look):
            return
        if self.looking or (self.caching is not None and self.caching.used):
            self._reoptimize(arrays, now)
        elif self._affords_look:
            self._pace(False)  # nothing was looked at
        else:
            self._due = True
            self.since = self.clock.nanoseconds()
            earned = (self._each + 1) * self._both  # for each element that comes
            self.left = int(min(self.quiet, max(self._check, self.budget.missing() / earned)))

    @property
    def _affords_look(self) -> bool:
        return self.pace.longest == 0 or self.budget.affords_look(self.hard > 1)

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
        work = self.books.end(arrays.orders, accesses(arrays, counters), self._now, elements)
        self.budget.earn(work, elements)
        self._learning += counted[k.CN_PROFILING]
        self._arrived = [a + b for a, b in zip(self._arrived, arrived, strict=True)]
        self._left = [a + b for a, b in zip(self._left, gone, strict=True)]
        self.left -= many
        if elements:
            self._both = min(2.0, elements / many) if many else self._both  # after a gap many leave at once
            self._each = (counted[k.CN_PROBES] + counted[k.CN_LINKS]) / elements
        return counted[k.CN_PROBES], work - counted[k.CN_PROBES] - counted[k.CN_LINKS], elements

    def close(self) -> None:
        """Enter what was done so far, for somebody asks. The next element begins another stretch."""
        if self._going is not None:
            self.watch.add(self._account(self._going))

    @property
    def _late(self) -> bool:
        return self.clock.nanoseconds() - self.since > PATIENCE * 1e9

    @property
    def _check(self) -> int:
        """Elements. The longer all has been quiet, the longer a change may go unseen: a small share of the run."""
        return min(SELDOM, max(CHECK, self.quiet // OFTEN))

    def _moved(self, arrays: JoinArrays, done: Done) -> bool:
        """Whether a quiet run is to end early: the data have changed, or it is time."""
        if not self.watch.moved(done, arrays.rows(), self._check):
            return self._late
        self.quiet, self.hard = self.pace.quiet, HARD
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
                order = self.filters[i].order_of(decision.after)
                if order != orders[i] and not decision.applied:
                    self.books.log.record(self._named(decision, i, orders[i], order))
                elif order != orders[i]:
                    self.books.decided([self._named(decision, i, orders[i], order)])
                    orders[i] = order
                    changed = True
                    saved = float(decision.evidence.get("saved", np.inf)) * self._shares[i]
                    little = little and saved <= LITTLE * self._each
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
        self.watch.run_over()
        self._taken = [0] * self.shape.size
        if self.pace.longest == 0:
            self.left = self.pace.look
            return
        if changed:
            self.quiet, self.hard = self.pace.quiet, max(self.hard, AGAIN)
        if changed or self.looking:
            self.watch.looked(changed)
        if self.looking:
            self.budget.spend(self._learning)
            if changed:
                self.budget.win()
            self._learning = 0
            # Nobody who looked hard has seen a better order: once was enough.
            self.hard = 0 if self._content else max(0, self.hard - 1)
            self.looking = self.hard > 0
        else:
            self.quiet = min(LONGER * self.quiet, self.pace.longest)
            self.looking = True
        self.looking = self.looking and self._affords_look
        self.left = self.pace.look if self.looking else self.quiet

    @property
    def _content(self) -> bool:
        """Whether all the better orders that are suspected would spare too little to look for them."""
        hoped = [p.hoped for p in self.policies or ()]
        # An input without elements contributes nothing.
        spared = sum(h * s for h, s in zip(hoped, self._shares, strict=False) if s)
        return spared <= LITTLE * self._each

    @property
    def _idle(self) -> bool:
        """Looks are a matter of routine: nothing has happened, and nobody suspects a better order."""
        return self.pace.longest > 0 and self.hard == 0 and self._content

    def _news(self, profiles: Sequence[Int64s]) -> bool:
        """Whether policies are to be told of a look, which costs more than the look: if it is no matter of routine, or
        if what the filters drop has moved by more than chance since they were told. Once in a while they are told
        anyway, for what all filters together drop can change while none of them does."""
        m = self.shape.size
        if self.pace.longest == 0:
            return True
        if not any(map(len, profiles)):
            return False
        seen = [[len(rows), *np.count_nonzero(rows[:, 1:m] < 0, axis=0).tolist()] for rows in profiles]
        self._untold = [[a + b for a, b in zip(*both, strict=True)] for both in zip(self._untold, seen, strict=True)]
        self._kept_back += 1
        if self._idle and self._kept_back < OFTEN and unlikely(self._told, self._untold) < CHANCE:
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
            self.holds[i].add(rows_in, rows_out)
        self.policies[i], decision = held_decision(self.holds[i], policy, now)
        return decision

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
        settled = not changed and (self.hard <= 1 or self.pace.longest == 0)
        # After an alarm new orders may come; but a cache that no longer pays goes at once.
        alarmed = not changed and not settled and not self.looking
        if settled or alarmed:
            self._stores.tell(caching, arrays, profiles, counts, arrived)
        else:
            self._stores.pass_over(arrays)
        if self.cache_hold.waiting and any(map(len, profiles)):
            seen = [(len(r), np.count_nonzero(r[:, x] >= 0)) for r in profiles for x in range(1, self.shape.size)]
            self.cache_hold.add(*np.array(seen, np.int64).T)
        made = caching.orders(orders, now) if changed else []
        before = (caching.used, caching.profiled)
        if self.cache_hold.pinned:
            self._suggest(caching.would_decide(now, self.elements) if settled else [])
        elif settled and self.cache_hold.lets_decide():
            made += caching.decide(now, self.elements)
        elif alarmed and not self.cache_hold.waiting:
            made += caching.monitor(now, self.elements)
        self.books.decided(made)
        sizes = self.sizes.fit(arrays, caching)
        if changed or sizes or before != (caching.used, caching.profiled) or made:
            self._plan(arrays, orders, sizes)
        return changed or bool(made)

    def _suggest(self, made: Sequence[Decision]) -> None:
        """Enter what would have been done to caches that are pinned."""
        if made and self.cache_hold.lets_decide():
            for decision in made:
                self.books.log.record(replace(decision, applied=False))
            self.cache_hold.wait(reported=True)

    def replan(self, arrays: JoinArrays, orders: Sequence[tuple[int, ...]] | None = None) -> None:
        """Somebody else has changed the orders, or what the caches may do: put it into force between two elements."""
        self.close()
        orders = list(arrays.orders) if orders is None else list(orders)
        sizes = None
        if self.caching is not None:
            self.books.decided(self.caching.orders(orders, self._now))
            sizes = self.sizes.fit(arrays, self.caching)
            self._stores.pass_over(arrays)
        self._plan(arrays, orders, sizes)

    def _plan(
        self, arrays: JoinArrays, orders: Sequence[tuple[int, ...]], sizes: Mapping[Any, Any] | None = None
    ) -> None:
        self.books.orders = [tuple(o) for o in orders]
        caching = self.caching
        if caching is None:
            arrays.set_plan(orders)
            return
        used = [s for s in specs(caching.used) if self.sizes.has_room(s)]
        kept = [s for s in specs(caching.suspended) if s.store in arrays.stations.ids and self.sizes.has_room(s)]
        bloom = self.sizes.bloom(caching)
        arrays.set_plan(orders, used, specs(caching.profiled), kept=kept, sizes=sizes, bloom=bloom)

    # ── what it did ───────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self, arrays: JoinArrays) -> list[str]:
        self.close()
        return self.books.describe(self, arrays)

    def statistics(self, arrays: JoinArrays) -> dict[str, Any]:
        self.close()
        return self.books.statistics(self, arrays)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """What was learned. What caches hold is not state: they fill again."""
        self.close()
        return {
            "names": list(self.names),
            "orders": [list(o) for o in self.books.orders],
            "asked": self.asked,
            "policies": None if self.policies is None else [p.state() for p in self.policies],
            "caching": None if self.caching is None else self.caching.state(),
            "elements": self.elements,
            "run": [int(self.looking), self.left, self.quiet, self.hard],
            "budget": self.budget.held,
            "holds": [h.state() for h in (*self.holds, self.cache_hold)],
            "books": self.books.state(),
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
            looking, self.left, self.quiet, self.hard = (int(x) for x in run)
            self.looking = bool(looking)
            self.budget.held = float(state.get("budget", 0.0))  # a snapshot of an earlier version has none
        if self.pace.longest == 0:
            self.looking, self.left = True, max(1, min(self.left, self.pace.look))
        self.books.load(state["books"])
        for hold, saved in zip((*self.holds, self.cache_hold), state.get("holds", ()), strict=False):
            hold.load(saved)
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
