"""Static: the order as it was written, for ever."""

from __future__ import annotations

from eddyline.adaptive.filters.base import OrderingPolicy


class Static(OrderingPolicy):
    """The do-nothing baseline that every policy is measured against: it profiles nothing and decides nothing.

    It wins where order cannot matter (one filter, or filters that drop little), and wherever the written order is the
    best one and stays so. It loses without bound when the data change.

    >>> from eddyline.adaptive.filters.pipeline import Pipeline
    >>> from eddyline.adaptive.filters.simulate import draw, simulate
    >>> drops = draw(10_000, [0.1, 0.5, 0.9], seed=1)
    >>> for order in ((0, 1, 2), (2, 1, 0)):
    ...     run = simulate(Static(Pipeline(3, initial=order)), drops)
    ...     print(order, run.work, run.profiling, len(run.decisions))
    (0, 1, 2) 23500.0 0.0 0
    (2, 1, 0) 11522.0 0.0 0
    """

    name = "static"
