"""The progress line of long runs: one line that updates itself on a terminal, nothing at all in a pipe.

The line is the last one on the screen and belongs to it alone: all other writers to the same terminal write through
``above``, which erases the line first. It is drawn again with the next update. Results and progress may come from
different threads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final, TextIO, cast

from eddyline.core.amounts import size
from eddyline.core.time import Clock, SystemClock

INTERVAL: Final = 200_000_000  # nanoseconds between two updates: five a second read well and cost nothing
LAST_INTERVAL_WEIGHT: Final = 0.3  # weight of the last interval in the shown rate
NOTE_EVERY: Final = 1.0  # seconds after which a note says again how long it has been standing there
ERASE: Final = "\r\x1b[K"


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
        # A terminal that cannot erase a line would show all of them, one behind the other.
        able = bool(getattr(self._out, "isatty", lambda: False)()) and os.environ.get("TERM") != "dumb"
        self.active = able and not quiet
        self._lock = threading.RLock()
        self._last = self._clock.nanoseconds()
        self._speed = _Speed()
        self._drawn = False
        self._noted: str | None = None
        self._noted_at = 0
        self._changed = threading.Event()
        self._taken: dict[str, int] = {}  # nanoseconds that something took which comes again and again

    def update(self, events: int, results: int, lag_seconds: float | None, state_rows: int, state_bytes: int) -> None:
        """``lag_seconds`` is how far results are behind the newest input; None where that means nothing."""
        if not self.active:
            return
        now = self._clock.nanoseconds()
        if self._drawn and self._noted is None and now - self._last < INTERVAL:
            return
        self._last = now
        rate_now = self._speed.at(events, now)
        parts = [f"{events:,} events"]
        if rate_now is not None:
            parts.append(rate(rate_now))
        parts.append(f"{results:,} result{'' if results == 1 else 's'}")
        if lag_seconds is not None:
            parts.append(f"lag {duration(lag_seconds)}")
        if state_rows or state_bytes:
            parts.append(f"state {state_rows:,} rows, {size(state_bytes)}")
        with self._lock:
            self._note(None)
            self._draw("  ".join(parts))

    def note(self, text: str, before: int = 0) -> None:
        """Something that is happening now, such as compiling, and for how long, ``before`` (nanoseconds) included; the
        next update replaces it."""
        if not self.active:
            return
        with self._lock:
            self._note(text)
            self._noted_at -= before
            self._draw(f"{text} …" + (f" {before / 1e9:.0f} s" if before else ""))
        threading.Thread(target=self._count_seconds, args=(text, self._changed), daemon=True).start()

    @contextlib.contextmanager
    def temporary_note(self, text: str) -> Iterator[None]:
        """A note that is removed at the end. The same one goes on counting where it was."""
        before, begin = self._taken.get(text, 0), self._clock.nanoseconds()
        try:
            self.note(text, before)
            yield
        finally:
            self._taken[text] = before + self._clock.nanoseconds() - begin
            self.finish()

    def erase(self) -> None:
        """Remove the line for a moment: what is printed next starts at the left."""
        with self._lock:
            if self._drawn:
                self._out.write(ERASE)
                self._out.flush()
                self._drawn = False

    def finish(self) -> None:
        """Remove the line."""
        with self._lock:
            self._note(None)
            self.erase()

    def above(self, other: TextIO) -> TextIO:
        """The same stream for other writers to the terminal: what is written stands above it."""
        return cast(TextIO, _Above(self, other)) if self.active and other.isatty() else other

    def _note(self, text: str | None) -> None:
        self._changed.set()
        self._changed, self._noted, self._noted_at = threading.Event(), text, self._clock.nanoseconds()

    def _count_seconds(self, text: str, changed: threading.Event) -> None:
        while not changed.wait(NOTE_EVERY):
            with self._lock:
                if not changed.is_set():
                    self._draw(f"{text} … {(self._clock.nanoseconds() - self._noted_at) / 1e9:.0f} s")

    def _draw(self, text: str) -> None:
        # A line that the terminal folds could not be erased as one.
        room = self._columns() - 1
        shown = text if len(text) <= room else text[: max(0, room - 1)] + "…"[: max(0, room)]
        self._drawn = True  # before it is: Ctrl-C may come as soon as the line is seen
        self._out.write(f"\r{shown}\x1b[K")
        self._out.flush()

    def _columns(self) -> int:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            columns = os.get_terminal_size(self._out.fileno()).columns
            if columns > 0:
                return columns
        return shutil.get_terminal_size().columns


class _Speed:
    """Events a second. They may come in lumps, a micro-batch at a time: what counts is the time from one lump to the
    next, however often somebody looks in between.

    >>> speed, second = _Speed(), 1_000_000_000
    >>> [speed.at(events, at * second) for at, events in enumerate((0, 0, 1000, 1000, 1000, 1600))]
    [None, None, None, None, None, 200.0]
    >>> speed.at(1600, 35 * second)  # for a long time nothing came
    20.0
    """

    def __init__(self) -> None:
        self._events = 0
        self._since: int | None = None  # when the last events came
        self._gained = 0  # with the last events
        self._rate: float | None = None

    def at(self, events: int, now: int) -> float | None:
        """None until two lumps have come: how long the first one took is not known."""
        if events > self._events:
            gained = events - self._events
            if self._since is not None and now > self._since:
                recent = gained / ((now - self._since) / 1e9)
                self._rate = (
                    recent
                    if self._rate is None
                    else LAST_INTERVAL_WEIGHT * recent + (1 - LAST_INTERVAL_WEIGHT) * self._rate
                )
            self._events, self._since, self._gained = events, now, gained
        if self._rate is None or self._since is None:
            return None
        # Were a lump like the last one to come now, this would be its rate: nothing faster is true any more.
        waited = (now - self._since) / 1e9
        return min(self._rate, self._gained / waited) if waited else self._rate


class _Above:
    """A terminal's stream that erases the progress line before anything is written."""

    def __init__(self, progress: Progress, other: TextIO) -> None:
        self._progress, self._other = progress, other

    def write(self, text: str) -> int:
        with self._progress._lock:
            self._progress.erase()
            count = self._other.write(text)
            self._other.flush()
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)


def rate(per_second: float) -> str:
    """
    >>> rate(950.0), rate(1_234_567.0)
    ('950/s', '1.23 M/s')
    """
    if per_second >= 1e6:
        return f"{per_second / 1e6:.2f} M/s"
    return f"{per_second / 1e3:.1f} k/s" if per_second >= 1e4 else f"{per_second:,.0f}/s"


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
