"""A new policy in one file: it turns the order of filters, or of a join's inputs, round once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from eddyline.adaptive.filters.base import OrderingPolicy
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.core.delta import Float64s, Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import Parameter
from eddyline.streamon.strategies import strategy

AFTER = Parameter("after", 1, 1_000_000, "rows before it turns the order round: fewer turn sooner", whole=True)


@strategy("filters", "joins")
class TurnRound(OrderingPolicy):
    """Turns the order round once, after some rows."""

    name: ClassVar[str] = "turn-round"
    parameters: ClassVar[tuple[Parameter, ...]] = (AFTER,)

    def __init__(self, pipeline: Pipeline, *, after: int = 1000) -> None:
        super().__init__(pipeline)
        self.after, self.rows, self.turned = after, 0, False

    def processed(self, rows_in: Int64s, rows_out: Int64s, seconds: Float64s) -> None:
        self.rows += int(rows_in.max())

    def decide(self, now: int | None = None) -> Decision | None:
        if self.turned or self.rows < self.after:
            return None
        before, self.turned, walls = self.order, True, self.pipeline.segments
        self.order = tuple(sorted(before, key=lambda f: (walls[f], -f)))  # within walls
        if self.order == before:
            return None
        return Decision(
            "filter order", before, self.order, "{rows} rows have passed", {"rows": self.rows}, time=now,
            operator=self.pipeline.operator,
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        return {**super().state(), "rows": self.rows, "turned": self.turned}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.rows, self.turned = int(state["rows"]), bool(state["turned"])
