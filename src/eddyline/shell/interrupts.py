"""Ctrl-C twice in a row: the second must not interrupt what puts the terminal in order after the first, or prepares it
for the next input.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


@contextmanager
def first_interrupt_only() -> Iterator[None]:
    """The first Ctrl-C within the block raises ``KeyboardInterrupt``; further ones do nothing.

    >>> with first_interrupt_only():
    ...     try:
    ...         signal.raise_signal(signal.SIGINT)
    ...     except KeyboardInterrupt:
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("interrupted once")
    interrupted once
    """
    interrupted = False

    def once(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            raise KeyboardInterrupt

    with _handled_by(once):
        yield


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Around a prompt, which takes Ctrl-C as a key once it is there.

    >>> with interrupts_ignored():
    ...     signal.raise_signal(signal.SIGINT)
    """
    with _handled_by(signal.SIG_IGN):
        yield


@contextmanager
def _handled_by(handler: Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
