"""ON OVERLOAD in a session: what is shed, counted, readable, marked, estimated, saved; and blocking."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import CqlError, JobError
from eddyline.cql import bind
from eddyline.cql.job import CreateStream, parse_job
from eddyline.testing.clock import ManualClock
from eddyline.testing.reference import Reference, StreamData

SCHEMA = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("x", pa.float64())])
NEVER_LATE = 1 << 60


def rows(count: int, first: int = 0, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(f"{seed}/{first}")
    return [{"ts": t, "a": rng.randint(0, 3), "x": rng.uniform(0, 10)} for t in range(first, first + count)]


def session(overload: str | None, slack: Any = 0, **options: Any) -> ed.Session:
    made = ed.Session(clock=ManualClock(), **options)
    made.stream("S", schema=SCHEMA, timestamp="ts", slack=slack, overload=overload)
    made.stream("T", schema=SCHEMA, timestamp="ts")
    made.warns = False
    return made


@pytest.mark.parametrize(
    ("clause", "shown"),
    [
        ("ON OVERLOAD BLOCK ABOVE 64 MB", "BLOCK ABOVE 64,000,000 BYTES"),
        ("on overload drop above 1.5 seconds", "DROP ABOVE 1.5 SECONDS"),
        ("SLACK 5 ON OVERLOAD SAMPLE 2.5 % SEED 7 ABOVE 1000 ROWS", "SAMPLE 2.5 % ABOVE 1,000 ROWS"),
    ],
)
def test_the_clause(clause: str, shown: str) -> None:
    (made,) = parse_job(f"CREATE STREAM S (ts bigint) FROM 's.csv' TIMESTAMP BY ts {clause} IDLE 5 SECONDS")
    assert isinstance(made, CreateStream) and str(made.overload) == shown


@pytest.mark.parametrize(
    "clause",
    ["DRP ABOVE 5 ROWS", "DROP", "DROP ABOVE ROWS", "DROP ABOVE 5", "DROP ABOVE 0 ROWS", "SAMPLE ABOVE 5 ROWS",
     "SAMPLE 0 % ABOVE 5 ROWS", "SAMPLE 100 % ABOVE 5 ROWS", "SAMPLE 5 ABOVE 5 ROWS", "DROP ABOVE 5 PARSECS"],
)  # fmt: skip
def test_a_wrong_clause_names_its_place(clause: str) -> None:
    with pytest.raises(CqlError) as error:
        parse_job(f"CREATE STREAM S (ts bigint) FROM 's.csv' TIMESTAMP BY ts ON OVERLOAD {clause}")
    assert error.value.span is not None
    with pytest.raises(JobError):
        session(clause)


def test_a_column_called_weight_is_in_the_way() -> None:
    with pytest.raises(JobError, match="_weight"):
        ed.Session().stream("S", [{"ts": 1, "_weight": 2.0}], timestamp="ts", overload="sample 5 % above 5 rows")


QUERIES = (
    "SELECT S.a, T.a AS b FROM S [RANGE 50], T [RANGE 50] WHERE S.a = T.a",
    "SELECT a, count(*) AS n FROM S [RANGE 20] WHERE x > 3 GROUP BY a",
    "SELECT Istream(a, x) FROM S WHERE a > 1",
    "SELECT a FROM S [ROWS 5]",
)


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_those_of_the_reference_over_the_rows_that_were_kept(seed: int, tmp_path: Any) -> None:
    rng = random.Random(seed)
    text = QUERIES[seed % len(QUERIES)]
    bound = ("drop above 30 rows", "sample 40 % seed 5 above 25 rows", "drop above 900 bytes")[seed % 3]
    slack: Any = rng.choice([40, "auto(target=80, interval=8, window=64)"])
    made = session(bound, slack)
    query = made.query(text)
    late_times = {t for t in range(400) if rng.random() < 0.05}
    mine = sorted(rows(400, seed=seed), key=lambda r: r["ts"] + (60 if r["ts"] in late_times else rng.randint(0, 5)))
    mine += rows(1, 2000)  # comes when nothing waits: shed rows show their times, and time ends with this one
    theirs = rows(400, seed=seed + 100)
    batches: list[pa.RecordBatch] = []
    at = 0
    while at < len(mine):
        size = rng.choice([1, 10, 60])
        if at + size >= len(mine):
            made.heartbeat("S", 450)
            made.heartbeat("T", 450)
            size = len(mine) - at
            for r in mine[at:]:
                made.push("S", [r])
        else:
            made.push("S", mine[at : at + size])
        if rng.random() < 0.5 and theirs:
            made.push("T", theirs[: at // 2])
            theirs = theirs[at // 2 :]
        if rng.random() < 0.1:
            made.snapshot(tmp_path / "saved")
            batches += query.fetch()
            made.snapshot(tmp_path / "saved")
            made = session(bound, slack)
            query = made.query(text)
            made.restore(tmp_path / "saved")
        at += size
    made.finish()
    table = pa.Table.from_batches([*batches, *query.fetch()], query.schema)
    s, t = made.inputs["s"], made.inputs["t"]
    gone = [r["ts"] for output in (s.late, s.shed, s.invalid) for r in output.to_pylist()]
    assert len(gone) == s.late.count + s.shed.count + s.invalid.count
    kept = StreamData([(r["ts"], {**r, "_weight": 1.0}) for r in mine if r["ts"] not in gone], NEVER_LATE)
    late = [r["ts"] for r in t.late.to_pylist()]
    pushed = [r for r in rows(400, seed=seed + 100)[: t.arrived] if r["ts"] not in late]
    others = StreamData([(r["ts"], r) for r in pushed], NEVER_LATE)
    expected = Reference(bind(text, made.catalog), {"S": kept, "T": others}).run()
    have = sorted(
        (r["_time"], tuple(v for k, v in r.items() if k[0] != "_"), r.get("_sign")) for r in table.to_pylist()
    )
    assert have == sorted((r.time, tuple(r.values), r.sign) for r in expected)
    assert s.shed.count > 0 and query.approximate


def test_what_was_shed_can_be_read_and_is_told() -> None:
    made = session("drop above 10 rows")
    made.warns = True
    query = made.query("q: SELECT S.a FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a")
    seen = made.query("SELECT stream, reason, row FROM shed(q)")
    with pytest.warns(ed.ShedRowsWarning, match="20 shed rows of S"):
        made.push("S", rows(30))
    made.finish()
    found = [r for b in seen.fetch() for r in b.to_pylist()]
    assert (
        len(found) == 20
        and found[0]["reason"] == "shed: ON OVERLOAD DROP ABOVE 10 ROWS"
        and '"ts": 10' in found[0]["row"]
    )
    report = query.report()
    assert report["shed"] == 20 and report["approximate"] and report["streams"]["S"]["shed"] == 20
    assert [d.kind for d in query.decisions].count("shedding") == 1 and "approximate" in query.explain()
    assert [r["ts"] for r in query.shed()] == list(range(10, 30))


def test_what_runs_beside_a_query_for_its_estimates_is_no_query_to_the_user_and_goes_with_it() -> None:
    made = session("sample 20 % above 5 rows")
    query = made.query("q: SELECT count(*) AS n FROM S [RANGE 10]")
    assert query.companion is not None and "1 query" in repr(made)
    made.execute("PIN QUERY q; UNDO DECISION 1")  # of the only query
    query.drop()
    assert made.queries == [] and not made._graph.operators


def test_nothing_is_shed_while_rows_are_taken_as_they_come() -> None:
    made = session("drop above 10 rows")
    query = made.query("SELECT a FROM S [ROWS 3]")
    for start in range(0, 300, 5):
        made.push("S", rows(5, start))
    assert not query.approximate and query.report()["estimates"] == []


def test_a_bound_in_seconds_looks_at_the_oldest_row_that_waits() -> None:
    made = session("drop above 2 seconds")
    query = made.query("SELECT S.a FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a")
    made.push("S", rows(5))
    made.clock.advance(1_900_000)  # type: ignore[attr-defined]
    made.push("S", rows(5, 5))
    assert not query.approximate
    made.clock.advance(200_000)  # type: ignore[attr-defined]
    made.push("S", rows(5, 10))
    assert [r["ts"] for r in query.shed()] == list(range(10, 15))
    made.push("T", rows(20))
    made.push("S", rows(5, 15))
    assert len(query.shed()) == 5


def test_blocking_refuses_rows_until_there_is_room() -> None:
    made = session("block above 10 rows")
    made.query("SELECT S.a FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a")
    made.push("S", rows(12))
    with pytest.raises(ed.OverloadError, match="push these again"):
        made.push("S", rows(5, 12))
    assert made.inputs["s"].arrived == 12
    made.push("T", rows(20))
    made.push("S", rows(5, 12))
    assert made.inputs["s"].arrived == 17


def test_a_pulled_source_that_is_full_waits_for_the_other() -> None:
    made = ed.Session()
    made.stream("S", rows(5000), timestamp="ts", overload="block above 64 rows")
    made.stream("T", rows(5000, seed=2), timestamp="ts")
    query = made.query("SELECT count(*) AS n FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a")
    most = 0
    while made.step():
        most = max(most, made.inputs["s"].buffered)
    assert most <= 128 and query.report()["shed"] == 0 and made.inputs["s"].arrived == 5000


def test_reading_a_file_is_no_overload() -> None:
    made = ed.Session()
    made.stream("S", rows(5000), timestamp="ts", overload="drop above 100 rows")
    query = made.query("SELECT count(*) AS n FROM S [RANGE 5]")
    query.to_arrow()
    assert query.report()["shed"] == 0


def test_weights_and_estimates_by_group_through_a_snapshot(tmp_path: Any) -> None:
    text = "SELECT a, count(*) AS n, sum(x) AS t, avg(x) AS m, count(x) AS k FROM S [RANGE 5000] WHERE x > 2 GROUP BY a"
    made = session("sample 30 % seed 9 above 200 rows")
    query = made.query(text)
    other = made.query("SELECT Istream(ts, _weight) FROM S")
    given = rows(3000)
    for start in range(0, 3000, 750):
        made.push("S", given[start : start + 750])
    made.snapshot(tmp_path)
    made = session("sample 30 % seed 9 above 200 rows")
    query, again = made.query(text), made.query("SELECT Istream(ts, _weight) FROM S")
    made.restore(tmp_path)
    made.finish()
    weight = {r["ts"]: r["_weight"] for q in (other, again) for b in q.fetch() for r in b.to_pylist()}
    assert set(weight.values()) == {1.0, 1 / 0.3} and len(weight) == 3000 - query.report()["shed"]
    found = {(e["column"], e["group"]["S.a"]): e for e in query.report()["estimates"]}
    covered = 0
    for a in range(4):
        kept = [(weight[r["ts"]], r["x"]) for r in given if r["a"] == a and r["x"] > 2 and r["ts"] in weight]
        truth = [r["x"] for r in given if r["a"] == a and r["x"] > 2]
        assert found["n", a]["value"] == pytest.approx(sum(w for w, _ in kept)) == found["k", a]["value"]
        assert found["t", a]["value"] == pytest.approx(sum(w * x for w, x in kept))
        assert found["m", a]["value"] == pytest.approx(sum(w * x for w, x in kept) / sum(w for w, _ in kept))
        for column, value in (("n", len(truth)), ("t", sum(truth)), ("m", sum(truth) / len(truth))):
            covered += found[column, a]["low"] <= value <= found[column, a]["high"]
    assert covered >= 10


def test_spark_refuses_to_shed() -> None:
    runtime = pytest.importorskip("eddyline.spark.session")
    made = runtime.SparkRuntime.__new__(runtime.SparkRuntime)
    definition = session("drop above 5 rows").inputs["s"].definition
    with pytest.raises(JobError, match="rows_per_batch"):
        made._add_input(definition, None)
