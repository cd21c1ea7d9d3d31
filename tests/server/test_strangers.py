"""Whoever has no token, comes from another page, or does not behave, gets nothing."""

from __future__ import annotations

import asyncio
import signal
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eddyline.server.guard import Guard, digest
from eddyline.server.settings import Limits, Settings
from tests.server.running import RunningServer

LIMITS = ("--max-body", "20000", "--header-seconds", "0.5", "--max-queries", "2", "--max-declarations", "6")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("strangers") / "state", *LIMITS) as running:
        body = {"name": "S", "columns": [["ts", "bigint"], ["a", "bigint"]], "timestamp": "ts"}
        assert running.request("POST", "/v1/streams", body).status == 201
        yield running


CHANGES = [
    ("POST", "/v1/streams", {"name": "T", "columns": [["ts", "bigint"]], "timestamp": "ts"}),
    ("POST", "/v1/execute", {"text": "SELECT Istream(a) FROM S"}),
    ("POST", "/v1/queries", {"text": "SELECT Istream(a) FROM S"}),
    ("POST", "/v1/streams/S/rows", b'{"ts": 1, "a": 1}'),
    ("POST", "/v1/streams/S/finish", None),
    ("PATCH", "/v1/streams/S", {"slack": 3}),
    ("DELETE", "/v1/streams/S", None),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: f"{c[0]} {c[1]}")
@pytest.mark.parametrize("token", [None, "wrong", "é", "Bearer"], ids=["no token", "wrong", "not ASCII", "a word"])
def test_without_the_token_nothing_changes(
    server: RunningServer, change: tuple[str, str, object], token: str | None
) -> None:
    method, path, body = change
    before = server.request("GET", "/v1/catalog").data
    answer = server.request(method, path, body, token=token)
    assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert server.request("GET", "/v1/catalog").data == before


def test_the_token_is_kept_as_a_digest_only(server: RunningServer) -> None:
    files = [p for p in server.state.rglob("*") if p.is_file()]
    assert len(files) >= 2
    assert all(server.token.encode() not in p.read_bytes() for p in files)
    mode = (server.state / "catalog.sqlite").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600 and server.state.stat().st_mode & 0o077 == 0


