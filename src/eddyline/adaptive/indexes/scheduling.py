"""When a state is assessed (section 7): continuous, periodic, triggered and hybrid index tuning.

A schedule counts the search requests of all states of a join. It says which states are being assessed, and when the
assessment of one is complete, so that an index is selected. An assessment is complete after ``window`` requests of the
state. ``Triggered`` compares the states' requests of one evaluation window with those of the window before: a state has
shifted when its number of requests, or its mix of access patterns, changed by at least ``change``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

CHANGE = 0.2  # of the rate or of the mix of patterns, from which a state is assessed


class Schedule(ABC):
    """``states`` is the number of states; ``window`` the requests of a state that make an assessment."""

    name: str

    def __init__(self, states: int, window: int) -> None:
        self.states, self.window = states, window
        self.running: dict[int, int] = {}  # states being assessed, with the requests that are still to come

    def assessing(self, state: int) -> bool:
        """Whether searches of this state are to be counted now."""
        return state in self.running

    def searched(self, state: int, pattern: int, requests: int) -> bool:
        """Search requests of a state; True when they complete its assessment."""
        complete = False
        if state in self.running:
            self.running[state] -= requests
            if self.running[state] <= 0:
                del self.running[state]
                complete = True
        self.count(state, pattern, requests)
        return complete

    def start(self, state: int) -> None:
        self.running.setdefault(state, self.window)

    @abstractmethod
    def count(self, state: int, pattern: int, requests: int) -> None:
        """Search requests of a state: start what is due."""

    def state(self) -> dict[str, Any]:
        return {"running": [[s, left] for s, left in sorted(self.running.items())]}

    def load(self, state: Mapping[str, Any]) -> None:
        self.running = {int(s): int(left) for s, left in state["running"]}


class Continuous(Schedule):
    """Every state is assessed all the time. It notices everything and pays for it when nothing changes.

    >>> schedule = Continuous(states=2, window=100)
    >>> schedule.searched(0, 0b1, 60), schedule.searched(0, 0b1, 60), schedule.assessing(0)
    (False, True, True)
    """

    name = "continuous"

    def __init__(self, states: int, window: int) -> None:
        super().__init__(states, window)
        for s in range(states):
            self.start(s)

    def count(self, state: int, pattern: int, requests: int) -> None:
        self.start(state)


class Periodic(Schedule):
    """Every ``period`` requests the state that has waited longest is assessed. Changes in between go unnoticed.

    >>> schedule = Periodic(states=2, window=10, period=100)
    >>> schedule.searched(0, 0b1, 100), schedule.assessing(0), schedule.assessing(1)
    (False, True, False)
    >>> schedule.searched(0, 0b1, 100), schedule.assessing(0), schedule.assessing(1)
    (True, False, True)
    """

    name = "periodic"

    def __init__(self, states: int, window: int, period: int) -> None:
        super().__init__(states, window)
        self.period, self.since = period, 0
        self.waiting = list(range(states))  # the state that was assessed longest ago first

    def start(self, state: int) -> None:
        super().start(state)
        self.waiting.remove(state)
        self.waiting.append(state)

    def count(self, state: int, pattern: int, requests: int) -> None:
        self.since += requests
        self.start_due()

    def start_due(self) -> None:
        while self.since >= self.period:
            self.since -= self.period
            self.start(self.waiting[0])

    def state(self) -> dict[str, Any]:
        return {**super().state(), "since": self.since, "waiting": list(self.waiting)}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.since, self.waiting = int(state["since"]), [int(s) for s in state["waiting"]]


class Triggered(Schedule):
    """Every ``evaluation`` requests the state whose requests changed most is assessed, if by ``change`` at least.

    A state that never changes is never assessed, however bad its index is.

    >>> schedule = Triggered(states=2, window=10, evaluation=100)
    >>> for state, pattern in ((0, 0b01), (1, 0b01), (0, 0b01), (1, 0b11)):
    ...     _ = schedule.searched(state, pattern, 50)
    >>> schedule.assessing(0), schedule.assessing(1)
    (False, True)
    """

    name = "triggered"

    def __init__(self, states: int, window: int, evaluation: int, change: float = CHANGE) -> None:
        super().__init__(states, window)
        self.evaluation, self.change = evaluation, change
        self.now: list[dict[int, int]] = [{} for _ in range(states)]  # requests by pattern, in this evaluation window
        self.before: list[dict[int, int]] | None = None
        self.counted = 0

    def count(self, state: int, pattern: int, requests: int) -> None:
        mix = self.now[state]
        mix[pattern] = mix.get(pattern, 0) + requests
        self.counted += requests
        self.start_due()

    def start_due(self) -> None:
        if self.counted < self.evaluation:
            return
        if self.before is not None:
            shifts = [shift(b, n) for b, n in zip(self.before, self.now, strict=True)]
            most = max(range(self.states), key=lambda s: (shifts[s], -s))
            if shifts[most] >= self.change:
                self.start(most)
        self.before, self.now, self.counted = self.now, [{} for _ in range(self.states)], 0

    def state(self) -> dict[str, Any]:
        before = None if self.before is None else [sorted(m.items()) for m in self.before]
        return {**super().state(), "now": [sorted(m.items()) for m in self.now], "before": before, "n": self.counted}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.now, self.counted = [_mix(m) for m in state["now"]], int(state["n"])
        self.before = None if state["before"] is None else [_mix(m) for m in state["before"]]


class Hybrid(Schedule):
    """Periodic and triggered together: a shift is noticed, and no state waits for ever.

    >>> schedule = Hybrid(states=2, window=10, period=60_000, evaluation=100_000)
    >>> schedule.searched(0, 0b1, 60_000), schedule.assessing(0)
    (False, True)
    """

    name = "hybrid"

    def __init__(self, states: int, window: int, period: int, evaluation: int, change: float = CHANGE) -> None:
        super().__init__(states, window)
        self.periodic = Periodic(states, window, period)
        self.triggered = Triggered(states, window, evaluation, change)

    def count(self, state: int, pattern: int, requests: int) -> None:
        periodic, triggered = self.periodic, self.triggered
        periodic.since += requests
        triggered.counted += requests
        mix = triggered.now[state]
        mix[pattern] = mix.get(pattern, 0) + requests
        if periodic.since < periodic.period and triggered.counted < triggered.evaluation:  # as after most batches
            return
        periodic.start_due()
        triggered.start_due()
        for s in self.triggered.running:
            self.periodic.start(s)  # it goes to the end of the list
        for s in self.periodic.running:
            self.start(s)
        self.periodic.running.clear()
        self.triggered.running.clear()

    def state(self) -> dict[str, Any]:
        return {**super().state(), "periodic": self.periodic.state(), "triggered": self.triggered.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.periodic.load(state["periodic"])
        self.triggered.load(state["triggered"])


def shift(before: Mapping[int, int], now: Mapping[int, int]) -> float:
    """The larger of two changes: of the number of requests, relative to the number before, and of the mix of patterns
    (the share of the requests that went to other patterns).

    >>> shift({1: 50}, {1: 40, 2: 10})
    0.2
    >>> shift({1: 50}, {1: 100})
    1.0
    """
    then, after = sum(before.values()), sum(now.values())
    if then == 0 or after == 0:
        return 0.0 if then == after else 1.0
    moved = sum(abs(before.get(p, 0) * after - now.get(p, 0) * then) for p in before.keys() | now.keys())
    return max(abs(after - then) / then, moved / (2 * then * after))


def _mix(pairs: list[list[int]]) -> dict[int, int]:
    return {int(p): int(c) for p, c in pairs}


SCHEDULES: Mapping[str, Callable[..., Schedule]] = {s.name: s for s in (Hybrid, Continuous, Periodic, Triggered)}


def make_schedule(name: str, states: int, window: int, period: int, evaluation: int, change: float) -> Schedule:
    """The schedule of that name.

    >>> make_schedule("triggered", 3, 2_000, 60_000, 100_000, 0.2).evaluation
    100000
    """
    match name:
        case "continuous":
            return Continuous(states, window)
        case "periodic":
            return Periodic(states, window, period)
        case "triggered":
            return Triggered(states, window, evaluation, change)
        case _:
            return Hybrid(states, window, period, evaluation, change)
