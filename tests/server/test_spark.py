"""A server whose queries run on Spark: pushed rows reach them, results are followed, shards are seen and steered, and a
kill loses and repeats nothing."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from tests.server.conftest import BROWSER
from tests.server.running import RunningServer

pytestmark = pytest.mark.spark
COUNTED = "SELECT k, count(*) AS n FROM S [RANGE 100] WHERE v < 50 AND w < 50 GROUP BY k"
SPARK = ("--runtime", "spark", "--master", "local[2]", "--shards", "3", "--max-rate", "10000")
SHOTS = os.environ.get("EDDYLINE_SCREENSHOTS")
SECONDS = 100.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("spark") / "state", *SPARK) as running:
        yield running


def rows(first: int, last: int) -> list[dict[str, int]]:
    draw = random.Random(first)
    hot = (7 if draw.random() < 0.9 else draw.randrange(8) for _ in range(first, last))  # most rows have one key
    return [
        {"ts": t, "k": k, "v": draw.randrange(60), "w": draw.randrange(60)}
        for t, k in zip(range(first, last), hot, strict=True)
    ]


def push(server: RunningServer, found: list[dict[str, int]], number: int) -> dict[str, Any]:
    answer = server.request("POST", f"/v1/streams/S/rows?push_id=p/{number}", found)
    assert answer.status == 200, answer
    return dict(answer.data)


def inline(found: list[dict[str, int]]) -> list[tuple[int, ...]]:
    """The answer in one process, of a stream that has not ended."""
    session = ed.Session()
    session.stream("S", schema=pa.schema({c: pa.int64() for c in ("ts", "k", "v", "w")}), timestamp="ts")
    query = session.query(COUNTED)
    session.push("S", found)
    return sorted(tuple(r.values()) for batch in query.fetch() for r in batch.to_pylist())


def followed(server: RunningServer, wanted: int, seconds: float = SECONDS) -> tuple[list[tuple[int, ...]], str]:
    """The results by server-sent events from the first on, over as many connections as it takes."""
    seen: list[tuple[int, ...]] = []
    connection, events = server.follow("counted", seconds=seconds)
    end, last = time.monotonic() + seconds, ""
    for e in events:
        assert e.kind == "rows" and e.data["first"] == len(seen) + 1
        seen += [tuple(r.values()) for r in e.data["rows"]]
        last = str(e.id)
        if len(seen) >= wanted or time.monotonic() > end:
            break
    connection.close()
    return seen, last


def test_a_query_runs_on_spark_is_steered_and_survives_a_kill(server: RunningServer) -> None:
    columns = [[c, "bigint"] for c in ("ts", "k", "v", "w")]
    assert server.request("POST", "/v1/streams", {"name": "S", "columns": columns, "timestamp": "ts"}).status == 201
    push(server, [{"ts": 0, "k": 1, "v": 1, "w": 1}], 1)  # before the query is registered: it does not see it
    made = server.request("POST", "/v1/queries", {"name": "counted", "text": COUNTED})
    assert made.status == 201, made
    first = rows(1, 2000)
    push(server, first, 2)
    assert push(server, first, 2)["repeated"]
    wanted = inline(first)
    seen, _ = followed(server, len(wanted))
    assert sorted(seen) == wanted

    plan = server.request("GET", "/v1/queries/counted/plan").data
    assert len(plan["shards"]) == 3 and sum(s["results"] for s in plan["shards"]) == len(wanted)
    assert next(n for n in plan["nodes"] if n["kind"] == "select")["statistics"]["elements_in"] > 0
    assert server.request("GET", "/v1/streams/S").data["input"]["arrived"] == len(first)

    assert server.request("POST", "/v1/queries/counted/pin").status == 200
    assert server.request("PATCH", "/v1/queries/counted", {"options": {"filters": "sweep"}}).status == 200
    refused = server.request("PATCH", "/v1/queries/counted", {"options": {"filters": "best"}})
    assert refused.status == 422 and "best" in refused.data["error"]
    second = rows(2000, 2600)
    push(server, second, 3)
    server.kill()  # wherever Spark is with it

    server.start()
    assert push(server, second, 3)["repeated"]
    state = server.request("GET", "/v1/queries/counted").data
    assert state["pinned"] and state["options"]["filters"] == "sweep"
    push(server, rows(2600, 2700), 4)
    wanted = inline([*first, *second, *rows(2600, 2700)])
    seen, _ = followed(server, len(wanted))
    assert sorted(seen) == wanted
    decided = server.request("GET", "/v1/queries/counted/decisions").data
    kinds = {(d["kind"], d["shard"]) for d in decided if d["by"] == "user"}
    assert {("pinned", s) for s in range(3)} <= kinds and ("option filters", 0) in kinds


def test_the_system_stream_tells_of_all_shards(server: RunningServer) -> None:
    text = "SELECT Istream(entity, value) FROM SysStream WHERE property = 'rows' AND kind = 'shard'"
    assert server.request("POST", "/v1/queries", {"name": "sys", "text": text}).status == 201
    end, found = time.monotonic() + 60, b""
    number = 2700
    while b"shard 2" not in found and time.monotonic() < end:
        server.request("POST", "/v1/streams/S/rows", rows(number, number + 10))
        number += 10
        found = server.request("GET", "/v1/queries/sys/results?wait=2").body
    assert all(f"shard {n}".encode() in found for n in range(3))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", "/v1/streams/S/finish", None, 409, "ends no stream"),
        ("POST", "/v1/streams/S/heartbeat", {"time": 9}, 409, "takes no heartbeats"),
        ("PATCH", "/v1/streams/S", {"slack": 5}, 409, "when it is declared"),
        ("POST", "/v1/streams/S/rows", [{"ts": "x"}], 422, "taken whole"),
        ("POST", "/v1/queries", {"text": "SELECT * FROM late(counted)"}, 422, "aside/late"),
        ("POST", "/v1/streams", {"name": "now", "columns": [["a", "bigint"]]}, 422, "column of time"),
        ("GET", "/v1/queries/counted/aside/late", None, 200, "[]"),
        ("GET", "/v1/queries/counted/aside/shed", None, 200, "[]"),
    ],
)
def test_what_spark_cannot_do_is_refused_in_a_sentence(
    server: RunningServer, method: str, path: str, body: Any, status: int, said: str
) -> None:
    answer = server.request(method, path, body)
    assert answer.status == status and said in answer.body.decode(), answer


@pytest.mark.browser
def test_the_page_shows_the_shards(server: RunningServer) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 980})
        page.goto(f"http://127.0.0.1:{server.port}/#/plan/counted", wait_until="commit")
        page.wait_for_selector(".shard >> nth=2", timeout=60_000)
        page.wait_for_selector("section.plan .graph[data-layout=elk]", timeout=60_000)
        assert "results" in page.inner_text(".shard >> nth=0")
        if SHOTS:
            page.screenshot(path=f"{SHOTS}/page-shards.png")
        page.close()
        browser.close()


def test_a_query_is_dropped_and_the_directory_stays_with_spark(server: RunningServer) -> None:
    assert server.request("DELETE", "/v1/queries/counted").status == 204
    assert server.request("GET", "/v1/queries/counted").status == 404
    assert not list((server.state / "spark" / "checkpoints").glob("*"))
    server.stop()
    with pytest.raises(RuntimeError, match="of a server on Spark"):
        RunningServer(Path(server.state))
