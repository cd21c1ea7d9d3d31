"""What somebody in front of a terminal sees of a run, on Spark and inline: a table, a sentence, and nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.terminal import Act, Terminal, eddyline, run_in_terminal

SMALL = """
CREATE STREAM S FROM 'small.csv' TIMESTAMP BY t;
SELECT k, v FROM S WHERE v > 500;
"""
TABLE = ["k |   v | _time", "--+-----+------", "4 | 622 |     2", "1 | 933 |     3", "0 | 555 |     5", "(3 rows)"]
LARGE = """
CREATE STREAM S FROM 's/*.parquet' TIMESTAMP BY t;
SELECT Istream(k, count(*) AS n) FROM S [RANGE 3000 SLIDE 1000] GROUP BY k;
"""
JOIN = """
CREATE STREAM S FROM 's/0.parquet' TIMESTAMP BY t;
SELECT Istream(A.k, B.t AS u) FROM S [RANGE 20] AS A, S [RANGE 10] AS B WHERE A.k = B.k;
"""
ROWS = 4_000_000  # eight micro-batches
EVENTS = re.compile(r"[1-9][\d,]* events")
STATE = "the state is in state; the same command continues from there."


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "small.csv").write_text("t,k,v\n" + "".join(f"{t},{t * 7 % 5},{t * 311 % 1000}\n" for t in range(6)))
    (folder / "small.cql").write_text(SMALL)
    (folder / "s").mkdir()
    time = np.arange(ROWS)
    table = pa.table({"t": time, "k": time * 7919 % 13})
    for n in range(4):
        pq.write_table(table.slice(n * ROWS // 4, ROWS // 4), folder / "s" / f"{n}.parquet")
    (folder / "large.cql").write_text(LARGE)
    return folder


def answer(path: Path) -> Counter[Any]:
    return Counter(map(str, pq.read_table(path).to_pylist()))


def once(when: re.Pattern[str], act: Act) -> Act:
    """Do something when a text first appears, in another thread."""
    done = False

    def look(terminal: Terminal) -> None:
        nonlocal done
        if not done and when.search(terminal.written):
            done = True
            threading.Thread(target=act, args=(terminal,), daemon=True).start()

    return look


@pytest.mark.parametrize(
    ("columns", "environment", "line"),
    [(80, {}, True), (20, {}, True), (80, {"NO_COLOR": "1"}, True), (80, {"TERM": "dumb"}, False)],
    ids=["wide", "narrow", "no colour", "dumb"],
)
def test_a_table_inline(place: Path, columns: int, environment: dict[str, str], line: bool) -> None:
    command = eddyline("run", "small.cql", "--runtime", "inline")
    terminal = run_in_terminal(command, folder=place, columns=columns, environment=environment)
    assert terminal.screen == TABLE, terminal.written
    assert (EVENTS.search(terminal.written) is not None) == line
    codes = set(re.findall(r"\x1b\[[0-9;]*[A-Za-z]", terminal.written))
    assert codes == ({"\x1b[K"} if line else set())


def test_in_a_pipe_there_is_only_the_table(place: Path) -> None:
    command = eddyline("run", "small.cql", "--runtime", "inline")
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines(), done.stderr) == (TABLE, "")


def test_a_pipe_that_ends_on_the_same_screen(place: Path) -> None:
    """Nobody knows when the other program writes: there is no line in its way."""
    job = shlex.join(eddyline("run", "large.cql", "--runtime", "inline"))
    terminal = run_in_terminal(["sh", "-c", f"{job} | head -4"], folder=place)
    assert len(terminal.screen) == 4 and terminal.screen[0].startswith(" k |"), terminal.written
    assert "\x1b" not in terminal.written
    terminal = run_in_terminal(["sh", "-c", f"{job} > rows.txt"], folder=place)
    assert terminal.screen == [] and EVENTS.search(terminal.written)


def test_waiting_for_the_compiler(place: Path, tmp_path: Path) -> None:
    """With an empty cache: what takes so long and for how many seconds, and nothing of it stays."""
    (place / "join.cql").write_text(JOIN)
    command = eddyline("run", "join.cql", "--runtime", "inline", "--out", "o.parquet")
    empty = {"EDDYLINE_CACHE_DIR": str(tmp_path / "cache"), "EDDYLINE_COMPILE": ""}
    terminal = run_in_terminal(command, folder=place, environment=empty)
    (line,) = terminal.screen
    assert line.endswith(" rows written to o.parquet") and terminal.process.returncode == 0
    assert re.search(r"compiling kernels for larger inputs, once on this machine … [1-9]\d* s", terminal.written)


def test_a_table_from_spark(place: Path) -> None:
    terminal = run_in_terminal(
        eddyline("run", "small.cql", "--runtime", "spark", "--master", "local[2]"), folder=place, columns=60
    )
    assert terminal.screen == TABLE, terminal.written
    # The first sign of life says what is being started, and how long it has been.
    assert terminal.written.startswith("\rstarting Spark on local[2] …")
    assert "starting Spark on local[2] … 1 s" in terminal.written
    assert "\rSpark has started (2 tasks at a time); waiting for" in terminal.written


def press(*pauses: float) -> Act:
    def act(terminal: Terminal) -> None:
        for pause in pauses:
            time.sleep(pause)
            terminal.press_ctrl_c()

    return act


def test_ctrl_c_and_going_on(place: Path) -> None:
    """Between two micro-batches, in the middle of one, and by somebody who cannot wait: our sentence alone."""
    inline = eddyline("run", "large.cql", "--runtime", "inline", "--out", "inline.parquet", "--quiet")
    subprocess.run(inline, cwd=place, check=True)
    command = eddyline(
        "run",
        "large.cql",
        "--runtime",
        "spark",
        "--master",
        "local[2]",
        "--out",
        "spark.parquet",
        "--checkpoint",
        "state",
    )
    going = "stopping after this batch; Ctrl-C again stops at once"
    for pauses, said in (((0.3,), f"interrupted: {STATE}"), ((0.1, 0.8), "interrupted")):
        terminal = run_in_terminal(command, folder=place, act=once(EVENTS, press(*pauses)))
        shown = [line for line in terminal.screen if line.removeprefix("^C")]
        assert shown[0] == going and shown[1:] in ([said], [f"interrupted: {STATE}"]), terminal.written[-5000:]
        assert terminal.process.returncode in (130, -signal.SIGINT)  # the second one may find Python on its way out
        assert not (place / "spark.parquet").exists()
    terminal = run_in_terminal(command, folder=place)
    assert (terminal.screen, terminal.process.returncode) == (["8,032 rows written to spark.parquet"], 0)
    assert answer(place / "spark.parquet") == answer(place / "inline.parquet")


def processes_marked(mark: str) -> list[str]:
    """What runs with this in its environment: a process, and whatever it has started."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text())
    return found


