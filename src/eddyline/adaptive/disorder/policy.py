"""The seam between a policy that chooses the slack of a stream and the input manager, which applies it.

Rows are numbered in order of arrival, and ``decide`` is called after every ``interval`` of them: never more often and
never later, however rows are cut into batches. So what is late depends on the rows before and on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from eddyline.core.delta import Int64s
from eddyline.streamon.decision import Decision


class SlackPolicy(Protocol):
    interval: int  # rows from one decision to the next

    @property
    def slack(self) -> int:
        """Ticks; it changes in ``decide`` only."""

    @property
    def reach(self) -> int:
        """How far ahead of the largest time shown a row may be and still be believed, in ticks; it changes in
        ``decide`` only."""

    def observe(self, lateness: Int64s, late: int, advance: int) -> None:
        """The next rows: how far each lay behind the largest time before it, how many of them were late, and the
        largest step by which the largest time grew."""

    def decide(self, now: int | None = None) -> Decision | None:
        """Choose anew; a decision if the slack has changed, which is then in force."""

    def statistics(self) -> Mapping[str, Any]: ...
    def state(self) -> dict[str, Any]: ...
    def load(self, state: Mapping[str, Any]) -> None: ...
