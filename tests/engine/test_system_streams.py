"""SysStream and Decisions: what is published when, what is collected, and that queries read them like any other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.catalog import Catalog
from eddyline.cql import bind
from eddyline.engine.collector import PROPERTIES, Collector
from eddyline.engine.system_rows_read import WantedRows, wanted_by
from eddyline.plan.rules import optimize
from eddyline.testing import ManualClock

SCHEMA = pa.schema([(n, pa.int64()) for n in ("ts", "a", "b")])
SECOND = 1_000_000


class Watched:
    """A query whose selection adapts, on a clock that tests advance."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.session = ed.Session(clock=self.clock)
        self.session.stream("S", schema=SCHEMA, timestamp="ts", slack=2)
        self.session.function("most", lambda x: x < 90, "boolean", ["bigint"])
        self.session.function("few", lambda x: x < 5, "boolean", ["bigint"])
        text = "SELECT count(*) AS n FROM S [RANGE 100] WHERE most(a) AND few(b)"
        self.query = self.session.query(text, name="q", filters="a-greedy(p=0.3)")
        self.rng, self.now = np.random.default_rng(3), 0

    def work(self, seconds: int, rows: int = 400) -> None:
        for _ in range(seconds):
            ts = self.now + np.arange(rows)
            a, b = (self.rng.integers(0, 100, rows) for _ in range(2))
            self.session.push("S", pa.table({"ts": ts, "a": a, "b": b}, schema=SCHEMA))
            self.now += rows
            self.clock.advance(SECOND)


def test_properties_are_published_once_a_second_and_closed_at_once() -> None:
    w = Watched()
    seen = w.session.query(
        "SELECT Istream(ts, entity, value) FROM SysStream WHERE kind = 'input' AND property = 'rows'"
    )
    w.work(4)
    rows = seen.to_arrow().to_pylist()
    assert [(r["entity"], r["value"]) for r in rows] == [("S", 400.0), ("S", 800.0), ("S", 1200.0), ("S", 1600.0)]
    assert len({r["ts"] for r in rows}) == 4
    w.clock.advance(SECOND // 2)
    w.session.tick()
    assert (
        seen.to_arrow().num_rows == 4 + 1
    )  # half a second after the last push, a second and a half after the last rows
    w.session.tick()
    assert seen.to_arrow().num_rows == 5


def test_the_example_of_the_design_runs() -> None:
    w = Watched()
    seen = w.session.query(
        "SELECT entity, avg(value) AS v FROM SysStream [RANGE 10 SECONDS] WHERE property = 'selectivity'"
        " GROUP BY entity"
    )
    w.work(6)
    w.session.finish()
    held: Counter[tuple[str, float]] = Counter()
    for row in seen.to_arrow().to_pylist():
        held[row["entity"], row["v"]] += row["_sign"]
    last = {entity: v for (entity, v), count in held.items() if count}
    assert {"select 1", "select 1: most(S.a)", "select 1: few(S.b)", "aggregate 1"} <= set(last)
    assert last["select 1: few(S.b)"] == pytest.approx(0.05, abs=0.02)


def test_intervals_are_those_of_each_query() -> None:
    w = Watched()
    text = "SELECT Istream(ts) FROM SysStream WHERE kind = 'input' AND property = 'rows'"
    often, seldom = w.session.query(text, every="1 second"), w.session.query(text, every="4 seconds")
    also = w.session.query(text + " WITH (every = '4 seconds')")
    w.work(9)
    counts = [q.to_arrow().num_rows for q in (often, seldom, also)]
    assert counts == [9, 3, 3]


def test_only_what_somebody_asks_for_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    w = Watched()
    asked: list[Any] = []
    real = Collector.rows

    def rows(self: Collector, session: Any, wanted: Any, now: int) -> Any:
        found = real(self, session, wanted, now)
        asked.append((wanted, found))
        return found

    monkeypatch.setattr(Collector, "rows", rows)
    w.work(2)
    assert asked == []  # nobody reads
    one = w.session.query("SELECT Istream(value) FROM SysStream WHERE property = 'rate' AND query = 'q'")
    w.work(2)
    assert {(r[0], r[3]) for _, found in asked for r in found} == {("q", "rate")}
    two = w.session.query("SELECT Istream(value) FROM SysStream WHERE 'late' = property AND kind IN ('input', 'query')")
    asked.clear()
    w.work(1)
    assert {r[3] for _, found in asked for r in found} == {"rate", "late"}
    one.drop()
    asked.clear()
    w.work(1)
    assert {r[3] for _, found in asked for r in found} == {"late"}
    two.drop()
    asked.clear()
    w.work(2)
    assert asked == []


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("property = 'rate'", WantedRows(property=frozenset({"rate"}))),
        ("'q' = s.query AND entity IN ('a', 'b')", WantedRows(frozenset({"q"}), frozenset({"a", "b"}))),
        ("property = 'a' AND property = 'b'", WantedRows(property=frozenset())),
        ("property = 'a' OR property = 'b'", WantedRows()),
        ("property <> 'a' AND value = 3", WantedRows()),
        ("upper(property) = 'A'", WantedRows()),
    ],
)
def test_what_a_query_asks_for_is_read_from_its_plan(where: str, wanted: WantedRows) -> None:
    plan = optimize(bind(f"SELECT Istream(value) FROM SysStream [RANGE 5 SECONDS] s WHERE {where}", Catalog()).plan)
    assert list(wanted_by(plan)) == [wanted]


