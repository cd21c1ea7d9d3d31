"""look-up: semijoin, antijoin and mark join of an append-only input with a constant relation.

Nothing changes on the right after the start of time and nothing leaves on the left, so an element is judged once, at
its own instant, and not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Delta
from eddyline.core.schema import Field, Schema
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr
from eddyline.operators.base import Operator
from eddyline.synopses.keys import KeyTable


class LookUp(Operator):
    """``keys`` are expressions over the left columns, equal in type to the right columns; none means "is there any"."""

    def __init__(
        self, name: str, kind: str, left: Schema, right: Schema, keys: Sequence[Expr], mark: str | None
    ) -> None:
        super().__init__(name, Schema((*left, Field(mark, pa.bool_()))) if mark else left)
        self.kind, self.mark, self.right = kind, mark, right
        self.keys = [compile_expr(e) for e in keys]
        self.table = KeyTable([f.type for f in right])

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        left, right = deltas
        if len(right):
            self.table.intern([right.columns[n] for n in self.right.names], len(right))
        n = len(left)
        if n == 0:
            return Delta.empty(self.schema)
        found = self._found(left, n)
        if self.mark is not None:
            return left.with_columns({**left.columns, self.mark: pa.array(found)})
        return left.filter(found if self.kind == "semi" else ~found)

    def _found(self, left: Delta, n: int) -> Bools:
        if not self.keys:
            return np.full(n, len(self.table) > 0)
        columns = [key(left.columns, n) for key in self.keys]
        found: Bools = self.table.find(columns, n) >= 0
        for c in columns:  # NULL equals nothing, though the table can hold it
            if c.null_count:
                found &= np.asarray(c.is_valid())
        return found

    def state(self) -> dict[str, Any]:
        return {"table": self.table.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.table.load(state["table"])

    def size(self) -> tuple[int, int]:
        return len(self.table), self.table.nbytes

    def describe(self) -> str:
        return "the keys of the constant relation; elements are evaluated once and not kept"
