"""A-Caching: keeps the best set of caches in the pipelines of an MJoin as conditions change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar

from eddyline.adaptive.joins import reasons
from eddyline.adaptive.joins.cache_states import CacheStates
from eddyline.adaptive.joins.candidates import Candidate, Store
from eddyline.adaptive.joins.memory import Allocation, priorities
from eddyline.adaptive.joins.memory_selection import Ample, select_within
from eddyline.adaptive.joins.model import Statistics, Value, upkeep
from eddyline.adaptive.joins.parameters import A_CACHING
from eddyline.adaptive.joins.profiler import Profiler
from eddyline.adaptive.joins.selection import select
from eddyline.adaptive.joins.shape import Orders, Shape
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import Parameter

# Of the interval:
_WAIT_SHARE = 0.25  # for which a selection waits for the slowest candidate: less decides sooner, on fewer candidates
_RATE_SHARE = 0.5  # over which rates are averaged: less follows changes sooner, and more noise
_FILL_INTERVALS = 4  # for which a new cache may fill before it is judged: more is fairer to slow ones, and costs longer

# Selections after a jump that are not the last word: at first windows hold what came before it.
_SELECTIONS_AFTER_JUMP = 2

# Profiled elements of a pipeline in an average: one in so many of an interval, within these limits. More are surer,
# fewer are sooner there.
_ELEMENTS_PER_SAMPLE, _MIN_SAMPLES, _MAX_SAMPLES = 400, 64, 512


class ACaching:
    """The Re-optimizer of section 5.5.5: every candidate cache is *used*, *profiled* or *unused* (Figure 5.9).

    All candidates start as profiled. When each has W observations of everything, the offline algorithm selects the
    caches to use; the others are unused. After an interval the unused ones are profiled again, and with them those used
    caches that hide the probes of an unused one (inefficiency *b* of the thesis). In between, a used cache that costs
    more than it brings is dropped at once (*a*), and a selection is computed only if a benefit or cost has moved by
    more than the threshold since the last (*c*). When pipelines are re-ordered, caches in them are dropped, and those
    elsewhere that the new orders no longer maintain; new candidates start as profiled.

    A candidate that few tuples reach may not have its W observations in time; after a quarter of the interval the
    selection goes ahead with those that have at least one, if any has. A cache starts empty: while it fills, for an
    interval and until the window of its pipeline is another, it is judged by the misses that were predicted if it has
    more. A rate that jumps by more than the threshold ends the interval, and after the next selection, or the next two,
    profiling goes on: benefits and costs are then others, and change until windows hold what came since.

    Parameters
    ----------
    interval, interval_time
        Tuples (or ticks of ``now``) between re-optimisations. Less notices sooner that a cache would help, and profiles
        more; that a cache no longer helps is noticed at once either way.
    W
        Observations in an average. More are steadier and slower.
    m
        Most candidates, if globally-consistent caches are among them (section 5.7); 0 for none of these.
    threshold
        Relative change that calls for a new selection.
    W_d, alpha_bits
        Probes over which distinct keys of a profiled candidate are counted, and bits for each.
    global_caches
        Whether globally-consistent caches are candidates at all.
    memory, page
        Bytes for all caches (None: as much as they want), and of a page.

    R⋈S⋈T on a chain; T is eight times as fast as R and S, and its keys repeat:

    >>> chain = Shape(3, (frozenset({0, 1}), frozenset({1, 2})))
    >>> policy = ACaching(chain, "RST", W=2)
    >>> policy.orders([(1, 2), (0, 2), (1, 0)], now=0)
    []
    >>> policy.rates((10, 10, 80), 100)
    >>> for pipeline in (0, 1, 2):
    ...     for _ in range(2):
    ...         policy.observe(pipeline, deltas=(1, 1, 1), taus=(1.0, 1.0))
    >>> for candidate, bits in zip(policy.profiled, (100, 20)):
    ...     for _ in range(2):
    ...         policy.distinct(candidate, bits, 100)
    ...     policy.costs(candidate, 0.5, 0.5)
    >>> decision, = policy.decide(now=7, tuples=1000)
    >>> decision.before, decision.after, round(decision.expected_gain, 2)
    ((), ('R⋈S in ΔT',), 1.54)
    >>> print(decision.reason)
    R⋈S in ΔT spares 0.8 of 1.6 and costs 0.1 to maintain, missing 20 % of its probes

    S. Babu, K. Munagala, J. Widom, R. Motwani: Adaptive Caching for Continuous Queries, ICDE 2005; S. Babu: Adaptive
    Query Processing in Data Stream Management Systems, Stanford 2005, sections 5.5 to 5.7.
    """

    name: ClassVar[str] = "a-caching"
    parameters: ClassVar[tuple[Parameter, ...]] = A_CACHING

    def __init__(
        self,
        shape: Shape,
        names: Sequence[str],
        *,
        interval: int = 10_000,
        interval_time: int | None = None,
        W: int = 10,
        m: int = 6,
        threshold: float = 0.2,
        W_d: int = 128,
        alpha_bits: int = 8,
        global_caches: bool = True,
        memory: int | None = None,
        page: int = 4096,
        operator: str = "mjoin",
    ) -> None:
        given = locals()
        for parameter in self.parameters:
            if given[parameter.name] is not None:
                parameter.check(self.name, given[parameter.name])
        self.shape, self.names, self.operator = shape, tuple(names), operator
        self.interval, self.interval_time, self.threshold = interval, interval_time, threshold
        self.W, self.W_d, self.alpha_bits, self.m = W, W_d, alpha_bits, m if global_caches else 0
        self.given = {**{p.name: given[p.name] for p in self.parameters}, "m": self.m}  # under which it learns
        self.memory = None if memory is None else Allocation(memory, page)
        sample = min(_MAX_SAMPLES, max(_MIN_SAMPLES, interval // _ELEMENTS_PER_SAMPLE))
        self.profiler = Profiler(shape.size, W, _RATE_SHARE * interval, threshold, sample)
        self.states = CacheStates()
        self._decided: dict[Candidate, Value] = {}  # what the last selection rested on
        self._tuples = self._since = 0
        self._since_time: int | None = None
        self._jumped = False  # a rate, since the last step
        self._hasty = 0  # selections to come after which profiling goes on

    @property
    def used(self) -> tuple[Candidate, ...]:
        """The caches to probe and to maintain."""
        return self.states.used

    @property
    def profiled(self) -> tuple[Candidate, ...]:
        """The caches whose distinct keys are to be counted; without memory there is nothing to learn."""
        return () if self.memory is not None and not self.memory.budget else self.states.profiled

    @property
    def suspended(self) -> tuple[Candidate, ...]:
        """Those of the profiled that were used until now. Maintained on, they are warm if they are chosen again."""
        return self.states.suspended

    def orders(self, orders: Orders, now: int | None = None) -> list[Decision]:
        """The pipelines are now these. Caches that do not survive are dropped, new candidates are profiled."""
        if tuple(tuple(order) for order in orders) == self.states.pipelines:
            return []
        idle, before = not self.profiled, self.states.current
        done = self.states.reorder(self.shape, orders, self.m)
        self._decided = {c: v for c, v in self._decided.items() if c in done.stayed}
        self.profiler.keep(done.stayed)
        self.profiler.reordered(done.changed)
        self.profiler.orders = self.states.pipelines
        if idle:  # else a selection is due already, and does not wait longer because of this
            self._begin(now)
        if not done.lost:
            return []
        self._allocate({}, {}, self.profiler.statistics())
        lost = reasons.labels(done.lost, self.names)
        evidence = {
            "pipelines": [f"Δ{self.names[i]}" for i in done.changed],
            "reordered": done.changed,
            "dropped": lost,
            "lost": lost,
        }
        return [self._decision(now, before, reasons.REORDERED, evidence)]

    def observe(self, pipeline: int, deltas: Sequence[float], taus: Sequence[float], elements: int = 1) -> None:
        """A profiled element of a pipeline, or several together: δ_j tuples and τ_j work by operator; the last δ are
        results."""
        self.profiler.observe(pipeline, deltas, taus, elements)

    def rates(self, counts: Sequence[int], tuples: float) -> None:
        """How many of the last ``tuples`` processed came from each input."""
        self._jumped |= self.profiler.rates(counts, tuples)

    def windows(self, rows: Sequence[float]) -> None:
        """How many rows each input has now."""
        self.profiler.windows = tuple(float(r) for r in rows)

    def upkept(self, store: Store, work: float, tuples: float) -> None:
        """The work of maintaining a used cache while so many tuples were processed."""
        if any(c.store == store for c in self.used):
            self.profiler.upkept(store, work, tuples)

    def missed(self, cache: Candidate | Store, probes: int, misses: int) -> None:
        """What a used cache has seen; a store stands for all that use it."""
        for c in self.used:
            if cache in (c, c.store):
                self.profiler.missed(c, probes, misses, self._tuples)

    def distinct(self, candidate: Candidate, b: int, W_d: int, times: int = 1) -> None:
        """Of W_d tuples that would have probed a profiled cache, b keys (bits set) were distinct; so many times."""
        if self.states.of(candidate) == "profiled":
            if self._hasty:  # the last window is the one that has most of the new time in it
                self.profiler.restart(candidate)
                times = 1
            self.profiler.distinct(candidate, b, W_d, times)

    def costs(
        self,
        candidate: Candidate,
        probe_cost: float,
        update_cost: float,
        expected_bytes: float | None = None,
        row_cost: float = 0.0,
    ) -> None:
        """What a probe of this cache costs, with each row that it gives, and an update, in the unit of τ; and what
        memory it would fill."""
        if candidate in self.states:
            self.profiler.costs(candidate, probe_cost, update_cost, expected_bytes, row_cost)

    def decide(self, now: int | None, tuples: int) -> list[Decision]:
        """Step on after ``tuples`` processed in all. Decisions are in force when this returns."""
        self._tuples = tuples
        found = self._monitor(now) if self.used else []
        jumped, self._jumped = self._jumped, False
        if self.profiled and jumped:  # what they have seen until now is of another time
            for c in self.profiled:
                self.profiler.restart(c)
        # But jump after jump must not put off every selection.
        if jumped and self._hasty in (0, _SELECTIONS_AFTER_JUMP):
            self._hasty = _SELECTIONS_AFTER_JUMP - (self._hasty == _SELECTIONS_AFTER_JUMP)
            if self.profiled:
                self._begin(now)
        if self.profiled:
            if self._collected():
                found += self._reoptimize(now)
        elif self._due(now) or (jumped and self._waited(_WAIT_SHARE)):
            self._hasty -= self._hasty > 0 and not jumped
            for c in self.states.profile():
                self.profiler.restart(c)
            self._begin(now)
        return found

    def monitor(self, now: int | None, tuples: int) -> list[Decision]:
        """Drop what no longer pays, and decide nothing else."""
        self._tuples = tuples
        return self._monitor(now) if self.used else []

    # ── steered from outside ──────────────────────────────────────────────────────────────────────────────────────

    def would_decide(self, now: int | None, tuples: int) -> list[Decision]:
        """What ``decide`` would do, while the caches in use stay as they are. Candidates are profiled in turn as ever,
        but for those whose probes a cache in use hides."""
        asked = deepcopy(self)
        made = asked.decide(now, tuples)
        self._tuples, self._jumped = tuples, False
        if self.profiled and not asked.profiled:  # it has seen enough
            self.settle(now)
        elif not self.profiled and self._due(now):
            for c in self.states.profile(suspend=False):
                self.profiler.restart(c)
            self._begin(now)
        return made

    def settle(self, now: int | None = None) -> None:
        """End profiling: what was used until now is used."""
        self.use(self.states.current, now)

    def use(self, chosen: Iterable[Candidate], now: int | None = None) -> None:
        """Use these caches and no others, until the next decision."""
        statistics = self.profiler.statistics()
        for c in self.states.choose(chosen):
            self.profiler.put_to_use(c, self._tuples + self._filling(c, statistics))
        self._hasty = 0
        self._begin(now)
        self._allocate({}, {}, statistics)

    def adopt(self, caches: Iterable[Candidate]) -> None:
        """Go on with the caches of another policy, as far as they are candidates here."""
        statistics = self.profiler.statistics()
        for c in self.states.adopt(caches):
            self.profiler.put_to_use(c, self._tuples + self._filling(c, statistics))

    def resize(self, memory: int | None) -> None:
        """Another budget in bytes, None for no limit (section 5.6): if it is smaller, caches of the lowest priority
        lose their pages first; if it is larger, they ask for them again."""
        self.given["memory"] = memory
        if memory is None:
            self.memory = None
        elif self.memory is not None:
            self.memory.resize(memory)
        else:
            self.memory = Allocation(memory, self.given["page"])
            misses = self.profiler.misses(self.states.current, self._tuples)
            statistics = self.profiler.statistics()
            self._allocate(self.profiler.values(misses, statistics, self._tuples), misses, statistics)

    def _monitor(self, now: int | None) -> list[Decision]:
        """(a) Used → unused, at once, where benefit − cost is negative. Shared caches go together if together they do
        not pay, and one of them alone if it is a loss even with its maintenance paid by the others."""
        before, misses = self.states.current, self.profiler.misses(self.used, self._tuples)
        statistics = self.profiler.statistics()
        values = self.profiler.values(misses, statistics, self._tuples)
        gaining = [c for c in values if values[c].benefit >= 0]
        spent = upkeep(values, values)
        earned = {store: sum(values[c].benefit for c in gaining if c.store == store) for store in spent}
        lost = [c for c in values if values[c].benefit < 0 or earned[c.store] < spent[c.store]]
        if not lost:
            return []
        self.states.drop(lost)
        for c in lost:
            self._decided.pop(c, None)  # so that the next selection is computed, whatever the change since the last
        self._allocate(values, misses, statistics)
        benefit, cost = reasons.total(lost, values)
        evidence = {
            "caches": reasons.figures(lost, values, misses, self.names),
            "lost": reasons.labels(lost, self.names),
            "benefit": benefit,
            "upkeep": cost,
            "work": statistics.total,
        }
        return [self._decision(now, before, reasons.UNPROFITABLE, evidence, values, statistics)]

    def _reoptimize(self, now: int | None) -> list[Decision]:
        """Profiled → used or unused; (c) without a new selection while nothing has moved by the threshold."""
        before = self.states.current
        misses = self.profiler.misses((*self.used, *self.profiled), self._tuples)
        statistics = self.profiler.statistics()
        values = self.profiler.values(misses, statistics, self._tuples)
        chosen: Iterable[Candidate] = (c for c in before if c in values)
        if any(self._moved(c, values[c]) for c in values):
            chosen = self._select(values, misses, statistics, before)
            self._decided = values
        for c in self.states.choose(chosen):
            self.profiler.put_to_use(c, self._tuples + self._filling(c, statistics))
        self._begin(now)
        self._allocate(values, misses, statistics)
        if set(self.used) == set(before):
            return []
        evidence = {
            "caches": reasons.figures(values, values, misses, self.names),
            "work": statistics.total,
            **reasons.changes(before, self.used, values, misses, statistics, self.names),
        }
        return [self._decision(now, before, reasons.SELECTED, evidence, values, statistics)]

    def _select(
        self,
        values: Mapping[Candidate, Value],
        misses: Mapping[Candidate, float],
        statistics: Statistics,
        before: Sequence[Candidate],
    ) -> tuple[Candidate, ...]:
        """The best set (section 5.5.4), or the best one that fits into the memory (section 5.6)."""
        orders = self.states.pipelines
        if self.memory is None:
            return select(list(values), values, statistics, orders, before)
        ample = Ample.of(self.profiler, misses, statistics, self._tuples, self.W_d)
        best_of = partial(select, values=ample.values, statistics=statistics, orders=orders, current=before)
        chosen, self.profiler.kept = select_within(self.memory, best_of, ample, values, self.used, statistics)
        return chosen

    def _filling(self, candidate: Candidate, statistics: Statistics) -> int:
        """Tuples for which a new cache fills. Elements of the window that were there before it miss once more when they
        leave, so that takes until the window is another: as many arrivals as it has rows, half of its tuples."""
        rows, rate = self.profiler.windows[candidate.pipeline], statistics.rate[candidate.pipeline]
        turn = 2 * rows / rate if rate else 0.0
        return int(max(self.interval, min(turn, _FILL_INTERVALS * self.interval)))

    def _moved(self, candidate: Candidate, now: Value) -> bool:
        last = self._decided.get(candidate)
        pairs = () if last is None else ((now.benefit, last.benefit), (now.cost, last.cost))
        return last is None or any(abs(new - old) > self.threshold * abs(old) for new, old in pairs)

    def _collected(self) -> bool:
        if self._waited(1.0) or (
            self._waited(_WAIT_SHARE) and any(self.profiler.profiled(c, 1) for c in self.profiled)
        ):
            return True
        profiled = all(self.profiler.profiled(c) for c in self.profiled)
        return profiled and all(self.profiler.known(c) for c in self.used)

    def _waited(self, share: float) -> bool:
        return self._tuples - self._since >= share * self.interval

    def _due(self, now: int | None) -> bool:
        if self._hasty or self._waited(1.0):
            return True
        if self.interval_time is None or now is None or self._since_time is None:
            return False
        return now - self._since_time >= self.interval_time

    def _begin(self, now: int | None) -> None:
        self._since, self._since_time = self._tuples, now

    def _allocate(
        self, values: Mapping[Candidate, Value], misses: Mapping[Candidate, float], statistics: Statistics
    ) -> None:
        """Priorities for the stores in use, and for those that may soon be again."""
        if self.memory is not None:
            known = [c for c in self.states.current if c in values]
            sizes = {c: self.profiler.expected_bytes(c, statistics, misses[c], self.W_d) for c in known}
            self.memory.prioritise(priorities(self.states.current, values, sizes, self.memory))

    def entries(self) -> dict[Candidate, tuple[float, float]]:
        """How many entries each of the caches in use is expected to have, and rows in each."""
        statistics, misses = self.profiler.statistics(), self.profiler.misses(self.states.current, self._tuples)
        return {c: self.profiler.expected_entries(c, statistics, m, self.W_d) for c, m in misses.items()}

    def _decision(
        self,
        now: int | None,
        before: Iterable[Candidate],
        because: str,
        evidence: Mapping[str, Any],
        values: Mapping[Candidate, Value] | None = None,
        statistics: Statistics | None = None,
    ) -> Decision:
        after = self.states.current
        gain = cost = None
        if values is not None and statistics is not None:
            gain, new = reasons.gain(before, after, values, statistics), sorted(set(after) - set(before))
            cost = reasons.fill_cost({c: self._filling(c, statistics) for c in new}, values)
        return reasons.decision(now, self.operator, self.names, before, after, because, evidence, gain, cost)

    def statistics(self) -> dict[str, Any]:
        """What the next decision will rest on, for people: rates and work per unit, and each candidate."""
        statistics, misses = self.profiler.statistics(), self.profiler.misses(self.states, self._tuples)
        values = self.profiler.values(misses, statistics, self._tuples)
        pages = {} if self.memory is None else self.memory.pages
        told = {c: self.states.of(c) for c in self.states}
        caches = reasons.table(told, values, misses, pages, self.names)
        return {"rate": statistics.rate, "d": statistics.d, "c": statistics.c, "caches": caches}

    def state(self) -> dict[str, Any]:
        """Plain numbers and lists: with them another instance with the same parameters goes on identically."""
        return {
            "given": dict(self.given),
            "profiler": self.profiler.state(),
            "states": self.states.state(),
            "decided": [[c.state(), v.benefit, v.cost, v.proc] for c, v in self._decided.items()],
            "tuples": [self._tuples, self._since, self._since_time, self._jumped, self._hasty],
            "memory": None if self.memory is None else self.memory.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state``."""
        self.profiler.load(state["profiler"])
        self.states.load(state["states"])
        self.profiler.orders = self.states.pipelines
        self._decided = {Candidate.load(c): Value(*figures) for c, *figures in state["decided"]}
        self._tuples, self._since, self._since_time, jumped, self._hasty = state["tuples"]
        self._jumped = bool(jumped)
        if self.memory is not None and state["memory"] is not None:
            self.memory.load(state["memory"])
