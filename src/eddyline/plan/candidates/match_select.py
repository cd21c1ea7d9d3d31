"""IN and EXISTS as conjuncts like any other: each row is judged once, at its own instant, and no state is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from eddyline.expr.nodes import Expr
from eddyline.plan.candidates import MEMBERSHIP, Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import needed
from eddyline.plan.logical import Plan, Select
from eddyline.plan.memberships import Flat, flattened

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder


@candidate
class MatchSelectCandidate(Candidate):
    name = "match-select"
    subject: ClassVar[str] = MEMBERSHIP

    def suits(self, node: Select, planning: Planning) -> str | Refused:
        sought = flattened(node).sought(planning.kind)
        return Refused(sought) if isinstance(sought, str) else "rows are evaluated once, by all conjuncts together"

    def cost(self, node: Select, planning: Planning) -> float:
        """One look-up for each membership."""
        return float(len(flattened(node).joins))

    def reads(self, node: Select, planning: Planning) -> Sequence[Plan]:
        flat = flattened(node)
        stream = flat.stream()
        return [flat.base if stream is None else stream[0], *(j.right for j in flat.joins)]

    def build(self, node: Select, builder: Builder, need: Deletions) -> Output:
        flat = flattened(node)
        sought, stream = flat.sought(builder.kind), flat.stream()
        assert not isinstance(sought, str)
        if stream is None:
            return builder.match_select(flat, sought, builder.relation(flat.base, needed(_evaluated(flat), need)))
        elements, window = stream
        out = builder.match_select(flat, sought, builder.stream(elements))
        return builder.windowed(window, out, need, shared=False)


def _evaluated(flat: Flat) -> list[Expr]:
    """All expressions that are evaluated about a left row."""
    compared = [x for j in flat.joins for pair in j.operands for x in pair]
    return [*flat.conjuncts, *(c for j in flat.joins for c in j.on), *compared]
