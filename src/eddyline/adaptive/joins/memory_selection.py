"""Cache selection where memory is limited (section 5.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from eddyline.adaptive.joins.candidates import Candidate, Store
from eddyline.adaptive.joins.memory import MIN_SAVING_SHARE, Allocation, remembered, shares, squeezed
from eddyline.adaptive.joins.model import Statistics, Value, net
from eddyline.adaptive.joins.profiler import Profiler


@dataclass(frozen=True, slots=True)
class Ample:
    """What each candidate would do with all the memory that it needs: the share of its probes that miss, its benefit
    and cost, and that memory in bytes."""

    misses: Mapping[Candidate, float]
    values: Mapping[Candidate, Value]
    sizes: Mapping[Candidate, float]

    @classmethod
    def of(
        cls, profiler: Profiler, misses: Mapping[Candidate, float], statistics: Statistics, tuples: int, W_d: int
    ) -> Ample:
        ample = {c: profiler.ample(c, m) for c, m in misses.items()}
        sizes = {c: profiler.expected_bytes(c, statistics, m, W_d) for c, m in ample.items()}
        return cls(ample, profiler.values(ample, statistics, tuples), sizes)


def select_within(
    memory: Allocation,
    best_of: Callable[[list[Candidate]], tuple[Candidate, ...]],
    ample: Ample,
    current: Mapping[Candidate, Value],
    used: Iterable[Candidate],
    statistics: Statistics,
) -> tuple[tuple[Candidate, ...], dict[Store, float]]:
    """The best set of caches, and the part of its keys that each store of them has room for.

    ``best_of`` selects as if there were memory enough. What does not pay with the share that its priority gives it is
    left out, worst first, and what is then best is looked for again. ``current`` has the figures of the candidates as
    they are now: they count for a cache in ``used`` that already has the memory it would get.
    """
    pool, used = list(current), frozenset(used)
    budget = memory.budget * memory.page_bytes
    while True:
        chosen = best_of(pool)
        given = shares(chosen, ample.values, ample.sizes, budget)
        kept, fitted = {s: remembered(s, share) for s, share in given.items()}, {}
        for c in chosen:
            work, held = statistics.work(c.pipeline, c.operators), memory.pages.get(c.store, 0)
            as_now = c in used and given[c.store] * ample.sizes[c] <= (held + 1) * memory.page_bytes
            fitted[c] = current[c] if as_now else squeezed(ample.misses[c], ample.values[c], work, kept[c.store])
        gains = {}
        for s in given:
            sharing = [c for c in chosen if c.store == s]
            work = sum(statistics.work(c.pipeline, c.operators) for c in sharing)
            gains[s] = net(sharing, fitted) - (MIN_SAVING_SHARE * work if given[s] < 1 else 0.0)
        worst = min(gains, key=lambda s: (gains[s], s), default=None)
        if worst is None or gains[worst] > 0:
            return chosen, kept
        pool = [c for c in pool if c.store != worst]
