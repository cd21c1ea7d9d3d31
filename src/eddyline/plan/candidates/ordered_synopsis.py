"""Ranks from a synopsis that keeps the rows of each partition in order."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, ClassVar

from eddyline.plan.candidates import RANK, Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.logical import Rank

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder

ASSUMED_PARTITION_ROWS = 1024  # rows of a partition, for the estimated cost: no statistics exist yet


@candidate
class OrderedSynopsis(Candidate):
    name = "ordered-synopsis"
    subject: ClassVar[str] = RANK
    version: ClassVar[int] = 3

    def suits(self, node: Rank, planning: Planning) -> str | Refused:
        if node.limit is None:
            return "a change renumbers the rows behind it, since no condition bounds the rank"
        return f"a change renumbers the rows behind it, up to rank {node.limit}"

    def cost(self, node: Rank, planning: Planning) -> float:
        """The way down a tree, and half of the rows that have a number."""
        numbered = ASSUMED_PARTITION_ROWS if node.limit is None else min(node.limit, ASSUMED_PARTITION_ROWS)
        return log2(ASSUMED_PARTITION_ROWS) + (numbered / 2 if node.numbered else 1)

    def build(self, node: Rank, builder: Builder, need: Deletions) -> Output:
        from eddyline.operators.rank import RankOperator
        from eddyline.plan.graph import Output

        child = builder.relation(node.input, Deletions.ALL)
        operator = RankOperator(
            builder.name("rank"), child.schema, node.function, node.partition,
            [*((k.column, k.descending, k.nulls_first) for k in node.order), *((n, False, True) for n in node.ties)],
            node.name if node.numbered else None,
            node.limit, node.by_arrival, child.ids, child.append_only,
        )  # fmt: skip
        out = builder.add(operator, (child.node,), note=_text(node))
        return Output(out, node.schema)


def _text(node: Rank) -> str:
    """As it would be written, for explain."""
    partition = f"PARTITION BY {', '.join(node.partition)} " if node.partition else ""
    keys = (f"{k.column}{' DESC' * k.descending} NULLS {'FIRST' if k.nulls_first else 'LAST'}" for k in node.order)
    bound = "" if node.limit is None else f" <= {node.limit}"
    return f"{node.function.upper()}() OVER ({partition}ORDER BY {', '.join(keys)}){bound}{_ties(node)}"


def _ties(node: Rank) -> str:
    """The order of row numbers among rows that are equal in ORDER BY; other ranks give such rows the same number."""
    if node.function != "row_number":
        return ""
    first = "arrival" if node.by_arrival or node.ties else ""
    return f", ties by {first}{', then ' if first and not node.by_arrival else ''}{'' if node.by_arrival else 'value'}"
