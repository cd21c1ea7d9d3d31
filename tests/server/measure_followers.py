"""What 1,000 followers cost the query: ``python -m tests.server.measure_followers``.

A client pushes as fast as the server takes rows. Rounds without followers, with them, and beside a *stranger* take
turns: a process that has nothing to do with the server and copies bytes between two sockets. What it costs is what any
work beside the engine costs on a machine whose cores share caches and memory. Printed: rows a second by the clock, CPU
of the engine's thread and of its process for a row, CPU of the process for followers; and the ratio of each pair of
rounds, their geometric mean and its 95 % interval.

The thousand clients (``load_followers``) stand for other machines, but run on this one: their process has the lowest
priority, and what it takes of a core while rows are pushed is printed apart. By the clock, what followers seem to cost
contains their part. They go on after a round until they have all of its rows; how long that takes is printed.
With ``--pin 0,1`` the engine's process has one core, and everything else shares the other one.
"""

from __future__ import annotations

import argparse
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median, stdev
from threading import Thread

from eddyline.server.relay import NICENESS
from tests.server import load_followers
from tests.server.running import RunningServer

ROWS, PUSHES = 20_000, 300
TICK = os.sysconf("SC_CLK_TCK")
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}  # 97.5 %, by pairs


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


def stranger() -> None:
    """Copies bytes for ever, at the priority of the followers' process."""
    os.nice(NICENESS)
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
        self.received = 0.0  # bytes, by all followers together
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
        """Rows a second; CPU a row in µs of the engine's thread and of its process; shares of a core that the process
        for followers and that of the clients took meanwhile."""
        waiting, clients = bodies(self._at), self._clients(followers) if followers else None
        self._at += ROWS * PUSHES
        process = self.server.followers_process()
        relay = None if process is None else process.pid
        if relay is not None:
            pin(relay, self._other_core)
        pin(self.server.process.pid, self._engine_core)
        load = None if clients is None else clients.pid
        before, served, read = threads(self.server.process.pid), cpu(relay), cpu(load)
        began = time.monotonic()
        self._push(waiting)
        seconds = time.monotonic() - began
        after = threads(self.server.process.pid)
        spent = {t: s - before.get(t, 0.0) for t, s in after.items()}
        self._thread = self._thread or max(spent, key=lambda t: spent[t])
        each = spent.get(self._thread, 0.0), sum(spent.values())
        beside = cpu(relay) - served, cpu(load) - read
        if clients is not None:
            self._end(clients, time.monotonic())
        return ROWS * PUSHES / seconds, *(1e6 * s / (ROWS * PUSHES) for s in each), *(s / seconds for s in beside)

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
        dropped, faults, received, _ = map(float, clients.stdout.readline().split())
        self.dropped, self.faults = self.dropped + int(dropped), self.faults + int(faults)
        self.received += received
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
        load_followers.main(options.follow, options.followers, options.after)
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
        measuring.round(options.followers)  # starts the process for followers
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
        wall, thread, process, relay, load = (median(m[n] for m in measured) for n in range(5))
        print(
            f"{name:>10}: {wall:9,.0f} rows/s; CPU a row: engine's thread {thread:.2f} µs, its process {process:.2f}"
            f" µs; of a core: followers' process {relay:.1%}, the clients (not the server's) {load:.1%}"
        )
    without, followed, beside = found
    for one, other in ((followed, without), (beside, without), (followed, beside)):
        for n, what in enumerate(("rows/s", "CPU a row of the engine's thread", "CPU a row of its process")):
            ratios = [b[n] / a[n] for a, b in zip(found[other], found[one], strict=True)]
            print(f"{one}/{other}: {what} {interval(ratios)}; {' '.join(f'{r:.3f}' for r in ratios)}")
    print(
        f"dropped and come back {measuring.dropped}, rows lost or repeated {measuring.faults},"
        f" {measuring.received / 1e9:.1f} GB received, the last follower had all rows of a round"
        f" {median(measuring.behind):.1f} s after its end (median; at most {max(measuring.behind):.1f} s)"
    )


if __name__ == "__main__":
    main()
