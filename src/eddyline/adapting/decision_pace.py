"""When to decide about the indexes of a state: the time of a decision against the time of the state's searches.

A decision compares dozens of index sets and takes about a millisecond. The searches of a state over some hundred rows
may take less than that in the whole run. So an assessment that is complete waits until the searches of its state have
taken ``SEARCH_TIME_PER_DECISION_TIME`` times as long as a decision: then the time for deciding is at most that part of
the time that the decision can save.

The time of a decision is the shortest of the last ones in this process, over all joins: the first decision fills
caches, and any one may be interrupted. A longer estimate would delay the decisions that could correct it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from eddyline.core.time import Clock

T = TypeVar("T")

SEARCH_TIME_PER_DECISION_TIME = 4.0  # larger decides later and less often, and spends less time on it
TYPICAL_NANOSECONDS = 500_000.0  # of a decision, until some were measured
TIMED_DECISIONS = 4  # last decisions whose shortest time counts: with more, the estimate rises later

_known: dict[tuple[str, int], deque[float]] = {}  # nanoseconds of the last by kind and by attributes of a state


class DecisionPace:
    """Decisions of one ``kind``; without a ``clock`` they cost nothing, so that runs can be repeated.

    >>> class Ticking:
    ...     time = 0
    ...     def nanoseconds(self):
    ...         self.time += 100
    ...         return self.time
    >>> pace = DecisionPace("example", Ticking())
    >>> pace.pays(0, attributes=3, spent=1e6), pace.pays(0, 3, 2e6)
    (False, True)
    >>> pace.timed(0, 3, 2e6, lambda: "decided"), pace.pays(0, 3, 2e6), pace.pays(0, 3, 2e6 + 400)
    ('decided', False, True)
    """

    def __init__(self, kind: str, clock: Clock | None = None) -> None:
        self.kind, self.clock = kind, clock
        self._spent: dict[int, float] = {}  # by state what its searches had taken at its last decision

    def pays(self, state: int, attributes: int, spent: float) -> bool:
        """Whether to decide about a state now whose searches have taken ``spent`` nanoseconds since the start."""
        if self.clock is None:
            return True
        return spent - self._spent.get(state, 0.0) >= SEARCH_TIME_PER_DECISION_TIME * self._price(attributes)

    def _price(self, attributes: int) -> float:
        """Nanoseconds of a decision about a state with so many attributes."""
        return min(self._last(attributes))

    def _last(self, attributes: int) -> deque[float]:
        found = _known.get((self.kind, attributes))
        if found is None:
            found = _known[self.kind, attributes] = deque([TYPICAL_NANOSECONDS], maxlen=TIMED_DECISIONS)
        return found

    def timed(self, state: int, attributes: int, spent: float, decide: Callable[[], T]) -> T:
        """Decide, and learn what that takes."""
        if self.clock is None:
            return decide()
        self._spent[state] = spent
        began = self.clock.nanoseconds()
        decided = decide()
        self._last(attributes).append(float(self.clock.nanoseconds() - began))
        return decided
