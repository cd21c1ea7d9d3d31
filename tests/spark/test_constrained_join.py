"""A join that spills what constraints make useless, on real Spark: shards, micro-batches, a restart from a checkpoint.
Declared keys are enforced by shards as inline."""

from __future__ import annotations

import io
import os
import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import eddyline as ed
import eddyline.spark as eds
from eddyline.engine import job as inline
from eddyline.spark import job as on_spark
from tests.spark.test_exactly_once import Collected, bag, into, run

ROWS, FILES, LAST = 1_200, 4, 100_000
TEXT = "SELECT Istream(R.ts, R.v, S.ts AS u) FROM R [RANGE 400] R, S [RANGE 400] S WHERE R.id = S.id"
EXACT = "exact(collect=20, W=10)"


def tables() -> dict[str, pa.Table]:
    """Keys in order but for some that come back much later: rows are spilled, and some are needed again. The last row
    of each stream closes all instants before it."""
    rng = random.Random(19)
    keys = [rng.randrange(ROWS) if rng.random() < 0.08 else max(0, t - rng.randint(0, 9)) for t in range(ROWS)]
    r = {"ts": [*range(ROWS), LAST], "id": [*range(ROWS), -1], "v": [rng.randint(0, 9) for _ in range(ROWS + 1)]}
    return {"R": pa.table(r), "S": pa.table({"ts": [*range(ROWS), LAST], "id": [*keys, -2]})}


def write(folder: Path, files: range) -> None:
    size = -(-(ROWS + 1) // FILES)
    for name, table in tables().items():
        (folder / name).mkdir(exist_ok=True)
        for i in files:
            path = folder / name / f"{i}.parquet"
            pq.write_table(table.slice(i * size, size), path)
            os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))  # Spark reads files in order of their times


def frames(spark: Any, folder: Path) -> dict[str, Any]:
    return {
        n: spark.readStream.schema(", ".join(f"{c} long" for c in t.schema.names))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / n))
        for n, t in tables().items()
    }


def test_an_exact_join_in_shards_goes_on_from_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    session = ed.Session()
    for name, table in tables().items():
        session.stream(name, table, timestamp="ts")
    expected = bag(session.query(TEXT).to_arrow())
    assert expected.total() > 1_000
    sink = Collected()
    for files in (range(FILES // 2), range(FILES // 2, FILES)):
        write(tmp_path, files)
        df = eds.query(f"{TEXT} WITH (constraints = '{EXACT}')", frames(spark, tmp_path), timestamp="ts", shards=3)
        run(into(df, tmp_path / "checkpoint", sink))
    assert sink.rows() == expected
    assert len(sink.batches) >= FILES  # several micro-batches, and two runs


JOB = f"""
CREATE STREAM R FROM 'r.csv' TIMESTAMP BY ts UNIQUE (id);
CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts UNIQUE (id) WITHIN 50;
pairs: {TEXT} WITH (constraints = '{EXACT}');
doubles: SELECT stream, row FROM invalid(pairs);
"""


def test_keys_are_enforced_by_shards_as_inline(tmp_path: Path) -> None:
    rng = random.Random(7)
    lines = [f"{t},{t - (3 if t % 40 == 9 else 0)},{rng.randint(0, 9)}" for t in range(400)]
    (tmp_path / "r.csv").write_text("ts,id,v\n" + "\n".join(lines) + "\n")
    (tmp_path / "s.csv").write_text("ts,id\n" + "\n".join(f"{t},{max(0, t - t % 7)}" for t in range(400)) + "\n")
    (tmp_path / "job.cql").write_text(JOB)
    common: dict[str, Any] = {"report": None, "checkpoint": None, "strict": False, "progress": None}
    found = []
    for name, runtime in (("inline", inline.run_job), ("spark", partial(on_spark.run_job, master=None, shards=3))):
        assert runtime(tmp_path / "job.cql", out=tmp_path / name, stdout=io.StringIO(), **common) == 0
        read = {n: pq.read_table(tmp_path / name / f"{n}.parquet").to_pylist() for n in ("pairs", "doubles")}
        found.append({n: Counter(map(str, rows)) for n, rows in read.items()})
    assert found[0]["pairs"] == found[1]["pairs"] and found[0]["pairs"].total() > 50
    assert found[0]["doubles"].total() == found[1]["doubles"].total() > 300
