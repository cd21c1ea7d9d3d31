"""Starting plans on Spark: shards begin with what the busiest shard of an earlier run learned. No JVM is needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from eddyline.spark.packing import Packer
from eddyline.spark.session import SparkRuntime
from eddyline.spark.shard import ShardEngine
from eddyline.spark.shard_keys import shard_of
from eddyline.spark.spark_query import SparkQuery
from tests.shards.shards import tagged, unpacked

TEXT = "SELECT a, count(*) AS n FROM S [RANGE 50] WHERE most(a) AND few(b) GROUP BY a"


def declared(learned: Path) -> tuple[SparkRuntime, SparkQuery, pa.Table]:
    rng = np.random.default_rng(5)
    rows = 20_000
    table = pa.table({"ts": np.arange(rows), "a": rng.integers(0, 20, rows), "b": rng.integers(0, 100, rows)})
    session = SparkRuntime(None, shards=2, learned=learned)
    session.stream("S", table, timestamp="ts")
    session.function("most", lambda x: x < 19, "boolean", ["bigint"])
    session.function("few", lambda x: x < 5, "boolean", ["bigint"])
    return session, session.query(TEXT, filters="a-greedy(p=0.3)"), table


def answer(query: SparkQuery, table: pa.Table) -> list[tuple[object, ...]]:
    program = query.program
    engines = [ShardEngine(program.groups[0], s) for s in range(program.groups[0].shards)]
    packer = Packer(program.routes("S"), program.timestamp("S"), lambda _: None)
    columns = program.columns("S")
    inboxes: dict[int, list[object]] = {e.shard: [] for e in engines}
    if program.positioned("S"):
        table = table.append_column("_arrival", pa.array(np.arange(len(table))))
        columns = [*columns, "_arrival"]
    for packed in packer(iter(table.select(columns).combine_chunks().to_batches()), ended=True):
        for key, row in unpacked(packed):
            inboxes[shard_of(key)].append(row)
    rows = []
    for engine in engines:
        for _, batch in engine.process(inboxes[engine.shard]):  # type: ignore[arg-type]
            rows += [tuple(r.values()) for r in batch.to_pylist()]
        query.account.add([tagged(engine, 0)])
    return sorted(rows, key=repr)


def test_shards_begin_where_those_of_the_last_run_ended(tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    session, query, table = declared(file)
    first = answer(query, table)
    assert not [d for d in query.decisions if d["kind"] == "starting plan"]
    session.save_learned()
    _, again, table = declared(file)
    assert answer(again, table) == first
    begun = [d for d in again.decisions if d["kind"] == "starting plan" and "an earlier run" in d["reason"]]
    assert [d["shard"] for d in begun] == [None]  # all shards alike
    assert begun[0]["after"][0].startswith("few(")
