"""SLACK AUTO in a session: declarations, decisions, what is diverted, heartbeats, idle streams, later queries."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import CqlError, DataError, InvalidRowsWarning, JobError, LateRowsWarning
from eddyline.cql.job import CreateStream, parse_job
from eddyline.testing.clock import ManualClock

SCHEMA = pa.schema([("ts", pa.int64()), ("a", pa.int64())])


def rows(count: int, late: int = 20, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    made = sorted(({"ts": t, "a": t % 5} for t in range(count)), key=lambda r: r["ts"] + rng.randint(0, late))
    return list(made)


def pushed(slack: str = "auto", **options: Any) -> tuple[ed.Session, Any]:
    session = ed.Session(clock=ManualClock(), **options)
    session.stream("S", schema=SCHEMA, timestamp="ts", slack=slack, idle="10 seconds")
    return session, session.query("q: SELECT a FROM S [ROWS 2]")


@pytest.mark.parametrize(
    ("clause", "policy"),
    [
        ("SLACK AUTO", "auto"),
        ("slack for 99.5 %", "auto(target=99.5)"),
        ("SLACK FOR 99 PERCENT IDLE 5 SECONDS", "auto(target=99)"),
        ("SLACK 'auto(window=4096)'", "auto(window=4096)"),
    ],
)
def test_the_clause(clause: str, policy: str) -> None:
    (made,) = parse_job(f"CREATE STREAM S (ts bigint) FROM 's.csv' TIMESTAMP BY ts {clause}")
    assert isinstance(made, CreateStream) and made.slack == policy


@pytest.mark.parametrize("clause", ["SLACK FOR AUTO", "SLACK FOR 99", "SLACK FOR 99 SECONDS", "SLACK AUTO 5"])
def test_a_wrong_clause_names_its_place(clause: str) -> None:
    with pytest.raises(CqlError) as error:
        parse_job(f"CREATE STREAM S (ts bigint) FROM 's.csv' TIMESTAMP BY ts {clause}")
    assert error.value.span is not None


@pytest.mark.parametrize("slack", ["auto(target=100)", "101 %", "-3 %", "automatic", "auto(x=1)", "%"])
def test_wrong_arguments(slack: str) -> None:
    with pytest.raises(JobError):
        ed.Session().stream("S", schema=SCHEMA, timestamp="ts", slack=slack)


def test_a_stream_that_is_stamped_on_arrival_has_no_late_rows() -> None:
    with pytest.raises(JobError, match="TIMESTAMP BY"):
        ed.Session().stream("S", schema=SCHEMA, slack="auto")


def test_decisions_go_to_every_query_that_reads_the_stream() -> None:
    session, first = pushed("95 %")
    second = session.query("SELECT count(*) AS n FROM S [RANGE 5]")
    session.push("S", rows(3000))
    assert [d.after for d in first.decisions if d.kind == "slack"] == [
        d.after for d in second.decisions if d.kind == "slack"
    ]
    assert len([d for d in first.decisions if d.kind == "slack"]) > 5
    assert {d.operator for d in first.decisions if d.kind == "slack"} == {"stream S"}
    session.drop(second)
    session.push("S", [{"ts": r["ts"] + 3000, "a": 1} for r in rows(1000, late=200)])
    assert first.decisions[-1].time > second.decisions[-1].time
    assert "slack" in first.explain()


def test_a_row_far_ahead_is_implausible_and_can_be_read() -> None:
    session, query = pushed()
    seen = session.query("SELECT stream, reason FROM invalid(q)")
    given = rows(400)
    given.insert(200, {"ts": 10**12, "a": 9})
    with pytest.warns(InvalidRowsWarning, match="far ahead"):
        session.push("S", given)
    session.finish()
    assert query.report()["streams"]["S"]["implausible"] == 1 == query.report()["invalid"]
    (row,) = [r for b in seen.fetch() for r in b.to_pylist()]
    assert row["stream"] == "S" and row["reason"].startswith("implausible: far ahead")
    assert query.invalid()[0]["ts"] == 10**12


def test_strict_stops_at_an_implausible_row() -> None:
    session, _ = pushed(strict=True)
    given = rows(400)
    given.insert(200, {"ts": 10**12, "a": 9})
    with pytest.raises(DataError, match="implausible"):
        session.push("S", given)


def test_time_that_really_moves_loses_nothing() -> None:
    session, query = pushed()
    session.push("S", [*rows(300), *({**r, "ts": r["ts"] + 10**9} for r in rows(300))])
    session.finish()
    assert query.report()["invalid"] == 0 == query.report()["late"]


def test_nothing_closes_before_the_first_rows_are_there_and_a_heartbeat_has_them_judged() -> None:
    session, query = pushed()
    session.push("S", rows(30))
    assert session.inputs["s"].shown is None and not query.fetch()
    session.heartbeat("S", 10_000)
    assert session.inputs["s"].shown == 10_000 and query.fetch()


def test_an_idle_stream_has_its_rows_judged() -> None:
    session, query = pushed()
    session.push("S", rows(30))
    session.clock.advance(11_000_000)  # type: ignore[attr-defined]
    session.tick()
    assert sum(b.num_rows for b in query.fetch()) > 0


def test_a_query_that_comes_while_rows_wait_does_not_see_them() -> None:
    session, _ = pushed()
    session.push("S", rows(40, late=0))
    second = session.query("SELECT Istream(ts, a) FROM S")
    session.push("S", [{"ts": t, "a": 1} for t in range(40, 100)])
    session.finish()
    times = [r["ts"] for b in second.fetch() for r in b.to_pylist()]
    assert times == list(range(40, 100))


def test_a_stream_that_had_a_fixed_slack_starts_to_measure(tmp_path: Any) -> None:
    given = rows(600)
    session = ed.Session()
    session.stream("S", schema=SCHEMA, timestamp="ts", slack=25)
    query = session.query("SELECT Istream(ts) FROM S")
    session.push("S", given[:300])
    session.snapshot(tmp_path)
    session = ed.Session()
    session.stream("S", schema=SCHEMA, timestamp="ts", slack="auto")
    query = session.query("SELECT Istream(ts) FROM S")
    session.restore(tmp_path)
    session.push("S", given[300:])
    session.finish()
    assert query.report()["late"] == 0
    assert [r["ts"] for b in query.fetch() for r in b.to_pylist()] == list(range(600))


def test_late_rows_are_told_with_a_remedy_and_a_reason() -> None:
    session, query = pushed("auto(target=80, interval=8, window=64)")
    with pytest.warns(LateRowsWarning, match="SLACK FOR a higher percentage"):
        session.push("S", [*rows(2000), {"ts": 3, "a": 0}])
    assert all(r["_reason"].startswith("late") for r in query.late())
