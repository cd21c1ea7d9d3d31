"""Rows with a NULL key join with nothing, also where they take the place of a row that caches and trees still name."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from tests.adapting.join_cases import HASTY
from tests.scale import scaled

STAYS = {"joins": "static", "caches": "none"}
OTHERS = ({"joins": "static", "caches": f"prefix({HASTY})"}, {"caches": f"global({HASTY})"})
TREES = ("(((r, s), t), u)", "((r, s), (t, u))", "(r, (s, t), u)")
KEYED = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])


def answers(text: str, tables: dict[str, list[tuple[Any, ...]]], step: int, **options: Any) -> Counter[Any]:
    session = ed.Session()
    for name in tables:
        session.stream(name, schema=KEYED, timestamp="ts")
    query = session.query(text, **options)
    found: Counter[Any] = Counter()
    for begin in range(0, 1000, step):
        for name, rows in tables.items():
            mine = [r for r in rows if begin <= r[0] < begin + step]
            session.push(name, pa.table(dict(zip(KEYED.names, zip(*mine, strict=True), strict=True)), KEYED) if mine
                         else KEYED.empty_table())  # fmt: skip
    session.finish()
    for batch in query.fetch():
        found.update(tuple(row.items()) for row in batch.to_pylist())
    return found


def test_a_row_that_joins_with_nothing_takes_the_place_of_one_that_did() -> None:
    text = """SELECT Istream(r.ts AS x, r.a AS ra, s.ts AS y, t.ts AS z)
        FROM R [PARTITION BY a ROWS 2] r, S [PARTITION BY a ROWS 2] s, T [RANGE 30] t WHERE r.a = s.a AND s.a = t.a"""
    tables = {"R": [(864, 1, 0), (867, 1, 0), (870, 1, 0), (888, None, 0)], "S": [(864, 1, 0), (882, 0, 0)],
              "T": [(891, 1, 0)]}  # fmt: skip
    found = answers(text, tables, 1000, tree="((r, s), t)")
    assert sorted(dict(row)["x"] for row in found) == [867, 870]


@pytest.mark.parametrize("part", range(4))
def test_random_joins_with_null_keys(part: int) -> None:
    results, cases = 0, range(part, scaled(12, least=12), 4)
    for number in cases:
        rng = random.Random(f"nulls/{number}")
        names = "RSTU"[: rng.choice([3, 4])]
        tables: dict[str, list[tuple[Any, ...]]] = {
            n: [
                (ts, *(None if rng.random() < 0.25 else rng.randrange(3) for _ in range(2)))
                for ts in sorted(rng.sample(range(1000), 150))
            ]
            for n in names
        }
        windows = [rng.choice(("[PARTITION BY a ROWS 1]", "[PARTITION BY a, b ROWS 2]", "[RANGE 60]")) for _ in names]
        sources = ", ".join(f"{n} {w} {n.lower()}" for n, w in zip(names, windows, strict=True))
        links = [f"{x}.{c} = {y}.{c}" for x, y in zip(names.lower(), names.lower()[1:], strict=False) for c in "a"]
        if rng.random() < 0.5:
            links[-1] = links[-1].replace(".a", ".b")
        columns = ", ".join(f"{n}.ts AS {n}t, {n}.a AS {n}a, {n}.b AS {n}b" for n in names.lower())
        text = f"SELECT Istream({columns}) FROM {sources} WHERE {' AND '.join(links)}"
        expected = answers(text, tables, 50, **STAYS)
        results += expected.total()
        tree = (
            "((r, s), t)" if len(names) == 3 else rng.choice(("(((r, s), t), u)", "((r, s), (t, u))", "(r, (s, t), u)"))
        )
        for options in (
            {"tree": tree},
            {"joins": "static", "caches": f"prefix({HASTY})"},
            {"caches": f"global({HASTY})"},
        ):
            assert answers(text, tables, 50, **options) == expected, (number, text, options)
    assert results > 50 * len(cases)
