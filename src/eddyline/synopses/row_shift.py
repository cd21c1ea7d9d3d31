"""Row shifts: when windows of queries registered at different times have the same rows, and under which numbers.

A query sees the elements of a stream that came after its registration. Let T be the largest time of an element that had
come before. Of the elements with times after T an older query and a younger one see the same, in the same order, and so
they do of what passes the same filters. But they have counted different numbers of elements up to there, and operators
are not equally far. So both count their rows up to an instant t* ≥ T that neither has passed: the count of each is
known as soon as it has brought a row behind t*. From then on the difference of the counts is the shift between their
row numbers (``RowShift``).

The younger query's rows with times up to T are another matter: where elements come out of order, rows that only the
older query has may lie between them. ``Beginning.settled`` says whether its window still holds such rows. An element of
T itself lies behind all older ones of T, because those came earlier.

*What would be wrong*: to compare how many elements both have read at the same moment, since one operator may be ahead;
to compare by arrival, since filters below windows leave out different numbers of rows; to take t* before T.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from eddyline.core.delta import Int64s


class Counting(Protocol):
    """The part of a stub that is read here."""

    end: int
    last: int | None
    beginning: Beginning


class Beginning:
    """What a query may have missed: ``after`` is T (None: nothing came before it).

    >>> import numpy as np
    >>> b = Beginning(after=10)
    >>> b.observe(0, np.array([8, 9])); b.settled(0)
    False
    >>> b.observe(2, np.array([10, 12, 13])); b.settled(2), b.settled(3)
    (False, True)
    """

    def __init__(self, after: int | None = None) -> None:
        self.after = after
        self._pure: int | None = None if after is not None else 0  # rows from this number on lie without gaps

    def observe(self, start: int, time: Int64s) -> None:
        """The rows from number ``start`` on have these times."""
        if self._pure is None and self.after is not None:
            if start == 0 and time[0] >= self.after:
                self._pure = 0
            elif time[-1] > self.after:
                self._pure = start + int(time.searchsorted(self.after, "right"))

    @property
    def pure(self) -> int | None:
        """The number of the first row from which on older queries have the same, without gaps; None: not known yet."""
        return self._pure

    @property
    def known(self) -> bool:
        return self._pure is not None

    def settled(self, low: int) -> bool:
        """Whether the rows from number ``low`` on are those of older queries, too, without gaps."""
        return self._pure is not None and low >= self._pure

    def state(self) -> dict[str, Any]:
        return {"after": self.after, "pure": self._pure}

    def load(self, state: Mapping[str, Any] | None) -> None:
        if state is not None:
            self.after, self._pure = state["after"], state["pure"]


class RowShift:
    """How far the row numbers of two stubs lie apart: both count their rows up to the same instant."""

    def __init__(self, older: Any, younger: Any) -> None:
        self.older, self.younger = older, younger
        lasts = [s.last for s in (older, younger) if s.last is not None]
        self.time: int = max([*lasts, younger.beginning.after])
        # Operators take whole instants: of the time of its last row a stub has all rows.
        self._counts = {id(s): s.end for s in (older, younger) if s.last == self.time}

    def observe(self, stub: Counting, start: int, time: Int64s) -> None:
        """A stub has brought rows with these times, the first of them under number ``start``."""
        if id(stub) not in self._counts and time[-1] > self.time:
            self._counts[id(stub)] = start + int(time.searchsorted(self.time, "right"))

    @property
    def shift(self) -> int | None:
        """What the older stub's numbers are larger by; None until both have counted."""
        older, younger = self._counts.get(id(self.older)), self._counts.get(id(self.younger))
        return None if older is None or younger is None else older - younger
