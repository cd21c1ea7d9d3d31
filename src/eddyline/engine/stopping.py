"""Stopping a run at a good moment.

Ctrl-C may come in the middle of an operator, when no snapshot would be whole. So the first one is only remembered, and
obeyed between two batches; another one, half a second later or more, stops at once, and the last snapshot stands. (Some
programs send the signal to a process and to its group: that is one request, not two.)
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

from eddyline.core.time import Clock, SystemClock

SECOND_REQUEST_AFTER: Final = 500_000_000  # nanoseconds: what comes sooner belongs to the first


class StopRequest:
    """Remembers Ctrl-C while it is entered. Outside the main thread, where signals cannot be handled, it does nothing.

    ``waits``: the run goes on to the end of its batch, and a message says so.

    >>> with StopRequest() as stop:
    ...     before = stop.asked
    ...     signal.raise_signal(signal.SIGINT)
    ...     before, stop.asked
    (False, True)
    """

    def __init__(self, clock: Clock | None = None, *, waits: bool = True) -> None:
        self.asked, self.waits = False, waits
        self._clock = clock or SystemClock()
        self._asked_at = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        now = self._clock.nanoseconds()
        if self.asked:
            if now - self._asked_at > SECOND_REQUEST_AFTER:
                raise KeyboardInterrupt
            return
        self.asked, self._asked_at = True, now
        if self.waits and sys.stderr.isatty():
            # Python refuses to write where the signal came in the middle of writing.
            with contextlib.suppress(RuntimeError):
                print("\nstopping after this batch; Ctrl-C again stops at once", file=sys.stderr)
