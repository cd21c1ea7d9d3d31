"""Bounds of state: how many rows, or rows of how many ticks, an operator holds at most."""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.core.window import Hop, PartitionRows, Range, Rows, Slide, WindowSpec


@dataclass(frozen=True, slots=True)
class Bound:
    """``rows`` and ``ticks`` (of the query's time) limit what is held; ``each`` is the unit to
    which ``rows`` applies, such as "value of room". With neither limit, state grows with the input."""

    rows: int | None = None
    ticks: int | None = None
    each: str | None = None

    @property
    def unlimited(self) -> bool:
        return self.rows is None and self.ticks is None


def bound_of(window: WindowSpec | None) -> Bound:
    """The bound of a window. Without a window there is no bound.

    >>> bound_of(Range(60)), bound_of(Rows(5)).rows, bound_of(None).unlimited
    (Bound(rows=None, ticks=60, each=None), 5, True)
    """
    match window:
        case Range(width=width) | Slide(width=width) | Hop(width=width):
            return Bound(ticks=width)
        case Rows(count=count):
            return Bound(rows=count)
        case PartitionRows(columns=columns, count=count):
            return Bound(rows=count, each=f"value of {', '.join(columns)}")
        case _:
            return Bound()
