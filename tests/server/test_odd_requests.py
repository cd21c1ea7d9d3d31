"""Requests that are well formed as HTTP and odd in what they say: each gets one sentence, and soon."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from tests.server.running import RunningServer

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
SOON = 8.0  # seconds, on a machine that does other work, too
DAMAGED = 150  # Arrow streams


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "data").mkdir()
    (folder / "data" / "open.csv").write_text("ts,a\n1,2\n")
    (folder / "secret.csv").write_text("ts,a\n1,2\n")
    (folder / "data" / "link.csv").symlink_to(folder / "secret.csv")
    (folder / "data" / "up").symlink_to(folder)
    with RunningServer(folder / "state", "--data", str(folder / "data"), "--max-rate", "10000") as running:
        body = {"name": "S", "columns": [["ts", "bigint"], ["a", "bigint"], ["t", "string"]], "timestamp": "ts"}
        assert running.request("POST", "/v1/streams", body).status == 201
        yield running


LONG = {
    "a sum": "SELECT a" + "+a" * 20_000 + " AS x FROM S",
    "parentheses": "SELECT a FROM S WHERE " + "(" * 20_000 + "a" + ")" * 20_000,
    "a union": "SELECT a FROM S" + " UNION ALL SELECT a FROM S" * 1500,
    "cases": "SELECT " + "CASE WHEN a=1 THEN " * 2000 + "1" + " END" * 2000 + " AS x FROM S",
    "conjuncts": "SELECT a FROM S WHERE " + " AND ".join(f"a > {i}" for i in range(3500)),
    "a comment": "/*" * 20_000,
    "a name": "SELECT " + "a" * 40_000 + " FROM S",
    "a megabyte": "SELECT a" + "+a" * 500_000 + " AS x FROM S",
}


@pytest.mark.parametrize("what", LONG)
def test_a_long_text_is_checked_soon_or_refused(server: RunningServer, what: str) -> None:
    """Without the token: everybody on the machine may check a text."""
    before = time.monotonic()
    answer = server.request("POST", "/v1/bind", {"text": LONG[what]}, token=None)
    assert time.monotonic() - before < SOON
    assert answer.status in (200, 422), answer
    if what == "a megabyte":
        assert "at most 50000 characters" in answer.data["error"]
    assert len(answer.body) < 200_000


MISLEADING = ["\u202ereversed", "SysStream", "sysstream", "Decisions", "../x", "a/b", "a\nb", " ", "nul"]


@pytest.mark.parametrize("name", MISLEADING)
def test_names_that_mislead_are_refused(server: RunningServer, name: str) -> None:
    answer = server.request("POST", "/v1/queries", {"name": name, "text": "SELECT Istream(a) FROM S"})
    assert answer.status == 422 and "cannot be called" in answer.data["error"], answer
    columns = {"name": name, "columns": [["ts", "bigint"]], "timestamp": "ts"}
    assert server.request("POST", "/v1/streams", columns).status == 422


@pytest.mark.parametrize("name", ["naïve", "名前", "🙂", "a#b", "%2e", "a b", "';--", "e\u0301", "select"])
def test_other_names_work_in_every_address(server: RunningServer, name: str) -> None:
    made = server.request("POST", "/v1/queries", {"name": name, "text": "SELECT Istream(a) FROM S"})
    assert made.status == 201 and made.data["name"] == name
    path = "/v1/queries/" + quote(name, safe="")
    for part in ("", "/plan", "/explain", "/decisions", "/results", "/report", "/aside/late"):
        assert server.request("GET", path + part).status == 200, part
    assert server.request("DELETE", path).status == 204


OUTSIDE = ["link.csv", "up/secret.csv", "up/*.csv", "*/secret.csv", "../secret.csv", "open.csv/../../secret.csv"]


@pytest.mark.parametrize(
    "path", [*OUTSIDE, "%2e%2e/secret.csv", "open.csv\x00", "/proc/self/environ", "file:///etc/passwd"]
)
def test_no_source_outside_the_folders(server: RunningServer, path: str) -> None:
    body = {"name": "F", "source": path, "timestamp": "ts"}
    assert server.request("POST", "/v1/streams", body).status == 422
    text = f"CREATE STREAM F FROM '{path}' TIMESTAMP BY ts;"
    assert server.request("POST", "/v1/execute", {"text": text}).status == 422
    assert server.request("GET", "/v1/streams").data[0]["name"] == "S"


def test_damaged_arrow_is_refused_or_read(server: RunningServer) -> None:
    """Bytes changed and ends cut at random: what still reads as rows may be taken, all else is refused."""
    table = pa.table({"ts": [1, 2, 3], "a": [1, 2, 3], "t": ["x", "y", "z"]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    good, draw, seen = sink.getvalue(), random.Random(3), set[int]()
    for _ in range(DAMAGED):
        damaged = bytearray(good)
        for _ in range(draw.choice((1, 1, 2, 8))):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        if draw.random() < 0.3:
            del damaged[draw.randrange(len(damaged)) :]
        answer = server.request("POST", "/v1/streams/S/rows?wait=false", bytes(damaged), ARROW)
        assert answer.status in (200, 422), answer
        seen.add(answer.status)
    assert seen == {200, 422}
    assert server.request("GET", "/healthz").data["status"] == "ok"


def test_a_small_body_that_unpacks_to_much_is_bounded(server: RunningServer, tmp_path: Path) -> None:
    count = 2_000_000
    text = pa.array(["x" * 200]).take(pa.array([0] * count))
    table = pa.table({"ts": pa.array(range(count)), "a": pa.nulls(count, pa.int64()), "t": text})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    body = sink.getvalue()
    assert len(body) < 16 << 20 < table.nbytes
    answer = server.request("POST", "/v1/streams/S/rows?wait=false", body, ARROW)
    assert answer.status in (200, 413, 422, 503), answer
    assert server.request("GET", "/healthz").data["status"] == "ok"
