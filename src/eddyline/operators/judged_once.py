"""judged once: a selection by functions that may answer differently when they are asked again.

A selection over a window is asked about a row when it enters and when it leaves; functions of the tuple say the same
both times. One that is not deterministic may not, and the relation would keep rows that are gone, or lose rows twice.
So the ids of rows that passed are remembered until they leave, and a deletion passes exactly when its insertion did.

What comes and goes within one instant was never there: nobody is asked about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eddyline.core.decision import Decision
from eddyline.core.delta import Bools, Delta, Int64s
from eddyline.operators.base import Operator


class JudgedOnce(Operator):
    """Around a selection whose first input carries ids, and deletes each of its rows one day."""

    def __init__(self, selection: Operator) -> None:
        super().__init__(selection.name, selection.schema)
        self.selection = selection
        self.kept: Int64s = np.empty(0, np.int64)  # ids of living rows that passed, increasing

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        left, *others = deltas
        assert left.ids is not None or not len(left)
        if left.ids is None or not len(left):
            return self.selection.process(deltas, frontier)
        left = _net(left)
        ids: Int64s = np.empty(0, np.int64) if left.ids is None else left.ids
        enters = left.weights > 0
        out = self.selection.process((left.filter(enters), *others), frontier)
        passed: Int64s = np.empty(0, np.int64) if out.ids is None else out.ids
        living = np.union1d(self.kept, passed)
        self.kept = np.setdiff1d(living, ids[~enters], assume_unique=True)
        return left.filter(np.isin(ids, living))

    @property
    def decisions(self) -> Sequence[Decision]:
        return self.selection.decisions

    def adapts(self) -> list[str]:
        return self.selection.adapts()

    def statistics(self) -> dict[str, Any]:
        return self.selection.statistics()

    def state(self) -> dict[str, Any]:
        return {"selection": self.selection.state(), "kept": self.kept}

    def load(self, state: dict[str, Any]) -> None:
        self.selection.load(state["selection"])
        self.kept = np.asarray(state["kept"], np.int64)

    def size(self) -> tuple[int, int]:
        rows, size = self.selection.size()
        return rows + len(self.kept), size + self.kept.nbytes

    def describe(self) -> str:
        own = "the ids of rows that passed, until they leave: what is not deterministic is asked once"
        return "; ".join(x for x in (self.selection.describe(), own) if x)


def _net(delta: Delta) -> Delta:
    """Without the rows that leave at the instant at which they enter.

    >>> import pyarrow as pa
    >>> d = Delta(np.array([1, 1, 2]), {"a": pa.array([7, 7, 8])}, np.array([1, -1, 1]), np.array([4, 4, 5]))
    >>> _net(d).ids.tolist()
    [5]
    """
    if delta.weight is None or delta.ids is None:
        return delta
    order = np.lexsort((delta.time, delta.ids))
    same = (np.diff(delta.ids[order]) == 0) & (np.diff(delta.time[order]) == 0)
    gone: Bools = np.zeros(len(delta), np.bool_)
    gone[order[1:][same]] = gone[order[:-1][same]] = True
    return delta.filter(~gone)
