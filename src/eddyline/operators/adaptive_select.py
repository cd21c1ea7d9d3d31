"""adaptive select: a select whose conjuncts are asked in an order that changes while it runs.

Which order, when and why is not known here: the conjunction that it was given decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from eddyline.core.decision import Decision
from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.expr.predicates import Selection
from eddyline.operators.base import Context, Operator


class OrdersItself(Protocol):
    """As much of an adaptive conjunction as the operator knows."""

    @property
    def decisions(self) -> Sequence[Decision]: ...
    def evaluate(self, columns: Mapping[str, pa.Array], length: int, times: Int64s | None = None) -> Selection: ...
    def adapts(self) -> list[str]: ...
    def state(self) -> dict[str, Any]: ...
    def load(self, state: Mapping[str, Any]) -> None: ...


class AdaptiveSelect(Operator):
    """Its only state is what the conjunction has learned, which no answer depends on."""

    def __init__(self, name: str, schema: Schema, conjunction: OrdersItself, context: Context) -> None:
        super().__init__(name, schema)
        self.conjunction, self.context = conjunction, context

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        if len(delta) == 0:
            return delta
        selection = self.conjunction.evaluate(delta.columns, len(delta), delta.time)
        if selection.errors:
            self.context.fail(delta, selection.errors)
        return delta.filter(selection.keep)

    @property
    def decisions(self) -> Sequence[Decision]:
        return self.conjunction.decisions

    def adapts(self) -> list[str]:
        return self.conjunction.adapts()

    def state(self) -> dict[str, Any]:
        return self.conjunction.state()

    def load(self, state: dict[str, Any]) -> None:
        if state:  # a snapshot of a version that did not learn has none
            self.conjunction.load(state)
