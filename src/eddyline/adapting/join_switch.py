"""When the plain join's kernel runs a constrained join, and when not: by measurements, with hysteresis.

- *Constraints save nothing*: the rows in memory were more than ``worthless`` of what the windows hold for half a window
  of arrivals. The plain join takes over. It keeps the same rows and needs no statuses.
- *Adherence returns*: samples that are taken while the plain join runs show a constraint that could be used. The
  constrained join takes over again, and each time it does so in vain it takes twice as long until the next.
- *auto*: the plain join runs first. The constrained one takes over where a constraint could be used and state is above
  the memory limit, and gives way again if it takes more memory than the plain one did; or where there is so much state
  that less could be faster: then both are measured, and the one that takes longer for an element gives way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eddyline.adaptive.constraints.handover import HandOver
from eddyline.adaptive.constraints.sampled import AdherenceSample
from eddyline.core.bound import bound_of
from eddyline.core.delta import Int64s
from eddyline.core.time import Clock, SystemClock
from eddyline.operators.switching_join import SwitchingJoin
from eddyline.streamon.decision import Decision
from eddyline.streamon.log import DecisionLog

PLAIN, CONSTRAINED = "plain join", "constrained join"


@dataclass
class Pace:
    """Nanoseconds and elements of one of the joins since it took over."""

    time: int = 0
    elements: int = 0

    def each(self) -> float:
        return self.time / self.elements if self.elements else math.inf


class JoinSwitch:
    """Decides for one join. ``auto`` as above; ``patience``: arrivals without a saving before the plain join takes over
    (None: by ``limits``). ``memory`` is the limit of the query in bytes, ``in_window`` estimates how many rows arrive
    during the window of an input; ``limits`` has the constants."""

    def __init__(
        self,
        operator: str,
        sample: AdherenceSample,
        in_window: Callable[[SwitchingJoin, int], float],
        auto: bool = False,
        memory: int | None = None,
        patience: int | None = None,
        log: DecisionLog | None = None,
        clock: Clock | None = None,
        limits: HandOver | None = None,
    ) -> None:
        self.operator, self.sample, self.in_window = operator, sample, in_window
        self.auto, self.memory, self.log = auto, memory, log
        self.patience, self.clock = patience, clock or SystemClock()
        self.limits = limits or HandOver()
        self.idle = 0  # arrivals since the constrained join saved anything
        self.since = 0  # elements since the last change
        self.back_off = 1
        self.windows: list[float] = []
        self.watching = not auto
        self.pace = {PLAIN: Pace(), CONSTRAINED: Pace()}
        self.begun = 0  # when this call began
        self.for_speed = False  # the constrained join runs because it is thought to be faster
        self.plain_bytes = 0  # in memory when the constrained join took over because of the limit
        self.why = ""

    @property
    def watches(self) -> bool:
        return self.watching

    def limit_memory(self, bytes: int | None) -> None:
        self.memory = bytes

    def begin(self) -> None:
        self.begun = self.clock.nanoseconds() if self.auto else 0

    def arrived(self, keys: Sequence[Int64s]) -> None:
        if self.windows:
            self.sample.arrived(keys, self.windows)

    def runs_plain(self, join: SwitchingJoin, elements: int, now: int) -> bool:
        self.since += elements
        if self.auto:
            pace = self.pace[CONSTRAINED if join.plain is None else PLAIN]
            pace.time, pace.elements = pace.time + self.clock.nanoseconds() - self.begun, pace.elements + elements
        if join.plain is None:
            why = self._gives_way(join, elements)
            if why is None:
                return False
            held = sum(self.windows)
            long = math.isfinite(held) and self.since > 4 * max(held, self.limits.least_patience)
            self.back_off = 1 if long else min(self.limits.most_back_off, 2 * self.back_off)
            self._decide(join, CONSTRAINED, PLAIN, why, now)
            self.sample = self.sample.anew()
            return True
        held = (join.plain.arrays.tail - join.plain.arrays.first).tolist()
        self.windows = [_window(join, i, float(n)) for i, n in enumerate(held)]
        why = self._takes_over(join)
        if why is None:
            return True
        self._decide(join, PLAIN, CONSTRAINED, why, now)
        return False

    # ── while the constrained join runs ───────────────────────────────────────────────────────────────────────────

    def _gives_way(self, join: SwitchingJoin, elements: int) -> str | None:
        """Why the plain join should run."""
        held = [self._held(join, i) for i in range(join.tree.size)]
        self.windows = [_window(join, i, h) for i, h in enumerate(held)]
        if len(join.slots) > self.limits.worthless * sum(held):
            self.idle += elements
        else:
            self.idle = 0
        full = sum(w if math.isfinite(w) else h for w, h in zip(self.windows, held, strict=True))
        patience = float(self.patience) if self.patience is not None else self.limits.idle(sum(held), full)
        if self.idle > patience:
            return f"constraints saved nothing for {self.idle:,} arrivals"
        pace, plain = self.pace[CONSTRAINED], self.pace[PLAIN]
        # Rows of results that can be deleted stay, however well constraints hold: that is seen soon.
        settled = min(patience, 2 * self.limits.least_patience) if join.deletes else patience
        if self.auto and not self.for_speed and self.since > settled:
            # The plain join would have its oldest rows on the disk.
            bytes = join.size()[1]
            if bytes > max(self.plain_bytes, self.memory or 0):
                return f"{bytes:,} bytes of state are not less than the {self.plain_bytes:,} before"
        if self.for_speed and pace.elements > self.limits.trial and pace.each() > self.limits.faster * plain.each():
            return "less state was not faster"
        return None

    def _held(self, join: SwitchingJoin, i: int) -> float:
        """Rows that the window of an input has now."""
        came = float(join.slots.arrived[i] + join.earlier[i])
        if limit := int(join.limits[i]):
            return min(limit, came)
        estimate = self.in_window(join, i)
        if math.isinf(estimate):
            return came
        # Soon after a change the rows that were there before it are still in their windows.
        return max(estimate, float(join.earlier[i])) if self.since < 2 * join.earlier.sum() else estimate

    # ── while the plain join runs ─────────────────────────────────────────────────────────────────────────────────

    def _takes_over(self, join: SwitchingJoin) -> str | None:
        """Why the constrained join should run."""
        assert join.plain is not None
        # Rows that the limit has put on the disk are state all the same: of less of it fewer would have to be read.
        bytes = join.plain.size()[1] + join.plain.on_disk() if self.auto else 0
        if self.auto:
            self.watching = bytes > self.limits.watched * self.limits.bytes_under(self.memory)
        if not self.watching or self.since < self._pause():
            return None
        found = self.sample.adheres(self.windows)
        if found is None or not self.auto:
            return None if found is None else f"samples show {found}"
        if self.memory is not None and bytes > self.limits.full * self.memory:
            self.for_speed, self.plain_bytes = False, join.plain.size()[1]
            return f"{bytes:,} bytes of state are near the limit of {self.memory:,}, and samples show {found}"
        if bytes > self.limits.large and self.pace[PLAIN].elements > self.limits.trial:
            self.for_speed = True
            return f"less than {bytes:,} bytes of state may be faster, and samples show {found}"
        return None

    def _pause(self) -> float:
        """Elements until the next attempt."""
        held = sum(n for n in self.windows if math.isfinite(n))
        least = self.limits.least_patience if self.patience is None else self.patience
        return max(least, self.limits.patience * held) * self.back_off if self.back_off > 1 else 0.0

    def _decide(self, join: SwitchingJoin, before: str, after: str, why: str, now: int) -> None:
        self.idle = self.since = 0
        self.why = why
        self.pace[after] = Pace()
        if self.log is not None:
            self.log.record(Decision("join kernel", before, after, why, time=now), operator=self.operator)

    # ── explain and state ─────────────────────────────────────────────────────────────────────────────────────────

    def describe(self, join: SwitchingJoin) -> list[str]:
        if join.plain is not None and not self.why:
            return ["the plain join runs: no constraint is known to hold, or none is needed"]
        if join.plain is not None:
            return [f"the plain join runs: {self.why}"]
        return [f"the constrained join runs again: {self.why}"] if self.why else []

    def state(self) -> dict[str, Any]:
        return {"idle": self.idle, "since": self.since, "back_off": self.back_off, "why": self.why,
                "for_speed": int(self.for_speed), "plain_bytes": self.plain_bytes}  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        self.idle, self.since = int(state["idle"]), int(state["since"])
        self.back_off, self.why = int(state["back_off"]), str(state["why"])
        self.for_speed, self.plain_bytes = bool(state["for_speed"]), int(state.get("plain_bytes", 0))


def _window(join: SwitchingJoin, i: int, held: float) -> float:
    """Rows that a window holds when it is full, as far as is known: at least those it has."""
    bound = bound_of(join.sides[i].spec.window)
    if bound.rows is not None:
        return float(bound.rows)
    return math.inf if bound.ticks is None else held


def sample_of(
    edges: Sequence[tuple[int, int, int, int]], ordered: Sequence[tuple[int, int]], inputs: int
) -> AdherenceSample:
    """For edges (input, port, input, port)."""
    return AdherenceSample(inputs, [((a, p), (b, q)) for a, p, b, q in edges], ordered)
