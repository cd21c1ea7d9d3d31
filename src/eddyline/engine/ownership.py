"""Ownership: one thread at a time works in a session.

A session is one structure of windows, indexes and queues: two threads in it at once would leave it half changed. So
every public method of a session and of its queries takes the session's turn: another thread waits until the one that
has it is done. What one call brings is processed as a whole, and calls of several threads come one after another, in
the order in which they get the turn.

The thread that has the turn cannot take it again: a function, an aggregate or a source of the user's that is called by
the session and uses the session itself would find it half changed. That is refused in a sentence.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

from eddyline.core.errors import EddylineError

M = TypeVar("M", bound=Callable[..., Any])


class Turn:
    """The turn of a session; entered by the thread that is to have it.

    >>> turn = Turn()
    >>> with turn:
    ...     with turn:
    ...         pass
    Traceback (most recent call last):
    ...
    eddyline.core.errors.EddylineError: the session is at work and called what uses it: ...
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._forked = False  # whether this is the copy of a session that was at work in another thread
        _turns.add(self)

    def __enter__(self) -> None:
        # Nearly always the lock is free, and nothing else is done. A lock that a thread of another process held when
        # this one was forked is never released here; ``_wait`` detects such a session, which cannot be used.
        if not self._lock.acquire(blocking=False):
            self._wait()
        self._owner = threading.get_ident()

    def _wait(self) -> None:
        if self._owner == threading.get_ident():
            raise EddylineError(
                "the session is at work and called what uses it: a function, an aggregate or a source must not push"
                " rows to its own session, nor read from it; give it a session of its own, or collect the rows and push"
                " them afterwards."
            )
        if self._forked:
            raise EddylineError(
                "the process was forked while another thread was at work in the session, so the session cannot be used"
                " here; make a new one."
            )
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner = None
        self._lock.release()


def in_turn(method: M) -> M:
    """A method of something with a ``turn`` that one thread runs at a time."""

    @wraps(method)
    def taken(self: Any, /, *arguments: Any, **options: Any) -> Any:
        with self.turn:
            return method(self, *arguments, **options)

    return cast(M, taken)


def not_pickled(what: str) -> Callable[[Any, Any], Any]:
    """A ``__reduce_ex__`` that says why this cannot go to another process."""

    def refuse(self: Any, protocol: Any) -> Any:
        raise EddylineError(
            f"{what} cannot be pickled or copied, because it has open sources and running queries: save its state with"
            " session.snapshot(directory) and restore it where the same streams and queries are declared, or send its"
            " results, query.to_arrow()."
        )

    return refuse


_turns: weakref.WeakSet[Turn] = weakref.WeakSet()


def _after_fork() -> None:
    # In the child only the forking thread exists: no other thread can release its turn there.
    for turn in list(_turns):
        turn._forked |= turn._owner not in (None, threading.get_ident())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
