"""Checkpoints whose files were deleted, altered or mixed up, of older versions, or in use: refused in one sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.core.errors import EddylineError
from eddyline.engine.snapshot import FORMAT
from eddyline.engine.spools import Spools
from eddyline.io import sinks
from eddyline.io.locking import DirectoryLock, is_at
from tests.failures.attack import Attack, small_batches, stopped_after
from tests.failures.conftest import Outcome, Run

JOB = "one: SELECT v FROM S;\ntwo: SELECT Rstream(sum(v) AS s) FROM S [ROWS 2];"
ARGUMENTS = ("--out", "out", "--checkpoint", "state")


@pytest.fixture(autouse=True)
def every_few_rows() -> Iterator[None]:
    with small_batches():
        yield


def begun(run: Run) -> Path:
    """A checkpoint with some segments of results."""
    rows = "".join(f"{t},1,{t},x\n" for t in range(100))
    for steps in (3, 2):
        with stopped_after(steps):
            assert run(JOB, *ARGUMENTS, files={"s.csv": f"ts,k,v,name\n{rows}"}).status == 130
    results = Path("state/results")
    assert sorted(p.name for p in (results / "1").iterdir()) == ["0.arrow", "1.arrow", "2.arrow", "3.arrow", "4.arrow"]
    return results


def resumed(run: Run) -> Outcome:
    rows = "".join(f"{t},1,{t},x\n" for t in range(100))
    return run(JOB, *ARGUMENTS, files={"s.csv": f"ts,k,v,name\n{rows}"})


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def swap(path: Path) -> None:
    other = path.with_name("3.arrow")
    mine, its = path.read_bytes(), other.read_bytes()
    path.write_bytes(its)
    other.write_bytes(mine)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("1/2.arrow", Path.unlink, "1/2.arrow is missing"),
        ("2/0.arrow", flip, "2/0.arrow does not hold what was written"),
        ("2/0.arrow", cut, "2/0.arrow does not hold what was written"),
        ("1/2.arrow", swap, "1/2.arrow does not hold what was written"),
        ("journal", Path.unlink, "journal does not match the snapshot"),
        ("journal", flip, "journal does not match the snapshot"),
        ("journal", cut, "journal does not match the snapshot"),
    ],
)
def test_results_that_are_not_what_was_written(run: Run, name: str, damage: Callable[[Path], None], said: str) -> None:
    results = begun(run)
    damage(results / name)
    for _ in range(2):  # refused before anything is written, so it stays refused
        done = resumed(run)
        assert done.status == 1
        assert f"the results in 'state/results' are damaged: {said}; take a copy" in done.message
        assert not list(Path("out").glob("*"))


def test_altered_while_the_run_goes_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    results, keep = begun(run), Spools.keep

    def altered(self: Spools, mark: Any) -> None:
        keep(self, mark)
        flip(results / "1" / "1.arrow")

    monkeypatch.setattr(Spools, "keep", altered)
    done = resumed(run)
    assert done.status == 1 and "1/1.arrow does not hold what was written" in done.message
    assert not list(Path("out").glob("*"))


def test_segments_of_a_run_without_a_snapshot_are_no_results(run: Run) -> None:
    """Whoever removes the snapshots starts from the beginning; what was spooled before must not come on top."""
    results = begun(run)
    for manifest in Path("state").glob("*.json"):
        manifest.unlink()
    (results / "1" / "9.arrow.tmp").write_text("half")
    assert resumed(run).status == 0
    again = {p.name: p.read_bytes() for p in Path("out").iterdir()}
    shutil.rmtree("out")
    shutil.rmtree("state")
    assert resumed(run).status == 0
    assert {p.name: p.read_bytes() for p in Path("out").iterdir()} == again
    assert not (results / "1" / "9.arrow.tmp").exists()


def test_a_journal_that_is_a_folder(run: Run) -> None:
    results = begun(run)
    for manifest in Path("state").glob("*.json"):
        manifest.unlink()
    (results / "journal").unlink()
    (results / "journal").mkdir()
    done = resumed(run)
    assert done.status == 1 and "cannot be removed: Is a directory; remove it by hand" in done.message


def test_a_query_that_gets_another_name_keeps_its_results(run: Run) -> None:
    begun(run)
    rows = "".join(f"{t},1,{t},x\n" for t in range(100))
    done = run(JOB.replace("one:", "renamed:"), *ARGUMENTS, files={"s.csv": f"ts,k,v,name\n{rows}"})
    assert done.status == 0
    assert pq.read_table("out/renamed.parquet")["v"].to_pylist() == list(range(100))


def test_a_checkpoint_of_an_older_version(run: Run) -> None:
    begun(run)
    newest = max(Path("state").glob("*.json"), key=lambda p: int(p.stem))
    manifest = json.loads(newest.read_text())
    newest.write_text(json.dumps({**manifest, "format": FORMAT - 1}))
    done = resumed(run)
    assert done.status == 1 and f"has format {FORMAT - 1}, this version reads {FORMAT}" in done.message


def test_a_snapshot_that_a_program_saved(run: Run) -> None:
    from eddyline.engine.job import declare_job
    from eddyline.engine.job_text import read_job
    from eddyline.engine.session import Session

    begun(run)
    shutil.rmtree("state")
    session = Session(base=Path.cwd())
    declare_job(session, read_job(Path("job.cql")))
    session.step()
    session.snapshot("state")
    done = resumed(run)
    assert done.status == 1 and "was saved by a program and not by eddyline run" in done.message


def test_files_beside_ours_are_left_alone(run: Run) -> None:
    """A checkpoint may lie where other files are, and have the folder of the answers in it."""
    arguments = ("--out", "answers", "--checkpoint", ".")
    Path("mine.tmp").write_text("mine")
    Path("results/7").mkdir(parents=True)
    Path("results/7/mine.arrow").write_text("mine")
    for _ in range(2):
        assert run(JOB, *arguments).status == 0
    assert Path("mine.tmp").exists() and Path("results/7/mine.arrow").exists()
    assert pq.read_table("answers/one.parquet").num_rows == 4


# ── on Spark: the micro-batches that Spark has noted as done ─────────────────────────────────────────────────────────


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"x": list(values)})


def test_micro_batches_that_are_run_again(tmp_path: Path) -> None:
    spools = Spools(tmp_path / "r", 2)
    spools.keep_first(0)
    spools.put(0, {0: [batch(1)], 1: []})
    spools.put(1, {0: [], 1: []})
    spools.put(2, {0: [batch(2)], 1: [batch(5)]})
    again = Spools(tmp_path / "r", 2)
    again.keep_first(2)  # the last one was not noted as done
    assert not (tmp_path / "r" / "1" / "2.arrow").exists()
    again.put(2, {0: [batch(2)], 1: [batch(5)]})
    again.put(2, {0: [batch(2)], 1: [batch(6)]})
    assert [b.to_pydict() for b in again.batches(0)] == [{"x": [1]}, {"x": [2]}]
    assert [b.to_pydict() for b in again.batches(1)] == [{"x": [6]}]
    with pytest.raises(EddylineError, match="journal ends before segment 5"):
        again.put(5, {})


def test_micro_batches_without_their_results(tmp_path: Path) -> None:
    spools = Spools(tmp_path, 1)
    for n in range(3):
        spools.put(n, {0: [batch(n)]})
    with pytest.raises(EddylineError, match="journal does not hold what was written"):
        Spools(tmp_path, 1).keep_first(4)
    with pytest.raises(EddylineError, match="holds results of a job with more queries"):
        Spools(tmp_path, 0).keep_first(3)
    (tmp_path / "1" / "1.arrow").unlink()
    with pytest.raises(EddylineError, match=r"1/1\.arrow is missing"):
        Spools(tmp_path, 1).keep_first(3)
    Spools(tmp_path, 1).keep_first(1)
    (tmp_path / "journal").unlink()
    with pytest.raises(EddylineError, match="is missing: either the checkpoint is not whole, or an older version"):
        Spools(tmp_path, 1).keep_first(1)


def test_only_the_owner_can_read_results(tmp_path: Path) -> None:
    Spools(tmp_path / "r", 1).put(0, {0: [batch(1)]})
    found = [tmp_path / "r", *(tmp_path / "r").rglob("*")]
    assert {p.stat().st_mode & 0o777 for p in found if p.is_dir()} == {0o700}
    assert {p.stat().st_mode & 0o777 for p in found if p.is_file()} == {0o600}


# ── in use ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_run_is_refused(run: Run) -> None:
    begun(run)
    with DirectoryLock(Path("state"), "the checkpoint"):
        done = resumed(run)
        assert done.status == 1
        assert f"the checkpoint 'state' is in use by process {os.getpid()}; wait until it ends" in done.message
    assert resumed(run).status == 0
    assert not Path("state/lock").exists()


HOLD = """
import sys, time
from pathlib import Path
from eddyline.io.locking import DirectoryLock
with DirectoryLock(Path(sys.argv[1]), "the checkpoint"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_lock_dies_with_its_process(run: Run) -> None:
    begun(run)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, "state"], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        assert f"is in use by process {holder.pid};" in resumed(run).message
    finally:
        holder.kill()
        holder.communicate()
    assert Path("state/lock").exists()  # a file that locks nothing
    assert resumed(run).status == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_neither_keeps_the_lock_nor_ends_it(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path, "it")
    lock.__enter__()
    reading, writing = os.pipe()
    tried, try_done = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(writing)
            with pytest.raises(EddylineError, match="is in use"):
                DirectoryLock(tmp_path, "it").__enter__()
            os.write(try_done, b".")
            os.read(reading, 1)  # until the parent has let go
            DirectoryLock(tmp_path, "it").__enter__()
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.close(reading)
    os.close(try_done)
    os.read(tried, 1)  # until the child has tried
    with pytest.raises(EddylineError, match="is in use"):
        DirectoryLock(tmp_path, "it").__enter__()
    lock.close()
    with DirectoryLock(tmp_path, "it"):
        pass
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0


