"""The facts that decide how rows with partners are found. They are the same on the driver and on every shard.

A membership (IN, EXISTS) or an outer join asks one or more times which left rows have a partner on the right. Each time
one of the candidates of the subject ``match`` is chosen by these facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from eddyline.expr.nodes import Expr
    from eddyline.operators.bound_match import Comparison
    from eddyline.operators.join_plan import Member
    from eddyline.plan.graph import Output


@dataclass(frozen=True, slots=True)
class Matching:
    """Left rows by their partners. A side is constant if all its rows come at the start of time; ``bounds`` is the one
    comparison beside the equalities, where there is just one."""

    kind: str  # semi, anti or mark
    left: Output
    right: Output
    keys: tuple[tuple[Expr, ...], ...]
    equalities: tuple[tuple[Member, Member], ...]
    residual: Sequence[Expr]
    bounds: Comparison | None
    left_constant: bool
    right_constant: bool
    on: Sequence[Expr]
    mark: str | None = None
    why: str = ""

    @property
    def left_passes(self) -> bool:
        """Whether a left row meets all its partners within its own instant and never leaves: it is not kept."""
        return self.left.append_only and self.right_constant

    @property
    def passing(self) -> Literal["left", "right"] | None:
        """The side whose rows are judged at their own instant and not kept."""
        if self.left_passes:
            return "left"
        return "right" if self.right.append_only and self.left_constant else None

    @property
    def operator(self) -> str:
        """The kind of its operator, as names and plans have it."""
        return {"semi": "semijoin", "anti": "antijoin", "mark": "mark-join"}[self.kind]

    @property
    def by_id(self) -> bool:
        return self.left.ids and self.left.fifo
