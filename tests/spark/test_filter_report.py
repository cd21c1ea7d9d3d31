"""What filters did in the workers is known on the driver; explain says what runs where; errors are one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import eddyline as ed
import eddyline.spark as eds
from eddyline.core.errors import JobError
from tests.spark.files import write_parts

ROWS = 30_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def columns(numbers: range) -> dict[str, list[Any]]:
        texts, more = [f"t{n % 100}" for n in numbers], [0.5] * len(numbers)
        return {"ts": list(numbers), "id": list(numbers), "text": texts, "more": more}

    return write_parts(tmp_path_factory.mktemp("told"), ROWS, 3, columns)


# Dear, and hardly ever false: a worker would have to be held up for a second at ``rare`` to believe another order.
OFTEN = ed.predicate(lambda n: sum(range(3000)) > 0 and n % 100 != 0, "id", name="often")
RARE = ed.predicate(lambda t: t in ("t3", "t7"), "text", name="rare")
SCHEMA = "ts long, id long, text string, more double"
KEPT = [n for n in range(18_000) if n % 100 in (3, 7)]


def check(report: dict[str, Any], rows: int) -> None:
    assert (report["rows"], report["kept"]) == (rows, len(KEPT))
    assert len({w["worker"] for w in report["workers"]}) == len(report["workers"]) >= 1
    assert sum(w["tasks"] for w in report["workers"]) >= 2
    orders = []
    for worker in report["workers"]:
        (select,) = worker["selects"]
        assert select["policy"] == "default"
        seen = {f["filter"].partition("_")[0].partition("(")[0]: f for f in select["filters"]}
        orders.append(list(seen))
        assert sorted(seen) == ["often", "rare"]
        assert seen["rare"]["selectivity"] == pytest.approx(0.02, abs=0.01)
        assert 0 < seen["rare"]["seconds_per_row"] < 1e-3
        if orders[-1] == ["rare", "often"]:
            assert seen["rare"]["asked"] > 5 * seen["often"]["asked"]
    # The current order, not the written one; of a worker that was held up while it asked ``rare`` it may be that.
    assert ["rare", "often"] in orders
    assert {d["worker"] for d in report["decisions"]} <= {w["worker"] for w in report["workers"]}
    decided = [d for d in report["decisions"] if d["kind"] == "filter order"]
    assert decided
    assert all(d["expected_gain"] > 1 and d["reason"] and d["evidence"] for d in decided)
    assert any(d["measured_gain"] is not None for d in decided)


def test_a_batch_dataframe(spark: Any, folder: Path) -> None:
    df = spark.read.parquet(str(folder))
    got = eds.adaptive_filter(df, "id < 18000", OFTEN, RARE)
    said = eds.explain(got)
    assert "filtered by Spark: id < 18000\n" in said
    assert "what Spark filters is not shipped" in said
    assert "often_2(id) AND rare_3(text), in the order that costs least, found while running (policy default)" in said
    assert "shipped to Python: id, text (of 4 columns)" in said
    assert "worker" not in said
    with pytest.raises(JobError, match="take an action on it, or on one made from it"):
        eds.report(got)
    assert sorted(r.id for r in got.select("id").collect()) == KEPT  # an action on another DataFrame that is made of it
    check(eds.report(got), 18_000)
    said = eds.explain(got)
    assert "ordered by the policy default" in said
    assert "1. rare_3(" in said
    assert "expected gain" in said


def test_it_does_not_disturb(spark: Any, folder: Path) -> None:
    """The same rows however the DataFrame is used, and conditions still reach the reader of files."""
    got = eds.adaptive_filter(spark.read.parquet(str(folder)), "id < 18000", OFTEN, RARE)
    assert got.union(got).count() == 2 * len(KEPT)
    assert got.join(got, "id").count() == len(KEPT)
    assert len(got.limit(3).collect()) == 3
    plan = got._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters: [IsNotNull(id), LessThan(id,18000)]" in plan
    shipped = next(line for line in plan.splitlines() if "ArrowEvalPython" in line)
    assert "more" not in shipped


@pytest.mark.parametrize("named", [True, "mine"])
def test_a_streaming_query(spark: Any, folder: Path, named: Any) -> None:
    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    got = eds.adaptive_filter(df, "id < 18000", OFTEN, RARE, observe=named)
    with pytest.raises(JobError, match="pass the StreamingQuery"):
        eds.report(got)
    query = got.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    check(eds.report(query) if named is True else eds.report(query, "mine"), 18_000)


def test_queries_without_state(spark: Any, folder: Path) -> None:
    text = "SELECT Istream(id) FROM S WHERE id < 18000 AND often(id) AND rare(text)"
    functions = {"often": OFTEN, "rare": RARE}
    got = eds.query(text, {"S": spark.read.parquet(str(folder))}, timestamp="ts", functions=functions)
    assert got.count() == len(KEPT)
    check(eds.report(got), 18_000)
    assert "by now" in eds.explain(got)

    streaming = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    counted = eds.query(text, {"S": streaming}, timestamp="ts", functions=functions, observe="counted")
    query = counted.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    report = eds.report(query, "counted")
    check(report, 18_000)
    assert (report["events"], report["results"], report["invalid"]) == (ROWS, len(KEPT), 0)

    session = ed.Session(spark)
    session.stream("S", streaming, timestamp="ts")
    for name, function in functions.items():
        session.function(name, function)
    fetched = session.query(text)
    assert sorted(fetched.to_arrow()["id"].to_pylist()) == KEPT
    check(fetched.report(), 18_000)
    assert "by now" in fetched.explain()


def test_what_stays_in_python_and_why(spark: Any, folder: Path) -> None:
    df = spark.read.parquet(str(folder))
    got = eds.adaptive_filter(df, "text LIKE 't%'", "text RLIKE 't[37]$'", "100 / id < 9", OFTEN)
    said = eds.explain(got)
    assert "filtered by Spark: text LIKE 't%'" in said
    assert "text RLIKE 't[37]$' is not left to Spark: regular expressions mean other things in Java" in said
    assert "is not left to Spark: it can fail" in said
    many = eds.explain(eds.adaptive_filter(df, "text LIKE '%t%1%2%3%'", OFTEN))
    assert "filtered by Spark" not in many
    assert "is not left to Spark: with so many wildcards Java takes longer than to ship the row" in many
    only = eds.adaptive_filter(df, "id < 5", "text LIKE 't%'")
    assert "nothing runs in Python" in eds.explain(only)
    with pytest.raises(JobError, match="no filter of it runs in Python"):
        eds.report(only)
    with pytest.raises(JobError, match="did not come from"):
        eds.explain(df)
    with pytest.raises(JobError, match="this is a int"):
        eds.explain(3)
    with pytest.raises(JobError, match="needs the streams"):
        eds.explain("SELECT Istream(id) FROM S")


def test_nobody_looks(spark: Any, folder: Path) -> None:
    got = eds.adaptive_filter(spark.read.parquet(str(folder)), OFTEN, RARE, observe=None)
    assert "CollectMetrics" not in got._jdf.queryExecution().optimizedPlan().toString()
    with pytest.raises(JobError, match="observe is None"):
        eds.report(got)


def test_errors_in_one_sentence(spark: Any, folder: Path) -> None:
    def broken(n: int) -> bool:
        return 1 / (n - 7) > 0

    got = eds.adaptive_filter(spark.read.parquet(str(folder)), ed.predicate(broken, "id"))
    with pytest.raises(Exception, match="eddyline") as caught:
        got.count()
    said = eds.sentence(caught.value)
    assert said is not None
    assert "broken_1" in said
    assert "division by zero" in said
    assert "\n" not in said
    assert eds.sentence(ValueError("something else")) is None


def test_a_query_without_state_routes_by_content_in_the_workers(spark: Any, folder: Path) -> None:
    """Of rows with an even id one condition drops all, of the others the other one."""
    session = ed.Session(spark)
    session.stream("S", spark.read.parquet(str(folder)), timestamp="ts")
    session.function("odd_text", lambda t: int(t[1:]) % 2 == 1, returns="boolean")
    session.function("even_id", lambda n, t: n % 2 == 0 or t == "t7", returns="boolean")
    query = session.query("SELECT Istream(id) FROM S WHERE odd_text(text) AND even_id(id, text)", routing="default")
    found = sorted(query.to_arrow()["id"].to_pylist())
    assert found == [n for n in range(ROWS) if n % 100 == 7]
    report = query.report()
    assert report["rows"] == ROWS
    for worker in report["workers"]:
        (select,) = worker["selects"]
        assert select["policy"] == "default"
        assert set(select["by_class"]) == {"S.id", "S.text"}
    assert "each row in an order for rows like it, found while running (routing default)" in query.explain()


def test_a_classifier_that_is_no_column_is_refused_before_anything_runs(spark: Any, folder: Path) -> None:
    session = ed.Session(spark)
    session.stream("S", spark.read.parquet(str(folder)), timestamp="ts")
    session.function("odd_text", lambda t: int(t[1:]) % 2 == 1, returns="boolean")
    session.function("even_id", lambda n: n % 2 == 0, returns="boolean")
    text = "SELECT Istream(id) FROM S WHERE odd_text(text) AND even_id(id)"
    with pytest.raises(JobError, match="nothing"):
        session.query(text, routing="known-classifier", classifier="nothing").dataframe()
