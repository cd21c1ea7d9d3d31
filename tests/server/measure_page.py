"""How the page keeps up with a large plan: ``python -m tests.server.measure_page``.

A query of 51 branches (205 operators) runs on a slow stream and is watched ten times a second, once with the graph in
sight and once with the table of operators below it. Measured in the browser:

- the time between two frames (``requestAnimationFrame``). A frame that comes late by one of the screen's or more counts
  as that many dropped ones. Without a graphics card the browser draws on the same cores as all else, so these are those
  of the machine;
- from the browser's own trace, what the page's main thread did: script, style and layout, painting for one update; the
  longest task, and how many took longer than a frame. This is what the page can do something about.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.server.conftest import BROWSER
from tests.server.running import RunningServer

FRAME = 1000 / 60  # milliseconds
BRANCHES = 51
LARGE = " UNION ALL ".join(f"SELECT a FROM drifting [RANGE 10] WHERE b < {n}" for n in range(1, BRANCHES + 1))
CATEGORIES = ["devtools.timeline", "toplevel", "v8", "disabled-by-default-devtools.timeline"]
# Parts of the trace; each is summed without what it contains of the others.
PARTS = {
    "script": {
        "FunctionCall",
        "EventDispatch",
        "TimerFire",
        "FireAnimationFrame",
        "RunMicrotasks",
        "SimpleWatcher::OnHandleReady",
        "EvaluateScript",
        "v8.callFunction",
    },
    "collection": {"MinorGC", "MajorGC", "V8.GCScavenger", "V8.GCFinalizeMC", "V8.GCIncrementalMarking"},
    "style and layout": {"UpdateLayoutTree", "Layout", "PrePaint", "UpdateLayerTree", "Layerize"},
    "painting": {"Paint", "Commit", "CompositeLayers"},
}

FRAMES = """(milliseconds) => new Promise((done) => {
  const times = [];
  let updates = 0, last = null, first = null;
  const seen = new MutationObserver(() => { updates++; });
  const all = {subtree: true, childList: true, characterData: true, attributes: true};
  seen.observe(document.querySelector('section.plan'), all);
  const step = (now) => {
    first ??= now;
    if (last !== null) times.push(now - last);
    last = now;
    if (now - first < milliseconds) { requestAnimationFrame(step); return; }
    seen.disconnect();
    done({updates, seconds: (now - first) / 1000, times});
  };
  requestAnimationFrame(step);
})"""


@contextmanager
def large_plan(rate: float) -> Iterator[RunningServer]:
    """A server with a query of 205 operators, and rows for it."""
    with RunningServer(Path(tempfile.mkdtemp()) / "state", "--max-rate", "10000") as server:
        columns = [["ts", "bigint"], ["a", "bigint"], ["b", "bigint"]]
        server.request("POST", "/v1/streams", {"name": "drifting", "columns": columns, "timestamp": "ts"})
        made = server.request("POST", "/v1/queries", {"name": "large", "text": LARGE})
        assert made.status == 201, made
        ended = threading.Event()

        def push() -> None:
            moment = 0
            while not ended.wait(0.1):
                lines = ["ts,a,b", *(f"{moment + n},{n % 7},{n % 60}" for n in range(max(1, int(rate / 10))))]
                moment += len(lines) - 1
                body = "\n".join(lines).encode()
                server.request("POST", "/v1/streams/drifting/rows?wait=false", body, {"Content-Type": "text/csv"})

        pushing = threading.Thread(target=push)
        pushing.start()
        try:
            yield server
        finally:
            ended.set()
            pushing.join()


def opened(browser: Any, server: RunningServer) -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.goto(f"http://127.0.0.1:{server.port}/#/plan/large", wait_until="commit")
    page.wait_for_selector("section.plan .graph[data-layout=elk]", timeout=120_000)
    assert page.locator("section.plan [data-node]").count() >= 200
    return page


def dropped(times: list[float]) -> int:
    """Frames of the screen that had no frame of the page.

    >>> dropped([16.7, 17.0, 33.3, 50.0])
    3
    """
    return sum(max(0, round(t / FRAME) - 1) for t in times)


def main_thread(events: list[dict[str, Any]], updates: int) -> dict[str, float]:
    """Milliseconds of each part for one update, and the tasks, of the thread that ran the page's script."""
    threads = Counter((e["pid"], e["tid"]) for e in events if e["name"] == "FireAnimationFrame")
    if not threads:
        return {}
    ((thread, _),) = threads.most_common(1)
    mine = sorted(
        (e for e in events if (e["pid"], e["tid"]) == thread and "dur" in e), key=lambda e: (e["ts"], -e["dur"])
    )
    parts, open_events = Counter[str](), list[tuple[float, str | None]]()
    for e in mine:
        part = next((p for p, names in PARTS.items() if e["name"] in names), None)
        while open_events and open_events[-1][0] <= e["ts"]:
            open_events.pop()
        around = next((p for _, p in reversed(open_events) if p is not None), None)
        if part is not None:
            parts[part] += e["dur"]
            if around is not None:
                parts[around] -= e["dur"]
        open_events.append((e["ts"] + e["dur"], part))
    tasks = [e["dur"] / 1000 for e in mine if e["name"] == "RunTask"]
    found = {f"{name}, ms an update": parts[name] / 1000 / max(1, updates) for name in PARTS}
    found["longest task, ms"] = max(tasks, default=0.0)
    found["tasks longer than a frame"] = sum(t > FRAME for t in tasks)
    return found


def measured(page: Any, browser: Any, seconds: float) -> tuple[dict[str, Any], dict[str, float]]:
    """Frames without a trace, which costs time itself; then the parts with one."""
    frames = page.evaluate(FRAMES, 1000 * seconds)
    browser.start_tracing(page=page, categories=CATEGORIES)
    traced = page.evaluate(FRAMES, 1000 * seconds)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    return frames, main_thread(events, traced["updates"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=500, help="rows a second")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with large_plan(options.rate) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        page = opened(browser, server)
        time.sleep(3)
        for shown in ("section.plan .graph", "#operators") * options.rounds:
            page.locator(shown).evaluate("e => e.scrollIntoView()")
            frames, parts = measured(page, browser, options.seconds)
            times = sorted(frames["times"])
            late = times[min(len(times) - 1, int(0.99 * len(times)))]
            print(
                f"{shown} in sight: {page.locator('section.plan [data-node]').count()} operators,"
                f" {frames['updates']} updates in {frames['seconds']:.1f} s;"
                f" {len(times)} frames, dropped {dropped(times)};"
                f" between two: median {times[len(times) // 2]:.1f} ms, 99 % {late:.1f} ms, longest {times[-1]:.1f} ms"
            )
            print("  main thread: " + ", ".join(f"{name} {value:.1f}" for name, value in parts.items()), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
