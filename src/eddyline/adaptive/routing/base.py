"""The base of routing policies: orders between pinned operators, the cost of operators, and the arithmetic of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from eddyline.adaptive.routing.policy import Classifier, Outputs
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Float64s, Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import Parameter
from eddyline.streamon.processing_times import ProcessingTimes


class Router:
    """A ``RoutingPolicy`` that sends every tuple through the operators as they were written (or first ordered)."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]] = ()

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        pipeline = setting.pipeline
        self.n = pipeline.filters
        initial = range(self.n) if pipeline.initial is None else pipeline.initial
        # Sorting is done on columns in the initial order, so that ties fall as they stand there.
        self.initial: Int64s = np.array(list(initial), np.int64)
        self.segments, self.free = pipeline.segments, pipeline.free
        self.walled = bool(self.segments[-1])
        self.times = ProcessingTimes(self.n, pipeline.costs)
        self.routed = 0  # the number of the next tuple

    @property
    def classifiers(self) -> tuple[Classifier, ...]:
        return (None,) * self.n

    @property
    def classifier_names(self) -> tuple[str | None, ...]:
        return tuple(None if c is None else self.setting.names(c) for c in self.classifiers)

    def use_classifiers(self, names: tuple[str | None, ...]) -> None:
        """It never decides anything that could be undone."""

    def route(self, classes: Int64s) -> Int64s:
        self.routed += len(classes)
        return np.broadcast_to(self.initial, (len(classes), self.n)).copy()

    def processed(self, outputs: Outputs, seconds: Float64s) -> None:
        self.times.add((outputs >= 0).sum(0), seconds)

    def decide(self, now: int | None = None) -> Decision | None:
        return None

    def statistics(self) -> Mapping[str, Any]:
        return {"seconds": tuple(self.times.averages().tolist())}

    def state(self) -> dict[str, Any]:
        return {"routed": self.routed, "times": self.times.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.routed = int(state["routed"])
        self.times.load(state["times"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(classifiers={self.classifiers})"

    def _orders(self, keys: Float64s) -> Int64s:
        """Each tuple's operators by increasing key, within walls."""
        columns = keys[:, self.initial]
        if self.walled:
            home = np.broadcast_to(self.segments[self.initial], columns.shape)
            return self.initial[np.lexsort((columns, home), axis=1)]
        return self.initial[np.argsort(columns, axis=1, kind="stable")]


def ranks(selectivity: Float64s, prices: Float64s | None) -> Float64s:
    """Smaller goes first: the selectivity, as in the paper; with prices what an operator adds per second, (σ − 1)/c,
    which orders independent operators best.

    >>> ranks(np.array([0.2, 0.5, 2.0]), np.array([4.0, 1.0, 1.0])).tolist()
    [-0.2, -0.5, 1.0]
    """
    return selectivity if prices is None else (selectivity - 1) / prices


def expected_cost(selectivity: Float64s, orders: Int64s, prices: Float64s) -> float:
    """The mean cost of tuples for which operators have these selectivities, taken as independent: rows × operators.

    >>> expected_cost(np.array([[0.1, 0.5]]), np.array([[0, 1]]), np.ones(2))
    1.1
    """
    if not len(orders):
        return 0.0
    alive = np.cumprod(np.take_along_axis(selectivity, orders, 1)[:, :-1], axis=1)
    return float((prices[orders[:, 0]] + (alive * prices[orders[:, 1:]]).sum(1)).mean())


def stands_apart(selectivity: Float64s, prices: Float64s, factor: float) -> tuple[int | None, int | None]:
    """Section 4.4: the operator that drops so much more per unit of cost than all others that it comes first whatever
    the class, and the one that drops so much less that it comes last. They are not worth profiling.

    >>> stands_apart(np.array([0.0, 0.95, 0.99, 0.995]), np.ones(4), 10.0)
    (0, None)
    >>> stands_apart(np.array([0.5, 0.6]), np.array([1.0, 100.0]), 10.0)
    (0, 1)
    """
    if len(selectivity) < 2:
        return None, None
    worth = np.maximum(1 - selectivity, 1e-3) / prices
    order = np.argsort(-worth, kind="stable")
    best, second, last_but_one, last = worth[order[[0, 1, -2, -1]]]
    leads, trails = best > factor * second, last_but_one > factor * last
    return int(order[0]) if leads else None, int(order[-1]) if trails else None
