"""Rows that a DataFrame's query leaves out are told while it runs, and can be read afterwards."""

from __future__ import annotations

import datetime
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
import eddyline.spark as eds
from eddyline.core.errors import JobError

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
COUNT = "SELECT k, count(*) AS n FROM S [RANGE 10 MINUTES] GROUP BY k"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of 100 rows; the last in time is the first to be read, so that the others are late."""
    place = tmp_path_factory.mktemp("disordered")
    for age, number in enumerate((2, 0, 1)):
        stamps = [START + (100 * number + i) * MINUTE for i in range(100)]
        path = place / f"{number}.parquet"
        pq.write_table(pa.table({"ts": stamps, "k": [i % 3 for i in range(100)], "x": [0, 1, 2, 3] * 25}), path)
        os.utime(path, (age + 1, age + 1))
    return place


def streaming(spark: Any, folder: Path) -> Any:
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(df: Any, checkpoint: Path) -> Any:
    writer = df.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return query


def heard(action: Callable[[], Any], wanted: int) -> tuple[Any, list[warnings.WarningMessage]]:
    """What Spark's listener thread warns of: it may come a moment after the query has ended."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        done = action()
        until = time.monotonic() + 30
        while sum(issubclass(w.category, ed.DivertedRowsWarning) for w in found) < wanted and time.monotonic() < until:
            time.sleep(0.05)
    return done, [w for w in found if issubclass(w.category, ed.DivertedRowsWarning)]


def test_late_rows_of_a_streaming_dataframe(spark: Any, folder: Path, tmp_path: Path) -> None:
    query, (told,) = heard(lambda: run(eds.query(COUNT, {"S": streaming(spark, folder)}), tmp_path), 1)
    assert told.category is ed.LateRowsWarning
    assert str(told.message).startswith("50 % of the first 200 rows of S are late: is 'ts' its column of time? Its ")
    assert "go back by up to 5 hours." in str(told.message) and "eds.late(query)" in str(told.message)
    assert told.filename == f"StreamingQuery {query.id}"
    assert eds.report(query)["late"] == 200
    rows = eds.late(query)
    assert rows and all(r["_reason"].startswith("late:") for r in rows) and eds.invalid(query) == []


def test_metrics_of_the_users_without_a_form_in_json(spark: Any, folder: Path, tmp_path: Path) -> None:
    """The listener reads the progress as JSON, from which Spark leaves such a metric out, and no other."""
    from pyspark.sql import functions as F

    found = eds.query(COUNT, {"S": streaming(spark, folder)}).observe("mine", F.max(F.expr("make_ym_interval(1, k)")))
    _, (told,) = heard(lambda: run(found, tmp_path), 1)
    assert told.category is ed.LateRowsWarning


def test_results_that_are_fetched_warn_where_they_are_fetched(spark: Any, folder: Path) -> None:
    session = ed.Session(spark)
    session.stream("S", streaming(spark, folder), timestamp="ts")
    query = session.query(COUNT)
    _, told = heard(query.to_arrow, 1)
    assert [w.category for w in told] == [ed.LateRowsWarning] and told[0].filename == __file__
    assert len(query.late()) > 0


def test_a_wrong_column_of_time_is_noticed_within_one_micro_batch(spark: Any, tmp_path: Path) -> None:
    """All rows come in one micro-batch, so none is late; most would be inline."""
    rows = 5000
    table = pa.table({"t": range(rows), "k": [i * 7919 % rows for i in range(rows)]})
    pq.write_table(table, tmp_path / "s.parquet")
    found = {}
    for column in ("t", "k"):
        session = ed.Session(spark)
        session.stream("S", str(tmp_path / "s.parquet"), timestamp=column)
        query = session.query("SELECT count(*) AS n FROM S [RANGE 10]")
        _, found[column] = heard(query.to_arrow, 1 if column == "k" else 0)
        assert query.report()["late"] == 0
        assert len(found["t"]) == 0
    (told,) = found["k"]
    assert told.category is ed.LateRowsWarning and "is 'k' its column of time?" in str(told.message)
    inline = ed.Session()
    inline.stream("S", table, timestamp="k")
    with pytest.warns(ed.LateRowsWarning, match="is 'k' its column of time"):
        late = inline.query("SELECT count(*) AS n FROM S [RANGE 10]")
        late.to_arrow()
    assert late.report()["late"] > 0.9 * rows
    assert str(told.message).startswith(f"{100 * late.report()['late'] // rows} % of the first {rows:,} rows of S")


def test_invalid_rows_of_an_adaptive_filter(spark: Any, folder: Path, tmp_path: Path) -> None:
    def filtered(df: Any) -> Any:
        return eds.adaptive_filter(df, "6 / x > 2", on_error="invalid")

    batch = filtered(spark.read.parquet(str(folder)))
    with pytest.raises(JobError, match="take an action"):
        eds.invalid(batch)
    assert batch.count() == 150
    assert eds.report(batch)["invalid"] == 75
    rows = eds.invalid(batch)
    assert rows and all(r == {"x": 0, "_reason": "division by zero in '6.0 / rows.x'"} for r in rows)

    query, told = heard(lambda: run(filtered(streaming(spark, folder)), tmp_path), 1)
    assert [w.category for w in told] == [ed.InvalidRowsWarning]
    assert "division by zero" in str(told[0].message) and "eds.invalid(query)" in str(told[0].message)
    assert eds.report(query)["invalid"] == 75 and len(eds.invalid(query)) > 0


def test_a_batch_join_tells_the_plan_that_ran(spark: Any, folder: Path) -> None:
    df = spark.read.parquet(str(folder))
    joined = eds.window_join({"R": df, "S": df, "T": df}, on="k", within="5 minutes", shards=2)
    before = eds.explain(joined)
    assert before.count("\njoins") == 1 and "joins in the shards" not in before
    with pytest.raises(JobError, match="take an action"):
        eds.report(joined)
    count = joined.count()
    after = eds.explain(joined)
    assert after.count("\njoins") == 1 and "joins in the shards" in after
    assert "elements came or left" in after and "Now 0 rows" not in after
    report = eds.report(joined)
    assert report["results"] == count > 0 and report["late"] == 0
