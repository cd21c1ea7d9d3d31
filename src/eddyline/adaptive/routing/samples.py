"""The matrices In[] and Out[]: how many sample tuples entered and left an operator, by candidate and class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.adaptive.routing.gain_ratio import Correlation, correlation, explained_variance
from eddyline.adaptive.routing.policy import Outputs
from eddyline.core.delta import Float64s, Int64s


class Samples:
    """In and Out for every operator, and sums of squared outs for operators that multiply tuples.

    >>> samples = Samples(operators=1, candidates=2, d=2)
    >>> samples.add(0, np.array([[0, 0], [1, 0], [0, -1]]), np.array([1, 0, 1]))
    >>> samples.tuples_in[0].tolist(), samples.tuples_out[0].tolist(), samples.size.tolist()
    ([[2.0, 1.0], [2.0, 0.0]], [[2.0, 0.0], [1.0, 0.0]], [3.0])
    """

    __slots__ = ("size", "squares", "tuples_in", "tuples_out")

    def __init__(self, operators: int, candidates: int, d: int) -> None:
        self.size: Float64s = np.zeros(operators)
        self.tuples_in: Float64s = np.zeros((operators, candidates, d))
        self.tuples_out: Float64s = np.zeros_like(self.tuples_in)
        self.squares: Float64s = np.zeros_like(self.tuples_in)

    def add(self, operator: int, classes: Int64s, outs: Outputs) -> None:
        """Sample tuples that an operator was shown: their classes by candidate, and what came out."""
        _, candidates, d = self.tuples_in.shape
        self.size[operator] += len(outs)
        cells = classes + np.arange(candidates) * d
        known = classes >= 0
        at = cells[known]
        out = np.broadcast_to(outs[:, None], classes.shape)[known].astype(np.float64)
        cell_count = candidates * d
        self.tuples_in[operator] += np.bincount(at, minlength=cell_count).reshape(candidates, d)
        counted = np.bincount(at, out, cell_count).reshape(candidates, d)
        self.tuples_out[operator] += counted
        multiplied = bool((outs > 1).any())
        self.squares[operator] += np.bincount(at, out**2, cell_count).reshape(candidates, d) if multiplied else counted

    def correlations(self, operator: int) -> Correlation:
        """By candidate: gain ratio, or explained variance for an operator that has multiplied a tuple."""
        tuples_in, tuples_out = self.tuples_in[operator], self.tuples_out[operator]
        squares = self.squares[operator]
        if (squares > tuples_out + 1e-9).any():
            return explained_variance(tuples_in, tuples_out, squares)
        return correlation(tuples_in, tuples_out)

    def scale(self, operator: int, factor: float) -> None:
        """Forget: 0 for all, ½ to let what comes weigh as much as what was."""
        self.size[operator] *= factor
        for matrix in (self.tuples_in, self.tuples_out, self.squares):
            matrix[operator] *= factor

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name).copy() for name in self.__slots__}

    def load(self, state: Mapping[str, Any]) -> None:
        for name in self.__slots__:
            setattr(self, name, np.array(state[name], np.float64))
