"""A join with the plan of the option ``tree``: an XJoin or any tree of MJoins, with every subresult materialized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eddyline.adapting.join_choice import Joining, named_in
from eddyline.plan.candidates import Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.join_costs import any_order
from eddyline.plan.joins import inputs_of
from eddyline.plan.logical import Join

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder


@candidate
class TreeJoinCandidate(Candidate):
    name = "tree-join"

    def suits(self, node: Join, planning: Planning) -> str | Refused:
        tree = planning.read(Joining.of).tree
        if tree is None:
            return Refused("the option 'tree' is not given")
        if not named_in(tree, inputs_of(node)):
            return Refused("the option 'tree' names other inputs", asked=True)
        return "the option 'tree' draws the plan"

    def cost(self, node: Join, planning: Planning) -> float:
        """As of an order that nothing recommends; what the kept subresults spare is not known."""
        return 1.0 + any_order(len(node.inputs))

    def build(self, node: Join, builder: Builder, need: Deletions) -> Output:
        return builder.mjoin(node, need, Joining.of(builder.planning.options, builder.clock).plant)
