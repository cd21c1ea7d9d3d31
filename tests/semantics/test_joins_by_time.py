"""Joins whose conditions compare timestamps: an input of which no later row of the others asks is not kept.

Random cases with ties, disorder and restarts; the reference keeps everything.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import Any
from unittest.mock import patch

import pytest

from eddyline.operators import join_side
from eddyline.testing.case_data import draw_scale, draw_stream
from eddyline.testing.cases import Case
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = scaled(40, least=10)
ALIASES = ("p", "q", "r")


def draw_join(rng: random.Random) -> Case:
    scale = draw_scale(rng)
    count = rng.choice([2, 2, 3])
    windows = [
        rng.choice(["[ROWS UNBOUNDED]"] * 5 + ["[RANGE UNBOUNDED]", f"[RANGE {scale.width(6, rng)}]"])
        for _ in range(count)
    ]
    used = ALIASES[:count]
    conditions = [f"{a}.{c} = {b}.{c}" for a, b in itertools.pairwise(used) for c in [rng.choice("ab")]]
    latest = rng.randrange(count)
    for i, other in enumerate(used):
        if i != latest and rng.random() < 0.9:
            sign = rng.choice([">=", ">=", ">", "="])
            mine, theirs = f"{used[latest]}.ts", f"{other}.ts"
            turned = {">=": "<=", ">": "<", "=": "="}[sign]
            plain = rng.choice([f"{mine} {sign} {theirs}", f"{theirs} {turned} {mine}"])
            upper = f"{mine} BETWEEN {theirs} AND {theirs}" if rng.random() < 0.1 else plain
            conditions.append(upper)
    rng.shuffle(conditions)
    where = " AND ".join(conditions)
    froms = ", ".join(f"S{i} {w} {a}" for i, (w, a) in enumerate(zip(windows, used, strict=True)))
    items = ", ".join(f"{a}.{c} AS {a}{c}" for a in used for c in ("ts", "b"))
    text = rng.choice(
        [
            f"SELECT {items} FROM {froms} WHERE {where}",
            f"SELECT Istream({items}) FROM {froms} WHERE {where}",
            f"SELECT p.a, count(*) AS n, max(q.b) AS m FROM {froms} WHERE {where} GROUP BY p.a",
        ]
    )
    streams = {f"S{i}": draw_stream(rng, rng.randint(8, 20), rng.choice([12, 25]), scale) for i in range(count)}
    return Case(text, streams, {}, scale=scale)


@pytest.mark.parametrize("part", range(2))
def test_answers_are_those_of_the_reference(part: int) -> None:
    full = passing = 0
    made: list[Any] = []
    make = join_side.JoinSide.__init__

    def noted(self: Any, spec: Any, *rest: Any) -> None:
        made.append(spec)
        make(self, spec, *rest)

    for i in range(part * CASES // 2, (part + 1) * CASES // 2):
        rng = random.Random(f"joins by time/{SEED}/{i}")
        case = draw_join(rng)
        expected = case.expected()
        full += bool(expected)
        seed = rng.randrange(1 << 30)
        made.clear()
        with patch.object(join_side.JoinSide, "__init__", noted):
            for way in (Way(seed, small=True), Way(seed, snapshot=True, heartbeats=rng.random() < 0.5)):
                assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
        passing += any(spec.passing for spec in made)
    print(f"\n  joins of which an input is not kept: {passing} of {CASES // 2}")
    assert full > CASES // 8
    assert passing > CASES // 8
