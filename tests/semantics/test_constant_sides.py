"""A stream against constant relations: exact against the reference, and nothing of the stream is kept."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import JobError
from eddyline.cql import bind
from eddyline.testing.case_data import draw_relation, draw_scale, draw_stream
from eddyline.testing.cases import Case
from tests.scale import scaled
from tests.semantics.engine import JOINS, check_three_ways

WINDOWS = ("", "", "[ROWS UNBOUNDED]", "[RANGE 4 SECONDS]", "[RANGE 3 SECONDS SLIDE 2 SECONDS]", "[ROWS 3]", "[NOW]")
PIECES = ("m.k = S.a", "m.k = S.a", "m.v < S.b", "m.w = S.s", "m.v = S.a + 1", "m.v <> S.b AND m.k = S.a")


def source(rng: random.Random, window: str) -> str:
    """The stream side: the stream itself, filtered, projected, or after another look-up."""
    return rng.choice(
        [
            f"S {window}",
            f"S {window}",
            f"(SELECT * FROM S {window} WHERE b > 1) S",
            f"(SELECT ts, a, b, a + b AS c, s FROM S {window}) S",
            f"(SELECT DISTINCT a, b, s FROM S {window}) S",
            f"(SELECT * FROM S {window} WHERE a IN (SELECT k FROM K)) S",
            f"(SELECT a, max(b) AS b, max(s) AS s FROM S {window} GROUP BY a) S",
        ]
    )


def text(rng: random.Random) -> str:
    """Inner and outer joins, chains of relations, memberships with conditions; with and without an aggregate above."""
    window = rng.choice(WINDOWS)
    stream, on = source(rng, window), rng.choice(PIECES)
    constant = rng.choice(
        ["K", "(SELECT k, max(v) AS v, max(w) AS w FROM K GROUP BY k)", "(SELECT * FROM K WHERE v > 0)"]
    )
    kind = rng.choice(["INNER", "INNER", "LEFT", "RIGHT", "FULL", "EXISTS", "NOT EXISTS", "MARK"])
    where = ""
    if kind in ("EXISTS", "NOT EXISTS", "MARK"):
        test = f"EXISTS (SELECT * FROM {constant} m WHERE {on})"
        where = {"MARK": f"({test} OR S.b = 2)"}.get(kind, f"NOT {test}" if kind == "NOT EXISTS" else test)
        joined, columns = stream, "S.a, S.b"
    elif rng.random() < 0.5:
        joined, columns = f"{stream} {kind} JOIN {constant} m ON {on}", "S.a, S.b, m.v"
    else:
        joined, columns = f"{constant} m {kind} JOIN {stream} ON {on}", "S.a, S.b, m.v"
    if "m" in columns and rng.random() < 0.4:
        joined, columns = f"{joined} JOIN K n ON n.k = {rng.choice(['S.b', 'm.v', 'm.k'])}", f"{columns}, n.w"
    if rng.random() < 0.3:
        where = f"{where} AND S.a + S.b > 2" if where else "S.a + S.b > 2"
    tail = f" WHERE {where}" if where else ""
    if rng.random() < 0.4:
        return f"SELECT S.a, count(*) AS n, sum(S.b) AS x FROM {joined}{tail} GROUP BY S.a"
    to_stream = rng.choice(["", "", "Istream", "Dstream", "Rstream"])
    listed = f"{to_stream}({columns})" if to_stream else columns
    return f"SELECT {listed} FROM {joined}{tail}"


def draw(rng: random.Random) -> Case:
    while True:
        scale = draw_scale(rng)
        query = text(rng)
        case = Case(
            query, {"S": draw_stream(rng, 24, 30, scale)}, {"K": draw_relation(rng, "K", 30, scale)}, scale=scale
        )
        try:
            bind(query, case.catalog())
        except JobError:
            continue
        return case


@pytest.mark.parametrize("part", range(6))
def test_answers_are_those_of_the_reference(part: int) -> None:
    rows, cases = 0, scaled(16, least=10)
    for i in range(cases):
        rng = random.Random(f"constant/{part}/{i}")
        case = draw(rng)
        expected = case.expected()
        rows += bool(expected)
        check_three_ways(case, expected, rng, JOINS)
    assert rows > 0.35 * cases


KEEPS_NOTHING = (
    "SELECT S.a, b, w FROM S, K WHERE S.a = K.k",
    "SELECT S.a, b, w FROM K, S WHERE S.a = K.k AND b + v > 2",
    "SELECT S.a, b, m.w, n.v FROM S, K m, K n WHERE S.a = m.k AND m.v = n.k",
    "SELECT w, count(*) AS n FROM S, K WHERE S.a = K.k GROUP BY w",
    "SELECT Istream(ts, S.a, w) FROM S [RANGE 100000], K WHERE S.a = K.k",
    "SELECT Istream(ts, S.a, w) FROM S [RANGE 100000 SLIDE 2], K WHERE S.a = K.k",
    "SELECT S.a, w FROM (SELECT a + 1 AS a FROM S WHERE b > 1) S, K WHERE S.a = K.k",
    "SELECT S.a, b, w FROM S LEFT JOIN K ON S.a = K.k",
    "SELECT S.a, b, w FROM S LEFT JOIN K ON S.a = K.k AND K.v < S.b",
    "SELECT S.a, b, w FROM K RIGHT JOIN S ON S.a = K.k",
    "SELECT S.a, b, w FROM K LEFT JOIN S ON S.a = K.k AND K.v < S.b",
    "SELECT S.a, b, w FROM S FULL JOIN K ON S.a = K.k AND K.v < S.b",
    "SELECT a, b FROM S WHERE NOT EXISTS (SELECT * FROM K WHERE k = S.a AND v < S.b)",
    "SELECT a, b FROM S WHERE EXISTS (SELECT * FROM K WHERE k = S.a AND v + 1 < S.b + k) OR b = 2",
    "SELECT a, b FROM S WHERE (a, b) NOT IN (SELECT k, v FROM K)",
)


@pytest.mark.parametrize("query", KEEPS_NOTHING)
def test_nothing_of_the_stream_is_kept(query: str) -> None:
    count, rng = 6000, np.random.default_rng(1)
    session = ed.Session()
    elements = {"ts": np.arange(count) // 3, "a": rng.integers(0, 40, count), "b": rng.integers(0, 5, count)}
    session.stream("S", pa.table(elements), timestamp="ts")
    session.relation("K", pa.table({"k": np.arange(40), "v": np.arange(40) % 5, "w": [f"n{i}" for i in range(40)]}))
    q = session.query(query)
    assert q.to_arrow().num_rows > 0
    state: dict[str, Any] = q.report()["state"]
    assert state["peak_rows"] < 400, state


def test_explain_says_what_is_kept_and_why() -> None:
    session = ed.Session()
    session.stream("S", schema=pa.schema([("ts", pa.int64()), ("a", pa.int64())]), timestamp="ts")
    session.relation("K", pa.table({"k": [1], "w": ["x"]}))
    told = session.query("SELECT S.a, w FROM S, K WHERE S.a = K.k").explain()
    assert "nothing of S [ROWS UNBOUNDED] beyond the present instant" in told
    assert "K (all of it)" in told
