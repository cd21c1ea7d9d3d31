"""``eddyline run --bundle``: what a run shows of its plans, in files."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline import cli
from eddyline.engine.bundles import KEPT_SAMPLES, Recorder
from eddyline.plan.plan_data import PlanGraph
from eddyline.plan.print_html import read_bundle
from eddyline.testing import ManualClock

ROWS = 20_000
FILTERED = "filtered: SELECT Istream(x.a) FROM S [RANGE 3] x, S [RANGE 3] y WHERE x.a = y.a AND x.b < 5 AND y.b < 9;"
JOB = f"CREATE STREAM S FROM 's.parquet' TIMESTAMP BY ts; {FILTERED}"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    ts = list(range(ROWS))
    table = pa.table({"ts": ts, "a": ts, "b": [t % 100 if t < ROWS // 2 else t % 4 for t in ts]})
    pq.write_table(table, tmp_path / "s.parquet", row_group_size=1000)
    (tmp_path / "job.cql").write_text(JOB)
    return tmp_path / "job.cql"


def run(job: Path, *arguments: str) -> int:
    return cli.main(["run", str(job), "--runtime", "inline", "--out", str(job.parent / "out.csv"), *arguments])


def bundle_of(path: Path) -> dict[str, Any]:
    return read_bundle(path.read_text(), path.name)


def test_a_run_is_seen_from_its_beginning_to_its_end(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = job.parent / "seen" / "run.json"
    assert run(job, "--bundle", str(path)) == 0
    assert f"bundle written to {path}" in capsys.readouterr().err
    found = bundle_of(path)
    counts = [s["plan"]["inputs"]["S"]["arrived"] for s in found["samples"]]
    assert counts[0] == 0 and counts[-1] == ROWS and counts == sorted(counts)
    times = [s["at"] for s in found["samples"]]
    assert times == sorted(times) and len(times) >= 2
    last = found["samples"][-1]["plan"]
    written = len((job.parent / "out.csv").read_text().splitlines()) - 1
    assert found["query"] == "filtered" and last["rows"] == written > 0
    decided = [d["kind"] for d in found["decisions"]]
    assert decided  # what was decided is told, with its evidence
    assert cli.main(["view", str(path)]) == 0
    assert path.with_suffix(".html").stat().st_size > 100_000
    bundle = path.read_bytes()
    assert cli.main(["view", str(path), "--out", str(path.parent / "." / path.name)]) == 2
    assert path.read_bytes() == bundle


def test_several_queries_have_a_folder(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job.write_text(f"{JOB} SELECT Istream(count(*) AS n) FROM S [ROWS 5] WHERE a < 10;")
    arguments = ["run", str(job), "--runtime", "inline", "--out", str(job.parent / "out"), "--quiet", "--bundle"]
    assert cli.main([*arguments, str(job.parent / "one.json")]) == 2
    assert "the job has 2 queries, each with a bundle: name a folder." in capsys.readouterr().err
    assert cli.main([*arguments, str(job.parent / "seen")]) == 0
    assert capsys.readouterr().err == ""
    assert sorted(p.name for p in (job.parent / "seen").iterdir()) == ["filtered.bundle.json", "query_2.bundle.json"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("seen.txt", "a bundle is a .json file"),
        ("r.json", "is also the file of the report; give the bundle another one."),
        ("job.cql/x.json", "is a file; a directory is wanted"),
    ],
)
def test_a_bundle_has_a_file_of_its_own(job: Path, capsys: pytest.CaptureFixture[str], path: str, said: str) -> None:
    assert run(job, "--report", str(job.parent / "r.json"), "--bundle", str(job.parent / path)) == 2
    assert said in capsys.readouterr().err
    assert not (job.parent / "out.csv").exists()


def test_a_long_run_takes_no_more_samples_than_a_short_one(tmp_path: Path) -> None:
    seen = 0

    def look() -> tuple[PlanGraph, dict[str, Any]]:
        return PlanGraph("q", "SELECT …", "istream", (), (), ""), {"rows": seen}

    recorder = Recorder(clock := ManualClock())
    recorder.add(tmp_path / "q.json", look)
    for _ in range(20_000):
        recorder.look()
        clock.advance(10_000)
        seen += 1
    recorder.write()
    samples = json.loads((tmp_path / "q.json").read_text())["samples"]
    assert KEPT_SAMPLES <= len(samples) <= 2 * KEPT_SAMPLES
    rows = [s["plan"]["rows"] for s in samples]
    apart = [b - a for a, b in pairwise(rows[:-1])]
    assert rows[0] == 0 and rows[-1] == 20_000 and max(apart) <= 2 * min(apart)  # evenly, over the whole run
