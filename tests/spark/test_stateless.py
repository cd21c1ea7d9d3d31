"""Stateless plans on Spark: the answers of the inline engine, without a shuffle and with as little Python as needed."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.core.errors import EddylineError, JobError
from eddyline.cql import bind
from eddyline.plan.logical import BoundQuery
from eddyline.plan.rules import optimize

pytest.importorskip("pyspark")

from eddyline.spark.failures import original, sentence
from eddyline.spark.row_counts import Counting, Counts
from eddyline.spark.stateless import StatelessPlan, recognise
from eddyline.spark.types import to_engine

EPOCH = dt.datetime(2024, 3, 10, 6, 59, 58)


def packets(rows: int = 400, seed: int = 3) -> pa.Table:
    """``size`` 0 makes a division fail; some of everything is NULL, timestamps too."""
    rng = random.Random(seed)

    def some(values: list[Any], nulls: float = 0.1) -> list[Any]:
        return [None if rng.random() < nulls else rng.choice(values) for _ in range(rows)]

    ticks = [None if rng.random() < 0.02 else EPOCH + dt.timedelta(milliseconds=250 * i) for i in range(rows)]
    return pa.table(
        {
            "ts": pa.array(ticks, pa.timestamp("us", "UTC")),
            "seen": pa.array(some([EPOCH, EPOCH + dt.timedelta(days=200)]), pa.timestamp("us")),
            "size": pa.array(some([0, 1, 40, 900, 1500]), pa.int32()),
            "rate": pa.array(some([0.0, -0.0, 0.5, 2.5, float("nan")]), pa.float64()),
            "kind": pa.array(some(["tcp", "udp", "icmp"]), pa.string()),
            "data": pa.array(some(["attack-a", "attack-b", "hello", "ATTACK-A"]), pa.string()),
            "payload": pa.array([bytes([i % 251]) * 20 for i in range(rows)], pa.binary()),
        }
    )


def session_over(table: pa.Table) -> ed.Session:
    """The inline engine, with functions of every kind."""
    session = ed.Session()
    session.stream("P", table, timestamp="ts", slack="1 day")
    session.stream("Q", table.slice(0, 150), timestamp="ts", slack="1 day")
    session.function("suspicious", lambda text: text is not None and text.startswith("attack"))
    session.function("folded", lambda s: pc.ascii_lower(s), returns="string", arguments=["string"], kind="arrow")
    session.function("heavy", lambda n: n > 500, arguments=["int"], kind="pandas")
    session.function("picky", picky, returns="int", arguments=["int"])
    return session


def stateless(session: ed.Session, text: str, **options: Any) -> StatelessPlan | None:
    bound = bind(text, session.catalog)
    bound = BoundQuery(None, bound.plan, bound.time_kind, text, None, {**bound.options, **options})
    plan = optimize(bound.plan, diverting=options.get("on_error") == "invalid")
    return recognise(plan, bound, session.catalog, {"P": ["seen"], "Q": ["seen"]})


def planned(session: ed.Session, text: str, **options: Any) -> StatelessPlan:
    found = stateless(session, text, **options)
    assert found is not None, text
    return found


def picky(size: int | None) -> int | None:
    if size == 1500:
        raise ValueError("too large")
    return size


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return packets()


@pytest.fixture(scope="module")
def folder(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, in micro-batches of one."""
    where = tmp_path_factory.mktemp("packets")
    for i in range(3):
        pq.write_table(table.slice(i * 150, 150), where / f"{i}.parquet")
    return where


