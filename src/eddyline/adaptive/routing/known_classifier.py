"""Content-Knows for data that come: the classifier is named, selectivities are estimated from the tuples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from eddyline.adaptive.routing.averages import CountedAverages
from eddyline.adaptive.routing.base import ranks
from eddyline.adaptive.routing.candidates import Candidates
from eddyline.adaptive.routing.default import MEMORY
from eddyline.adaptive.routing.learner import Learner
from eddyline.adaptive.routing.parameters import COST_AWARE
from eddyline.adaptive.routing.policy import Outputs
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Float64s, Int64s
from eddyline.core.errors import JobError
from eddyline.streamon.parameters import Parameter

_PRIOR = 2.0  # tuples of W mixed into each class's selectivity
_FLAT = 0.5  # what a selectivity is taken for before any tuple


class KnownClassifier(Learner):
    """Every operator is routed by one attribute, which the user names. Nothing is sampled and
    nothing is tried; S and W follow the tuples, as in Content-Learns.

    The paper's Content-Knows also knows the selectivities, which nobody can say of a query (``content_knows``).

    >>> from eddyline.adaptive.routing.simulate import simulate
    >>> from eddyline.adaptive.routing.stream_star import skewed, stream_star
    >>> star = stream_star(skewed(4, 0.10), tuples=20_000, seed=1)
    >>> simulate(KnownClassifier(star.setting, 0), star.passes, star.classes).calls / 20_000 < 1.3  # at best 1.24
    True
    """

    name = "known-classifier"
    parameters: ClassVar[tuple[Parameter, ...]] = (MEMORY, COST_AWARE)

    def __init__(self, setting: Setting, attribute: int, *, memory: int = 1000, cost_aware: int = 1) -> None:
        if not 0 <= attribute < len(setting.attributes):
            raise JobError(f"the attribute must be among 0 to {len(setting.attributes) - 1}, not {attribute}.")
        memory = int(MEMORY.check(self.name, memory))
        cost_aware = int(COST_AWARE.check(self.name, cost_aware))
        super().__init__(setting, Candidates(setting), 0, bool(cost_aware))
        self.attribute = attribute
        self.CA[:] = attribute
        self.W = CountedAverages(self.n, memory)
        self.S = CountedAverages(self.n * self.d, memory)

    def _known(self) -> tuple[Float64s, Float64s]:
        W = self.W.means(_FLAT, _PRIOR)
        return self.S.means(np.repeat(W, self.d), _PRIOR).reshape(self.n, self.d), W

    def route(self, classes: Int64s) -> Int64s:
        self.classes = classes
        self.routed += len(classes)
        sigma = self._selectivities(self.CA, *self._known(), self._columns(self.CA))
        return self._orders(ranks(sigma, self.prices))

    def processed(self, outputs: Outputs, seconds: Float64s) -> None:
        super().processed(outputs, seconds)
        self._average(self.W, self.S, outputs)

    def statistics(self) -> Mapping[str, Any]:
        S, W = self._known()
        return {**super().statistics(), "selectivity": tuple(W.tolist()), "selectivity_by_class": S.tolist()}

    def state(self) -> dict[str, Any]:
        return {**super().state(), "W": self.W.state(), "S": self.S.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.W.load(state["W"])
        self.S.load(state["S"])
