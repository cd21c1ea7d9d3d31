"""Slow readers, readers that come late, and those of another query of the same name."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
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
                raw.recv(1, socket.MSG_PEEK)  # the answer has begun
                time.sleep(2.5)  # more than the bound, and less than six times it, when nothing is said any more
            for e in events(raw.makefile("rb")):
                if e.kind == "rows":
                    assert e.data["first"] == len(seen) + 1
                    seen += [r["ts"] for r in e.data["rows"]]
                    last = str(e.id)
                elif e.kind == "dropped":
                    assert "did not read an event" in e.data["reason"]
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


def _listening(port: int, count: int) -> list[socket.socket]:
    """Followers of the query ``live`` whose first bytes are there."""
    found = []
    for _ in range(count):
        raw = socket.create_connection(("127.0.0.1", port), timeout=60)
        raw.sendall(f"GET /v1/queries/live/follow HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        found.append(raw)
    for raw in found:
        assert raw.recv(100, socket.MSG_PEEK).startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream")
    return found


def _push(server: RunningServer, first: int, count: int) -> None:
    body = b"".join(b'{"ts": %d}\n' % t for t in range(first, first + count))
    answer = server.request("POST", "/v1/streams/L/rows", body, {"Content-Type": "application/x-ndjson"})
    assert answer.status == 200


def _rows(raw: socket.socket, until: int) -> list[int]:
    seen: list[int] = []
    for e in events(raw.makefile("rb")):
        assert e.kind == "rows" and e.data["first"] == len(seen) + 1
        seen += [r["ts"] for r in e.data["rows"]]
        if len(seen) >= until:
            break
    return seen


def test_followers_are_served_by_a_process_of_their_own(tmp_path: Path) -> None:
    """The engine's process has none of their connections, and none of the work that they make."""
    many = 60
    with RunningServer(tmp_path / "state", "--max-followers", str(many)) as server:
        server.request("POST", "/v1/streams", {"name": "L", "columns": [["ts", "bigint"]], "timestamp": "ts"})
        server.request("POST", "/v1/queries", {"text": "SELECT Istream(ts) FROM L", "name": "live"})
        assert server.followers_process() is None  # it comes with the first
        followers = _listening(server.port, many)
        relay = server.followers_process()
        assert relay is not None
        ours = {raw.getsockname()[1] for raw in followers}

        def held(process: psutil.Process) -> int:
            return sum(bool(c.raddr) and c.raddr.port in ours for c in process.net_connections("tcp"))

        assert (held(psutil.Process(server.process.pid)), held(relay)) == (0, many)
        refused = server.request("GET", "/v1/queries/live/follow")
        assert refused.status == 409 and "--max-followers" in refused.data["error"]
        _push(server, 0, 1001)
        for raw in followers:
            assert _rows(raw, 1000) == list(range(1000))
            raw.close()
        until = time.monotonic() + 30
        while "eddyline_followers 0\n" not in server.request("GET", "/metrics").body.decode():
            assert time.monotonic() < until
            time.sleep(0.05)
        # Whoever comes from within an event gets the rest of it.
        _, followed = server.follow("live", "700")
        assert next(followed).data["rows"][0]["ts"] == 700
    assert not relay.is_running()


def test_a_process_that_is_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "state") as server, ThreadPoolExecutor(1) as other:
        server.request("POST", "/v1/streams", {"name": "L", "columns": [["ts", "bigint"]], "timestamp": "ts"})
        server.request("POST", "/v1/queries", {"text": "SELECT Istream(ts) FROM L", "name": "live"})
        _push(server, 0, 11)
        following = other.submit(server.follow, "live")
        while (starting := server.followers_process()) is None:
            assert not following.done()
        starting.kill()
        connection, followed = following.result(60)  # the follower does not notice
        assert next(followed).data["first"] == 1
        text = server.request("GET", "/metrics").body.decode()
        assert "eddyline_followers 1\n" in text and "eddyline_followers_process_starts_total 2\n" in text
        connection.close()


def test_each_process_notices_that_the_other_was_killed(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "state") as server:
        server.request("POST", "/v1/streams", {"name": "L", "columns": [["ts", "bigint"]], "timestamp": "ts"})
        server.request("POST", "/v1/queries", {"text": "SELECT Istream(ts) FROM L", "name": "live"})
        _push(server, 0, 11)
        connection, followed = server.follow("live")
        last = next(followed).id
        first = server.followers_process()
        assert first is not None
        first.kill()
        assert list(followed) == []  # the connection ends
        connection.close()
        _push(server, 11, 10)  # the server is not concerned
        _, followed = server.follow("live", last)
        assert next(followed).data["first"] == 11
        second = server.followers_process()
        assert second is not None and second.pid != first.pid
        text = server.request("GET", "/metrics").body.decode()
        assert "eddyline_followers 1\n" in text and "eddyline_followers_process_starts_total 2\n" in text
        server.kill()
        second.wait(10)  # it ends with the server
        server.start()
