"""Numbers of keys that are whole numbers near each other: a table by value instead of a look-up for each row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s
from eddyline.synopses.keys import KeyTable

MAX_TABLE_VALUES = 1 << 16  # values between the smallest and the largest key: what the table holds at most
UNKNOWN = -1


class NearKeys:
    """The numbers that a ``KeyTable`` gave, by value. It forgets nothing as long as the table of keys does not."""

    def __init__(self) -> None:
        self._least = 0
        self._numbers = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        return int(self._numbers.nbytes)

    def numbers(self, key: pa.Array, table: KeyTable) -> Int64s | None:
        """The numbers of a batch of keys that are whole and not NULL; None if they lie too far from each other.

        >>> table, near = KeyTable([pa.int64()]), NearKeys()
        >>> near.numbers(pa.array([7, 5, 7]), table), near.numbers(pa.array([5, 3, 2, 3]), table)
        (array([0, 1, 0]), array([1, 2, 3, 2]))
        """
        given = key.cast(pa.int64()).to_numpy(zero_copy_only=False)
        if not len(given):
            return np.empty(0, np.int64)
        least, most = int(given.min()), int(given.max())
        if most - least >= MAX_TABLE_VALUES:
            return None
        self._reach(least, most)
        place = given - self._least
        found: Int64s = self._numbers.take(place)
        if found.min() == UNKNOWN:
            new = np.flatnonzero(found == UNKNOWN)
            first = np.full(len(self._numbers), len(given), np.int64)
            first[place[new[::-1]]] = new[::-1]
            come = np.sort(first[first < len(given)])
            self._numbers[place[come]] = table.intern([key.take(pa.array(come))], len(come))
            found = self._numbers.take(place)
        return found

    def _reach(self, least: int, most: int) -> None:
        """Make the table reach from ``least`` to ``most``, and over what it knows where both have room in it."""
        old_least, old = self._least, self._numbers
        if len(old) and old_least <= least and most < old_least + len(old):
            return
        if len(old) and max(most, old_least + len(old) - 1) - min(least, old_least) < MAX_TABLE_VALUES:
            least, most = min(least, old_least), max(most, old_least + len(old) - 1)
            self._numbers = np.full(most - least + 1, UNKNOWN, np.int64)
            self._numbers[old_least - least : old_least - least + len(old)] = old
        else:
            self._numbers = np.full(most - least + 1, UNKNOWN, np.int64)
        self._least = least
