"""Stopping a run between two batches.

Ctrl-C may come in the middle of an operator, when no snapshot would be whole. So the first Ctrl-C only sets a flag, and
the run stops between two batches. A second one, more than ``SAME_SIGNAL_NANOSECONDS`` later, stops the run at once; the
last snapshot is kept. (Some programs send the signal both to a process and to its group: these two count as one.)
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

from eddyline.core.time import Clock, SystemClock

SAME_SIGNAL_NANOSECONDS: Final = 500_000_000


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
            if now - self._asked_at > SAME_SIGNAL_NANOSECONDS:
                raise KeyboardInterrupt
            return
        self.asked, self._asked_at = True, now
        if self.waits and sys.stderr.isatty():
            # Python refuses to write where the signal came in the middle of writing.
            with contextlib.suppress(RuntimeError):
                print("\nstopping after this batch; Ctrl-C again stops at once", file=sys.stderr)
