"""A history of the number of filters evaluated for a row, in bounded space: for plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_POINTS = 128  # of the history; beyond, neighbours are merged: more shows finer steps and takes memory


class History:
    """Rows, evaluations on the way and evaluations for profiling, by stretches of about equal length, and after how
    many rows decisions were made.

    It covers everything since the start: stretches get longer, none is forgotten.

    >>> history = History()
    >>> for batch in range(1000):
    ...     history.add(10, 15 if batch < 500 else 20, 1)
    >>> history.decided(5000)
    >>> points = history.statistics()
    >>> len(points["rows"]), sum(points["rows"]), sum(points["asked"]), sum(points["profiling"]), points["decided"]
    (125, 10000, 17500, 1000, [5000])
    """

    __slots__ = ("_asked", "_decided", "_profiling", "_rows", "stretch")

    def __init__(self) -> None:
        self.stretch = 1  # rows that a point should have, at least
        self._rows: list[int] = []
        self._asked: list[int] = []
        self._profiling: list[int] = []
        self._decided: list[int] = []

    def add(self, rows: int, asked: int, profiling: int) -> None:
        """A batch. It goes to the last point as long as that is short."""
        if self._rows and self._rows[-1] + rows <= self.stretch:
            self._rows[-1] += rows
            self._asked[-1] += asked
            self._profiling[-1] += profiling
            return
        for line, number in zip((self._rows, self._asked, self._profiling), (rows, asked, profiling), strict=True):
            line.append(number)
        if len(self._rows) > MAX_POINTS:
            self._halve()

    def _halve(self) -> None:
        for line in (self._rows, self._asked, self._profiling):
            line[:] = [sum(line[i : i + 2]) for i in range(0, len(line), 2)]
        self.stretch = 2 * sum(self._rows) // MAX_POINTS

    def decided(self, rows: int) -> None:
        """A decision after so many rows; the last ones are kept."""
        self._decided = [*self._decided[1 - MAX_POINTS :], rows]

    def statistics(self) -> dict[str, list[int]]:
        return {
            "rows": list(self._rows),
            "asked": list(self._asked),
            "profiling": list(self._profiling),
            "decided": list(self._decided),
        }

    def state(self) -> dict[str, Any]:
        return {**self.statistics(), "stretch": self.stretch}

    def load(self, state: Mapping[str, Any]) -> None:
        self._rows, self._asked, self._profiling, self._decided = (
            [int(x) for x in state[name]] for name in ("rows", "asked", "profiling", "decided")
        )
        self.stretch = int(state["stretch"])
