"""Outer joins: the inner join, and the rows without a partner padded with NULLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from eddyline.plan.candidates import OUTER_JOIN, Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.logical import OuterJoin

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder


@candidate
class PaddedJoin(Candidate):
    name = "padded-join"
    subject: ClassVar[str] = OUTER_JOIN

    def suits(self, node: OuterJoin, planning: Planning) -> str | Refused:
        return "the inner join, and an antijoin for each side that is kept"

    def cost(self, node: OuterJoin, planning: Planning) -> float:
        """An element is put into one index and looked up in another, in the join and in each antijoin."""
        return 2.0 * (3 if node.kind == "full" else 2)

    def build(self, node: OuterJoin, builder: Builder, need: Deletions) -> Output:
        return builder.outer_join(node)
