"""DataFrames in, a DataFrame out: the answers of the inline engine, streaming and batch, with no action taken."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
import eddyline.spark as eds
from eddyline.core.errors import EddylineError, JobError
from eddyline.datasets.joins import three_way
from eddyline.spark.frames import join_text

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def at(seconds: int) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """Three streams of events with a key, in files of a tenth each."""
    made = {}
    for name, table in three_way(events=6_000, keys=200).items():
        made[name] = table
    return made


@pytest.fixture(scope="module")
def folder(streams: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streams")
    for name, table in streams.items():
        (place / name).mkdir()
        step = -(-table.num_rows // 4)
        for i in range(4):
            pq.write_table(table.slice(i * step, step), place / name / f"{i}.parquet")
            os.utime(place / name / f"{i}.parquet", (i, i))  # Spark takes files in order of their age
    return place


def rows(table: pa.Table) -> Counter[Any]:
    plain = [c.cast(pa.timestamp("us")) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return Counter(zip(*(c.to_pylist() for c in plain), strict=True))


def inline(streams: dict[str, pa.Table], text: str) -> pa.Table:
    session = ed.Session()
    for name, table in streams.items():
        session.stream(name, table, timestamp="ts")
    return session.query(text).to_arrow()


def run(df: Any, tmp_path: Path) -> tuple[pa.Table, Any]:
    """A streaming DataFrame to its end, through Spark's own file sink."""
    query = (
        df.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return df.sparkSession.read.parquet(str(tmp_path / "out")).toArrow(), query


def test_a_window_join_of_batches_is_the_inline_answer(spark: Any, folder: Path, streams: dict[str, pa.Table]) -> None:
    from pyspark.sql import Observation

    seen = Observation("joined")
    frames = {n: spark.read.parquet(str(folder / n)) for n in streams}
    joined = eds.window_join(frames, on="key", within="60 seconds", timestamp="ts", observe=seen, joins="static")
    text = join_text({n: t.column_names for n, t in streams.items()}, ["key"], "60 seconds")
    assert rows(joined.toArrow()) == rows(inline(streams, text))
    report = eds.report(seen)
    assert report["events"] == sum(t.num_rows for t in streams.values())
    assert len(report["shards"]) == 4


def test_a_streaming_join_gives_what_is_closed(
    spark: Any, folder: Path, streams: dict[str, pa.Table], tmp_path: Path
) -> None:
    def read(name: str) -> Any:
        schema = spark.read.parquet(str(folder / name)).schema
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))

    text = join_text({n: t.column_names for n, t in streams.items()}, ["key"], "60 seconds")
    df = eds.query(text, {n: read(n) for n in streams}, timestamp="ts", shards=3)
    table, query = run(df, tmp_path)
    # Streaming DataFrames have no end: the last instants stay open.
    expected = inline(streams, text)
    closed = min(t.column("ts").to_pylist()[-1] for t in streams.values()).replace(tzinfo=None)
    kept = Counter({r: n for r, n in rows(expected).items() if r[-1] < closed})
    assert rows(table) == kept
    report = eds.report(query)
    assert report["late"] == 0 and len(report["shards"]) == 3
    assert report["results"] == table.num_rows and report["state"]["stored_bytes"] > 0


def test_transform_brings_the_open_stream(spark: Any) -> None:
    left = spark.createDataFrame([(at(0), 1, "a"), (at(5), 2, "b")], "ts timestamp, k int, x string")
    right = spark.createDataFrame([(at(1), 1, 0.5), (at(90), 2, 0.25)], "ts timestamp, k int, y double")
    joined = left.transform(eds.window_join({"L": None, "R": right}, on="k", within="1 minute"))
    assert joined.columns == ["k", "L_ts", "x", "R_ts", "y", "_time"]
    assert [(r.k, r.x, r.y) for r in joined.collect()] == [(1, "a", 0.5)]
    counted = left.transform(eds.query("SELECT k, count(*) AS n FROM L [RANGE 1 MINUTE] GROUP BY k", {"L": None}))
    assert [f.dataType.simpleString() for f in counted.schema.fields] == ["int", "bigint", "timestamp", "tinyint"]
    assert sorted((r.k, r.n, r._sign) for r in counted.collect()) == [(1, 1, 1), (2, 1, 1)]


def test_functions_and_relations(spark: Any) -> None:
    df = spark.createDataFrame([(1, "alpha"), (2, "beta"), (3, "gamma")], "ts long, word string")
    text = "SELECT Istream(word, weight) FROM W [ROWS UNBOUNDED], weights WHERE word = name AND has_a(word)"
    answer = eds.query(
        text,
        {"W": df},
        timestamp="ts",
        relations={"weights": pa.table({"name": ["alpha", "beta", "delta"], "weight": [1, 2, 3]})},
        functions={"has_a": {"function": lambda word: word.startswith("a"), "arguments": ["string"]}},
    )
    assert [(r.word, r.weight) for r in answer.collect()] == [("alpha", 1)]


