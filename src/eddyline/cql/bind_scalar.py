"""Subqueries as values: one aggregate without groups, which has exactly one row at every instant.

Such a subquery is one more input of the query, joined without a condition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp

from eddyline.cql.defaults import Bound
from eddyline.cql.renaming import renamed
from eddyline.cql.scope import Context, Scope
from eddyline.expr.nodes import Column, Expr
from eddyline.plan.logical import Aggregate, Join, Plan, Project

CORRELATED: Final = "a subquery as a value may not use columns of the query around it: join with it in FROM instead."


@dataclass(slots=True)
class ScalarCollector:
    """Gathers the subqueries that stand as values at one level of a query."""

    context: Context
    scope: Scope
    bind_query: Callable[[Any, tuple[Scope, str]], Bound]
    plans: list[Plan] = field(default_factory=list)

    def bind(self, node: exp.Subquery) -> Expr:
        bound = self.bind_query(node.this, (self.scope, CORRELATED))
        plan = bound.plan
        one = isinstance(plan, Project) and isinstance(plan.input, Aggregate) and not plan.input.grouped
        if not one or bound.names_stream or len(plan.schema) != 1:
            message = (
                "a subquery as a value is one aggregate without GROUP BY and HAVING, as in (SELECT max(x) FROM S):"
                " join with other queries in FROM."
            )
            raise self.context.error(message, node)
        self.plans.append(renamed(plan, self.context.fresh("_value")))
        (only,) = self.plans[-1].schema
        return Column(only.name, only.type)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(n for p in self.plans for n in p.schema.names)

    def applied(self, plan: Plan) -> Plan:
        return Join((plan, *self.plans), ()) if self.plans else plan
