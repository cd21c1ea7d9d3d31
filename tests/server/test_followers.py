"""Slow readers, readers that come late, and those of another query of the same name."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from tests.server.running import RunningServer
from tests.server.sse import events

ROWS, WIDE = 30_000, 400


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    arguments = ("--slow", "1", "--retain", "100000")
    with RunningServer(tmp_path_factory.mktemp("followers") / "state", *arguments) as running:
        columns = [["ts", "bigint"], ["a", "string"]]
        running.request("POST", "/v1/streams", {"name": "S", "columns": columns, "timestamp": "ts"})
        running.request("POST", "/v1/queries", {"text": "SELECT Istream(ts, a) FROM S", "name": "wide"})
        for first in range(0, ROWS, 5000):
            lines = (json.dumps({"ts": t, "a": "x" * WIDE}) for t in range(first, first + 5000))
            body = "\n".join(lines).encode()
            answer = running.request("POST", "/v1/streams/S/rows", body, {"Content-Type": "application/x-ndjson"})
            assert answer.data["rows"] == 5000
        running.request("POST", "/v1/streams/S/finish")
        yield running


def test_a_slow_reader_is_dropped_with_a_reason_and_resumes(server: RunningServer) -> None:
    """A reader with a small buffer that stops reading now and then gets all rows once, over several connections."""
    seen: list[int] = []
    last, dropped, ended = "", 0, False
    for _ in range(60):
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.settimeout(20)
            raw.connect(("127.0.0.1", server.port))
            resume = f"Last-Event-ID: {last}\r\n" if last else ""
            host = f"127.0.0.1:{server.port}"
            raw.sendall(f"GET /v1/queries/wide/follow HTTP/1.0\r\nHost: {host}\r\n{resume}\r\n".encode())
            slow = dropped < 3
            if slow:
                time.sleep(2.5)  # more than the bound, and less than six times it, when nothing is said any more
            for e in events(raw.makefile("rb")):
                if e.kind == "rows":
                    assert e.data["first"] == len(seen) + 1
                    seen += [r["ts"] for r in e.data["rows"]]
                    last = str(e.id)
                elif e.kind == "dropped":
                    assert "did not take an event" in e.data["reason"]
                    dropped += 1
                elif e.kind == "end":
                    ended = True
        if ended:
            break
    assert ended and dropped >= 3
    assert seen == list(range(ROWS))
    text = server.request("GET", "/metrics").body.decode()
    assert f"eddyline_dropped_followers_total {dropped}" in text


def test_rows_that_are_not_retained_are_not_passed_over_in_silence(tmp_path: object, server: RunningServer) -> None:
    columns = [["ts", "bigint"]]
    server.request("POST", "/v1/streams", {"name": "many", "columns": columns, "timestamp": "ts"})
    server.request("POST", "/v1/queries", {"text": "SELECT Istream(ts) FROM many", "name": "lost"})
    for first in range(0, 160_000, 40_000):
        body = "\n".join(["ts", *(str(t) for t in range(first, first + 40_000))]).encode()
        assert server.request("POST", "/v1/streams/many/rows", body, {"Content-Type": "text/csv"}).status == 200
    state = server.request("GET", "/v1/queries/lost").data
    assert state["rows"] == 159_999 and 50_000 <= state["first"] <= 70_000
    gone = server.request("GET", "/v1/queries/lost/results?after=10")
    assert gone.status == 410 and "not retained" in gone.data["error"]
    _, followed = server.follow("lost", f"{state['id']}.10")
    first = next(followed)
    assert first.kind == "dropped" and first.data["first"] == state["first"]
    got = server.request("GET", f"/v1/queries/lost/results?after={state['rows'] - 3}")
    assert [json.loads(line)["ts"] for line in got.body.splitlines()] == [159_996, 159_997, 159_998]


def test_an_id_of_a_query_that_was_dropped_is_refused(server: RunningServer) -> None:
    server.request("POST", "/v1/streams", {"name": "T", "columns": [["ts", "bigint"]], "timestamp": "ts"})
    ids = []
    for _ in range(2):
        made = server.request("POST", "/v1/queries", {"text": "SELECT Istream(ts) FROM T", "name": "again"})
        ids.append(made.data["id"])
        answer = server.request("GET", "/v1/queries/again/results")
        assert answer.headers["eddyline-last"] == f"{ids[-1]}.0"
        connection, followed = server.follow("again")
        server.request("DELETE", "/v1/queries/again")
        assert next(followed).data["status"] == "dropped"
        connection.close()
    server.request("POST", "/v1/queries", {"text": "SELECT Istream(ts) FROM T", "name": "again"})
    refused = server.request("GET", "/v1/queries/again/follow", headers={"Last-Event-ID": f"{ids[0]}.0"})
    assert refused.status == 410 and "another query of the same name" in refused.data["error"]