def test_types_go_through(spark: Any) -> None:
    from decimal import Decimal

    schema = (
        "ts timestamp, n timestamp_ntz, i tinyint, f float, d decimal(10,2), s string, b binary, day date, t boolean"
    )
    values = [
        (at(1), datetime.datetime(2026, 1, 2), 1, 1.5, Decimal("1.25"), "x", b"\0\1", datetime.date(2026, 1, 3), True),
        (at(2), None, None, None, None, None, None, None, None),
        (at(2), None, None, float("nan"), None, "é", b"", None, False),
    ]
    df = spark.createDataFrame(values, schema)
    answer = eds.query("SELECT Istream(*) FROM S [RANGE 1 MINUTE]", {"S": df}, timestamp="ts")
    assert [f.dataType for f in answer.drop("_time").schema.fields] == [f.dataType for f in df.schema.fields]
    assert Counter(map(repr, answer.drop("_time").collect())) == Counter(map(repr, df.collect()))


def test_explain_says_how_rows_travel(spark: Any) -> None:
    df = spark.createDataFrame([], "ts long, a int, b int")
    text = "SELECT Istream(*) FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE R.a = S.a AND S.b = T.b"
    said = eds.explain(text, dict.fromkeys("RST", df), timestamp="ts", shards=16)
    assert "R is copied 4 times (it has no S.b)" in said
    said = eds.explain("SELECT Istream(a) FROM R [ROWS 5]", {"R": df}, timestamp="ts")
    assert "one shard" in said and "ROWS 5" in said


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda df: eds.query("SELECT * FROM S", {"S": 3}), "'S' must be a Spark DataFrame, and it is builtins.int"),
    (
        lambda df: eds.query("SELECT * FROM S", {"S": df.toPandas()}),
        "and it is pandas.DataFrame: spark.createDataFrame",
    ),
    (lambda df: eds.query("SELECT * FROM S", {"S": df}), "has no timestamp column: name its time"),
    (lambda df: eds.query("SELECT nosuch FROM S", {"S": df}, timestamp="ts"), "nosuch"),
    (lambda df: eds.query("SELECT * FROM S", {"S": df}, timestamp="tss"), "Did you mean 'ts'?"),
    (lambda df: eds.window_join({"S": df}, on="a", within="1 s"), "needs two streams or more"),
    (lambda df: eds.window_join({"S": df, "T": df}, on=df["a"], within="1 s"), "on takes names of columns, on='k' or"),
    (lambda df: eds.window_join({"S": df, "T": df}, on=["ts", df.a], within="1 s"), "and this is Column<'a'>"),
    (lambda df: ed.Session().stream("S", df, timestamp="ts"), "only ed.Session(spark) reads a Spark DataFrame"),
    (lambda df: ed.Session().relation("S", df), "pass df.toArrow()"),
    (lambda df: eds.window_join({"S": df, "T": df}, on="c", within=1, timestamp="ts"), "no column 'c' to join on"),
    (lambda df: eds.query("SELECT * FROM S", {"S": df}, timestamp="ts", relations={"r": df}), "pass df.toArrow()"),
    (
        lambda df: eds.window_join({"S": df, "T": df}, on="a", within=1, timestamp="ts", joins="a-greed"),
        "unknown join policy 'a-greed'. Did you mean 'a-greedy'?",
    ),
    (lambda df: eds.window_join({"S": None, "T": None}, on="a", within=1), "transform passes one DataFrame"),
    (lambda df: eds.query("SELECT * FROM S", {"S": df}, timestamp="ts", shards=0), "between 1 and"),
    (lambda df: eds.query("SELECT * FROM S", {"S": df}, timestamp="ts", shards=2.5), "not 2.5"),
    (eds.report, "this DataFrame did not come from eds.adaptive_filter or eds.query"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_input_gets_a_sentence(spark: Any, call: Callable[[Any], Any], message: str) -> None:
    df = spark.createDataFrame([], "ts long, a int")
    with pytest.raises(JobError) as caught:
        call(df)
    assert message in str(caught.value)


def test_the_state_store_is_asked_for_and_never_set(spark: Any) -> None:
    key = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(key)
    df = spark.createDataFrame([], "ts long, a int")
    spark.conf.set(key, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(EddylineError, match=r"spark\.conf\.set"):
            eds.query("SELECT a, count(*) FROM S [RANGE 5] GROUP BY a", {"S": df}, timestamp="ts")
    finally:
        spark.conf.set(key, before)
