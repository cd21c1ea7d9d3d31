"""SLACK AUTO on Spark: a streaming DataFrame that is stopped and started again, and a job over files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import eddyline as ed
from eddyline.spark.job import run_job

TEXT = "SELECT a, count(*) AS n FROM S [RANGE 50] GROUP BY a"
ROWS, PARTS = 900, 4


def parts(late: int = 40) -> list[pa.Table]:
    """Rows up to 40 ticks late, one in two hundred stamped far ahead, and one that comes hopelessly late."""
    rng = np.random.default_rng(8)
    ts = np.arange(ROWS * PARTS)
    ts = ts[np.argsort(ts + rng.integers(0, late, len(ts)), kind="stable")]
    ts[500::200] += 5_000_000
    ts[2000] = 0
    table = pa.table({"ts": ts, "a": rng.integers(0, 4, len(ts))})
    return [table.slice(i * ROWS, ROWS) for i in range(PARTS)]


def inline(rows: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    session = ed.Session()
    columns = [pa.array(c, pa.int64()) for c in zip(*sorted(rows), strict=True)]
    session.stream("S", pa.table(columns, ["ts", "a"]), timestamp="ts")
    return sorted((r["_time"], r["_sign"], r["a"], r["n"]) for r in session.query(TEXT).to_arrow().to_pylist())


def kept(tables: Sequence[pa.Table], away: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    rows = [(r["ts"], r["a"]) for t in tables for r in t.to_pylist()]
    for r in away:
        rows.remove((r["ts"], r["a"]))
    return rows


def wait_for(there: Callable[[], bool]) -> None:
    """Reports come in a thread of Spark's."""
    for _ in range(600):
        if there():
            return
        time.sleep(0.1)
    raise AssertionError("nothing was reported")


def test_a_streaming_dataframe_keeps_its_slack_over_a_restart(spark: Any, tmp_path: Path) -> None:
    folder, tables, away = tmp_path / "in", parts(), []
    folder.mkdir()
    slacks = []
    for begin, end in ((0, 2), (2, 4)):
        frame = spark.readStream.schema("ts bigint, a bigint").option("maxFilesPerTrigger", "1").parquet(str(folder))
        session = ed.Session(spark, shards=2)
        session.stream("S", frame, timestamp="ts", slack="auto")
        query = session.query(TEXT, name="q")
        out = query.dataframe().writeStream.format("parquet").option("path", str(tmp_path / "out"))
        running = out.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            for number in range(begin, end):
                pq.write_table(tables[number], folder / f"part-{number}.parquet")
                running.processAllAvailable()
                wait_for(lambda: query.read().batches > number)  # noqa: B023 - called at once
                slacks.append(query.report()["streams"]["S"]["slack"])
        finally:
            running.stop()
        away += [*query.late(), *query.invalid()]
    found = query.report()["streams"]["S"]
    assert found["late"] == len([r for r in away if r["_reason"].startswith("late")]) == 1
    ahead = sum(r["ts"] > 10**6 for t in tables[:-1] for r in t.to_pylist())
    assert found["implausible"] == found["invalid"] == ahead > 9  # those of the last one wait to be confirmed
    assert 30 < slacks[-1] < 500 and len(set(slacks)) > 1
    told = [d for d in query.decisions if d["kind"] == "slack"]
    assert told and {d["shard"] for d in told} == {0}
    answered = [(r["_time"], r["_sign"], r["a"], r["n"]) for r in pq.read_table(tmp_path / "out").to_pylist()]
    last = max(t for t, *_ in answered)
    assert last > ROWS * PARTS - 600
    assert sorted(answered) == [r for r in inline(kept(tables, away)) if r[0] <= last]


def test_a_job_over_files_loses_no_row_unseen(tmp_path: Path) -> None:
    tables = parts()
    pq.write_table(pa.concat_tables(tables), tmp_path / "s.parquet")
    job = tmp_path / "job.cql"
    job.write_text(f"CREATE STREAM S FROM 's.parquet' TIMESTAMP BY ts SLACK FOR 99 %;\n{TEXT};\n")
    options = {"master": "local[1]", "shards": 2, "checkpoint": None, "strict": False, "progress": None, "quiet": True}
    report = tmp_path / "report.json"
    with (tmp_path / "out").open("w") as stdout:
        assert run_job(job, out=tmp_path / "o.parquet", report=report, stdout=stdout, **options) == 0
    told = json.loads(report.read_text())
    (found,) = (q["streams"]["S"] for q in told["queries"].values())
    ahead = sum(int((t["ts"].to_numpy() > 10**6).sum()) for t in tables)
    assert (found["arrived"], found["late"], found["implausible"]) == (ROWS * PARTS, 0, ahead)  # one micro-batch
    rows = [(r["ts"], r["a"]) for t in tables for r in t.to_pylist() if r["ts"] < 10**6]
    answered = [(r["_time"], r["_sign"], r["a"], r["n"]) for r in pq.read_table(tmp_path / "o.parquet").to_pylist()]
    assert sorted(answered) == inline(rows)
