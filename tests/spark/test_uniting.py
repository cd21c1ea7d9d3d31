"""Sources of different columns and types share one Python step, or have one each; the answers are the same."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
import eddyline.spark as eds
from eddyline.spark import union as uniting

ROWS = 60
TEXT = """SELECT Istream(o.id, o.`the note`, p.price, c.name, c.big) FROM orders [RANGE 9] o, prices [RANGE 9] p,
clients [RANGE 9] c WHERE o.id = p.id AND p.id = c.id"""


@pytest.fixture(scope="module")
def tables() -> Mapping[str, pa.Table]:
    times = list(range(ROWS))
    ids = [t * 7 % 11 for t in times]
    return {
        "orders": pa.table({"the note": [f"n{t}" if t % 5 else None for t in times], "id": ids, "ts": times}),
        "prices": pa.table({"ts": times, "price": [t / 4 for t in times], "id": ids[::-1]}),
        "clients": pa.table({"id": ids, "name": [f"c{i}" for i in ids], "big": [i > 5 for i in ids], "ts": times}),
    }


@pytest.fixture(scope="module")
def folder(tables: Mapping[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("united")
    for name, table in tables.items():
        (place / name).mkdir()
        for i in range(3):
            pq.write_table(table.slice(i * ROWS // 3, ROWS // 3), place / name / f"{i}.parquet")
            os.utime(place / name / f"{i}.parquet", (i, i))
    return place


@pytest.mark.parametrize("widest", [uniting.MAX_SLOTS_FACTOR, 1])
def test_as_inline(
    spark: Any,
    tables: Mapping[str, pa.Table],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    widest: int,
) -> None:
    monkeypatch.setattr(
        uniting, "MAX_SLOTS_FACTOR", widest
    )  # 1: too many slots, so that each source has a step of its own
    session = ed.Session()
    for name, table in tables.items():
        session.stream(name, table, timestamp="ts")
    expected = Counter(map(repr, session.query(TEXT).to_arrow().to_pylist()))
    assert len(expected) > 20
    frames = {
        n: spark.readStream.schema(spark.read.parquet(str(folder / n)).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / n))
        for n in tables
    }  # fmt: skip
    got: Counter[str] = Counter()

    def take(batch: Any, _: int) -> None:
        got.update(map(repr, batch.toArrow().to_pylist()))

    answer = eds.query(TEXT, frames, timestamp="ts", shards=4)
    query = answer.writeStream.foreachBatch(take).trigger(availableNow=True)
    running = query.option("checkpointLocation", str(tmp_path)).start()
    running.awaitTermination()
    # A streaming DataFrame has no end: what the last instant would add stays open.
    assert got
    assert not got - expected
    assert all(f"'_time': {ROWS - 1}" in r for r in expected - got)
    batch = {n: spark.read.parquet(str(folder / n)) for n in tables}
    plan = eds.query(TEXT, batch, timestamp="ts", shards=4)
    assert Counter(map(repr, plan.toArrow().to_pylist())) == expected


def test_runs_of_sources() -> None:
    def batch(*numbers: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {"_source": pa.array(numbers, pa.int16()), "_0": pa.array(range(len(numbers)), pa.int64())}
        )

    def found(*numbers: int) -> Iterator[tuple[int, list[int]]]:
        return ((n, part["_0"].to_pylist()) for n, part in uniting.runs(batch(*numbers)))

    assert list(found()) == []
    assert list(found(2)) == [(2, [0])]
    assert list(found(0, 0, 1, 0)) == [(0, [0, 1]), (1, [2]), (0, [3])]


def test_columns_share_slots_by_type() -> None:
    assert uniting.share([["t", "l"], ["l", "t", "t"]]) == (["t", "l", "t"], [[0, 1], [1, 0, 2]])
    assert uniting.share([["s"], ["l"]]) == (["s", "l"], [[0], [1]])
