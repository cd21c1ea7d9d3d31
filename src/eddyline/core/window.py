"""Window specifications, and the one algebraic fact about them that the engine uses.

A window turns a stream into a relation. For every window an element enters at one instant and leaves at one instant
(or never), so a window is two functions of the element:

===========================  =====================  =======================================================
window                       enters at              leaves at
===========================  =====================  =======================================================
``[RANGE w]``                ts                     ts + w + 1
``[NOW]``                    ts                     ts + 1
``[RANGE w SLIDE l]``        ⌈ts/l⌉·l               ⌈(ts+w)/l⌉·l
``[ROWS n]``                 ts                     the ts of the n-th element after it
``[PARTITION BY a ROWS n]``  ts                     the ts of the n-th element after it with the same a
``[ROWS UNBOUNDED]``         ts                     never
===========================  =====================  =======================================================

All widths are in ticks of the query's time.
"""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.core.time import TimeKind


@dataclass(frozen=True, slots=True)
class Unbounded:
    """``[ROWS UNBOUNDED]`` and ``[RANGE UNBOUNDED]``; ``implicit`` when the text had no window at all."""

    implicit: bool = False

    def __str__(self) -> str:
        return "[ROWS UNBOUNDED]"


@dataclass(frozen=True, slots=True)
class Range:
    """``[RANGE width]``; ``[NOW]`` is ``Range(0)``."""

    width: int

    def __str__(self) -> str:
        return "[NOW]" if self.width == 0 else f"[RANGE {self.width}]"


@dataclass(frozen=True, slots=True)
class Slide:
    """``[RANGE width SLIDE slide]``, also ``[size width advance slide]``."""

    width: int
    slide: int

    def __str__(self) -> str:
        return f"[RANGE {self.width} SLIDE {self.slide}]"


@dataclass(frozen=True, slots=True)
class Rows:
    """``[ROWS count]``."""

    count: int

    def __str__(self) -> str:
        return f"[ROWS {self.count}]"


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """``[PARTITION BY columns ROWS count]``; the columns are plan names of the windowed stream."""

    columns: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        return f"[PARTITION BY {', '.join(self.columns)} ROWS {self.count}]"


WindowSpec = Unbounded | Range | Slide | Rows | PartitionRows


_UNITS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000),
          ("MILLISECOND", 1000), ("MICROSECOND", 1))  # fmt: skip


def spelled(spec: WindowSpec, kind: TimeKind) -> str:
    """A window as a person would write it.

    >>> spelled(Range(600_000_000), TimeKind.TIMESTAMP), spelled(Slide(90_000_000, 500_000), TimeKind.TIMESTAMP)
    ('[RANGE 10 MINUTES]', '[RANGE 90 SECONDS SLIDE 500 MILLISECONDS]')
    >>> spelled(Range(600), TimeKind.INTEGER), spelled(Rows(3), TimeKind.TIMESTAMP)
    ('[RANGE 600]', '[ROWS 3]')
    """
    if kind is TimeKind.INTEGER:
        return str(spec)
    match spec:
        case Range(width=width) if width:
            return f"[RANGE {_width(width)}]"
        case Slide(width=width, slide=slide):
            return f"[RANGE {_width(width)} SLIDE {_width(slide)}]"
        case _:
            return str(spec)


def _width(micros: int) -> str:
    unit, size = next((u, n) for u, n in _UNITS if micros % n == 0)
    count = micros // size
    return f"{count} {unit}" + ("S" if count != 1 else "")


def is_time_based(spec: WindowSpec) -> bool:
    """Whether a filter on the stream commutes with the window (thesis 2.2.4: tuple-based windows do not)."""
    return isinstance(spec, Unbounded | Range | Slide)
