"""From a bound query to a planned one: its plan is optimized, and the operators of its nodes are chosen.

This happens once for a query, in the process that registers it; on Spark on the driver.
"""

from __future__ import annotations

from eddyline.adapting import candidates as _candidates  # noqa: F401 (registers them)
from eddyline.adapting.join_choice import Joining
from eddyline.core.catalog import Catalog
from eddyline.plan.candidates import Planning, check_plan
from eddyline.plan.choice import PlannedQuery, choose
from eddyline.plan.logical import BoundQuery, Plan
from eddyline.plan.physical import choose_matches
from eddyline.plan.rules import optimize


def optimized(query: BoundQuery) -> Plan:
    """The optimized plan of a query under its options."""
    return optimize(query.plan, diverting=query.options.get("on_error") == "invalid")


def plan_query(query: BoundQuery, catalog: Catalog) -> PlannedQuery:
    return choose_operators(query, optimized(query), catalog)


def choose_operators(query: BoundQuery, plan: Plan, catalog: Catalog) -> PlannedQuery:
    """Choose for a plan that is optimized already."""
    Joining.of(query.options).check(plan)
    check_plan(plan, query.options)
    choices = choose(plan, Planning(catalog, query.time_kind, query.options))
    return choose_matches(PlannedQuery(query, plan, choices), catalog)
