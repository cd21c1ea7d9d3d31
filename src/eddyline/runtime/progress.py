"""The progress line of long runs: one line that updates itself on a terminal, nothing at all in a pipe."""

from __future__ import annotations

import sys
from typing import Final, TextIO

from eddyline.core.time import Clock, SystemClock

INTERVAL: Final = 200_000_000  # nanoseconds between two updates: five a second read well and cost nothing
RECENT: Final = 0.3  # weight of the last interval in the shown rate


class Progress:
    """``update`` may be called as often as one likes; most calls return at once.

    >>> import io
    >>> screen = io.StringIO()
    >>> screen.isatty = lambda: True
    >>> p = Progress(screen)
    >>> p.update(1_500_000, 12, 2.0, 4096, 65536)
    >>> p.finish()
    >>> screen.getvalue().split("\\r")[1].split("\\x1b")[0].split("  ")
    ['1,500,000 events', '12 results', 'lag 2.0 s', 'state 4,096 rows, 64.0 kB']
    """

    def __init__(self, out: TextIO | None = None, clock: Clock | None = None, *, quiet: bool = False) -> None:
        self._out = out if out is not None else sys.stderr
        self._clock = clock or SystemClock()
        self.active = not quiet and bool(getattr(self._out, "isatty", lambda: False)())
        self._last = self._clock.nanoseconds()
        self._events_then = 0
        self._rate: float | None = None
        self._drawn = False

    def update(self, events: int, results: int, lag_seconds: float | None, state_rows: int, state_bytes: int) -> None:
        """``lag_seconds`` is how far results are behind the newest input; None where that means nothing."""
        if not self.active:
            return
        now = self._clock.nanoseconds()
        if self._drawn and now - self._last < INTERVAL:
            return
        if now > self._last and events > self._events_then:
            recent = (events - self._events_then) / ((now - self._last) / 1e9)
            # The first look has no interval behind it that would mean anything.
            if self._drawn:
                self._rate = recent if self._rate is None else RECENT * recent + (1 - RECENT) * self._rate
        self._last, self._events_then = now, events
        parts = [f"{events:,} events"]
        if self._rate is not None:
            parts.append(f"{rate(self._rate)}")
        parts.append(f"{results:,} result{'' if results == 1 else 's'}")
        if lag_seconds is not None:
            parts.append(f"lag {duration(lag_seconds)}")
        if state_rows or state_bytes:
            parts.append(f"state {state_rows:,} rows, {size(state_bytes)}")
        self._draw("  ".join(parts))

    def note(self, text: str) -> None:
        """Something that is happening now, such as compiling; the next update replaces it."""
        if self.active:
            self._draw(text)

    def finish(self) -> None:
        """Remove the line: what is printed next starts at the left."""
        if self._drawn:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._drawn = False

    def _draw(self, text: str) -> None:
        self._out.write(f"\r{text}\x1b[K")
        self._out.flush()
        self._drawn = True


def rate(per_second: float) -> str:
    """
    >>> rate(950.0), rate(1_234_567.0)
    ('950/s', '1.23 M/s')
    """
    if per_second >= 1e6:
        return f"{per_second / 1e6:.2f} M/s"
    return f"{per_second / 1e3:.1f} k/s" if per_second >= 1e4 else f"{per_second:,.0f}/s"


def size(count: int) -> str:
    """
    >>> size(500), size(3 << 20)
    ('500 B', '3.0 MB')
    """
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GB"


def duration(seconds: float) -> str:
    """
    >>> duration(0.012), duration(75.0)
    ('12 ms', '1 min 15 s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
