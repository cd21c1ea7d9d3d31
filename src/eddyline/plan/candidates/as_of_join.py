"""As-of joins: backward by the last row of each key, forward by the elements that wait for their first partner."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from eddyline.plan.candidates import AS_OF, Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.logical import AsOfJoin

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder

_SIGNS = {"le": "<=", "lt": "<", "ge": ">=", "gt": ">"}


class _AsOf(Candidate):
    subject: ClassVar[str] = AS_OF

    def cost(self, node: AsOfJoin, planning: Planning) -> float:
        """An element of either side finds its key once."""
        return 1.0

    def build(self, node: AsOfJoin, builder: Builder, need: Deletions) -> Output:
        from eddyline.operators.as_of_join import LastBefore
        from eddyline.operators.as_of_waiting import FirstAfter
        from eddyline.plan.graph import Output

        left, right = (builder.stream(p, ordered=True) for p in (node.left, node.right))
        make = LastBefore if node.backward else FirstAfter
        operator = make(
            builder.name("as-of-join"), left.schema, right.schema, node.keys, node.comparison in ("lt", "gt"),
            node.within, node.outer,
        )  # fmt: skip
        keys = [f"{a} = {b}" for a, b in node.keys]
        text = " AND ".join((*keys, f"right time {_SIGNS[node.comparison]} left time"))
        within = "" if node.within is None else f" WITHIN {node.within} ticks"
        out = builder.add(operator, (left.node, right.node), note=text + within)
        return Output(out, node.schema, append_only=True)


@candidate
class LastRowOfKey(_AsOf):
    name = "last-row-of-key"

    def suits(self, node: AsOfJoin, planning: Planning) -> str | Refused:
        if not node.backward:
            return Refused("the partner comes afterwards")
        return "an element reads the last row of its key"


@candidate
class WaitingElements(_AsOf):
    name = "waiting-elements"

    def suits(self, node: AsOfJoin, planning: Planning) -> str | Refused:
        if node.backward:
            return Refused("the partner came before")
        return "elements wait for the first row of their key"
