"""The logical optimizer: a tuple of functions, plan in, plan out, one rule a file."""

from __future__ import annotations

from collections.abc import Callable

from eddyline.plan.logical import Plan
from eddyline.plan.rules.prune_columns import prune_columns
from eddyline.plan.rules.push_below_windows import push_below_windows
from eddyline.plan.rules.push_filters import push_filters

RULES: tuple[Callable[[Plan], Plan], ...] = (push_filters, push_below_windows, prune_columns)


def optimize(plan: Plan) -> Plan:
    for rule in RULES:
        plan = rule(plan)
    return plan