# A shell owns the terminal, as it does in real life: when a program ends that owns it, all it has started is ended too.
SHELL = """trap : INT; "$@"; echo "ended with $?"; read answer"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")
@pytest.mark.parametrize(
    ("when", "pause", "lasting"),
    [
        (r"starting Spark on local\[2\] …", 0.0, False),  # a shell looks for Java
        (r"starting Spark on local\[2\] …", 0.8, False),  # Java loads
        ("… 2 s", 0.0, True),  # pyspark speaks to it, unless the machine is busy
        ("Spark has started", 0.3, False),  # the query is planned
        ("Spark has started", 1.0, True),  # it runs
    ],
)
def test_ctrl_c_before_the_first_events(place: Path, tmp_path: Path, when: str, pause: float, lasting: bool) -> None:
    """One word, and no process is left: neither the JVM that is on its way nor what it has started."""
    mark, state = f"EDDYLINE_TEST_MARK={tmp_path}", tmp_path / "state"
    job = eddyline("run", "large.cql", "--runtime", "spark", "--master", "local[2]", "--out", f"{tmp_path}/o.csv")
    job += ["--checkpoint", str(state)] if lasting else []
    left: list[str] = []

    def look(terminal: Terminal) -> None:
        end = time.monotonic() + 20  # a JVM that was up ends by itself when the program is gone
        while processes_marked(mark) and time.monotonic() < end:
            time.sleep(0.1)
        left.extend(processes_marked(mark))
        os.write(terminal.descriptor, b"\n")

    interrupt, ended = once(re.compile(when), press(pause)), once(re.compile("ended with"), look)

    def act(terminal: Terminal) -> None:
        interrupt(terminal)
        ended(terminal)

    terminal = run_in_terminal(["sh", "-c", SHELL, "sh", "env", mark, *job], folder=place, columns=400, act=act)
    shown = [line for line in (line.removeprefix("^C") for line in terminal.screen) if line]
    if lasting and shown[0] == "stopping after this batch; Ctrl-C again stops at once":
        del shown[0]
    word = f"interrupted: the state is in {state}; the same command continues from there."
    assert shown in (["interrupted", "ended with 130"], [word, "ended with 130"][: 2 * lasting]), terminal.written[
        -5000:
    ]
    assert not left


def workers_of(process: int) -> list[int]:
    """The Python workers under a process: what the daemon has forked."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                pid = int(entry.name)
                parents[pid] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                commands[pid] = (entry / "cmdline").read_text()

    def under(pid: int) -> bool:
        return pid == process or (pid in parents and under(parents[pid]))

    daemons = {p for p, c in commands.items() if "eddyline.spark.daemon" in c}
    return [p for p in daemons if parents[p] in daemons and under(p)]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers in /proc")
def test_a_killed_worker(place: Path) -> None:
    def kill(terminal: Terminal) -> None:
        while terminal.process.poll() is None:
            for worker in workers_of(terminal.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            time.sleep(0.2)

    command = eddyline("run", "large.cql", "--runtime", "spark", "--master", "local[2]", "--out", "killed.parquet")
    terminal = run_in_terminal(command, folder=place, columns=400, act=once(EVENTS, kill))
    assert terminal.screen == [
        "error: Spark stopped the job: a Python worker was ended from outside (killed, or the machine has no more"
        " memory); --spark-log FILE keeps what Spark says of it."
    ], terminal.written[-5000:]
    assert terminal.process.returncode == 1


def test_a_session_of_ones_own_that_starts_quietly(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import eddyline.spark as eds\n"
        "eds.quiet()\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        "eds.quiet()  # there is a JVM by now: nothing happens\n"
        "print(spark.range(7).repartition(2).count(), 'rows')\n"
    )
    terminal = run_in_terminal([sys.executable, "mine.py"], folder=tmp_path)
    assert (terminal.screen, terminal.process.returncode) == (["7 rows"], 0), terminal.written[-3000:]
    assert terminal.written.split() == ["7", "rows"]
