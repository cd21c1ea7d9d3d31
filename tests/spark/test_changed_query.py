"""A changed query on an old ``checkpointLocation`` is refused when it starts, not with the first data."""

from __future__ import annotations

import datetime
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline.spark as eds
from tests.adapting.nested_loop import NestedLoop

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SUM = "SELECT k, sum(10 / x) AS n FROM S [RANGE 10 MINUTES] GROUP BY k"
COUNT = "SELECT k, count(x) AS n FROM S [RANGE 10 MINUTES] GROUP BY k"


def write(folder: Path, number: int, x: int) -> None:
    stamps = [START + datetime.timedelta(seconds=10 * number + i) for i in range(10)]
    path = folder / f"{number}.parquet"
    pq.write_table(pa.table({"ts": stamps, "k": [i % 3 for i in range(10)], "x": [x] * 10}), path)
    os.utime(path, (number + 1, number + 1))


def run(spark: Any, folder: Path, text: str, checkpoint: Path) -> Any:
    schema = spark.read.parquet(str(folder)).schema
    df = eds.query(text, {"S": spark.readStream.schema(schema).parquet(str(folder))}, shards=1)
    writer = df.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return query


def test_refused_before_data_come(spark: Any, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    folder.mkdir()
    write(folder, 0, 5)
    first = run(spark, folder, SUM, checkpoint)
    assert len(first.recentProgress) == 1, "the facts go with the first data, not in a micro-batch of their own"
    # Nothing new: no shard is asked, and the changed query is refused all the same.
    with pytest.raises(Exception) as caught:
        run(spark, folder, COUNT, checkpoint)
    said = eds.sentence(caught.value)
    assert said is not None and "count(x)" in said and "checkpoint" in said
    # The query as it was goes on, with and without data.
    assert sum(p.numInputRows for p in run(spark, folder, SUM, checkpoint).recentProgress) == 0
    write(folder, 1, 5)
    assert sum(p.numInputRows for p in run(spark, folder, SUM, checkpoint).recentProgress) == 10


def test_a_query_whose_first_micro_batch_failed_may_be_mended(spark: Any, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    folder.mkdir()
    write(folder, 0, 0)
    with pytest.raises(Exception, match="division by zero"):
        run(spark, folder, SUM, checkpoint)
    mended = run(spark, folder, COUNT, checkpoint)
    assert eds.report(mended)["events"] == 10
    run(spark, folder, COUNT, checkpoint)
    with pytest.raises(Exception) as caught:
        run(spark, folder, SUM, checkpoint)
    assert eds.sentence(caught.value) is not None
    shutil.rmtree(checkpoint)


def test_an_operator_of_ones_own_runs_in_shards_and_keeps_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    """``nested_loop`` is chosen on the driver; the shards get it with their plan and import it from there."""
    folder, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    folder.mkdir()
    write(folder, 0, 5)
    text = "SELECT a.k, count(*) AS n FROM S [RANGE 10 MINUTES] a, S [RANGE 10 MINUTES] b WHERE a.k = b.k GROUP BY a.k"
    named = f"{text} WITH (joins = '{NestedLoop.name}')"
    told = eds.report(run(spark, folder, named, checkpoint))
    assert "nested-loop-join 1" in [o["name"] for o in told["operators"]]
    assert [d["after"] for d in told["decisions"] if d["kind"] == "join operator"] == [NestedLoop.name]
    with pytest.raises(Exception) as caught:
        run(spark, folder, text, checkpoint)
    said = eds.sentence(caught.value)
    assert said is not None and "was run by nested-loop and would now be run by fixed-join; use the options" in said
    write(folder, 1, 5)
    again = eds.report(run(spark, folder, named, checkpoint))
    # Rows are kept with their multiplicities: three values of k on each side.
    assert [o["rows"] for o in again["operators"] if o["name"] == "nested-loop-join 1"] == [6]
