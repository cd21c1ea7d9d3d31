"""Watch the memory of the page and of the server while the demo runs: ``python -m tests.server.observe_memory``.

Every half minute: the page's JavaScript heap after a collection, its DOM nodes, and the resident memory of the server.
At the end the means of the middle and of the last third are compared, without the first ten minutes, in which the page
fills the history that it keeps (ten minutes).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import mean

import psutil
from playwright.sync_api import sync_playwright

from tests.server.conftest import BROWSER
from tests.server.running import RunningServer

EVERY = 30.0
FILLING = 600.0  # seconds until the page's history is full


def observe(minutes: float) -> list[tuple[float, float, float, float]]:
    """Seconds, heap of the page in MB, DOM nodes, memory of the server in MB."""
    found: list[tuple[float, float, float, float]] = []
    with (
        RunningServer(Path(tempfile.mkdtemp()) / "state", "--demo") as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(f"http://127.0.0.1:{server.port}/", wait_until="commit")
        page.wait_for_selector("section.plan .node", timeout=120_000)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable")
        process = psutil.Process(server.process.pid)
        began = time.monotonic()
        while (at := time.monotonic() - began) < 60 * minutes:
            devtools.send("HeapProfiler.collectGarbage")
            metrics = {m["name"]: m["value"] for m in devtools.send("Performance.getMetrics")["metrics"]}
            held = process.memory_info().rss / 2**20
            found.append((at, metrics["JSHeapUsedSize"] / 2**20, metrics["Nodes"], held))
            print(
                f"{at:6.0f} s  page {found[-1][1]:6.1f} MB, {found[-1][2]:5.0f} nodes  server {held:6.1f} MB",
                flush=True,
            )
            page.wait_for_timeout(1000 * EVERY)
        page.close()
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    found = observe(parser.parse_args().minutes)
    full = [f for f in found if f[0] >= FILLING]
    third = len(full) // 3
    if third:
        for name, column in (("page", 1), ("DOM nodes", 2), ("server", 3)):
            middle, last = (mean(f[column] for f in part) for part in (full[third : 2 * third], full[2 * third :]))
            print(f"{name}: middle third {middle:.1f}, last third {last:.1f} ({last / middle - 1:+.1%})")


if __name__ == "__main__":
    main()
