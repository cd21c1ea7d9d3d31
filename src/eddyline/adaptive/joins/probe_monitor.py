"""Monitors the probes that elements take while nothing is profiled, and reports when they have changed."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.adaptive.joins.window_growth import Settled

# Elements of a quiet run between two checks, at first and at most: fewer see a change sooner and cost more.
CHECK_ELEMENTS, RAREST_CHECK_ELEMENTS = 1 << 14, 1 << 16
ALARM_SHARE = 0.05  # by which probes per element must move to raise an alarm: less sees more changes and more chance
EARLY_CHECK_FACTOR = (
    1.25  # times the usual probes of a check end it early: less reacts sooner to elements that got dear
)
# Each false alarm multiplies the share for the next one by TOLERANCE_GROWTH, up to MAX_TOLERANCE_FACTOR times
# ALARM_SHARE: larger means fewer false alarms, and later true ones.
TOLERANCE_GROWTH, MAX_TOLERANCE_FACTOR = 1.5, 4

Done = tuple[int, int, int]  # probes, accesses of caches, elements that came or left


class ProbeMonitor:
    """Probes depend on the data alone and are counted anyway: a change of their number shows a change of the data.
    Accesses of caches are counted with them, for a cache may have become a burden.

    >>> monitor = ProbeMonitor()
    >>> monitor.begin([100, 100, 100])
    >>> [monitor.moved((probes, 0, 1000), [100, 100, 100], check=1000) for probes in (1500, 1520, 1600)]
    [False, False, True]
    """

    __slots__ = ("alarmed", "done", "rows", "settled", "tolerance", "usual")

    def __init__(self) -> None:
        self.done: Done = (0, 0, 0)  # since it was last compared
        self.rows: Sequence[int] = ()  # of the windows at that time, or when the quiet run began
        self.usual: float | None = None  # probes an element at that time
        self.settled: Settled | None = None  # probes and accesses of caches an element when the plan was settled
        self.tolerance, self.alarmed = ALARM_SHARE, False  # a false alarm makes the next less easy

    def begin(self, rows: Sequence[int]) -> None:
        self.rows = self.rows or rows

    def most(self, elements: float) -> int | None:
        """The number of probes at which a check ends early, because elements suddenly take many more than usual; None
        as long as the usual number is not known."""
        return None if self.usual is None else max(CHECK_ELEMENTS, int(EARLY_CHECK_FACTOR * self.usual * elements))

    def add(self, done: Done) -> None:
        probes, cached, elements = (a + b for a, b in zip(self.done, done, strict=True))
        self.done = probes, cached, elements

    def moved(self, done: Done, rows: Sequence[int], check: int) -> bool:
        """Whether the data meet other windows than when the plan was made, and not only fuller ones."""
        self.add(done)
        probes, cached, elements = self.done
        if max(elements, probes / self.usual if self.usual else 0) < check // 2:
            return False
        rate, self.done, self.usual = (probes + cached) / elements, (0, 0, 0), probes / elements
        before, self.rows = self.rows, rows
        between = [(a + b) / 2 for a, b in zip(before, rows, strict=True)]
        if self.settled is None:
            self.settled = Settled(rate, between)
        due = self.settled.expected(between)
        if abs(rate - due) <= self.tolerance * due:
            return False
        # If nothing comes of it, this is what is usual now; else what is usual has to be seen. That windows fill is no
        # excuse any more until a plan has changed: what has come may show what it does to the orders only when more of
        # it is there.
        self.settled, self.alarmed = Settled(rate), True
        return True

    def run_over(self) -> None:
        self.done, self.rows = (0, 0, 0), ()

    def profiling_run_over(self, changed: bool) -> None:
        """A profiling run is over: the plan was changed, or an alarm was false."""
        if changed:
            self.settled, self.usual, self.tolerance, self.alarmed = None, None, ALARM_SHARE, False
        elif self.alarmed:
            self.tolerance, self.alarmed = (
                min(MAX_TOLERANCE_FACTOR * ALARM_SHARE, TOLERANCE_GROWTH * self.tolerance),
                False,
            )
