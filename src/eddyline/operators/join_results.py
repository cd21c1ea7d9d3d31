"""From row numbers to rows: the results of a join, with hashed keys verified and residual conjuncts applied."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr
from eddyline.expr.predicates import Conjunction
from eddyline.operators.base import Context
from eddyline.operators.join_plan import JoinGraph
from eddyline.operators.join_side import JoinSide
from eddyline.synopses.codes import is_direct


class JoinResults:
    """Equal hashes are not yet equal values: keys that are hashed are compared again, as values."""

    def __init__(
        self, sides: Sequence[JoinSide], graph: JoinGraph, residual: Sequence[Expr], schema: Schema, context: Context
    ) -> None:
        self.sides, self.schema, self.context = sides, schema, context
        self.residual = Conjunction(residual) if residual else None
        self.can_fail = any(compile_expr(e).can_fail for e in residual)
        verify = [
            (graph.keys[a.input][a.key], graph.keys[b.input][b.key])
            for a, b in graph.equalities
            if not is_direct(graph.keys[a.input][a.key].type)
        ]
        self.verify = [(compile_expr(a), compile_expr(b)) for a, b in verify]
        wanted = set(schema.names)
        for e in (*residual, *(x for pair in verify for x in pair)):
            wanted |= compile_expr(e).columns
        self.fetch = [tuple(n for n in s.spec.schema.names if n in wanted) for s in sides]

    def rows(self, time: Int64s, weight: Int64s, numbers: Int64s) -> Delta:
        """The results whose rows have these ``numbers``, a line for each input."""
        columns: dict[str, pa.Array] = {}
        for i, s in enumerate(self.sides):
            if self.fetch[i]:
                columns.update(s.take(numbers[i], self.fetch[i]))
        delta = Delta(time.copy(), columns, None if (weight == 1).all() else weight.copy())
        for left, right in self.verify:
            a, b = _decoded(left(delta.columns, len(delta))), _decoded(right(delta.columns, len(delta)))
            delta = delta.filter(np.asarray(pc.equal(a, b)))
        if self.residual is not None and len(delta):
            selection = self.residual.evaluate(delta.columns, len(delta))
            if selection.errors:
                self.context.fail(delta, selection.errors)
            delta = delta.filter(selection.keep)
        return delta.with_columns({n: delta.columns[n] for n in self.schema.names})


def _decoded(array: pa.Array) -> pa.Array:
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
