"""kill −9 at random moments: every query resumes, and a follower that resumes by id has each row exactly once."""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

import eddyline as ed
from tests.scale import DEEP
from tests.server.running import RunningServer

KILLS = 20 if DEEP else 4
SEED = int(os.environ.get("EDDYLINE_SEED", "23"))
COLUMNS = {"ts": "bigint", "k": "bigint", "v": "bigint"}
QUERIES = {
    "passed": "SELECT Istream(k, v) FROM A WHERE v % 3 > 0 AND k < 40",
    "sums": "SELECT k, sum(v) AS total, count(*) AS n FROM A [ROWS 50] WHERE k < 5 GROUP BY k",
    "pairs": "SELECT Istream(A.k, A.v, B.v AS w) FROM A [RANGE 60], B [RANGE 60] WHERE A.k = B.k",
    "over": "SELECT Istream(count(*) AS n) FROM passed",
}
BROKEN = (OSError, http.client.HTTPException)


def rows_of(number: int) -> list[dict[str, int]]:
    draw = random.Random(number)
    return [{"ts": 20 * number + i, "k": draw.randrange(50), "v": draw.randrange(1000)} for i in range(20)]


class Pusher(threading.Thread):
    """Pushes numbered batches; whatever was not answered is sent again."""

    def __init__(self, server: RunningServer, stream: str) -> None:
        super().__init__(daemon=True)
        self.server, self.stream = server, stream
        self.done = threading.Event()
        self.sent = self.repeated = 0

    def run(self) -> None:
        while not self.done.is_set():
            body = b"".join(json.dumps(r).encode() + b"\n" for r in rows_of(self.sent))
            path = f"/v1/streams/{self.stream}/rows?push_id={self.stream}/{self.sent}"
            try:
                answer = self.server.request("POST", path, body, {"Content-Type": "application/x-ndjson"})
            except BROKEN:
                time.sleep(0.05)
                continue
            assert answer.status == 200, answer
            self.repeated += answer.data["repeated"]
            self.sent += 1


class Follower(threading.Thread):
    """Follows one query to its end, and comes back with the last id whenever the connection breaks."""

    def __init__(self, server: RunningServer, query: str) -> None:
        super().__init__(daemon=True)
        self.server, self.query = server, query
        self.rows: list[dict[str, Any]] = []
        self.last: str | None = None
        self.resumed = 0
        self.ended = False

    def run(self) -> None:
        while not self.ended:
            try:
                connection, followed = self.server.follow(self.query, self.last)
                self.resumed += 1
                for e in followed:
                    if e.kind == "end":
                        assert e.data["status"] == "ended", e
                        self.ended = True
                        break
                    assert e.kind == "rows", e
                    assert e.data["first"] == len(self.rows) + 1, "a row is missing or repeated"
                    self.rows += e.data["rows"]
                    self.last = e.id
                connection.close()
            except BROKEN:
                time.sleep(0.05)


def expected(batches: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    session = ed.Session()
    schema = pa.schema({n: pa.int64() for n in COLUMNS})
    for name in batches:
        session.stream(name, [r for i in range(batches[name]) for r in rows_of(i)], timestamp="ts", schema=schema)
    queries = {n: session.query(text, name=n) for n, text in QUERIES.items()}
    session.run()
    return {n: q.to_arrow().to_pylist() for n, q in queries.items()}


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(r, sort_keys=True) for r in rows)


