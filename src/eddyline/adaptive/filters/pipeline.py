"""The filters of a pipeline, as a policy gets them at the start: how many, which are pinned, what they cost.

A *pinned* filter (non-deterministic, or with side effects) keeps its place, no other filter moves across it, and it is
never evaluated only for profiling: whatever the policy does, it sees exactly the tuples that pass the filters written
before it. So the pipeline falls into *segments*, runs of positions between pinned filters, and a policy permutes within
each. With every filter pinned (``strict_order``) nothing can move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.core.errors import JobError


@dataclass(frozen=True, slots=True)
class Pipeline:
    """``filters`` filters, numbered from 0 as written.

    ``costs`` are declared seconds for one tuple, believed until a filter has been measured; ``initial`` is the order to
    start from (as written by default); ``operator`` is the name that decisions carry, ``unit`` the unit of all prices:
    seconds, or whatever else the executor counts.

    >>> Pipeline(5, pinned=frozenset({2})).segments.tolist()
    [0, 0, 1, 2, 2]
    """

    filters: int
    pinned: frozenset[int] = frozenset()
    costs: tuple[float, ...] | None = None
    initial: tuple[int, ...] | None = None
    operator: str = "select"
    unit: str = "s"

    def __post_init__(self) -> None:
        n = self.filters
        if n < 1:
            raise JobError(f"a pipeline needs at least one filter, not {n}.")
        if not all(0 <= f < n for f in self.pinned):
            raise JobError(f"pinned filters must be among 0 to {n - 1}, not {sorted(self.pinned)}.")
        if self.costs is not None and (len(self.costs) != n or not all(0 < c < float("inf") for c in self.costs)):
            raise JobError(f"the declared costs must be {n} positive numbers, not {self.costs}.")
        if self.initial is not None and not self.allows(self.initial):
            raise JobError(f"the initial order must be a permutation of 0 to {n - 1} within walls, not {self.initial}.")

    @property
    def segments(self) -> Int64s:
        """For each position the number of its segment. Also for each filter, since none leaves its own."""
        walls = np.array([f in self.pinned for f in range(self.filters)])
        borders: Int64s = np.cumsum(walls | np.concatenate([[False], walls[:-1]])) - walls[0]
        return borders

    @property
    def free(self) -> Int64s:
        """The filters that could stand elsewhere: those that share their segment."""
        segments = self.segments
        return np.flatnonzero(np.bincount(segments)[segments] > 1)

    def allows(self, order: Sequence[int]) -> bool:
        """Whether it is a permutation in which every filter is in its own segment.

        >>> Pipeline(3, pinned=frozenset({0})).allows((0, 2, 1)), Pipeline(3, pinned=frozenset({1})).allows((2, 1, 0))
        (True, False)
        """
        segments = self.segments
        return sorted(order) == list(range(self.filters)) and bool((segments[list(order)] == segments).all())
