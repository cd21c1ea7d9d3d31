"""A small executor over known outcomes with declared costs: exact, repeatable counts of the cost of a routing policy.

It follows the protocol of ``policy`` exactly, so it is also the model for executors of real operators. A
*routing call* is one tuple shown to one operator, the paper's measure; profiling costs no call of its own, it only
sends tuples another way, so all its cost is in the count.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from eddyline.adaptive.filters.bounds import Costs
from eddyline.adaptive.routing.policy import Classifier, Outputs, RoutingPolicy
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.streamon.decision import Decision


@dataclass(frozen=True, slots=True)
class Run:
    """What happened: tuples out for each tuple in, routing calls and cost by sub-batch, what was decided, and by which
    classifier operators were routed to, in routing calls.
    """

    out: Int64s
    calls_by_batch: Int64s
    cost_by_batch: Float64s
    decisions: tuple[Decision, ...]
    calls_by_classifier: dict[tuple[int, Classifier], int]

    @property
    def calls(self) -> int:
        return int(self.calls_by_batch.sum())

    @property
    def cost(self) -> float:
        return float(self.cost_by_batch.sum())

    def wrong(self, *right: int) -> float:
        """The share of routing calls to operators that were routed by a classifier without any of the right attributes.
        An operator without a classifier is not routed by a wrong one.
        """
        missed = sum(
            calls
            for (_, classifier), calls in self.calls_by_classifier.items()
            if classifier is not None and not set(classifier) & set(right)
        )
        return missed / max(self.calls, 1)

    def unclassified(self) -> float:
        """The share of routing calls to operators without a classifier."""
        none = sum(calls for (_, classifier), calls in self.calls_by_classifier.items() if classifier is None)
        return none / max(self.calls, 1)


def simulate(
    policy: RoutingPolicy,
    outputs: Outputs | Bools,
    classes: Int64s | None = None,
    costs: Costs | None = None,
    batch: int = 500,
) -> Run:
    """Drive a policy over tuples in sub-batches. ``outputs``: for each tuple and operator whether the operator passes
    the tuple, or how many it makes of it. ``classes``: for each tuple and attribute its class.

    >>> from eddyline.adaptive.filters.pipeline import Pipeline
    >>> from eddyline.adaptive.routing.content_knows import best_by_class
    >>> from eddyline.adaptive.routing.setting import Setting
    >>> passes, classes = np.array([[1, 0], [0, 1]] * 500, bool), np.array([[0], [1]] * 500)
    >>> policy = best_by_class(Setting(Pipeline(2), ("A",)), 0, passes, classes)
    >>> simulate(policy, passes, classes).calls
    1000
    """
    small = outputs.dtype == np.bool_ or outputs.dtype == np.int8
    out: Outputs = outputs.astype(np.int8) if small else outputs.astype(np.int64)
    rows, n = out.shape
    ids = np.empty((rows, 0), np.int64) if classes is None else np.asarray(classes, np.int64)
    prices = np.broadcast_to(np.ones(n) if costs is None else np.asarray(costs, np.float64), (rows, n))
    left = np.zeros(rows, np.int64)
    calls, spent, decisions = [], [], []
    by_classifier: Counter[tuple[int, Classifier]] = Counter()
    for start in range(0, rows, batch):
        part = slice(start, start + batch)
        orders, classifiers = policy.route(ids[part]), policy.classifiers
        in_order: Int64s = np.take_along_axis(out[part], orders, 1).astype(np.int64)
        came_out = np.cumprod(in_order, axis=1)
        left[part] = came_out[:, -1]
        shown = np.ones_like(came_out)  # tuples shown, by position; after an operator that multiplies more than one
        shown[:, 1:] = came_out[:, :-1]
        by_operator = np.empty_like(shown)
        np.put_along_axis(by_operator, orders, shown, 1)
        counts = by_operator.sum(0)
        calls.append(int(counts.sum()))
        spent.append(float((by_operator * prices[part]).sum()))
        for operator, classifier in enumerate(classifiers):
            by_classifier[operator, classifier] += int(counts[operator])
        price = prices[part].mean(0)
        policy.processed(np.where(by_operator > 0, out[part], -1), np.where(counts > 0, price, np.nan))
        decision = policy.decide(min(start + batch, rows))
        if decision is not None:
            decisions.append(decision)
    return Run(left, np.array(calls, np.int64), np.array(spent), tuple(decisions), dict(by_classifier))
