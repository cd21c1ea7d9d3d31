"""IN and EXISTS as Boolean columns, and selections that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from eddyline.plan.candidates import MARK, MEMBERSHIP, Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.fallible_memberships import can_fail_beside
from eddyline.plan.graph import needed
from eddyline.plan.logical import MarkJoin, Select
from eddyline.plan.memberships import flattened

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder


@candidate
class MarkJoinCandidate(Candidate):
    """The answer of IN or EXISTS for every left row; IN has up to three of them: found, unknown, and any row at all."""

    name = "mark-join"
    subject: ClassVar[str] = MARK

    def suits(self, node: MarkJoin, planning: Planning) -> str | Refused:
        return "every row gets the answer of the subquery as a column"

    def cost(self, node: MarkJoin, planning: Planning) -> float:
        """An element is put into one index and looked up in another, for each of the marks."""
        return 2.0 * (1 if not node.operands else 3 if len(node.operands) == 1 else 2)

    def build(self, node: MarkJoin, builder: Builder, need: Deletions) -> Output:
        return builder.mark_join(node)


@candidate
class SelectionOfMarks(Candidate):
    name = "select-marks"
    subject: ClassVar[str] = MEMBERSHIP

    def suits(self, node: Select, planning: Planning) -> str | Refused:
        if can_fail_beside(flattened(node)):
            return Refused("a conjunct can fail, and its error counts only for a row that passes the memberships")
        return "the answers of subqueries are columns, which the conditions read"

    def cost(self, node: Select, planning: Planning) -> float:
        """Of the marks, each for a row that is put in and looked up, and of the selection that reads them."""
        return 3.0 * len(flattened(node).joins)

    def build(self, node: Select, builder: Builder, need: Deletions) -> Output:
        builder.note_obstacles(flattened(node))
        return builder.filter(node, builder.relation(node.input, needed(node.conjuncts, need)))