def bag(batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> Counter[str]:
    return Counter(repr(row) for b in batches for row in b.to_pylist())


def collected(df: Any, schema: pa.Schema) -> Counter[str]:
    return bag([to_engine(b, schema) for b in df.toArrow().to_batches()])


NATIVE = "SELECT kind, size FROM P WHERE size > 30 AND kind IN ('tcp', 'udp') AND rate >= 0"
MIXED = (
    "SELECT kind, upper(data) AS shout, size FROM P WHERE size > 30 AND suspicious(data) AND folded(data) <> 'attack-b'"
)
QUERIES = [
    NATIVE,
    MIXED,
    "SELECT * FROM P WHERE rate > 1 OR rate <> rate",
    "SELECT Istream(size / 7 AS share, ts, seen, length(data) AS n) FROM P WHERE heavy(size)",
    "SELECT Istream(kind, ts) FROM P [RANGE 10 SECONDS] WHERE size > 100",
    "SELECT Rstream(kind, hour(ts) AS h, hour(seen) AS g) FROM P [NOW] WHERE suspicious(data)",
    "SELECT big, kind || '!' AS k FROM (SELECT picky(size) + 1 AS big, kind FROM P WHERE size < 1000) WHERE big > 2",
    "SELECT kind, size FROM P WHERE suspicious(data) UNION ALL SELECT data, size FROM Q WHERE size > 30",
    "SELECT 1 AS one, CAST(NULL AS double) AS nothing, ts + INTERVAL '1' DAY AS later FROM P",
]


@pytest.mark.parametrize("text", QUERIES)
def test_same_answer_as_inline(spark: Any, table: pa.Table, folder: Path, text: str) -> None:
    session = session_over(table)
    query = session.query(text)
    wanted = bag(query.to_arrow().to_batches())
    frames = {"P": spark.read.parquet(str(folder)), "Q": spark.read.parquet(str(folder / "0.parquet"))}
    plan = planned(session, text)
    df = plan.apply(frames)
    assert df.schema.simpleString() == plan.schema.simpleString()
    assert collected(df, query.schema) == wanted
    assert wanted


def test_what_needs_more_than_one_element_is_not_stateless(table: pa.Table) -> None:
    session = session_over(table)
    session.relation("R", pa.table({"kind": ["tcp"]}))
    for text in (
        "SELECT kind FROM P [RANGE 10 SECONDS]",
        "SELECT Istream(kind) FROM P [RANGE 10 SECONDS]",
        "SELECT Istream(kind) FROM P [NOW]",
        "SELECT Istream(kind) FROM P [ROWS 5]",
        "SELECT Dstream(kind) FROM P",
        "SELECT Rstream(kind) FROM P",
        "SELECT DISTINCT kind FROM P",
        "SELECT kind, count(*) FROM P GROUP BY kind",
        "SELECT P.kind FROM P [ROWS UNBOUNDED], Q [ROWS UNBOUNDED] WHERE P.size = Q.size",
        "SELECT P.kind FROM P, R WHERE P.kind = R.kind",
        "SELECT kind FROM P WHERE kind IN (SELECT kind FROM R)",
        "SELECT kind FROM P UNION SELECT kind FROM Q",
    ):
        assert stateless(session, text) is None, text


def test_explain_says_what_runs_where(table: pa.Table) -> None:
    session = session_over(table)
    assert planned(session, NATIVE).explain() == [
        "no shuffle and no state: every element is evaluated where Spark reads it",
        "filtered by Spark: size > 30 AND kind IN ('tcp', 'udp') AND rate >= 0.0",
        "nothing runs in Python",
    ]
    assert planned(session, MIXED).explain()[1:] == [
        "filtered by Spark: size > 30",
        "filtered in Python: suspicious(data) AND folded(data) <> 'attack-b', in the order that costs least, found"
        " while running (policy default)",
        "computed in Python: upper(data)",
        "shipped to Python: data (of 7 columns)",
    ]


def test_a_filter_stays_behind_what_may_fail_below_it(table: pa.Table) -> None:
    """As inline: the filter of an outer query does not forget an error of an inner one that is a stream by itself."""
    session = session_over(table)
    outer = "SELECT s FROM (SELECT Istream({} AS q, size AS s) FROM P) [ROWS UNBOUNDED] WHERE s > 30 AND q > 1"
    assert (
        planned(session, outer.format("rate * 2")).explain()[1] == "filtered by Spark: size > 30 AND rate * 2.0 > 1.0"
    )
    assert planned(session, outer.format("9 / size")).explain()[1:3] == [
        "computed in Python: 9.0 / size",
        "filtered in Python: size > 30 AND 9.0 / size > 1.0",
    ]


def test_the_plan_ships_only_what_python_reads(spark: Any, table: pa.Table, folder: Path) -> None:
    plan = planned(session_over(table), MIXED)
    text = executed(plan.apply(spark.read.parquet(str(folder))))
    assert "Exchange" not in text
    assert text.count("ArrowEvalPython") == 1
    assert "ArrowEvalPython [judged(data#" in text
    _, below = text.split("ArrowEvalPython")
    assert "size" in below.split("Filter")[1].split("\n")[0]  # before Python
    assert "GreaterThan(size,30)" in below  # and in the reader
    assert below.split("ReadSchema: ")[1].startswith("struct<ts:timestamp,size:int,kind:string,data:string>")
    assert "ArrowEvalPython" not in executed(
        planned(session_over(table), NATIVE).apply(spark.read.parquet(str(folder)))
    )


def executed(df: Any) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


FAILING = "SELECT kind, 90 / size AS q FROM P WHERE kind = 'tcp' AND 100 / size > 1 AND picky(size) < 5000"


def test_errors_divert_rows_and_everything_is_counted(spark: Any, table: pa.Table, folder: Path) -> None:
    session = session_over(table)
    query = session.query(FAILING, on_error="invalid")
    wanted = bag(query.to_arrow().to_batches())
    report = query.report()
    counting = Counting("q", batch=True)
    df = planned(session, FAILING, on_error="invalid").apply(spark.read.parquet(str(folder)), counting)
    assert collected(df, query.schema) == wanted
    assert counting.read() == Counts(report["events"], report["results"], report["invalid"])
    assert report["invalid"] > 20


def failed_with_its_row(error: BaseException) -> bool:
    said = sentence(error) or ""
    return said.startswith("division by zero in '100.0 / P.size', for a row of P: ") and "size = 0" in said


def test_an_error_is_one_sentence(spark: Any, table: pa.Table, folder: Path) -> None:
    df = planned(session_over(table), FAILING).apply(spark.read.parquet(str(folder)))
    with pytest.raises(Exception) as caught:
        df.toArrow()
    assert len(str(caught.value)) > 500
    assert failed_with_its_row(caught.value)
    assert type(original(caught.value)) is EddylineError
    assert sentence(ValueError("something else")) is None


def test_a_mistake_in_the_job_keeps_its_status(spark: Any, table: pa.Table, folder: Path) -> None:
    session = session_over(table)
    session.function("short", lambda s: s[:1], returns="string", arguments=["string"], kind="arrow")
    df = planned(session, "SELECT kind FROM P WHERE short(kind) = 'tcp'").apply(spark.read.parquet(str(folder)))
    with pytest.raises(Exception) as caught:
        df.toArrow()
    found = original(caught.value)
    assert isinstance(found, JobError)
    assert "must return one value for each row" in str(found)


def test_streaming(spark: Any, table: pa.Table, folder: Path, tmp_path: Path) -> None:
    """Three micro-batches in another time zone; one more query with an error, one stamped on arrival."""
    session = session_over(table)
    text = "SELECT ts, seen, size, upper(data) AS shout FROM P WHERE size > 30 AND suspicious(data)"
    query = session.query(text)
    wanted = bag(query.to_arrow().to_batches())
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        plan, counting = planned(session, text), Counting("q")
        running, found = run(plan.apply(read(spark, folder), counting), tmp_path / "1")
        counts = sum((counting.read(p.observedMetrics) for p in running.recentProgress), Counts())
        assert bag([to_engine(b, query.schema) for b in found]) == wanted
        report = query.report()
        assert counts == Counts(report["events"], report["results"], report["invalid"])
        assert len([p for p in running.recentProgress if p.numInputRows]) == 3

        with pytest.raises(Exception) as caught:
            run(planned(session, FAILING).apply(read(spark, folder)), tmp_path / "2")
        assert failed_with_its_row(caught.value)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_a_stream_stamped_on_arrival(spark: Any, table: pa.Table, folder: Path) -> None:
    session = ed.Session()
    session.stream("P", table, arrival=True)
    plan = planned(session, "SELECT size FROM P WHERE size > 30")
    before = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    rows = plan.apply(spark.read.parquet(str(folder)), None).toArrow()
    times = set(rows.column("_time").cast(pa.timestamp("us")).to_pylist())
    assert rows.num_rows == session.query("SELECT size FROM P WHERE size > 30").to_arrow().num_rows
    assert len(times) == 1 and abs(times.pop() - before) < dt.timedelta(minutes=5)


def test_a_dataframe_that_is_not_as_declared(spark: Any, table: pa.Table, folder: Path) -> None:
    plan = planned(session_over(table), NATIVE)
    frame = spark.read.parquet(str(folder))
    with pytest.raises(JobError, match="the DataFrame of stream 'P' has no column 'kind'; it has: ts, seen"):
        plan.apply(frame.drop("kind"))
    with pytest.raises(JobError, match="'size' of stream 'P' is declared as int, and the DataFrame has it as bigint"):
        plan.apply(frame.withColumn("size", frame["size"].cast("long")))
    with pytest.raises(JobError, match="there is no DataFrame for the stream 'P'"):
        plan.apply({"Q": frame})


def read(spark: Any, folder: Path) -> Any:
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(df: Any, checkpoint: Path) -> tuple[Any, list[pa.RecordBatch]]:
    """All micro-batches that there are; what they brought."""
    found: list[pa.RecordBatch] = []
    running = (
        df.writeStream.foreachBatch(lambda batch, _: found.extend(batch.toArrow().to_batches()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        running.awaitTermination()
    finally:
        running.stop()
    return running, found
