"""Partial results of a multi-route join: batches of rows that have visited the same inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels.routed_step import part

# Of a batch that was put together from several: more save calls, and leave the processor's caches.
MAX_BATCH_ROWS = 1 << 14


@dataclass(slots=True)
class Batch:
    """Partial results with the same inputs ``bound``, in that order. A column of ``lines`` is one of them: a row number
    for each input, undefined where it is not bound, then the time at which its newest row entered (``weight`` 1) or its
    first one leaves (−1), and the input of that row."""

    weight: int
    lines: Int64s
    bound: tuple[int, ...]
    inputs: frozenset[int] = field(init=False)  # those that are bound, in whatever order

    def __post_init__(self) -> None:
        self.inputs = frozenset(self.bound)

    def __len__(self) -> int:
        return int(self.lines.shape[1])

    @property
    def time(self) -> Int64s:
        found: Int64s = self.lines[-2]
        return found

    @property
    def source(self) -> Int64s:
        found: Int64s = self.lines[-1]
        return found

    def split(self, few: int) -> tuple[Batch, Batch]:
        """``few`` of its rows, from all parts of it, and the others."""
        height, rows = self.lines.shape
        some, others = np.empty((height, few), np.int64), np.empty((height, rows - few), np.int64)
        part(self.lines, np.array([*self.bound, height - 2, height - 1], np.int64), some, others)
        return Batch(self.weight, some, self.bound), Batch(self.weight, others, self.bound)

    def takes_in(self, other: Batch) -> bool:
        """Whether the other one may go on with it: what is searched next depends on the inputs that are bound alone."""
        if self.weight != other.weight or self.inputs != other.inputs:
            return False
        return len(self) + len(other) <= MAX_BATCH_ROWS
