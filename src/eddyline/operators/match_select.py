"""match-select: a select some of whose conjuncts are memberships in relations that may change (IN, EXISTS).

Each row of the first input is judged once, at its own instant, by all conjuncts alike. That is correct where a row
exists at that instant alone (elements of a stream, ``[NOW]``), or where no relation changes; the planner ensures it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.schema import Schema
from eddyline.expr.members import INSTANT
from eddyline.operators.adaptive_select import OrdersItself, SelectionOperator
from eddyline.operators.base import Context
from eddyline.operators.membership import Membership


class MatchSelect(SelectionOperator):
    """The inputs after the first are the right sides of the memberships, in their order."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        conjunction: OrdersItself,
        memberships: Sequence[Membership],
        context: Context,
    ) -> None:
        super().__init__(name, schema, conjunction, context)
        self.memberships = tuple(memberships)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        left, *rights = deltas
        for membership, right in zip(self.memberships, rights, strict=True):
            membership.change(right)
        out = self.judge(left, {**left.columns, INSTANT: pa.array(left.time)}) if len(left) else left
        for membership in self.memberships:
            membership.settle()
        return out

    def state(self) -> dict[str, Any]:
        return {"learned": super().state(), "memberships": [m.state() for m in self.memberships]}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state["learned"])
        for membership, saved in zip(self.memberships, state["memberships"], strict=True):
            membership.load(saved)

    def size(self) -> tuple[int, int]:
        sizes = [m.size() for m in self.memberships]
        return sum(rows for rows, _ in sizes), sum(nbytes for _, nbytes in sizes)

    def describe(self) -> str:
        return (
            "the keys on the right sides of IN and EXISTS; rows are evaluated once, at their own instant, and not kept"
        )
