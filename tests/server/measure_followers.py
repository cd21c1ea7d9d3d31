"""What 1,000 followers cost the query: ``python -m tests.server.measure_followers``.

With ``--pin 0,1`` the engine's process has a core of its own; the client that pushes, the process for followers and the
thousand clients share another one, so that by the clock one sees what followers cost the engine, and not what they cost
the machine. Rounds without followers, with them, and beside a *stranger* take turns: a process that has nothing to do
with the server and copies bytes between two sockets on the core of the followers. What it costs is what any work beside
the engine costs on a machine whose cores share caches and memory. Printed: rows a second by the clock, CPU of the
engine's thread and of its process for a row, CPU of the process for followers; and the ratio of each pair of rounds,
their geometric mean and its 95 % interval.

Every follower checks that it gets each row once. One that is dropped as too slow comes back with its last id.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median, stdev
from threading import Thread

from tests.server.running import RunningServer

ROWS, PUSHES = 20_000, 120
TICK = os.sysconf("SC_CLK_TCK")
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}  # 97.5 %, by pairs
EVENT = re.compile(rb'data: \{"first": (\d+), "last": (\d+)')


def threads(pid: int) -> dict[int, float]:
    """CPU seconds of each thread."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(") ")[2].split()
        found[int(task.name)] = (int(fields[11]) + int(fields[12])) / TICK
    return found


def cpu(pid: int | None) -> float:
    return 0.0 if pid is None else sum(threads(pid).values())


def pin(pid: int, core: int | None) -> None:
    for thread in threads(pid) if core is not None else ():
        os.sched_setaffinity(thread, {core})


