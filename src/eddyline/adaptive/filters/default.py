"""The product's default: A-Greedy's profile window, with a budget, change detection, back-off and hysteresis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from eddyline.adaptive.filters.base import OrderingPolicy
from eddyline.adaptive.filters.bounds import gain, greedy_order, optimal_order, tuple_costs
from eddyline.adaptive.filters.matrix_view import first_drop
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.profile_window import ProfileWindow
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.streamon.coins import Coins
from eddyline.streamon.decision import Decision
from eddyline.streamon.drift import DropRates
from eddyline.streamon.parameters import SEED, WINDOW, P, Parameter
from eddyline.streamon.processing_times import ProcessingTimes

BURST = Parameter(
    "burst", 0, 1, "drop-profiling probability after a change: larger finds the new order sooner and spends more on it"
)
LEAST_GAIN = Parameter(
    "alpha", 0, 1, "an order must cost less than this share of the current one, where they differ: smaller is steadier"
)
OVERHEAD = Parameter(
    "overhead",
    0,
    1,
    "share of the work that profiling may cost: larger profiles more tuples where filters are expensive",
)
DRIFT = Parameter(
    "drift", 0, 100, "standard deviations that a drop rate must have moved: smaller notices more, and more false alarms"
)
CONFIDENCE = Parameter(
    "confidence", 0, 100, "standard errors by which an order must be cheaper: larger is steadier and decides later"
)

_MAX_FILTERS_FOR_EXACT_SEARCH = 8  # with more, the best order for the window is approximated greedily
_BACK_OFF_FACTOR = 4.0  # the drop-profiling probability falls by this factor with each block of profiled tuples
_ERRORS_TO_CONTINUE = 1.5  # standard errors by which an order must seem better to profile another block for it
_RESERVE_SHARE_FOR_CHANGES = 0.2  # of the reserve, kept for changes: not spent on orders that only seem better
_COST_CHANGE_FACTOR = 1.5  # if a filter's cost has changed by this factor, the order is checked at once
_BAR_GROWTH, _MAX_BAR = 1.25, 2.0  # each false alarm multiplies the drift needed for the next one, up to the maximum
_MIN_WINDOW_SHARE = 1 / 50  # of the window; fewer tuples at a place cannot decide which filter should be there
_MIN_BATCHES_BETWEEN_CHANGES = 12.0  # with fewer, an order is out of date as soon as it is found


class Default(OrderingPolicy):
    """Profiles much after a change, hardly at all while nothing changes, and never more than its budget.

    - *Profile window* as in A-Greedy, but short, and emptied when the data change. Every few profile tuples the best
      order for the window is searched: exactly up to eight filters, greedily beyond.
    - *Change detection* from what the executor counts anyway: the share that each filter drops of the rows that reach
      it, against the same share after the last decision. It notices within some hundred rows.
    - *Bursts and back-off.* After a change a tuple is profiled with probability ``burst``; with each block of 1/16 of
      the window the probability falls to a quarter, down to ``p``, which goes on to look for changes that the rates
      cannot show. A better order that is not yet certain keeps the burst alive.
    - *Budget.* Profiling pays from ``overhead`` times the work, half of it saved for bursts. So the policy costs at
      most that share, plus a start of about half a window of tuples evaluated by all filters.
    - *Hysteresis.* An order is changed if the window's tuples say that the new one is cheaper by ``confidence``
      standard errors, tuple by tuple, and by the factor ``alpha`` in the positions that change.

    It loses to A-Greedy with a larger p where filters are so cheap that profiling costs nothing, and it finds slowly,
    after window/(2p) tuples or so, what only profile tuples can show: that a filter has come to drop more of what those
    before it drop already.

    Parameters
    ----------
    p
        Drop-profiling probability when nothing happens. Larger sees hidden changes sooner and spends the budget.
    burst
        The same after a change. Larger finds the new order sooner and spends more on it.
    window
        Profile tuples remembered. More order the last filters better, fewer adapt sooner and with less.
    alpha
        An order must cost less than this share of the current one, where they differ. Smaller is steadier.
    overhead
        Share of the work that profiling may cost. Larger affords more profile tuples where filters are dear.
    drift
        Standard deviations that a drop rate must have moved. Smaller notices more, with more false alarms.
    confidence
        Standard errors by which an order must be cheaper. Larger is steadier and decides later.

    Six filters of cost 1, dropping from 5 % to 98 %; after 40,000 tuples the best becomes the worst:

    >>> from eddyline.adaptive.filters.a_greedy import AGreedy
    >>> from eddyline.adaptive.filters.bounds import clairvoyant
    >>> from eddyline.adaptive.filters.simulate import draw, simulate
    >>> rates = [0.05, 0.2, 0.4, 0.7, 0.9, 0.98]
    >>> drops = np.concatenate([draw(40_000, rates, seed=1), draw(40_000, rates[::-1], seed=2)])
    >>> print(clairvoyant(drops, [40_000]).cost)
    81962.0
    >>> for policy in (Default, AGreedy):
    ...     run = simulate(policy(Pipeline(6)), drops)
    ...     print(policy.name, run.work, run.profiling, [d.time for d in run.decisions])
    default 83842.0 1944.0 [100, 2800, 40200]
    a-greedy 126998.0 3504.0 [100, 1000, 1800, 2500, 40700, 43300, 47100, 47900, 48100, 52400, 70500, 79900]

    Built on S. Babu et al.: Adaptive Ordering of Pipelined Stream Filters, SIGMOD 2004; the rest is our own.
    """

    name = "default"
    parameters: ClassVar[tuple[Parameter, ...]] = (P, BURST, WINDOW, LEAST_GAIN, OVERHEAD, DRIFT, CONFIDENCE, SEED)

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
        confidence: float = 2.0,
        seed: int = 0,
    ) -> None:
        super().__init__(pipeline)
        self.p = float(P.check(self.name, p))
        self.burst = float(BURST.check(self.name, burst))
        self.alpha = float(LEAST_GAIN.check(self.name, alpha))
        self.overhead = float(OVERHEAD.check(self.name, overhead))
        self.noticed = float(DRIFT.check(self.name, drift))
        self.confidence = float(CONFIDENCE.check(self.name, confidence))
        self.coins = Coins(SEED.check(self.name, seed))
        self.window = ProfileWindow(WINDOW.check(self.name, window), pipeline.filters, timed=False)
        self.segments, self.free = pipeline.segments, pipeline.free
        self._reach: Bools = np.triu(self.segments[:, None] == self.segments[None, :], 1)
        self.times = ProcessingTimes(pipeline.filters, pipeline.costs)
        self.rates = DropRates(pipeline.filters)
        self.block = max(1, self.window.size // 16)
        self.level, self.left = 0, self.block  # how far the burst has backed off; tuples until it does again
        # Two purses, in evaluations of all filters on one tuple: for bursts, and for the time between them.
        self.most = (self.window.size / 2, float(self.block))
        self.reserve, self.pocket = self.most
        self.paid_by_reserve = True
        self.pending = 0  # profile tuples since the last search for a better order
        self.alarmed, self.patience = False, 1.0
        self.hoped = math.inf  # estimated saving per tuple of another order: 0 if none is better, inf before a search
        self.age, self.life = 0, 2 * _MIN_BATCHES_BETWEEN_CHANGES  # batches since the last change; usually between two
        self.looked: Float64s = self.times.averages()  # at the last look

    @property
    def reach(self) -> Bools:
        """All filters after the one that dropped the tuple, as in A-Greedy."""
        return self._reach

    @property
    def bursting(self) -> bool:
        return self.burst * _BACK_OFF_FACTOR**-self.level > self.p

    def wants_profile(self, count: int) -> Int64s:
        found: list[int] = []
        at = 0
        if self.fleeting and len(self.free):
            return self._spread(count)
        self.paid_by_reserve = self.bursting
        while at < count and len(self.free):
            bursting = self.bursting
            # No tuple costs more than one evaluation of all filters, so no purse is overdrawn by more than one.
            most = math.ceil(self.reserve if bursting else self.pocket) - len(found)
            p = self.burst * _BACK_OFF_FACTOR**-self.level if bursting else self.p
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

    @property
    def fleeting(self) -> bool:
        """One time hardly ends before the next begins: an order is out of date as soon as it is found."""
        return self.life < _MIN_BATCHES_BETWEEN_CHANGES

    def _spread(self, count: int) -> Int64s:
        """As many tuples as the purses pay for, from all of a batch: the order will be for all times, so the window
        must not hold one of them more than others."""
        self.paid_by_reserve = self.reserve >= self.pocket
        most = math.ceil(self.reserve if self.paid_by_reserve else self.pocket)
        heads, _ = self.coins.heads(count, min(self.p, self.block / count), most)
        return np.array(heads, np.int64)

    def processed(self, rows_in: Int64s, rows_out: Int64s, seconds: Float64s) -> None:
        if not len(self.free):
            return
        self.times.add(rows_in, seconds)
        self.rates.add(rows_in, rows_out)
        averages = self.times.averages()
        earned = self.overhead * float(rows_in @ averages / averages.sum()) / 2
        self.reserve = min(self.most[0], self.reserve + earned)
        self.pocket = min(self.most[1], self.pocket + earned)

    def profiled(self, dropped: Bools, seconds: Float64s) -> None:
        dropped = dropped[dropped[:, self.free].any(1)]
        if not len(dropped):
            return
        averages = self.times.averages()
        rest = self._reach @ averages[list(self.order)]  # what a tuple dropped at each position still costs
        spent = float(rest[first_drop(dropped[:, self.order])].sum() / averages.sum())
        if self.paid_by_reserve:
            self.reserve -= spent
        else:
            self.pocket -= spent
        self.window.push(dropped)
        self.pending += len(dropped)

    def decide(self, now: int | None = None) -> Decision | None:
        if not len(self.free):
            return None
        self.age += 1
        if self.rates.drift() > self.noticed * self.patience:
            self.age, self.life = 0, (self.life + self.age) / 2
            self._start_over()
            self.alarmed = True
            return None
        averages = self.times.averages()
        enough = self.block // 2
        if self.pending < enough and (self.window.count < enough or not self._dearer(averages)):
            return None
        self.pending, self.looked = 0, averages
        if not self.window.count:
            return None
        decision = self._reoptimize(now, averages)
        if decision is not None:
            self.patience, self.alarmed = 1.0, False
        elif self.alarmed and self.level:
            self.patience, self.alarmed = min(_MAX_BAR, self.patience * _BAR_GROWTH), False
        return decision

    def alarm(self) -> None:
        """The executor of the filters has seen by other means that the data have changed."""
        if len(self.free):
            self._start_over()
            self.alarmed = True

    def _dearer(self, averages: Float64s) -> bool:
        return bool(np.maximum(averages / self.looked, self.looked / averages).max() > _COST_CHANGE_FACTOR)

    def _start_over(self) -> None:
        """The tuples in the window are of another time: forget them and look hard. Where one time hardly ends before
        the next begins, they stay, and the order that comes of it is one for all times."""
        if not self.fleeting:
            self.window.clear()
        self.rates.settle()
        self.pending, self.hoped = 0, math.inf
        self.level, self.left = 0, self.block

    def _reoptimize(self, now: int | None, averages: Float64s) -> Decision | None:
        tuples = self.window.tuples()
        search = optimal_order if self.pipeline.filters <= _MAX_FILTERS_FOR_EXACT_SEARCH else greedy_order
        before, after = self.order, self._cheap_end(tuples, search(tuples, averages, self.segments), averages)
        self.hoped = 0.0
        if after == before or gain(tuples, before, after, averages) * self.alpha < 1:
            return None
        saved = tuple_costs(tuples, before, averages) - tuple_costs(tuples, after, averages)
        mean, error = float(saved.mean()), float(saved.std() / math.sqrt(len(saved)))
        if mean < self.confidence * error:
            self.hoped = mean if mean >= _ERRORS_TO_CONTINUE * error else 0.0
            if self.hoped and self.reserve > _RESERVE_SHARE_FOR_CHANGES * self.most[0]:
                self.level, self.left = min(self.level, 1), self.block
            return None
        self.order = after
        because = "a profile tuple costs {saved} ± {error} less"
        decision = self._decision(now, before, because, tuples, averages, saved=mean, error=error)
        if self.bursting:
            self.rates.settle()
        else:
            self._start_over()  # what has changed did not show in the rates; the window holds both times
        return decision

    def _cheap_end(self, tuples: Bools, order: tuple[int, ...], averages: Float64s) -> tuple[int, ...]:
        """Where next to no tuple of the window gets, the window does not know an order, and any is as good now: filters
        go by their cost, for the day when more tuples get there. Costs within a factor of two are alike."""
        gone = np.bincount(first_drop(tuples[:, order]), minlength=len(order)).tolist()
        reach = [len(tuples) - n for n in accumulate(gone[:-1], initial=0)]
        known = sum(n >= max(1.0, _MIN_WINDOW_SHARE * self.window.size) for n in reach)
        end = order[known:]
        if len(end) < 2:
            return order
        dearer = np.log2(averages / averages[list(end)].min()).astype(np.int64)
        return (*order[:known], *sorted(end, key=lambda f: (self.segments[f], dearer[f])))

    def statistics(self) -> Mapping[str, Any]:
        tuples = self.window.tuples()
        return {
            "profiled": len(tuples),
            "dropped": tuple((tuples.mean(0) if len(tuples) else np.zeros(self.pipeline.filters)).tolist()),
            "seconds": tuple(self.times.averages().tolist()),
            "p": max(self.p, self.burst * _BACK_OFF_FACTOR**-self.level),
        }

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            "coins": self.coins.state(),
            "window": self.window.state(),
            "times": self.times.state(),
            "rates": self.rates.state(),
            "looked": self.looked.copy(),
            **{name: getattr(self, name) for name in _SCALARS},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.coins.load(state["coins"])
        self.window.load(state["window"])
        self.times.load(state["times"])
        self.rates.load(state["rates"])
        self.looked = np.array(state["looked"], np.float64)
        for name in _SCALARS:
            setattr(self, name, type(getattr(self, name))(state[name]))
        self.hoped = math.inf  # until it has looked itself


_SCALARS = ("level", "left", "reserve", "pocket", "paid_by_reserve", "pending", "alarmed", "patience", "age", "life")
