"""FILTER (WHERE …) and subqueries as values: DuckDB's answers, and random cases."""

from __future__ import annotations

import os
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.testing import cases
from eddyline.testing.case_data import draw_scale, draw_stream
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = scaled(25, least=8)
WINDOWS = ("[RANGE 5 SECONDS]", "[ROWS 6]", "", "[RANGE 6 SECONDS SLIDE 2 SECONDS]", "[PARTITION BY b ROWS 2]")
AGGREGATES = ("count(*)", "sum(b)", "max(x)", "min(s)", "avg(b)", "count(DISTINCT s)", "sum(DISTINCT b)", "stddev(b)")
CONDITIONS = ("x > 0", "b = 2 OR s = 'u'", "s IS NULL", "b > 10", "CAST(NULL AS BOOLEAN)", "b <> 0 AND 12 / b > 3")


def last_rows(text: str, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The relation at the end of time."""
    session = ed.Session()
    session.stream("S", rows, timestamp="ts")
    held: list[tuple[Any, ...]] = []
    for row in session.query(text).to_arrow().to_pylist():
        sign, _ = row.pop("_sign", 1), row.pop("_time")
        values = tuple(row.values())
        held.append(values) if sign > 0 else held.remove(values)
    return sorted(held, key=repr)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, count(*) FILTER (WHERE b > 3) AS n, sum(b) FILTER (WHERE s = 'u') AS m FROM S GROUP BY a",
        "SELECT min(s) FILTER (WHERE b > 100) AS n, count(DISTINCT s) FILTER (WHERE b > 3) AS m FROM S",
        "SELECT a FROM S GROUP BY a HAVING sum(b) FILTER (WHERE s <> 'u') > 20",
        "SELECT a, max(b) AS m FROM S GROUP BY a HAVING max(b) >= (SELECT avg(b) + 4 FROM S)",
        "SELECT a, b FROM S WHERE b = (SELECT max(b) FROM S WHERE s = 'v')",
        "SELECT DISTINCT a, (SELECT count(*) FROM S) AS n FROM S",
    ],
)
def test_the_last_relation_is_duckdbs(text: str) -> None:
    rng = random.Random(text)
    rows = [
        {"ts": t, "a": rng.randint(0, 3), "b": rng.choice([None, *range(9)]), "s": rng.choice(["u", "v", None])}
        for t in range(60)
    ]
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("S", pa.Table.from_pylist(rows))
        theirs = sorted(connection.execute(text).fetchall(), key=repr)
    # A windowless stream beside a value that changes would be judged element by element.
    assert last_rows(text.replace("FROM S", "FROM S [ROWS UNBOUNDED]"), rows) == theirs


def draw(rng: random.Random) -> cases.Case:
    scale = draw_scale(rng)
    window = rng.choice(WINDOWS)
    if rng.random() < 0.5:
        calls = [f"{rng.choice(AGGREGATES)} FILTER (WHERE {rng.choice(CONDITIONS)}) AS c{i}" for i in range(3)]
        text = f"SELECT a, {', '.join(calls)} FROM S {window} GROUP BY a"
        return cases.Case(text, {"S": draw_stream(rng, 40, 30, scale)}, {}, scale=scale)
    value = f"(SELECT {rng.choice(['max', 'avg', 'count', 'sum'])}(b) FROM T {rng.choice(WINDOWS)})"
    text = rng.choice(
        [
            f"SELECT a, b FROM S {window} WHERE b >= {value}",
            f"SELECT a, {value} AS v FROM S {window} WHERE x > 0",
            f"SELECT a, count(*) AS n, {value} AS v FROM S {window} GROUP BY a HAVING count(*) < {value} + 2",
        ]
    )
    streams = {n: draw_stream(rng, 20, 30, scale) for n in "ST"}
    return cases.Case(text, streams, {}, scale=scale)


@pytest.mark.parametrize("part", range(4))
def test_answers_are_those_of_the_reference(part: int) -> None:
    full = 0
    for i in range(part * CASES // 4, (part + 1) * CASES // 4):
        rng = random.Random(f"filtered/{SEED}/{i}")
        case = draw(rng)
        expected = case.expected()
        full += bool(expected)
        seed = rng.randrange(1 << 30)
        for way in (Way(seed), Way(seed, small=True, snapshot=True)):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    assert full >= 1
