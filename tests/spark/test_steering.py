"""A streaming DataFrame that is steered while Spark runs it: every shard gets each letter, and reports arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.core.errors import JobError

TEXT = "SELECT a, count(*) AS n FROM S [RANGE 40] WHERE most(b) AND few(c) GROUP BY a"
SCHEMA = "ts bigint, a bigint, b bigint, c bigint"


def write(folder: Path, number: int, rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(number)
    ts = number * rows + np.arange(rows)
    table = pa.table({"ts": ts, **{n: rng.integers(0, m, rows) for n, m in (("a", 8), ("b", 100), ("c", 100))}})
    pq.write_table(table, folder / f"part-{number}.parquet")
    return table


def declare(session: Any, source: Any) -> Any:
    session.stream("S", source, timestamp="ts")
    session.function("most", lambda x: x < 95, "boolean", ["bigint"])
    session.function("few", lambda x: x < 10, "boolean", ["bigint"])
    return session.query(TEXT, name="q", filters="a-greedy(p=0.3)")


def test_statements_reach_every_shard_at_the_next_micro_batch(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    parts = [write(folder, 0)]
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(folder))
    session = ed.Session(spark, shards=2)
    query = declare(session, frame)
    session.execute("ALTER QUERY q SET (scheduler = 'chain')")  # before it starts: what will start
    watched = session.query("SELECT Istream(shard, property, value) FROM SysStream WHERE kind = 'shard'", every=0.001)
    decided = session.query("SELECT Istream(shard, kind, by, after) FROM Decisions")
    out = query.dataframe().writeStream.format("memory").queryName("steered").outputMode("append")
    running = out.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        running.processAllAvailable()
        with pytest.raises(JobError, match="unknown filter policy 'swep'"):
            query.alter(filters="swep")
        query.alter(filters="sweep(p=0.3)")
        session.execute("PIN QUERY q")
        session.alter_stream("S", slack=5)
        with pytest.raises(JobError, match="the idle interval of its streams is decided before"):
            session.alter_stream("S", idle="1 second")
        for number in (1, 2, 3):
            parts.append(write(folder, number))
            running.processAllAvailable()
    finally:
        running.stop()
    by_user = {(d["shard"], d["kind"], str(d["after"])) for d in query.decisions if d["by"] == "user"}
    assert {(0, "pinned", "True"), (1, "pinned", "True")} <= by_user
    assert {(0, "option filters", "sweep(p=0.3)"), (1, "option filters", "sweep(p=0.3)")} <= by_user
    assert {(0, "slack", "5"), (1, "slack", "5")} <= by_user
    assert {r["shard"] for r in watched.to_arrow().to_pylist()} == {0, 1}
    told = {(r["shard"], r["kind"]) for r in decided.to_arrow().to_pylist() if r["by"] == "user"}
    assert {(0, "pinned"), (1, "pinned"), (0, "option filters"), (1, "option filters")} <= told

    inline = ed.Session()
    alone = declare(inline, pa.concat_tables(parts)).to_arrow().to_pylist()
    answered = [r.asDict() for r in spark.sql("SELECT * FROM steered").collect()]
    last = max(r["_time"] for r in answered)
    key = lambda r: (r["_time"], r["_sign"], r["a"], r["n"])  # noqa: E731
    assert last > 9000  # of 12,000 instants; the last ones wait for the slack
    assert sorted(map(key, answered)) == sorted(key(r) for r in alone if r["_time"] <= last)
