"""What a multi-route join asks of, and reports to, the control that decides about routes and indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from eddyline.core.delta import Int64s

Join = TypeVar("Join", contravariant=True)  # the operator, which imports this file


class RouteControl(Protocol[Join]):
    """Decides about routes and indexes. The operator knows no policy."""

    def begin(self, join: Join) -> None:
        """The state modules have all their attributes; before the first rows, and after the state was loaded."""

    def next(self, bound: Sequence[int]) -> int:
        """The input that a batch with these inputs bound goes to."""

    def aside(self, bound: Sequence[int], rows: int, target: int) -> tuple[int, int] | None:
        """Another input for a few rows of a batch, and for how many, to learn; None: they stay together."""

    def searched(self, bound: Sequence[int], target: int, pattern: int, requests: int, counts: Int64s) -> None:
        """A batch took a step; ``counts`` are its hashes, visited buckets, comparisons and matches."""

    def inserted(self, target: int, rows: int) -> None:
        """Rows arrived in a state, which no other join had brought there."""

    def round_ended(self) -> None:
        """All batches of a chunk have found their way."""

    def tune(self, join: Join, now: int) -> None:
        """Between two batches: indexes may be changed here."""

    def pin(self, pinned: bool) -> None:
        """Keep the routes and the indexes as they are, or change them again."""

    def describe(self, join: Join) -> list[str]:
        """Lines for explain."""

    def statistics(self, join: Join) -> dict[str, Any]:
        """What is known and was done, as plain data."""

    def state(self) -> dict[str, Any]:
        """What was learned, as plain numbers."""

    def load(self, state: dict[str, Any]) -> None:
        """Go on with what was learned."""
