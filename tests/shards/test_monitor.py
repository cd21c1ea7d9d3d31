"""SysStream and Decisions on Spark: what shards report arrives in queries on the driver. No JVM is needed for it."""

from __future__ import annotations

import pytest

from eddyline.core.errors import JobError
from eddyline.engine.query import Query
from eddyline.spark.session import SparkRuntime
from eddyline.spark.shard import ShardEngine
from eddyline.testing import ManualClock
from tests.shards.shards import tagged

ROWS = [{"ts": t, "a": t % 5} for t in range(200)]


def test_rows_of_all_shards_arrive_and_decisions_once() -> None:
    clock = ManualClock()
    session = SparkRuntime(None, clock=clock, shards=3)
    session.stream("S", ROWS, timestamp="ts")
    query = session.query("SELECT a, count(*) AS n FROM S [RANGE 10] GROUP BY a", name="q")
    rows = session.query("SELECT Istream(entity, property, value, shard) FROM SysStream WHERE kind = 'operator'")
    made = session.query("SELECT Istream(kind, by, shard) FROM Decisions")
    assert isinstance(rows, Query) and isinstance(made, Query)
    engines = [ShardEngine(query.program.groups[0], s) for s in range(3)]
    for batch in (1, 2):
        for engine in engines:
            engine.queries[0].pin() if batch == 2 else None
            query.account.add([tagged(engine, 0, batch)])
        clock.advance(2_000_000)
    session.shards_reported()
    found = rows.to_arrow().to_pylist()
    assert {r["shard"] for r in found} == {0, 1, 2}
    assert {r["property"] for r in found} >= {"rows in", "rows out", "seconds"}
    pinned = [(r["by"], r["shard"]) for r in made.to_arrow().to_pylist() if r["kind"] == "pinned"]
    assert sorted(pinned) == [("user", 0), ("user", 1), ("user", 2)]


def test_a_query_cannot_read_both_the_driver_and_shards() -> None:
    session = SparkRuntime(None, shards=1)
    session.stream("S", ROWS, timestamp="ts", arrival=True)
    text = "SELECT Istream(a) FROM S [RANGE 1 SECOND], SysStream [RANGE 1 SECOND] WHERE a = value"
    with pytest.raises(JobError, match=r"time|write a query for each"):
        session.query(text)
