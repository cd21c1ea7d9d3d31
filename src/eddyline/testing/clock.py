"""A clock that stands still until the test moves it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ManualClock:
    """Implements ``core.time.Clock``; pass it wherever processing time matters.

    ``now`` is microseconds since the epoch. The monotonic counter advances with it, so measured durations are the
    test's own.

    >>> clock = ManualClock()
    >>> clock.advance(seconds=2)
    >>> clock.now(), clock.nanoseconds()
    (2000000, 2000000000)
    """

    microseconds: int = 0

    def now(self) -> int:
        return self.microseconds

    def nanoseconds(self) -> int:
        return self.microseconds * 1000

    def advance(self, microseconds: int = 0, *, seconds: float = 0) -> None:
        """Move forward; a clock never goes back."""
        step = microseconds + round(seconds * 1_000_000)
        if step < 0:
            raise ValueError("a clock can only be advanced")
        self.microseconds += step