class Clients:
    """Many followers in one process. ``last`` is the row that each has."""

    def __init__(self, port: int, count: int, after: int) -> None:
        self._port, self.last = port, [after] * count
        self.dropped = self.faults = 0

    async def run(self) -> None:
        await asyncio.gather(*(self._follow(n) for n in range(len(self.last))), self._report())

    async def _follow(self, n: int) -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
            path = f"/v1/queries/q/follow?after={self.last[n]}"
            writer.write(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{self._port}\r\n\r\n".encode())
            rest = b""
            while data := await reader.read(1 << 18):
                *events, rest = (rest + data).split(b"\n\n")
                for event in events:
                    self._take(n, event)
            writer.close()

    def _take(self, n: int, event: bytes) -> None:
        found = EVENT.search(event)
        if found is not None:
            first, last = map(int, found.groups())
            self.faults += first != self.last[n] + 1
            self.last[n] = last
        else:
            self.dropped += b"event: dropped" in event

    async def _report(self) -> None:
        """For each row that standard input names: say when all followers have it."""
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            while min(self.last) < int(line):
                await asyncio.sleep(0.05)
            print(self.dropped, self.faults, flush=True)
        os._exit(0)


def stranger() -> None:
    """Copies bytes for ever, at the priority of the followers' process."""
    os.nice(5)
    ours, theirs = socket.socketpair()
    data = bytes(1 << 16)
    while True:
        ours.sendall(data)
        left = len(data)
        while left:
            left -= len(theirs.recv(left))


def bodies(first: int) -> list[bytes]:
    found = []
    for n in range(PUSHES):
        start = first + n * ROWS
        found.append(("ts,a\n" + "\n".join(f"{t},{t % 1000}" for t in range(start, start + ROWS))).encode())
    return found


class Measuring:
    def __init__(self, server: RunningServer, cores: list[int] | None) -> None:
        self.server = server
        self._engine_core, self._other_core = (None, None) if cores is None else cores
        self._at, self._thread = 0, 0
        self.dropped = self.faults = 0
        self.behind: list[float] = []  # seconds until the last follower had the rows of a round

    def beside_a_stranger(self) -> tuple[float, ...]:
        command = [sys.executable, "-m", "tests.server.measure_followers", "--stranger"]
        process = subprocess.Popen(command)
        time.sleep(1)  # it has begun
        try:
            return self.round(0)
        finally:
            process.kill()
            process.wait()

    def round(self, followers: int) -> tuple[float, ...]:
        """Rows a second; CPU a row in µs of the engine's thread, of its process, of the process for followers."""
        waiting, clients = bodies(self._at), self._clients(followers) if followers else None
        self._at += ROWS * PUSHES
        process = self.server.followers_process()
        relay = None if process is None else process.pid
        if relay is not None:
            pin(relay, self._other_core)
        pin(self.server.process.pid, self._engine_core)
        before, served, began = threads(self.server.process.pid), cpu(relay), time.monotonic()
        self._push(waiting)
        seconds = time.monotonic() - began
        after = threads(self.server.process.pid)
        spent = {t: s - before.get(t, 0.0) for t, s in after.items()}
        self._thread = self._thread or max(spent, key=lambda t: spent[t])
        each = spent.get(self._thread, 0.0), sum(spent.values()), cpu(relay) - served
        if clients is not None:
            self._end(clients, time.monotonic())
        return ROWS * PUSHES / seconds, *(1e6 * s / (ROWS * PUSHES) for s in each)

    def _push(self, waiting: list[bytes]) -> None:
        """One request behind the other on one connection, without waiting for the answers: so the server always finds
        the next rows in its socket, and does not wait until this client has its turn on the core that it shares."""
        port, got = self.server.port, b""
        head = f"POST /v1/streams/S/rows HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: text/csv\r\n"
        head += f"Authorization: Bearer {self.server.token}\r\n"
        with socket.create_connection(("127.0.0.1", port)) as raw:
            sender = Thread(
                target=lambda: [raw.sendall(f"{head}Content-Length: {len(b)}\r\n\r\n".encode() + b) for b in waiting]
            )
            sender.start()
            while got.count(b'"repeated":') < len(waiting):
                data = raw.recv(1 << 16)
                assert data, got
                got += data
            sender.join()
        assert got.count(b"HTTP/1.1 200") == len(waiting), got

    def _last(self) -> int:
        return int(self.server.request("GET", "/v1/queries/q").data["rows"])

    def _clients(self, count: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.server.measure_followers", "--follow", str(self.server.port)]
        clients = subprocess.Popen(
            [*command, "--followers", str(count), "--after", str(self._last())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        until = f"eddyline_followers {count}\n"
        while until not in self.server.request("GET", "/metrics").body.decode():
            time.sleep(0.1)
        return clients

    def _end(self, clients: subprocess.Popen[str], began: float) -> None:
        assert clients.stdin is not None and clients.stdout is not None
        print(self._last(), file=clients.stdin, flush=True)
        dropped, faults = map(int, clients.stdout.readline().split())
        self.dropped, self.faults = self.dropped + dropped, self.faults + faults
        self.behind.append(time.monotonic() - began)
        clients.kill()
        clients.wait()
        while "eddyline_followers 0\n" not in self.server.request("GET", "/metrics").body.decode():
            time.sleep(0.1)


def interval(ratios: list[float]) -> str:
    """The geometric mean, and its 95 % interval."""
    logs = [math.log(r) for r in ratios]
    half = STUDENT[len(logs)] * stdev(logs) / len(logs) ** 0.5 if len(logs) in STUDENT else math.inf
    return f"{math.exp(mean(logs)):.3f} [{math.exp(mean(logs) - half):.3f}, {math.exp(mean(logs) + half):.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--followers", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--pin", help="two cores, such as 0,1: of the engine's process, and of all others")
    parser.add_argument("--follow", type=int, help=argparse.SUPPRESS)  # the port: only follow
    parser.add_argument("--after", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--stranger", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stranger:
        stranger()
    if options.follow:
        os.nice(19)
        asyncio.run(Clients(options.follow, options.followers, options.after).run())
        return
    cores = [int(c) for c in options.pin.split(",")] if options.pin else None
    if cores is not None:
        os.sched_setaffinity(0, {cores[1]})
    state = Path(tempfile.mkdtemp()) / "state"
    with RunningServer(state, "--max-rate", "100000", "--max-followers", "3000") as server:
        columns = [["ts", "bigint"], ["a", "bigint"]]
        server.request("POST", "/v1/streams", {"name": "S", "columns": columns, "timestamp": "ts"})
        text = "SELECT Istream(a, count(*) AS n) FROM S [RANGE 5000] WHERE a < 10 GROUP BY a"
        server.request("POST", "/v1/queries", {"name": "q", "text": text})
        measuring = Measuring(server, cores)
        measuring.round(0)  # compiles
        measuring.round(0)
        rounds: dict[str, Callable[[], tuple[float, ...]]] = {
            "without": lambda: measuring.round(0),
            f"with {options.followers}": lambda: measuring.round(options.followers),
            "stranger": measuring.beside_a_stranger,
        }
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in rounds}
        for pair in range(options.pairs):
            for name in list(rounds) if pair % 2 == 0 else reversed(rounds):
                found[name].append(rounds[name]())
                print(f"{name:>10}: {found[name][-1][0]:9,.0f} rows/s", flush=True)
    for name, measured in found.items():
        wall, thread, process, relay = (median(m[n] for m in measured) for n in range(4))
        print(
            f"{name:>10}: {wall:9,.0f} rows/s; CPU a row: engine's thread {thread:.2f} µs,"
            f" its process {process:.2f} µs, followers' process {relay:.2f} µs"
        )
    without, followed, beside = found
    for one, other in ((followed, without), (beside, without), (followed, beside)):
        for n, what in enumerate(("rows/s", "CPU a row of the engine's thread", "CPU a row of its process")):
            ratios = [b[n] / a[n] for a, b in zip(found[other], found[one], strict=True)]
            print(f"{one}/{other}: {what} {interval(ratios)}; {' '.join(f'{r:.3f}' for r in ratios)}")
    print(
        f"dropped and come back {measuring.dropped}, rows lost or repeated {measuring.faults},"
        f" the last follower had all rows of a round after {max(measuring.behind):.1f} s"
    )


if __name__ == "__main__":
    main()