def test_files_are_private_also_in_a_folder_that_others_may_read(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    with RunningServer(state) as server:
        body = {"name": "S", "columns": [["ts", "bigint"]], "timestamp": "ts"}
        assert server.request("POST", "/v1/streams", body).status == 201
        open_to_others = [p.name for p in state.rglob("*") if p.stat().st_mode & 0o077]
        assert {p.name for p in state.glob("catalog.sqlite*")} > {"catalog.sqlite"} and open_to_others == []


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:1", ""])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_pages_of_other_origins_get_nothing(server: RunningServer, origin: str, method: str) -> None:
    body = {"text": "SELECT Istream(a) FROM S"} if method == "POST" else None
    answer = server.request(method, "/v1/queries", body, {"Origin": origin})
    assert answer.status == 403 and "S" not in answer.data
    assert not [h for h in answer.headers if h.startswith("access-control")]


def test_the_own_page_may_write_and_no_page_gets_cors(server: RunningServer) -> None:
    origin = f"http://127.0.0.1:{server.port}"
    answer = server.request("PATCH", "/v1/streams/S", {"slack": 1}, {"Origin": origin})
    assert answer.status == 200
    preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    answer = server.request("OPTIONS", "/v1/queries", headers=preflight)
    assert not [h for h in answer.headers if h.startswith("access-control")]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost:1", ""])
def test_other_names_of_the_machine_get_nothing(server: RunningServer, host: str) -> None:
    answer = server.request("GET", "/v1/catalog", headers={"Host": host})
    assert answer.status in (400, 421)


def test_oversized_bodies(server: RunningServer) -> None:
    line = b'{"ts": 1, "a": 1}\n'
    rows = {"Content-Type": "application/x-ndjson"}
    answer = server.request("POST", "/v1/streams/S/rows", line * 2000, rows)
    assert answer.status == 413 and "--max-body" in answer.data["error"]
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:  # its length is not announced
        head = f"POST /v1/streams/S/rows HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nTransfer-Encoding: chunked\r\n"
        head += f"Authorization: Bearer {server.token}\r\nContent-Type: application/x-ndjson\r\n\r\n"
        raw.sendall(head.encode())
        got = b""
        try:
            for _ in range(30):
                raw.sendall(b"%x\r\n" % len(line * 100) + line * 100 + b"\r\n")
            while more := raw.recv(4096):
                got += more
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert not got or b" 413 " in got.splitlines()[0]
    assert server.request("GET", "/v1/streams/S").data["input"]["arrived"] == 0


@pytest.mark.parametrize("drip", [b"", b"GET / HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
def test_a_slow_head_ends_the_connection(server: RunningServer, drip: bytes) -> None:
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(drip)
        raw.settimeout(0.1)
        ended = False
        while not ended and time.monotonic() - began < 8:
            try:
                if drip:
                    raw.sendall(b"x")  # a byte now and then does not help
                ended = raw.recv(100) == b""
            except TimeoutError:
                pass
            except (ConnectionResetError, BrokenPipeError):
                ended = True
    assert ended
    assert server.request("GET", "/healthz").status == 200


def test_what_is_no_request_or_asks_for_a_websocket_fills_no_log(tmp_path: Path) -> None:
    head = "GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{}\r\n"
    upgrade = (
        "Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
    )
    with RunningServer(tmp_path / "state") as server:
        for sent, status in (
            (b"\x00garbage\r\n\r\n", b" 400 "),
            (head.format(server.port, upgrade).encode(), b" 200 "),
        ):
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
                raw.sendall(sent)
                assert status in raw.recv(100)
        server.process.send_signal(signal.SIGINT)
        assert server.process.communicate(timeout=30)[1] == ""
        assert server.process.returncode == 0


def test_limits_of_queries_and_declarations(server: RunningServer) -> None:
    made = [server.request("POST", "/v1/queries", {"text": "SELECT Istream(a) FROM S"}) for _ in range(3)]
    assert [a.status for a in made] == [201, 201, 409] and "--max-queries" in made[2].data["error"]
    views = [server.request("POST", "/v1/views", {"name": f"V{i}", "text": "SELECT a FROM S"}) for i in range(5)]
    assert views[0].status == 201 and views[-1].status == 409 and "--max-declarations" in views[-1].data["error"]
    for answer in made[:2]:
        server.request("DELETE", f"/v1/queries/{answer.data['name']}")


def test_rate_and_memory_are_bounded(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "state", "--max-rate", "5", "--max-memory", "1000000") as small:
        body = {"name": "S", "columns": [["ts", "bigint"]], "timestamp": "ts"}
        answer = small.request("POST", "/v1/streams", body)
        assert answer.status == 409 and "--max-memory" in answer.data["error"]
        answers = [small.request("GET", "/healthz") for _ in range(40)]
        refused = [a for a in answers if a.status == 429]
        assert len(refused) >= 10 and refused[0].headers["retry-after"] == "1"
        # An address that the client claims is not taken for its own: no proxy was named.
        claims = [small.request("GET", "/healthz", headers={"X-Forwarded-For": f"10.0.0.{n}"}) for n in range(40)]
        assert sum(a.status == 429 for a in claims) >= 10


def test_a_proxy_that_is_named_says_whose_requests_it_passes_on(tmp_path: Path) -> None:
    def refused(small: RunningServer, claims: list[str]) -> int:
        answers = [small.request("GET", "/healthz", headers={"X-Forwarded-For": c}) for c in claims]
        return sum(a.status == 429 for a in answers)

    with RunningServer(tmp_path / "state", "--max-rate", "5", "--proxy", "127.0.0.1") as small:
        assert refused(small, [f"10.0.0.{n}" for n in range(40)]) == 0  # each client has its own bound
        assert refused(small, ["10.0.1.1"] * 40) >= 10
        # What a client says itself stands before the address that the proxy adds, and does not count.
        assert refused(small, [f"10.0.2.{n}, 10.0.3.1" for n in range(40)]) >= 10
    with RunningServer(tmp_path / "other", "--max-rate", "5", "--proxy", "10.9.9.9") as small:
        assert refused(small, [f"10.0.0.{n}" for n in range(40)]) >= 10  # it came from another address


def test_behind_a_proxy_with_tls_the_own_page_may_write(tmp_path: Path) -> None:
    arguments = ("--proxy", "127.0.0.1", "--allow-host", "streams.example")
    with RunningServer(tmp_path / "state", *arguments) as behind:
        body = {"name": "S", "columns": [["ts", "bigint"]], "timestamp": "ts"}
        passed_on = {"Host": "streams.example", "X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https"}
        other = behind.request("POST", "/v1/streams", body, passed_on | {"Origin": "https://evil.example"})
        assert other.status == 403
        own = behind.request("POST", "/v1/streams", body, passed_on | {"Origin": "https://streams.example"})
        assert own.status == 201, own
        behind.request("POST", "/v1/queries", {"text": "SELECT Istream(ts) FROM S", "name": "q"}, passed_on)
        behind.request(
            "POST", "/v1/streams/S/rows", b'{"ts": 1}\n{"ts": 2}\n', {"Content-Type": "application/x-ndjson"}
        )
        connection, followed = behind.follow("q")
        assert next(followed).data["rows"][0]["ts"] == 1
        connection.close()


def test_beyond_loopback_reading_needs_the_token() -> None:
    """The rule itself: no test listens on other addresses."""

    def needs(host: str, method: str, path: str) -> bool:
        return Guard(None, Settings(Path("x"), host=host), "")._needs_token(method, path)  # type: ignore[arg-type]

    assert needs("0.0.0.0", "GET", "/v1/catalog") and needs("::", "POST", "/v1/bind")
    assert not needs("0.0.0.0", "GET", "/healthz") and not needs("127.0.0.1", "GET", "/v1/catalog")
    assert needs("127.0.0.1", "DELETE", "/v1/queries/q")
    # The page as it is built has nothing of anybody's data, and asks for the token.
    assert not needs("0.0.0.0", "GET", "/") and not needs("0.0.0.0", "GET", "/assets/page.js")
    assert needs("0.0.0.0", "POST", "/") and needs("0.0.0.0", "GET", "/openapi.json")


def slowly_sent(pieces: list[bytes], pause: float) -> tuple[list[Any], float]:
    """What the guard answers to a body that comes in such pieces and never ends, and after how long."""
    said: list[Any] = []
    left = iter(pieces)

    async def receive() -> dict[str, Any]:
        piece = next(left, None)
        await asyncio.sleep(pause if piece is not None else 60)
        return {"type": "http.request", "body": piece, "more_body": True}

    async def reads_all(_scope: Any, receive: Any, send: Any) -> None:
        """As the routes do it, for whom every exception is an error of their own."""
        try:
            while (await receive()).get("more_body"):
                pass
        except Exception:
            await send({"type": "http.response.start", "status": 500, "headers": []})
            raise

    async def send(message: Any) -> None:
        said.append(message)

    async def ask() -> None:
        guard = Guard(reads_all, Settings(Path("x"), limits=Limits(body_seconds=0.1)), digest("t"))
        headers = [(b"host", b"127.0.0.1:8123"), (b"authorization", b"Bearer t")]
        scope = {"type": "http", "method": "POST", "path": "/v1/bind", "headers": headers, "client": ("x", 1)}
        await guard(scope, receive, send)

    began = time.monotonic()
    asyncio.run(ask())
    return said, time.monotonic() - began


@pytest.mark.parametrize("pieces", [[], [b"x"] * 1000], ids=["silence", "a byte now and then"])
def test_a_slow_body_ends_the_request(pieces: list[bytes]) -> None:
    said, seconds = slowly_sent(pieces, 0.02)
    assert seconds < 3 and said[0]["status"] == 408