def test_a_lock_file_that_was_removed_meanwhile_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody opens the file, its owner removes it and lets go, and only then it is locked."""
    owner, seen = DirectoryLock(tmp_path, "it"), []
    owner.__enter__()

    def late(file: int, path: Path) -> bool:
        seen.append(is_at(file, path))
        return seen[-1]

    from eddyline.io import locking

    try_lock = locking.try_lock

    def after_the_owner(file: int) -> bool | None:
        owner.close()
        return try_lock(file)

    monkeypatch.setattr(locking, "try_lock", after_the_owner)
    monkeypatch.setattr(locking, "is_at", late)
    with DirectoryLock(tmp_path, "it"):
        assert seen == [False, True]
        assert (tmp_path / "lock").exists()


def test_half_results_of_killed_runs_are_removed(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.int64())])
    (tmp_path / ".o.csv.1234.tmp").write_text("half")
    (tmp_path / ".other.csv.1234.tmp").write_text("of another result")
    with sinks.open_sink(tmp_path / "o.csv", schema) as sink:
        with sinks.open_sink(tmp_path / "o.csv", schema) as second:  # the first is being written: it is no leftover
            second.write(batch(2))
        sink.write(batch(1))
    assert sorted(p.name for p in tmp_path.iterdir()) == [".other.csv.1234.tmp", "o.csv"]
    assert (tmp_path / "o.csv").read_text() == '"x"\n1\n'


# ── the attack ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_killed_and_damaged(tmp_path: Path) -> None:
    """A short form of ``python -m tests.failures.attack``."""
    attack = Attack(tmp_path, seed=5)
    copies = attack.kills(2)
    attack.damages(30, [*attack.stages(3), *copies])
    assert attack.outcomes["refused"] >= 5 and attack.outcomes["exact rows"] >= 5
