"""What 1,000 followers cost: ``python -m tests.server.measure_followers``.

Rounds without and with followers take turns on one server. Printed for each: rows pushed a second (wall), CPU of the
engine's thread for a row, and CPU of the whole server process for a row. The followers read in a process of their own;
their CPU is not counted, but on few cores they take time from the server, so the wall figure is theirs, too.
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

ROWS, PUSHES = 20_000, 50
TICK = os.sysconf("SC_CLK_TCK")


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


def round_of(server: RunningServer, first: int) -> tuple[float, dict[int, float]]:
    before, began = threads(server.process.pid), time.monotonic()
    for n in range(PUSHES):
        start = first + n * ROWS
        body = "ts,a\n" + "\n".join(f"{t},{t % 1000}" for t in range(start, start + ROWS))
        server.request("POST", "/v1/streams/S/rows", body.encode(), {"Content-Type": "text/csv"})
    seconds = time.monotonic() - began
    after = threads(server.process.pid)
    return seconds, {t: s - before.get(t, 0.0) for t, s in after.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--followers", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--follow", type=int, help="the port: only follow")
    options = parser.parse_args()
    if options.follow:
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
        found: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
        engine = 0
        for _ in range(options.rounds):
            for followed in (False, True):
                at += ROWS * PUSHES
                clients = None
                if followed:
                    command = [sys.executable, "-m", "tests.server.measure_followers"]
                    command += ["--follow", str(server.port), "--followers", str(options.followers)]
                    clients = subprocess.Popen(command, stdout=subprocess.DEVNULL)
                    until = f"eddyline_followers {options.followers}"
                    while until not in server.request("GET", "/metrics").body.decode():
                        time.sleep(0.2)
                    time.sleep(3)  # what was there before is read
                seconds, spent = round_of(server, at)
                engine = engine or max(spent, key=lambda t: spent[t])
                rows = ROWS * PUSHES
                found[followed].append(
                    (rows / seconds, 1e6 * spent.get(engine, 0) / rows, 1e6 * sum(spent.values()) / rows)
                )
                if clients is not None:
                    clients.kill()
                    clients.wait()
                    time.sleep(1)
    for followed, name in ((False, "without"), (True, f"with {options.followers}")):
        wall, thread, process = (median(f[n] for f in found[followed]) for n in range(3))
        print(f"{name:>10}: {wall:9,.0f} rows/s, engine's thread {thread:.2f} µs a row, process {process:.2f} µs a row")
    ratio = [median(f[n] for f in found[True]) / median(f[n] for f in found[False]) for n in range(3)]
    print(f"rows/s {ratio[0]:.3f} (bound 0.95), engine's CPU a row {ratio[1]:.3f}, process's {ratio[2]:.3f}")


if __name__ == "__main__":
    main()
