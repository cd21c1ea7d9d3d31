"""Views in queries on models: a query that reads a view answers as the same query with the view's text in FROM."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from tests.models.test_error_within import CASES, asked, signals
from tests.models.test_queries import comparable, random_segments
from tests.models.test_sharded import answer, sharded
from tests.models.test_tuples_or_models import SCHEMA

# The view, the query that reads it, and whether the view's result is segments.
STORED = [
    ("SELECT k, x FROM S WHERE x > 0", "SELECT k, x * x AS y FROM {v} WHERE x < 3"),
    ("SELECT k, x - 1 AS z FROM S WHERE k <> 1", "SELECT w.k, z + x AS d FROM {v} w JOIN S ON w.k = S.k WHERE z > 0"),
    ("SELECT k, avg(x) AS m FROM S [RANGE 8 SLIDE 2] GROUP BY k", "SELECT k, m FROM {v} WHERE m > 0 SAMPLE EVERY 2"),
    ("SELECT k, x FROM S WHERE x > -1", "SELECT k, max(x) AS m FROM {v} [RANGE 4 SLIDE 2] GROUP BY k PARTIAL"),
    ("SELECT a.k, b.k AS other, a.x - b.x AS gap FROM S a JOIN S b ON a.k < b.k", "SELECT k, other, gap FROM {v} "
     "WHERE gap > 0 AND gap < 2 SAMPLE EVERY 1"),
]  # fmt: skip
WITHIN = [
    ("SELECT k, x - y AS z FROM S WHERE k <> 'b'", "SELECT k, 2 * z AS d FROM {v} WHERE z > 0 {e} SAMPLE EVERY 1"),
    ("SELECT k, x FROM S", "SELECT k, avg(x) AS m FROM {v} [RANGE 9 SLIDE 3] GROUP BY k HAVING avg(x) > 0 {e}"),
    ("SELECT k, x FROM S WHERE x > 0", "SELECT k, x FROM {v} WHERE x < 3 {e}"),
    ("SELECT k, x, y FROM S", "SELECT a.k, a.x - b.y AS d FROM {v} a JOIN {v} b ON a.k = b.k {e} SAMPLE EVERY 2"),
]


def with_view(table: pa.Table, view: str, **declared: Any) -> ed.Session:
    session = ed.Session()
    session.stream("S", table, **declared)
    session.execute(f"CREATE VIEW seen AS {view}")
    return session


def read(table: pa.Table, view: str, text: str, models: str | None = None, **declared: Any) -> pa.Table:
    options = {} if models is None else {"models": models}
    return with_view(table, view, **declared).query(text, **options).to_arrow()


@pytest.mark.parametrize("number", range(len(STORED)))
def test_a_view_of_segments_is_read_as_its_text_in_from(number: int) -> None:
    view, text = STORED[number]
    rng = np.random.default_rng(number)
    rows = 0
    for degree in (1, 2):
        table = random_segments(rng, degree)
        found = read(table, view, text.format(v="seen"))
        wanted = read(table, view, text.format(v=f"({view})"))
        assert comparable(found) == comparable(wanted)
        assert found.schema == wanted.schema
        rows += len(found)
    assert rows > 20


@pytest.mark.parametrize("models", ["always", "never"])
@pytest.mark.parametrize("number", range(len(WITHIN)))
def test_samples_below_a_view_are_fitted_within_the_bound_of_its_reader(number: int, models: str) -> None:
    view, text = WITHIN[number]
    many = 0
    for case in range(CASES):
        rng = np.random.default_rng([number, case])
        tables = {"S": pa.Table.from_pylist(signals(rng, 5), SCHEMA)}
        clause = asked(rng)[0]
        reader = text.format(v="seen", e=clause)
        found = read(tables["S"], view, reader, models=models, timestamp="ts")
        wanted = read(tables["S"], view, text.format(v=f"({view})", e=clause), models=models, timestamp="ts")
        assert comparable(found) == comparable(wanted)
        catalog = with_view(tables["S"], view, timestamp="ts").catalog
        group, on_shards = sharded(reader, tables, catalog, random.Random(case), models=models)
        assert group.shards > 1
        assert answer(on_shards) == answer(found)
        many += len(found)
    assert many > 10 * CASES


def heat() -> ed.Session:
    samples = [{"ts": t, "room": "dairy", "celsius": 4 + abs(t % 120 - 60) / 60} for t in range(241)]
    session = ed.Session()
    session.stream("heat", ed.fit(samples, key="room", time="ts", value="celsius", error=0.05))
    session.stream("samples", samples, timestamp="ts")
    return session


def test_a_view_may_read_a_view_and_be_a_named_query() -> None:
    session = heat()
    session.query("SELECT room, celsius FROM heat WHERE celsius < 4.25", name="cold")
    session.execute("CREATE VIEW warmer AS SELECT room, celsius - 4 AS above FROM cold WHERE celsius > 4.1")
    found = session.query("SELECT room, above FROM warmer WHERE above < 0.2").to_arrow().to_pylist()
    text = "SELECT room, celsius - 4 AS above FROM heat WHERE celsius > 4.1 AND celsius < 4.2"
    wanted = heat().query(text).to_arrow().to_pylist()
    assert len(found) == len(wanted) == 4
    for row, other in zip(found, wanted, strict=True):
        assert row == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "SELECT room, round(_from) AS begin FROM cold",
            [("dairy", 47.0), ("dairy", 64.0), ("dairy", 167.0), ("dairy", 184.0)],
        ),
        ("SELECT room, count(*) AS n FROM cold WHERE _to < 70 GROUP BY room", [("dairy", 1)]),
    ],
)
def test_a_query_that_names_no_value_reads_the_rows_of_segments(text: str, rows: list[Any]) -> None:
    session = heat()
    session.execute("CREATE VIEW cold AS SELECT room, celsius FROM heat WHERE celsius < 4.25")
    found = session.query(text).to_arrow().to_pylist()
    assert [tuple(r.values())[:2] for r in found] == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT room, celsius FROM cold WHERE room IN (SELECT room FROM R)", [50, 60, 70]),
        ("SELECT cold.room, celsius FROM cold, R WHERE cold.room = R.room", [50, 60, 70]),
        ("SELECT room, max(celsius) AS m FROM cold GROUP BY room HAVING count(*) > 2", [70]),
        (
            "SELECT a.room FROM cold [ROWS UNBOUNDED] a JOIN T [ROWS UNBOUNDED] t ON a.room = t.room",
            [66, 66, 70],
        ),
        ("SELECT room, count(*) AS n FROM cold [TUMBLE 15] GROUP BY room", [60]),  # time ends at 66
    ],
)
def test_a_query_over_rows_of_segments_sees_all_of_them(text: str, rows: list[int]) -> None:
    session = ed.Session()
    samples = [{"ts": t, "room": "dairy", "celsius": 4 + abs(t - 60) / 60} for t in range(121)]
    session.stream("heat", ed.fit(samples, key="room", time="ts", value="celsius", error=0.05))
    session.relation("R", [{"room": "dairy"}])
    session.stream("T", [{"ts": 66, "room": "dairy"}], timestamp="ts")
    session.execute("CREATE VIEW cold AS SELECT room, celsius FROM heat WHERE celsius < 4.25 SAMPLE EVERY 10")
    found = session.query(text).to_arrow().to_pylist()
    assert [r["_time"] for r in found if r.get("_sign", 1) > 0] == rows


@pytest.mark.parametrize(
    ("view", "text", "told"),
    [
        ("SELECT room, celsius FROM heat SAMPLE EVERY 5", "SELECT room, celsius FROM v SAMPLE EVERY 10",
         r"clauses of models of its own \(SAMPLE EVERY 5\)"),
        ("SELECT room, celsius FROM samples ERROR WITHIN 1", "SELECT celsius FROM v", "only a whole query has them"),
        ("SELECT room, celsius FROM samples WHERE ts > 4", "SELECT celsius FROM v ERROR WITHIN 1",
         "the view v in a query on models: ts is no column of a query with ERROR WITHIN"),
        ("SELECT room, ln(celsius) AS y FROM samples", "SELECT y FROM v ERROR WITHIN 1", "no polynomial of time"),
        ("SELECT room, celsius FROM samples", "SELECT celsius FROM v SAMPLE EVERY 1", "samples has no model"),
    ],
)  # fmt: skip
def test_refusals(view: str, text: str, told: str) -> None:
    session = heat()
    session.execute(f"CREATE VIEW v AS {view}")
    with pytest.raises(ed.CqlError, match=told):
        session.query(text)


def test_what_is_wrong_with_a_view_is_shown_where_it_is_read() -> None:
    session = heat()
    session.execute("CREATE VIEW rising AS SELECT room, ln(celsius) AS y FROM samples")
    with pytest.raises(ed.CqlError) as refused:
        session.query("SELECT y FROM rising ERROR WITHIN 1")
    error = refused.value
    assert error.span is not None and error.text[error.span.start : error.span.end] == "rising"