def test_a_filter_above_a_window_that_counts_collects_everything() -> None:
    plan = optimize(bind("SELECT value FROM SysStream [ROWS 5] WHERE property = 'rate'", Catalog()).plan)
    assert list(wanted_by(plan)) == [WantedRows()]


def test_all_kinds_of_entities_publish_what_the_page_lists() -> None:
    w = Watched()
    everything = w.session.query("SELECT Istream(kind, property, value, shard) FROM SysStream")
    w.work(5)
    w.session.finish()
    rows = everything.to_arrow().to_pylist()
    found = {(r["kind"], r["property"]) for r in rows}
    listed = {(kind, p) for kind, names in PROPERTIES.items() for p in names if kind not in ("cache", "shard")}
    assert found == listed
    assert all(r["shard"] is None for r in rows)


def test_caches_publish_their_hits() -> None:
    from tests.engine.test_steering import Joined, until_cached

    j = Joined()
    caches = j.session.query("SELECT Istream(entity, property, value) FROM SysStream WHERE kind = 'cache'", every=0.001)
    until_cached(j)
    j.push()
    j.session.finish()
    rows = caches.to_arrow().to_pylist()
    assert {r["property"] for r in rows} == set(PROPERTIES["cache"])
    assert any(r["property"] == "hit rate" and r["value"] > 0.5 for r in rows)


def test_decisions_are_a_stream() -> None:
    w = Watched()
    seen = w.session.query("SELECT Istream(query, sequence, kind, by, after, applied) FROM Decisions")
    by = w.session.query("SELECT by, count(*) AS n FROM Decisions [RANGE 1 HOUR] GROUP BY by")
    w.work(3)
    w.query.alter(scheduler="chain")
    w.query.pin()
    w.work(1)
    w.session.finish()
    rows = seen.to_arrow().to_pylist()
    made = [d for d in w.query.decisions if d.query == "q"]
    mine = [r for r in rows if r["query"] == "q"]
    assert [r["sequence"] for r in mine] == [d.sequence for d in made if d.wall is not None and d.by != "planner"]
    assert {(r["kind"], r["by"], r["after"]) for r in mine} >= {
        ("option scheduler", "user", "chain"),
        ("pinned", "user", "True"),
    }
    assert by.to_arrow().num_rows


def test_a_session_that_reads_files_ends_its_system_streams(tmp_path: Path) -> None:
    session = ed.Session(clock=ManualClock())
    session.stream("S", [{"ts": t, "a": t % 7} for t in range(100)], timestamp="ts")
    session.query("SELECT Istream(a) FROM S WHERE a > 3", name="q")
    seen = session.query("SELECT entity, max(value) AS most FROM SysStream WHERE property = 'rows in' GROUP BY entity")
    assert dict(zip(*(seen.to_arrow().column(i).to_pylist() for i in (0, 1)), strict=True))["select 1"] == 100.0


def test_declared_names_come_first() -> None:
    session = ed.Session()
    session.stream("Decisions", [{"ts": 1, "a": 2}], timestamp="ts")
    assert session.query("SELECT Istream(a) FROM Decisions").to_arrow().to_pylist() == [{"a": 2, "_time": 1}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT Istream(value) FROM SysStream WITH (every = '0 seconds')", "must be longer than nothing"),
        ("SELECT Istream(value) FROM SysStream WITH (every = 'often')", "the option 'every' is a number or a text"),
        ("SELECT Istream(a) FROM S WITH (every = '1 second')", "this query does not read it"),
        ("SELECT Istream(valu) FROM SysStream", "Did you mean 'value'?"),
        ("SELECT a FROM S [RANGE 5], SysStream [RANGE 5 SECONDS] WHERE a = value", "time"),
    ],
)
def test_mistakes(text: str, says: str) -> None:
    w = Watched()
    with pytest.raises(ed.JobError, match=says.replace("?", r"\?")):
        w.session.query(text)


def test_system_streams_go_on_after_a_restart(tmp_path: Path) -> None:
    def begin() -> tuple[Watched, Any]:
        w = Watched()
        return w, w.session.query("SELECT Istream(ts, value) FROM SysStream WHERE kind = 'input' AND property = 'rows'")

    w, seen = begin()
    w.work(3)
    before = seen.to_arrow().num_rows
    w.session.snapshot(tmp_path)
    again, more = begin()
    again.session.restore(tmp_path)
    again.clock.advance(10 * SECOND)
    again.now = w.now
    again.work(2)
    rows = more.to_arrow().to_pylist()
    assert before == 3
    assert [r["value"] for r in rows] == [1600.0, 2000.0]
