"""The base of the policies: an order, and a profile window of tuples that are chosen by throwing coins."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from eddyline.adaptive.filters.bounds import gain
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.profile_window import ProfileWindow
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.streamon.coins import Coins
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import Parameter, check_all

PRICED = ("prices", "leader_price", "led_price", "saved", "error")  # evidence in the unit of the pipeline

_NOTHING: Int64s = np.empty(0, np.int64)


class OrderingPolicy:
    """A ``FilterPolicy`` that asks for nothing, listens to nothing and keeps the order it was given."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]] = ()

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.hoped = math.inf
        self.order: tuple[int, ...] = tuple(range(pipeline.filters) if pipeline.initial is None else pipeline.initial)

    @property
    def reach(self) -> Bools:
        return np.zeros((self.pipeline.filters, self.pipeline.filters), np.bool_)

    def wants_profile(self, count: int) -> Int64s:
        return _NOTHING

    def processed(self, rows_in: Int64s, rows_out: Int64s, seconds: Float64s) -> None:
        """Nothing to learn."""

    def profiled(self, dropped: Bools, seconds: Float64s) -> None:
        """Nothing to learn."""

    def decide(self, now: int | None = None) -> Decision | None:
        return None

    def alarm(self) -> None:
        """Profiles as much as before."""

    def statistics(self) -> Mapping[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return {"order": list(self.order)}

    def load(self, state: Mapping[str, Any]) -> None:
        self.order = tuple(int(f) for f in state["order"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(order={self.order})"

    def _decision(
        self, now: int | None, before: tuple[int, ...], because: str, tuples: Bools, averages: Float64s, **evidence: Any
    ) -> Decision:
        return Decision(
            "filter order",
            before,
            self.order,
            because,
            {"profiled": len(tuples), "prices": tuple(averages.tolist()), **evidence},
            dict.fromkeys(PRICED, self.pipeline.unit),
            expected_gain=gain(tuples, before, self.order, averages),
            operator=self.pipeline.operator,
            time=now,
        )


class ProfilingPolicy(OrderingPolicy, ABC):
    """A profile window of dropped tuples, chosen with probability p, and an invariant on it.

    What is true after every ``decide``: ``order`` satisfies the policy's invariant, up to α, for the statistics that it
    maintains over the profile window.
    """

    def __init__(self, pipeline: Pipeline, p: float, window: int, alpha: float, seed: int) -> None:
        super().__init__(pipeline)
        given = {"p": p, "window": window, "alpha": alpha, "seed": seed}
        checked = check_all(self.parameters, self.name, given)
        self.p, self.alpha = float(checked["p"]), float(checked["alpha"])
        self.coins = Coins(int(checked["seed"]))
        self.window = ProfileWindow(int(checked["window"]), pipeline.filters, pipeline.costs)
        self.segments = pipeline.segments
        self.free = pipeline.free
        self.all_after: Bools = np.triu(self.segments[:, None] == self.segments[None, :], 1)
        self.fresh = False  # whether there are profile tuples that no decision has looked at

    def wants_profile(self, count: int) -> Int64s:
        if not len(self.free):
            return _NOTHING
        return np.array(self.coins.heads(count, self.p)[0], np.int64)

    def profiled(self, dropped: Bools, seconds: Float64s) -> None:
        # A tuple that passes is no profile tuple; one that only a pinned filter drops says nothing about the others.
        useful = dropped[:, self.free].any(1)
        if not useful.all():
            dropped = dropped[useful]
            seconds = seconds[useful] if seconds.ndim == 2 else seconds
        if len(dropped):
            self._insert(dropped, seconds)
            self.fresh = True

    def decide(self, now: int | None = None) -> Decision | None:
        if not self.fresh:
            return None
        self.fresh = False
        return self._reoptimize(now)

    def statistics(self) -> Mapping[str, Any]:
        tuples = self.window.tuples()
        return {
            "profiled": len(tuples),
            "dropped": tuple((tuples.mean(0) if len(tuples) else np.zeros(self.pipeline.filters)).tolist()),
            "seconds": tuple(self.window.averages().tolist()),
        }

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            "coins": self.coins.state(),
            "window": self.window.state(),
            "fresh": self.fresh,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.coins.load(state["coins"])
        self.window.load(state["window"])
        self.fresh = bool(state["fresh"])

    @abstractmethod
    def _insert(self, dropped: Bools, seconds: Float64s) -> None:
        """Put profile tuples into the window and maintain the view on it."""

    @abstractmethod
    def _reoptimize(self, now: int | None) -> Decision | None:
        """Detect and correct violations of the invariant."""


def compared(
    leader: int, led: int, drops: Mapping[int, int] | Sequence[int], prices: Float64s
) -> dict[str, int | float]:
    """The evidence for a filter that comes before another: what each drops and takes."""
    return {
        "leader": leader,
        "led": led,
        "leader_drops": int(drops[leader]),
        "led_drops": int(drops[led]),
        "leader_price": float(prices[leader]),
        "led_price": float(prices[led]),
    }
