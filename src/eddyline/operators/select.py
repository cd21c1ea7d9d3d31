"""select: keeps the elements whose tuple satisfies every conjunct."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.core.schema import Schema
from eddyline.expr.nodes import Expr
from eddyline.operators.adaptive_select import InOrder, SelectionOperator
from eddyline.operators.base import Context


class SelectOperator(SelectionOperator):
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
        super().__init__(name, schema, InOrder(conjuncts, order, why), context)
