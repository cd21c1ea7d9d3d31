"""Whether the keys of a join's port are distinct: measured by the rows that come while another row has their key."""

from __future__ import annotations

import math
from dataclasses import dataclass

LONGEST_WAIT_FACTOR = 1024  # the wait after a repeated key is at most so many times as long as the first


@dataclass(slots=True)
class RepeatedKeys:
    """Keys of one port that came twice.

    After a key has repeated, keys are taken to be different again when none did for as many arrivals as a window has.
    Each time that this was wrong, the next wait is twice as long.

    >>> seen = RepeatedKeys()
    >>> seen.over(arrived=100, least=500, window=2000), seen.over(arrived=600, least=500, window=2000)
    (False, True)
    >>> seen.count(duplicates=1, arrived=700)
    >>> seen.over(arrived=2600, least=500, window=2000), seen.over(arrived=2700, least=500, window=2000)
    (False, True)
    >>> seen.refuted(arrived=2800)
    >>> seen.over(arrived=4800, least=500, window=2000), seen.over(arrived=6800, least=500, window=2000)
    (False, True)
    """

    duplicates: int = 0
    last: int = 0  # arrivals of the input when a key repeated for the last time
    longer: int = 1  # times as long as at first

    @property
    def ever(self) -> bool:
        return self.last != 0

    def count(self, duplicates: int, arrived: int) -> None:
        """How many rows have come in all while another had their key."""
        if duplicates > self.duplicates:
            self.duplicates, self.last = duplicates, arrived

    def refuted(self, arrived: int) -> None:
        """Rows of one key came although keys were taken to be different."""
        self.last, self.longer = arrived, min(LONGEST_WAIT_FACTOR, self.longer * 2)

    def over(self, arrived: int, least: int, window: float) -> bool:
        """Whether enough rows have come, ``least`` and a window of them, since a key repeated."""
        if not self.ever:
            return arrived >= least
        return arrived - self.last >= max(least, 0 if math.isinf(window) else window) * self.longer

    def state(self) -> tuple[int, int, int]:
        return self.duplicates, self.last, self.longer
