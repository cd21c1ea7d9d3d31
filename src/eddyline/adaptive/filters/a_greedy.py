"""A-Greedy: keeps the order in which a greedy optimizer would put the filters, given how they drop tuples together.

The greedy invariant is checked and restored in ``matrix_view``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from eddyline.adaptive.filters.base import ProfilingPolicy, compared
from eddyline.adaptive.filters.matrix_view import MatrixView
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.core.delta import Bools, Float64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import ALPHA, SEED, WINDOW, P, Parameter


class AGreedy(ProfilingPolicy):
    """Maintains the Greedy Invariant: at every position i stands the filter with the highest d(j|i−1)/t_j, the
    probability to drop a tuple that the filters before i have not dropped, per unit of time.

    The Profiler evaluates all filters on a share ``p`` of the dropped tuples and keeps their drop bits and times in a
    profile window. The Re-optimizer maintains the matrix view over it, incrementally; when an entry shows a violation
    by more than ``alpha`` it rebuilds the order from that position on, from the same window.

    If the statistics stand still, the order costs at most 4/α times the optimum, and usually is the optimum. It adapts
    as fast as the window fills. Each profile tuple costs all the filters that the tuple was spared, which is the price
    (25 % of the run time in the thesis for eight filters, half of them a hundred times dearer).

    Parameters
    ----------
    p
        Drop-profiling probability. Larger notices changes sooner and evaluates more filters on dropped tuples.
    window
        Profile tuples remembered. More give steadier estimates and forget the past more slowly: after a change about
        half of them must be new before the order follows, window/(2p) dropped tuples.
    alpha
        Thrash avoidance. Smaller reorders less often for near ties, and accepts orders up to 4/α from the optimum.

    Two pairs of filters; each pair drops the same tuples but for one in ten. One of each pair must come first, which
    one-filter selectivities cannot show:

    >>> from eddyline.adaptive.filters.bounds import optimal_order, order_cost
    >>> from eddyline.adaptive.filters.simulate import draw, simulate
    >>> drops = draw(40_000, [0.6, 0.6, 0.5, 0.5], groups=[0, 0, 1, 1], agree=0.9, seed=1)
    >>> run = simulate(AGreedy(Pipeline(4)), drops)
    >>> last = run.decisions[-1]
    >>> print(last.time, last.before, last.after, last.evidence["dropped"])
    6800 (1, 2, 3, 0) (1, 2, 0, 3) (2, 0, 0, 1)
    >>> print(last.reason)
    F1 drops 2 and F4 1 of the profile tuples that reach position 3, for 1 s against 1 s a tuple
    >>> print(run.order, run.work, run.profiling)
    (1, 2, 0, 3) 70655.0 931.0
    >>> for order in (run.order, (0, 1, 2, 3), optimal_order(drops)):
    ...     print(order, order_cost(drops, order))
    (1, 2, 0, 3) 70671.0
    (0, 1, 2, 3) 76684.0
    (0, 3, 1, 2) 70555.0

    S. Babu, R. Motwani, K. Munagala, I. Nishizawa, J. Widom: Adaptive Ordering of Pipelined Stream Filters, SIGMOD
    2004; S. Babu: Adaptive Query Processing in Data Stream Management Systems, Stanford 2005, section 4.3.
    """

    name = "a-greedy"
    parameters: ClassVar[tuple[Parameter, ...]] = (P, WINDOW, ALPHA, SEED)

    def __init__(
        self, pipeline: Pipeline, *, p: float = 0.01, window: int = 1000, alpha: float = 0.9, seed: int = 0
    ) -> None:
        super().__init__(pipeline, p, window, alpha, seed)
        self.view = MatrixView(self.order, self.segments)

    @property
    def reach(self) -> Bools:
        """All filters after the one that dropped the tuple."""
        return self.all_after

    def _insert(self, dropped: Bools, seconds: Float64s) -> None:
        entered, expired = self.window.push(dropped, seconds)
        self.view.insert(entered)
        if len(expired):
            self.view.delete(expired)

    def _reoptimize(self, now: int | None) -> Decision | None:
        averages = self.window.averages()
        position = self.view.violation(averages, self.alpha)
        if position is None:
            return None
        before, drops = self.order, self.view.V[position].copy()
        tuples = self.window.tuples()
        first: int | None = position
        while first is not None:
            self.view.correct(first, tuples, averages)
            first = self.view.violation(averages, self.alpha)
        self.order = tuple(self.view.order)
        leader, led = self.order[position], before[position]
        counts = dict(zip(before, drops.tolist(), strict=True))
        return self._decision(
            now,
            before,
            "{leader:name} drops {leader_drops} and {led:name} {led_drops} of the profile tuples that reach position "
            "{position:place}, for {leader_price} against {led_price} a tuple",
            tuples,
            averages,
            position=position,
            dropped=tuple(counts[f] for f in range(self.pipeline.filters)),
            **compared(leader, led, counts, averages),
        )

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.view = MatrixView(self.order, self.segments)
        self.view.insert(self.window.tuples())
