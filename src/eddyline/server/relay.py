"""The process that serves followers, apart from the one in which the engine runs.

The server hands over the connection of each follower with the row after which it goes on (``followers``), and says how
far the results of a query are committed. From there on the engine has no part in it: this process reads committed
results from the catalog, makes their events once, and writes them to all connections. It ends when the server does,
however that was; when it is killed, its connections end, and followers come back with their last id.

Followers have no queues: each has a position in the retained results, and one that reads slowly holds one packet.
Packets are sent in rounds. A round follows the last one after a pause of several times what that took (``pacing``), so
that many followers get more rows at once and less often.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from eddyline.server.committed import CommittedResults
from eddyline.server.follow import event
from eddyline.server.journal import Gone
from eddyline.server.pacing import cores, pause, share

PACKET_BYTES: Final = 64 << 10  # written at once: larger costs fewer calls, and more memory for a reader that is slow
PACKETS_A_ROUND: Final = 2  # that a follower gets which is behind: more makes rounds and the pauses between them longer
SHORTEST_PAUSE: Final = 0.005  # seconds between two rounds
KEEP_ALIVE: Final = 10.0  # seconds without rows after which a comment is sent
DEAD: Final = 6  # times the bound for slow readers after which one that takes nothing is cut off
CHECK_SECONDS: Final = 0.25  # between two looks at connections that wait
NICENESS: Final = 10  # where cores are few the engine comes first
SPARE_DESCRIPTORS: Final = 64  # that are not for followers
FIRST: Final = b"retry: 1000\n\n"


@dataclass(slots=True)
class Progress:
    """How far the results of a query are committed, and from which row on they are retained."""

    first: int = 1
    last: int = 0
    status: str = "running"
    message: str = ""

    @property
    def over(self) -> bool:
        return self.status != "running"

    def soon_gone(self, position: int) -> bool:
        """Whether the row after this one is in the older half of what is retained, while old rows are forgotten."""
        return self.first > 1 and position < (self.first + self.last) // 2


@dataclass(slots=True, eq=False)
class Follower:
    """A connection. ``position`` is the last row of what was written or is being written (``pending``)."""

    connection: socket.socket
    entry: int
    position: int
    pending: memoryview = field(default_factory=lambda: memoryview(b""))
    since: float = 0.0  # when the pending packet was begun, or the last one was written
    blocked: bool = False  # the connection takes nothing now
    closing: bool = False  # the pending bytes are the last
    closed: bool = False


class Relay:
    """All followers of one server. ``control`` is the connection to the server."""

    def __init__(self, control: socket.socket, results: CommittedResults, slow_seconds: float) -> None:
        self._control, self._results, self._slow = control, results, slow_seconds
        self._selector = selectors.DefaultSelector()
        control.setblocking(False)
        self._selector.register(control, selectors.EVENT_READ)
        self._unread, self._unsent = b"", b""
        self._descriptors: deque[int] = deque()  # of followers whose message is not complete
        self._progress: dict[int, Progress] = {}
        self._followers: dict[int, set[Follower]] = {}  # by entry
        self._hungry: set[Follower] = set()  # that may get more in the next round
        self._progressed: set[int] = set()  # entries with new results since the last round
        self._packets: dict[tuple[int, int], tuple[bytes, int]] = {}  # of this round, by entry and position
        self._next_round = self._next_check = 0.0
        self._busy, self._cores = 0.0, cores()  # of a core, that the server's process takes
        self._urgent = False  # a follower of this round was in danger of missing rows
        self._spent = time.process_time()  # until the end of the last round
        self._closed: Counter[int] = Counter()  # by entry, not reported yet
        self._dropped = 0  # not reported yet
        self._running = True

    def run(self) -> None:
        """Until the server has gone."""
        while self._running:
            for key, mask in self._selector.select(self._pause()):
                if key.fileobj is self._control:
                    self._take_messages()
                    continue
                if mask & selectors.EVENT_READ:
                    self._listen(key.data)
                if mask & selectors.EVENT_WRITE and not key.data.closed:
                    self._write(key.data)
            now = time.monotonic()
            if (self._hungry or self._progressed) and now >= self._next_round:
                self._round()
            if now >= self._next_check:
                self._check(now)
                self._report()

    def _pause(self) -> float:
        now = time.monotonic()
        until = self._next_check
        if self._hungry or self._progressed:
            until = min(until, self._next_round)
        return max(0.0, until - now)

    # ── the server ────────────────────────────────────────────────────────────────────────────────────────────────

    def say(self, message: Mapping[str, Any]) -> None:
        self._unsent += json.dumps(message).encode() + b"\n"
        try:
            self._unsent = self._unsent[self._control.send(self._unsent) :]
        except BlockingIOError:
            pass  # with the next report
        except OSError:
            self._running = False

    def _take_messages(self) -> None:
        try:
            data, descriptors, flags, _ = socket.recv_fds(self._control, 1 << 16, 16)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors, flags = b"", [], 0
        self._descriptors.extend(descriptors)
        if not data or flags & socket.MSG_CTRUNC:  # the server has gone, or a connection was lost on the way
            self._running = False
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, message: Mapping[str, Any]) -> None:
        entry = int(message["entry"])
        self._busy = float(message["busy"])
        self._progress[entry] = Progress(*(message[k] for k in ("first", "last", "status", "message")))
        if "after" in message:
            connection = socket.socket(fileno=self._descriptors.popleft())
            connection.setblocking(False)
            follower = Follower(connection, entry, int(message["after"]), since=time.monotonic())
            self._followers.setdefault(entry, set()).add(follower)
            self._selector.register(connection, selectors.EVENT_READ, follower)
            self._start_writing(follower, message["head"].encode("latin-1") + FIRST)
        self._progressed.add(entry)

    def _report(self) -> None:
        """Tell the server how many have gone."""
        if self._closed or self._dropped or self._unsent:
            self.say({"closed": {str(e): n for e, n in self._closed.items()}, "dropped": self._dropped})
            self._closed.clear()
            self._dropped = 0

    # ── followers ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _round(self) -> None:
        hungry, self._hungry, self._urgent = self._hungry, set(), False
        for entry in self._progressed:  # once a round, and not with each of the messages since the last one
            hungry |= self._followers.get(entry, set())
        self._progressed.clear()
        for follower in hungry:
            self._feed(follower)
        self._packets.clear()
        began, self._spent = self._spent, time.process_time()  # with what was done between the rounds
        allowed = share(self._busy, self._cores, self._urgent)
        self._next_round = time.monotonic() + max(SHORTEST_PAUSE, pause(self._spent - began, allowed))

    def _feed(self, follower: Follower) -> None:
        """Write the next packets; a follower that is still behind comes again in the next round."""
        for _ in range(PACKETS_A_ROUND):
            if follower.pending or follower.closed:
                return
            progress = self._progress[follower.entry]
            if follower.position >= progress.last:
                if progress.over:
                    self._finish(follower, "end", {"status": progress.status, "message": progress.message})
                return
            self._urgent = self._urgent or progress.soon_gone(follower.position)
            try:
                packet, last = self._packet(follower.entry, follower.position, progress.last)
            except Gone as error:
                first = self._results.first(follower.entry)
                self._finish(follower, "dropped", {"reason": str(error), "first": first})
                return
            if not packet:  # the query was dropped, and its rows with it; that it was is said with the next message
                if progress.over:
                    self._finish(follower, "end", {"status": progress.status, "message": progress.message})
                return
            follower.position = last
            self._start_writing(follower, packet)

    def _packet(self, entry: int, position: int, last: int) -> tuple[bytes, int]:
        found = self._packets.get((entry, position))
        if found is None:
            events = self._results.after(entry, position, last, PACKET_BYTES)
            found = b"".join(e.data for e in events), events[-1].last if events else position
            self._packets[entry, position] = found
        return found

    def _finish(self, follower: Follower, kind: str, data: Mapping[str, Any]) -> None:
        follower.closing = True
        self._start_writing(follower, event(kind, data))

    def _start_writing(self, follower: Follower, data: bytes) -> None:
        follower.pending, follower.since = memoryview(data), time.monotonic()
        self._write(follower)

    def _write(self, follower: Follower) -> None:
        try:
            sent = follower.connection.send(follower.pending)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(follower)
            return
        follower.pending = follower.pending[sent:]
        if follower.pending:
            if not follower.blocked:
                follower.blocked = True
                self._selector.modify(follower.connection, selectors.EVENT_READ | selectors.EVENT_WRITE, follower)
            return
        was_blocked, began, follower.since = follower.blocked, follower.since, time.monotonic()
        if was_blocked:
            follower.blocked = False
            self._selector.modify(follower.connection, selectors.EVENT_READ, follower)
        if follower.closing:
            self._close(follower)
        elif was_blocked and follower.since - began > self._slow:
            self._dropped += 1
            reason = f"this reader did not read an event for {self._slow:g} seconds; reconnect with its id"
            self._finish(follower, "dropped", {"reason": reason, "last": follower.position})
        else:
            progress = self._progress[follower.entry]
            if follower.position < progress.last or progress.over:
                self._hungry.add(follower)

    def _listen(self, follower: Follower) -> None:
        """Followers have nothing to say; that one has gone is seen here."""
        try:
            if follower.connection.recv(1 << 12):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._close(follower)

    def _check(self, now: float) -> None:
        self._next_check = now + CHECK_SECONDS
        self._results.forget_unused(now)
        for follower in [f for followers in self._followers.values() for f in followers]:
            quiet = now - follower.since
            if follower.pending:
                if quiet > self._slow * DEAD:
                    self._close(follower)
            elif quiet >= KEEP_ALIVE and follower not in self._hungry:
                self._start_writing(follower, b": still here\n\n")

    def _close(self, follower: Follower) -> None:
        if follower.closed:
            return
        follower.closed = True
        self._selector.unregister(follower.connection)
        follower.connection.close()
        self._hungry.discard(follower)
        followers = self._followers[follower.entry]
        followers.discard(follower)
        if not followers:
            del self._followers[follower.entry], self._progress[follower.entry]
        self._closed[follower.entry] += 1


def descriptors() -> int:
    """Let this process have as many connections as the system allows; how many followers that makes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass
    return max(0, (1 << 20 if soft == resource.RLIM_INFINITY else soft) - SPARE_DESCRIPTORS)


def main(arguments: list[str]) -> None:
    """``DESCRIPTOR CATALOG SECONDS``: of the connection to the server, the catalog, the bound for slow readers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is interrupted, and this process ends with it
    os.nice(NICENESS)
    if hasattr(os, "SCHED_BATCH"):  # a process of this kind takes no core from another one when it wakes up
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    results = CommittedResults(Path(arguments[1]))
    relay = Relay(socket.socket(fileno=int(arguments[0])), results, float(arguments[2]))
    relay.say({"ready": descriptors()})
    relay.run()


if __name__ == "__main__":
    main(sys.argv[1:])
