"""Nexmark on Spark: queries with windows that close, sessions, joins and ranks answer what DuckDB answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from benchmarks import harness
from benchmarks.nexmark import STREAMS, comparable, duckdb_batch, examples, last
from benchmarks.spark import nexmark as beside
from benchmarks.spark.driver import PROVIDER

import eddyline
from eddyline.datasets.nexmark import nexmark

pytestmark = pytest.mark.spark
ASKED = ("q5", "q7", "q8", "q9", "q11", "q18", "q19")


def test_the_answers_are_duckdbs(spark: Any, tmp_path: Path) -> None:
    for stream in STREAMS:
        pq.write_table(nexmark(stream, events=3_000, rate=100.0, seed=5).table(), tmp_path / f"{stream}.parquet")
    tables = {s: tmp_path / f"{s}.parquet" for s in STREAMS}
    session = eddyline.Session(spark)
    for stream in ("person", "auction", "bid"):
        session.stream(stream, str(tables[stream]), timestamp="dateTime")
    compared = 0
    for example in examples():
        if example.name in ASKED:
            theirs = Counter(comparable(r.values()) for r in duckdb_batch(example, tables).to_pylist())
            assert last(example, session.query(example.query).to_arrow()) == theirs, example.name
            compared += len(theirs) > 2
    assert compared == len(ASKED)


def test_sparks_own_streaming_answers_the_same(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the benchmark runs beside ours, on a few rows: sessions, the rows that end streams, files in their order."""
    monkeypatch.setattr(beside, "FOLDER", tmp_path)
    monkeypatch.setattr(harness, "FOLDER", tmp_path)
    before = spark.conf.get(PROVIDER)
    folders, tables = beside.slices(3_000, 1_000, 100.0), beside.inline.data(3_000, 100.0)
    job = beside.Job(beside.asked()["q11"], folders, tables["side_input"], 1_000)
    assert len(list(folders["bid"].glob("*.parquet"))) == 4
    try:
        theirs = beside.rows(spark, job, "spark", str(tmp_path))
    finally:
        spark.conf.set(PROVIDER, before)
    assert theirs == beside.truth(job.example, tables)
    assert len(theirs) > 100
