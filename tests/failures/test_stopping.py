"""Stopped, killed and resumed: the results of all parts together are those of one run, each exactly once."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.engine import feeds, job, stopping
from eddyline.engine.session import Session
from eddyline.io import source
from tests.failures.conftest import Outcome, Run

ROWS = 240
JOB = """
CREATE STREAM A FROM 'a.csv' TIMESTAMP BY ts SLACK 3;
CREATE STREAM B FROM 'b*.jsonl' TIMESTAMP BY ts;
CREATE VIEW big AS SELECT ts, k, v FROM A WHERE v > 20;
sums: SELECT k, sum(v) AS s, min(v) AS lo, count(*) AS n FROM A [RANGE 15] GROUP BY k;
pairs: SELECT Istream(a.v, b.w) FROM A [RANGE 9] a, B [ROWS 20] b WHERE a.k = b.k;
slides: SELECT Rstream(max(v) AS m) FROM big [RANGE 20 SLIDE 7];
ratios: SELECT 100 / (v % 10) AS x FROM A WITH (on_error = 'invalid');
turned_away: SELECT * FROM invalid(ratios);
late_rows: SELECT row FROM late(sums);
"""
NAMES = ["sums", "pairs", "slides", "ratios", "turned_away", "late_rows"]


def inputs() -> dict[str, str | bytes]:
    times = [t + (-6 if t % 17 == 0 else 2 if t % 3 == 0 else 0) for t in range(ROWS)]
    rows = ["oops" if i % 40 == 13 else f"{t},{i % 5},{i * 7 % 50}" for i, t in enumerate(times)]
    other = [json.dumps({"ts": t, "k": t % 6, "w": f"w{t}"}) for t in range(0, ROWS, 2)]
    half = len(other) // 2
    return {
        "a.csv": "ts,k,v\n" + "\n".join(rows) + "\n",
        "b1.jsonl": "\n".join(other[:half]),
        "b2.jsonl": "\n".join(other[half:]),
    }


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BATCH_ROWS", 16)
    monkeypatch.setattr(feeds.Feed.__init__, "__defaults__", (16,))


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A program that a shell starts in the background ignores Ctrl-C; so would these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def answer(done: Outcome, folder: str) -> dict[str, list[dict[str, Any]]]:
    assert len(done.notes) == 3  # late and invalid rows of A, invalid rows of ratios
    tables = {n: pq.read_table(Path(folder) / f"{n}.parquet").to_pylist() for n in NAMES}
    assert all([r["_time"] for r in rows] == sorted(r["_time"] for r in rows) for rows in tables.values())
    # The rows of one instant are a bag, but for − before +.
    return {n: sorted(rows, key=lambda r: (r["_time"], r.get("_sign"), str(r))) for n, rows in tables.items()}


def counts() -> dict[str, Any]:
    report = json.loads(Path("report.json").read_text())
    return {k: report[k] for k in ("events", "results", "late", "invalid")}


def whole(run: Run) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    expected = answer(run(JOB, "--out", "whole", "--report", "report.json", files=inputs(), head=""), "whole")
    assert all(expected.values())  # no part of the job is without results
    return expected, counts()


def interrupt(monkeypatch: pytest.MonkeyPatch, at: int, inside: bool) -> None:
    """Ctrl-C at the ``at``-th step, from a program that sends it twice; ``inside``: from a user who cannot wait."""
    step, taken = Session.step, 0

    def interrupted(session: Session) -> bool:
        nonlocal taken
        taken += 1
        if taken == at:
            signal.raise_signal(signal.SIGINT)
            if inside:
                monkeypatch.setattr(stopping, "SAME_SIGNAL_NANOSECONDS", -1)
            signal.raise_signal(signal.SIGINT)
        return step(session)

    monkeypatch.setattr(Session, "step", interrupted)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("every", [0.0, 1e9])
def test_interrupted_again_and_again(run: Run, monkeypatch: pytest.MonkeyPatch, inside: bool, every: float) -> None:
    expected, totals = whole(run)
    monkeypatch.setattr(job, "SECONDS_PER_SNAPSHOT", every)
    arguments = ("--out", "parts", "--checkpoint", "state", "--report", "report.json")
    for at in (1, 4, 9, 2):
        with monkeypatch.context() as patch:
            interrupt(patch, at, inside)
            done = run(JOB, *arguments, files=inputs(), head="")
        assert done.status == 130
        assert done.err == ("interrupted\n" if inside else "interrupted: the state is in state; the same command continues from there.\n")  # fmt: skip # noqa: E501
        assert not list(Path("parts").glob("*"))
    assert answer(run(JOB, *arguments, head="", files=inputs()), "parts") == expected
    assert counts() == totals


def test_a_finished_run_is_not_run_again(run: Run) -> None:
    expected, totals = whole(run)
    for folder in ("first", "second"):
        done = run(JOB, "--out", folder, "--checkpoint", "state", "--report", "report.json", files=inputs(), head="")
        assert answer(done, folder) == expected and counts() == totals


def test_interrupted_without_a_checkpoint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, 3, inside=False)
    done = run(JOB, "--out", "parts", files=inputs(), head="")
    assert (done.status, done.err) == (130, "interrupted\n")
    assert not list(Path("parts").glob("*"))


def test_an_error_after_a_checkpoint_leaves_it_usable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = whole(run)
    monkeypatch.setattr(job, "SECONDS_PER_SNAPSHOT", 0.0)
    step, taken = Session.step, 0

    def failing(session: Session) -> bool:
        nonlocal taken
        taken += 1
        if taken == 7:
            raise OSError("the disk is gone")
        return step(session)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "step", failing)
        done = run(JOB, "--out", "parts", "--checkpoint", "state", files=inputs(), head="")
    assert done.status == 1 and "the disk is gone" in done.err
    assert answer(run(JOB, "--out", "parts", "--checkpoint", "state", files=inputs(), head=""), "parts") == expected


def test_a_changed_job_does_not_take_over_the_state(run: Run) -> None:
    arguments = ("--out", "parts", "--checkpoint", "state")
    assert run(JOB, *arguments, files=inputs(), head="").status == 0
    changed = JOB.replace("[RANGE 9]", "[RANGE 8]")
    done = run(changed, *arguments, files=inputs(), head="")
    assert done.status == 1
    assert "was made by other streams or queries" in done.message


KILLED = """
import os, sys
from eddyline import cli
import eddyline as ed
from eddyline.io import source
from eddyline.engine import feeds, job
from eddyline.engine.session import Session
from eddyline.engine.snapshot import Snapshots

