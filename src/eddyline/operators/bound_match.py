"""Semijoin, antijoin and mark join by one comparison beside equalities: ``EXISTS (… T.k = S.k AND T.x < S.x)``.

Pairs need not be found for that: the least and the greatest right value of a key decide whether a left row has a
partner (``kernels.bounds``). A change costs the logarithm of the number of rows, and a step for each left row whose
answer it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr
from eddyline.kernels import bags, bounds
from eddyline.kernels.ordered import TREE_STRIDE
from eddyline.operators.accumulators import grown, order_keys, roomy, used
from eddyline.operators.base import Operator
from eddyline.synopses.bag import Bag
from eddyline.synopses.codes import direct_codes
from eddyline.synopses.keys import KeyTable

KINDS = {"semi": bags.SEMI, "anti": bags.ANTI, "mark": bags.MARK}
OPERATORS = {
    "lt": bounds.LESS,
    "le": bounds.LESS_EQUAL,
    "gt": bounds.GREATER,
    "ge": bounds.GREATER_EQUAL,
    "ne": bounds.DIFFERENT,
}
FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}
ARRAYS = ("present", "rows", "extremes", "right_roots", "right_control", "left_roots", "left_control", "links")


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right``, and the expressions that are equal beside it: pairs of a left and a right one. ``text`` is the
    text of ``right`` for explain."""

    left: Expr
    op: str
    right: Expr
    equal: tuple[tuple[Expr, Expr], ...]
    text: str


