"""Semijoin, antijoin and mark join: left rows by whether they have a partner on the right.

For each left row two numbers are kept: its multiplicity and the number of its partners. The partners are found by the
join kernel, to which the left side goes as a *set* (a row once, however often it is in the bag), so that what the join
adds up for a row is exactly the change of its number of partners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.core.window import Range
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr
from eddyline.kernels import bags as k
from eddyline.kernels.join_layout import NO_DELETIONS
from eddyline.operators.base import Context, Operator
from eddyline.operators.join_plan import JoinGraph
from eddyline.operators.join_side import JoinInput
from eddyline.operators.mjoin import MJoin
from eddyline.synopses.bag import Bag
from eddyline.synopses.store import Stub

SLOT = "_slot"
KINDS = {"semi": k.SEMI, "anti": k.ANTI, "mark": k.MARK}


class MatchOperator(Operator):
    """``kind`` semi keeps left rows with a partner, anti those without, mark keeps all and adds a Boolean column.

    ``passing`` names the side that is not kept beyond the present instant, because its rows never leave and all rows
    of the other side are there from the start of time. A left row is judged once then; a right row adds to the
    partners of the left rows, which keep their numbers. ``stub`` gives that side its place for the instant.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        left: Schema,
        right: Schema,
        graph: JoinGraph,
        residual: Sequence[Expr],
        by_id: bool,
        context: Context,
        mark: str | None = None,
        passing: Literal["left", "right"] | None = None,
        stub: Callable[[Schema], Callable[[], Stub]] | None = None,
    ) -> None:
        super().__init__(name, Schema((*left, Field(mark, pa.bool_()))) if mark else left)
        self.kind, self.mark, self.passing = KINDS[kind], mark, passing
        self.bag = Bag(left, by_id)
        needed = {c for e in (*graph.keys[0], *residual) for c in compile_expr(e).columns}
        self.passed = tuple(n for n in left.names if n in needed)
        inner = Schema((*(left[n] for n in self.passed), Field(SLOT, pa.int64())))
        inputs = [JoinInput(inner, None, by_id=True), JoinInput(right, None)]
        stubs: list[Callable[[], Stub] | None] = [None, None]
        if passing is not None:
            assert stub is not None
            i = 0 if passing == "left" else 1
            inputs[i] = JoinInput(inputs[i].schema, Range(0), deletes=NO_DELETIONS, passing=True)
            stubs[i] = stub(inputs[i].schema)
        self.join = MJoin(f"{name}.pairs", inputs, graph, residual, stubs, [SLOT], context)
        self.present, self.matched = np.zeros(64, np.int64), np.zeros(64, np.int64)

    why = ""  # its rows are not judged together with the other conjuncts

    def adapts(self) -> list[str]:
        return [self.why] if self.why else []

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        left, right = deltas
        slots = self.bag.insert(left) if len(left) else np.empty(0, np.int64)
        while self.bag.table.capacity > len(self.present):
            more = np.zeros(len(self.present), np.int64)
            self.present, self.matched = np.concatenate([self.present, more]), np.concatenate([self.matched, more])
        pairs = self.join.process([self._as_set(left, slots), right], frontier)
        if len(left) + len(pairs) == 0:
            return Delta.empty(self.schema)
        partner = pairs.columns[SLOT].to_numpy(zero_copy_only=False)
        time = np.concatenate([left.time, pairs.time])
        order = np.argsort(time, kind="stable")
        code = np.concatenate([slots, partner])[order]
        rows = np.concatenate([left.weights, np.zeros(len(pairs), np.int64)])[order]
        matches = np.concatenate([np.zeros(len(left), np.int64), pairs.weights])[order]
        out = self._emit(time[order], code, rows, matches)
        touched = np.unique(slots)
        if self.passing == "left":
            self.present[touched], self.matched[touched] = 0, 0
        self.bag.expire(touched[self.present[touched] == 0])
        self.bag.compact()
        return out

    def _as_set(self, left: Delta, slots: Int64s) -> Delta:
        """The changes between absent and present, one for each crossing."""
        weights = left.weights
        order = np.argsort(slots, kind="stable")
        grouped, change = slots[order], weights[order]
        begins = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]]) if len(order) else order
        total = np.cumsum(change)
        offset = np.repeat(
            self.present[grouped[begins]] - (total[begins] - change[begins]), np.diff(np.r_[begins, len(order)])
        )
        after = total + offset
        before = after - change
        crossing = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
        sign = np.empty(len(order), np.int64)
        sign[order] = crossing
        keep = sign != 0
        columns = {n: left.columns[n] for n in self.passed}
        columns[SLOT] = pa.array(slots)
        return Delta(left.time, columns, sign, slots).filter(keep)

    def _emit(self, time: Int64s, code: Int64s, rows: Int64s, matches: Int64s) -> Delta:
        n, size = len(time), len(self.present)
        out_time, out_code, out_weight, out_mark = (np.empty(2 * n, np.int64) for _ in range(4))
        found = k.match(
            self.kind, time, code, rows, matches, self.present, self.matched, np.full(size, -1, np.int64),
            np.empty(size, np.int64), np.empty(size, np.int64), out_time, out_code, out_weight, out_mark,
        )  # fmt: skip
        columns = self.bag.probe(out_code[:found])
        if self.mark is not None:
            columns[self.mark] = pa.array(out_mark[:found] == 1)
        return Delta(out_time[:found], columns, out_weight[:found])

    def state(self) -> dict[str, Any]:
        kept = {"present": self.present, "matched": self.matched}
        return {**kept, "bag": self.bag.state(), "join": self.join.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.present, self.matched = state["present"].copy(), state["matched"].copy()
        self.bag.load(state["bag"])
        self.join.load(state["join"])

    def size(self) -> tuple[int, int]:
        rows, bytes = self.join.size()
        return rows + len(self.bag), bytes + self.bag.nbytes + self.present.nbytes + self.matched.nbytes

    def most_rows(self, now: int) -> int:
        return self.join.most_rows(now - len(self.bag)) + len(self.bag)

    def describe(self) -> str:
        if self.passing == "left":
            return "the rows of the constant right side; rows of the left side are evaluated once and not kept"
        if self.passing == "right":
            return "the rows of the constant left side with their numbers of partners; nothing of the right side"
        return "the rows of both sides, because either may change the answer for the other"
