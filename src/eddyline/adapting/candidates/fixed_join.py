"""A join whose pipelines stay in the order in which they are planned: connected inputs first, as written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eddyline.adapting.candidates.constrained_join import offer_for
from eddyline.adapting.index_memory import memory_factor
from eddyline.adapting.join_choice import Joining, named_in
from eddyline.plan.candidates import Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.join_costs import any_order
from eddyline.plan.joins import inputs_of, is_simple
from eddyline.plan.logical import Join

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder


@candidate
class FixedJoinCandidate(Candidate):
    name = "fixed-join"

    def suits(self, node: Join, planning: Planning) -> str | Refused:
        joining = planning.read(Joining.of)
        if joining.tree is not None:
            if named_in(joining.tree, inputs_of(node)):
                return Refused("the option 'tree' draws another plan")
            return "the option 'tree' is about another join"
        nothing = joining.nothing_to_adapt(len(node.inputs), lambda: is_simple(node))
        named = [f"'{n}'" for n, value in (("joins", joining.joins), ("caches", joining.caches)) if value is not None]
        if nothing is None and named:
            return Refused(f"the option {' and '.join(named)} names policies that change the plan")
        return nothing or "orders stay as written, and nothing is measured"

    def cost(self, node: Join, planning: Planning) -> float:
        """An element is put into its index and looked up in the order that the text happens to have."""
        return memory_factor(node, planning.options) * (1.0 + any_order(len(node.inputs)))

    def build(self, node: Join, builder: Builder, need: Deletions) -> Output:
        joining = Joining.of(builder.planning.options, builder.clock)
        return builder.mjoin(node, need, joining.stay if joining.tree is None else None, offer_for(node, builder))
