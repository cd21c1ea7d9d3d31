"""Placing caches in the pipelines of a join: passes statistics to A-Caching and applies its decisions (thesis 5.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eddyline.adapting.cache_profiling import CacheProfiles
from eddyline.adapting.cache_sizes import CacheSizes, specs
from eddyline.adapting.plan_hold import PlanHold
from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.core.delta import Int64s
from eddyline.operators.join_arrays import JoinArrays
from eddyline.streamon.decision import Decision
from eddyline.synopses.store_id import StoreId

Sizes = Mapping[StoreId, tuple[int, int]]  # buckets and nodes


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """Of the runs since the policies last decided: profiles by pipeline, and elements by input."""

    profiles: Sequence[Int64s]
    came_or_left: Sequence[int]
    came: Sequence[int]


class JoinCaching:
    """``weight`` is what an access of a cache takes, in accesses of an index."""

    def __init__(self, caching: ACaching, weight: float) -> None:
        self.caching, self.weight = caching, weight
        self.hold = PlanHold(caching.shape.size * (caching.shape.size - 1))
        self.start_over()

    def start_over(self) -> None:
        """Forget what was going on, but not what was learned."""
        self._profiles, self.sizes = CacheProfiles(self.weight), CacheSizes()

    def attach(
        self, arrays: JoinArrays, orders: Sequence[tuple[int, ...]], now: int | None = None
    ) -> tuple[list[Decision], Sizes]:
        """The decisions and sizes for a join that begins with these orders, or goes on with them."""
        decisions = self.caching.orders(orders, now)
        return decisions, self.sizes.fit(arrays, self.caching)

    def observe(self, arrays: JoinArrays, run: RunStatistics) -> None:
        """Report the runs since the last report to A-Caching."""
        self._profiles.report(self.caching, arrays, run.profiles, run.came_or_left, run.came)
        if self.hold.waiting and any(map(len, run.profiles)):
            others = range(1, self.caching.shape.size)
            seen = [(len(rows), np.count_nonzero(rows[:, x] >= 0)) for rows in run.profiles for x in others]
            self.hold.add(*np.array(seen, np.int64).T)

    def skip(self, arrays: JoinArrays) -> None:
        """Leave out a run: statistics of caches hold for given orders, and these are changing."""
        self._profiles.pass_over(arrays)

    def decide(
        self,
        arrays: JoinArrays,
        orders: Sequence[tuple[int, ...]] | None,
        now: int,
        elements: int,
        select: bool,
        monitor: bool,
    ) -> tuple[list[Decision], Sizes, bool]:
        """The decisions, the sizes that change, and whether there is anything to apply. ``orders`` are new ones, if
        there are any; ``select`` caches anew, or only ``monitor`` those in use and drop what no longer pays."""
        caching = self.caching
        made = [] if orders is None else caching.orders(orders, now)
        before = (caching.used, caching.profiled)
        if self.hold.pinned:
            made += self._suggested(caching.would_decide(now, elements) if select else [])
        elif select and self.hold.lets_decide():
            made += caching.decide(now, elements)
        elif monitor and not self.hold.waiting:
            made += caching.monitor(now, elements)
        sizes = self.sizes.fit(arrays, caching)
        return made, sizes, bool(sizes or before != (caching.used, caching.profiled) or made)

    def _suggested(self, made: Sequence[Decision]) -> list[Decision]:
        """What would have been done to caches that are pinned, once for the same statistics."""
        if not made or not self.hold.lets_decide():
            return []
        self.hold.wait(reported=True)
        return [replace(d, applied=False) for d in made]

    def apply(self, arrays: JoinArrays, orders: Sequence[tuple[int, ...]], sizes: Sizes | None) -> None:
        """Give the operator its orders and caches."""
        caching = self.caching
        used = [s for s in specs(caching.used) if self.sizes.has_room(s)]
        here = arrays.cache_operators.caches.ids
        kept = [s for s in specs(caching.suspended) if s.store in here and self.sizes.has_room(s)]
        bloom = self.sizes.bloom(caching)
        arrays.set_plan(orders, used, specs(caching.profiled), kept=kept, sizes=sizes, bloom=bloom)

    def state(self) -> dict[str, Any]:
        return self.caching.state()

    def load(self, state: Mapping[str, Any] | None) -> None:
        """Go on with what was learned under the same parameters."""
        if state is not None and state.get("given") == self.caching.given:
            self.caching.load(state)
