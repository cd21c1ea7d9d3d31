"""The shell: commands against a session in this process and against a server, and the line editor."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

import eddyline as ed
from eddyline.shell.commands import Quit, Shell
from eddyline.shell.prompt import CqlCompleter, CqlLexer, Names, editor
from eddyline.shell.sessions import Local, Remote
from tests.server.running import RunningServer

ROWS = [{"ts": t, "size": 300 * t, "port": t % 3} for t in range(1, 6)]
SCHEMA = pa.schema({"ts": pa.int64(), "size": pa.int64(), "port": pa.int64()})


def local() -> Local:
    session = ed.Session()
    session.stream("packets", ROWS, timestamp="ts")
    return Local(session)


def said(target: Any, *inputs: str) -> str:
    out = io.StringIO()
    shell = Shell(target, Console(file=out, width=160, force_terminal=False))
    for text in inputs:
        shell.run(text)
    return out.getvalue()


def test_a_query_is_registered_watched_explained_steered_and_dropped() -> None:
    target = local()
    shown = said(target, "large: SELECT Istream(size) FROM packets WHERE size > 500 AND port < 2;")
    assert "registered: large" in shown and " 900" in shown and "1500" not in shown and "(2 rows)" in shown
    assert "select 1" in said(target, "\\plan") and "large" in said(target, "\\list")
    assert "large is pinned" in said(target, "\\pin large") and "already" in said(target, "\\pin")
    said(target, "ALTER QUERY large SET (filters = 'sweep');")
    listed = said(target, "\\decisions large")
    assert "option filters" in listed and "sweep" in listed
    assert "undoes decision 2" in said(target, "\\undo 2")
    assert "dropped: large" in said(target, "\\drop large")
    assert "no query is running yet" in said(target, "\\plan")


def test_mistakes_are_underlined_and_the_shell_goes_on() -> None:
    shown = said(local(), "SELECT Istream(sise) FROM packets;", "\\pln", "\\undo x", "\\help")
    assert "Did you mean 'size'?" in shown and "^^^^" in shown
    assert "Did you mean '\\plan'?" in shown and "needs the number" in shown and "\\watch" in shown


@pytest.mark.parametrize("text", ["\\quit", "\\q", "quit", " Exit;"])
def test_leaving(text: str) -> None:
    assert "\\watch" in said(local(), "help")
    with pytest.raises(Quit):
        said(local(), text)


def test_ctrl_c_says_what_becomes_of_a_query_that_was_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Any:
        yield None
        raise KeyboardInterrupt

    target, out = local(), io.StringIO()
    target.execute("hot: SELECT Istream(size) FROM packets")
    monkeypatch.setattr(target, "results", interrupted)
    Shell(target, Console(file=out, width=160, force_terminal=True)).run("\\watch hot")
    assert "hot is paused; \\watch hot continues it." in out.getvalue()  # nothing reads its source meanwhile


def test_from_a_pipe() -> None:
    text = """CREATE STREAM R FROM 'examples/cold-rooms/readings.csv' TIMESTAMP BY ts SLACK 1 MINUTE;
    warm: SELECT Istream(room, celsius) FROM R
    WHERE celsius > 6;
    \\list
    SELECT;
    """
    command = [sys.executable, "-m", "eddyline.cli", "shell"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert "registered: warm" in done.stdout and "rows)" in done.stdout, done
    assert done.returncode == 2 and "error:" in done.stdout


def test_from_a_pipe_into_a_server(tmp_path: Path) -> None:
    """A query over a stream that is pushed to has no end: what comes after it is run all the same."""
    text = """one: SELECT Istream(a) FROM R;
    two: SELECT Istream(a + 1 AS b) FROM R;
    """
    with RunningServer(tmp_path / "state") as server:
        columns = [["ts", "bigint"], ["a", "bigint"]]
        server.request("POST", "/v1/streams", {"name": "R", "columns": columns, "timestamp": "ts"})
        command = [
            sys.executable,
            "-m",
            "eddyline.cli",
            "shell",
            f"http://127.0.0.1:{server.port}#token={server.token}",
        ]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0 and "registered: one" in done.stdout and "registered: two" in done.stdout, done
        assert [q["name"] for q in server.request("GET", "/v1/queries").data] == ["one", "two"]


def test_rows_that_were_left_out_are_a_note_and_no_warning_of_python(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("ts,v\n5,1\n2,1\n")
    text = "CREATE STREAM R FROM 'r.csv' TIMESTAMP BY ts;\nq: SELECT Istream(v) FROM R;\n\\watch q\n"
    command = [sys.executable, "-m", "eddyline.cli", "shell"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    note = "note: 1 late row of R left out; a slack of 3 would have kept it; late(q) shows such rows."
    assert done.stdout.count(note) == 1 and done.stderr == "" and done.returncode == 0, done


def completed(target: Any, text: str) -> list[str]:
    found = CqlCompleter(Names(target)).get_completions(Document(text), CompleteEvent())
    return [text[: len(text) + c.start_position] + c.text for c in found]


def test_completion_of_streams_columns_functions_and_queries() -> None:
    target = local()
    target.execute("hot: SELECT Istream(size) FROM packets")
    assert completed(target, "SELECT si")[0] == "SELECT size"
    assert completed(target, "SELECT size FROM pack") == ["SELECT size FROM packets"]
    assert completed(target, "SELECT packets.po") == ["SELECT packets.port"]
    assert "SELECT coalesce(" in completed(target, "SELECT coal")
    assert completed(target, "\\watch h") == ["\\watch hot"]


def test_a_mistake_is_underlined_while_one_types() -> None:
    lexer = CqlLexer(local())
    document = Document("SELECT Istream(sise)\nFROM packets;")
    line = lexer.lex_document(document)
    assert ("underline ansired", "sise") in line(0) and ("bold", "FROM") in line(1)
    assert "Did you mean 'size'?" in lexer.message
    lexer.lex_document(Document("SELECT Istream(sise"))
    assert lexer.message == ""


def test_the_line_editor_takes_several_lines(tmp_path: Path) -> None:
    with create_pipe_input() as keys:
        keys.send_text("SELECT Istream(size)\rFROM packets;\r\\plan\r")
        prompt = editor(local(), tmp_path / "history", input=keys, output=DummyOutput())
        texts = [asyncio.run(prompt.prompt_async()) for _ in range(2)]
    assert texts == ["SELECT Istream(size)\nFROM packets;", "\\plan"]
    assert "FROM packets;" in (tmp_path / "history").read_text()


def test_ctrl_c_leaves_an_input_and_is_nothing_where_none_is_open() -> None:
    with create_pipe_input() as keys:
        prompt = editor(local(), None, input=keys, output=DummyOutput())

        async def late() -> None:  # a Ctrl-C that is handled when its input is over
            prompt.app.key_processor.send_sigint()

        keys.send_text("SELECT hal\x03")
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(prompt.prompt_async())
        asyncio.run(late())
        keys.send_text("\\plan\r")
        assert asyncio.run(prompt.prompt_async()) == "\\plan"


def test_decisions_show_orders_as_lists_of_conditions() -> None:
    def slow(values: pa.Array) -> pa.Array:  # so much dearer that no pause of the machine makes it the cheaper one
        time.sleep(0.01)
        return pc.less(values, 9)

    session = ed.Session()
    session.function("slow", slow, kind="arrow")
    rows = pa.table({"ts": range(20_000), "a": [i % 10 for i in range(20_000)], "b": [i % 97 for i in range(20_000)]})
    session.stream("S", rows.to_batches(500), schema=rows.schema, timestamp="ts")
    text = "SELECT Istream(ts) FROM S WHERE slow(a) AND sqrt(b) < 1"
    query = session.query(text, name="q", filters="a-greedy(p = 0.5)")
    session.run()
    shown = said(Local(session), "\\decisions q")
    assert len(query.decisions) > 0 and "sqrt(S.b) < " in shown and "['" not in shown, shown


def test_against_a_server(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "state") as server:
        session = ed.connect(f"http://127.0.0.1:{server.port}#token={server.token}")
        session.stream("packets", schema=SCHEMA, timestamp="ts")
        target = Remote(session)
        session.query("SELECT Istream(size) FROM packets WHERE size > 500", name="large", filters="sweep")
        session.query("SELECT Istream(size) FROM packets WHERE size > 1 AND port < 9", name="both", filters="a-greedy")
        session.push("packets", ROWS)
        session.push("packets", pa.Table.from_pylist([{"ts": 6, "size": 1, "port": 1}], SCHEMA))
        session.finish()
        shown = said(target, "\\watch large", "\\plan large", "\\list", "SELECT Istream(sise) FROM packets;")
        assert "1500" in shown and "(4 rows)" in shown and "select 1" in shown and "^^^^" in shown
        passed, results = target.latest("large", 3)  # somebody who watches begins with the last ones
        assert passed == 1
        assert [size for b in results if b is not None for size in b.column("size").to_pylist()] == [900, 1200, 1500]
        assert target.latest("large", 20)[0] == 0
        query = session.get("LARGE")
        assert query.to_arrow().to_pylist() == [{"size": 300 * t, "_time": t} for t in range(2, 6)]
        assert query.to_arrow().num_rows == 4 and query.fetch() == [] and list(query.results()) == []
        assert query.schema == pa.schema({"size": pa.int64(), "_time": pa.int64()})
        assert [d.kind for d in query.pin()] == ["pinned"] and query.decisions[-1].by == "user"
        assert list(session.get("both").statistics()) == ["select 1"] and not query.approximate
        assert sum(session.get("both").statistics()["select 1"]["asked"]) >= 6
        assert query.plan().query == "large" and query.report()["events"] == 6 and query.late() == []
        assert "ended, 4 results" in repr(query)
        assert completed(target, "SELECT packets.po") == ["SELECT packets.port"]
        with pytest.raises(ed.CqlError, match="Did you mean 'size'"):
            session.query("SELECT Istream(sise) FROM packets")
        with pytest.raises(ed.JobError, match="Did you mean 'large'"):
            session.get("larg")
        plan = query.plan()
        assert plan.node("select 1").text == "packets.size > 500" and plan.edges[0].source == "stream packets (size)"
        with pytest.raises(ed.JobError, match="cannot be sent to a server: start it with --functions"):
            session.function("twice", lambda v: 2 * v)
        session.view("small", "SELECT size FROM packets WHERE size < 400")
        assert "is read by 'large': drop that first" in said(target, "\\drop packets")
        assert said(target, "\\drop small").strip() == "dropped: small" and session.catalog["views"] == []
        query.drop()
        session.stream("ratios", schema=pa.schema({"ts": pa.int64(), "a": pa.int64()}), timestamp="ts")
        session.query("SELECT Istream(6 / a AS x) FROM ratios", name="quotient")
        session.query("SELECT Istream(a) FROM ratios", name="plain")
        session.push("ratios", [{"ts": 5, "a": 3}, {"ts": 6, "a": 2}, {"ts": 2, "a": 1}])
        session.push("ratios", [{"ts": 7, "a": 0}, {"ts": 8, "a": 1}])
        session.finish("ratios")
        stopped = said(target, "\\watch quotient")
        assert "error: the query 'quotient' was stopped by an error: division by zero" in stopped, stopped
        assert "note: 1 late row of ratios left out" in said(target, "\\watch plain")
        with pytest.raises(ed.EddylineError, match=r"needs the server's token.*--token or EDDYLINE_TOKEN"):
            ed.connect(f"http://127.0.0.1:{server.port}").finish("packets")
        with pytest.raises(ed.EddylineError, match="does not know this token"):
            ed.connect(f"http://127.0.0.1:{server.port}", "wrong").finish("packets")
    with pytest.raises(ed.EddylineError, match="does not answer"):
        session.push("packets", ROWS)
