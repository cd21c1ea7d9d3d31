"""DISTINCT in aggregates: weights of the different values of each group.

The values of a group are numbered once for all calls that read them, however many there are: ``count(DISTINCT x)`` and
``count(DISTINCT CASE WHEN c THEN x END)`` count the same pairs of a group and an x, the second only in the rows for
which c is TRUE. So every call has a counter for each pair, and only the first call a look-up for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Int64s
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.members import calls_of
from eddyline.expr.nodes import Case, Cast, Expr, Literal
from eddyline.kernels import aggregates
from eddyline.operators.accumulators import NO_NULLS, Argument, Walk, all_valid, grown, writable
from eddyline.synopses.keys import KeyTable


def conditional(e: Expr) -> tuple[Expr, Expr | None]:
    """The value of an argument, and the condition under which it is not NULL; None where there is none.

    A value that can fail stays below its condition, which guards it.
    """
    if not isinstance(e, Case) or len(e.branches) != 1:
        return e, None
    ((condition, value),) = e.branches
    otherwise = e.default.operand if isinstance(e.default, Cast) else e.default
    if not (isinstance(otherwise, Literal) and otherwise.value is None) or value.type != e.type:
        return e, None
    if any(compile_expr(x).can_fail or calls_of(x) for x in (condition, value)):
        return e, None
    return value, condition


class DistinctPairs:
    """The pairs of a group and its values, with a counter of rows for each condition (None: for all rows)."""

    def __init__(self, types: tuple[pa.DataType, ...]) -> None:
        self.pairs = KeyTable([pa.int64(), *types])
        self.counts: dict[int | None, Int64s] = {}

    def add(self, condition: int | None) -> None:
        self.counts.setdefault(condition, np.zeros(0, np.int64))

    def weights(self, w: Walk, values: tuple[Argument, ...], given: Sequence[Argument]) -> Mapping[int | None, Int64s]:
        """By condition, +1 where a value appears in its group, −1 where it vanishes, 0 elsewhere. ``given`` are all
        arguments: a condition is one of them."""
        n, valid = len(w.group), all_valid(values)
        masks = {c: valid if c is None else _true(given[c], valid) for c in self.counts}
        # Rows that no call counts have no pair.
        asked = valid if None in masks or not masks else np.logical_or.reduce(list(masks.values()))
        pair = self._numbered(w.group, values, asked, n)
        out: dict[int | None, Int64s] = {}
        for c, mask in masks.items():
            counts = self.counts[c] = grown(self.counts[c], self.pairs.capacity)
            out[c] = np.empty(n, np.int64)
            aggregates.transitions(pair, w.weight, mask, counts, out[c])
        if (w.weight < 0).any():
            self._release(pair if not len(asked) else pair[asked])
        return out

    def _numbered(self, group: Int64s, values: tuple[Argument, ...], asked: Bools, n: int) -> Int64s:
        columns = [pa.array(group), *(v.array for v in values)]
        if not len(asked) or asked.all():
            return writable(self.pairs.intern(columns, n))
        chosen = pa.array(asked)
        pair = np.zeros(n, np.int64)
        pair[asked] = self.pairs.intern([c.filter(chosen) for c in columns], int(asked.sum()))
        return pair

    def _release(self, pair: Int64s) -> None:
        dead = np.logical_and.reduce([counts[pair] == 0 for counts in self.counts.values()])
        gone = np.unique(pair[dead])
        if len(gone):
            self.pairs.release(gone)

    def state(self) -> dict[str, Any]:
        counts = {str(i): c.copy() for i, c in enumerate(self.counts.values())}
        return {"pairs": self.pairs.state(), "counts": counts}

    def load(self, state: dict[str, Any]) -> None:
        self.pairs.load(state["pairs"])
        self.counts = {c: np.array(state["counts"][str(i)]) for i, c in enumerate(self.counts)}

    def size(self) -> tuple[int, int]:
        return len(self.pairs), self.pairs.nbytes + sum(c.nbytes for c in self.counts.values())


def _true(condition: Argument, valid: Bools) -> Bools:
    """Where a condition is TRUE and the values are valid."""
    mask: Bools = condition.codes != 0
    for more in (condition.valid, valid):
        if len(more):
            mask = mask & more
    return mask if len(mask) else NO_NULLS
