"""LocalSwaps: swaps neighbours when the second should have come first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from eddyline.adaptive.filters.base import ProfilingPolicy, compared
from eddyline.adaptive.filters.matrix_view import first_drop
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import ALPHA, SEED, WINDOW, P, Parameter


class LocalSwaps(ProfilingPolicy):
    """Maintains the LocalSwaps Invariant: d(i|i−1)/t_f(i) ≥ d(i+1|i−1)/t_f(i+1), the greedy invariant for neighbours
    only. It needs two diagonals of the matrix view, and for a profile tuple that F_f(i) drops one more bit, b_f(i+1).

    The cheapest profiling of all: at most one more evaluation and three entries per profile tuple, for any number of
    filters. But a filter climbs one place at a time, and a good filter behind one that drops the same tuples never
    climbs: the order can stay O(n) times dearer than the optimum (Example 4.6.1).

    After a swap, profile tuples from before it lack the bit that the new neighbours need. It counts as not dropped, so
    V[i, i+1] is too small until the window has turned over: a swap may come late, never for want of a bit.

    Parameters
    ----------
    p
        Drop-profiling probability. Larger notices changes sooner and evaluates more filters on dropped tuples.
    window
        Profile tuples remembered. More give steadier estimates and forget the past more slowly.
    alpha
        Thrash avoidance. Smaller swaps less often for near ties.

    Example 4.6.1 with n = 5: each filter drops a fifth of the tuples; then F5 comes to drop all but those of F4.

    >>> from eddyline.adaptive.filters.a_greedy import AGreedy
    >>> from eddyline.adaptive.filters.simulate import simulate
    >>> fifth = np.tile(np.arange(5), 2_000)
    >>> before = fifth[:, None] == np.arange(5)
    >>> after = np.column_stack([before[:, :4], fifth != 3])
    >>> for policy in (LocalSwaps, AGreedy):
    ...     run = simulate(policy(Pipeline(5), p=1.0), np.concatenate([before, after]))
    ...     print(policy.name, run.order, run.work, run.profiling)
    local-swaps (0, 1, 2, 3, 4) 60000.0 16000.0
    a-greedy (4, 3, 2, 1, 0) 42180.0 57820.0

    S. Babu et al.: Adaptive Ordering of Pipelined Stream Filters, SIGMOD 2004; thesis, section 4.6.
    """

    name = "local-swaps"
    parameters: ClassVar[tuple[Parameter, ...]] = (P, WINDOW, ALPHA, SEED)

    def __init__(
        self, pipeline: Pipeline, *, p: float = 0.01, window: int = 1000, alpha: float = 0.9, seed: int = 0
    ) -> None:
        super().__init__(pipeline, p, window, alpha, seed)
        n = pipeline.filters
        self.neighbours: Bools = self.segments[:-1] == self.segments[1:]
        self.diagonal: Int64s = np.zeros(n, np.int64)  # V[i, i]
        self.above: Int64s = np.zeros(n - 1, np.int64)  # V[i, i+1]

    @property
    def reach(self) -> Bools:
        """Only the filter after the one that dropped the tuple."""
        return np.diag(self.neighbours, 1)

    def _insert(self, dropped: Bools, seconds: Float64s) -> None:
        entered, expired = self.window.push(dropped, seconds)
        self._count(entered, 1)
        self._count(expired, -1)

    def _count(self, bits: Bools, sign: int) -> None:
        """A tuple first dropped at dc enters V[dc, dc] and V[dc−1, dc], and V[dc, dc+1] if the next drops it too."""
        if not len(bits):
            return
        ordered = bits[:, self.order]
        at = first_drop(ordered)
        n = len(self.order)
        self.diagonal += sign * np.bincount(at, minlength=n)
        self.above += sign * np.bincount(at, minlength=n)[1:]
        inner = at < n - 1
        both = ordered[inner, at[inner] + 1]
        self.above += sign * np.bincount(at[inner], weights=both, minlength=n - 1).astype(np.int64)

    def _reoptimize(self, now: int | None) -> Decision | None:
        averages = self.window.averages()
        before = self.order
        position = first = self._violation(averages)
        if position is None:
            return None
        here, next_ = int(self.diagonal[position]), int(self.above[position])
        tuples = self.window.tuples()
        while first is not None:
            # Every swap makes the order cheaper for these tuples, so this ends.
            order = list(self.order)
            order[first], order[first + 1] = order[first + 1], order[first]
            self.order = tuple(order)
            self._recount(tuples)
            first = self._violation(averages)
        ahead, behind = before[position + 1], before[position]
        return self._decision(
            now,
            before,
            "{leader:name} drops {leader_drops} and {led:name}, just before it, {led_drops} of the profile tuples that "
            "reach position {position:place}, for {leader_price} against {led_price} a tuple",
            tuples,
            averages,
            position=position,
            dropped=(here, next_),
            **compared(ahead, behind, {ahead: next_, behind: here}, averages),
        )

    def _violation(self, averages: Float64s) -> int | None:
        times = averages[list(self.order)]
        broken = self.neighbours & (self.diagonal[:-1] / times[:-1] < self.alpha * self.above / times[1:])
        places = np.flatnonzero(broken)
        return int(places[0]) if len(places) else None

    def _recount(self, tuples: Bools) -> None:
        self.diagonal[:] = 0
        self.above[:] = 0
        self._count(tuples, 1)

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self._recount(self.window.tuples())
