"""``eds.fit``: the segments of ``ed.fit``, from batch and streaming DataFrames, and Parquet that CQL reads."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
import eddyline.spark as eds
from eddyline.core.errors import JobError
from eddyline.engine.fit import counts_of

START = datetime.datetime(2026, 1, 1)
KEYS = 7
ARGUMENTS: dict[str, Any] = {"key": "room", "time": "ts", "value": ["x", "y"], "error": [0.5, "1%"], "floor": 0.1}


def samples(n: int = 4_000, seed: int = 1) -> pa.Table:
    """Walks of several keys with gaps, in order of time, one sample of some key at each second."""
    rng = np.random.default_rng(seed)
    room = rng.integers(0, KEYS, n)
    walk = np.cumsum(rng.normal(scale=0.4, size=(n, KEYS)), axis=0)[np.arange(n), room]
    seconds = np.cumsum(rng.integers(1, 3, n) + 400 * (rng.random(n) < 0.004))
    stamps = [START + datetime.timedelta(seconds=int(s)) for s in seconds]
    return pa.table(
        {
            "ts": pa.array(stamps, pa.timestamp("us", "UTC")),
            "room": [None if r == 6 else f"room {r}" for r in room],
            "x": walk,
            "y": 50 + np.sin(seconds / 900),
        }
    )


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows in one order, without what depends on the way to them."""
    rows = table.select(["room", "_from", "_to", "_samples", "x", "y"]).to_pylist()
    rows = [{**r, "_from": r["_from"].replace(tzinfo=None), "_to": r["_to"].replace(tzinfo=None)} for r in rows]
    return sorted(rows, key=lambda r: (r["_from"], str(r["room"])))


def written(table: pa.Table, folder: Path, parts: int) -> Path:
    folder.mkdir()
    step = -(-table.num_rows // parts)
    for i in range(parts):
        pq.write_table(table.slice(i * step, step), folder / f"{i}.parquet")
        os.utime(folder / f"{i}.parquet", (i, i))  # Spark takes files in order of their age
    return folder


@pytest.mark.parametrize(("degree", "gap"), [(1, None), (0, "5 minutes"), (2, "5 minutes")])
def test_a_batch_is_fitted_as_inline(spark: Any, tmp_path: Path, degree: int, gap: str | None) -> None:
    from pyspark.sql import Observation

    table = samples()
    df = spark.read.parquet(str(written(table, tmp_path / "in", 3)))
    seen = Observation("fit")
    found = eds.fit(df, **ARGUMENTS, degree=degree, max_gap=gap, observe=seen)
    inline = ed.fit(table, **ARGUMENTS, degree=degree, max_gap=gap)
    made = eds.segment_table(found)
    assert plain(made) == plain(inline)
    assert inline.num_rows > 5 * KEYS
    assert made.schema.equals(inline.schema)
    assert made["_from"].to_pylist() == sorted(made["_from"].to_pylist())
    assert seen.get == counts_of(inline)


def test_parquet_of_spark_is_a_stream_of_segments(spark: Any, tmp_path: Path) -> None:
    table = samples()
    eds.fit(spark.createDataFrame(table), **ARGUMENTS).write.parquet(str(tmp_path / "segments"))
    inline = ed.fit(table, **ARGUMENTS)
    answers = []
    for source in (inline, str(tmp_path / "segments")):
        session = ed.Session()
        session.stream("S", source)
        answers.append(session.query("SELECT room, x FROM S WHERE x > 1").to_arrow().to_pylist())
    key = lambda r: (r["_from"], str(r["room"]))  # noqa: E731
    assert sorted(answers[1], key=key) == sorted(answers[0], key=key)
    assert len(answers[0]) > KEYS
    again = eds.segment_table(spark.read.parquet(str(tmp_path / "segments")))
    assert plain(again) == plain(inline)


@pytest.mark.parametrize("degree", [1, 3])
def test_a_stream_gives_the_segments_that_are_complete(spark: Any, tmp_path: Path, degree: int) -> None:
    table = samples(1_200)
    folder = written(table, tmp_path / "in", 4)
    df = spark.readStream.schema(spark.read.parquet(str(folder)).schema).option("maxFilesPerTrigger", 1)
    segments = eds.fit(
        df.parquet(str(folder)), **ARGUMENTS, degree=degree, max_gap="5 minutes", observe="fit", shards=3
    )
    query = (
        segments.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    made = plain(eds.segment_table(spark.read.parquet(str(tmp_path / "out"))))
    whole = plain(ed.fit(table, **ARGUMENTS, degree=degree, max_gap="5 minutes"))
    last = {r["room"]: r["_from"] for r in whole}  # what is open when the stream ends does not come
    if degree == 1:
        assert made == [r for r in whole if r["_from"] != last[r["room"]]]
    else:  # which lengths are tried waits for samples, so more than the last may be open
        assert all(r in whole for r in made)
        assert len(made) >= len(whole) - 3 * KEYS
    assert len(made) > KEYS
    observed = [p["observedMetrics"]["fit"] for p in query.recentProgress if p["numInputRows"]]
    counts = counts_of(ed.fit(table, **ARGUMENTS, degree=degree, max_gap="5 minutes"))
    assert len(observed) == 4
    assert {n: sum(_asdict(o)[n] for o in observed) for n in counts} == counts


def _asdict(row: Any) -> dict[str, int]:
    return row if isinstance(row, dict) else row.asDict()


def test_refusals_are_one_sentence(spark: Any) -> None:
    df = spark.createDataFrame(samples(50))
    with pytest.raises(JobError, match="no column 'celsius'"):
        eds.fit(df, key="room", time="ts", value="celsius", error=0.5)
    with pytest.raises(JobError, match="only numbers can be modelled"):
        eds.fit(df, time="ts", value="room", error=0.5)
    with pytest.raises(JobError, match="fit takes a Spark DataFrame"):
        eds.fit([{"ts": 1}], time="ts", value="x", error=0.5)
    with pytest.raises(JobError, match="this is not one"):
        eds.segment_table(df)
