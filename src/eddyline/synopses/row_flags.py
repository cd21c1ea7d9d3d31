"""A flag for each of consecutive rows, most of them false."""

from __future__ import annotations

import numpy as np

from eddyline.core.delta import Bools, Int64s


class RowFlags:
    """Flags of the rows from number ``start`` on. It takes no memory until one of them is true.

    >>> flags = RowFlags()
    >>> flags.append(np.array([False, False]))
    >>> bool(flags), flags.at(np.array([1])).tolist()
    (False, [False])
    >>> flags.append(np.array([False, True]))
    >>> flags.drop(2)
    >>> bool(flags), flags.at(np.array([2, 3])).tolist()
    (True, [False, True])
    """

    def __init__(self, start: int = 0) -> None:
        self.start = self.end = start
        self._flags: Bools | None = None

    def __bool__(self) -> bool:
        """Whether a flag was true."""
        return self._flags is not None

    def append(self, flags: Bools) -> None:
        n = len(flags)
        if self._flags is None and flags.any():
            self._flags = np.zeros(2 * (self.end - self.start + n), np.bool_)
        if self._flags is not None:
            at = self.end - self.start
            if at + n > len(self._flags):
                self._flags = np.concatenate([self._flags[:at], np.zeros(at + 2 * n, np.bool_)])
            self._flags[at : at + n] = flags
        self.end += n

    def at(self, rows: Int64s) -> Bools:
        if self._flags is None:
            return np.zeros(len(rows), np.bool_)
        # What is not known is false: rows that were dropped, and rows that others brought in advance.
        places = rows - self.start
        known = (places >= 0) & (rows < self.end)
        found: Bools = self._flags[np.where(known, places, 0)] & known
        return found

    def drop(self, first: int) -> None:
        """Rows before number ``first`` are no longer asked for. Room is given back when half of it is free."""
        if self._flags is None:
            self.start = max(self.start, min(first, self.end))
        elif 2 * (first - self.start) > len(self._flags):
            kept = self._flags[first - self.start : self.end - self.start]
            self._flags = kept.copy() if kept.any() else None
            self.start = first

    @property
    def nbytes(self) -> int:
        return 0 if self._flags is None else self._flags.nbytes
