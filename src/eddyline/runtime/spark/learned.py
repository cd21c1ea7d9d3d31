"""What stays in a worker from batch to batch and task to task: plans, and what their conjunctions have learned.

This must be an importable module: what a closure defines is unpickled anew for each task. No answer depends on it: a
worker that is new, or has forgotten, begins with the written order and learns again.
"""

from __future__ import annotations

import pickle
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from eddyline.expr.describe import describe
from eddyline.expr.nodes import Expr
from eddyline.expr.predicates import Conjunction, Selection
from eddyline.runtime.filtering import Filtering, Fixed

MOST: Final = 64  # plans that a worker remembers


class Ordered(Protocol):
    """A conjunction that knows its order."""

    def evaluate(self, columns: Mapping[str, pa.Array], length: int) -> Selection: ...
    def adapts(self) -> list[str]: ...


class InOrder:
    """A conjunction whose order stays. What it does is not measured: there is nothing to choose."""

    def __init__(self, conjuncts: Sequence[Expr], fixed: Fixed) -> None:
        self.conjuncts, self.fixed = tuple(conjuncts), fixed
        self.conjunction = Conjunction(conjuncts)

    def evaluate(self, columns: Mapping[str, pa.Array], length: int) -> Selection:
        return self.conjunction.evaluate(columns, length, self.fixed.order)

    @property
    def order(self) -> list[int]:
        return list(range(len(self.conjuncts)) if self.fixed.order is None else self.fixed.order)

    def adapts(self) -> list[str]:
        first, *others = (describe(self.conjuncts[i]) for i in self.order)
        if not others:
            return [f"{first}, alone"]
        return [f"{', then '.join([first, *others])} ({self.fixed.why or 'as written'})"]


@dataclass(slots=True)
class Books:
    """Of one plan in this worker. ``judge`` is unpickled once, not for each task."""

    judge: Any = None
    selects: dict[int, Ordered] = field(default_factory=dict)  # by the number of the step
    rows: int = 0
    kept: int = 0
    tasks: int = 0
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:8])  # tells it from an earlier process of its number


_known: OrderedDict[str, Books] = OrderedDict()


def books(plan: str) -> Books:
    """Those of a plan that this process has been using, or new ones."""
    found = _known.get(plan)
    if found is None:
        found = _known[plan] = Books()
        while len(_known) > MOST:
            _known.popitem(last=False)
    else:
        _known.move_to_end(plan)
    return found


def judge(plan: str, pickled: bytes) -> Any:
    """The judge of a plan."""
    mine = books(plan)
    if mine.judge is None:
        mine.judge = pickle.loads(pickled)
    return mine.judge


def conjunction(plan: str, number: int, filtering: Filtering, conjuncts: Sequence[Expr]) -> Ordered:
    """The conjunction of a step of a plan, with what it has learned."""
    selects = books(plan).selects
    if number not in selects:
        made = filtering.ordered(f"select {number + 1}", conjuncts)
        selects[number] = InOrder(conjuncts, made) if isinstance(made, Fixed) else made
    return selects[number]
