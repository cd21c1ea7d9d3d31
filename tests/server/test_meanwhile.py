"""What happens while something else does: a stream that is dropped under a push, a long text that is read."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eddyline.server.service import Missing, Service
from eddyline.server.settings import Settings
from eddyline.server.store import Entry
from tests.server.running import RunningServer

STREAM = {"name": "S", "columns": [["ts", "bigint"], ["a", "bigint"]], "timestamp": "ts"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("meanwhile") / "state", "--max-queries", "3") as running:
        assert running.request("POST", "/v1/streams", STREAM).status == 201
        yield running


@pytest.mark.parametrize("again", [None, "bigint", "varchar"], ids=["dropped", "declared again", "with other columns"])
def test_a_stream_that_is_dropped_while_rows_come_takes_none(server: RunningServer, again: str | None) -> None:
    def declare(kind: str) -> None:
        columns = [["ts", "bigint"], ["b", kind]]
        assert server.request("POST", "/v1/streams", {**STREAM, "name": "gone", "columns": columns}).status == 201

    declare("bigint")
    body = b'{"ts": 1, "b": 5}\n' * 10
    head = f"POST /v1/streams/gone/rows HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(body)}\r\n"
    head += f"Authorization: Bearer {server.token}\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        raw.sendall(head.encode() + body[:30])
        time.sleep(0.2)  # the request has been checked, and waits for the rest
        assert server.request("DELETE", "/v1/streams/gone").status == 204
        if again is not None:
            declare(again)
        raw.sendall(body[30:])
        got = b"".join(iter(lambda: raw.recv(4096), b""))
    status, said = got.split(b"\r\n", 1)[0], json.loads(got.rpartition(b"\r\n\r\n")[2])
    assert b" 404 " in status and "'gone' was dropped before this was done" in said["error"], got
    if again is not None:
        assert server.request("GET", "/v1/streams/gone").data["input"]["arrived"] == 0
        assert server.request("DELETE", "/v1/streams/gone").status == 204


# A job of a million characters at most, and a query of 50,000, whose mistake is found last.
JOB = "; ".join(["SELECT Istream(a) FROM S WHERE a < 1"] * 6000)
QUERY = "SELECT Istream(a) FROM S WHERE a < 1" + " AND a < 1" * 4_900 + " AND b < 1"


@pytest.mark.parametrize(("path", "text"), [("/v1/execute", JOB), ("/v1/queries", QUERY)], ids=["job", "query"])
def test_the_server_answers_others_while_it_reads_a_long_text(server: RunningServer, path: str, text: str) -> None:
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(server.request("POST", path, {"text": text})))
    asking.start()
    others, longest, began = 0, 0.0, time.monotonic()
    while asking.is_alive():
        sent = time.monotonic()
        assert server.request("GET", "/healthz").status == 200
        others, longest = others + 1, max(longest, time.monotonic() - sent)
        time.sleep(0.01)
    seconds = time.monotonic() - began
    assert answers[0].status in (409, 422)
    assert others >= 3 and longest < max(0.5 * seconds, 0.1), (others, longest, seconds)
    for q in server.request("GET", "/v1/queries").data:
        server.request("DELETE", f"/v1/queries/{q['name']}")


def test_a_query_that_has_ended_has_ended_after_a_kill_too(tmp_path: Path) -> None:
    """Whoever follows it would wait for ever otherwise: nothing comes that would be committed."""
    server = RunningServer(tmp_path / "state")
    server.request("POST", "/v1/streams", STREAM)
    server.request("POST", "/v1/queries", {"name": "q", "text": "SELECT Istream(a) FROM S"})
    server.request("POST", "/v1/queries", {"name": "fails", "text": "SELECT Istream(1 / (a - 1) AS x) FROM S"})
    server.request("POST", "/v1/streams/S/rows", [{"ts": 1, "a": 1}])
    assert server.request("POST", "/v1/streams/S/finish").status == 204
    server.kill()
    server.start()
    try:
        assert {q["name"]: q["status"] for q in server.request("GET", "/v1/queries").data} == {
            "q": "ended",
            "fails": "failed",
        }
        connection, followed = server.follow("q", seconds=20)
        assert [(e.kind, e.data.get("status")) for e in followed] == [("rows", None), ("end", "ended")]
        connection.close()
    finally:
        server.stop()


def test_a_query_that_is_being_registered_is_missing_for_others(tmp_path: Path) -> None:
    """The engine's thread declares it in several steps, and requests look at it between any two of them."""
    service = Service(Settings(tmp_path / "state"))
    try:
        service.entries["q"] = Entry(1, "query", "q", {"text": "SELECT Istream(a) FROM S"})
        with pytest.raises(Missing, match="being registered or dropped"):
            service.query("q")
        with pytest.raises(Missing, match="there is no query 'r'"):
            service.query("r")
    finally:
        service.store.close()
        service._lock.close()
