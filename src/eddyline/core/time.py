"""Time: what a tick is, and the one place that reads the wall clock.

Every timestamp inside the engine is an int64 count of ticks. A query has one kind of time: ``INTEGER`` (the column's
own units, and a unit in a window means seconds) or ``TIMESTAMP`` (microseconds since the epoch).
"""

from __future__ import annotations

import enum
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

NEVER: Final = (1 << 63) - 1  # the leave time of what stays for ever, and the frontier of a finished input
BEGINNING: Final = -(1 << 63)  # before every instant


class TimeKind(enum.Enum):
    INTEGER = "integer"
    TIMESTAMP = "timestamp"

    @property
    def ticks_per_second(self) -> int:
        return 1 if self is TimeKind.INTEGER else 1_000_000


def from_datetime(moment: datetime) -> int:
    """The tick of a timestamp; one without a zone is UTC.

    >>> from_datetime(datetime(1970, 1, 1, 0, 0, 1)), from_datetime(datetime.fromisoformat("1970-01-01T01:00+01:00"))
    (1000000, 0)
    """
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def time_text(time: int, kind: TimeKind | None) -> str:
    """An instant as people read it.

    >>> time_text(7, TimeKind.INTEGER), time_text(1_500_000, TimeKind.TIMESTAMP)
    ('7', '1970-01-01 00:00:01.500000')
    """
    if kind is not TimeKind.TIMESTAMP:
        return str(time)
    try:
        return str(datetime(1970, 1, 1) + timedelta(microseconds=time))
    except OverflowError:  # before year 1, or after year 9999
        return f"{time} µs"


class Clock(Protocol):
    """Injected wherever processing time matters (arrival stamps, idle intervals, scheduling, profiles)."""

    def now(self) -> int:
        """Microseconds since the epoch."""

    def nanoseconds(self) -> int:
        """A monotonic counter for measuring durations."""


class SystemClock:
    """The only reader of the wall clock in Eddyline."""

    def now(self) -> int:
        return time.time_ns() // 1000

    # Asked twice in each run of an operator: without a function of our own in between.
    nanoseconds = staticmethod(time.perf_counter_ns)


class ProcessorClock(SystemClock):
    """Durations in time of the processor that this thread had: a busy machine makes nothing longer. What the thread
    waits for does not count, and each reading is a call of the system."""

    nanoseconds = staticmethod(time.thread_time_ns)


def processor_clock(clock: Clock) -> Clock:
    """For durations of what only computes: the processor's, where a clock is the system's; another clock as it is."""
    return ProcessorClock() if type(clock) is SystemClock else clock
