"""Window specifications, and the one algebraic fact about them that the engine uses.

A window turns a stream into a relation. For every window an element enters at one instant and leaves at one instant
(or never), so a window is two functions of the element:

===========================  =====================  =======================================================
window                       enters at              leaves at
===========================  =====================  =======================================================
``[RANGE w]``                ts                     ts + w + 1
``[NOW]``                    ts                     ts + 1
``[RANGE w SLIDE l]``        ⌈ts/l⌉·l               ⌈(ts+w)/l⌉·l
``[HOP w EVERY l OFFSET o]`` the first end > ts     the first end > ts + w; the ends are k·l + o
``[SESSION g GAP]``          its session's end      the instant after; the end is the session's last ts + g
``[UNTIL c]``                ts                     c + 1 (never if c is NULL; never inside if c < ts)
``[ROWS n]``                 ts                     the ts of the n-th element after it
``[PARTITION BY a ROWS n]``  ts                     the ts of the n-th element after it with the same a
``[ROWS UNBOUNDED]``         ts                     never
===========================  =====================  =======================================================

``[TUMBLE w]`` is ``[HOP w EVERY w]``. All widths are in ticks of the query's time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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

    # The window changes at the multiples of ``slide``, shifted by ``offset``. An element enters at the first of them
    # that is not before ts + ``delay``, and leaves at the first that is not before ts + ``width`` + ``delay``.
    offset: ClassVar[int] = 0
    delay: ClassVar[int] = 0

    def __str__(self) -> str:
        return f"[RANGE {self.width} SLIDE {self.slide}]"


@dataclass(frozen=True, slots=True)
class Hop:
    """``[HOP width EVERY slide OFFSET offset]``; ``[TUMBLE width]`` is a hop as long as the window.

    At each end e = k·slide + offset it shows the window that ends there, e − width ≤ ts < e, until the next end.
    """

    width: int
    slide: int
    offset: int = 0

    delay: ClassVar[int] = 1  # open at the right: an element at an end is part of the next window

    def __str__(self) -> str:
        return _hop(str(self.width), str(self.slide), str(self.offset) if self.offset else "", self)


@dataclass(frozen=True, slots=True)
class Session:
    """``[SESSION gap GAP PARTITION BY columns]``; the columns are plan names of the windowed stream, maybe none.

    Elements of one partition that are less than ``gap`` apart are one session. It ends ``gap`` after its last element,
    is in the relation at that instant, and gone at the next.
    """

    gap: int
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return _session(str(self.gap), self.columns)


@dataclass(frozen=True, slots=True)
class Until:
    """``[UNTIL column]``: each element stays up to the time in its own column, included."""

    column: str

    def __str__(self) -> str:
        return f"[UNTIL {self.column}]"


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


Stepping = Slide | Hop  # windows that change at the multiples of a step and at no other instant
WindowSpec = Unbounded | Range | Slide | Hop | Session | Until | Rows | PartitionRows


def last_close(spec: WindowSpec, last: int) -> int:
    """The last instant at which a window that holds an element of the instant ``last`` closes.

    >>> last_close(Hop(10, 10), 23), last_close(Hop(10, 2), 23), last_close(Session(5), 23), last_close(Range(9), 23)
    (30, 32, 28, 23)
    >>> last_close(Hop(10, 10, 3), 23), last_close(Slide(10, 10), 20), last_close(Slide(10, 2), 23)
    (33, 20, 32)
    """
    match spec:
        case Slide() | Hop():
            close = (last + spec.width - 1 + spec.delay - spec.offset) // spec.slide * spec.slide + spec.offset
            return max(last, close)  # a window shorter than its step may hold nothing of that instant
        case Session(gap=gap):
            return last + gap
        case _:
            return last


_UNITS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000),
          ("MILLISECOND", 1000), ("MICROSECOND", 1))  # fmt: skip


def spelled(spec: WindowSpec, kind: TimeKind) -> str:
    """A window as a person would write it.

    >>> spelled(Range(600_000_000), TimeKind.TIMESTAMP), spelled(Slide(90_000_000, 500_000), TimeKind.TIMESTAMP)
    ('[RANGE 10 MINUTES]', '[RANGE 90 SECONDS SLIDE 500 MILLISECONDS]')
    >>> spelled(Range(600), TimeKind.INTEGER), spelled(Rows(3), TimeKind.TIMESTAMP)
    ('[RANGE 600]', '[ROWS 3]')
    >>> spelled(Hop(60_000_000, 2_000_000), TimeKind.TIMESTAMP), spelled(Hop(10, 10, 3), TimeKind.INTEGER)
    ('[HOP 1 MINUTE EVERY 2 SECONDS]', '[TUMBLE 10 OFFSET 3]')
    >>> spelled(Session(10_000_000, ("S.user",)), TimeKind.TIMESTAMP)
    '[SESSION 10 SECONDS GAP PARTITION BY S.user]'
    """
    if kind is TimeKind.INTEGER:
        return str(spec)
    match spec:
        case Range(width=width) if width:
            return f"[RANGE {spelled_width(width)}]"
        case Slide(width=width, slide=slide):
            return f"[RANGE {spelled_width(width)} SLIDE {spelled_width(slide)}]"
        case Hop(width=width, slide=slide, offset=offset):
            return _hop(spelled_width(width), spelled_width(slide), spelled_width(offset) if offset else "", spec)
        case Session(gap=gap, columns=columns):
            return _session(spelled_width(gap), columns)
        case _:
            return str(spec)


def spelled_width(micros: int) -> str:
    """A width of microseconds in the largest unit that divides it.

    >>> spelled_width(60_000_000), spelled_width(1_500_000)
    ('1 MINUTE', '1500 MILLISECONDS')
    """
    unit, size = next((u, n) for u, n in _UNITS if micros % n == 0)
    count = micros // size
    return f"{count} {unit}" + ("S" if count != 1 else "")


def _hop(width: str, slide: str, offset: str, spec: Hop) -> str:
    form = f"TUMBLE {width}" if spec.width == spec.slide else f"HOP {width} EVERY {slide}"
    return f"[{form} OFFSET {offset}]" if offset else f"[{form}]"


def _session(gap: str, columns: tuple[str, ...]) -> str:
    return f"[SESSION {gap} GAP" + (f" PARTITION BY {', '.join(columns)}]" if columns else "]")


def is_time_based(spec: WindowSpec) -> bool:
    """Whether a filter on the stream commutes with the window (thesis 2.2.4: tuple-based windows do not)."""
    return isinstance(spec, Unbounded | Range | Slide | Hop | Until)


def counts_elements(spec: WindowSpec) -> bool:
    """Whether the order of elements with equal timestamps decides which of them are in the window."""
    return isinstance(spec, Rows | PartitionRows)


def leaves_in_order(spec: WindowSpec) -> bool:
    """Whether a time-based window's elements leave in the order in which they came."""
    return isinstance(spec, Unbounded | Range | Slide | Hop)


def closes(spec: WindowSpec) -> bool:
    """Whether there are windows with a start and an end, each shown when it closes."""
    return isinstance(spec, Slide | Hop | Session)


def columns_read(spec: WindowSpec) -> frozenset[str]:
    """The columns of its stream that a window looks at."""
    match spec:
        case PartitionRows(columns=columns) | Session(columns=columns):
            return frozenset(columns)
        case Until(column=column):
            return frozenset((column,))
        case _:
            return frozenset()
