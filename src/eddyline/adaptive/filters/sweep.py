"""Sweep: profiles one filter at a time and moves it to its place in the greedy order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from eddyline.adaptive.filters.base import ProfilingPolicy, compared
from eddyline.adaptive.filters.matrix_view import first_drop
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import ALPHA, SEED, P, Parameter

STAGE = Parameter(
    "window",
    1,
    1_000_000,
    "profile tuples remembered, and the most that a stage collects: more give steadier estimates and longer rounds",
    whole=True,
)


class Sweep(ProfilingPolicy):
    """Maintains the Sweep Invariant for the filter F_f(j) that is being profiled:
    d(i|i−1)/t_f(i) ≥ d(j|i−1)/t_f(j) for all i < j.

    It proceeds in stages. In a stage a profile tuple costs one more evaluation at most, that of F_f(j). A stage ends
    when F_f(j) turns out to belong further ahead, at the first i that violates the invariant, and is moved there; or
    when ``window`` profile tuples have shown no violation. Then j goes on to the next position, and after the last to
    the second. Only V[i, i] and V[i, j] are maintained, O(n) numbers.

    It converges to an order that satisfies the greedy invariant, like A-Greedy, with far less profiling where there are
    many filters or dear ones. It is the slowest to adapt: a violation can wait for n − 2 stages.

    *Between stages* the profile window slides on; the thesis does not say so, but both ways for a stage to end then
    have a meaning. V[i, i] is known from every tuple in the window, V[i, j] only from those of this stage, for only
    they have the bit b_f(j): it begins at 0, so that a stage cannot be decided by its first few tuples, and it is exact
    when ``window`` of them have been collected. A window emptied at each stage would let the first tuple that F_f(j)
    drops and F_f(1) does not move a filter.

    Parameters
    ----------
    p
        Drop-profiling probability. Larger ends stages sooner and evaluates more filters on dropped tuples.
    window
        Profile tuples remembered, and the most that a stage collects. More give steadier estimates and longer rounds.
    alpha
        Thrash avoidance. Smaller moves filters less often for near ties, and accepts orders up to 4/α from the optimum.

    Four filters in the worst order. A full stage takes 500 profile tuples, here about 5,000 tuples:

    >>> from eddyline.adaptive.filters.simulate import draw, simulate
    >>> drops = draw(40_000, [0.2, 0.4, 0.6, 0.8], seed=1)
    >>> run = simulate(Sweep(Pipeline(4), p=0.1), drops)
    >>> for decision in run.decisions:
    ...     print(decision.time, decision.after)
    200 (1, 0, 2, 3)
    500 (1, 2, 0, 3)
    800 (1, 2, 3, 0)
    2400 (2, 1, 3, 0)
    5600 (2, 3, 1, 0)
    15000 (3, 2, 1, 0)
    >>> print(run.work, run.profiling)
    58043.0 3232.0

    S. Babu et al.: Adaptive Ordering of Pipelined Stream Filters, SIGMOD 2004; thesis, section 4.4.
    """

    name = "sweep"
    parameters: ClassVar[tuple[Parameter, ...]] = (P, STAGE, ALPHA, SEED)

    def __init__(
        self, pipeline: Pipeline, *, p: float = 0.01, window: int = 500, alpha: float = 0.9, seed: int = 0
    ) -> None:
        super().__init__(pipeline, p, window, alpha, seed)
        n = pipeline.filters
        # Positions that have one before them in their segment: those that j runs over.
        self.swept = [j for j in range(1, n) if self.segments[j] == self.segments[j - 1]]
        self.j = self.swept[0] if self.swept else 0
        self.collected = 0  # profile tuples of this stage
        self.diagonal: Int64s = np.zeros(n, np.int64)  # V[i, i], over the window
        self.column: Int64s = np.zeros(n, np.int64)  # V[i, j], i ≤ j, over the tuples of this stage in the window

    @property
    def reach(self) -> Bools:
        """Only the filter that is being profiled."""
        n = self.pipeline.filters
        reach = np.zeros((n, n), np.bool_)
        reach[: self.j, self.j] = self.segments[: self.j] == self.segments[self.j]
        return reach

    def _insert(self, dropped: Bools, seconds: Float64s) -> None:
        older = self.window.count - min(self.collected, self.window.count)
        entered, expired = self.window.push(dropped, seconds)
        self.diagonal += self._first(entered) - self._first(expired)
        self.column += self._dropped_by_j(entered) - self._dropped_by_j(expired[older:])
        self.collected += len(dropped)

    def _first(self, bits: Bools) -> Int64s:
        """V[i, i]: a tuple counts at the first position that drops it."""
        return np.bincount(first_drop(bits[:, self.order]), minlength=len(self.order))

    def _dropped_by_j(self, bits: Bools) -> Int64s:
        """V[i, j]: a tuple that F_f(j) drops counts at every position that it reaches."""
        ordered = bits[bits[:, self.order[self.j]]][:, self.order]
        reached = np.bincount(first_drop(ordered), minlength=len(self.order))
        return reached[::-1].cumsum()[::-1]

    def _reoptimize(self, now: int | None) -> Decision | None:
        averages = self.window.averages()
        times = averages[list(self.order)]
        i, j = np.arange(len(self.order)), self.j
        broken = (i < j) & (self.segments == self.segments[j])
        broken &= self.diagonal / times < self.alpha * self.column / times[j]
        places = np.flatnonzero(broken)
        decision = None
        if len(places):
            position = int(places[0])
            before, here, ahead = self.order, self.order[position], self.order[j]
            counts = (int(self.diagonal[position]), int(self.column[position]))
            self.order = (*before[:position], ahead, *before[position:j], *before[j + 1 :])
            # Of older tuples too little is known to say what they would cost.
            tuples = self.window.tuples(self.collected)
            decision = self._decision(
                now,
                before,
                "{leader:name} drops {leader_drops} and {led:name} {led_drops} of the profile tuples that reach "
                "position {position:place}, for {leader_price} against {led_price} a tuple",
                tuples,
                averages,
                position=position,
                dropped=counts,
                **compared(ahead, here, {ahead: counts[1], here: counts[0]}, averages),
            )
        if decision is not None or self.collected >= self.window.size:
            self._next_stage()
        return decision

    def _next_stage(self) -> None:
        self.j = next((j for j in self.swept if j > self.j), self.swept[0])
        self.collected = 0
        self.column[:] = 0
        self.diagonal = self._first(self.window.tuples())

    def state(self) -> dict[str, Any]:
        return {**super().state(), "j": self.j, "collected": self.collected}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.j, self.collected = int(state["j"]), int(state["collected"])
        self.diagonal = self._first(self.window.tuples())
        self.column = self._dropped_by_j(self.window.tuples(self.collected))
