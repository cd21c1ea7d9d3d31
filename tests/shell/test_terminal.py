"""The shell as somebody in front of a real terminal has it: typed keys in, drawn text out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.running import RunningServer
from tests.terminal import Dialogue, dialogue, eddyline

TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "50"}
PROMPT, MORE = "cql>", r"\.\.\.>"  # the blank behind them is drawn by moving the cursor
UNDERLINED = r"\x1b\[0;[0-9;]*\b4m{}"
SHOW_CURSOR = "\x1b[?25h"
CTRL_C, CTRL_D, ENTER, TAB = "\x03", "\x04", "\r", "\t"
QUERY = "large: SELECT Istream(size)", "FROM packets WHERE size > 500 AND port < 2;"


def ask_for(shell: Dialogue, text: str, answer: str) -> str:
    """Type an input; what was written until the next prompt."""
    shell.type(text + ENTER)
    found = shell.expect(answer)
    return found + shell.expect(PROMPT)


def type_query(shell: Dialogue) -> None:
    """A query on two lines."""
    shell.type(QUERY[0] + ENTER)
    shell.expect(MORE)
    shell.type(QUERY[1] + ENTER)
    shell.expect("registered: large")


def mistakes_completion_and_commands(shell: Dialogue) -> None:
    shell.type("SELECT Istream(sise) FROM packets;")
    shell.expect(UNDERLINED.format("sise"))
    shell.expect("Did you mean 'size'")  # below, before it is sent
    ask_for(shell, "", r"\^\^\^\^")
    shell.type("SELECT Istream(size) FROM pack")
    shell.expect("packets.*stream")  # is offered
    shell.type(CTRL_C)  # leaves the input, not the shell
    shell.expect(PROMPT)
    assert "size > 500" in ask_for(shell, "\\plan", "select 1")
    assert "why" in ask_for(shell, "\\decisions large", "measured")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a history of its own; so compiled kernels are not there, and five rows need none."""
    return {**TERMINAL, "EDDYLINE_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_DISABLE_JIT": "1"}


def test_a_session_in_this_process(tmp_path: Path, environment: dict[str, str]) -> None:
    rows = "".join(f"{t},{300 * t},{t % 3}\n" for t in range(1, 6))
    (tmp_path / "packets.csv").write_text("ts,size,port\n" + rows)
    with dialogue(eddyline("shell"), folder=tmp_path, environment=environment) as shell:
        shell.expect("Ctrl-D leaves")
        shell.expect(PROMPT)
        ask_for(shell, "CREATE STREAM packets FROM 'packets.csv' TIMESTAMP BY ts;", "packets")
        type_query(shell)
        shell.expect("large: 2 rows")
        assert "1200" in shell.expect("large is over: no more results come")
        shell.expect(PROMPT)
        mistakes_completion_and_commands(shell)
        shell.type("\\wa")
        shell.expect(r"\\watch.*command")
        shell.type(TAB + " la")
        shell.expect("large.*query")
        shell.type(TAB + ENTER)
        shell.expect("large: 0 rows")  # all were shown before
        shell.expect(PROMPT)
        shell.type(CTRL_D)
        assert shell.end() == 0
    assert QUERY[1] in (tmp_path / "cache" / "eddyline" / "shell-history").read_text()


def test_a_session_in_a_server(tmp_path: Path, environment: dict[str, str]) -> None:
    columns = [["ts", "bigint"], ["size", "bigint"], ["port", "bigint"]]
    rows = [{"ts": t, "size": 300 * t, "port": t % 3} for t in range(1, 6)]
    with RunningServer(tmp_path / "state") as server:
        server.request("POST", "/v1/streams", {"name": "packets", "columns": columns, "timestamp": "ts"})
        address = f"http://127.0.0.1:{server.port}#token={server.token}"
        with dialogue(eddyline("shell", address), folder=tmp_path, environment=environment) as shell:
            assert server.token not in shell.expect("Ctrl-D leaves")
            shell.expect(PROMPT)
            type_query(shell)
            shell.expect("large: 0 rows")
            server.request("POST", "/v1/streams/packets/rows", rows)
            shell.expect("large: 2 rows")  # the table has grown; the stream goes on
            shell.type(CTRL_C)
            shell.expect("large goes on")
            shell.expect(PROMPT)
            mistakes_completion_and_commands(shell)
            more = [{"ts": t, "size": 1000 + t, "port": 1} for t in range(6, 3006)]
            server.request("POST", "/v1/streams/packets/rows", more)
            shell.type("\\watch large" + ENTER)
            shell.expect("large: 3,001 rows")  # of the whole query, and not folded to the width of the table
            shell.expect("4004")
            shell.type(CTRL_C)
            shell.expect(PROMPT)
            for apart in (0.0003, 0.001, 0.003, 0.01):  # an impatient Ctrl-C does not disturb what ends the table
                shell.type("\\watch large" + ENTER)
                shell.expect("4004")
                shell.interrupt(4, apart)
                assert SHOW_CURSOR in shell.expect("large goes on")
                shell.expect(PROMPT)
                ask_for(shell, "\\list", "packets")
            shell.type(CTRL_D)
            assert shell.end() == 0
