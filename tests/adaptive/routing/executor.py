"""A second executor, a tuple and a call at a time: slow, obvious, and strict about what may be asked."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from eddyline.adaptive.routing.policy import RoutingPolicy
from eddyline.core.delta import Bools, Int64s
from eddyline.streamon.decision import Decision


@dataclass(slots=True)
class Seen:
    """``asked[row, operator]`` counts calls; ``passed`` are the rows that nothing dropped or failed for."""

    asked: np.ndarray
    passed: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)


def execute(policy: RoutingPolicy, passes: Bools, classes: Int64s, batch: int, fails: Bools | None = None) -> Seen:
    """Tuples wait in queues before operators, as in an Eddy; the longest queue is served, whole. Where ``fails``, an
    operator raises instead of answering, and the tuple goes on."""
    total, n = passes.shape
    seen = Seen(np.zeros(passes.shape, np.int64))
    for start in range(0, total, batch):
        rows = range(start, min(start + batch, total))
        orders = policy.route(classes[start : rows.stop])
        assert orders.shape == (len(rows), n) and all(sorted(o) == list(range(n)) for o in orders.tolist())
        outputs = np.full((len(rows), n), -1, np.int8)
        queues: list[deque[int]] = [deque() for _ in range(n)]
        at, failed = [0] * len(rows), [False] * len(rows)
        for row, order in enumerate(orders):
            queues[order[0]].append(row)
        while any(queues):
            operator = max(range(n), key=lambda o: len(queues[o]))
            waiting, queues[operator] = queues[operator], deque()
            for row in waiting:
                assert outputs[row, operator] == -1, "asked twice"
                seen.asked[start + row, operator] += 1
                raised = fails is not None and bool(fails[start + row, operator])
                failed[row] |= raised
                outputs[row, operator] = raised or passes[start + row, operator]
                if not outputs[row, operator]:
                    continue
                at[row] += 1
                if at[row] < n:
                    queues[orders[row, at[row]]].append(row)
                else:
                    (seen.failed if failed[row] else seen.passed).append(start + row)
        policy.processed(outputs, np.where((outputs >= 0).any(0), 1.0, np.nan))
        decision = policy.decide(rows.stop)
        if decision is not None:
            seen.decisions.append(decision)
    return seen
