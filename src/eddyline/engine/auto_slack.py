"""SLACK AUTO: rows of one stream in order of arrival → which are on time, late, or implausible; the slack follows.

Works on times and row numbers alone; ``InputStream`` moves the rows. For each row, *in this order*:

1. **The first rows** are held until ``WARM_UP_ROWS`` have come, and then judged together: before, a row that is hours
   ahead cannot be distinguished from a stream that begins late in the day.
2. A row is **ahead** if its time exceeds the largest time shown by more than the policy's ``reach``. Rows ahead are
   held: they show no time. When ``CONFIRMING_ROWS`` of ``CONFIRM_WITHIN_ROWS`` consecutive rows were ahead, time has
   really moved, and the held rows are judged in order of arrival. A held row that the stream catches up with is judged
   then. One that ``CONFIRM_WITHIN_ROWS`` rows did not confirm is **implausible**. When the stream ends or falls idle,
   the held rows are believed if they are at least half of the rows since the first of them. At a heartbeat the first
   rows are judged at once.
3. A row is **late** if its time is below the watermark (``engine.watermark``) when it is judged.
4. After every ``policy.interval`` judged rows the policy chooses the slack for the next ones.

Every rule counts rows and reads neither batches nor clocks, so the judgement of a row does not depend on the batches.

Ways that look right and are wrong:

- *To divert a row ahead at once*: after a quiet night every stream jumps ahead, and stays there.
- *To believe it until others contradict*: by then the watermark is hours ahead, and it does not go back.
- *To count held rows as late*: no slack would have made them on time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from eddyline.adaptive.disorder.policy import SlackPolicy
from eddyline.core.delta import Int64s
from eddyline.core.time import BEGINNING
from eddyline.engine.watermark import Watermark
from eddyline.streamon.decision import Decision

WARM_UP_ROWS: Final = 64  # rows that are held before the first one is judged: more are a safer start, and a later one
CONFIRM_WITHIN_ROWS: Final = 16  # a jump of time must be confirmed within them: more hold doubtful rows longer
CONFIRMING_ROWS: Final = 8  # rows ahead among CONFIRM_WITHIN_ROWS that confirm the jump
USUAL_SHARE: Final = 0.8  # of the first rows; the largest distance of their times from the middle one is the usual one
FIRST_REACH_FACTOR: Final = 20  # times the usual distance: first rows farther from the middle one are held

ON_TIME, BEHIND, BEFORE, SHUT, IMPLAUSIBLE = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of rows, in the order in which they were judged: their numbers, times, what was shown before each,
    and ON_TIME, BEHIND, BEFORE, SHUT or IMPLAUSIBLE."""

    number: Int64s
    time: Int64s
    shown: Int64s
    fate: Int64s

    @staticmethod
    def joined(parts: list[Fates]) -> Fates:
        if len(parts) == 1:
            return parts[0]
        empty = [np.empty(0, np.int64)]
        return Fates(*(np.concatenate([getattr(p, n) for p in parts] or empty) for n in Fates.__slots__))


