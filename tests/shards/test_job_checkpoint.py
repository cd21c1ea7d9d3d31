"""What the driver finds in a checkpoint before anything starts."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eddyline.core.errors import EddylineError, JobError
from eddyline.engine import job as inline
from eddyline.engine.spools import Spools
from eddyline.io.locking import DirectoryLock
from eddyline.spark import compatibility, job_checkpoint
from eddyline.spark import job as on_spark
from eddyline.spark.program import Program
from eddyline.testing.cases import Case
from eddyline.testing.reference import StreamData
from tests.shards.shards import Way, plan


def program(width: int = 5, shards: int = 8) -> Program:
    text = f"SELECT a, count(*) AS n FROM S [RANGE {width}] GROUP BY a"
    return Program((plan(Case(text, {"S": StreamData([])}, {}), Way(shards=shards)),))


def commit(checkpoint: Path) -> None:
    """As Spark does at the end of a micro-batch."""
    (checkpoint / "spark" / "commits").mkdir(parents=True)
    (checkpoint / "spark" / "commits" / "0").touch()


def test_a_changed_job_is_refused_even_where_nothing_is_left_to_do(tmp_path: Path) -> None:
    job_checkpoint.check(tmp_path, program(), 8)
    commit(tmp_path)
    job_checkpoint.check(tmp_path, program(), 8)
    with pytest.raises(EddylineError, match=r"‹… S \[RANGE 5\].*› became ‹… S \[RANGE 6\]"):
        job_checkpoint.check(tmp_path, program(width=6), 8)
    with pytest.raises(EddylineError, match="it had 8 shards and now has 3; pass shards=8"):
        job_checkpoint.check(tmp_path, program(shards=3), 3)
    job_checkpoint.check(tmp_path, program(), 8)


def test_the_number_of_shards_is_remembered(tmp_path: Path) -> None:
    assert job_checkpoint.shards_of(tmp_path) is None
    job_checkpoint.check(tmp_path, program(), 8)
    assert job_checkpoint.shards_of(tmp_path) is None  # nothing is done yet
    commit(tmp_path)
    assert job_checkpoint.shards_of(tmp_path) == 8


def test_before_the_first_commit_everything_may_change(tmp_path: Path) -> None:
    job_checkpoint.check(tmp_path, program(), 8)
    job_checkpoint.check(tmp_path, program(width=6), 8)
    commit(tmp_path)
    job_checkpoint.check(tmp_path, program(width=6), 8)


def test_a_checkpoint_without_the_file_is_refused(tmp_path: Path) -> None:
    """Nobody could tell a changed job from the one that began it."""
    commit(tmp_path)
    with pytest.raises(EddylineError, match=r"job\.json is missing: either the checkpoint is not whole, or an older"):
        job_checkpoint.check(tmp_path, program(), 8)
    with pytest.raises(EddylineError, match=r"job\.json is missing"):
        job_checkpoint.shards_of(tmp_path)


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    job_checkpoint.check(tmp_path, program(), 8)
    commit(tmp_path)
    path = tmp_path / job_checkpoint.FILE
    whole = path.read_bytes()
    refused = r"the checkpoint is damaged|is missing|older version of Eddyline"
    for i in range(0, len(whole), 7):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        with pytest.raises(EddylineError, match=refused):
            job_checkpoint.check(tmp_path, program(), 8)
        path.write_bytes(whole[:i])
        with pytest.raises(EddylineError, match=refused):
            job_checkpoint.check(tmp_path, program(), 8)
    path.write_bytes(whole)
    job_checkpoint.check(tmp_path, program(), 8)


def test_a_file_of_an_older_version_is_one_sentence(tmp_path: Path) -> None:
    commit(tmp_path)
    (tmp_path / job_checkpoint.FILE).write_text(json.dumps({"shards": 8, "facts": compatibility.facts(program())}))
    with pytest.raises(EddylineError, match="an older version of Eddyline made the checkpoint"):
        job_checkpoint.check(tmp_path, program(), 8)


def test_queries_in_another_order_are_refused(tmp_path: Path) -> None:
    """Results are kept by the place of their query in the job, which the program does not tell."""
    job_checkpoint.check(tmp_path, program(), 8, [0, 2, 1])
    commit(tmp_path)
    job_checkpoint.check(tmp_path, program(), 8, [0, 2, 1])
    with pytest.raises(EddylineError, match="the queries of the job stand in another order"):
        job_checkpoint.check(tmp_path, program(), 8, [0, 1, 2])


def test_only_the_owner_reads_what_is_written(tmp_path: Path) -> None:
    job_checkpoint.check(tmp_path, program(), 8)
    assert (tmp_path / job_checkpoint.FILE).stat().st_mode & 0o777 == 0o600


def test_the_runtimes_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    """Their results would be mixed up. Nothing of Spark starts: it is told before."""
    (tmp_path / "rows.csv").write_text("ts,a\n1,2\n3,4\n")
    job = tmp_path / "job.cql"
    job.write_text("CREATE STREAM S FROM 'rows.csv' TIMESTAMP BY ts; SELECT count(*) AS n FROM S [RANGE 5];")
    common: dict[str, Any] = {
        "out": tmp_path / "out.csv",
        "report": None,
        "strict": False,
        "progress": None,
        "stdout": io.StringIO(),
    }
    assert inline.run_job(job, checkpoint=tmp_path / "inline", **common) == 0
    assert inline.run_job(job, checkpoint=tmp_path / "inline", **common) == 0
    with pytest.raises(JobError, match="was begun with --runtime inline"):
        on_spark.run_job(job, master=None, shards=None, checkpoint=tmp_path / "inline", **common)
    commit(tmp_path / "elsewhere")
    with pytest.raises(JobError, match="was begun with --runtime spark"):
        inline.run_job(job, checkpoint=tmp_path / "elsewhere", **common)


def test_a_checkpoint_that_is_damaged_or_in_use_is_refused_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("ts,a\n1,2\n3,4\n")
    job = tmp_path / "job.cql"
    job.write_text("CREATE STREAM S FROM 'rows.csv' TIMESTAMP BY ts; SELECT count(*) AS n FROM S [RANGE 5];")
    checkpoint = tmp_path / "state"
    commit(checkpoint)
    spools = Spools(checkpoint / "results", 1)
    spools.put(0, {0: [pa.record_batch({"n": [1]})]})
    options: dict[str, Any] = {
        "out": None,
        "report": None,
        "strict": False,
        "progress": None,
        "stdout": io.StringIO(),
        "master": None,
        "shards": None,
        "checkpoint": checkpoint,
    }
    with DirectoryLock(checkpoint, "the checkpoint"), pytest.raises(EddylineError, match="is in use by process"):
        on_spark.run_job(job, **options)
    (checkpoint / "results" / "1" / "0.arrow").unlink()
    with pytest.raises(EddylineError, match=r"1/0\.arrow is missing"):
        on_spark.run_job(job, **options)
    (checkpoint / "results" / "journal").unlink()
    with pytest.raises(EddylineError, match="an older version of Eddyline made it"):
        on_spark.run_job(job, **options)
