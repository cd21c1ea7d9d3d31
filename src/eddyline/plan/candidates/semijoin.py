"""``WHERE x IN (…)``, ``EXISTS``, ``NOT EXISTS`` as a bare conjunct: rows with (or without) a partner, and no mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from eddyline.expr.nodes import columns_of
from eddyline.plan.candidates import MEMBERSHIP, Candidate, Planning, Refused, candidate
from eddyline.plan.conjuncts import bare_mark
from eddyline.plan.deletions import Deletions
from eddyline.plan.fallible_memberships import can_fail_beside
from eddyline.plan.logical import MarkJoin, Plan, Select
from eddyline.plan.matches import call
from eddyline.plan.memberships import flattened

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder


@candidate
class Semijoin(Candidate):
    name = "semijoin"
    subject: ClassVar[str] = MEMBERSHIP

    def suits(self, node: Select, planning: Planning) -> str | Refused:
        if can_fail_beside(flattened(node)):
            return Refused("a conjunct can fail, and its error counts only for a row that passes the memberships")
        if bare_mark(node) is None:
            return Refused("the answer of the subquery is part of a larger condition, or NOT IN needs its NULLs")
        return "rows with a partner pass, and both sides are kept"

    def cost(self, node: Select, planning: Planning) -> float:
        """An element is put into one index and looked up in another."""
        return 2.0 * len(flattened(node).joins)

    def reads(self, node: Select, planning: Planning) -> Sequence[Plan]:
        join = node.input
        assert isinstance(join, MarkJoin)
        rest = tuple(c for c in node.conjuncts if join.mark not in columns_of(c))
        return [Select(join.left, rest) if rest else join.left, join.right]

    def build(self, node: Select, builder: Builder, need: Deletions) -> Output:
        join, kind = node.input, bare_mark(node)
        assert isinstance(join, MarkJoin) and kind is not None
        builder.note_obstacles(flattened(node))
        equal = tuple(call("eq", *pair) for pair in join.operands)
        left, right = (builder.relation(p, Deletions.ALL) for p in self.reads(node, builder.planning))
        return builder.match(kind, left, right, (*join.on, *equal), why=builder.obstacles.get(join.mark, ""))
