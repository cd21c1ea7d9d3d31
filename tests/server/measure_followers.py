"""What 1,000 followers cost the query: ``python -m tests.server.measure_followers``.

One client pushes without a pause, and rounds without and with followers take turns on one server.
Printed for each, medians of the rounds:

- rows a second that the query takes, by the clock. Pushing client, followers and server share the cores of the machine,
  so this is of all of them. The clients that follow run at the lowest priority.
- CPU of the engine's thread for a row, and of the whole process in which the engine runs: what the query's throughput
  depends on where there are cores enough.
- CPU of the process that serves the followers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.server.running import RunningServer

ROWS, PUSHES = 20_000, 100
TICK = os.sysconf("SC_CLK_TCK")
CSV = {"Content-Type": "text/csv"}


def threads(pid: int) -> dict[int, float]:
    """CPU seconds of each thread."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(") ")[2].split()
        found[int(task.name)] = (int(fields[11]) + int(fields[12])) / TICK
    return found


async def follow(port: int, count: int) -> None:
    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        writer.write(f"GET /v1/queries/q/follow?after=0 HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        while await reader.read(1 << 18):
            pass

    print("following", flush=True)
    await asyncio.gather(*(one() for _ in range(count)), return_exceptions=True)


def bodies(first: int) -> list[bytes]:
    found = []
    for n in range(PUSHES):
        start = first + n * ROWS
        found.append(("ts,a\n" + "\n".join(f"{t},{t % 1000}" for t in range(start, start + ROWS))).encode())
    return found


def cpu(pid: int | None) -> float:
    return 0.0 if pid is None else sum(threads(pid).values())


def round_of(server: RunningServer, first: int) -> tuple[float, dict[int, float], float]:
    """Seconds, CPU of each thread of the server, CPU of the process for followers."""
    waiting, process = bodies(first), server.followers_process()
    relay = None if process is None else process.pid
    before, served, began = threads(server.process.pid), cpu(relay), time.monotonic()
    for body in waiting:
        server.request("POST", "/v1/streams/S/rows", body, CSV)
    seconds = time.monotonic() - began
    after = threads(server.process.pid)
    return seconds, {t: s - before.get(t, 0.0) for t, s in after.items()}, cpu(relay) - served


def followed_by(server: RunningServer, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.server.measure_followers", "--follow", str(server.port)]
    clients = subprocess.Popen([*command, "--followers", str(count)], stdout=subprocess.DEVNULL)
    until = f"eddyline_followers {count}\n"
    while until not in server.request("GET", "/metrics").body.decode():
        time.sleep(0.2)
    time.sleep(2)  # what was there before is read
    return clients


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--followers", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--follow", type=int, help="the port: only follow")
    options = parser.parse_args()
    if options.follow:
        os.nice(19)
        asyncio.run(follow(options.follow, options.followers))
        return
    state = Path(tempfile.mkdtemp()) / "state"
    with RunningServer(state, "--max-rate", "100000", "--max-followers", "3000") as server:
        columns = [["ts", "bigint"], ["a", "bigint"]]
        server.request("POST", "/v1/streams", {"name": "S", "columns": columns, "timestamp": "ts"})
        text = "SELECT Istream(a, count(*) AS n) FROM S [RANGE 5000] WHERE a < 10 GROUP BY a"
        server.request("POST", "/v1/queries", {"name": "q", "text": text})
        at = 0
        round_of(server, at)  # compiles
        found: dict[bool, list[tuple[float, ...]]] = {False: [], True: []}
        engine, rows = 0, ROWS * PUSHES
        for _ in range(options.rounds):
            for followed in (False, True):
                at += rows
                clients = followed_by(server, options.followers) if followed else None
                seconds, spent, served = round_of(server, at)
                engine = engine or max(spent, key=lambda t: spent[t])
                each = (spent.get(engine, 0.0), sum(spent.values()), served)
                found[followed].append((rows / seconds, *(1e6 * s / rows for s in each)))
                if clients is not None:
                    clients.kill()
                    clients.wait()
                    time.sleep(1)
    for followed, name in ((False, "without"), (True, f"with {options.followers}")):
        wall, thread, process, relay = (median(f[n] for f in found[followed]) for n in range(4))
        print(
            f"{name:>10}: {wall:9,.0f} rows/s; CPU a row: engine's thread {thread:.2f} µs,"
            f" its process {process:.2f} µs, followers' process {relay:.2f} µs"
        )
    ratio = [median(f[n] for f in found[True]) / median(f[n] for f in found[False]) for n in range(3)]
    print(
        f"with/without: rows/s {ratio[0]:.3f} (bound 0.95),"
        f" CPU a row of the engine's thread {ratio[1]:.3f}, of its process {ratio[2]:.3f} (bound 1.053)"
    )


if __name__ == "__main__":
    main()
