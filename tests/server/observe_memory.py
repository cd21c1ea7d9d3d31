"""Watch the memory of the page and of the server for an hour: ``python -m tests.server.observe_memory``.

The queries of the demo run on a slow stream (``--rate``), so that a machine can do other work beside it. What is kept
up to a number of records is filled before the hour begins: each query's log of decisions is full on the server and on
the page (an option is altered a thousand times). What is kept for a time is full after the first eleven minutes, which
are left out: the page keeps samples of ten minutes, and its graphs show five.

Every half minute: the JavaScript heap of a tab with the plan and the decisions and of a tab with graphs, after a
collection, their DOM nodes, and the resident memory of the server and of the process that serves followers. At the end,
for each: the means of the middle and of the last third, and the slope of a line through all points with twice its
standard error.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import linear_regression, mean
from typing import Any

import psutil
import pyarrow as pa
from playwright.sync_api import sync_playwright

from eddyline.server.demo import ALERTS, COLUMNS, QUERIES, DemoRows
from eddyline.server.formats import ARROW
from eddyline.streamon.log import MAX_RECORDS
from tests.server.conftest import BROWSER
from tests.server.running import RunningServer

EVERY, PUSH_SECONDS = 30.0, 1.0
FILLING = 660.0  # seconds until what is kept for a time is full
COLLECTIONS = 3  # before the heap is read: what one of them finalizes, the next one frees
Sample = dict[str, float]


class Feeder:
    """Pushes rows in real time."""

    def __init__(self, server: RunningServer, rate: float) -> None:
        self._server, self._rows, self._last = server, DemoRows(rate), time.time()

    def push(self) -> None:
        now = time.time()
        for name, rows in (
            ("requests", self._rows.requests(self._last, now)),
            ("alerts", self._rows.alerts(self._last, now)),
        ):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_batch(rows)
            answer = self._server.request(
                "POST", f"/v1/streams/{name}/rows?wait=false", bytes(sink.getvalue()), {"Content-Type": ARROW}
            )
            assert answer.status == 200, answer
        self._last = now


def declare(server: RunningServer) -> None:
    for name, columns in (("requests", COLUMNS), ("alerts", ALERTS)):
        server.request("POST", "/v1/streams", {"name": name, "columns": columns, "timestamp": "ts"})
    for name, text in QUERIES.items():
        assert server.request("POST", "/v1/queries", {"name": name, "text": text}).status == 201


def fill_logs(server: RunningServer) -> None:
    """Let each query have as many decisions as its log keeps."""

    def alter(n: int) -> None:
        for name in QUERIES:
            answer = server.request("PATCH", f"/v1/queries/{name}", {"options": {"memory": f"{1000 + n} MB"}})
            assert answer.status == 200, answer

    with ThreadPoolExecutor(32) as threads:  # changes that come together share a commit
        list(threads.map(alter, range(MAX_RECORDS)))
    for name in QUERIES:
        assert len(server.request("GET", f"/v1/queries/{name}/decisions").data) == MAX_RECORDS


def opened(browser: Any, server: RunningServer, place: str, shown: str) -> tuple[Any, Any]:
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.goto(f"http://127.0.0.1:{server.port}/#/{place}/suspicious", wait_until="commit")
    page.wait_for_selector(shown, timeout=120_000)
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    return page, devtools


def measured(tabs: dict[str, Any], server: RunningServer) -> Sample:
    found: Sample = {}
    for name, devtools in tabs.items():
        for _ in range(COLLECTIONS):
            devtools.send("HeapProfiler.collectGarbage")
        metrics = {m["name"]: m["value"] for m in devtools.send("Performance.getMetrics")["metrics"]}
        found[f"{name}: heap, MB"] = metrics["JSHeapUsedSize"] / 2**20
        found[f"{name}: nodes"] = metrics["Nodes"]
    found["server, MB"] = psutil.Process(server.process.pid).memory_info().rss / 2**20
    followers = server.followers_process()
    found["followers' process, MB"] = 0.0 if followers is None else followers.memory_info().rss / 2**20
    return found


def observe(minutes: float, rate: float) -> list[tuple[float, Sample]]:
    """Seconds, and what was measured then."""
    found: list[tuple[float, Sample]] = []
    with (
        RunningServer(Path(tempfile.mkdtemp()) / "state", "--max-rate", "10000") as server,
        sync_playwright() as playwright,
    ):
        declare(server)
        fill_logs(server)
        feeder = Feeder(server, rate)
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        plan = opened(browser, server, "plan", "section.plan .node")
        graphs = opened(browser, server, "time", ".graph-card")
        tabs = {"plan": plan[1], "graphs": graphs[1]}
        began, due = time.monotonic(), 0.0
        while (at := time.monotonic() - began) < 60 * minutes:
            feeder.push()
            if at >= due:
                due += EVERY
                found.append((at, measured(tabs, server)))
                print(f"{at:6.0f} s", *(f"{k} {v:.1f};" for k, v in found[-1][1].items()), flush=True)
            plan[0].wait_for_timeout(1000 * PUSH_SECONDS)
        browser.close()
    return found


def slope(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Of a line through the points, and its standard error."""
    times, values = zip(*points, strict=True)
    line = linear_regression(times, values)
    rest = sum((v - line.intercept - line.slope * t) ** 2 for t, v in points)
    spread = sum((t - mean(times)) ** 2 for t in times)
    return line.slope, (rest / (len(points) - 2) / spread) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=70)
    parser.add_argument("--rate", type=float, default=300, help="rows a second")
    options = parser.parse_args()
    print(f"process {os.getpid()}", flush=True)
    full = [f for f in observe(options.minutes, options.rate) if f[0] >= FILLING]
    third = len(full) // 3
    if third < 2:
        return
    for name in full[0][1]:
        middle, last = (mean(f[1][name] for f in part) for part in (full[third : 2 * third], full[2 * third :]))
        grows, error = (3600 * 100 * x / middle for x in slope([(t, s[name]) for t, s in full]))
        print(
            f"{name}: middle third {middle:.1f}, last third {last:.1f} ({last / middle - 1:+.1%});"
            f" slope {grows:+.1f} % an hour, ±{2 * error:.1f}"
        )


if __name__ == "__main__":
    main()
