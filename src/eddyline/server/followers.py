"""The server's side of following: hand connections over to the process that serves them, and tell it what is committed.

That process (``relay``) is started with the first follower. If it is killed, the connections that it had end, their
followers come back with their last id, and the first of them starts it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from eddyline.server.commands import ComeBack, Refused
from eddyline.server.guard import SECURITY_HEADERS
from eddyline.server.journal import Journal

START_SECONDS: Final = 60.0  # until the process is there: it loads Arrow
HAND_OVER_SECONDS: Final = 10.0
ATTEMPTS: Final = 3  # to hand a connection over to a process that ends meanwhile
RETRY_SECONDS: Final = 0.01
TELL_SECONDS: Final = 0.05  # at least, between two messages about the same query
LOOK_SECONDS: Final = 1.0  # at most, between two looks at a query that is followed
BUSY_SECONDS: Final = 0.1  # over which the CPU of this process is taken
FULL: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.ETOOMANYREFS)
HEAD: Final = b"".join(
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n",
        *(name + b": " + value + b"\r\n" for name, value in SECURITY_HEADERS),
        b"\r\n",
    ]
).decode("latin-1")


class Ended(ComeBack):
    """The process ended before it had a connection."""


class _Process:
    """One that runs, as long as it runs."""

    def __init__(self, catalog: Path, slow_seconds: float) -> None:
        self.control, theirs = socket.socketpair()
        with theirs:
            # The same places as here, in the same order, and not the current folder before them.
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            module = [sys.executable, "-P", "-m", "eddyline.server.relay"]
            self.popen = subprocess.Popen(
                [*module, str(theirs.fileno()), str(catalog), repr(slow_seconds)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
            )
        self.control.setblocking(False)
        self.ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.progress_tasks: dict[int, asyncio.Task[None]] = {}  # by entry
        self.unread = b""
        self.alive = True

    def send(self, message: Mapping[str, Any], descriptor: int | None = None) -> None:
        """All of it, or an error; a process that does not read its messages is taken for dead by those that wait."""
        data = json.dumps(message).encode() + b"\n"
        sent = socket.send_fds(self.control, [data], [] if descriptor is None else [descriptor])
        if sent < len(data):
            raise ConnectionError("a message was cut")


class Followers:
    """The followers of one server by query, as far as their process has reported them."""

    def __init__(self, catalog: Path, slow_seconds: float) -> None:
        self._catalog, self._slow = catalog, slow_seconds
        self._busy, self._looked = 0.0, (time.monotonic(), time.process_time())
        self._process: _Process | None = None
        self._starting = asyncio.Lock()
        self._following: Counter[int] = Counter()  # by entry
        self.dropped = self.starts = 0

    @property
    def count(self) -> int:
        return sum(self._following.values())

    @property
    def process_id(self) -> int | None:
        """Of the process that serves followers, if it runs."""
        return None if self._process is None else self._process.popen.pid

    async def hand_over(self, transport: asyncio.Transport, journal: Journal, position: int) -> None:
        """Let the process answer with the events after a row. Afterwards this process has no part in the connection. A
        process that was killed before it had the connection is started again: the follower does not notice."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._hand_over(transport, journal, position)
                return
            except Ended:
                if attempt == ATTEMPTS or transport.is_closing():
                    raise

    async def _hand_over(self, transport: asyncio.Transport, journal: Journal, position: int) -> None:
        self._following[journal.entry] += 1
        process = None
        try:
            process = await self._running()
            if self.count > process.ready.result():
                most = process.ready.result()
                raise Refused(f"the system lets the server have {most} followers (ulimit -n): stop others first.")
            await self._pass(process, transport, journal, position)
        except BaseException:
            if process is None or process is self._process:  # otherwise all were forgotten with it
                self._forget(journal.entry, 1)
            raise
        transport.abort()  # closes our descriptor alone; the connection lives on
        if journal.entry not in process.progress_tasks:
            process.progress_tasks[journal.entry] = asyncio.create_task(self._send_progress(process, journal))

    async def _pass(self, process: _Process, transport: asyncio.Transport, journal: Journal, position: int) -> None:
        until = time.monotonic() + HAND_OVER_SECONDS
        while True:
            try:
                if transport.is_closing():
                    raise ConnectionError("the follower has gone")
                if not transport.get_write_buffer_size():  # an earlier answer on this connection is out
                    message = {**self._progress(journal), "after": position, "head": HEAD}
                    process.send(message, transport.get_extra_info("socket").fileno())
                    return
            except OSError as error:
                if error.errno not in FULL:
                    if not transport.is_closing():
                        self._lost(process)
                    raise Ended("the process that serves followers has ended: try again.") from error
            if time.monotonic() > until:
                raise ComeBack("the process that serves followers is overloaded: try again later.")
            await asyncio.sleep(RETRY_SECONDS)

    async def _running(self) -> _Process:
        async with self._starting:
            if self._process is not None and self._process.popen.poll() is not None:
                self._lost(self._process)
            if self._process is None:
                self._process = _Process(self._catalog, self._slow)
                self.starts += 1
                loop = asyncio.get_running_loop()
                loop.add_reader(self._process.control, self._take_messages, self._process)
            process = self._process
            try:
                await asyncio.wait_for(asyncio.shield(process.ready), START_SECONDS)
            except ConnectionError as error:
                self._lost(process)
                raise Ended("the process that serves followers ended while it started: try again.") from error
            except TimeoutError as error:
                self._lost(process)
                raise ComeBack(
                    "the process that serves followers could not be started: see the server's log."
                ) from error
            return process

    def _take_messages(self, process: _Process) -> None:
        try:
            data = process.control.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost(process)
            return
        *lines, process.unread = (process.unread + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "ready" in message:
                process.ready.set_result(message["ready"])
            else:
                self.dropped += message["dropped"]
                for entry, count in message["closed"].items():
                    self._forget(int(entry), count)

    def _forget(self, entry: int, count: int) -> None:
        self._following[entry] -= count
        if self._following[entry] <= 0:
            del self._following[entry]

    async def _send_progress(self, process: _Process, journal: Journal) -> None:
        """Send how far a query is committed, as long as it has followers."""
        sent: dict[str, Any] = {}
        try:
            while process.alive and self._following[journal.entry] > 0:
                progress = self._progress(journal)
                if progress != sent:
                    try:
                        process.send(progress)
                        sent = progress
                    except BlockingIOError:
                        pass  # tried again below
                    except OSError:
                        self._lost(process)
                        return
                    await asyncio.sleep(TELL_SECONDS)
                if self._progress(journal) == sent:
                    await journal.changed.wait(LOOK_SECONDS)
        finally:
            process.progress_tasks.pop(journal.entry, None)

    def _progress(self, journal: Journal) -> dict[str, Any]:
        now, spent = time.monotonic(), time.process_time()
        if now - self._looked[0] >= BUSY_SECONDS:
            # In tenths and up to a whole core: each change is a message.
            self._busy = round(min(1.0, (spent - self._looked[1]) / (now - self._looked[0])), 1)
            self._looked = now, spent
        return {
            "entry": journal.entry,
            "first": journal.first,
            "last": journal.last,
            "status": journal.status,
            "message": journal.message,
            "busy": self._busy,
        }

    def _lost(self, process: _Process) -> None:
        """The process is of no use any more: end it, and forget what it had."""
        if not process.alive:
            return
        process.alive = False
        with contextlib.suppress(RuntimeError):  # the loop has ended
            asyncio.get_running_loop().remove_reader(process.control)
        process.control.close()
        process.popen.kill()
        process.popen.wait()
        started = process.ready.done()
        if not started:
            process.ready.set_exception(ConnectionError("it has ended"))
            process.ready.exception()  # asyncio reports an exception that was never read
        if self._process is process:
            self._process = None
            if started:  # otherwise no connection was handed over yet, and waiting ones are counted
                self._following.clear()

    def close(self) -> None:
        """End the process; connections end with it."""
        if self._process is not None:
            self._lost(self._process)
