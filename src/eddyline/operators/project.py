"""project: new columns for each element; duplicates stay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.errors import DataError
from eddyline.core.schema import Field, Schema
from eddyline.expr.evaluate import compile_expr, evaluate_rows
from eddyline.expr.nodes import Expr
from eddyline.operators.base import Context, Operator


class ProjectOperator(Operator):
    """Stateless. A row for which an item fails stops the query or is diverted, never shown half."""

    def __init__(self, name: str, items: Sequence[tuple[str, Expr]], context: Context) -> None:
        super().__init__(name, Schema(tuple(Field(n, e.type) for n, e in items)))
        self.items = [(n, compile_expr(e)) for n, e in items]
        self.context = context
        self._nothing = Delta.empty(self.schema)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        n = len(delta)
        if n == 0:
            return self._nothing
        columns: dict[str, pa.Array] = {}
        errors: dict[int, DataError] = {}
        for name, compiled in self.items:
            if compiled.can_fail:
                columns[name], failed = evaluate_rows(compiled, delta.columns, n)
                for row, error in failed.items():
                    errors.setdefault(row, error)
            else:
                columns[name] = compiled(delta.columns, n)
        out = delta.with_columns(columns)
        if errors:
            self.context.fail(delta, errors)
            keep = np.ones(n, np.bool_)
            keep[list(errors)] = False
            out = out.filter(keep)
        return out
