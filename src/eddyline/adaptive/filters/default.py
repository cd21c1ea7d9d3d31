"""The product's default: A-Greedy's profile window, with a budget, change detection, back-off and hysteresis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.adaptive.filters.base import OrderingPolicy
from eddyline.adaptive.filters.bounds import gain, greedy_order, optimal_order, tuple_costs
from eddyline.adaptive.filters.coins import Coins
from eddyline.adaptive.filters.drift import DropRates
from eddyline.adaptive.filters.matrix_view import first_drop
from eddyline.adaptive.filters.parameters import ALPHA, SEED, WINDOW, P, Parameter
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policy import Float64s
from eddyline.adaptive.filters.processing_times import ProcessingTimes
from eddyline.adaptive.filters.profile_window import ProfileWindow
from eddyline.core.decision import Decision
from eddyline.core.delta import Bools, Int64s

BURST = Parameter(
    "burst", 0, 1, "drop-profiling probability right after a change: larger finds the new order sooner, at a higher price"
)
OVERHEAD = Parameter(
    "overhead", 0, 1, "profiling may cost this share of the work: larger affords more profile tuples where they are dear"
)
DRIFT = Parameter(
    "drift", 0, 100, "standard deviations by which a drop rate must have moved: smaller notices less, with false alarms"
)
CONFIDENCE = Parameter(
    "confidence", 0, 100, "standard errors by which a new order must be cheaper: larger is steadier and later"
)

_EXACT = 8  # filters up to which the best order for the window is searched, not approximated greedily
BACK=4.0
SHARE=0.5
CAP=0.5
STEP=1.25
SUSPECT=1.5
KEEP=0.2
TO=1
BLOCKS=16
_PATIENCE = 2.0  # by how much false alarms may raise the bar for the next


class Default(OrderingPolicy):
    name = "default"
    parameters = (P, BURST, WINDOW, ALPHA, OVERHEAD, DRIFT, CONFIDENCE, SEED)

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        p: float = 0.005,
        burst: float = 0.25,
        window: int = 400,
        alpha: float = 0.95,
        overhead: float = 0.02,
        drift: float = 4.5,
        confidence: float = 2.5,
        seed: int = 0,
    ) -> None:
        super().__init__(pipeline)
        self.p = float(P.check(self.name, p))
        self.burst = float(BURST.check(self.name, burst))
        self.alpha = float(ALPHA.check(self.name, alpha))
        self.overhead = float(OVERHEAD.check(self.name, overhead))
        self.sensitivity = float(DRIFT.check(self.name, drift))
        self.confidence = float(CONFIDENCE.check(self.name, confidence))
        self.coins = Coins(SEED.check(self.name, seed))
        self.window = ProfileWindow(WINDOW.check(self.name, window), pipeline.filters)
        self.segments, self.free = pipeline.segments, pipeline.free
        self.times = ProcessingTimes(pipeline.filters, pipeline.costs)
        self.rates = DropRates(pipeline.filters)
        self.block = max(1, self.window.size // BLOCKS)  # tuples profiled before the probability is halved
        self.level, self.left = 0, self.block
        # Purses, in evaluations of all filters on one tuple: for bursts and for the time between them.
        self.cap = CAP * self.window.size
        self.reserve, self.change = self.cap, float(self.block)
        self.patience, self.alarmed = 1.0, False
        self.pending = 0
        self.looked: Float64s = self.times.averages()

    @property
    def reach(self) -> Bools:
        return np.triu(self.segments[:, None] == self.segments[None, :], 1)

    def wants_profile(self, count: int) -> Int64s:
        found: list[int] = []
        at = 0
        while at < count and len(self.free):
            p = max(self.p, self.burst * BACK ** -self.level)
            bursting = p > self.p
            most = math.ceil(self.reserve if bursting else self.change) - len(found)
            heads, thrown = self.coins.heads(count - at, p, min(most, self.left) if bursting else most)
            if not thrown:
                break
            found += [at + h for h in heads]
            at += thrown
            if bursting:
                self.left -= len(heads)
                if not self.left:
                    self.level, self.left = self.level + 1, self.block
        return np.array(found, np.int64)

    def processed(self, rows_in: Int64s, rows_out: Int64s, seconds: Float64s) -> None:
        if not len(self.free):
            return
        self.times.add(rows_in, seconds)
        self.rates.add(rows_in, rows_out)
        averages = self.times.averages()
        work = float(rows_in @ averages / averages.sum())
        self.reserve = min(self.cap, self.reserve + SHARE * self.overhead * work)
        self.change = min(float(self.block), self.change + (1 - SHARE) * self.overhead * work)


    def profiled(self, dropped: Bools, seconds: Float64s) -> None:
        dropped = dropped[dropped[:, self.free].any(1)]
        if not len(dropped):
            return
        averages = self.times.averages()
        after = self.reach @ averages[list(self.order)]  # what is still asked of a tuple dropped at each position
        spent = float(after[first_drop(dropped[:, self.order])].sum() / averages.sum())
        if self.burst * BACK ** -self.level > self.p:
            self.reserve -= spent
        else:
            self.change -= spent
        self.window.push(dropped, np.full(dropped.shape[1], np.nan))
        self.pending += len(dropped)

    def decide(self, now: int | None = None) -> Decision | None:
        if not len(self.free):
            return None
        if float(self.rates.drift().max()) > self.sensitivity * self.patience:
            # The tuples in the window are of another time.
            self._look_again(forget=True)
            self.alarmed = True
            return None
        averages = self.times.averages()
        apart = np.maximum(averages / self.looked, self.looked / averages).max()
        if self.pending < self.block // 2 and not (apart > 1.5 and self.window.count >= self.block // 2):
            return None
        self.pending, self.looked = 0, averages
        decision = self._reoptimize(now, averages)
        if decision is not None:
            self.patience, self.alarmed = 1.0, False
        elif self.alarmed and self.level:
            self.patience, self.alarmed = min(_PATIENCE, self.patience * STEP), False
        return decision

    def _look_again(self, forget: bool) -> None:
        self.rates.settle()
        self.level, self.left = 0, self.block
        if forget:
            self.window.clear()
            self.pending = 0

    def _reoptimize(self, now: int | None, averages: Float64s) -> Decision | None:
        tuples = self.window.tuples()
        search = optimal_order if self.pipeline.filters <= _EXACT else greedy_order
        before, after = self.order, search(tuples, averages, self.segments)
        if after == before:
            return None
        times = gain(tuples, before, after, averages)
        saved = tuple_costs(tuples, before, averages) - tuple_costs(tuples, after, averages)
        error = float(saved.std() / math.sqrt(len(saved)))
        if times * self.alpha < 1 or float(saved.mean()) < self.confidence * error:
            if times * self.alpha >= 1 and float(saved.mean()) >= SUSPECT * error and self.reserve > KEEP * self.cap:
                self.level, self.left = min(self.level, TO), self.block
            return None
        self.order = after
        reason = f"cheaper by {saved.mean():.3g} ± {error:.2g} s for a profile tuple"
        decision = self._decision(now, before, reason, tuples, averages)
        late = self.level > 2
        if late:
            self._look_again(forget=True)
        else:
            self.rates.settle()
        return decision
