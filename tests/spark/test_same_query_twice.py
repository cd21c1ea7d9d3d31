"""A query is its place: the same text twice, with or without names, is two queries with an answer each."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import eddyline as ed
import eddyline.spark as eds
from eddyline.core.errors import JobError
from eddyline.engine import job as inline
from eddyline.spark import job as on_spark
from eddyline.spark import local

LARGE = "SELECT k, v FROM S WHERE v > 500"
SUMS = "SELECT k, sum(v) AS total FROM S [RANGE 10] GROUP BY k"
JOB = f"""
CREATE STREAM S FROM 's.csv' TIMESTAMP BY t;
CREATE RELATION names FROM 'names.csv';
{LARGE};
{LARGE};
one: {SUMS};
other: {SUMS};
ratios: SELECT 100 / (v % 3) AS x FROM S WITH (on_error = 'invalid');
failed: SELECT 7 / (length(row) - length(row)) AS y FROM invalid(ratios) WITH (on_error = 'invalid');
failed_again: SELECT 1 AS again FROM invalid(failed);
SELECT k FROM names;
{LARGE};
SELECT k FROM names;
"""
COUNT = 10


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rows = "".join(f"{t},{t * 7 % 5},{t * 311 % 1000}\n" for t in range(60))
    (tmp_path / "s.csv").write_text(f"t,k,v\n{rows}")
    (tmp_path / "names.csv").write_text("k,name\n1,a\n2,b\n")
    (tmp_path / "job.cql").write_text(JOB)
    return tmp_path


def answers(folder: Path) -> dict[str, Counter[Any]]:
    tables = {p.stem: pq.read_table(p) for p in folder.glob("*.parquet")}
    return {n: Counter(map(str, t.to_pylist())) for n, t in tables.items()}


def run(runtime: Callable[..., int], place: Path, name: str, **more: Any) -> dict[str, Counter[Any]]:
    common: dict[str, Any] = {"report": None, "checkpoint": None, "strict": False, "progress": None}
    given = {**common, "out": place / name, "stdout": io.StringIO(), **more}
    assert runtime(place / "job.cql", **given) == 0
    return answers(place / name)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_in_a_job(spark: Any, place: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: bool) -> None:
    monkeypatch.setattr(local, "local_session", lambda *_, **__: spark)
    expected = run(inline.run_job, place, "inline")
    state = place / "state" if checkpoint else None
    got = run(on_spark.run_job, place, "spark", master=None, shards=None, checkpoint=state)
    assert got == expected
    assert len(got) == COUNT and [n for n, rows in got.items() if not rows] == ["failed"]
    if checkpoint:  # its input is at the end: everything comes from what was kept
        assert run(on_spark.run_job, place, "again", master=None, shards=None, checkpoint=state) == expected


def test_late_rows_of_two_queries_are_not_read_together(place: Path) -> None:
    text = JOB + "SELECT * FROM late(one) UNION ALL SELECT * FROM late(other);"
    (place / "job.cql").write_text(text)
    with pytest.raises(JobError, match="query 11 reads the late or invalid rows of several queries"):
        run(on_spark.run_job, place, "spark", master=None, shards=None)


def test_in_a_session(spark: Any, place: Path) -> None:
    table = pc.read_csv(place / "s.csv")
    session = ed.Session(spark)
    session.stream("S", table, timestamp="t")
    for text in (LARGE, SUMS):
        plain = ed.Session()
        plain.stream("S", table, timestamp="t")
        expected = Counter(map(str, plain.query(text).to_arrow().to_pylist()))
        for query in [session.query(text), session.query(text), session.query(text, name=f"q{len(text)}")]:
            assert Counter(map(str, query.to_arrow().to_pylist())) == expected


def test_on_one_dataframe(spark: Any, place: Path) -> None:
    """Both in one streaming query, where Spark tells observations apart by their names alone."""
    (place / "in").mkdir()
    pq.write_table(pc.read_csv(place / "s.csv"), place / "in" / "0.parquet")
    df = spark.readStream.schema("t long, k long, v long").parquet(str(place / "in"))
    odd = ed.predicate(lambda v: v % 2 == 1, "v")

    def ask(**names: str) -> Any:
        return eds.query("SELECT Istream(k, v) FROM S [ROWS 3]", {"S": df}, timestamp="t", **names)

    def finish(both: Any, name: str) -> Any:
        writer = both.writeStream.format("parquet").option("path", str(place / name))
        query = writer.option("checkpointLocation", str(place / f"{name}.state")).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    finish(eds.adaptive_filter(df, odd).union(eds.adaptive_filter(df, odd)), "filtered")
    kept = [v for v in pc.read_csv(place / "s.csv")["v"].to_pylist() if v % 2 == 1]
    assert sorted(r.v for r in spark.read.parquet(str(place / "filtered")).collect()) == sorted(kept * 2)

    query = finish(ask().union(ask()), "asked")
    found = Counter((r.k, r.v) for r in spark.read.parquet(str(place / "asked")).collect())
    assert len(found) > 50 and all(n % 2 == 0 for n in found.values())
    with pytest.raises(JobError, match="holds 2 queries of Eddyline: give each a name with observe='…'"):
        eds.report(query)
    query = finish(ask(observe="one").union(ask(observe="two")), "named")
    assert [eds.report(query, name)["events"] for name in ("one", "two")] == [60, 60]
