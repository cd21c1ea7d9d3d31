"""The logical optimizer: a tuple of functions, plan in, plan out, one rule a file."""

from __future__ import annotations

from collections.abc import Callable

from eddyline.plan.logical import Plan
from eddyline.plan.rules.ask_above_joins import ask_above_joins
from eddyline.plan.rules.bound_ranks import bound_ranks
from eddyline.plan.rules.compute_below_aggregates import compute_below_aggregates
from eddyline.plan.rules.prune_columns import prune_columns
from eddyline.plan.rules.push_below_windows import push_below_windows
from eddyline.plan.rules.push_filters import push_filters
from eddyline.plan.rules.share_subplans import share_subplans

RULES: tuple[Callable[[Plan], Plan], ...] = (
    push_filters,
    bound_ranks,
    ask_above_joins,
    push_below_windows,
)


def optimize(plan: Plan, diverting: bool = False) -> Plan:
    """``diverting``: rows for which an expression fails are turned away instead of stopping the query."""
    return share_subplans(compute_below_aggregates(plan, diverting), _apply)


def _apply(plan: Plan, needed: frozenset[str]) -> Plan:
    for rule in RULES:
        plan = rule(plan)
    return prune_columns(plan, needed)
