"""Independent: orders filters by what each drops on its own, as if they were independent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from eddyline.adaptive.filters.base import ProfilingPolicy, compared
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import ALPHA, SEED, WINDOW, P, Parameter


class Independent(ProfilingPolicy):
    """Maintains the Independent Invariant: filters stand in decreasing order of d(i|0)/t_i, the unconditional
    probability to drop a tuple per unit of time. A variation of A-Greedy that needs the first row of the matrix view
    only, and therefore fewer profile tuples.

    Optimal where filters are independent, and as quick to adapt as A-Greedy. Where they are correlated it can cost
    O(n) times the optimum (Example 4.5.1). Most systems that order filters at run time do this.

    Parameters
    ----------
    p
        Drop-profiling probability. Larger notices changes sooner and evaluates more filters on dropped tuples.
    window
        Profile tuples remembered. More give steadier estimates and forget the past more slowly.
    alpha
        Thrash avoidance. Smaller reorders less often for near ties.

    Like Example 4.5.1 with n = 6: five equal filters drop 40 … 100, one drops 1 … 39.

    >>> from eddyline.adaptive.filters.a_greedy import AGreedy
    >>> from eddyline.adaptive.filters.simulate import simulate
    >>> tuples = np.random.default_rng(1).integers(1, 101, 100_000)
    >>> drops = np.column_stack([tuples >= 40] * 5 + [tuples < 40])
    >>> for policy in (Independent, AGreedy):
    ...     run = simulate(policy(Pipeline(6, initial=(5, 0, 1, 2, 3, 4))), drops)
    ...     print(policy.name, run.order, run.work, run.profiling)
    independent (1, 2, 3, 4, 0, 5) 291917.0 1393.0
    a-greedy (0, 5, 1, 2, 3, 4) 139253.0 4624.0

    S. Babu et al.: Adaptive Ordering of Pipelined Stream Filters, SIGMOD 2004; thesis, section 4.5.
    """

    name = "independent"
    parameters: ClassVar[tuple[Parameter, ...]] = (P, WINDOW, ALPHA, SEED)

    def __init__(
        self, pipeline: Pipeline, *, p: float = 0.005, window: int = 1000, alpha: float = 0.9, seed: int = 0
    ) -> None:
        super().__init__(pipeline, p, window, alpha, seed)
        self.dropped: Int64s = np.zeros(pipeline.filters, np.int64)  # V[1, ·], by filter

    @property
    def reach(self) -> Bools:
        """All filters after the one that dropped the tuple: profile tuples are created as in A-Greedy."""
        return self.all_after

    def _insert(self, dropped: Bools, seconds: Float64s) -> None:
        entered, expired = self.window.push(dropped, seconds)
        self.dropped += entered.sum(0)
        self.dropped -= expired.sum(0)

    def _reoptimize(self, now: int | None) -> Decision | None:
        averages = self.window.averages()
        ratios = self.dropped / averages
        before, order = self.order, list(self.order)
        position = first = self._violation(order, ratios)
        if position is None:
            return None
        while first is not None:
            # Figure 4.7 with the first row in place of row r: nothing is conditional, so nothing is scanned.
            r = last = first
            while r <= last:
                best = self._best(order, ratios, r)
                last = max(last, best)
                order[r], order[best] = order[best], order[r]
                r += 1
            first = self._violation(order, ratios)
        self.order = tuple(order)
        leader, led = self.order[position], before[position]
        dropped = self.dropped.tolist()
        return self._decision(
            now,
            before,
            "{leader:name} drops {leader_drops} and {led:name} {led_drops} profile tuples, "
            "for {leader_price} against {led_price} a tuple",
            self.window.tuples(),
            averages,
            position=position,
            dropped=tuple(dropped),
            **compared(leader, led, dropped, averages),
        )

    def _best(self, order: list[int], ratios: Float64s, r: int) -> int:
        """The position from r on, in its segment, with the highest ratio; the first among equals."""
        home = self.segments[r]
        return max((c for c in range(r, len(order)) if self.segments[c] == home), key=lambda c: ratios[order[c]])

    def _violation(self, order: list[int], ratios: Float64s) -> int | None:
        for r in range(len(order)):
            if ratios[order[r]] < self.alpha * ratios[order[self._best(order, ratios, r)]]:
                return r
        return None

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.dropped = self.window.tuples().sum(0, dtype=np.int64)
