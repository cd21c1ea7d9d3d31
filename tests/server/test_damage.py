"""A directory that is damaged, or cannot be had: one sentence, and never another answer in silence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.running import RunningServer
from tests.terminal import Terminal, eddyline, run_in_terminal


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a server that was stopped, with two snapshots."""
    state = tmp_path_factory.mktemp("damage") / "state"
    with RunningServer(state) as server:
        columns = [["ts", "bigint"], ["a", "bigint"]]
        server.request("POST", "/v1/streams", {"name": "S", "columns": columns, "timestamp": "ts"})
        server.request("POST", "/v1/queries", {"name": "q", "text": "SELECT count(*) AS n FROM S [ROWS 5]"})
        for t in range(3):
            assert server.request("POST", "/v1/streams/S/rows", [{"ts": t, "a": t}]).status == 200
    assert len(manifests(state)) == 2
    yield state


def manifests(state: Path) -> list[Path]:
    return sorted((state / "session").glob("*.json"), key=lambda p: int(p.stem))


def garble(path: Path) -> None:
    path.write_bytes(b"garbage" * 10)


def garble_end(path: Path) -> None:
    """Leave the first page of the catalog: it opens, and its tables cannot be read."""
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))


DAMAGE: list[tuple[str, Callable[[Path], object], str]] = [
    ("catalog", lambda s: garble(s / "catalog.sqlite"), "the catalog .* cannot be opened: file is not a database"),
    ("tables", lambda s: garble_end(s / "catalog.sqlite"), "is damaged: .*malformed; put back a copy of the whole"),
    ("manifest", lambda s: garble(manifests(s)[-1]), "is no snapshot: .*; put back a copy of the whole directory"),
    ("pieces", lambda s: shutil.rmtree(s / "session" / "pieces"), "is missing; put back a copy of the whole directory"),
    (
        "older",
        lambda s: manifests(s)[-1].unlink(),
        r"committed with snapshot \d+, and the newest in .* is \d+; put back",
    ),
    ("none", lambda s: shutil.rmtree(s / "session"), r"committed with snapshot \d+, and there is none; put back"),
    ("a file", lambda s: (shutil.rmtree(s), s.write_text("")), "cannot be made a folder: File exists"),
]


@pytest.mark.parametrize(("damage", "message"), [d[1:] for d in DAMAGE], ids=[d[0] for d in DAMAGE])
def test_a_damaged_directory_is_refused_in_a_sentence(
    saved: Path, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    state = tmp_path / "state"
    shutil.copytree(saved, state)
    damage(state)
    with pytest.raises(RuntimeError, match=f"(?s)^error: [^\n]*{message}") as refused:
        RunningServer(state)
    assert "Traceback" not in str(refused.value) and "remove" not in str(refused.value)


def test_what_a_declaration_needs_and_is_gone_is_named(tmp_path: Path) -> None:
    """A file below --data, a module of --functions: the server does not start without them, and goes on with them."""
    state, data = tmp_path / "state", tmp_path / "data"
    data.mkdir()
    (data / "rooms.csv").write_text("ts,room\n1,fish\n2,dairy\n")
    (tmp_path / "gone_helpers.py").write_text(
        "def register(session):\n    session.function('gone', lambda v: v, returns='varchar')\n"
    )
    folders, functions = ("--data", str(data)), ("--functions", "gone_helpers")
    with RunningServer(state, *folders, *functions, cwd=tmp_path) as server:
        server.request("POST", "/v1/streams", {"name": "rooms", "source": "rooms.csv", "timestamp": "ts"})
        made = server.request(
            "POST", "/v1/queries", {"name": "q", "text": "SELECT Istream(gone(room) AS r) FROM rooms"}
        )
        assert made.status == 201, made
    with pytest.raises(RuntimeError, match=r"the query 'q' of .* cannot be taken up again: unknown function 'gone'"):
        RunningServer(state, *folders)
    (data / "rooms.csv").rename(tmp_path / "rooms.csv")
    with pytest.raises(RuntimeError, match=r"the stream 'rooms' of .* cannot be taken up again: there is no file"):
        RunningServer(state, *folders, *functions, cwd=tmp_path)
    (tmp_path / "rooms.csv").rename(data / "rooms.csv")
    with RunningServer(state, "--new-token", *folders, *functions, cwd=tmp_path) as server:
        assert b'"fish"' in server.request("GET", "/v1/queries/q/results?format=csv").body


def test_a_lost_token_is_replaced(saved: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    shutil.copytree(saved, state)
    with RunningServer(state, "--new-token") as server:
        assert len(server.token) > 30
        assert server.request("POST", "/v1/streams/S/rows", [{"ts": 9, "a": 1}]).status == 200
    text, token = [], server.token

    def stop(terminal: Terminal) -> None:
        if "listens on" in terminal.written and not text:
            text.append("")
            terminal.press_ctrl_c()

    command = eddyline("serve", "--state", str(state), "--port", "0")
    shown = run_in_terminal(command, folder=tmp_path, columns=200, act=stop)
    assert "token for changes" not in shown.written and token not in shown.written  # it is shown once
    assert shown.screen[-1].startswith("stopped; all is saved in")  # below what the terminal echoes


def test_without_room_on_the_disk_nothing_is_promised_and_nothing_is_lost(tmp_path: Path) -> None:
    """The folder of snapshots becomes a file: nothing can be written there, as on a full disk."""
    state = tmp_path / "state"
    with RunningServer(state) as server:
        columns = [["ts", "bigint"], ["a", "bigint"]]
        server.request("POST", "/v1/streams", {"name": "S", "columns": columns, "timestamp": "ts"})
        server.request("POST", "/v1/queries", {"name": "q", "text": "SELECT Istream(a) FROM S"})
        assert server.request("POST", "/v1/streams/S/rows", [{"ts": 1, "a": 1}, {"ts": 2, "a": 2}]).status == 200
        shutil.move(state / "session", state / "aside")
        (state / "session").write_text("")
        refused = server.request("POST", "/v1/streams/S/rows", [{"ts": 3, "a": 3}])
        assert refused.status == 409 and "takes no changes any more" in refused.data["error"], refused
        assert server.request("GET", "/healthz").status == 503
        assert server.request("POST", "/v1/streams/S/rows", [{"ts": 4, "a": 4}]).status == 409
        rows = server.request("GET", "/v1/queries/q/results?format=csv").body
        assert rows == b'"a","_time"\n1,1\n'
        server.process.terminate()
        _, errors = server.process.communicate(timeout=30)
        assert server.process.returncode == 1
        assert errors.startswith("error: the server cannot save its state") and "Traceback" not in errors
    (state / "session").unlink()
    shutil.move(state / "aside", state / "session")
    with RunningServer(state, "--new-token") as server:
        rows = server.request("GET", "/v1/queries/q/results?format=csv").body
        assert rows == b'"a","_time"\n1,1\n'
