"""WITH queries and views that are read several times: exact against the reference, and computed once."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import CqlError
from eddyline.core.schema import Schema
from eddyline.expr.nodes import Literal
from eddyline.plan.logical import Project, RelationScan, SetOperation
from eddyline.plan.numbering import Numbering
from eddyline.testing.case_data import draw_relation, draw_scale, draw_stream
from eddyline.testing.cases import Case
from tests.plan.sharded import planned, run_sharded
from tests.scale import scaled
from tests.semantics.engine import JOINS, Way, check_three_ways, mismatch, run_engine, start

WINDOWS = ("[RANGE 5 SECONDS]", "[ROWS 4]", "[ROWS UNBOUNDED]", "[RANGE 4 SECONDS SLIDE 2 SECONDS]", "[NOW]", "")


def body(rng: random.Random) -> str:
    """A query with the columns a and b (integers) that costs something."""
    window, other = rng.choice(WINDOWS), rng.choice(WINDOWS[:3])
    return rng.choice(
        [
            f"SELECT a, count(*) AS b FROM S {window} GROUP BY a",
            f"SELECT a, max(b) AS b FROM S {window} WHERE b > 0 GROUP BY a HAVING count(*) > 1",
            f"SELECT DISTINCT a, b FROM S {window}",
            f"SELECT S.a, T.b FROM S {other}, T {other} WHERE S.a = T.a",
            f"SELECT S.a, k.v AS b FROM S {window} LEFT JOIN K k ON S.a = k.k",
            f"SELECT a, b FROM S {window} WHERE b IN (SELECT b FROM T {other})",
            f"SELECT a, b FROM S {other} UNION SELECT a, b FROM T {other}",
            f"SELECT Istream(a, sum(b) AS b) FROM S {other} GROUP BY a",
            f"SELECT a, b FROM S {window} WHERE s LIKE '%u%'",
        ]
    )


READERS = (
    "SELECT p.a, p.b, q.b AS c FROM x p, x q WHERE p.a = q.a",
    "SELECT p.a, q.b FROM x p, x q WHERE p.a = q.a AND p.b > 1 AND q.b < 3",
    "SELECT p.b, r.a FROM x p, x q, x r WHERE p.a = q.a AND q.b = r.b",
    "SELECT a FROM x UNION ALL SELECT b FROM x WHERE a = 1",
    "SELECT a FROM x EXCEPT SELECT b FROM x",
    "SELECT a, b FROM x WHERE a IN (SELECT b FROM x)",
    "SELECT a, b FROM x WHERE NOT EXISTS (SELECT * FROM x y WHERE y.a = x.a AND y.b > x.b)",
    "SELECT p.a, q.b FROM x p LEFT JOIN x q ON p.a = q.b",
    "SELECT p.a, n FROM x p, (SELECT a, count(*) AS n FROM x GROUP BY a) y WHERE p.a = y.a",
    "SELECT p.a, q.b FROM x [RANGE 3 SECONDS] p, x [ROWS 2] q WHERE p.a = q.a",
    "SELECT p.b, q.m FROM x p, y q WHERE p.a = q.a",
)


def draw(rng: random.Random) -> Case:
    """A case that the language allows: of the drawn ones it forbids windowless streams that are joined, no others."""
    while True:
        scale, reader = draw_scale(rng), rng.choice(READERS)
        second = (
            ", y AS (SELECT x.a, max(z.b) AS m FROM x, x z WHERE x.a = z.a GROUP BY x.a)" if "y q" in reader else ""
        )
        to_stream = rng.choice(["", "", "Istream", "Dstream", "Rstream"])
        query = f"WITH x AS ({body(rng)}){second} " + (f"{to_stream}({reader})" if to_stream else reader)
        streams = {n: draw_stream(rng, 14, 20, scale) for n in "ST"}
        read = {n: d for n, d in streams.items() if f"FROM {n}" in query or f", {n}" in query}
        case = Case(query, read, {"K": draw_relation(rng, "K", 20, scale)}, scale=scale)
        try:
            case.bound()
        except CqlError as e:
            assert "are joined without windows" in e.message, e
            continue
        return case


@pytest.mark.parametrize("part", range(6))
def test_answers_are_those_of_the_reference(part: int) -> None:
    rows, cases = 0, scaled(12, least=8)
    for i in range(cases):
        rng = random.Random(f"shared/{part}/{i}")
        case = draw(rng)
        expected = case.expected()
        rows += bool(expected)
        seed = check_three_ways(case, expected, rng, JOINS)
        answer = run_sharded(case, planned(case, rng.choice([1, 4, 8])), rng.choice([1, 3]), seed)
        assert mismatch(case, expected, answer) is None, case.snippet()
    assert rows > 0.3 * cases


def test_the_column_list_of_with_swaps_columns() -> None:
    session = ed.Session()
    session.stream("S", pa.table({"ts": [1, 2, 3], "k": [10, 20, 30], "x": [1, 2, 3]}), timestamp="ts")
    query = session.query("WITH y(k, x) AS (SELECT x, k FROM S) SELECT k, y.x AS z FROM y WHERE x > 10")
    assert query.to_arrow().select(["k", "z"]).to_pylist() == [{"k": 2, "z": 20}, {"k": 3, "z": 30}]


def kinds(query: Any) -> Counter[str]:
    """How many operators of each kind a query has."""
    names = [n.operator.name for n in query.running.physical.nodes if n.operator is not None]
    return Counter(name.rpartition(" ")[0] for name in names)


def case_of(text: str, **more: Any) -> Case:
    rng = random.Random(5)
    scale = draw_scale(random.Random(1))
    return Case(text, {n: draw_stream(rng, 30, 40, scale) for n in "ST"}, {}, scale=scale, **more)


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("WITH x AS (SELECT a, count(*) AS b FROM S [RANGE 5] GROUP BY a) " + READERS[1], ("aggregate", "seq-window")),
        ("WITH x AS (SELECT a, count(*) AS b FROM S [RANGE 5] GROUP BY a) " + READERS[2], ("aggregate", "seq-window")),
        ("WITH x AS (SELECT S.a, T.b FROM S [ROWS 3], T [ROWS 3] WHERE S.a = T.a) " + READERS[3], ("binary-join",)),
        ("WITH x AS (SELECT DISTINCT a, b FROM S [ROWS 3]) " + READERS[9], ("duplicate-eliminate",)),
        (
            "WITH y AS (SELECT a, count(*) AS b FROM S [ROWS 3] GROUP BY a), x AS (SELECT DISTINCT a, b FROM y) "
            "SELECT p.a FROM x p, x q, y WHERE p.a = q.a AND q.b = y.b",
            ("aggregate", "duplicate-eliminate", "seq-window"),
        ),
    ],
)
def test_what_is_read_several_times_runs_once(text: str, once: tuple[str, ...]) -> None:
    case = case_of(text)
    _, query = start(case, Way())
    found = kinds(query)
    assert {k: found[k] for k in once} == dict.fromkeys(once, 1)
    assert "(as above: computed once)" in query.explain()


def test_a_view_that_is_read_twice_runs_once() -> None:
    view = "SELECT a, count(*) AS b FROM S [RANGE 5] GROUP BY a"
    case = case_of(READERS[0], views={"x": view})
    _, query = start(case, Way())
    assert kinds(query)["aggregate"] == 1
    assert mismatch(case, case.expected(), run_engine(case)) is None


def test_it_runs_once_in_every_shard() -> None:
    case = case_of("WITH x AS (SELECT a, count(*) AS b FROM S [RANGE 5] GROUP BY a) " + READERS[1])
    from eddyline.spark.shard import ShardEngine

    group = planned(case, 8)
    assert group.shards > 1
    assert kinds(ShardEngine(group, 0).queries[0])["aggregate"] == 1


def test_functions_of_a_named_query_are_asked_once_for_a_row() -> None:
    asked: list[int] = []

    def counted(a: int) -> int:
        asked.append(a)
        return a + 1

    session = ed.Session()
    session.stream("S", pa.table({"ts": range(40), "a": range(40)}), timestamp="ts")
    session.function("counted", counted, returns="bigint", arguments=["bigint"])
    query = session.query(
        "WITH x AS (SELECT a, counted(a) AS c FROM S [RANGE 3]) "
        "SELECT p.c, q.c AS d FROM x p, x q, x r WHERE p.a = q.a AND q.a = r.a AND p.c > 3"
    )
    assert query.to_arrow().num_rows > 0
    assert sorted(asked) == list(range(40))


def test_zeros_of_different_signs_are_different_constants() -> None:
    scan = RelationScan("K", "K", Schema(()), (), constant=True)
    plus, minus = (Project(scan, (("x", Literal(zero, pa.float64())),)) for zero in (0.0, -0.0))
    numbers = Numbering(SetOperation("union", True, plus, minus))
    assert plus == minus
    assert numbers.of(plus) != numbers.of(minus)
    assert numbers.shared(scan) and not numbers.shared(plus)
