"""Contests: the cost of a tuple with a change and without it, on tuples that a coin assigns to either in one period.

Section 4.1 accepts or rejects a classifier by the rate at which the Eddy processes tuples "with and without" it. Before
and after would measure the change of the data, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from eddyline.core.delta import Bools, Float64s

# The sentence of a decision that rests on a contest: a template over ``Contest.evidence``.
COMPARED = "a tuple costs {with} with it, {without} without, ± {error}"


class Contest:
    """Counts, means and variances of two groups.

    >>> import numpy as np
    >>> contest = Contest()
    >>> contest.add(np.array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]), np.array([1, 0, 0, 1, 0, 0], bool))
    >>> contest.count, contest.mean, round(contest.error, 3), contest.gained
    ([2, 4], [1.0, 2.5], 0.289, 2.5)
    """

    __slots__ = ("count", "squares", "total")

    def __init__(self) -> None:
        self.count, self.total, self.squares = [0, 0], [0.0, 0.0], [0.0, 0.0]

    def add(self, costs: Float64s, changed: Bools) -> None:
        """The cost of each tuple, and whether it went the new way."""
        for group, part in enumerate((costs[changed], costs[~changed])):
            self.count[group] += len(part)
            self.total[group] += float(part.sum())
            self.squares[group] += float(part @ part)

    @property
    def mean(self) -> list[float]:
        """With the change, and without."""
        return [t / max(c, 1) for t, c in zip(self.total, self.count, strict=True)]

    @property
    def error(self) -> float:
        """The standard error of the difference of means; infinite while a group has fewer than two tuples."""
        if min(self.count) < 2:
            return math.inf
        spread = zip(self.squares, self.mean, self.count, strict=True)
        return math.sqrt(sum(max(s / c - m * m, 0.0) / (c - 1) for s, m, c in spread))

    @property
    def saved(self) -> float:
        """Cost per tuple without, less cost with."""
        return self.mean[1] - self.mean[0]

    @property
    def gained(self) -> float:
        """How many times dearer a tuple is without."""
        return self.mean[1] / self.mean[0] if self.mean[0] > 0 and self.count[1] else 1.0

    def evidence(self) -> dict[str, float]:
        return {
            "with": self.mean[0],
            "without": self.mean[1],
            "tuples_with": self.count[0],
            "tuples_without": self.count[1],
            "error": self.error,
            "gained": self.gained,
        }

    def clear(self) -> None:
        self.count, self.total, self.squares = [0, 0], [0.0, 0.0], [0.0, 0.0]

    def state(self) -> dict[str, Any]:
        return {"count": list(self.count), "total": list(self.total), "squares": list(self.squares)}

    def load(self, state: Mapping[str, Any]) -> None:
        self.count = [int(c) for c in state["count"]]
        self.total, self.squares = [float(t) for t in state["total"]], [float(s) for s in state["squares"]]
