"""The matrix view over a profile window, and the greedy invariant on it (thesis 4.3.2, Figures 4.5 to 4.7).

For the order F_f(1) … F_f(n), ``V[i, j]`` (i ≤ j) is the number of profile tuples that F_f(j) drops among those that
none of F_f(1) … F_f(i−1) drops, so it is proportional to d(j|i−1). The greedy invariant with thrash avoidance (4.4):

    V[i, i] / a_f(i)  ≥  α · V[i, j] / a_f(j)        for all i ≤ j

Figure 4.7 as printed corrects V and forgets the order: f(r) and f(maxc) must be swapped with the columns. Its swap of
columns starts at k = 0 where the first row is 1. Both are right here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eddyline.core.delta import Bools, Float64s, Int64s


def first_drop(bits: Bools) -> npt.NDArray[np.intp]:
    """For each row the first column that is set; rows have one."""
    first: npt.NDArray[np.intp] = bits.argmax(1)
    return first


class MatrixView:
    """V for one order. Positions count from 0; profile tuples have a column per filter, as written.

    Example 4.3.2 with Figures 4.3 and 4.4: tuples 2, 4, 7, 2, 5, 4 and the order F3, F1, F2, F4.

    >>> window = np.array([[0,0,1,0], [0,1,1,1], [1,0,0,0], [0,0,1,0], [1,1,0,1], [0,1,1,1]], bool)
    >>> view = MatrixView((2, 0, 1, 3))
    >>> view.insert(window)
    >>> print(view.V)
    [[4 2 3 3]
     [0 2 1 1]
     [0 0 0 0]
     [0 0 0 0]]
    >>> view.violation(np.ones(4), alpha=1.0) is None
    True
    """

    __slots__ = ("V", "movable", "order")

    def __init__(self, order: Sequence[int], segments: Int64s | None = None) -> None:
        self.order = list(order)
        n = len(self.order)
        self.V: Int64s = np.zeros((n, n), np.int64)
        # ``segments`` gives each position a number: filters change places only with filters of the same number.
        # Without it every filter may stand at every position.
        same = np.ones((n, n), np.bool_) if segments is None else segments[:, None] == segments[None, :]
        self.movable: Bools = np.triu(same)

    def insert(self, bits: Bools) -> None:
        """Figure 4.5, for several tuples at once."""
        self.V += self._counts(bits)

    def delete(self, bits: Bools) -> None:
        """Figure 4.5 with line 10 replaced."""
        self.V -= self._counts(bits)

    def _counts(self, bits: Bools) -> Int64s:
        """What the tuples add to V: row r gets those whose first filter to drop them, dc, stands at r or later."""
        n = len(self.order)
        ordered = bits[:, self.order]
        drops = np.zeros((n, n), np.int64)
        np.add.at(drops, first_drop(ordered), ordered)
        return drops[::-1].cumsum(0)[::-1]

    def ratios(self, averages: Float64s) -> Float64s:
        """V[i, j] / a_f(j), and −1 where j may not come to stand at i."""
        return np.where(self.movable, self.V / averages[self.order], -1.0)

    def violation(self, averages: Float64s, alpha: float) -> int | None:
        """The first position at which the invariant above is violated; None if it holds everywhere.

        Figure 4.6 checks the entries that an update changed. All entries are checked here, because an average may have
        changed as well.
        """
        ratios = self.ratios(averages)
        broken = np.flatnonzero(ratios.diagonal() < alpha * ratios.max(1))
        return int(broken[0]) if len(broken) else None

    def correct(self, position: int, window: Bools, averages: Float64s) -> None:
        """Figure 4.7: make the invariant hold from ``position`` on, by scans of the profile window.

        A violation beyond the last position that was touched remains, since several tuples may have come at once:
        ask ``violation`` again. It can only be further right, so this ends.
        """
        order, V = self.order, self.V
        r = last = position
        while r <= last:
            reached = window[~window[:, order[:r]].any(1)]
            V[r, r:] = reached[:, order[r:]].sum(0)
            ratios = np.where(self.movable[r, r:], V[r, r:] / averages[order[r:]], -1.0)
            best = r + int(ratios.argmax())  # the first among equals: a tie moves nothing
            last = max(last, best)
            if best != r:
                V[: r + 1, [r, best]] = V[: r + 1, [best, r]]
                order[r], order[best] = order[best], order[r]
            r += 1