source.BATCH_ROWS = 16
feeds.Feed.__init__.__defaults__ = (16,)
job.SECONDS_PER_SNAPSHOT = 0.0
steps, where = int(sys.argv[1]), sys.argv[2]
taken = 0
step, put = Session.step, Snapshots.put

def dying_step(session):
    global taken
    taken += 1
    if taken == steps and where == "step":
        os._exit(9)
    return step(session)

def dying_put(snapshots, name, data):
    if taken == steps and where == "snapshot":
        os._exit(9)
    return put(snapshots, name, data)

Session.step, Snapshots.put = dying_step, dying_put
sys.exit(cli.main(["run", "job.cql", "--out", "parts", "--checkpoint", "state"]))
"""


def test_killed_in_the_middle(run: Run) -> None:
    expected, _ = whole(run)
    for steps, where in ((6, "step"), (5, "snapshot")):
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, str(steps), where], capture_output=True, text=True, check=False
        )
        assert killed.returncode == 9, killed.stderr
        assert not [p for p in Path("parts").glob("*") if not p.name.startswith(".")]
    assert answer(run(JOB, "--out", "parts", "--checkpoint", "state", files=inputs(), head=""), "parts") == expected


def test_a_file_that_comes_later_may_have_a_smaller_name(run: Run) -> None:
    """A watched directory is resumed in the order in which its files were read, not in that of their names."""
    head = "CREATE STREAM X FROM 'in' TIMESTAMP BY ts WITH (poll = 0, until_idle = 0{});\n"
    arguments = ("--out", "o.csv", "--checkpoint", "state")
    for option in ("", ", strict = true"):
        session = Session(base=Path.cwd())
        run("SELECT v FROM X;", files={"in/b.csv": "ts,v\n1,1\n2,2\n"}, head=head.format(option))
        session.execute(head.format(option) + "SELECT v FROM X")
        session.step()
        session.snapshot(Path("state"), {"results": {"segments": 0, "chain": ""}})
        done = run("SELECT v FROM X;", *arguments, files={"in/a.csv": "ts,v\n3,3\n"}, head=head.format(option))
        assert (done.status, done.notes) == (0, [])
        assert Path("o.csv").read_text() == '"v","_time"\n1,1\n2,2\n3,3\n'
        (done.folder / "in/b.csv").unlink()
        gone = Session(base=Path.cwd())
        gone.execute(head.format(option) + "SELECT v FROM X")
        gone.restore("state")
        gone.inputs["x"].finished = False
        with pytest.raises(ed.EddylineError, match=r"b\.csv is not in the watched directory 'in' any more"):
            gone.run()
        shutil.rmtree("state")
        (done.folder / "in/a.csv").unlink()