class BoundMatch(Operator):
    """``kind`` is that of ``MatchOperator``. ``grows``: no right row ever leaves. ``forget``: left rows never leave
    and all right rows are there from the start of time, so that a left row is judged once and not kept."""

    def __init__(
        self, name: str, kind: str, left: Schema, on: Comparison, by_id: bool, mark: str | None, grows: bool,
        forget: bool,
    ) -> None:  # fmt: skip
        super().__init__(name, Schema((*left, Field(mark, pa.bool_()))) if mark else left)
        self.kind, self.op, self.mark, self.on = KINDS[kind], OPERATORS[on.op], mark, on
        self.grows, self.forget = grows, forget
        self.bag = Bag(left, by_id)
        self.keys = [[compile_expr(pair[side]) for pair in on.equal] for side in (0, 1)]
        self.values = compile_expr(on.left), compile_expr(on.right)
        self.groups = KeyTable([e.type for e, _ in on.equal]) if on.equal else None
        self.present, self.was_present = np.zeros(64, np.int64), np.zeros(64, np.int64)
        self.rows, self.links = np.zeros((64, 2), np.int64), np.zeros((64, 2), np.int64)
        self.extremes, self.was_extremes = np.zeros((64, 3), np.int64), np.zeros((64, 3), np.int64)
        self.right_roots, self.left_roots = np.zeros(64, np.int64), np.zeros(64, np.int64)
        self.right_pool, self.left_pool = np.zeros(TREE_STRIDE, np.int64), np.zeros(TREE_STRIDE, np.int64)
        self.right_control, self.left_control = np.zeros(3, np.int64), np.zeros(3, np.int64)
        self.heads = np.zeros(1, np.int64)
        self.stamps = np.full((64, 2), -1, np.int64)
        self.right_rows = 0

    why = ""  # why this match is not one of the adaptive filter's conjuncts; empty if there is no reason to show

    def adapts(self) -> list[str]:
        return [self.why] if self.why else []

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        left, right = deltas
        if len(left) + len(right) == 0:
            return Delta.empty(self.schema)
        slots = self.bag.insert(left) if len(left) else np.empty(0, np.int64)
        sides = [self._events(0, left, slots), self._events(1, right, np.zeros(len(right), np.int64))]
        events = np.concatenate(sides)
        events = events[np.argsort(events[:, 0], kind="stable")]
        self._make_room(len(left), len(right))
        out = bounds.match_bounds(
            self.kind, self.op, self.grows, self.forget, events, self.present, self.rows, self.was_present,
            self.extremes, self.was_extremes, self.right_pool, self.right_roots, self.right_control, self.left_pool,
            self.left_roots, self.left_control, self.heads, self.links, self.stamps,
        )  # fmt: skip
        self.right_rows += int(sides[1][sides[1][:, 3] >= 0, 5].sum())
        columns = self.bag.probe(out[:, 1])
        if self.mark is not None:
            columns[self.mark] = pa.array(out[:, 3] == 1)
        self._release(np.unique(slots), np.unique(events[:, 3]))
        return Delta(out[:, 0].copy(), columns, out[:, 2].copy())

    def _events(self, side: int, delta: Delta, slots: Int64s) -> Int64s:
        """Rows of (time, side, slot, group, key, weight); group −1 where a NULL is compared."""
        n = len(delta)
        values = self.values[side](delta.columns, n)
        codes, nulls = direct_codes(values)
        if pa.types.is_floating(values.type):
            codes = order_keys(np.ascontiguousarray(codes))
        valid = np.ones(n, np.bool_) if nulls is None else ~nulls
        columns = [key(delta.columns, n) for key in self.keys[side]]
        for c in columns:
            if c.null_count:
                valid &= np.asarray(c.is_valid())
        group = np.full(n, -1, np.int64)
        if self.groups is None:
            group[valid] = 0
        elif valid.all():
            group = self.groups.intern(columns, n)
        else:
            chosen = pa.array(valid)
            group[valid] = self.groups.intern([c.filter(chosen) for c in columns], int(valid.sum()))
        return np.column_stack([delta.time, np.full(n, side), slots, group, codes, delta.weights])

    def _make_room(self, left: int, right: int) -> None:
        slots, groups = self.bag.table.capacity, 1 if self.groups is None else self.groups.capacity
        for name in ("present", "was_present", "rows", "links"):
            setattr(self, name, grown(getattr(self, name), slots))
        for name in ("extremes", "was_extremes", "right_roots", "left_roots"):
            setattr(self, name, grown(getattr(self, name), groups))
        if len(self.stamps) < max(slots, groups):
            self.stamps = np.full((2 * max(slots, groups), 2), -1, np.int64)
        self.left_pool = roomy(self.left_pool, self.left_control, left, TREE_STRIDE)
        self.right_pool = roomy(self.right_pool, self.right_control, right, TREE_STRIDE)
        self.heads = grown(self.heads, len(self.left_pool) // TREE_STRIDE)

    def _release(self, slots: Int64s, groups: Int64s) -> None:
        self.bag.expire(slots[self.present[slots] == 0])
        self.bag.compact()
        if self.groups is not None:
            groups = groups[groups >= 0]
            empty = (self.left_roots[groups] == 0) & (self.extremes[groups, bounds.ANY] == 0)
            self.groups.release(groups[empty])

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        saved: dict[str, Any] = {n: np.ascontiguousarray(getattr(self, n).reshape(-1)) for n in ARRAYS}
        nodes = int(self.left_control[1]) + 1
        return {
            **saved,
            "left_pool": used(self.left_pool, self.left_control, TREE_STRIDE),
            "right_pool": used(self.right_pool, self.right_control, TREE_STRIDE),
            "heads": self.heads[:nodes].copy(),
            "right_rows": self.right_rows,
            "bag": self.bag.state(),
            "groups": {} if self.groups is None else self.groups.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        for n in ARRAYS:
            setattr(self, n, np.array(state[n]).reshape(-1, *getattr(self, n).shape[1:]))
        for n in ("left_pool", "right_pool", "heads"):
            setattr(self, n, np.array(state[n]))
        self.was_present, self.was_extremes = np.zeros_like(self.present), np.zeros_like(self.extremes)
        self.right_rows = int(state["right_rows"])
        self.bag.load(state["bag"])
        if self.groups is not None:
            self.groups.load(state["groups"])

    def size(self) -> tuple[int, int]:
        groups = 0 if self.groups is None else self.groups.nbytes
        arrays = (getattr(self, n) for n in (*ARRAYS, "was_present", "was_extremes", "stamps", "heads"))
        nodes = int(self.left_control[1] + self.right_control[1])
        rows = (1 if self.groups is None else len(self.groups)) if self.grows else self.right_rows
        total = self.bag.nbytes + groups + sum(a.nbytes for a in arrays) + nodes * TREE_STRIDE * 8
        return len(self.bag) + rows, total

    def describe(self) -> str:
        value, each = self.on.text, " for each key" if self.on.equal else ""
        kept = f"the least and the greatest {value}{each}" if self.grows else f"the values of {value}{each}, in order"
        if self.forget:
            return f"{kept}; rows of the left side are evaluated once and not kept"
        return f"the rows of the left side and {kept}: the least and the greatest decide whether a row has a partner"
