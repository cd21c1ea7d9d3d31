"""The logical optimizer: a tuple of functions, plan in, plan out, one rule a file."""

from __future__ import annotations

from collections.abc import Callable

from eddyline.plan.logical import Plan
from eddyline.plan.rules.ask_above_joins import ask_above_joins
from eddyline.plan.rules.compute_below_aggregates import compute_below_aggregates
from eddyline.plan.rules.prune_columns import prune_columns
from eddyline.plan.rules.push_below_windows import push_below_windows
from eddyline.plan.rules.push_filters import push_filters

RULES: tuple[Callable[[Plan], Plan], ...] = (
    push_filters,
    ask_above_joins,
    push_below_windows,
    prune_columns,
)


def optimize(plan: Plan, diverting: bool = False) -> Plan:
    """``diverting``: rows for which an expression fails are turned away instead of stopping the query."""
    plan = compute_below_aggregates(plan, diverting)
    for rule in RULES:
        plan = rule(plan)
    return plan
