"""The product's default: Content-Learns' matrices, with P, R and d chosen from the data and steadier selectivities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from eddyline.adaptive.routing.averages import CountedAverages
from eddyline.adaptive.routing.base import expected_cost, ranks, stands_apart
from eddyline.adaptive.routing.candidates import Candidates
from eddyline.adaptive.routing.gain_ratio import Correlation, deviate
from eddyline.adaptive.routing.learner import CLASSIFIED, NONE, Learner
from eddyline.adaptive.routing.parameters import COST_AWARE, GAMMA, PRUNE, SETS, P, R
from eddyline.adaptive.routing.policy import Outputs
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.draws import uniform_draws
from eddyline.streamon.drift import DropRates
from eddyline.streamon.parameters import SEED, Parameter, check_all

BURST = Parameter("burst", 0, 1, "sampling probability while little is known: larger learns sooner and strays more")
CONTROL = Parameter(
    "control", 0, 0.5, "share of tuples routed without classifiers to measure what these gain: larger learns it sooner"
)
OVERHEAD = Parameter(
    "overhead",
    0,
    1,
    "share of the work that sampling may cost beyond P and burst: larger learns more where it is cheap",
)
MEMORY = Parameter(
    "memory", 8, 1_000_000, "tuples in a selectivity: more are steadier and forget the past more slowly", whole=True
)
CONFIDENCE = Parameter(
    "confidence",
    0,
    100,
    "standard deviations by which a gain ratio must exceed chance: larger makes fewer mistakes, later",
)
DRIFT = Parameter(
    "drift", 0, 100, "standard deviations that a selectivity must have moved to start over: smaller notices more"
)

_PRIOR_TUPLES = 2.0  # tuples of W mixed into each class's selectivity
_MAX_OVERHEAD = 0.01  # share of the work that sampling may cost while there are few samples
_SAMPLES_WELL_KNOWN = 4000.0  # sample tuples of an operator from which on sampling keeps to ``overhead``
_MAX_SAMPLES = 8000  # sample tuples of an operator after which the older half fades
_GAIN_RATIO_TO_REPLACE = 1.1  # times a classifier's gain ratio, which the gain ratio of its successor must exceed
_TUPLES_KEPT_AFTER_CHANGE = 40.0  # weight of a selectivity after a change, in tuples: fewer forget sooner
_TUPLES_BEFORE_VERDICT = 150  # routed without classifiers before classifiers are first judged
_CONTROL_FACTOR_BEFORE_VERDICT = 4.0  # times ``control`` go without classifiers until then
_ERRORS_TO_GIVE_UP = 3.0  # standard errors by which classifiers must cost more than none to be given up
_RANK_OF_FIRST = -1e300  # of an operator that is to come first
_NO_TUPLES: Int64s = np.empty(0, np.int64)


class Default(Learner):
    """Routes by content as Content-Learns does, and learns at the right time.

    - *P from the data.* A sampled tuple takes another operator first, which costs the more the better routes are known.
      P is what a share of the work pays for: 1 % while little is known, falling to ``overhead`` with the square of
      what is known. Where operators look alike sampling costs nothing, and every tuple is sampled. Samples are
      shared out over all operators in turn, and every operator that a sampled tuple gets to counts it.
    - *R from the data.* An attribute is a classifier as soon as the sample shows it: when its gain ratio, corrected for
      bias, exceeds chance by ``confidence`` standard deviations and ``gamma``. So a strong correlation takes some
      hundred tuples, a weak one as many as it needs. Operators keep their classifiers while they are profiled.
    - *d from the data.* Of an attribute that is partitioned by range, ranges of two, four … neighbours compete too.
    - *Selectivities* are means over up to ``memory`` tuples of the class, with as much of W as makes up for few, or
      over the last 32 where these contradict the rest. A route uses them as they were when they last moved by more
      than their standard error: ties do not flip.
    - *Change.* A pass rate of a class that moves by ``drift`` standard deviations from what it was after the last
      decision makes samples and selectivities fade, and P rise again.
    - *Gain, measured.* A share ``control`` of the tuples goes without classifiers, always. What the others cost less is
      what classifiers gain; if they cost more, by three standard errors, all are given up until the sample has doubled.
    - *Costs count*: operators rank by (σ − 1)/c. Operators that stand apart are not profiled (4.4).

    Where no attribute helps, it costs what it costs to look: a share ``P`` of tuples takes another operator first.

    Parameters
    ----------
    P
        Tuple sampling probability in the long run. Larger follows changes sooner and strays more.
    burst
        The same while little is known.
    R
        Tuples of an operator before anything is decided, twice over.
    gamma
        Least gain ratio of a classifier, beyond bias and chance.
    confidence
        Standard deviations beyond chance. Larger makes fewer mistakes, later.
    memory
        Tuples in a selectivity.
    drift
        Standard deviations that make a change.
    control
        Share of tuples routed without classifiers; four times as many until a decision has been judged.
    overhead
        Share of the work that sampling may cost in the long run, beyond P.
    prune
        How many times better or worse than all others an operator must rank to be left out of profiling.
    sets
        Most attributes in a classifier: 2 finds pairs of attributes that predict outcomes only together.
    cost_aware
        0 ignores what operators cost, as the paper does.
    seed
        Which tuples are sampled.

    >>> from eddyline.adaptive.routing.simulate import simulate
    >>> from eddyline.adaptive.routing.stream_star import skewed, stream_star
    >>> star = stream_star(skewed(4, 0.05), tuples=20_000, seed=1)
    >>> policy = Default(star.setting)
    >>> run = simulate(policy, star.passes, star.classes)
    >>> policy.classifiers, round(run.calls / 20_000, 2)  # at best 1.15, without classifiers 2.56
    (((0,), (0,), (0,), (0,)), 1.21)
    """

    name = "default"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        P, BURST, R, GAMMA, CONFIDENCE, MEMORY, DRIFT, CONTROL, OVERHEAD, PRUNE, SETS, COST_AWARE, SEED,
    )  # fmt: skip

    def __init__(
        self,
        setting: Setting,
        *,
        P: float = 0.01,
        burst: float = 1.0,
        R: int = 150,
        gamma: float = 0.0002,
        confidence: float = 3.5,
        memory: int = 1000,
        drift: float = 8.0,
        control: float = 0.005,
        overhead: float = 0.001,
        prune: float = 10.0,
        sets: int = 1,
        cost_aware: int = 1,
        seed: int = 0,
    ) -> None:
        given = {"P": P, "burst": burst, "R": R, "gamma": gamma, "confidence": confidence, "memory": memory}
        given |= {"drift": drift, "control": control, "overhead": overhead, "prune": prune, "sets": sets}
        given |= {"cost_aware": cost_aware, "seed": seed}
        checked = check_all(self.parameters, self.name, given)
        candidates = Candidates(setting, sets=checked["sets"], widths=True)
        super().__init__(setting, candidates, checked["seed"], bool(checked["cost_aware"]))
        self.P, self.burst, self.R = float(checked["P"]), float(checked["burst"]), int(checked["R"])
        self.gamma, self.confidence = float(checked["gamma"]), float(checked["confidence"])
        self.noticed, self.control = float(checked["drift"]), float(checked["control"])
        # The more pairs are tested, the further the best of them lies beyond chance: for an operator, for all.
        tests = max(1, len(candidates)) * np.array([self.n, 1])
        self.bars: Float64s = np.sqrt(self.confidence**2 + 2 * np.log(tests))
        self.overhead, self.prune = float(checked["overhead"]), float(checked["prune"])
        self.W = CountedAverages(self.n, checked["memory"])
        self.S = CountedAverages(self.n * self.d, checked["memory"])
        self.rates = DropRates(self.n * self.d)
        # What routes use: W and S as they were when they last moved by more than their error.
        self.W_used: Float64s = np.full(self.n, 0.5)
        self.S_used: Float64s = np.full((self.n, self.d), 0.5)
        self.known = 0.0  # sample tuples per operator since the last change
        self.looked = 0.0  # the same at the last look for classifiers
        self.per_overhead = 1e9  # the P at which sampling doubles the work: any, as long as nothing is known
        self.turn = 0
        self.banned_until = 0.0
        self.judged = True  # whether what the classifiers in use gain has been reported
        self.sampled: Int64s = _NO_TUPLES
        self.controlled: Bools = np.empty(0, np.bool_)

    @property
    def sampling(self) -> float:
        """P, as it is now: what may be spent on learning, for what it costs to send tuples another way."""
        allowed = min(_MAX_OVERHEAD, self.overhead * max(1.0, (_SAMPLES_WELL_KNOWN / max(self.known, 1.0)) ** 2))
        return max(self.P, min(self.burst, allowed * self.per_overhead))

    def use_classifiers(self, names: tuple[str | None, ...]) -> None:
        super().use_classifiers(names)
        self.rates.settle()
        self.judged = False

    def route(self, classes: Int64s) -> Int64s:
        self.classes = classes
        first, rows = self.routed, len(classes)
        self.routed += rows
        sigma = self._selectivities(self.CA, self.S_used, self.W_used, self._columns(self.CA))
        # While it is not yet known what the classifiers gain, more tuples go without.
        share = self.control if self.judged else min(0.5, _CONTROL_FACTOR_BEFORE_VERDICT * self.control)
        self.controlled = uniform_draws(self.seed, first, rows)[:, 0] < share
        if (self.CA != NONE).any():
            sigma[self.controlled] = self.W_used
        keys = ranks(sigma, self.prices)
        self.sampled = _NO_TUPLES
        if len(self.free) and len(self.candidates):
            heads = np.array(self.coins.heads(rows, self.sampling)[0], np.int64)
            self.sampled = heads[~self.controlled[heads]]
            leader, worth = self._worth_profiling()
            keys[self.sampled, worth[(self.turn + np.arange(len(self.sampled))) % len(worth)]] = _RANK_OF_FIRST
            if leader is not None:
                keys[self.sampled, leader] = -np.inf
            self.turn = (self.turn + len(self.sampled)) % len(worth)
        return self._orders(keys)

    def _worth_profiling(self) -> tuple[int | None, Int64s]:
        """The operator that comes first in any case, for sampled tuples too, and those that are profiled."""
        apart = stands_apart(self.W_used, self.times.averages(), self.prune)
        worth = self.free[~np.isin(self.free, [o for o in apart if o is not None])]
        return (apart[0], worth) if len(worth) else (None, self.free)

    def processed(self, outputs: Outputs, seconds: Float64s) -> None:
        super().processed(outputs, seconds)
        asked = outputs >= 0
        self._watch(outputs, asked, *self._average(self.W, self.S, outputs))
        if (self.CA != NONE).any():
            usual = np.ones(len(outputs), np.bool_)
            usual[self.sampled] = False
            costs = asked[usual] @ self.times.averages()
            self.contest.add(costs, ~self.controlled[usual])
        if len(self.sampled):
            self._sample(outputs, asked)

    def _watch(self, outputs: Outputs, asked: Bools, rows: Int64s, operators: Int64s, cells: Int64s) -> None:
        """Pass rates by operator and class, or by operator alone where it has no classifier."""
        passed = np.minimum(outputs, 1)
        blind = np.flatnonzero(self.CA == NONE)
        cell_count = self.n * self.d
        rows_in = np.bincount(cells, minlength=cell_count)
        rows_out = np.bincount(cells, passed[rows, operators], cell_count).astype(np.int64)
        rows_in[blind * self.d] += asked[:, blind].sum(0)
        rows_out[blind * self.d] += (passed[:, blind] * asked[:, blind]).sum(0)
        self.rates.add(rows_in, rows_out)

    def _sample(self, outputs: Outputs, asked: Bools) -> None:
        classes = self.candidates.classes(self.classes[self.sampled])
        for operator in self.free.tolist():
            shown = asked[self.sampled, operator]
            self.samples.add(operator, classes[shown], outputs[self.sampled[shown], operator])
            self.known += float(shown.sum()) / len(self.free)
            if self.samples.size[operator] > _MAX_SAMPLES:
                self.samples.scale(operator, 0.5)

    def decide(self, now: int | None = None) -> Decision | None:
        if not len(self.free):
            return None
        if self.rates.drift() > self.noticed:
            self._start_over()
        self._refresh()
        worse = self._judge(now)
        if worse is not None:
            return worse
        if self.known < self.R / 2 or self.known < self.looked * 1.1 or self.known < self.banned_until:
            return None
        self.looked = self.known
        decision = self._classify(now)
        self._afford()
        return decision

    def _refresh(self) -> None:
        """Let routes follow selectivities that have moved by more than their standard error."""
        W = self.W.means(0.5, 1.0)
        S = self.S.means(np.repeat(W, self.d), _PRIOR_TUPLES).reshape(self.n, self.d)
        for used, now, averages in ((self.W_used, W, self.W), (self.S_used, S, self.S)):
            share = np.clip(now, 0.01, 0.99)
            spread = np.maximum(averages.variances(now.ravel()).reshape(now.shape), share * (1 - share))
            error = np.sqrt(spread / (averages.count.reshape(now.shape) + _PRIOR_TUPLES))
            np.copyto(used, now, where=np.abs(now - used) > error)

    def _afford(self) -> None:
        """What P costs: a sampled tuple takes another operator first. Where operators are as good as each other that
        costs nothing, and that is where most is to be learned.
        """
        sigma = self._selectivities(self.CA, self.S_used, self.W_used, self._columns(self.CA))
        keys, prices = ranks(sigma, self.prices), self.times.averages()
        usual = expected_cost(sigma, self._orders(keys), prices)
        astray = []
        leader, worth = self._worth_profiling()
        for operator in worth.tolist():
            first = keys.copy()
            first[:, operator] = _RANK_OF_FIRST
            if leader is not None:
                first[:, leader] = -np.inf
            astray.append(expected_cost(sigma, self._orders(first), prices))
        extra = float(np.mean(astray)) - usual
        self.per_overhead = usual / max(extra, 1e-9) if usual else 0.0

    def _start_over(self) -> None:
        """The data have changed: what is known counts little, and much is to be learned."""
        self.W.forget(_TUPLES_KEPT_AFTER_CHANGE)
        self.S.forget(_TUPLES_KEPT_AFTER_CHANGE)
        self.rates.settle()
        for operator in range(self.n):
            size = self.samples.size[operator]
            self.samples.scale(operator, min(1.0, self.R / 4 / max(size, 1.0)))
        self.known = self.looked = 0.0
        self.banned_until = 0.0
        self.contest.clear()
        self.judged = not (self.CA != NONE).any()
        self._afford()

    def _classify(self, now: int | None) -> Decision | None:
        """Give each operator the candidate with the highest gain ratio, if it is significant."""
        before = self.CA.copy()
        found = {o: self.samples.correlations(o) for o in self.free.tolist()}
        joint = deviate(*(np.sum([getattr(f, part) for f in found.values()], axis=0) for part in ("chi", "free")))
        for operator, correlations in found.items():
            self.CA[operator] = self._choice(int(before[operator]), correlations, joint)
        changed = np.flatnonzero(before != self.CA)
        if not len(changed):
            return None
        for operator in changed[self.CA[changed] != NONE].tolist():
            at = int(self.CA[operator])
            self.S.set(
                operator * self.d + np.arange(self.d),
                self.samples.tuples_in[operator, at].copy(),
                self.samples.tuples_out[operator, at].copy(),
                self.samples.squares[operator, at].copy(),
            )
            prior = self.W.means(0.5, 1.0)[operator]
            self.S_used[operator] = self.S.means(prior, _PRIOR_TUPLES).reshape(self.n, self.d)[operator]
        self.rates.settle()
        self.contest.clear()
        self.judged = not (self.CA != NONE).any()
        evidence = {
            "operators": changed.tolist(),
            "sample": [int(self.samples.size[o]) for o in changed],
            "gain_ratio": [float(found[o].corrected[self.CA[o]]) if self.CA[o] != NONE else 0.0 for o in changed],
            "significance": [float(found[o].significance[self.CA[o]]) if self.CA[o] != NONE else 0.0 for o in changed],
        }
        evidence["attributes"] = [self._name(int(self.CA[o])) if self.CA[o] != NONE else None for o in changed]
        gain = self._expected_gain(before, self.CA, self.S_used, self.W_used)
        names = self._names(before), self._names(self.CA)
        return self._decision(now, "classifier", *names, CLASSIFIED, evidence, expected=gain)

    def _choice(self, current: int, found: Correlation, joint: Float64s) -> int:
        """``joint`` is the significance of each candidate for all operators taken together: an attribute that is
        significant for the operators as a whole needs less significance for each of them.
        """
        alone = found.significance
        support = np.maximum(alone - self.bars[0], np.where(alone > 0, joint - self.bars[1], -np.inf))
        allowed = (support > 0) & (found.corrected > self.gamma)
        best = int(np.where(allowed, found.corrected, -np.inf).argmax())
        # A classifier is kept down to half of what it took: what chance has given fades as the sample grows.
        kept = current != NONE and max(alone[current], joint[current] * (alone[current] > 0)) > self.confidence / 2
        if kept and not (allowed[best] and found.corrected[best] > _GAIN_RATIO_TO_REPLACE * found.corrected[current]):
            return current
        return best if allowed[best] else NONE

    def _judge(self, now: int | None) -> Decision | None:
        """Report once what the classifiers in use gain, and give them up if they lose."""
        if self.contest.count[1] < _TUPLES_BEFORE_VERDICT or not (self.CA != NONE).any():
            return None
        error, saved, names = self.contest.error, self.contest.saved, self._names(self.CA)
        evidence = self.contest.evidence()
        costs = "a tuple costs {with} with classifiers, {without} without, ± {error}"
        if saved < -_ERRORS_TO_GIVE_UP * error:
            self.CA[:] = NONE
            self.banned_until = 2 * self.known
            self.rates.settle()
            self.contest.clear()
            after, gained = self._names(self.CA), evidence["gained"]
            return self._decision(now, "classifier rejected", names, after, costs, evidence, measured=gained)
        if self.judged:
            return None
        self.judged = True
        return self._decision(now, "classifier kept", names, names, costs, evidence, measured=evidence["gained"])

    def statistics(self) -> Mapping[str, Any]:
        return {
            **super().statistics(),
            **self._table(self.S_used, self.W_used),
            "P": self.sampling,
            "sample": tuple(int(s) for s in self.samples.size),
            "measured": self.contest.evidence() if min(self.contest.count) > 1 else None,
        }

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            "W": self.W.state(),
            "S": self.S.state(),
            "rates": self.rates.state(),
            "W_used": self.W_used.copy(),
            "S_used": self.S_used.copy(),
            **{name: getattr(self, name) for name in _SCALARS},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.W.load(state["W"])
        self.S.load(state["S"])
        self.rates.load(state["rates"])
        self.W_used, self.S_used = np.array(state["W_used"], np.float64), np.array(state["S_used"], np.float64)
        for name in _SCALARS:
            setattr(self, name, type(getattr(self, name))(state[name]))


_SCALARS = ("known", "looked", "per_overhead", "turn", "banned_until", "judged")
