"""select: keeps the elements whose tuple satisfies every conjunct."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.core.delta import Delta
from eddyline.core.schema import Schema
from eddyline.expr.describe import describe
from eddyline.expr.nodes import Expr
from eddyline.expr.predicates import Conjunction
from eddyline.operators.base import Context, Operator


class SelectOperator(Operator):
    """Stateless: a deletion passes exactly when its insertion did, since predicates are functions of the tuple."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        conjuncts: Sequence[Expr],
        context: Context,
        order: Sequence[int] | None = None,
        why: str = "",
    ) -> None:
        """``order`` is the one in which the conjuncts are asked (as written by default), ``why`` it stays as it is."""
        super().__init__(name, schema)
        self.conjunction, self.texts = Conjunction(conjuncts), [describe(c) for c in conjuncts]
        self.context, self.order, self.why = context, order, why

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        if len(delta) == 0:
            return delta
        selection = self.conjunction.evaluate(delta.columns, len(delta), self.order)
        if selection.errors:
            self.context.fail(delta, selection.errors)
        return delta.filter(selection.keep)

    def adapts(self) -> list[str]:
        if not self.why:
            return []
        order = range(len(self.texts)) if self.order is None else self.order
        return [f"{', '.join(self.texts[i] for i in order)} ({self.why})"]
