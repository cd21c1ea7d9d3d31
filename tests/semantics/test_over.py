"""OVER (…) along the time of a stream: random cases with disorder and restarts, DuckDB's answers, what is kept."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import CqlError
from eddyline.operators import over
from eddyline.testing.case_queries import TO_STREAM, Focus
from eddyline.testing.case_windows import WINDOWS
from eddyline.testing.cases import draw_case
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = scaled(100, least=10)
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())])


@pytest.mark.parametrize("part", range(4))
def test_answers_are_those_of_the_reference(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over, "ROWS_BEFORE_COMPACTION", 1)
    full = asked = 0
    for i in range(part * CASES // 4, (part + 1) * CASES // 4):
        rng = random.Random(f"over/{SEED}/{i}")
        case = draw_case(rng, Focus("over", rng.choice(WINDOWS), rng.choice(TO_STREAM)))
        asked += "OVER" in case.text
        expected = case.expected()
        full += bool(expected)
        seed = rng.randrange(1 << 30)
        encoded = rng.random() < 0.3
        for way in (Way(seed, small=True), Way(seed, snapshot=True, encoded=encoded, heartbeats=rng.random() < 0.5)):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    assert asked == (part + 1) * CASES // 4 - part * CASES // 4
    assert full >= asked // 3


def elements(count: int, rng: random.Random) -> list[dict[str, Any]]:
    """Times are all different: rows of one instant are in no order for DuckDB."""
    keys = ["a", "b", "c", None]
    values = [None, 0.1, 0.2, -1e100, 1e100, 2.5]
    return [
        {"ts": t, "k": rng.choice(keys), "v": rng.choice([None, *range(9)]), "x": rng.choice(values)}
        for t in range(count)
    ]


VALUES = (
    "lag(v) OVER w",
    "lag(v, 3, -7) OVER w",
    "lead(v, 2) OVER w",
    "first_value(v) OVER (w ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)",
    "last_value(v) OVER (w ROWS BETWEEN 4 PRECEDING AND 1 PRECEDING)",
    "sum(v) OVER (w ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)",
    "avg(v) OVER (w ROWS BETWEEN 9 PRECEDING AND 2 FOLLOWING)",
    "min(x) OVER (w ROWS BETWEEN 5 PRECEDING AND CURRENT ROW)",
    "max(k) OVER (w ROWS BETWEEN 5 PRECEDING AND 5 FOLLOWING)",
    "count(v) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "count(*) OVER (w ROWS BETWEEN 3 FOLLOWING AND 5 FOLLOWING)",
    "sum(v) FILTER (WHERE v > 3) OVER (w ROWS 6 PRECEDING)",
)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("partition", ["PARTITION BY k ", ""])
def test_the_values_are_duckdbs(value: str, partition: str) -> None:
    """Elements that wait for later rows at the end of input come with NULLs from DuckDB, and not from a stream."""
    rows = elements(3000, random.Random(value))
    text = value.replace("OVER w", "OVER (w)").replace("(w", f"({partition}ORDER BY ts")
    session = ed.Session()
    session.stream("s", pa.Table.from_pylist(rows, SCHEMA), timestamp="ts")
    found = session.query(f"SELECT ts, k, {text} AS y FROM s WHERE v IS NULL OR v <> 5").to_arrow().to_pylist()
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("s", pa.Table.from_pylist(rows, SCHEMA))
        theirs = connection.execute(f"SELECT ts, k, {text} AS y FROM s WHERE v IS NULL OR v <> 5").fetchall()
    ahead = {"lead": 2, "2 FOLL": 2, "5 FOLL": 5}
    waits = max((n for word, n in ahead.items() if word in text), default=0)
    last: Counter[Any] = Counter()
    expected = []
    for ts, k, y in sorted(theirs, reverse=True):
        last[k if partition else 0] += 1
        if last[k if partition else 0] > waits:
            expected.append((ts, k, y))
    assert Counter((r["ts"], r["k"], r["y"]) for r in found) == Counter(expected)
    assert len(found) > 2500
    if not waits:
        assert all(r["_time"] == r["ts"] for r in found)


def test_sums_of_doubles_are_exact() -> None:
    rows = elements(2000, random.Random(1))
    session = ed.Session()
    session.stream("s", pa.Table.from_pylist(rows, SCHEMA), timestamp="ts")
    text = "SELECT ts, sum(x) OVER (ORDER BY ts ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS y FROM s"
    found = [r["y"] for r in session.query(text).to_arrow().to_pylist()]
    given = [r["x"] for r in rows]
    for i, y in enumerate(found):
        values = [x for x in given[max(0, i - 6) : i + 1] if x is not None]
        assert y == (math.fsum(values) if values else None)


def test_as_many_rows_are_kept_as_the_frame_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over, "ROWS_BEFORE_COMPACTION", 16)
    session = ed.Session()
    session.stream("s", schema=SCHEMA, timestamp="ts")
    texts = {
        1: "SELECT v - LAG(v) OVER (PARTITION BY k ORDER BY ts) AS d FROM s",
        5: "SELECT sum(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS d FROM s",
        0: "SELECT sum(v) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS d FROM s",
        3: "SELECT LEAD(v, 3) OVER (PARTITION BY k ORDER BY ts) AS d FROM s",
    }
    queries = {n: session.query(text) for n, text in texts.items()}
    for t in range(3000):
        session.push("s", pa.RecordBatch.from_pylist([{"ts": t, "k": "abcd"[t % 4], "v": 1, "x": 0.0}], SCHEMA))
    for n, query in queries.items():
        (operator,) = [o for o in query.report()["operators"] if o["name"].startswith("over")]
        assert operator["rows"] == 4 * n, texts[n]
        assert operator["bytes"] < 100_000
    assert "the last 5 rows of each partition" in queries[5].explain()
    assert "of which 3 wait for later rows" in queries[3].explain()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT sum(v) OVER (PARTITION BY k ORDER BY ts) FROM s", "ROWS BETWEEN 9 PRECEDING AND CURRENT ROW"),
        ("SELECT LAG(v) OVER (PARTITION BY k ORDER BY v) FROM s", "write ORDER BY ts"),
        ("SELECT LAG(v) OVER (PARTITION BY k ORDER BY ts DESC) FROM s", "is LEAD"),
        ("SELECT LAG(v) OVER (ORDER BY ts) FROM s [ROWS 3]", "a window on the result"),
        ("SELECT k, count(*), LAG(k) OVER (ORDER BY ts) FROM s GROUP BY k", "in a SELECT of their own"),
        ("SELECT LAG(v) OVER (ORDER BY ts), LAG(v) OVER (PARTITION BY k ORDER BY ts) FROM s", "the same PARTITION BY"),
        ("SELECT sum(v) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 3 PRECEDING) FROM s", "ends before it begins"),
        ("SELECT sum(v) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING) FROM s", "never complete"),
        ("SELECT LAG(v, k) OVER (ORDER BY ts) FROM s", "by a whole number"),
        ("SELECT LAG(v, 1, k) OVER (ORDER BY ts) FROM s", "text"),
        ("SELECT NTILE(4) OVER (ORDER BY ts) FROM s", "ROW_NUMBER() OVER (ORDER BY ts) AS place"),
    ],
)
def test_what_is_refused_has_a_remedy(text: str, told: str) -> None:
    session = ed.Session()
    session.stream("s", schema=SCHEMA, timestamp="ts")
    with pytest.raises(CqlError, match=told.replace("(", r"\(").replace(")", r"\)")):
        session.query(text)


def test_the_remedy_for_a_frame_of_time_is_its_answer() -> None:
    """SQL's frame of time has the rows of one instant together, and so has the window."""
    rows = [*elements(400, random.Random(2)), *elements(400, random.Random(3))]
    rows.sort(key=lambda r: r["ts"])
    frame = "RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW"
    session = ed.Session()
    session.stream("s", pa.Table.from_pylist(rows, SCHEMA), timestamp="ts")
    with pytest.raises(CqlError) as refused:
        session.query(f"SELECT sum(v) OVER (PARTITION BY k ORDER BY ts {frame}) FROM s")
    remedy = str(refused.value).split("is read: ")[1].split("\n")[0].rstrip(".")
    found = Counter((r["ts"], r["k"], r["w_v"]) for r in session.query(remedy).to_arrow().to_pylist())
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("s", pa.Table.from_pylist(rows, SCHEMA))
        text = "SELECT ts, k, sum(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN 10 PRECEDING AND CURRENT ROW)"
        theirs = Counter(connection.execute(f"{text} FROM s QUALIFY k IS NOT NULL").fetchall())
    assert len(found) > 100
    assert found == theirs
