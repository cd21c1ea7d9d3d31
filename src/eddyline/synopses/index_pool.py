"""Memory for the indexes of several joins, in one array.

A kernel finds everything of a kind in one array, by offsets. Joins that share an index have its heads and its records,
and so those of their other indexes too, in the arrays of one pool. An offset stays what it is while its block is in
use; the array itself is replaced when it grows, so no caller may keep it from one call to the next.
"""

from __future__ import annotations

import numpy as np

from eddyline.core.delta import Int64s

PAGE_WORDS = 512  # words of a page; pages without data are not copied when the array grows, to save memory
MIN_POOL_WORDS = 4 * PAGE_WORDS


class Pool:
    """Blocks of one array.

    >>> pool = Pool()
    >>> a, b = pool.take(100), pool.take(50)
    >>> pool.give(a, 100); pool.take(80) == a, pool.used
    (True, 130)
    """

    def __init__(self) -> None:
        self.array: Int64s = np.zeros(0, np.int64)
        self.used = 0  # words in blocks
        self._end = 0  # behind the last block
        self._free: dict[int, int] = {}  # by offset the words of each gap between blocks

    def take(self, words: int) -> int:
        """A block of so many words: its offset. What is in it is left over from others."""
        words = max(1, words)
        self.used += words
        fits = [(length, at) for at, length in self._free.items() if length >= words]
        if fits:
            length, at = min(fits)
            del self._free[at]
            if length > words:
                self._free[at + words] = length - words
            return at
        at, self._end = self._end, self._end + words
        if self._end > len(self.array):
            self._resize(2 * self._end)
        return at

    def give(self, at: int, words: int) -> None:
        """A block is no longer needed."""
        words = max(1, words)
        self.used -= words
        after = self._free.pop(at + words, 0)
        before = next((a for a, length in self._free.items() if a + length == at), None)
        if before is not None:
            at, words = before, self._free.pop(before) + words
        words += after
        if at + words < self._end:
            self._free[at] = words
            return
        self._end = at
        if 8 * self._end < len(self.array) > MIN_POOL_WORDS:
            self._resize(2 * self._end)

    def _resize(self, words: int) -> None:
        old, pages = self.array, -(-max(words, MIN_POOL_WORDS) // PAGE_WORDS)
        self.array = np.zeros(pages * PAGE_WORDS, np.int64)
        page_count = min(len(old), len(self.array)) // PAGE_WORDS
        was, now = (
            old[: page_count * PAGE_WORDS].reshape(page_count, PAGE_WORDS),
            self.array[: page_count * PAGE_WORDS].reshape(page_count, PAGE_WORDS),
        )
        written = np.flatnonzero(was.any(1))
        now[written] = was[written]

    @property
    def nbytes(self) -> int:
        """Of all blocks."""
        return 8 * self.used


class IndexPool:
    """The heads and the records of the indexes of a session's joins, as far as any is shared."""

    def __init__(self) -> None:
        self.heads, self.records = Pool(), Pool()

    @property
    def nbytes(self) -> int:
        return self.heads.nbytes + self.records.nbytes
