"""Conjunctions that stay in the worker process, with what they have learned, from batch to batch and task to task.

This must be an importable module: what a closure defines is unpickled anew for each task. No answer depends on it: a
worker that is new, or has forgotten, begins with the written order and learns again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa

from eddyline.expr.nodes import Expr
from eddyline.expr.predicates import Conjunction, Selection
from eddyline.runtime.adaptive_conjunction import AdaptiveConjunction
from eddyline.runtime.filtering import Filtering

MOST: Final = 64  # conjunctions that a worker remembers


class Ordered(Protocol):
    """A conjunction that knows its order."""

    def evaluate(self, columns: Mapping[str, pa.Array], length: int) -> Selection: ...


class _InOrder:
    """A conjunction whose order stays."""

    def __init__(self, conjuncts: Sequence[Expr], order: Sequence[int] | None) -> None:
        self.conjunction, self.order = Conjunction(conjuncts), order

    def evaluate(self, columns: Mapping[str, pa.Array], length: int) -> Selection:
        return self.conjunction.evaluate(columns, length, self.order)


_known: OrderedDict[tuple[str, int], Ordered] = OrderedDict()


def conjunction(plan: str, number: int, filtering: Filtering, conjuncts: Sequence[Expr]) -> Ordered:
    """The conjunction of a step of a plan: the one that this process has been using, or a new one."""
    found = _known.get((plan, number))
    if found is None:
        made = filtering.arrange(f"select {number + 1}", conjuncts)
        found = made if isinstance(made, AdaptiveConjunction) else _InOrder(conjuncts, made.order)
        _known[plan, number] = found
        while len(_known) > MOST:
            _known.popitem(last=False)
    else:
        _known.move_to_end((plan, number))
    return found
