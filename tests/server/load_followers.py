"""Many followers of the query ``q`` in one process, for ``measure_followers``.

They stand for programs on other machines, so this process has the lowest priority that there is, and its CPU is told
apart. Each follower checks that it gets every row once. One that is dropped as too slow comes back with its last id.
"""

from __future__ import annotations

import os
import re
import selectors
import socket
import sys
import time

EVENT = re.compile(rb'data: \{"first": (\d+), "last": (\d+)')
READ_BYTES = 1 << 18


def lowest_priority() -> None:
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class _Follower:
    """``last`` is the row that it has, ``rest`` the beginning of the next event."""

    def __init__(self, last: int) -> None:
        self.last, self.rest = last, b""
        self.connection: socket.socket | None = None


class Followers:
    def __init__(self, port: int, count: int, after: int) -> None:
        self._port = port
        self._selector = selectors.DefaultSelector()
        self._followers = [_Follower(after) for _ in range(count)]
        self.dropped = self.faults = self.bytes = 0
        for follower in self._followers:
            self._connect(follower)

    def _connect(self, follower: _Follower) -> None:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        path = f"/v1/queries/q/follow?after={follower.last}"
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{self._port}\r\n\r\n".encode())
        connection.setblocking(False)
        follower.connection, follower.rest = connection, b""
        self._selector.register(connection, selectors.EVENT_READ, follower)

    def run(self) -> None:
        """Until standard input ends. For each row that it names: say when all followers have it."""
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        wanted = 0
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not sys.stdin:
                    self._read(key.data)
                    continue
                line = sys.stdin.readline()
                if not line:
                    return
                wanted = int(line)
            if wanted and min(f.last for f in self._followers) >= wanted:
                print(self.dropped, self.faults, self.bytes, time.process_time(), flush=True)
                wanted = 0

    def _read(self, follower: _Follower) -> None:
        assert follower.connection is not None
        try:
            data = follower.connection.recv(READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(follower.connection)
            follower.connection.close()
            self._connect(follower)
            return
        self.bytes += len(data)
        whole, separator, rest = (follower.rest + data).rpartition(b"\n\n")
        follower.rest = rest
        if not separator:
            return
        for first, last in EVENT.findall(whole):
            self.faults += int(first) != follower.last + 1
            follower.last = int(last)
        self.dropped += b"event: dropped" in whole[-1000:]


def main(port: int, count: int, after: int) -> None:
    lowest_priority()
    Followers(port, count, after).run()
