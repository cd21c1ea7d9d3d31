"""Orders pipelines whose elements find many partners, by how often rows of the windows agree.

Policies for filters learn from elements that are dropped. Where elements find partners in all inputs there are next to
none, and nearly all accesses are those of partial results (``adaptive.joins.fanouts``). What orders take then follows
from the rows of the windows and from how often these agree, which is estimated from samples of the windows: no element
has to be profiled for it, and it is known as soon as windows hold rows of another kind.

A *review* compares orders. It is made between two elements, when enough work was done since the last one to pay for it,
and only if an element takes many more accesses than probes of all inputs. The estimate is used if it describes the
present orders: what elements took of late is within ``TRUSTED_FACTOR`` of what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eddyline.adapting.join_ordering import JoinOrdering
from eddyline.adaptive.joins.fanouts import fewest_first, pipeline_work
from eddyline.core.delta import Int64s
from eddyline.kernels import join_layout as k
from eddyline.kernels.agreement import agreeing_pairs
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.join_plan import Step
from eddyline.streamon.decision import Decision

Order = tuple[int, ...]

# Accesses an element, for each join of its pipeline, from which most are those of partial results.
DEAR_ACCESSES = 10.0
# Accesses between two reviews, for each pair of inputs: less follows the data sooner. A review takes a tenth of their
# time at most.
ACCESSES_PER_PAIR = 100_000
MOST_PATIENCE = 16  # times as many between two reviews, if those before changed nothing: each one doubles them
DEARER = 1.25  # times the accesses of an element at the last review, from which the next one is not put off
TRUSTED_FACTOR = 2.0  # by which elements may take more or less than estimated
WORK_RATIO_TO_REORDER = 1.25  # ratio of the work of two orders from which the better one is taken
SAVED_SHARE_TO_REORDER = 0.05  # of the work of all pipelines that the change of an order must save
SAMPLE = 1_024  # newest rows of a window in which agreements are counted: more are surer and cost time
ADMITTED = 0.5  # share of the pairs of rows that a comparison by order is taken to admit
ESTIMATED = "by how often rows of the windows agree, an element takes {after} instead of {before}"
UNDONE = "an element takes {before} with the orders that were estimated to be better, and {after} with those before"


@dataclass(frozen=True, slots=True)
class NewOrder:
    """``saved`` are accesses of an average element of the join."""

    pipeline: int
    order: Order
    saved: float
    decision: Decision


class FanoutModel:
    """What the pipelines of a join take, by the rows that are in its windows now."""

    def __init__(self, arrays: JoinArrays) -> None:
        self.arrays, self.rows = arrays, arrays.rows()
        self._codes: dict[int, Int64s] = {}
        self._agreeing: dict[tuple[int, int, int, int], float] = {}

    def work(self, source: int, order: Sequence[int]) -> float:
        """Accesses of an element of ``source``."""
        bound, level, steps = [source], {source: 0}, []
        for target in order:
            step = self.arrays.graph.step(target, bound)
            steps.append((self.found(step, bound), max((level[x.input] for x in step.probes), default=0)))
            bound.append(target)
            level[target] = len(steps)
        return pipeline_work(steps)

    def best(self, source: int, connected: Callable[..., bool]) -> Order:
        graph = self.arrays.graph
        return fewest_first(
            source, graph.size, lambda target, bound: self.found(graph.step(target, bound), bound), connected
        )

    def found(self, step: Step, bound: Sequence[int]) -> float:
        """Rows that a partial result finds."""
        rows = float(self.rows[step.target])
        for key, member in zip(step.columns, step.probes, strict=True):
            rows *= self._agree(step.target, key, member.input, member.key)
        for c in self.arrays.conditions:
            ends = {c.left.input, c.right.input}
            if c.op != "ne" and step.target in ends and ends <= {step.target, *bound}:
                rows *= ADMITTED
        return rows

    def _agree(self, i: int, key: int, j: int, other: int) -> float:
        """The probability that a row of input i and one of input j agree in these keys."""
        if (i, key) > (j, other):
            i, key, j, other = j, other, i, key
        found = self._agreeing.get((i, key, j, other))
        if found is None:
            mine, others = self._sample(i), self._sample(j)
            pairs = int(agreeing_pairs(mine, key, others, other)) if len(mine) and len(others) else 0
            found = self._agreeing[i, key, j, other] = pairs / max(1, len(mine) * len(others))
        return found

    def _sample(self, i: int) -> Int64s:
        """The codes of the newest rows of a window, a line for each."""
        if i not in self._codes:
            arrays = self.arrays
            first, tail = int(arrays.first[i]), int(arrays.tail[i])
            offset, width, mask = arrays.inputs[i, [k.CODE_OFF, k.CODE_WIDTH, k.POS_MASK]].tolist()
            places = np.arange(max(first, tail - SAMPLE), tail) & mask
            self._codes[i] = arrays.codes[offset + places[:, None] * width + np.arange(width)]
        return self._codes[i]


class JoinFanouts:
    """Reviews the orders of one join. ``ordering`` has the policies, which go on from the orders that a review sets."""

    def __init__(self, ordering: JoinOrdering) -> None:
        self.ordering = ordering
        m = ordering.shape.size
        self.price, self.dear = ACCESSES_PER_PAIR * m * (m - 1) // 2, DEAR_ACCESSES * (m - 1)
        self.start_over()

    def start_over(self) -> None:
        """Forget what was going on, but not what was learned."""
        self.since = 0  # accesses since the last review
        self.rate = self.reviewed = 0.0  # accesses of an element: of late, and at the last review
        self.patience = 1
        self.known = False  # whether the estimate described the orders at the last review
        # By pipeline the orders before the last review that changed some, and the accesses of an element then.
        self.before: dict[int, Order] = {}
        self.rate_before = 0.0

    def account(self, elements: int, accesses: int) -> None:
        """What was done."""
        self.since += accesses
        if elements:
            self.rate = accesses / elements

    @property
    def missing(self) -> int | None:
        """Accesses until a review may be due, however few elements take them; None while they take few."""
        if 0 < self.rate < self.dear:
            return None
        return self.price - self.since % self.price

    @property
    def due(self) -> bool:
        if self.rate <= self.dear or self.since < self.price:
            return False
        return self.since >= self.patience * self.price or self.rate > DEARER * self.reviewed

    def review(self, arrays: JoinArrays, shares: Sequence[float], now: int) -> tuple[list[NewOrder], list[Decision]]:
        """Better orders, and decisions about pinned ones that were not applied. ``shares`` are those of the inputs in
        the elements."""
        self.since, self.reviewed = 0, self.rate
        self.patience = min(MOST_PATIENCE, 2 * self.patience)
        if not all(s.ring for s in arrays.sides):
            return [], []  # nobody counts the rows of a bag
        model, present = FanoutModel(arrays), arrays.orders
        works = [model.work(i, order) for i, order in enumerate(present)]
        expected = sum(w * s for w, s in zip(works, shares, strict=True))
        self.known = expected > 0 and 1 / TRUSTED_FACTOR <= self.rate / expected <= TRUSTED_FACTOR
        if not self.known:
            return self._undone(present, now), []
        made: list[NewOrder] = []
        suggested: list[NewOrder] = []
        for i, order in enumerate(present):
            found = self._better(model, i, order, works[i], shares[i], expected, now)
            if found is not None:
                (made if found.decision.applied else suggested).append(found)
        self.before, self.rate_before = {n.pipeline: present[n.pipeline] for n in made}, self.rate
        if made:
            self.patience = 1
        self._impose(made)
        return made, [n.decision for n in suggested]

    def _better(
        self, model: FanoutModel, i: int, order: Order, work: float, share: float, expected: float, now: int
    ) -> NewOrder | None:
        """A better order of a pipeline, if it is worth a change."""
        hold, filters = self.ordering.holds[i], self.ordering.filters[i]
        if hold.holds and not (hold.pinned and hold.lets_decide()):
            return None
        best = filters.order_of([filters.targets.index(x) for x in model.best(i, self.ordering.shape.connected)])
        least = model.work(i, best)
        saved = (work - least) * share
        if best == order or work < WORK_RATIO_TO_REORDER * least or saved < SAVED_SHARE_TO_REORDER * expected:
            return None
        decision = self._decision(i, order, best, ESTIMATED, {"before": work, "after": least}, now)
        if hold.pinned:
            hold.wait(reported=True)
            decision = replace(decision, applied=False)
        return NewOrder(i, best, saved, decision)

    def _decision(
        self, i: int, before: Order, after: Order, because: str, costs: Mapping[str, float], now: int
    ) -> Decision:
        names = self.ordering.names
        return Decision(
            f"order of Δ{names[i]}",
            [names[x] for x in before],
            [names[x] for x in after],
            because,
            {**costs, "measured": self.rate},
            dict.fromkeys((*costs, "measured"), "accesses"),
            expected_gain=costs["before"] / costs["after"],
            operator=self.ordering.operator,
            time=now,
        )

    def _undone(self, present: Sequence[Order], now: int) -> list[NewOrder]:
        """The orders before the last review, if elements take no less since and the estimate does not say why."""
        before, self.before = self.before, {}
        if not before or self.rate < self.rate_before:
            return []
        self.patience = MOST_PATIENCE
        costs = {"before": self.rate, "after": self.rate_before}
        undone = [
            NewOrder(i, order, 0.0, self._decision(i, present[i], order, UNDONE, costs, now))
            for i, order in before.items()
            if not self.ordering.holds[i].holds
        ]
        self._impose(undone)
        return undone

    def _impose(self, made: Sequence[NewOrder]) -> None:
        for n in made:
            self.ordering.impose(n.pipeline, n.order)

    def refuses(self, arrays: JoinArrays) -> Callable[[int, Order], bool]:
        """Whether an order that a policy has chosen takes more than the present one by the estimate, where that
        describes the join: the policy knows nothing of partial results."""
        if not self.known or not all(s.ring for s in arrays.sides):
            return lambda i, order: False
        model = FanoutModel(arrays)
        return lambda i, order: model.work(i, order) > model.work(i, arrays.orders[i])
