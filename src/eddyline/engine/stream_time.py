"""Which instants of one stream are closed: by what it has shown, by the clock, by its readers, and by its end."""

from __future__ import annotations

from eddyline.core.time import BEGINNING, NEVER, Clock, TimeKind
from eddyline.engine.arrivals import MAX_TICKS, Definition
from eddyline.engine.watermark import Watermark


class StreamTime:
    """The time of one declared stream or timed relation; ``InputStream`` adds its elements.

    The invariant: *every element with a time below* ``bound`` *has been accepted*. What was closed stays closed,
    whatever the slack, the idle interval or the stream itself do afterwards.

    >>> import pyarrow as pa
    >>> from eddyline.core.catalog import StreamDef
    >>> from eddyline.core.schema import Schema
    >>> from eddyline.testing.clock import ManualClock
    >>> schema = Schema.from_arrow(pa.schema([("ts", pa.int64())]))
    >>> time = StreamTime(StreamDef("S", schema, TimeKind.INTEGER, "ts", slack=2), ManualClock())
    >>> time.watermark.show(7)
    >>> time.bound
    5
    >>> time.widen_wait("slack", 4)
    >>> time.watermark.show(8)
    >>> time.bound  # what slack 2 has closed
    5
    """

    def __init__(self, definition: Definition, clock: Clock) -> None:
        self.definition = definition
        self.finished = False
        self.idle = False
        slack = 0 if definition.timestamp is None else min(getattr(definition, "slack", 0), MAX_TICKS)
        self.watermark = Watermark(slack)
        self.altered: dict[str, int | None] = {}  # widths that the user has changed since the declaration
        self.active_at = clock.now()
        self._clock = clock
        self._idle_after: int | None = getattr(definition, "idle", None)
        self._closed = BEGINNING  # the largest instant that a reader has taken as closed

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def shown(self) -> int | None:
        """The largest time shown by element or heartbeat."""
        return self.watermark.shown

    @property
    def shown_bound(self) -> int:
        """What this stream closed by its own elements and heartbeats, be it idle or finished by now."""
        return self.watermark.bound

    @property
    def late_before(self) -> int:
        """What comes now with a smaller time is late. Others may have closed more than this stream has shown: while it
        was idle, or with another slack before the last start."""
        bound, closed = self.watermark.bound, self._closed
        return bound if closed < bound or closed == BEGINNING else closed + 1

    @property
    def bound(self) -> int:
        """All instants < ``bound`` are complete; BEGINNING while nothing was shown, NEVER when finished or idle."""
        return NEVER if self.finished or self.idle else self.late_before

    @property
    def idle_at(self) -> int | None:
        """The wall-clock time (µs) from which on silence makes it idle; None: never."""
        return None if self._idle_after is None else self.active_at + self._idle_after

    @property
    def widths(self) -> dict[str, int | None]:
        """How long it is waited for, in ticks: for late rows, and in silence (microseconds)."""
        return {"slack": self.watermark.slack, "idle": self._idle_after}

    def widen_wait(self, what: str, ticks: int | None) -> None:
        """Wait longer or shorter from now on. What was closed stays closed."""
        self.altered[what] = ticks
        if what == "slack":
            self.watermark.change(min(ticks or 0, MAX_TICKS))
        else:
            self._idle_after = ticks
            self.idle = self.idle and ticks is not None and self._clock.now() - self.active_at >= ticks

    def _note_activity(self, now: int) -> None:
        self.active_at = now
        self.idle = False

    def _stamp(self, now: int) -> int:
        stamp = now if self.definition.time_kind is not TimeKind.INTEGER else now // 1_000_000
        return stamp if self.shown is None else max(stamp, self.shown)  # a clock set back must not disorder a stream
