"""EXISTS and NOT EXISTS with one comparison: against the reference, every operator, NULLs, NaN and deletions."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import JobError
from eddyline.cql import bind
from eddyline.operators.bound_match import BoundMatch
from eddyline.testing.case_data import draw_relation, draw_scale, draw_stream
from eddyline.testing.cases import Case
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine, start

WINDOWS = (
    "[RANGE 5 SECONDS]",
    "[ROWS 4]",
    "[ROWS UNBOUNDED]",
    "[RANGE 4 SECONDS SLIDE 2 SECONDS]",
    "[NOW]",
    "[PARTITION BY a ROWS 2]",
)
RIGHTS = (
    *(f"T {w} t" for w in WINDOWS),
    "(SELECT k AS a, v AS b, CAST(v AS DOUBLE) / 2 AS x, w AS s FROM K) t",
    "(SELECT k AS a, v AS b, CAST(v AS DOUBLE) / 2 AS x, w AS s FROM Q) t",
    "(SELECT a, max(b) AS b, max(x) AS x, s FROM T [ROWS 6] GROUP BY a, s) t",
)
EQUAL = ("", "t.a = S.a AND ", "t.a = S.a AND t.s = S.s AND ", "t.s = S.s AND ", "t.b = S.a AND ")
COMPARED = ("t.b {} S.b", "S.b {} t.b", "t.x {} S.x", "S.x {} t.x", "t.x {} S.x * 2.0E0", "t.a {} S.b")
OPERATORS = ("<", "<=", ">", ">=", "<>")
CASES = scaled(20, least=10)  # of each of eight parts


def text(rng: random.Random) -> str:
    condition = rng.choice(EQUAL) + rng.choice(COMPARED).format(rng.choice(OPERATORS))
    test = f"EXISTS (SELECT * FROM {rng.choice(RIGHTS)} WHERE {condition})"
    where = rng.choice(
        [test, f"NOT {test}", f"NOT {test}", f"({test} OR S.b = 2)", f"(NOT {test} AND S.a > 0 OR S.b = 1)"]
    )
    source = f"FROM S {rng.choice(WINDOWS)}"
    if rng.random() < 0.2:
        source = "FROM (SELECT k AS a, v AS b, CAST(v AS DOUBLE) AS x, w AS s FROM K) S"
    if rng.random() < 0.4:
        return f"SELECT S.a, count(*) AS n, sum(S.b) AS m {source} WHERE {where} GROUP BY S.a"
    to_stream = rng.choice(["", "", "Istream", "Dstream", "Rstream"])
    columns = rng.choice(["S.a, S.b", "S.a", "S.b, S.x, S.s"])
    return f"SELECT {f'{to_stream}({columns})' if to_stream else columns} {source} WHERE {where}"


def draw(rng: random.Random, count: int = 18) -> Case:
    while True:
        scale, query = draw_scale(rng), text(rng)
        streams = {n: draw_stream(rng, count, count + 6, scale) for n in "ST" if f"FROM {n} " in query}
        relations = {n: draw_relation(rng, n, 20, scale) for n in "KQ" if f"FROM {n}" in query}
        case = Case(query, streams, relations, scale=scale)
        try:
            bind(query, case.catalog())
        except JobError:
            continue
        return case


def bounded(case: Case) -> bool:
    _, query = start(case, Way())
    return any(isinstance(n.operator, BoundMatch) for n in query.running.physical.nodes)


@pytest.mark.parametrize("part", range(8))
def test_answers_are_those_of_the_reference(part: int) -> None:
    rows = used = 0
    for i in range(CASES):
        rng = random.Random(f"bounds/{part}/{i}")
        case = draw(rng)
        expected = case.expected()
        rows, used = rows + bool(expected), used + bounded(case)
        seed = rng.randrange(1 << 30)
        other = rng.choice([Way(seed, batch=1), Way(seed, batch=1000, interleave=False), Way(seed, encoded=True)])
        for way in (Way(seed), other, Way(seed, small=True, snapshot=True)):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    assert rows > 0.4 * CASES and used > 0.6 * CASES


def test_long_runs_with_hot_keys() -> None:
    """Some hundred elements on few keys, an aggregate on top: a change that is lost stays visible."""
    for i in range(12):
        rng = random.Random(f"bounds/long/{i}")
        case = draw(rng, 150)
        expected = case.expected()
        for way in (Way(i), Way(i, small=True, snapshot=True)):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"


def test_a_hot_key_costs_its_changes_and_not_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The join of pairs is never asked."""
    from eddyline.operators import mjoin

    def refuse(*_: Any) -> None:
        raise AssertionError("pairs were looked for")

    monkeypatch.setattr(mjoin.MJoin, "process", refuse)
    count, rng = 20_000, np.random.default_rng(3)
    x = rng.permutation(count)
    session = ed.Session()
    session.stream("S", pa.table({"ts": np.arange(count), "k": np.ones(count, np.int64), "x": x}), timestamp="ts")
    query = session.query(
        "SELECT ts FROM S [ROWS UNBOUNDED] a "
        "WHERE NOT EXISTS (SELECT * FROM S [ROWS UNBOUNDED] b WHERE b.k = a.k AND b.x < a.x)"
    )
    out = query.to_arrow()
    records = np.flatnonzero(np.minimum.accumulate(x) == x)
    assert out.num_rows == 2 * len(records) - 1
    assert sorted(out.filter(pa.compute.equal(out["_sign"], 1))["ts"].to_pylist()) == records.tolist()
    assert "the least and the greatest b.x for each key" in query.explain()
    assert query.report()["state"]["peak_rows"] <= count + 1