class AutoSlack:
    """Applies a slack policy to one stream.

    >>> from eddyline.adaptive.disorder.policies import make_policy
    >>> mark = Watermark()
    >>> auto = AutoSlack(make_policy("auto"), mark)
    >>> times = np.arange(100); times[70] = 5_000_000
    >>> fates = auto.judge(times, 0)
    >>> [int(n) for n in fates.number[fates.fate == IMPLAUSIBLE]], mark.shown, fates.shown[fates.number == 70].tolist()
    ([70], 99, [85])
    """

    def __init__(self, policy: SlackPolicy, watermark: Watermark) -> None:
        self.policy, self.watermark = policy, watermark
        self.decisions: list[Decision] = []  # those that the input stream has not yet collected
        self.implausible = 0
        self._warming: list[tuple[int, int]] | None = []  # numbers and times of the first rows; None: it is over
        self._held: list[tuple[int, int, int]] = []  # number, time and position of rows ahead
        self._position = 0  # rows so far
        self._judged = 0  # since the last choice
        self._limit = BEGINNING  # rows up to it are believed, whatever was shown: set by the first rows
        self._parts: list[Fates] = []

    @property
    def held(self) -> list[int]:
        """The numbers of the rows that wait to be judged."""
        return [n for n, _ in self._warming or ()] + [n for n, _, _ in self._held]

    @property
    def held_times(self) -> list[int]:
        """The times of these rows."""
        return [t for _, t in self._warming or ()] + [t for _, t, _ in self._held]

    @property
    def believed(self) -> int | None:
        """Rows up to this time are not ahead; None while the first rows are held."""
        if self._warming is not None:
            return None
        shown = self.watermark.shown
        if self._judged < 0 or shown is None:  # the first rows: there is no measure yet but their own middle
            return self._limit
        return max(self._limit, shown + self.policy.reach)

    def judge(self, time: Int64s, first: int, closed: int = BEGINNING) -> Fates:
        """The next rows, numbered from ``first``: what became of them, and of those that were held. ``closed`` is the
        largest instant that was closed by others."""
        at, end = 0, len(time)
        if self._warming is not None:
            at = min(end, WARM_UP_ROWS - len(self._warming))
            self._warming += zip(range(first, first + at), time[:at].tolist(), strict=True)
            if len(self._warming) == WARM_UP_ROWS:
                self._begin(closed)
        while at < end:
            if self._held:  # one at a time until it is settled
                self._one(int(time[at]), first + at, closed)
                at += 1
                continue
            stop = min(end, at + self.policy.interval - self._judged)
            ahead = np.flatnonzero(time[at:stop] > self._believed())
            if len(ahead):
                stop = at + int(ahead[0])
                if stop == at:
                    self._one(int(time[at]), first + at, closed)
                    at += 1
                    continue
            self._position += stop - at
            self._take(time[at:stop], np.arange(first + at, first + stop), closed)
            at = stop
        return self._taken()

    def heartbeat(self, time: int, closed: int = BEGINNING) -> Fates:
        """The source promises that the stream has come to this time."""
        if self._warming:
            self._begin(closed)
        self.watermark.show(time)
        if self._warming is None:
            self._catch_up(closed)
        return self._taken()

    def settle(self, closed: int = BEGINNING) -> Fates:
        """The stream has ended or is idle: judge what is held."""
        if self._warming:
            self._begin(closed)
        if self._held:
            since = self._position - self._held[0][2] + 1
            if 2 * len(self._held) >= since:
                self._believe(len(self._held), closed)
            else:
                self._refute(len(self._held))
        return self._taken()

    def _taken(self) -> Fates:
        parts, self._parts = self._parts, []
        return Fates.joined(parts)

    def _believed(self) -> int:
        found = self.believed
        assert found is not None
        return found

    def _begin(self, closed: int) -> None:
        """Judge the first rows: those far ahead of the middle one are held, and none that is near it is late."""
        rows, self._warming = self._warming or [], None
        times = np.sort(np.array([t for _, t in rows], np.int64))
        centre = int(times[(len(times) - 1) // 2])
        apart = int(np.sort(np.abs(times - centre))[int(USUAL_SHARE * (len(times) - 1))]) + 1
        self._limit = centre + FIRST_REACH_FACTOR * apart
        near = times[np.abs(times - centre) <= FIRST_REACH_FACTOR * apart]
        self.watermark.slack = max(self.watermark.slack, int(near[-1] - near[0]))
        self._judged = -len(rows)  # the first choice is made with all of them
        for number, time in rows:
            self._one(time, number, closed)
        self._choose()

    def _one(self, time: int, number: int, closed: int) -> None:
        self._position += 1
        passed = sum(1 for *_, p in self._held if p <= self._position - CONFIRM_WITHIN_ROWS)
        if passed:
            self._refute(passed)
        if time > self._believed():
            self._held.append((number, time, self._position))
            if len(self._held) == CONFIRMING_ROWS:
                self._believe(CONFIRMING_ROWS, closed)
            return
        self._take(np.array([time]), np.array([number]), closed)
        self._catch_up(closed)

    def _catch_up(self, closed: int) -> None:
        """Judge the held rows that are no longer ahead, in order of arrival."""
        while (place := next((i for i, r in enumerate(self._held) if r[1] <= self._believed()), None)) is not None:
            number, time, _ = self._held.pop(place)
            self._take(np.array([time]), np.array([number]), closed)

    def _believe(self, count: int, closed: int) -> None:
        """Time has really moved: the first held rows are judged, and their step is no measure for others."""
        rows, self._held = self._held[:count], self._held[count:]
        for number, time, _ in rows:
            self._take(np.array([time]), np.array([number]), closed, jump=True)

    def _refute(self, count: int) -> None:
        rows, self._held = self._held[:count], self._held[count:]
        self.implausible += count
        shown = self.watermark.shown or 0
        number = np.array([n for n, _, _ in rows], np.int64)
        time = np.array([t for _, t, _ in rows], np.int64)
        self._parts.append(Fates(number, time, np.full(count, shown), np.full(count, IMPLAUSIBLE)))

    def _take(self, time: Int64s, number: Int64s, closed: int, jump: bool = False) -> None:
        """Judge rows that are believed; at most as many as are left to the next choice."""
        mark = self.watermark
        before = np.empty_like(time)
        before[0] = time[0] if mark.shown is None else mark.shown
        np.maximum(np.maximum.accumulate(time[:-1]), before[0], out=before[1:])
        behind = time < before - mark.slack
        below = (time < mark.floor) & ~behind
        late = behind | below
        fate = behind * BEHIND + below * BEFORE + ((time <= closed) & ~late) * SHUT
        self._parts.append(Fates(number, time, before, fate.astype(np.int64)))
        steps = time - before
        lateness = np.maximum(-steps, 0)
        if self._judged < 0:  # of the first rows those that are near the middle one are believed
            lateness = np.minimum(lateness, mark.slack)
        self.policy.observe(lateness, int(late.sum()), 0 if jump else max(0, int(steps.max())))
        mark.show(int(time.max()))
        self._judged += len(time)
        if self._judged >= self.policy.interval:
            self._choose()

    def _choose(self) -> None:
        self._judged = 0
        decision = self.policy.decide(self.watermark.shown)
        if decision is not None:
            self.decisions.append(decision)
        if self.policy.slack != self.watermark.slack:
            self.watermark.change(self.policy.slack)

    def state(self) -> dict[str, Any]:
        return {
            "policy": self.policy.state(),
            "warming": None if self._warming is None else [list(r) for r in self._warming],
            "held": [list(r) for r in self._held],
            "numbers": [self._position, self._judged, self._limit, self.implausible],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.policy.load(state["policy"])
        self._warming = None if state["warming"] is None else [(int(n), int(t)) for n, t in state["warming"]]
        self._held = [(int(n), int(t), int(p)) for n, t, p in state["held"]]
        self._position, self._judged, self._limit, self.implausible = (int(n) for n in state["numbers"])
        self.watermark.slack = self.policy.slack
