"""Ties of ranked rows, found before the columns that break them are encoded.

Rows that agree in their partition and in ORDER BY form a *class*. Only where a class has a second row do the values of
other columns decide, and to put texts in order costs many times as much as to rank a row. So classes are counted, and
the columns that break ties are encoded for rows of classes with two rows or more. As long as a row is alone in its
class, its codes for these columns are not compared with those of other rows, and may be anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s
from eddyline.operators.accumulators import grown
from eddyline.synopses.keys import KeyTable


class Ties:
    """``width`` codes name a class. Nodes are small numbers from 1 that the owner gives.

    >>> ties = Ties(1)
    >>> ties.enter(np.array([1, 2]), np.array([[7], [8]]))
    (array([False, False]), array([], dtype=int64))
    >>> ties.enter(np.array([3]), np.array([[7]]))    # the first row of this class has to be asked as well
    (array([ True]), array([1]))
    >>> ties.leave(np.array([1, 3])); len(ties.classes)
    1
    """

    def __init__(self, width: int) -> None:
        self.classes = KeyTable([pa.int64()] * width)
        self.class_of: Int64s = np.zeros(64, np.int64)  # by node
        # By class: its rows, the node that came first, and whether its rows have been asked.
        self.count: Int64s = np.zeros(64, np.int64)
        self.first: Int64s = np.zeros(64, np.int64)
        self.tied = np.zeros(64, np.bool_)

    def enter(self, nodes: Int64s, codes: Int64s) -> tuple[np.ndarray, Int64s]:
        """Which of these rows are tied with others, and the nodes of earlier rows that have become so."""
        mine = self.classes.intern([pa.array(c) for c in codes.T], len(nodes))
        size = self.classes.capacity
        self.count, self.first = grown(self.count, size), grown(self.first, size)
        self.tied = grown(self.tied, size)
        self.class_of = grown(self.class_of, int(nodes.max(initial=0)) + 1)
        self.class_of[nodes] = mine
        alone = self.count[mine] == 0
        self.first[mine[alone][::-1]] = nodes[alone][::-1]
        np.add.at(self.count, mine, 1)
        fresh = np.zeros(size, np.bool_)
        fresh[mine] = True
        met = np.flatnonzero(fresh & ~self.tied[:size] & (self.count[:size] > 1))
        self.tied[met] = True
        earlier = self.first[met]
        new = np.zeros(len(self.class_of), np.bool_)
        new[nodes] = True
        return self.tied[mine], earlier[~new[earlier]]

    def leave(self, nodes: Int64s) -> None:
        mine = self.class_of[nodes]
        np.subtract.at(self.count, mine, 1)
        gone = np.zeros(len(self.count), np.bool_)
        gone[mine] = True
        empty = np.flatnonzero(gone & (self.count == 0))
        if len(empty):
            self.tied[empty] = False
            self.classes.release(empty)

    @property
    def nbytes(self) -> int:
        return self.classes.nbytes + sum(a.nbytes for a in (self.class_of, self.count, self.first, self.tied))

    def state(self) -> dict[str, Any]:
        arrays = {n: getattr(self, n).copy() for n in ("class_of", "count", "first", "tied")}
        return {"classes": self.classes.state(), **arrays}

    def load(self, state: dict[str, Any]) -> None:
        self.classes.load(state["classes"])
        for name in ("class_of", "count", "first", "tied"):
            setattr(self, name, np.array(state[name]))
