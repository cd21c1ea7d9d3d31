"""A-Caching's Profiler: online estimates of all quantities of the cost model (section 5.5.3).

Estimates are averages over the W most recent observations. d and c come from profiled elements, which pass through
their pipeline without caches; rates from counts; the miss probability from the cache itself while it is used, and from
distinct keys while it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eddyline.adaptive.joins.candidates import Candidate, Store
from eddyline.adaptive.joins.memory import BUCKETS_PER_KEY
from eddyline.adaptive.joins.model import CacheCosts, Statistics, Value, value
from eddyline.streamon.estimates import Window, anchored_miss_probability, miss_probability

_SIGNIFICANT_DEVIATIONS = 5.0  # standard deviations beyond which a rate has not changed by chance


class Profiler:
    """The windows of observations for n pipelines and their candidates.

    >>> profiler = Profiler(3, W=2)
    >>> profiler.rates((10, 10, 80), 100)
    False
    >>> for found in (2, 4):
    ...     profiler.observe(2, deltas=(1, 2, found), taus=(1e-6, 4e-6))
    >>> statistics = profiler.statistics()
    >>> [round(d, 3) for d in statistics.d[2]], statistics.c[2]
    ([0.8, 1.6, 2.4], (1e-06, 2e-06))
    """

    def __init__(
        self, size: int, W: int = 10, horizon: float = float("inf"), threshold: float = 0.2, sample: int = 64
    ) -> None:
        self.size, self.W, self.horizon, self.threshold = size, W, horizon, threshold
        self.sample = sample  # profiled elements of a pipeline that are enough for an average; more would only be older
        self.orders: tuple[tuple[int, ...], ...] = ()  # of the pipelines; empty until the first report
        self._deltas = [[Window(W) for _ in range(size)] for _ in range(size)]
        self._taus = [[Window(W) for _ in range(size - 1)] for _ in range(size)]
        self._rates = [Window(W) for _ in range(size)]
        self._estimated: dict[Candidate, Window] = {}  # while profiled
        self._observed: dict[Candidate, Window] = {}  # while used
        self._cold: dict[Candidate, int] = {}  # used, and the number of tuples until which it may still fill
        self._costs: dict[Store, tuple[float, float, float]] = {}
        self._upkept: dict[Store, Window] = {}  # while used
        self._bytes: dict[Store, float] = {}
        self.kept: dict[Store, float] = {}  # the part of its keys that a store has room for, if memory is limited
        self.windows: tuple[float, ...] = (0.0,) * size  # rows of each input

    # -- observations

    def observe(self, pipeline: int, deltas: Sequence[float], taus: Sequence[float], elements: int = 1) -> None:
        """A profiled element: tuples that each operator processed for it, results last, and the work of each; or the
        sums over several elements that were profiled together, which are one observation."""
        for window, delta in zip(self._deltas[pipeline], deltas, strict=True):
            window.push(delta, elements)
            window.forget(self.sample)
        for window, tau, delta in zip(self._taus[pipeline], taus, deltas[:-1], strict=True):
            window.push(tau, delta)
            window.keep(len(self._deltas[pipeline][0]))

    def rates(self, counts: Sequence[int], tuples: float) -> bool:
        """Elements of each input among ``tuples`` processed, or in that many units of time. True: a rate is another
        than it was, by more than the threshold and by more than chance; what was counted before is then forgotten.

        >>> profiler = Profiler(2)
        >>> [profiler.rates(counts, 1000) for counts in ((500, 500), (520, 480), (900, 100), (905, 95))]
        [False, False, True, False]
        >>> profiler.statistics().rate
        (0.9025, 0.0975)
        """
        jumped = any(self._jumped(w, count, tuples) for w, count in zip(self._rates, counts, strict=True))
        for window, count in zip(self._rates, counts, strict=True):
            if jumped:
                window.clear()
            window.push(count, tuples)
            window.forget(self.horizon)
        return jumped

    def _jumped(self, window: Window, count: float, tuples: float) -> bool:
        if not window or not tuples:
            return False
        expected, moved = window.mean * tuples, abs(count - window.mean * tuples)
        # Both numbers are counts, with variances of about themselves.
        pooled = (window.sum + count) / (window.weight + tuples)
        chance = pooled * tuples * (1 + tuples / window.weight)
        return moved > self.threshold * expected and moved > _SIGNIFICANT_DEVIATIONS * chance**0.5

    def missed(self, candidate: Candidate, probes: int, misses: int, tuples: float = float("inf")) -> None:
        """What a used cache has seen. The misses by which it filled are not those that it will have."""
        if probes:
            window = self._observed.setdefault(candidate, Window(self.W))
            if tuples < self._cold.get(candidate, 0):
                window.clear()
            window.push(misses, probes)

    def distinct(self, candidate: Candidate, bits: int, probes: int, times: int = 1) -> None:
        miss = miss_probability(bits, probes)
        if candidate.anchored:
            miss = anchored_miss_probability(bits, probes, self.windows[candidate.pipeline])
        window = self._estimated.setdefault(candidate, Window(self.W))
        for _ in range(times):
            window.push(miss)

    def upkept(self, store: Store, work: float, tuples: float) -> None:
        """What it took to maintain a store in use while so many tuples were processed."""
        self._upkept.setdefault(store, Window(self.W)).push(work, tuples)
        self._upkept[store].forget(self.horizon)

    def costs(
        self,
        candidate: Candidate,
        probe: float,
        update: float,
        expected_bytes: float | None = None,
        row: float = 0.0,
    ) -> None:
        """Shared caches cost the same, so the costs of one hold for all."""
        self._costs[candidate.store] = (probe, update, row)
        if expected_bytes is not None:
            self._bytes[candidate.store] = expected_bytes

    # -- forgetting

    def reordered(self, pipelines: Iterable[int]) -> None:
        """The operators of these pipelines stand elsewhere: what was seen of their places is void."""
        for i in pipelines:
            for window in (*self._deltas[i], *self._taus[i]):
                window.clear()

    def restart(self, candidate: Candidate) -> None:
        """Collect anew how often the candidate would miss, or does."""
        for known in (self._estimated, self._observed, self._cold):
            known.pop(candidate, None)

    def put_to_use(self, candidate: Candidate, cold_until: int) -> None:
        """The cache starts empty and fills until so many tuples have been processed."""
        self._observed.pop(candidate, None)
        self._upkept.pop(candidate.store, None)
        self._cold[candidate] = cold_until

    def keep(self, candidates: Iterable[Candidate]) -> None:
        """Forget all other candidates: memory is bounded by those there are."""
        known = set(candidates)
        stores = {c.store for c in known}
        self._estimated = {c: w for c, w in self._estimated.items() if c in known}
        self._observed = {c: w for c, w in self._observed.items() if c in known}
        self._cold = {c: t for c, t in self._cold.items() if c in known}
        self._costs = {s: c for s, c in self._costs.items() if s in stores}
        self._upkept = {s: w for s, w in self._upkept.items() if s in stores}
        self._bytes = {s: b for s, b in self._bytes.items() if s in stores}

    # -- estimates

    def statistics(self) -> Statistics:
        rate = tuple(w.mean for w in self._rates)
        return Statistics(
            rate,
            tuple(tuple(r * w.mean for w in windows) for r, windows in zip(rate, self._deltas, strict=True)),
            tuple(tuple(w.mean for w in windows) for windows in self._taus),
            self.orders,
        )

    def miss(self, candidate: Candidate, tuples: int) -> float | None:
        """The miss probability by which a candidate is judged after ``tuples``: observed if it is used, else predicted,
        and the smaller of the two while it fills. None if nothing is known."""
        predicted, observed = self._estimated.get(candidate), self._observed.get(candidate)
        if observed and predicted and tuples < self._cold.get(candidate, 0):
            return min(observed.mean, 1 - (1 - predicted.mean) * self.kept.get(candidate.store, 1.0))
        if window := observed or predicted:
            return window.mean
        # No probes, no window: what never reaches the segment is spared nothing, however often it would miss.
        return 1.0 if self._unreached(candidate) else None

    def misses(self, some: Iterable[Candidate], tuples: int) -> dict[Candidate, float]:
        """Of those about which there is at least one observation of everything."""
        found = {c: self.miss(c, tuples) for c in some if self.known(c, 1)}
        return {c: miss for c, miss in found.items() if miss is not None}

    def values(
        self, misses: Mapping[Candidate, float], statistics: Statistics, tuples: float = float("inf")
    ) -> dict[Candidate, Value]:
        """By the cost model; but what a cache in use costs to maintain has been seen. While it fills that is little, so
        that until then the smaller figure counts."""
        found = {c: value(c, statistics, self.cache_costs(c, statistics, m)) for c, m in misses.items()}
        for c, v in found.items():
            if c in self._observed and (seen := self._upkept.get(c.store)):
                cost = min(seen.mean, v.cost) if tuples < self._cold.get(c, 0) else seen.mean
                found[c] = Value(v.benefit, cost, v.proc)
        return found

    def cache_costs(self, candidate: Candidate, statistics: Statistics, miss: float) -> CacheCosts:
        """As reported; before that a probe and an update cost as much as an average operator, which is a probe, too.

        The rows that a probe gives are those of the same observations that d rests on (d_{k+1}/d_j, section 5.5.3).
        They cost the operators as much as the cache, and only in one sample do the two cancel out: with rows counted
        elsewhere, ten elements that happen to find little would make a good cache look bad.
        """
        reported = self._costs.get(candidate.store)
        if reported is None:
            processed = sum(sum(d[:-1]) for d in statistics.d)
            typical = statistics.total / processed if processed else 0.0
            reported = typical, typical, 0.0
        probe, update, row = reported
        d = statistics.d[candidate.pipeline]
        rows = d[candidate.last + 1] / d[candidate.first] if d[candidate.first] else 0.0
        return CacheCosts(probe + row * rows, update, miss)

    def expected_bytes(self, candidate: Candidate, statistics: Statistics, miss: float, probes: int) -> float:
        """As reported; before that an estimate. For each key there are some buckets with a word for the list, for every
        class of the key and for the anchor; for each row there is a word for the list and for every input."""
        reported = self._bytes.get(candidate.store)
        if reported is not None:
            return reported
        entries, rows = self.expected_entries(candidate, statistics, miss, probes)
        place = 1 + len(candidate.key) + candidate.anchored
        return 8 * entries * (BUCKETS_PER_KEY * place + (1 + len(candidate.segment)) * rows)

    def expected_entries(
        self, candidate: Candidate, statistics: Statistics, miss: float, probes: int
    ) -> tuple[float, float]:
        """Entries that a cache needs to miss no more often than predicted, and rows of each: a miss was predicted for
        each key among so many probes, and all of these keys have to be there."""
        predicted = self._estimated.get(candidate)
        d = statistics.d[candidate.pipeline]
        rows = d[candidate.last + 1] / d[candidate.first] if d[candidate.first] else 0.0
        entries = (predicted.mean if predicted else miss) * probes
        if candidate.anchored and self.windows[candidate.pipeline]:
            entries = min(entries, self.windows[candidate.pipeline])
        return max(1.0, entries), rows

    def ample(self, candidate: Candidate, miss: float) -> float:
        """What the candidate would miss with all the memory that it needs; one in use may have had less."""
        predicted = self._estimated.get(candidate)
        return min(miss, predicted.mean) if predicted else miss

    def known(self, candidate: Candidate, least: int | None = None) -> bool:
        """Whether there are W observations (or ``least``) of everything that d and c of the candidate rest on."""
        least = self.W if least is None else least
        return all(self._seen(i) >= least for i in (candidate.pipeline, *candidate.inputs))

    def _seen(self, pipeline: int) -> float:
        """Profiled elements; a pipeline without elements needs none."""
        if not self._rates[pipeline]:
            return 0
        seen = self._deltas[pipeline][0].weight
        return seen if seen >= self.W or self._rates[pipeline].sum else float("inf")

    def profiled(self, candidate: Candidate, least: int | None = None) -> bool:
        """The same, and of the miss probability."""
        least = self.W if least is None else least
        window = self._estimated.get(candidate, ())
        return self.known(candidate, least) and (len(window) >= least or self._unreached(candidate))

    def _unreached(self, candidate: Candidate) -> bool:
        window = self._deltas[candidate.pipeline][candidate.first]
        rate = self._rates[candidate.pipeline]
        return bool((window.weight >= self.W and not window.sum) or (rate and not rate.sum))

    # -- elsewhere

    def state(self) -> dict[str, Any]:
        return {
            "deltas": [[w.state() for w in ws] for ws in self._deltas],
            "taus": [[w.state() for w in ws] for ws in self._taus],
            "rates": [w.state() for w in self._rates],
            "estimated": [[c.state(), w.state()] for c, w in self._estimated.items()],
            "observed": [[c.state(), w.state()] for c, w in self._observed.items()],
            "cold": [[c.state(), t] for c, t in self._cold.items()],
            "costs": [[store, *costs] for store, costs in self._costs.items()],
            "upkept": [[store, w.state()] for store, w in self._upkept.items()],
            "windows": list(self.windows),
            "kept": [[store, part] for store, part in self.kept.items()],
            "bytes": [[store, size] for store, size in self._bytes.items()],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        for mine, saved in ((self._deltas, state["deltas"]), (self._taus, state["taus"])):
            for windows, rows in zip(mine, saved, strict=True):
                for window, row in zip(windows, rows, strict=True):
                    window.load(row)
        for window, row in zip(self._rates, state["rates"], strict=True):
            window.load(row)
        self._estimated = {Candidate.load(c): self._window(w) for c, w in state["estimated"]}
        self._observed = {Candidate.load(c): self._window(w) for c, w in state["observed"]}
        self._cold = {Candidate.load(c): int(t) for c, t in state["cold"]}
        self._costs = {_store(s): (float(p), float(u), float(r)) for s, p, u, r in state["costs"]}
        self._upkept = {_store(s): self._window(w) for s, w in state["upkept"]}
        self._bytes = {_store(s): float(b) for s, b in state["bytes"]}
        self.windows = tuple(float(rows) for rows in state["windows"])
        self.kept = {_store(s): float(part) for s, part in state["kept"]}

    def _window(self, state: Iterable[Sequence[float]]) -> Window:
        window = Window(self.W)
        window.load(state)
        return window


def _store(state: Sequence[Any]) -> Store:
    segment, key, support, anchor = state
    return tuple(segment), tuple(key), tuple(support), int(anchor)
