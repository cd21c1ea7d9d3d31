"""Source-based routing: an Eddy that orders by statistics of operators alone, the same for all tuples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from eddyline.adaptive.routing.averages import ExponentialAverages
from eddyline.adaptive.routing.base import Router, ranks
from eddyline.adaptive.routing.parameters import ALPHA, COST_AWARE, GREED
from eddyline.adaptive.routing.policy import Outputs
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Float64s, Int64s
from eddyline.streamon.draws import uniform_draws
from eddyline.streamon.parameters import SEED, Parameter

MIN_SELECTIVITY = 0.01  # a selectivity of 0 would make the lottery certain for ever


class SourceBasedRouting(Router):
    """Every tuple takes part in a lottery for its next operator, with tickets inversely proportional to the operators'
    recent selectivities W, over all tuples that they have processed (4.2).

    The chain of lotteries is drawn at once: numbers with exponential distribution, divided by the tickets, come out
    sorted in just that order.

    Parameters
    ----------
    alpha
        Share of the past kept in W with each tuple. Larger is steadier and slower; 0.95 remembers some twenty tuples.
    greed
        Exponent of the tickets: 1 is the paper's lottery, large ones come close to always taking the minimum.
    cost_aware
        1 draws by what an operator drops per second instead; the paper's lottery ignores costs.
    seed
        Which numbers are drawn.

    >>> from eddyline.adaptive.filters.pipeline import Pipeline
    >>> from eddyline.adaptive.routing.simulate import simulate
    >>> passes = np.random.default_rng(1).random((20_000, 3)) < [0.9, 0.5, 0.1]
    >>> for greed in (1, 100):
    ...     run = simulate(SourceBasedRouting(Setting(Pipeline(3), ()), greed=greed), passes)
    ...     print(run.calls)
    26366
    23259

    P. Bizarro, S. Babu, D. DeWitt, J. Widom: Content-Based Routing: Different Plans for Different Data, 2005;
    after R. Avnur, J. Hellerstein: Eddies, SIGMOD 2000.
    """

    name = "sbr"
    parameters: ClassVar[tuple[Parameter, ...]] = (ALPHA, GREED, COST_AWARE, SEED)

    def __init__(
        self, setting: Setting, *, alpha: float = 0.95, greed: float = 1.0, cost_aware: int = 0, seed: int = 0
    ) -> None:
        super().__init__(setting)
        self.greed = float(GREED.check(self.name, greed))
        self.cost_aware = bool(COST_AWARE.check(self.name, cost_aware))
        self.seed = int(SEED.check(self.name, seed))
        self.W = ExponentialAverages(self.n, float(ALPHA.check(self.name, alpha)), 1.0)

    def route(self, classes: Int64s) -> Int64s:
        first, rows = self.routed, len(classes)
        self.routed += rows
        return self._orders(-np.log(uniform_draws(self.seed, first, rows, self.n)) / self._tickets())

    def _tickets(self) -> Float64s:
        if self.cost_aware:
            drops = -ranks(np.minimum(self.W.values, 1 - MIN_SELECTIVITY), self.times.averages())
            tickets: Float64s = drops / drops.max()
        else:
            tickets = MIN_SELECTIVITY / np.maximum(self.W.values, MIN_SELECTIVITY)
        return np.maximum(tickets**self.greed, 1e-300)

    def processed(self, outputs: Outputs, seconds: Float64s) -> None:
        super().processed(outputs, seconds)
        rows, operators = np.nonzero(outputs >= 0)
        self.W.add(operators, outputs[rows, operators].astype(np.float64))

    def statistics(self) -> Mapping[str, Any]:
        tickets = self._tickets()
        return {
            **super().statistics(),
            "selectivity": tuple(self.W.values.tolist()),
            "probability": tuple((tickets / tickets.sum()).tolist()),
        }

    def state(self) -> dict[str, Any]:
        return {**super().state(), "W": self.W.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.W.load(state["W"])
