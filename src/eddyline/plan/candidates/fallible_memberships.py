"""IN and EXISTS beside conjuncts that can fail: errors are noted and count only if the row passes the memberships."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from eddyline.plan.candidates import MEMBERSHIP, Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.fallible_memberships import can_fail_beside, fallible_selection, read_below
from eddyline.plan.logical import Plan, Select
from eddyline.plan.memberships import flattened

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder


@candidate
class FallibleMemberships(Candidate):
    name = "fallible-memberships"
    subject: ClassVar[str] = MEMBERSHIP

    def suits(self, node: Select, planning: Planning) -> str | Refused:
        if not can_fail_beside(flattened(node)):
            return Refused("no conjunct can fail or calls a user's function")
        return "an error counts only for a row that passes the memberships"

    def cost(self, node: Select, planning: Planning) -> float:
        """Both sides of each membership are kept: an element is put into one index and looked up in another."""
        return 2.0 * len(flattened(node).joins)

    def reads(self, node: Select, planning: Planning) -> Sequence[Plan]:
        flat = flattened(node)
        return [read_below(flat), *(j.right for j in flat.joins)]

    def build(self, node: Select, builder: Builder, need: Deletions) -> Output:
        flat = flattened(node)
        builder.note_obstacles(flat)
        return fallible_selection(builder, flat)
