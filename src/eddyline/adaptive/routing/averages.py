"""Running selectivities, by cell: W has a cell for each operator, S one for each operator and class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.core.delta import Float64s, Int64s

_DEVIATIONS_TO_FORGET = 4.0  # standard deviations between the last tuples and older ones, which are then forgotten
_MIN_VARIANCE = 0.01  # so that a single tuple cannot overthrow a selectivity near 0 or 1


class ExponentialAverages:
    """Footnote 4: selectivity = selectivity·α + pass·(1 − α), tuple by tuple, in the order in which tuples came.

    >>> averages = ExponentialAverages(2, alpha=0.5, start=1.0)
    >>> averages.add(np.array([0, 1, 0, 0]), np.array([0.0, 1.0, 1.0, 0.0]))
    >>> averages.values.tolist()  # ((1 → 0.5) → 0.75) → 0.375
    [0.375, 1.0]
    """

    __slots__ = ("alpha", "values")

    def __init__(self, cells: int, alpha: float, start: float) -> None:
        self.alpha = alpha
        self.values: Float64s = np.full(cells, start)

    def add(self, cells: Int64s, outs: Float64s) -> None:
        counts = np.bincount(cells, minlength=len(self.values))
        by_cell = np.argsort(cells, kind="stable")
        # A tuple followed by m others in its cell counts (1 − α)·α^m.
        followed = np.cumsum(counts)[cells[by_cell]] - 1 - np.arange(len(cells))
        added = np.bincount(
            cells[by_cell], outs[by_cell] * (1 - self.alpha) * self.alpha**followed, minlength=len(self.values)
        )
        self.values = self.values * self.alpha**counts + added

    def set(self, cells: Int64s, values: Float64s) -> None:
        self.values[cells] = values

    def state(self) -> dict[str, Any]:
        return {"values": self.values.copy()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.values = np.array(state["values"], np.float64)


class CountedAverages:
    """Means over the last tuples of each cell, up to ``memory`` of them (forgetting smoothly), with the weight of the
    evidence. Few tuples move it fast and many slowly, so that it needs no start and settles well below the noise of an
    exponential average of twenty tuples. Where the last ``recent`` tuples of a cell contradict the rest, only these
    stay. What is chance is judged by the spread of what came out, which is not that of a share for an operator that
    multiplies tuples (4.5).

    >>> averages = CountedAverages(2, memory=1000)
    >>> averages.add(np.array([0, 0, 1, 0]), np.array([1.0, 0.0, 1.0, 1.0]))
    >>> averages.means(0.5, weight=1.0).round(3).tolist()
    [0.625, 0.75]
    >>> for out in [1.0] * 10 + [0.0] * 3:
    ...     averages.add(np.zeros(10, np.int64), np.full(10, out))
    >>> averages.means(0.5, weight=1.0).round(2).tolist()
    [0.41, 0.75]
    """

    __slots__ = ("count", "keep", "recent", "recent_squares", "recent_total", "retain", "squares", "total")

    def __init__(self, cells: int, memory: float, recent: float = 32.0) -> None:
        self.keep, self.retain = 1 - 1 / memory, 1 - 1 / recent
        self.count: Float64s = np.zeros(cells)
        self.total: Float64s = np.zeros(cells)
        self.squares: Float64s = np.zeros(cells)
        self.recent: Float64s = np.zeros(cells)
        self.recent_total: Float64s = np.zeros(cells)
        self.recent_squares: Float64s = np.zeros(cells)

    def add(self, cells: Int64s, outs: Float64s) -> None:
        counts = np.bincount(cells, minlength=len(self.count))
        added = np.bincount(cells, outs, minlength=len(self.count))
        kept, retained = self.keep**counts, self.retain**counts
        self.count, self.total = self.count * kept + counts, self.total * kept + added
        self.recent, self.recent_total = self.recent * retained + counts, self.recent_total * retained + added
        squared = np.bincount(cells, outs**2, minlength=len(self.count)) if (outs > 1).any() else added
        self.squares = self.squares * kept + squared
        self.recent_squares = self.recent_squares * retained + squared
        self._contradicted()

    def _contradicted(self) -> None:
        mean, last = self.total / np.maximum(self.count, 1.0), self.recent_total / np.maximum(self.recent, 1.0)
        spread = np.maximum(self.variances(mean), _MIN_VARIANCE) / np.maximum(self.recent, 1.0)
        turned = (np.abs(mean - last) > _DEVIATIONS_TO_FORGET * np.sqrt(spread)) & (self.count > 2 * self.recent)
        self.count = np.where(turned, self.recent, self.count)
        self.total = np.where(turned, self.recent_total, self.total)
        self.squares = np.where(turned, self.recent_squares, self.squares)

    def variances(self, means: Float64s) -> Float64s:
        """Of tuples out per tuple in, by cell, for these means: σ(1 − σ) where no tuple was multiplied.

        >>> averages = CountedAverages(2, memory=1000)
        >>> averages.add(np.array([0, 0, 1, 1]), np.array([0.0, 1.0, 0.0, 6.0]))
        >>> averages.variances(np.array([0.5, 3.0])).round(2).tolist()
        [0.25, 9.0]
        """
        share: Float64s = means * np.maximum(1 - means, 0.0)
        multiplied = self.squares > self.total + 1e-9
        if not multiplied.any():
            return share
        spread = np.maximum(self.squares / np.maximum(self.count, 1.0) - means**2, 0.0)
        return np.where(multiplied, spread, share)

    def means(self, prior: Float64s | float, weight: float) -> Float64s:
        """With ``weight`` tuples of the prior mixed in: an empty cell is worth the prior."""
        means: Float64s = (self.total + weight * np.asarray(prior)) / (self.count + weight)
        return means

    def forget(self, most: float) -> None:
        """Keep the means, with the weight of at most so many tuples."""
        factor = np.minimum(1.0, most / np.maximum(self.count, 1e-12))
        self.count, self.total, self.squares = self.count * factor, self.total * factor, self.squares * factor

    def set(self, cells: Int64s, count: Float64s, total: Float64s, squares: Float64s) -> None:
        self.count[cells], self.total[cells], self.squares[cells] = count, total, squares
        self.recent[cells], self.recent_total[cells], self.recent_squares[cells] = 0.0, 0.0, 0.0

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name).copy() for name in _COUNTS}

    def load(self, state: Mapping[str, Any]) -> None:
        for name in _COUNTS:
            # State that was saved without squares is that of filters, whose outs are their own squares.
            found = state[name] if name in state else state[name.replace("squares", "total")]
            setattr(self, name, np.array(found, np.float64))


_COUNTS = ("count", "total", "squares", "recent", "recent_total", "recent_squares")
