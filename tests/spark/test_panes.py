"""Sliding averages on Spark: rows are added up where they are read, and the answer is that of the inline engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
import eddyline.spark as eds
from eddyline.datasets.trades import trades

TEXT = """SELECT symbol, avg(price) AS mean, count(*) AS n, sum(size) AS total
FROM trades [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY symbol"""
ROWS, BATCHES = 20_000, 4


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return trades(events=ROWS, rate=500, symbols=7).table()


def answer(session: Any, source: Any) -> tuple[list[Any], Any]:
    session.stream("trades", source, timestamp="ts")
    query = session.query(TEXT)
    found = query.to_arrow()
    return found.sort_by([(n, "ascending") for n in found.schema.names]).to_pylist(), query


def panes(query: Any) -> int:
    return sum(s["panes"] for s in query.report()["shards"])


def test_paths(spark: Any, table: pa.Table, tmp_path: Path) -> None:
    """From the second micro-batch on whoever reads rows knows what is late."""
    pq.write_table(table, tmp_path / "trades.parquet")
    expected, _ = answer(ed.Session(), table)
    found, query = answer(ed.Session(spark, shards=2, rows_per_batch=ROWS // BATCHES), str(tmp_path / "trades.parquet"))
    assert found == expected
    assert query.report()["events"] == ROWS
    assert 0 < panes(query) < ROWS / 10
    assert "travels as panes: sums by" in query.explain()


def test_frames(spark: Any, table: pa.Table) -> None:
    """A batch DataFrame knows no lateness: all of it travels as panes."""
    expected, _ = answer(ed.Session(), table)
    found, query = answer(ed.Session(spark, shards=2), spark.createDataFrame(table))
    assert found == expected
    assert 0 < panes(query) < ROWS / 5
    one = eds.query(TEXT, {"trades": spark.createDataFrame(table)}, timestamp="ts", shards=1)
    assert one.count() == len(expected)
