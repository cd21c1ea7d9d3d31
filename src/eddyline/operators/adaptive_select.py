"""adaptive select: a select whose conjuncts are evaluated in an order that changes while it runs.

The order is chosen by the conjunction that it is built with; this file contains no policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.expr.members import Conjunct, text_of
from eddyline.expr.predicates import Conjunction, Selection
from eddyline.operators.base import Context, Operator
from eddyline.streamon.log import DecisionLog


class OrdersItself(Protocol):
    """The part of an adaptive conjunction that the operator uses."""

    log: DecisionLog
    written: tuple[Conjunct, ...]  # as the query has them

    @property
    def running_order(self) -> tuple[Conjunct, ...]:
        """All conjuncts in the order in which most rows meet them now."""

    def evaluate(self, columns: Mapping[str, pa.Array], length: int, times: Int64s | None = None) -> Selection: ...
    def adapts(self) -> list[str]: ...
    def statistics(self) -> dict[str, Any]: ...
    def state(self) -> dict[str, Any]: ...
    def load(self, state: Mapping[str, Any]) -> None: ...


class InOrder:
    """A conjunction that is asked like one that orders itself, and never does. ``order`` is the one in which the
    conjuncts are asked (as written by default), ``why`` it stays as it is."""

    def __init__(self, conjuncts: Sequence[Conjunct], order: Sequence[int] | None = None, why: str = "") -> None:
        self.log = DecisionLog()  # to which nothing is ever added
        self.written = tuple(conjuncts)
        self.conjunction, self.texts = Conjunction(conjuncts), [text_of(c) for c in conjuncts]
        self.order, self.why = list(range(len(conjuncts)) if order is None else order), why

    @property
    def running_order(self) -> tuple[Conjunct, ...]:
        return tuple(self.written[i] for i in self.order)

    def evaluate(self, columns: Mapping[str, pa.Array], length: int, times: Int64s | None = None) -> Selection:
        return self.conjunction.evaluate(columns, length, self.order)

    def adapts(self) -> list[str]:
        return [f"{', '.join(self.texts[i] for i in self.order)} ({self.why})"] if self.why else []

    def statistics(self) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        pass


def in_order(name: str, schema: Schema, conjuncts: Sequence[Conjunct], log: DecisionLog) -> OrdersItself:
    """The written order, for a selection without a policy."""
    return InOrder(conjuncts)


class SelectionOperator(Operator):
    """Keeps the rows that its conjunction keeps. What that has learned is state, which no answer depends on."""

    def __init__(self, name: str, schema: Schema, conjunction: OrdersItself, context: Context) -> None:
        super().__init__(name, schema)
        self.conjunction, self.context = conjunction, context

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        return self.judge(delta, delta.columns) if len(delta) else delta

    def judge(self, delta: Delta, columns: Mapping[str, pa.Array]) -> Delta:
        """Those of the rows that pass; ``columns`` are what the conjuncts read."""
        selection = self.conjunction.evaluate(columns, len(delta), delta.time)
        if selection.errors:
            self.context.fail(delta, selection.errors)
        return delta.filter(selection.keep)

    def adapts(self) -> list[str]:
        return self.conjunction.adapts()

    def statistics(self) -> dict[str, Any]:
        return self.conjunction.statistics()

    def state(self) -> dict[str, Any]:
        return self.conjunction.state()

    def load(self, state: dict[str, Any]) -> None:
        if state:  # a snapshot of a version that did not learn has none
            self.conjunction.load(state)


class AdaptiveSelect(SelectionOperator):
    """A select whose conjunction orders itself."""
