"""A limit for the state of a query, and what gives way to it, in this order: caches, rows of windows, input rows.

Caches only spare time: they get what the rest of the state leaves of the limit. Where the rest alone is above the
limit, rows of windows go to the disk, the oldest first, which costs time and changes no answer. What is then still
above it (indexes, keys, groups) cannot leave memory: streams that declare ``ON OVERLOAD`` shed rows until state has
fallen.
(The bits of a multi-route join's indexes are chosen within the memory of that join: ``adaptive.indexes``.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eddyline.streamon.decision import SESSION, Decision

# Of the limit: rows go to the disk until state is as small. Less writes larger pieces and leaves more memory unused.
SPILL_TO: Final = 7 / 8
# Of the limit: a state that was above it counts as within it again when it has fallen as far, so that shedding does not
# begin and end with every batch.
WITHIN_AGAIN: Final = 0.8
# Of the limit: a state that has changed by less since the last step, and is within the limit, is not looked at.
NOTICED: Final = 1 / 16

# Steps after which a state above the limit is looked at again, though its size has not changed: rows may have left
# whose room can be given back.
LOOK_AGAIN: Final = 16

IN_MEMORY, ON_DISK, ABOVE = "in memory", "oldest rows on disk", "above the limit"


@dataclass(frozen=True, slots=True)
class Step:
    """The bytes that caches may take, and the bytes of rows that are to leave memory."""

    caches: int
    spill: int


class MemoryOrder:
    """
    >>> order = MemoryOrder(limit=8_000)
    >>> order.step(held=9_000, caches=3_000)  # what is no cache takes 6,000
    Step(caches=1792, spill=0)
    >>> order.step(held=12_000, caches=0)
    Step(caches=0, spill=5000)
    >>> [decision.after for decision in order.done(held=7_000, on_disk=5_000)]
    ['oldest rows on disk']
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.stage = IN_MEMORY
        self._seen = self._waited = 0

    def due(self, held: int) -> bool:
        """Whether there may be something to do. Where nothing helped, the next step waits until more has come."""
        self._waited += 1
        above = held > self.limit and (self.stage != ABOVE or self._waited >= LOOK_AGAIN)
        return above or abs(held - self._seen) > NOTICED * self.limit

    def step(self, held: int, caches: int) -> Step:
        """What to do about a state of ``held`` bytes, of which caches take some."""
        rest = held - caches
        # In steps of an eighth to a quarter: a budget that follows every row makes caches smaller and larger all the
        # time.
        left = self.limit if rest == 0 else max(0, self.limit - rest)
        coarse = left >> max(0, left.bit_length() - 3) << max(0, left.bit_length() - 3)
        return Step(coarse, rest - int(SPILL_TO * self.limit) if rest > self.limit else 0)

    def done(self, held: int, on_disk: int, now: int | None = None, failed: str = "") -> tuple[Decision, ...]:
        """After a step: the bytes in memory and on the disk that are left; why rows could not be written, if so."""
        self._seen, self._waited = held, 0
        above = held > (WITHIN_AGAIN * self.limit if self.stage == ABOVE else self.limit)
        stage = ABOVE if above else ON_DISK if on_disk else IN_MEMORY
        before, self.stage = self.stage, stage
        return () if stage == before else (self._decision(before, held, on_disk, now, failed),)

    def _decision(self, before: str, held: int, on_disk: int, now: int | None, failed: str) -> Decision:
        because = "{held} are in memory and {disk} on the disk; the limit is {limit}"
        if self.stage == ABOVE:
            because += "; " + ("{failed}" if failed else "indexes, keys and groups cannot leave memory")
        evidence = {"held": held, "disk": on_disk, "limit": self.limit, "failed": failed}
        units = {"held": "bytes", "disk": "bytes", "limit": "bytes"}
        return Decision("memory", before, self.stage, because, evidence, units, by=SESSION, time=now)
