"""The statistics that A-Caching receives after a run (thesis 5.5.1 to 5.5.3): rates, the work of the operators of
pipelines, and the work of the stores of caches since the run before. For candidate caches that are not used, a Bloom
filter estimates the number of distinct keys, and so how many probes would miss; their maintenance cost is estimated
from the rows that their segments find.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eddyline.adapting.cache_sizes import specs
from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.adaptive.joins.candidates import Store
from eddyline.core.delta import Int64s
from eddyline.operators.join_arrays import JoinArrays

_NOTHING = (0,) * 4  # probes, misses, updates, accesses for those


class CacheProfiles:
    """``weight`` is that of an access of a cache, in accesses of an index."""

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self._seen: dict[Any, tuple[int, ...]] = {}

    def pass_over(self, arrays: JoinArrays) -> None:
        """Leave out what stores have done so far."""
        counts = {s: arrays.cache_operators.caches.counts(s) for s in arrays.cache_operators.caches.ids}
        self._seen = {s: (c.probes, c.misses, c.updates, c.update_work) for s, c in counts.items()}

    def report(
        self,
        caching: ACaching,
        arrays: JoinArrays,
        profiles: Sequence[Int64s],
        counts: Sequence[int],
        arrived: Sequence[int],
    ) -> None:
        """``profiles`` are those of a profiling run, by pipeline; ``counts`` the elements that came or left since, by
        input, and ``arrived`` those of them that came."""
        m = len(counts)
        caching.rates(counts, float(sum(counts)))
        for i, rows in enumerate(profiles):
            if len(rows):
                sums = rows.sum(0).tolist()
                caching.observe(i, sums[m : 2 * m], sums[2 * m :], len(rows))
        caching.windows(arrays.rows())

        def coming(inputs: Iterable[int]) -> float:
            """The share that came, and did not leave, of the elements of these inputs."""
            return sum(arrived[i] for i in inputs) / max(1, sum(counts[i] for i in inputs))

        upkept: dict[Store, int] = {}
        for candidate, spec in zip(caching.used, specs(caching.used), strict=True):
            if spec.store not in arrays.cache_operators.caches.ids:
                continue
            c = arrays.cache_operators.caches.counts(spec.store)
            was = self._seen.get(spec.store, _NOTHING)
            if c.probes < was[0]:  # it was dropped meanwhile, and has come back
                was = _NOTHING
            now = (c.probes, c.misses, c.updates, c.update_work)
            probes, misses, updates, update_work = (a - b for a, b in zip(now, was, strict=True))
            upkept[candidate.store] = update_work
            if probes:
                caching.missed(candidate, probes, misses)
                update = self.weight * (update_work / updates if updates else 2.0) * coming(candidate.inputs)
                caching.costs(candidate, self.weight, update, row_cost=self.weight)
        for held, work in upkept.items():
            caching.upkept(held, self.weight * work, float(sum(counts)))
        self.pass_over(arrays)
        if not caching.profiled:
            return
        statistics = caching.profiler.statistics()
        candidates = {
            spec: candidate for candidate, spec in zip(caching.profiled, specs(caching.profiled), strict=True)
        }
        for spec, windows, bits in arrays.cache_operators.distinct():
            weighed = candidates.get(spec)
            if weighed is None:
                continue
            if windows:
                caching.distinct(weighed, round(bits / windows), caching.W_d, min(windows, caching.W))
            d = statistics.d[weighed.pipeline]
            found = d[weighed.last + 1] / d[weighed.first] if d[weighed.first] else 0.0
            update = (2.0 + (found / 2 if weighed.support else 0.0)) * coming(weighed.inputs)
            caching.costs(weighed, self.weight, self.weight * update, row_cost=self.weight)
