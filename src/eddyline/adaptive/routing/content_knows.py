"""Content-Knows: the reference for Content-Learns, with the best classifier and orders given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eddyline.adaptive.filters.bounds import optimal_order
from eddyline.adaptive.routing.base import Router
from eddyline.adaptive.routing.policy import Classifier, Outputs
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Bools, Int64s
from eddyline.core.errors import JobError


class ContentKnows(Router):
    """Routes by a given attribute, with a given order for each of its classes. It learns nothing, so it has no cost of
    learning; tuples of other classes take the initial order.

    >>> from eddyline.adaptive.filters.pipeline import Pipeline
    >>> policy = ContentKnows(Setting(Pipeline(3), ("A",)), 0, {0: (1, 0, 2), 2: (0, 2, 1)})
    >>> policy.route(np.array([[0], [1], [2], [-1]])).tolist()
    [[1, 0, 2], [0, 1, 2], [0, 2, 1], [0, 1, 2]]
    """

    name = "content-knows"

    def __init__(self, setting: Setting, attribute: int, orders: Mapping[int, Sequence[int]]) -> None:
        super().__init__(setting)
        if not 0 <= attribute < len(setting.attributes):
            raise JobError(f"the attribute must be among 0 to {len(setting.attributes) - 1}, not {attribute}.")
        self.attribute = attribute
        self.table: Int64s = np.tile(self.initial, (setting.d + 1, 1))  # the last row is for class −1
        for number, order in orders.items():
            if not 0 <= number < setting.d or not setting.pipeline.allows(order):
                raise JobError(f"class {number} cannot take the order {tuple(order)}.")
            self.table[number] = order

    @property
    def classifiers(self) -> tuple[Classifier, ...]:
        return ((self.attribute,),) * self.n

    def route(self, classes: Int64s) -> Int64s:
        self.routed += len(classes)
        return self.table[classes[:, self.attribute]]


def best_by_class(setting: Setting, attribute: int, outputs: Outputs | Bools, classes: Int64s) -> ContentKnows:
    """Content-Knows for data that are known beforehand: the cheapest of all orders for the tuples of each class (up to
    16 filters).

    >>> from eddyline.adaptive.filters.pipeline import Pipeline
    >>> passes = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], bool)
    >>> best_by_class(Setting(Pipeline(2), ("A",)), 0, passes, np.array([[0], [0], [1], [1]])).table[:3].tolist()
    [[1, 0], [0, 1], [0, 1]]
    """
    drops, prices = ~outputs.astype(np.bool_), setting.pipeline.costs
    segments = setting.pipeline.segments if setting.pipeline.pinned else None
    column = classes[:, attribute]
    best = {
        int(i): optimal_order(drops[column == i], prices, segments) for i in np.unique(column[column >= 0]).tolist()
    }
    return ContentKnows(setting, attribute, best)
