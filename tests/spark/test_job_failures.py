"""What stops a job from outside, in one sentence: a full disk, a worker that is killed."""

from __future__ import annotations

import errno
import io
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import eddyline as ed
from eddyline.core.errors import EddylineError
from eddyline.engine import outputs
from eddyline.spark import job, local

JOB = """
CREATE STREAM S FROM 's.csv' TIMESTAMP BY t;
SELECT k, v FROM S WHERE v > 500;
"""


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "state/results/query_1/0.tmp")


def test_a_full_disk(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "local_session", lambda *_, **__: spark)
    monkeypatch.setattr(outputs.Spools, "put", full)
    (tmp_path / "s.csv").write_text("t,k,v\n" + "".join(f"{t},{t},{t * 311 % 1000}\n" for t in range(60)))
    (tmp_path / "job.cql").write_text(JOB)
    given: dict[str, Any] = {"master": None, "shards": None, "out": None, "report": None, "strict": False}
    with pytest.raises(EddylineError) as caught:
        job.run_job(tmp_path / "job.cql", checkpoint=tmp_path / "state", progress=None, stdout=io.StringIO(), **given)
    assert str(caught.value) == ("results cannot be written to state/results/query_1/0.tmp: No space left on device.")


def test_a_worker_that_is_killed(spark: Any) -> None:
    def dies(v: int) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return True

    session = ed.Session(spark)
    session.stream("S", [{"t": 1, "v": 2}], timestamp="t")
    session.function("dies", dies)
    with pytest.raises(EddylineError) as caught:
        session.query("SELECT v FROM S WHERE dies(v)").to_arrow()
    assert str(caught.value) == (
        "Spark stopped the job: a Python worker was ended from outside (killed, or the machine has no more memory)."
    )
