"""A growing sequence of numbers whose old ones are dropped: append at the end, forget at the front."""

from __future__ import annotations

import numpy as np

from eddyline.core.delta import Int64s


class Tail:
    """Appending and forgetting cost O(1) a number, amortised: small batches must not copy a large window.

    >>> t = Tail()
    >>> t.append(np.array([1, 2, 3])); t.forget(2); t.append(np.array([4]))
    >>> t.values.tolist()
    [3, 4]
    """

    __slots__ = ("_end", "_room", "_start")

    def __init__(self, values: Int64s | None = None) -> None:
        self._room: Int64s = np.empty(64, np.int64)
        self._start = self._end = 0
        if values is not None:
            self.append(values)

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def values(self) -> Int64s:
        """A view, good until the next ``append``."""
        return self._room[self._start : self._end]

    @property
    def nbytes(self) -> int:
        """Of what is held; the room around it is at most four times that."""
        return 8 * len(self)

    def append(self, values: Int64s) -> None:
        end = self._end + len(values)
        if end > len(self._room):
            held = self.values
            need = len(held) + len(values)
            # Half of the room is free afterwards, so as much must come before numbers move again.
            room = self._room if 2 * need <= len(self._room) else np.empty(2 * need, np.int64)
            room[: len(held)] = held  # numpy copies overlapping views as if through a buffer
            self._room, self._start, self._end = room, 0, len(held)
            end = need
        self._room[self._end : end] = values
        self._end = end

    def forget(self, count: int) -> None:
        """Drop the first ``count`` numbers."""
        self._start += count
