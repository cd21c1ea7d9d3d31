"""State of a worker that is kept from batch to batch and task to task: plans, and what their conjunctions have learned.

This must be an importable module, because a closure is unpickled anew for each task, with all that it defines. No
answer depends on it: a new worker, or one that has dropped a plan, begins with the written order and learns again.
"""

from __future__ import annotations

import pickle
import uuid
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from eddyline.adapting.filter_choice import Filtering, Fixed
from eddyline.expr.nodes import Expr
from eddyline.operators.adaptive_select import InOrder, OrdersItself

MAX_PLANS: Final = 64  # that a worker keeps: more keep statistics for longer and take memory
ROWS_KEPT: Final = 100  # diverted rows that users can read; the count of all is exact


@dataclass(slots=True)
class PlanHistory:
    """What one plan has done in this worker. ``judge`` is unpickled once, not for each task."""

    judge: Any = None
    selects: dict[int, OrdersItself] = field(default_factory=dict)  # by the number of the step
    rows: int = 0
    kept: int = 0
    tasks: int = 0
    invalid: int = 0  # rows that made an expression fail, with on_error = 'invalid'
    invalid_rows: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=ROWS_KEPT))  # the last of them
    token: str = field(
        default_factory=lambda: uuid.uuid4().hex[:8]
    )  # distinguishes it from an earlier process of its number


_known: OrderedDict[str, PlanHistory] = OrderedDict()


def plan_history(plan: str) -> PlanHistory:
    """That of a plan that this process has been using, or a new one."""
    found = _known.get(plan)
    if found is None:
        found = _known[plan] = PlanHistory()
        while len(_known) > MAX_PLANS:
            _known.popitem(last=False)
    else:
        _known.move_to_end(plan)
    return found


def judge(plan: str, pickled: bytes) -> Any:
    """The judge of a plan."""
    mine = plan_history(plan)
    if mine.judge is None:
        mine.judge = pickle.loads(pickled)
    return mine.judge


def conjunction(plan: str, number: int, filtering: Filtering, conjuncts: Sequence[Expr]) -> OrdersItself:
    """The conjunction of a step of a plan, with what it has learned."""
    selects = plan_history(plan).selects
    if number not in selects:
        made = filtering.ordered(f"select {number + 1}", conjuncts)
        selects[number] = InOrder(conjuncts, made.order, made.why) if isinstance(made, Fixed) else made
    return selects[number]