def test_followers_have_each_row_once_whenever_the_server_is_killed(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    server = RunningServer(tmp_path / "state")
    for name in ("A", "B"):
        body = {"name": name, "columns": list(COLUMNS.items()), "timestamp": "ts"}
        assert server.request("POST", "/v1/streams", body).status == 201
    for name, text in QUERIES.items():
        assert server.request("POST", "/v1/queries", {"text": text, "name": name}).status == 201
    altered = server.request("PATCH", "/v1/queries/passed", {"options": {"filters": "sweep"}})
    assert altered.status == 200
    pushers = [Pusher(server, name) for name in ("A", "B")]
    followers = [Follower(server, name) for name in QUERIES]
    for thread in (*pushers, *followers):
        thread.start()
    relays = 0  # killed processes that serve followers, each some time before its server
    for _ in range(KILLS):
        enough, until = sum(p.sent for p in pushers) + draw.randrange(3, 15), time.monotonic() + 30
        while sum(p.sent for p in pushers) < enough and time.monotonic() < until:
            time.sleep(0.01)
        relay = server.followers_process()
        if relay is not None:
            relay.kill()
            relays += 1
        time.sleep(draw.uniform(0, 0.2))
        server.kill()
        server.start()
    time.sleep(0.5)
    for p in pushers:
        p.done.set()
        p.join(150)
    for name in ("A", "B"):
        assert server.request("POST", f"/v1/streams/{name}/finish").status == 204
    for f in followers:
        f.join(150)
        assert f.ended, f.query
    options = server.request("GET", "/v1/queries/passed").data["options"]
    assert server.stop() == 0
    wanted = expected({p.stream: p.sent for p in pushers})
    for f in followers:
        assert bag(f.rows) == bag(wanted[f.query]), f.query
        times = [r["_time"] for r in f.rows]
        assert times == sorted(times)
    assert options == {"filters": "sweep"}
    pushed = sum(p.sent for p in pushers)
    resumed = sum(f.resumed for f in followers)
    assert relays > KILLS // 2 and pushed > 2 * KILLS and resumed > 2 * KILLS and all(f.rows for f in followers)
    found, repeated = sum(len(f.rows) for f in followers), sum(p.repeated for p in pushers)
    killed = f"{KILLS} kills and {relays} of the process for followers"
    print(f"{killed}, {pushed} pushes, {repeated} repeated, {resumed} connections, {found} rows")


def test_state_written_and_not_committed_is_not_taken_over(tmp_path: Path) -> None:
    """A kill between the snapshot and the transaction: the one before counts, and nothing is repeated."""
    from eddyline.server.declarations import Declaration
    from eddyline.server.formats import parsed
    from eddyline.server.service import Service
    from eddyline.server.settings import Settings

    settings = Settings(tmp_path / "state")
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "v": pa.int64()})

    def batch(number: int) -> Any:
        return parsed(b"".join(json.dumps(r).encode() + b"\n" for r in rows_of(number)), "application/x-ndjson", schema)

    service = Service(settings)
    service.start()
    body = {"columns": list(COLUMNS.items()), "timestamp": "ts"}
    service.submit(lambda: service.create(Declaration("stream", "A", body))).result()
    query = Declaration("query", "n", {"text": "SELECT Istream(count(*) AS n) FROM A", "options": {}})
    service.submit(lambda: service.create(query)).result()
    service.submit(lambda: service.push("A", batch(0), ("p", 0))).result()
    service.stop()
    service = Service(settings)  # not started: what follows stands for a thread that is killed
    assert service.push("A", batch(1), ("p", 1))
    service.queries["n"].journal.stage(service.session.queries[0].fetch())
    service.session.snapshot(service.snapshots)
    service.store.rollback()
    service.store.close()
    service._lock.close()
    service = Service(settings)
    assert service.queries["n"].journal.last == 19  # the last instant is open
    service.start()
    assert service.submit(lambda: service.push("A", batch(1), ("p", 1))).result()
    assert not service.submit(lambda: service.push("A", batch(1), ("p", 1))).result()
    journal = service.queries["n"].journal
    rows = [r for c in journal.read(0) for r in c.rows.to_pylist()]
    service.stop()
    assert [r["n"] for r in rows] == list(range(1, 40))


def test_the_catalog_survives_a_kill(tmp_path: Path) -> None:
    """Queries that came at different moments, were dropped, altered, pinned or failed: all is as it was."""
    server = RunningServer(tmp_path / "state")
    lines = {"Content-Type": "application/x-ndjson"}

    def push(first: int, count: int) -> None:
        body = b"".join(b'{"ts": %d, "k": %d, "v": %d}\n' % (t, t % 7, 5 - t) for t in range(first, first + count))
        assert server.request("POST", "/v1/streams/A/rows", body, lines).status == 200

    def register(name: str, text: str) -> None:
        assert server.request("POST", "/v1/queries", {"text": text, "name": name}).status == 201

    for name in ("A", "unused"):
        body = {"name": name, "columns": list(COLUMNS.items()), "timestamp": "ts"}
        assert server.request("POST", "/v1/streams", body).status == 201
    server.request("POST", "/v1/views", {"name": "V", "text": "SELECT k, v FROM A WHERE k > 0"})
    register("first", "SELECT Istream(count(*) AS n) FROM A [ROWS 100]")
    register("gone", "SELECT k, count(*) AS n FROM A [RANGE 3] GROUP BY k")
    register("fails", "SELECT Istream(10 / (v + 15) AS x) FROM A")
    push(0, 5)
    register("second", "SELECT Istream(count(*) AS n) FROM A [ROWS 100]")
    register("on_view", "SELECT Istream(sum(k) AS s) FROM V")
    push(5, 5)
    assert server.request("DELETE", "/v1/queries/gone").status == 204
    register("aside", "SELECT * FROM late(first)")
    assert server.request("DELETE", "/v1/queries/aside").status == 204
    assert server.request("DELETE", "/v1/streams/unused").status == 204
    server.request("PATCH", "/v1/queries/second", {"options": {"memory": "1 MB"}})
    server.request("POST", "/v1/queries/first/pin")
    server.request("PATCH", "/v1/streams/A", {"slack": 2})
    push(10, 15)
    register("reads_failed", "SELECT Istream(x) FROM fails WHERE x > 100")
    before = server.request("GET", "/v1/catalog").data
    statuses = {q["name"]: q["status"] for q in before["queries"]}
    assert statuses["fails"] == "failed" and statuses["reads_failed"] == "running" and "gone" not in statuses
    server.kill()
    server.start()
    after = server.request("GET", "/v1/catalog").data
    assert after == before
    assert server.request("GET", "/v1/queries/first").data["pinned"] is True
    push(25, 5)
    assert server.request("POST", "/v1/streams/A/finish").status == 204
    for name, rows in (("first", 30), ("second", 25)):
        got = server.request("GET", f"/v1/queries/{name}/results")
        assert [json.loads(line)["n"] for line in got.body.splitlines()] == list(range(1, rows + 1)), name
    assert server.stop() == 0
