"""The API against a server in a process of its own."""

from __future__ import annotations

import http.client
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import JobError
from eddyline.server.serve import _listen
from tests.server.running import RunningServer
from tests.server.sse import events

COLUMNS = [["ts", "bigint"], ["k", "bigint"], ["v", "double"]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    data = folder / "data"
    data.mkdir()
    (data / "rooms.csv").write_text("room,warmest\nfish,4.0\n")
    (data / "readings.csv").write_text("ts,room,celsius\n1,fish,5.5\n2,fish,3.0\n3,fish,6.0\n")
    (folder / "secret.csv").write_text("ts,a\n1,2\n")
    (data / "out.csv").symlink_to(folder / "secret.csv")
    (folder / "helpers.py").write_text(
        "def register(session):\n    session.function('twice', lambda v: 2 * v, returns='double')\n"
    )
    with RunningServer(folder / "state", "--data", str(data), "--functions", "helpers", cwd=folder) as running:
        yield running


def declare(server: RunningServer, name: str, **more: object) -> None:
    answer = server.request("POST", "/v1/streams", {"name": name, "columns": COLUMNS, "timestamp": "ts", **more})
    assert answer.status == 201, answer


def test_rows_in_three_forms_give_results_in_three_forms(server: RunningServer) -> None:
    declare(server, "forms")
    text = "SELECT Istream(k, twice(v) AS w) FROM forms WHERE v > 1"
    answer = server.request("POST", "/v1/queries", {"text": text, "name": "in_forms"})
    assert answer.status == 201 and answer.data["status"] == "running", answer
    lines = b'{"ts": 1, "k": 1, "v": 1.5}\n{"ts": 2, "k": 2, "v": 0.5}\n{"ts": "x"}\n'
    pushed = server.request("POST", "/v1/streams/forms/rows", lines, {"Content-Type": "application/x-ndjson"})
    reason = "the body, line 3: field 'ts': 'x' is not a value of type bigint"
    assert pushed.data == {"rows": 2, "invalid": 1, "repeated": False, "reason": reason}
    pushed = server.request("POST", "/v1/streams/forms/rows", b"ts,k,v\n3,3,3.5\n", {"Content-Type": "text/csv"})
    assert pushed.data["rows"] == 1
    sink = io.BytesIO()
    table = pa.table({"ts": [4, 5], "k": [4, 5], "v": [4.5, 5.5]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = {"Content-Type": "application/vnd.apache.arrow.stream"}
    assert server.request("POST", "/v1/streams/forms/rows", sink.getvalue(), arrow).data["rows"] == 2
    assert server.request("POST", "/v1/streams/forms/finish").status == 204
    wanted = [{"k": 1, "w": 3.0, "_time": 1}, {"k": 3, "w": 7.0, "_time": 3}]
    wanted += [{"k": 4, "w": 9.0, "_time": 4}, {"k": 5, "w": 11.0, "_time": 5}]
    got = server.request("GET", "/v1/queries/in_forms/results")
    assert [json.loads(line) for line in got.body.splitlines()] == wanted
    assert got.headers["eddyline-status"] == "ended"
    got = server.request("GET", "/v1/queries/in_forms/results?format=arrow")
    assert pa.ipc.open_stream(got.body).read_all().to_pylist() == wanted
    got = server.request("GET", "/v1/queries/in_forms/results?format=csv&after=3")
    assert got.body == b'"k","w","_time"\n5,11,5\n'
    _, followed = server.follow("in_forms", got.headers["eddyline-last"].replace(".4", ".2"))
    found = list(followed)
    assert [r["k"] for e in found if e.kind == "rows" for r in e.data["rows"]] == [4, 5]
    assert found[-1].kind == "end" and found[-1].data["status"] == "ended"


def test_declarations_are_listed_and_dropped_in_order(server: RunningServer) -> None:
    declare(server, "S")
    assert server.request("POST", "/v1/views", {"name": "V", "text": "SELECT k FROM S WHERE v > 0"}).status == 201
    made = server.request("POST", "/v1/queries", {"text": "on_view: SELECT Istream(k) FROM V"})
    assert made.data["name"] == "on_view"
    again = server.request("POST", "/v1/streams", {"name": "s", "columns": COLUMNS, "timestamp": "ts"})
    assert again.status == 422 and "already taken" in again.data["error"]
    for path, reader in (("streams/S", "V"), ("views/V", "on_view")):
        refused = server.request("DELETE", f"/v1/{path}")
        assert refused.status == 409 and f"is read by '{reader}'" in refused.data["error"]
    for path in ("queries/on_view", "views/V", "streams/S"):
        assert server.request("DELETE", f"/v1/{path}").status == 204
        assert server.request("DELETE", f"/v1/{path}").status == 404
    declare(server, "S")  # the name is free again
    listed = server.request("GET", "/v1/catalog").data
    assert "S" in [s["name"] for s in listed["streams"]] and "V" not in [v["name"] for v in listed["views"]]


def test_files_below_the_data_folder(server: RunningServer) -> None:
    job = """
    CREATE STREAM readings FROM 'readings.csv' TIMESTAMP BY ts;
    CREATE RELATION rooms FROM 'rooms.csv';
    warm: SELECT Istream(r.room, celsius) FROM readings r, rooms l WHERE r.room = l.room AND celsius > warmest
    """
    answer = server.request("POST", "/v1/execute", {"text": job})
    assert [d["name"] for d in answer.data["done"]] == ["readings", "rooms", "warm"]
    _, followed = server.follow("warm")
    assert [r["celsius"] for e in followed if e.kind == "rows" for r in e.data["rows"]] == [5.5, 6.0]


@pytest.mark.parametrize(
    "source",
    ["/etc/passwd", "../secret.csv", "out.csv", "*.csv", "-", "http://127.0.0.1/x.csv", "~/x.csv", "file:///etc/*"],
)
def test_paths_outside_are_refused(server: RunningServer, source: str) -> None:
    answer = server.request("POST", "/v1/streams", {"name": "outside", "source": source, "timestamp": "ts"})
    assert answer.status == 422 and "--data" in answer.data["error"], answer
    text = f"CREATE STREAM outside FROM '{source}' TIMESTAMP BY ts"
    assert server.request("POST", "/v1/execute", {"text": text}).status == 422
    assert "outside" not in [s["name"] for s in server.request("GET", "/v1/streams").data]


def test_results_are_not_written_to_files(server: RunningServer, tmp_path: Path) -> None:
    declare(server, "inserted")
    text = f"INSERT INTO '{tmp_path}/x.csv' SELECT Istream(k) FROM inserted"
    answer = server.request("POST", "/v1/queries", {"text": text})
    assert answer.status == 422 and "INSERT INTO" in answer.data["error"]


def test_steering(server: RunningServer) -> None:
    declare(server, "steered")
    text = "SELECT Istream(k) FROM steered WHERE k > 1 AND v < 9"
    server.request("POST", "/v1/queries", {"text": text, "name": "turned"})
    made = server.request("PATCH", "/v1/queries/turned", {"options": {"filters": "sweep"}})
    assert [(d["kind"], d["by"]) for d in made.data] == [("option filters", "user")]
    wrong = server.request("PATCH", "/v1/queries/turned", {"options": {"filters": "swep"}})
    assert wrong.status == 422 and "Did you mean 'sweep'?" in wrong.data["error"]
    assert [d["kind"] for d in server.request("POST", "/v1/queries/turned/pin").data] == ["pinned"]
    assert server.request("GET", "/v1/queries/turned").data["pinned"] is True
    server.request("POST", "/v1/queries/turned/unpin")
    undone = server.request("POST", f"/v1/queries/turned/undo/{made.data[0]['sequence']}")
    assert undone.data[0]["reason"] == f"undoes decision {made.data[0]['sequence']}"
    kinds = [d["kind"] for d in server.request("GET", "/v1/queries/turned/decisions").data]
    assert kinds == ["option filters", "pinned", "pinned", "option filters"]
    assert server.request("POST", "/v1/queries/turned/undo/99").status == 422
    plan = server.request("GET", "/v1/queries/turned/plan").data
    assert plan["nodes"][0]["kind"] == "stream" and plan["root"] == plan["nodes"][-1]["id"]
    assert server.request("GET", "/v1/queries/turned/explain").body.decode().count("select 1") >= 1
    altered = server.request("PATCH", "/v1/streams/steered", {"slack": 5})
    assert [d["kind"] for d in altered.data] == ["slack"]
    executed = server.request("POST", "/v1/execute", {"text": "PIN QUERY turned; ALTER STREAM steered SET SLACK 7"})
    assert executed.status == 200 and server.request("GET", "/v1/queries/turned").data["pinned"] is True


def test_a_query_that_fails_stops_alone(server: RunningServer) -> None:
    declare(server, "dividing")
    for name, text in (
        ("fails", "SELECT Istream(10 / k AS x) FROM dividing"),
        ("goes_on", "SELECT Istream(k) FROM dividing"),
        ("reads_name", "SELECT Istream(x) FROM fails WHERE x > 0"),
        ("reads_aside", "SELECT * FROM late(fails)"),
    ):
        assert server.request("POST", "/v1/queries", {"text": text, "name": name}).status == 201
    rows = b'{"ts": 1, "k": 5}\n{"ts": 2, "k": 0}\n{"ts": 3, "k": 2}\n{"ts": 4, "k": 1}\n'
    assert (
        server.request("POST", "/v1/streams/dividing/rows", rows, {"Content-Type": "application/jsonl"}).status == 200
    )
    status = {q["name"]: (q["status"], q["message"]) for q in server.request("GET", "/v1/queries").data}
    assert status["fails"][0] == status["reads_name"][0] == status["reads_aside"][0] == "failed"
    assert "division by zero" in status["fails"][1].lower() and status["goes_on"][0] == "running"
    _, followed = server.follow("goes_on")
    assert next(followed).data["rows"] == [{"k": k, "_time": t} for t, k in ((1, 5), (2, 0), (3, 2))]
    assert server.request("GET", "/v1/queries/fails/plan").status == 409
    _, failed = server.follow("fails")
    assert next(e for e in failed if e.kind == "end").data["status"] == "failed"


def test_mistakes_have_their_place(server: RunningServer) -> None:
    declare(server, "placed")
    answer = server.request("POST", "/v1/bind", {"text": "SELECT Istream(kk) FROM placed"}, token=None)
    assert answer.status == 422
    assert answer.data["place"] == {"start": 15, "end": 17, "line": 1, "column": 16}
    good = server.request("POST", "/v1/bind", {"text": "SELECT Istream(k) FROM placed"}, token=None)
    assert good.data["columns"] == [["k", "bigint"]]
    job = "CREATE VIEW good AS\n  SELECT k FROM placed;\nSELECT Istream(kk) FROM good"
    answer = server.request("POST", "/v1/execute", {"text": job})
    assert answer.data["place"] == {"start": job.index("kk"), "end": job.index("kk") + 2, "line": 3, "column": 16}
    for method, path, body, message in (
        ("POST", "/v1/queries", {"txt": "x"}, "text is missing in the body."),
        ("POST", "/v1/queries", {"text": "x", "txt": "x"}, "the body has a field 'txt', which is not known here."),
        ("POST", "/v1/queries", b"no", "the body is no JSON: Expecting value."),
        ("GET", "/v1/nothing", None, "there is nothing at /v1/nothing; /openapi.json says what there is."),
        ("PUT", "/v1/queries", None, "PUT is no method of /v1/queries; /openapi.json says what there is."),
    ):
        wrong = server.request(method, path, body, {"Content-Type": "application/json"})
        assert 404 <= wrong.status <= 422 and wrong.data["error"] == message
    deep = server.request("POST", "/v1/bind", b'{"text": ' + b"[" * 50_000, {"Content-Type": "application/json"})
    assert deep.status == 400 and "nested too deeply" in deep.data["error"]
    as_form = {"Content-Type": "application/x-www-form-urlencoded"}  # as curl -d sends it
    untyped = server.request("POST", "/v1/bind", b'{"text": "SELECT Istream(k) FROM placed"}', as_form)
    assert untyped.status == 422 and "Content-Type: application/json" in untyped.data["error"]
    server.request("POST", "/v1/queries", {"text": "SELECT Istream(k) FROM placed", "name": "spelled"})
    missing = server.request("GET", "/v1/queries/speled/explain")
    assert missing.status == 404 and "Did you mean 'spelled'?" in missing.data["error"]


def test_a_mistake_behind_other_statements_says_what_was_done(server: RunningServer) -> None:
    text = "half: SELECT v FROM partly; CREATE VIEW whole AS SELECT v FROM partly; SELECT nope FROM partly;"
    declare(server, "partly")
    answer = server.request("POST", "/v1/execute", {"text": text})
    assert answer.status == 422 and text[answer.data["place"]["start"] : answer.data["place"]["end"]] == "nope"
    assert answer.data["done"] == [{"created": "query", "name": "half"}, {"created": "view", "name": "whole"}]
    first = server.request("POST", "/v1/execute", {"text": "SELECT nope FROM partly;"})
    assert first.status == 422 and "done" not in first.data


def test_health_and_metrics(server: RunningServer) -> None:
    assert server.request("GET", "/healthz", token=None).data["status"] == "ok"
    text = server.request("GET", "/metrics", token=None).body.decode()
    assert "eddyline_up 1\n" in text and "# TYPE eddyline_commits_total counter" in text
    commits = float(next(line for line in text.splitlines() if line.startswith("eddyline_commits_total")).split()[1])
    assert commits > 3


def test_watching_a_plan(server: RunningServer) -> None:
    declare(server, "watched")
    server.request("POST", "/v1/queries", {"text": "SELECT Istream(k) FROM watched WHERE v > 1", "name": "seen"})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/v1/queries/seen/watch?every=0.1")
    shown = events(connection.getresponse())
    assert next(shown).data["plan"]["query"] == "seen"
    server.request("POST", "/v1/queries/seen/pin")
    for e in shown:
        if any(d["kind"] == "pinned" for d in e.data["decisions"]):
            break
    connection.close()


def test_a_port_that_cannot_be_had() -> None:
    with pytest.raises(JobError, match="--port 99999: ports are numbers from 0 to 65535"):
        _listen("127.0.0.1", 99999)
    with _listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(JobError, match=f"127.0.0.1:{port}: Address already in use; name another --port"):
            _listen("127.0.0.1", port)
    with pytest.raises(JobError, match="name another --host"):
        _listen("192.0.2.1", 0)  # of no machine


@pytest.mark.parametrize("body", ["null", "[null]", '{"ts": 1} null'])
def test_a_null_is_an_invalid_row_and_the_server_goes_on(server: RunningServer, body: str) -> None:
    server.request("POST", "/v1/streams", {"name": "nulls", "columns": [["ts", "bigint"]], "timestamp": "ts"})
    for kind in ("application/json", "application/x-ndjson"):
        answer = server.request("POST", "/v1/streams/nulls/rows", body.encode(), {"Content-Type": kind})
        assert answer.status == 422 or answer.data["invalid"] == 1, answer
    assert server.request("GET", "/healthz").status == 200


def test_what_takes_no_rows_says_why(server: RunningServer) -> None:
    declare(server, "takes_rows")
    server.request("POST", "/v1/queries", {"text": "SELECT Istream(k) FROM takes_rows", "name": "takes_none"})
    server.request("POST", "/v1/relations", {"name": "constant", "source": "rooms.csv"})
    for name, what in (("takes_none", "it is a query"), ("constant", "it is a constant relation")):
        for path, body in (("rows", [{"k": 1}]), ("heartbeat", {"time": 1}), ("finish", None)):
            answer = server.request("POST", f"/v1/streams/{name}/{path}", body)
            assert answer.status == 404 and what in answer.data["error"] and "Did you" not in answer.data["error"]


def test_what_is_no_table_is_not_pushed(server: RunningServer) -> None:
    session = ed.connect(f"http://127.0.0.1:{server.port}", server.token)
    with pytest.raises(JobError, match=r"rows to push are an Arrow table or batch, a data frame, .*, not 7 \(int\)"):
        session.push("any", 7)


def test_a_misspelt_field_is_refused_and_others_are_left_out(server: RunningServer) -> None:
    columns = [["ts", "bigint"], ["size", "bigint"]]
    server.request("POST", "/v1/streams", {"name": "spelt", "columns": columns, "timestamp": "ts"})
    kind = {"Content-Type": "application/x-ndjson"}
    refused = server.request("POST", "/v1/streams/spelt/rows", b'{"ts": 1, "sise": 5}\n', kind)
    assert (
        refused.status == 422 and "'sise'" in refused.data["error"] and "Did you mean 'size'?" in refused.data["error"]
    )
    listed = server.request("POST", "/v1/streams/spelt/rows", [{"ts": 1, "sise": 5}])
    assert listed.status == 422 and listed.data["error"] == refused.data["error"]  # a row means the same in either form
    listed = server.request("POST", "/v1/streams/spelt/rows", [{"ts": 0}, 7])
    reason = "the body, line 2: not a JSON object"
    assert listed.data == {"rows": 1, "invalid": 1, "repeated": False, "reason": reason}
    timeless = server.request("POST", "/v1/streams/spelt/rows", [{"size": 1}, {"ts": 0, "size": 2}])
    assert timeless.data == {"rows": 1, "invalid": 1, "repeated": False, "reason": "the timestamp 'ts' is NULL"}
    taken = server.request("POST", "/v1/streams/spelt/rows", b'{"ts": 1, "note": "x"}\n{"ts": 2, "Size": 5}\n', kind)
    assert taken.data["rows"] == 2
    right = b"".join(b'{"ts": %d, "size": 5, "note": "sise: 1"}\n' % t for t in range(3, 3000))
    late = server.request("POST", "/v1/streams/spelt/rows", right + b'{"ts": 3000, "sise": 5}\n', kind)
    assert late.status == 422 and "row 2998 has a field 'sise' and none called 'size'" in late.data["error"]
    without = server.request("POST", "/v1/streams/spelt/rows", right + b'{"ts": 3000, "note": "sise"}\n', kind)
    assert without.data["rows"] == 2998  # a column may be absent


def test_fields_and_columns_are_found_in_any_case(server: RunningServer) -> None:
    declare(server, "any_case")
    server.request("POST", "/v1/queries", {"text": "SELECT Istream(ts, k, v) FROM any_case", "name": "any_case_q"})
    pushes = [
        ("application/json", b'[{"TS": 1, "K": 3, "V": 0.1234567890123}, {"ts": 2, "k": 4, "v": 5}]'),
        ("application/x-ndjson", b'{"Ts": 3, "K": 9007199254740993, "note": "K"}\n{"ts": 4, "k": 1, "K": 2}\n'),
        ("text/csv", b"TS,V,K\n5,1.5,7\n1,1.5,7\n"),
    ]
    for kind, body in pushes:
        answer = server.request("POST", "/v1/streams/any_case/rows", body, {"Content-Type": kind})
        assert answer.status == 200, answer
    session = ed.connect(f"http://127.0.0.1:{server.port}", server.token)
    session.finish("any_case")
    query = session.get("any_case_q")
    assert [tuple(r.values())[:3] for r in query.to_arrow().to_pylist()] == [
        (1, 3, 0.1234567890123),
        (2, 4, 5.0),
        (3, 9007199254740993, None),
        (5, 7, 1.5),
    ]
    (twice,) = query.invalid()
    assert "a field stands twice" in twice["_reason"]
    (late,) = query.late()
    assert {n: late[n] for n in ("ts", "k", "v")} == {"ts": 1, "k": 7, "v": 1.5}  # as declared, not as in the header


def test_a_client_learns_that_a_query_was_stopped(server: RunningServer) -> None:
    declare(server, "halved")
    session = ed.connect(f"http://127.0.0.1:{server.port}", server.token)
    query = session.query("SELECT Istream(8 / k AS x) FROM halved", name="halves")
    session.push("halved", [{"ts": 1, "k": 2, "v": None}, {"ts": 2, "k": 4, "v": None}])
    results = query.results()
    assert next(results).column("x").to_pylist() == [4.0]
    session.push("halved", [{"ts": 3, "k": 0, "v": None}, {"ts": 4, "k": 1, "v": None}])
    given = []
    with pytest.raises(ed.EddylineError, match="'halves' was stopped by an error: division by zero"):
        given += [x for b in results for x in b.column("x").to_pylist()]
    again = session.get("halves")
    with pytest.raises(ed.EddylineError, match="was stopped by an error"):
        again.to_arrow()
    assert session.get("halves").fetch()[0].column("x").to_pylist()[0] == 4.0  # what came before it stays
