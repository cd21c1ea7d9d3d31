"""A join whose orders and caches follow what is measured (A-Greedy, A-Caching)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eddyline.adapting.candidates.constrained_join import offer_for
from eddyline.adapting.index_memory import memory_factor
from eddyline.adapting.join_choice import Joining
from eddyline.plan.candidates import Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.join_costs import best_order
from eddyline.plan.joins import is_simple
from eddyline.plan.logical import Join

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder

PROFILING_SHARE: Final = 0.05  # of all accesses are made only to profile


@candidate
class AdaptiveJoinCandidate(Candidate):
    name = "adaptive-join"

    def suits(self, node: Join, planning: Planning) -> str | Refused:
        joining = planning.read(Joining.of)
        if joining.tree is not None:
            return Refused("the option 'tree' fixes the plans of the query's joins")
        nothing = joining.nothing_to_adapt(len(node.inputs), lambda: is_simple(node))
        return "orders and caches follow what is measured" if nothing is None else Refused(nothing)

    def cost(self, node: Join, planning: Planning) -> float:
        """An element is put into its index and looked up in the best order; some are profiled."""
        return memory_factor(node, planning.options) * (1.0 + best_order(len(node.inputs)) * (1 + PROFILING_SHARE))

    def build(self, node: Join, builder: Builder, need: Deletions) -> Output:
        joining = Joining.of(builder.planning.options, builder.clock)
        return builder.mjoin(node, need, joining.attach, offer_for(node, builder))
