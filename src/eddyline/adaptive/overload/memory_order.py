"""A limit for the state of a query. Memory is freed in this order: caches, rows of windows, input rows.

Caches only save time: they get the part of the limit that the rest of the state does not use. Where the rest alone is
above the limit, rows of windows go to the disk, the oldest first, which costs time and changes no answer. If state is
still above the limit (indexes, keys, groups cannot leave memory), streams that declare ``ON OVERLOAD`` shed rows until
it has fallen. (The bits of a multi-route join's indexes are chosen within the memory of that join:
``adaptive.indexes``.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eddyline.streamon.decision import SESSION, Decision

# Of the limit: rows go to the disk until state is as small. Less writes larger pieces and leaves more memory unused.
SPILL_TO_SHARE: Final = 7 / 8
# Of the limit: a state that was above it counts as within it again when it has fallen as far, so that shedding does not
# begin and end with every batch.
WITHIN_AGAIN_SHARE: Final = 0.8
# Of the limit: a state that has changed by less since the last step, and is within the limit, is left as it is.
MIN_CHANGE_SHARE: Final = 1 / 16

# Steps after which memory is freed again from a state above the limit whose size has not changed: rows may have left
# whose memory can be given back.
STEPS_BETWEEN_ATTEMPTS: Final = 16

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
        above = held > self.limit and (self.stage != ABOVE or self._waited >= STEPS_BETWEEN_ATTEMPTS)
        return above or abs(held - self._seen) > MIN_CHANGE_SHARE * self.limit

    def step(self, held: int, caches: int) -> Step:
        """The next step for a state of ``held`` bytes, including ``caches`` bytes of caches."""
        rest = held - caches
        # In steps of an eighth to a quarter: a budget that follows every row makes caches smaller and larger all the
        # time.
        left = self.limit if rest == 0 else max(0, self.limit - rest)
        coarse = left >> max(0, left.bit_length() - 3) << max(0, left.bit_length() - 3)
        return Step(coarse, rest - int(SPILL_TO_SHARE * self.limit) if rest > self.limit else 0)

    def done(self, held: int, on_disk: int, now: int | None = None, failed: str = "") -> tuple[Decision, ...]:
        """After a step: the bytes in memory and on the disk that are left; why rows could not be written, if so."""
        self._seen, self._waited = held, 0
        above = held > (WITHIN_AGAIN_SHARE * self.limit if self.stage == ABOVE else self.limit)
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
