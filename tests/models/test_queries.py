"""Queries on models, from their text to their results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.core.time import TimeKind
from eddyline.models.segments import ModelledValue, SegmentLayout, polynomial_array

QUERIES = (
    "SELECT k, x FROM S WHERE x > 1 AND x < 4",
    "SELECT k, x FROM S WHERE x > 1 OR x < -2 SAMPLE EVERY 3",
    "SELECT k, x * x - 2 AS y FROM S WHERE k <> 1 SAMPLE EVERY 2",
    "SELECT a.k, b.k AS other, a.x - b.x AS gap FROM S a JOIN S b ON a.k < b.k WHERE a.x > b.x",
    "SELECT min(x) AS low, max(x) AS high FROM S SAMPLE EVERY 4",
    "SELECT max(x) AS m FROM S [RANGE 9]",
    "SELECT k, avg(x) AS m FROM S [RANGE 10 SLIDE 5] GROUP BY k",
    "SELECT k, sum(x) AS m FROM S [RANGE 10] GROUP BY k HAVING sum(x) > 3 PARTIAL SAMPLE EVERY 1",
    "SELECT s.k, s.m - l.m AS d FROM (SELECT k, avg(x) AS m FROM S [size 4 advance 2]) AS s JOIN "
    "(SELECT k, avg(x) AS m FROM S [size 12 advance 2]) AS l ON s.k = l.k WHERE s.m > l.m",
)


def segments(rows: list[tuple[Any, int, int, list[float]]], degree: int = 1) -> pa.Table:
    """A segment table of (key, from, to, coefficients)."""
    layout = SegmentLayout(("k",), (ModelledValue("x", degree),), TimeKind.INTEGER)
    key = pa.array([r[0] for r in rows])
    columns = [key, pa.array([r[1] for r in rows], pa.int64()), pa.array([r[2] for r in rows], pa.int64())]
    values = polynomial_array(np.array([r[3] for r in rows], np.float64).reshape(len(rows), degree + 1))
    return pa.Table.from_arrays([*columns, pa.array([1] * len(rows)), values], schema=layout.schema([key.type]))


def random_segments(rng: np.random.Generator, degree: int) -> pa.Table:
    """Segments of a few keys in order of time, some of which overlap the next one of their key or begin with it."""
    rows = []
    for k in range(3):
        t = int(rng.integers(0, 5))
        for _ in range(15):
            width = int(rng.integers(1, 20))
            c = (rng.normal(size=degree + 1) * 4 / width ** np.arange(degree + 1)).tolist()
            rows.append((k, t, t + width + int(rng.integers(0, 9)) * (rng.random() < 0.3), c))
            t += (width + (int(rng.integers(0, 6)) if rng.random() < 0.3 else 0)) * (rng.random() > 0.1)
    return segments(sorted(rows, key=lambda r: r[1]), degree)


def answer(table: pa.Table, text: str) -> pa.Table:
    session = ed.Session()
    session.stream("S", table)
    return session.query(text).to_arrow()


def comparable(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = table.to_pylist()
    return sorted(tuple(round(v, 7) if isinstance(v, float) else v for v in r.values()) for r in rows)


@pytest.mark.parametrize("text", QUERIES)
def test_batches_do_not_show(text: str) -> None:
    rng = np.random.default_rng(len(text))
    results = 0
    for degree in (1, 2, 3):
        table = random_segments(rng, degree)
        whole = answer(table, text)
        size = int(rng.integers(1, 6))
        chunks = pa.Table.from_batches(table.to_batches(max_chunksize=size), table.schema)
        pieces = answer(chunks, text)
        assert comparable(pieces) == comparable(whole)
        assert pieces["_time"].to_pylist() == sorted(pieces["_time"].to_pylist())
        results += len(whole)
    assert results > 15


@pytest.mark.parametrize("condition", ["x * x < 4", "x * x + 2 < 6 AND x < 3", "NOT power(x, 4) >= 16"])
def test_where_a_segment_will_be_cut_does_not_show_at_its_beginning(condition: str) -> None:
    """At its end the polynomial is so large that its value at the beginning counted as zero beside it; where the next
    segment had come in the same batch the end was cut off."""
    rows = [(1, 3, 400, [-1.0, 4.0, -1.0, -6.0, -5.0]), (1, 14, 17, [0.5, 0.0, 0.0, 0.0, 0.0])]
    for table in (segments(rows, 4), segments(rows[:1], 4)):
        for size in (1, 1000):
            chunks = pa.Table.from_batches(table.to_batches(max_chunksize=size), table.schema)
            found = answer(chunks, f"SELECT k, x FROM S WHERE {condition} SAMPLE EVERY 1").to_pylist()
            assert (found[0]["_time"], found[0]["x"]) == (3, -1.0)


def at(table: pa.Table, t: int) -> dict[int, float]:
    """x of each key at a tick: that of its last segment that has begun, if it has not ended."""
    found: dict[int, Any] = {}
    for row in table.to_pylist():
        if row["_from"] <= t:
            found[row["k"]] = row
    return {k: sum(c * (t - r["_from"]) ** i for i, c in enumerate(r["x"])) for k, r in found.items() if t < r["_to"]}


def test_samples_are_what_the_segments_say_at_their_ticks() -> None:
    rng = np.random.default_rng(2)
    counted = 0
    for degree in (0, 1, 2):
        table = random_segments(rng, degree)
        last = max(table["_to"].to_pylist())
        rows = answer(table, "SELECT k, x FROM S WHERE x > 0.5 SAMPLE EVERY 2").to_pylist()
        found = {(r["_time"], r["k"]): r["x"] for r in rows}
        wanted = {(t, k): x for t in range(0, last + 1, 2) for k, x in at(table, t).items() if x > 0.5}
        assert found.keys() == wanted.keys()
        assert all(found[w] == pytest.approx(wanted[w], abs=1e-9) for w in wanted)
        lows = answer(table, "SELECT min(x) AS m FROM S SAMPLE EVERY 1").to_pylist()
        expected = {t: min(xs.values()) for t in range(last + 1) if (xs := at(table, t))}
        assert {r["_time"]: pytest.approx(r["m"]) for r in lows} == expected
        counted += len(wanted) + len(expected)
    assert counted > 200


def test_a_later_segment_cuts_replaces_and_drops_the_tail() -> None:
    table = segments(
        [("a", 0, 100, [1.0, 0.0]), ("b", 5, 9, [1.0, 0.0]), ("b", 5, 7, [3.0, 0.0]), ("a", 10, 20, [2.0, 0.0])]
    )
    rows = answer(table, "SELECT k, x FROM S WHERE x > 0").to_pylist()
    assert [(r["k"], r["_from"], r["_to"], r["x_0"]) for r in rows] == [
        ("b", 5.0, 7.0, 3.0), ("a", 0.0, 10.0, 1.0), ("a", 10.0, 20.0, 2.0),
    ]  # fmt: skip


def test_roots_between_ticks_and_their_closedness() -> None:
    table = segments([("a", 0, 10, [-1.0, 0.4])])  # zero at 2.5

    def shown(condition: str) -> list[tuple[Any, ...]]:
        rows = answer(table, f"SELECT k, x FROM S WHERE {condition}").to_pylist()
        return [(r["_from"], r["_to"], r["_closed"]) for r in rows]

    assert shown("x > 0") == [(2.5, 10.0, "()")]
    assert shown("x >= 0") == [(2.5, 10.0, "[)")]
    assert shown("x < 0") == [(0.0, 2.5, "[)")]
    assert shown("x = 0") == [(2.5, 2.5, "[]")]
    assert shown("x <> 0") == [(0.0, 2.5, "[)"), (2.5, 10.0, "()")]
    assert shown("x > 0 AND x < 0.1") == []  # no tick between 2.5 and 2.75
    rows = answer(table, "SELECT k, x FROM S WHERE x >= 0 SAMPLE EVERY 5").to_pylist()
    assert [(r["_time"], r["x"]) for r in rows] == [(5, 1.0)]


def test_timestamps_keep_their_ticks() -> None:
    layout = SegmentLayout((), (ModelledValue("x", 1),), TimeKind.TIMESTAMP)
    times = [pa.array([0]).cast(pa.timestamp("us")), pa.array([10_000_000]).cast(pa.timestamp("us"))]
    values = polynomial_array(np.array([[0.0, 3.0]]))  # 1 after a third of a second
    table = pa.Table.from_arrays([*times, pa.array([1]), values], schema=layout.schema([]))
    (row,) = answer(table, "SELECT x FROM S WHERE x > 1").to_pylist()
    assert (row["_from"].microsecond, row["_to"].second, row["_closed"]) == (333_334, 10, "[)")
    assert row["x_0"] == pytest.approx(1.000002)
    rows = answer(table, "SELECT x FROM S SAMPLE EVERY 4 SECONDS").to_pylist()
    assert [r["x"] for r in rows] == pytest.approx([0.0, 12.0, 24.0])


def test_a_parquet_file_of_segments_is_a_stream(tmp_path: Path) -> None:
    samples = pa.table({"ts": range(60), "k": ["a"] * 60, "x": [abs(t - 30.0) for t in range(60)]})
    pq.write_table(ed.fit(samples, key="k", time="ts", value="x", error=0.01), tmp_path / "segments.parquet")
    session = ed.Session(base=tmp_path)
    (query,) = session.execute("CREATE STREAM prices FROM 'segments.parquet'; SELECT k, x FROM prices WHERE x < 3")
    found = query.segments()
    assert found.schema.field("x").type.degree == 1
    assert [(round(r["_from"], 6), round(r["_to"], 6)) for r in found.to_pylist()] == [(27.0, 31.0), (31.0, 33.0)]
    assert "solve prices.x < 3.0 → segments" in query.explain()
    assert [d.after for d in query.decisions] == ["equation-system"]


@pytest.mark.parametrize("given", ["table", "batch", "list", "tables", "reader", "iterator"])
def test_segments_in_memory_come_in_any_form(given: str) -> None:
    table = random_segments(np.random.default_rng(4), 2)
    batches = table.to_batches(max_chunksize=7)
    forms = {
        "table": table, "batch": table.combine_chunks().to_batches()[0], "list": batches,
        "tables": [table.slice(0, 5), table.slice(5)], "reader": table.to_reader(4), "iterator": iter(batches),
    }  # fmt: skip
    text = "SELECT k, x FROM S WHERE x > 1"
    session = ed.Session()
    session.stream("S", forms[given])
    assert comparable(session.query(text).to_arrow()) == comparable(answer(table, text))


def test_batches_of_other_segments_are_refused() -> None:
    rng = np.random.default_rng(4)
    session = ed.Session()
    session.stream("S", [random_segments(rng, 1), random_segments(rng, 2)])
    with pytest.raises(ed.JobError, match="a batch holds other segments than the first one"):
        session.query("SELECT k, x FROM S").to_arrow()


def test_coefficients_without_their_metadata_are_told_as_such() -> None:
    session = ed.Session()
    with pytest.raises(ed.JobError, match="column 'x' holds the polynomials of segments, and no metadata"):
        session.stream("S", random_segments(np.random.default_rng(4), 1).replace_schema_metadata())


def test_explain_shows_widths_of_a_timestamp_in_its_units() -> None:
    start = np.datetime64("2024-01-01", "us")
    samples = pa.table({"ts": start + np.arange(60) * np.timedelta64(1, "s"), "k": ["a"] * 60, "x": np.arange(60.0)})
    session = ed.Session()
    session.stream("P", ed.fit(samples, key="k", time="ts", value="x", error=0.01))
    text = "SELECT k, avg(x) AS mean FROM P [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY k SAMPLE EVERY 1 MINUTE"
    shown = session.query(text).explain()
    assert "over 10 SECONDS by" in shown and "sample every 1 MINUTE" in shown and "ticks" not in shown, shown


def test_models_declared_over_tuples() -> None:
    session = ed.Session()
    rows = [
        {"ts": 0, "id": "p", "x": 0.0, "v": 1.0}, {"ts": 0, "id": "q", "x": 9.0, "v": -1.0},
        {"ts": 6, "id": "p", "x": 6.0, "v": 0.0}, {"ts": 8, "id": "q", "x": 1.0, "v": 0.0},
    ]  # fmt: skip
    session.stream("S", rows, timestamp="ts")
    text = """SELECT a.id, b.id AS other FROM S a MODEL a.x = a.x + a.vt JOIN S b MODEL b.x = b.x + b.v * t
        ON a.id < b.id WHERE (a.x - b.x) * (a.x - b.x) < 4"""
    with pytest.raises(ed.CqlError, match="no modelled value"):
        session.query(text)
    query = session.query(text.replace("AS other", "AS other, a.x - b.x AS gap"))
    near = [(r["id"], r["other"], r["_from"], r["_to"], r["_closed"]) for r in query.to_arrow().to_pylist()]
    assert near == [("p", "q", 3.5, 5.5, "()")]  # |2t − 9| < 2; from 6 on p stands still, and q is at 3 and falls


def test_several_values_in_one_model() -> None:
    session = ed.Session()
    session.stream(
        "S",
        [{"ts": 0, "x": 3.0, "u": 0.0, "y": 0.0, "w": 1.0}, {"ts": 10, "x": 0.0, "u": 0.0, "y": 0.0, "w": 0.0}],
        timestamp="ts",
    )
    query = session.query(
        "SELECT sqrt(x * x + y * y) AS d FROM S MODEL S.x = S.x + S.ut, S.y = S.y + S.wt "
        "WHERE sqrt(x * x + y * y) < 5 SAMPLE EVERY 1"
    )
    assert [r["d"] for r in query.to_arrow().to_pylist()] == pytest.approx([3.0, 10**0.5, 13**0.5, 18**0.5, 0.0])


def test_partial_windows() -> None:
    table = segments([("a", 0, 4, [2.0, 0.0]), ("a", 8, 20, [4.0, 0.0])])
    text = "SELECT k, avg(x) AS m FROM S [RANGE 6 SLIDE 2] GROUP BY k"
    assert [(r["_time"], r["m"]) for r in answer(table, text).to_pylist()] == [(14, 4.0), (16, 4.0), (18, 4.0)]
    partial = {r["_time"]: r["m"] for r in answer(table, f"{text} PARTIAL").to_pylist()}
    assert partial[2] == 2.0
    assert partial[6] == 2.0
    assert partial[10] == 4.0  # (4, 10] holds [8, 10] alone


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT count(*) AS n FROM S [RANGE 5]", "depends on how many samples"),
        ("SELECT k, avg(x) AS m FROM S WHERE x = 1 GROUP BY k", "single instants"),
        ("SELECT k, avg(x) AS m FROM S [RANGE 5] WHERE x = 1 GROUP BY k", "single instants"),
        ("SELECT avg(x) AS m FROM S [RANGE 5]", "add GROUP BY with the whole key"),
        ("SELECT k, avg(x) AS m FROM S GROUP BY k", "give its stream a window"),
        ("SELECT x * x * x * x * x * x AS y FROM S", "degree 18"),
        ("SELECT ln(x) AS y FROM S", "no polynomial of time"),
        ("SELECT sqrt(x * x) AS y FROM S", "add SAMPLE EVERY"),
        ("SELECT k FROM S WHERE x > 0", "no modelled value"),
        ("SELECT Istream(x) FROM S", "leave Istream out"),
        ("SELECT DISTINCT x FROM S", "DISTINCT"),
        ("SELECT x FROM S [ROWS 5]", "no rows to count"),
        ("SELECT x FROM S SAMPLE EVERY 0", "larger than 0"),
        ("SELECT x FROM S SAMPLE EVERY 1 SAMPLE EVERY 2", "given twice"),
        ("SELECT x FROM S SAMPLE EVERY 1 SECOND PARTAL", "PARTIAL"),
        ("SELECT x FROM S MODEL S.x = S.x", "models already"),
        ("SELECT a FROM T MODEL T.a = T.a + T.b * t^5", "degree 5"),
        ("SELECT a FROM T MODEL T.a = T.a + T.nothing * t", "unknown column 'nothing'"),
        ("SELECT a FROM T MODEL T.a = T.a + S.x * t", "columns of its own stream"),
        ("SELECT a FROM T MODEL T.w = T.a", "computes with numbers"),
        ("SELECT S.x FROM S JOIN T ON S.k = T.b", "has no model"),
        ("SELECT a FROM T MODEL T.a = T.a / T.b", "MODEL divides by numbers alone, but found 'T'"),
        ("SELECT a FROM T MODEL T.a = T.a ERROR WITHIN 1", "add PREDICT"),
        ("SELECT x FROM S SAMPLE EVERY 1 MAX 5", "MAX is followed by GAP"),
        ("SELECT x FROM (SELECT x FROM S SAMPLE EVERY 5)", "SAMPLE EVERY belongs to a whole query"),
        ("SELECT x FROM (SELECT k, avg(x) AS x FROM S [RANGE 5] GROUP BY k PARTIAL)", "PARTIAL belongs to a whole"),
        ("SELECT x FROM S ORDER BY x LIMIT 3", "have no ranks or LIMIT: .*make it a view with SAMPLE EVERY"),
        ("SELECT x FROM S UNION SELECT x FROM S", "have no UNION, EXCEPT or INTERSECT"),
        ("SELECT x FROM S WHERE k IN (SELECT b FROM R)", "have no IN or EXISTS with a query"),
        ("SELECT S.x FROM S, R WHERE S.k = R.b", "have no relations"),
        ("SELECT a.x FROM S a LEFT JOIN S b ON a.k = b.k", "have no outer joins"),
        ("SELECT ts, a FROM T ERROR WITHIN 1", "ts is no column of a query with ERROR WITHIN: .* as _time"),
        ("SELECT w, a FROM T ERROR WITHIN 1 BY (b)", "w is no column .*: it is no number, and BY does not name it"),
        ("SELECT a FROM T ERROR WITHIN 1e400", "1e400 is larger than any number"),
        ("SELECT sum(a) AS m FROM T ERROR WITHIN 1", "depends on how many there are"),
    ],
)
def test_what_models_cannot_answer_is_refused_when_it_is_planned(text: str, said: str) -> None:
    session = ed.Session()
    session.stream("S", segments([(1, 0, 9, [0.0, 1.0, 0.0, 0.0])], 3))
    session.stream("T", [{"ts": 1, "a": 1.0, "b": 1, "w": "w"}], timestamp="ts")
    session.relation("R", [{"b": 1}])
    with pytest.raises(ed.CqlError) as caught:
        session.query(text)
    assert re.search(said.replace("(", "\\("), caught.value.message)
    assert "\n" not in caught.value.message


def test_what_models_do_not_have_is_done_in_a_query_over_their_rows() -> None:
    session = ed.Session()
    session.stream("S", segments([("a", 0, 9, [0.0, 1.0]), ("b", 0, 9, [5.0, 0.0]), ("b", 9, 10, [0.0, 0.0])]))
    session.relation("R", [{"k": "a"}])
    session.execute("CREATE VIEW v AS SELECT k, x FROM S WHERE x > 1 SAMPLE EVERY 4")
    query = session.query("SELECT k, x FROM v WHERE k IN (SELECT k FROM R)")
    assert [(r["_time"], r["k"], r["x"]) for r in query.to_arrow().to_pylist()] == [(4, "a", 4.0), (8, "a", 8.0)]


def test_a_column_may_be_called_as_a_clause_begins() -> None:
    session = ed.Session()
    session.stream("L", [{"ts": 5, "error": 1}], timestamp="ts")
    session.stream("Q", [{"ts": 4, "error": 1}], timestamp="ts")
    query = session.query("SELECT Q.ts AS at FROM L ASOF JOIN Q ON Q.ts <= L.ts AND L.error = Q.error WITHIN 3")
    assert [r["at"] for r in query.to_arrow().to_pylist()] == [4]


def test_words_of_clauses_are_names_elsewhere() -> None:
    session = ed.Session()
    session.stream("S", [{"ts": 1, "error": 1, "sample": 2, "horizon": 3, "model": 4}], timestamp="ts")
    query = session.query("SELECT error, sample AS partial, horizon, model FROM S max")
    assert query.to_arrow().to_pylist() == [{"error": 1, "partial": 2, "horizon": 3, "model": 4, "_time": 1}]


def test_segments_are_of_queries_on_models() -> None:
    session = ed.Session()
    session.stream("T", [{"ts": 1, "a": 1.0}], timestamp="ts")
    with pytest.raises(ed.JobError, match="is on tuples"):
        session.query("SELECT a FROM T").segments()
    with pytest.raises(ed.JobError, match="samples its models"):
        session.query("SELECT a FROM T MODEL T.a = T.a SAMPLE EVERY 1").segments()


def test_queries_on_tuples_and_on_models_of_one_stream_do_not_disturb_each_other() -> None:
    rows = [{"ts": t, "a": float(t)} for t in (1, 4, 9)]
    texts = ("SELECT a FROM T MODEL T.a = T.a + t WHERE a > 3", "SELECT Dstream(a) FROM T [RANGE 2]")
    alone = []
    for text in texts:
        session = ed.Session()
        session.stream("T", rows, timestamp="ts")
        alone.append(session.query(text).to_arrow().to_pylist())
    session = ed.Session()
    session.stream("T", rows, timestamp="ts")
    queries = [session.query(text) for text in texts]
    assert [q.to_arrow().to_pylist() for q in queries] == alone
    assert [len(a) for a in alone] == [2, 2]  # time ends for tuples at 9, for segments behind it


def test_a_segment_that_holds_nowhere_cuts_the_one_before_it_in_any_batches() -> None:
    """The second segment ends before it begins, or has no end: the first ends where it begins, also as long as windows
    look back at it."""
    text = "SELECT k, sum(x) AS m FROM S [RANGE 20] GROUP BY k PARTIAL SAMPLE EVERY 10"
    for end in (40, None):
        cut: list[tuple[Any, int, Any, list[float]]] = [(1, 0, 100, [1.0, 0.0]), (1, 50, end, [7.0, 0.0])]
        others = [(2, at, at + 1, [0.0, 0.0]) for at in range(100)]
        table = segments(sorted([*cut, *others], key=lambda r: r[1]))
        found = []
        for size in (1, 3, 1000):
            chunks = pa.Table.from_batches(table.to_batches(max_chunksize=size), table.schema)
            rows = answer(chunks, text).to_pylist()
            found.append({r["_time"]: r["m"] for r in rows if r["k"] == 1 and r["_time"] >= 40})
        assert found == [{40: 20.0, 50: 20.0, 60: 10.0}] * 3


ROWS = [(1, 0, 10, [1.0, 0.0]), (1, 10, 20, [2.0, 0.0]), (1, 20, 30, [3.0, 0.0])]


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("x", pa.array([[1.0, 0.0], [2.0], [3.0, 0.0, 1.0]]), "'x': all segments .* the same number of coefficients"),
        ("x", pa.array(["a", "b", "c"]), "'x' holds string, but coefficients of segments are lists of doubles"),
        ("x", pa.array([["a"], ["b"], ["c"]]), "'x' holds list<.*string>, but coefficients"),
        ("x", pa.array([[1.0, 0.0], None, [3.0, 0.0]]), "'x': a segment without coefficients"),
        ("x", pa.array([[1.0], [2.0], [3.0]]), "'x' needs 2 coefficients"),
        ("_to", pa.array(["10", "20", "30"]), "_from and _to of segments are int64, but _to is string"),
    ],
)
def test_columns_that_hold_no_segments_are_refused(column: str, values: pa.Array, said: str) -> None:
    table = segments(ROWS)
    schema = table.schema
    place = schema.get_field_index(column)
    columns = [values if i == place else table.column(i) for i in range(table.num_columns)]
    damaged = pa.Table.from_arrays(columns, schema=schema.set(place, pa.field(column, values.type)))
    with pytest.raises(ed.JobError, match=said):
        answer(damaged, "SELECT k, x FROM S SAMPLE EVERY 5")


@pytest.mark.parametrize("degree", ["-1", '"two"', "1.5", "null"])
def test_a_degree_that_is_no_number_is_refused(degree: str) -> None:
    table = segments(ROWS)
    said = table.schema.metadata[b"eddyline.segments"].replace(b'"degree": 1', f'"degree": {degree}'.encode())
    assert degree.encode() in said
    with pytest.raises(ed.JobError, match="are not those of a segment table"):
        answer(table.replace_schema_metadata({b"eddyline.segments": said}), "SELECT k, x FROM S SAMPLE EVERY 5")


@pytest.mark.parametrize(("column", "value"), [("key", '"k"'), ("values", "[]"), ("kind", '"moon"')])
def test_metadata_of_no_segments_are_refused(column: str, value: str) -> None:
    said = {**json.loads(segments(ROWS).schema.metadata[b"eddyline.segments"]), column: json.loads(value)}
    if column == "key":
        del said["key"]
    with pytest.raises(ed.JobError, match="are not those of a segment table: fit it again, or remove them"):
        answer(segments(ROWS).replace_schema_metadata({b"eddyline.segments": json.dumps(said)}), "SELECT k, x FROM S")


def test_rows_without_finite_coefficients_are_told() -> None:
    rows = [(1, 0, 10, [1.0, 0.0]), (1, 4, 6, [float("nan"), 0.0]), (2, 4, 9, [1.0, float("inf")])]
    with pytest.warns(ed.InvalidRowsWarning, match=r"^S: a coefficient of 2 rows so far is NULL or not finite\."):
        found = answer(segments(rows), "SELECT k, x FROM S").to_pylist()
    assert [(r["k"], r["_from"], r["_to"]) for r in found] == [(1, 0.0, 4.0)]


def test_lists_of_no_rows_are_an_empty_table() -> None:
    table = segments(ROWS)
    place = table.schema.get_field_index("x")
    lists = table.set_column(place, "x", pa.chunked_array([[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]]))
    lists = lists.replace_schema_metadata(table.schema.metadata)
    text = "SELECT k, x FROM S SAMPLE EVERY 5"
    assert answer(lists, text).equals(answer(table, text))
    assert answer(lists.slice(0, 0), text).num_rows == 0


@pytest.mark.parametrize("function", ["min", "max"])
def test_an_extreme_over_a_window_of_timestamps_has_no_holes(function: str) -> None:
    """Pieces of a sliding extreme cross nearer to where they begin than two instants of this century are apart."""
    rng, start = np.random.default_rng(3), 1_700_000_000_000_000
    for _ in range(3):
        corners = np.cumsum(rng.integers(50_000, 3_000_000, 400))
        heights = rng.uniform(0, 100, 400)
        at = np.arange(corners[0], corners[-1], 10_000)
        x = np.interp(at, corners, heights)
        stamps = pa.array(start + at).cast(pa.timestamp("us"))
        samples = pa.table({"ts": stamps, "k": pa.array(["a"] * len(at)), "x": x})
        segments = ed.fit(samples, key="k", time="ts", value="x", error=0.01, interpolate=True)
        session = ed.Session()
        session.stream("S", segments)
        text = f"SELECT k, {function}(x) AS m FROM S [RANGE 30 SECONDS SLIDE 1 SECOND] GROUP BY k"
        found = session.query(text).to_arrow()
        ends = found["_time"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() - start
        first, last = -(-(start + at[0] + 30_000_000) // 1_000_000), (start + at[-1]) // 1_000_000
        assert (ends + start).tolist() == (np.arange(first, last + 1) * 1_000_000).tolist()
        pick = {"min": np.min, "max": np.max}[function]
        edges = np.sort(np.concatenate([at, ends, ends - 30_000_000]))
        line = np.interp(edges, at, x)
        for t, m in zip(ends.tolist(), found["m"].to_pylist(), strict=True):
            low, high = np.searchsorted(edges, [t - 30_000_000, t + 1])
            assert abs(m - pick(line[low:high])) <= 0.021
