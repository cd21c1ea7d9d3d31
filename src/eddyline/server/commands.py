"""The engine's thread: it runs one command after another, and commits what they did.

An answer to a writer means: this is on the disk. Commands that come while a commit is written share the next one.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from eddyline.core.errors import EddylineError
from eddyline.server.store import Store

T = TypeVar("T")
TICK_SECONDS = 0.1  # between two looks at the clock, for idle streams and system streams
COMMIT_SHARE = 4  # a commit without a waiting client comes no sooner than so many times what the last one took


class Refused(EddylineError):
    """A limit of the server, or something that stands in the way."""


class ComeBack(Refused):
    """It cannot be done now, and may be in a moment."""


@dataclass(slots=True)
class _Command(Generic[T]):
    work: Callable[[], T]
    answer: Future[T]
    durable: bool


class CommandThread(ABC):
    """Between commands it reads sources and looks at the clock, as the subclass says."""

    def __init__(self, store: Store, commit_seconds: float) -> None:
        self.store, self._commit_seconds = store, commit_seconds
        self.broken = ""  # why nothing can be saved any more
        self._commands: queue.Queue[_Command[Any] | None] = queue.Queue()
        self._waiting: list[tuple[Future[Any], Any]] = []
        self._dirty = self._stopping = False
        self._last_commit = self._last_cost = self._last_tick = 0.0
        self.commits, self.commit_seconds = 0, 0.0
        self._thread = threading.Thread(target=self._run, name="eddyline engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Commit and end."""
        self._commands.put(None)
        self._thread.join()

    def submit(self, work: Callable[[], T], *, durable: bool = True) -> Future[T]:
        """Run a command in the engine's thread; ``durable``: the answer comes when the change is on the disk."""
        answer: Future[T] = Future()
        if self.broken:
            answer.set_exception(Refused(self.broken))
        else:
            self._commands.put(_Command(work, answer, durable))
        return answer

    # ── what the thread does ──────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _readable(self, now: float) -> bool:
        """Whether a source may have something new."""

    @abstractmethod
    def _read_sources(self) -> None:
        """Push what sources have into the session."""

    @abstractmethod
    def _tick(self) -> None:
        """Look at the clock."""

    @abstractmethod
    def _commit(self) -> None:
        """Save all that was done, and give the answers for which clients wait (``_answer``)."""

    def _answer(self, began: float) -> None:
        """The commit that began then is on the disk."""
        self._dirty = False
        waiting, self._waiting = self._waiting, []
        for answer, result in waiting:
            answer.set_result(result)
        self.commits += 1
        self._last_commit = time.monotonic()
        self._last_cost = self._last_commit - began
        self.commit_seconds += self._last_cost

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._take_commands()
                self._read_sources()
                self._tick()
                if self._due():
                    self._commit()
            except Exception as error:
                self._break(error)
        if self._dirty and not self.broken:
            try:
                self._commit()
            except Exception as error:
                self._break(error)

    def _break(self, error: Exception) -> None:
        """The state cannot be saved, so nothing may be promised any more; what was committed stands."""
        if not isinstance(error, EddylineError | OSError | sqlite3.Error):
            traceback.print_exc()  # not the disk: a mistake of the server's own
        self.broken = f"the server cannot save its state and takes no changes any more: {error}"
        print(f"error: {self.broken}", file=sys.stderr, flush=True)
        with contextlib.suppress(sqlite3.Error):
            self.store.rollback()
        for answer, _ in self._waiting:
            answer.set_exception(Refused(self.broken))
        self._waiting = []
        self._dirty = False

    def _take_commands(self) -> None:
        wait = self._pause()
        while True:
            try:
                command = self._commands.get(timeout=wait) if wait > 0 else self._commands.get_nowait()
            except queue.Empty:
                return
            wait = 0.0
            if command is None:
                self._stopping = True
                return
            if command.answer.set_running_or_notify_cancel():
                self._execute(command)

    def _execute(self, command: _Command[T]) -> None:
        if self.broken:
            command.answer.set_exception(Refused(self.broken))
            return
        try:
            with self.store.savepoint():
                result = command.work()
        except Exception as error:
            command.answer.set_exception(error)
            return
        self._dirty = True
        if command.durable:
            self._waiting.append((command.answer, result))
        else:
            command.answer.set_result(result)

    def _pause(self) -> float:
        now = time.monotonic()
        if self._due() or self._readable(now):
            return 0.0
        until = [self._last_tick + TICK_SECONDS]
        if self._dirty:
            until.append(self._last_commit + self._last_cost)
        return max(0.001, min(until) - now)

    def _due(self) -> bool:
        if not self._dirty:
            return False
        if self._stopping:
            return True
        since = time.monotonic() - self._last_commit
        if self._waiting:
            return since >= self._last_cost
        return since >= max(self._commit_seconds, COMMIT_SHARE * self._last_cost)
