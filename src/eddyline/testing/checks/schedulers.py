"""Checks of scheduling policies (``scheduler``): whatever runs next, it is one of those that are ready."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.schema import Field, Schema
from eddyline.engine.queues import Queue
from eddyline.engine.scheduler import Scheduler
from eddyline.engine.task import Estimate, Task
from eddyline.testing.checks.check import require

Make = Callable[[], Scheduler]


def scheduler_checks(make: Make) -> Iterator[tuple[str, Callable[[], None]]]:
    yield "chooses among the ready ones", partial(_among, make)
    yield "the same statistics give the same choices", partial(_deterministic, make)


class _Nothing:
    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        return deltas[0]

    def complete_to(self, frontier: int) -> int:
        return frontier


def tasks(seed: int) -> list[Task]:
    """A chain of five operators with random costs and selectivities; all of them are ready."""
    rng, schema = random.Random(seed), Schema((Field("a", pa.int64()),))
    queues = [Queue(schema) for _ in range(6)]
    found = [
        Task(
            _Nothing(f"operator {i}"),
            [queues[i]],
            [queues[i + 1]],
            declared=Estimate(rng.uniform(1, 100), rng.uniform(0, 2)) if rng.random() < 0.8 else None,
        )
        for i in range(5)
    ]
    for i, task in enumerate(found):
        task.position = i
        task.inputs[0].push(Delta(np.array([1]), {"a": pa.array([1])}), 1, rng.randrange(10))
    return found


def _choices(make: Make, seed: int) -> list[str]:
    scheduler, plan, rng = make(), tasks(seed), random.Random(seed)
    scheduler.attach(plan)
    found = []
    for _ in range(200):
        ready = rng.sample(plan, rng.randint(1, len(plan)))
        chosen = scheduler.next(ready)
        require(chosen in ready, f"it chose {chosen.name!r}, which is not ready")
        found.append(chosen.name)
    return found


def _among(make: Make) -> None:
    for seed in range(5):
        _choices(make, seed)


def _deterministic(make: Make) -> None:
    for seed in range(3):
        require(_choices(make, seed) == _choices(make, seed), "two runs over the same statistics choose differently")
