"""Joins of one stream with several constant relations, routed by content: exact against the reference, inline and on
shards."""

from __future__ import annotations

import random
from typing import Any

import pytest

from eddyline.core.errors import JobError
from eddyline.cql import bind
from eddyline.operators.star_look_up import StarLookUp
from eddyline.testing.case_data import draw_scale, draw_stream
from eddyline.testing.cases import Case
from eddyline.testing.reference import RelationData
from tests.scale import scaled
from tests.semantics.engine import ROUTES, Way, mismatch, run_engine, start
from tests.shards import shards

WINDOWS = ("", "[ROWS UNBOUNDED]", "[RANGE 4 SECONDS]", "[RANGE 3 SECONDS SLIDE 2 SECONDS]", "[ROWS 3]", "[NOW]")
SOURCES = (
    "S {}",
    "S {}",
    "S {}",
    "(SELECT * FROM S {} WHERE b > 1) S",
    "(SELECT ts, a, b, a + b AS c, s FROM S {}) S",
    "(SELECT DISTINCT a, b, s FROM S {}) S",
    "(SELECT a, max(b) AS b, max(s) AS s FROM S {} GROUP BY a) S",
)
RELATIONS = (
    "K",
    "K",
    "(SELECT * FROM K WHERE v > 0)",
    "(SELECT k, max(v) AS v, max(w) AS w FROM K GROUP BY k)",
    "(SELECT * FROM K UNION ALL SELECT * FROM K)",
    "(SELECT max(k) AS k, min(v) AS v, max(w) AS w FROM K)",
)
KEYS = (
    "{}.k = S.a",
    "{}.k = S.a",
    "{}.v = S.b",
    "{}.w = S.s",
    "{0}.k = S.a AND {0}.v = S.b",
    "upper({}.w) = upper(S.s)",
)
MORE = ("m.v < n.v", "m.v + n.k > S.b", "S.b <> m.v", "m.k = S.b", "S.a + S.b > 2", "m.v IS NOT NULL")


def text(rng: random.Random) -> str:
    """Two or three relations, keys of one or two columns, other conditions; with and without an aggregate above."""
    names = "mno"[: rng.choice([2, 2, 3])]
    inputs = [f"{rng.choice(RELATIONS)} {name}" for name in names]
    inputs.insert(rng.randint(0, len(inputs)), rng.choice(SOURCES).format(rng.choice(WINDOWS)))
    conditions = [rng.choice(KEYS).format(name) for name in names]
    if rng.random() < 0.2:  # the same key, said of another relation
        conditions[:2] = ["m.k = S.a", "n.k = m.k"]
    conditions += rng.sample(MORE, rng.choice([0, 0, 1, 2]))
    joined = f"{', '.join(inputs)} WHERE {' AND '.join(conditions)}"
    if rng.random() < 0.35:
        key = rng.choice(["S.a", "m.w"])
        return f"SELECT {key}, count(*) AS n, sum(S.b) AS x, max(n.v) AS y FROM {joined} GROUP BY {key}"
    to_stream = rng.choice(["", "", "Istream", "Dstream", "Rstream"])
    columns = rng.choice(["S.a, S.b, m.v, n.w", "S.b, m.w, n.v, n.k", "n.k, n.v", "S.a, S.s"])
    return f"SELECT {to_stream}({columns}) FROM {joined}" if to_stream else f"SELECT {columns} FROM {joined}"


def relation(rng: random.Random) -> RelationData:
    return RelationData(
        tuple(
            {
                "k": rng.choice([0, 1, 2, 3, 4, None]),
                "v": rng.choice([0, 1, 2, 3, 4, None]),
                "w": rng.choice(["u", "v", "w", "x", "y", None]),
            }
            for _ in range(rng.choice([0, 4, 9, 14, 14]))
        )
    )


def draw(rng: random.Random) -> Case:
    while True:
        scale, query = draw_scale(rng), text(rng)
        case = Case(query, {"S": draw_stream(rng, 24, 30, scale)}, {"K": relation(rng)}, scale=scale)
        try:
            bind(query, case.catalog())
        except JobError:
            continue
        return case


def routed(case: Case, options: dict[str, Any]) -> bool:
    _, query = start(case, Way(0, options=options))
    return any(isinstance(n.operator, StarLookUp) for n in query.running.physical.nodes)


@pytest.mark.parametrize("part", range(6))
def test_answers_are_those_of_the_reference(part: int) -> None:
    cases = scaled(16, least=10)
    rows = stars = 0
    for i in range(cases):
        rng = random.Random(f"star/{part}/{i}")
        case, options = draw(rng), {"routing": rng.choice(ROUTES)}
        expected = case.expected()
        rows += bool(expected)
        stars += routed(case, options)
        seed = rng.randrange(1 << 30)
        for way in (
            Way(seed, batch=rng.choice([1, 1000]), encoded=True, options=options),
            Way(seed, small=True, snapshot=True, twins=1, options=options),
        ):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    assert rows > 0.35 * cases and stars == cases, (rows, stars)


@pytest.mark.parametrize("part", range(2))
def test_shards_give_the_same_answers(part: int) -> None:
    for i in range(scaled(12, least=6)):
        rng = random.Random(f"star shards/{part}/{i}")
        case = draw(rng)
        way = shards.Way(
            shards=rng.choice([1, 3, 8]),
            batches=rng.choice([1, 4, 7]),
            seed=i,
            positions=rng.random() < 0.5,
            hot=rng.choice([0.0, 0.5, 1.0]),
            options={"routing": rng.choice(ROUTES)},
        )
        assert shards.check(case, way) is None, f"{way}\n{case.snippet()}"
