"""The logical optimizer: a tuple of functions, plan in, plan out, one rule a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eddyline.plan.logical import Plan
from eddyline.plan.rules.ask_above_joins import ask_above_joins
from eddyline.plan.rules.bound_ranks import bound_ranks
from eddyline.plan.rules.compute_below_aggregates import compute_below_aggregates
from eddyline.plan.rules.prune_columns import prune_columns
from eddyline.plan.rules.push_below_as_of_joins import push_below_as_of_joins
from eddyline.plan.rules.push_below_windows import push_below_windows
from eddyline.plan.rules.push_filters import push_filters
from eddyline.plan.rules.share_subplans import Cuts, Shared, cut_again, share_subplans

RULES: tuple[Callable[[Plan], Plan], ...] = (
    push_filters,
    bound_ranks,
    ask_above_joins,
    push_below_windows,
    push_below_as_of_joins,
)


def optimize(plan: Plan, diverting: bool = False) -> Plan:
    """``diverting``: rows for which an expression fails are turned away instead of stopping the query."""
    return optimize_together([plan], diverting)[0].plan


def optimize_together(plans: Sequence[Plan], diverting: bool = False) -> list[Shared]:
    """The plans of queries that start with the same elements: what several of them read has one plan."""
    return share_subplans([compute_below_aggregates(p, diverting) for p in plans], _apply)


def optimize_again(plan: Plan, cuts: Cuts, diverting: bool = False) -> Shared:
    """The plan that a query had when it was optimized together with others."""
    return cut_again(compute_below_aggregates(plan, diverting), _apply, cuts)


def _apply(plan: Plan, needed: frozenset[str]) -> Plan:
    for rule in RULES:
        plan = rule(plan)
    return prune_columns(plan, needed)
