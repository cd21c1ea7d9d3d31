"""Candidates to find rows with partners below a membership or an outer join: by look-up, by bounds, or by keys."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from eddyline.plan.candidates import MATCH, Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import Output, conjunction
from eddyline.plan.matching import Matching

if TYPE_CHECKING:
    from eddyline.plan.physical import Builder


@candidate
class LookUpMatch(Candidate):
    """Each left row is judged once and forgotten: no synopsis of the left side."""

    name = "match-look-up"
    subject: ClassVar[str] = MATCH

    def suits(self, node: Matching, planning: Planning) -> str | Refused:
        if node.residual:
            return Refused("a condition is no equality")
        if not (node.left_passes and node.right.append_only):
            return Refused("left rows can leave, or right rows can come later")
        return "left rows are looked up in a constant relation, once"

    def cost(self, node: Matching, planning: Planning) -> float:
        return 1.0

    def build(self, node: Matching, builder: Builder, need: Deletions) -> Output:
        from eddyline.operators.look_up import LookUp

        left, right, (keys, _) = node.left, node.right, node.keys
        operator = LookUp(builder.name("look-up"), node.kind, left.schema, right.schema, keys, node.mark)
        out = builder.add(operator, (left.node, right.node))
        return replace(left, node=out, schema=operator.schema, identity=None)


@candidate
class BoundsMatch(Candidate):
    """The least and the greatest right value of a group decide which left rows have a partner."""

    name = "match-bounds"
    subject: ClassVar[str] = MATCH

    def suits(self, node: Matching, planning: Planning) -> str | Refused:
        if node.bounds is None:
            return Refused("the condition beside the equalities is not a single comparison")
        return "the bounds of the right values decide which rows have a partner"

    def cost(self, node: Matching, planning: Planning) -> float:
        """A row is put into its tree, and the bounds of the other side are read."""
        return 2.0

    def build(self, node: Matching, builder: Builder, need: Deletions) -> Output:
        from eddyline.operators.bound_match import BoundMatch

        left, right = node.left, node.right
        assert node.bounds is not None
        operator = BoundMatch(
            builder.name(node.operator), node.kind, left.schema, node.bounds, node.by_id, node.mark, right.append_only,
            node.left_passes,
        )  # fmt: skip
        operator.why = node.why
        out = builder.add(operator, (left.node, right.node), note=conjunction(node.on))
        return Output(out, operator.schema, append_only=node.left_passes)


@candidate
class KeysMatch(Candidate):
    """Partners are joined by their keys and counted for each left row."""

    name = "match-keys"
    subject: ClassVar[str] = MATCH

    def suits(self, node: Matching, planning: Planning) -> str | Refused:
        passing = f", and {node.passing} rows are not kept" if node.passing else ""
        return f"partners are counted by key{passing}"

    def cost(self, node: Matching, planning: Planning) -> float:
        """A row is put into one index and looked up in another; conditions are asked about each partner."""
        return 3.0 if node.residual else 2.0

    def build(self, node: Matching, builder: Builder, need: Deletions) -> Output:
        from eddyline.operators.join_plan import JoinGraph
        from eddyline.operators.match import MatchOperator

        left, right = node.left, node.right
        operator = MatchOperator(
            builder.name(node.operator), node.kind, left.schema, right.schema, JoinGraph(node.keys, node.equalities),
            node.residual, node.by_id, builder.context, node.mark, node.passing, builder.private_stub,
        )  # fmt: skip
        operator.why = node.why
        out = builder.add(operator, (left.node, right.node), note=conjunction(node.on))
        return Output(out, operator.schema, append_only=node.left_passes)
