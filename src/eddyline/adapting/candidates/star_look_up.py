"""A join of one stream with constant relations whose rows are routed by content (CBR, 4.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eddyline.adapting.filter_choice import Filtering
from eddyline.adapting.join_choice import Joining
from eddyline.adapting.star_router import StarRouting
from eddyline.core.time import Clock
from eddyline.plan.candidates import Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import Output, conjunction
from eddyline.plan.join_costs import best_order
from eddyline.plan.logical import Join
from eddyline.plan.stars import star_of

if TYPE_CHECKING:
    from eddyline.plan.physical import Builder


@candidate
class StarLookUpCandidate(Candidate):
    name = "star-look-up"

    def suits(self, node: Join, planning: Planning) -> str | Refused:
        stars = planning.read(_routing)
        if stars is None:
            return Refused("the option 'routing' is not given")
        star = star_of(node) if stars.instead is None else stars.instead
        if isinstance(star, str):
            return Refused(star, asked=True)
        obstacle = stars.obstacle(node.inputs[star.place].schema)
        if obstacle is not None:
            return Refused(obstacle, asked=True)
        labels = ", ".join(r.label for r in star.relations)
        return f"each row is looked up in {labels} in an order of its own"

    def cost(self, node: Join, planning: Planning) -> float:
        """A row is looked up in the best order for its content, and is not put into an index."""
        return best_order(len(node.inputs))

    def build(self, node: Join, builder: Builder, need: Deletions) -> Output:
        """It is linear in the input that changes: it needs no more of the deletions than what is above."""
        from eddyline.operators.star_look_up import StarLookUp

        star, stars = star_of(node), _routing(builder.planning.options, builder.clock)
        assert not isinstance(star, str) and stars is not None
        name, changing = builder.name("star-look-up"), node.inputs[star.place].schema
        routes = stars.router(name, [r.label for r in star.relations], builder.context.log)
        needs = [need if i == star.place else Deletions.ALL for i in range(len(node.inputs))]
        inputs = [builder.relation(c, n) for c, n in zip(node.inputs, needs, strict=True)]
        operator = StarLookUp(
            name, changing, star.place, star.relations, star.residual, node.schema.names, routes, builder.context
        )
        at = builder.add(operator, tuple(i.node for i in inputs), note=conjunction(node.conjuncts))
        return Output(at, operator.schema, append_only=inputs[star.place].append_only)


def _routing(options: Mapping[str, Any], clock: Clock | None = None) -> StarRouting | None:
    return StarRouting.of(Filtering.of(options, clock), Joining.of(options, clock))
