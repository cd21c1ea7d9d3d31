"""Lists in streams: element_at, size, array_contains and explode under windows, joins and aggregates.

Random cases with disorder and restarts against the reference, and the forms that are refused.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.operators.explode import ExplodeOperator
from eddyline.testing.case_data import TimeScale, draw_stream
from eddyline.testing.cases import Case
from eddyline.testing.reference import StreamData
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = scaled(40, least=10)
LISTS = {"l": pa.list_(pa.int64()), "w": pa.list_(pa.string())}


@dataclass(frozen=True, slots=True)
class ListScale(TimeScale):
    """Streams with two columns of lists more."""

    def schema(self) -> pa.Schema:
        # Named: a dataclass with slots is another class than the one that super() would find.
        return pa.schema([*TimeScale.schema(self), *(pa.field(n, t) for n, t in LISTS.items())])


def some_list(rng: random.Random, values: list[Any]) -> tuple[Any, ...] | None:
    return None if rng.random() < 0.15 else tuple(rng.choice(values) for _ in range(rng.choice([0, 1, 1, 2, 3])))


def draw_text(rng: random.Random, scale: TimeScale) -> tuple[str, int]:
    """A query, and how many streams it reads."""
    window = rng.choice(
        ["", "[ROWS 3]", f"[RANGE {scale.width(4, rng)}]", f"[TUMBLE {scale.width(5, rng)}]", "[PARTITION BY a ROWS 2]"]
    )
    lists = rng.choice(["l", "w"])
    value = {"l": "2", "w": "'u'"}[lists]
    position = rng.choice(["1", "-1", "2", "b"])
    read = [f"try_element_at(S.{lists}, {'CASE WHEN S.b > 0 THEN S.b ELSE -1 END' if position == 'b' else position})",
            f"size(S.{lists})", f"array_contains(S.{lists}, {value})"]  # fmt: skip
    where = rng.choice(
        ["", f" WHERE size(S.{lists}) > 1", f" WHERE array_contains(S.{lists}, {value})", " WHERE S.b > 1"]
    )
    kind = rng.choice(["plain", "explode", "explode", "grouped", "count", "join", "element_at"])
    source = f"FROM S {window} S{where}"
    exploding = f"SELECT S.a, explode(S.{lists}) AS e {source}"
    at = rng.choice([1, 2, -1])
    guarded = f"CASE WHEN size(S.{lists}) >= {abs(at)} THEN element_at(S.{lists}, {at}) END AS e"
    alone = {
        "plain": f"SELECT S.ts, {rng.choice(read)} AS e, S.a {source}",
        "element_at": f"SELECT S.ts, {guarded} {source}",
        "explode": exploding,
        "grouped": f"SELECT e, count(*) AS n, max(a) AS m FROM ({exploding}) GROUP BY e",
        "count": f"SELECT S.a, count(*) AS n, max({read[0]}) AS m, sum(size(S.{lists})) AS s {source} GROUP BY S.a",
    }
    if kind in alone:
        return alone[kind], 1
    bounded = window or "[ROWS UNBOUNDED]"
    exploded = rng.choice([f"explode(S.{lists}) AS e", f"{rng.choice(read)} AS e"])
    return f"SELECT S.b, T.b AS c, {exploded} FROM S {bounded} S, T [ROWS 4] T WHERE S.a = T.a", 2


def draw_list_case(rng: random.Random) -> Case:
    scale = ListScale(origin=rng.choice([0, 0, -23]))
    text, count = draw_text(rng, scale)
    streams = {}
    for name in ("S", "T")[:count]:
        drawn = draw_stream(rng, rng.randint(8, 24), rng.choice([12, 25]), scale)
        more = [(ts, {**row, "l": some_list(rng, [1, 2, 3, None]), "w": some_list(rng, ["u", "v", "", None])})
                for ts, row in drawn.elements]  # fmt: skip
        streams[name] = StreamData(tuple(more), drawn.slack)
    return Case(text, streams, {}, scale=scale)


@pytest.mark.parametrize("part", range(2))
def test_answers_are_those_of_the_reference(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    full = exploded = 0
    work = ExplodeOperator.process

    def counted(self: Any, deltas: Any, frontier: int) -> Any:
        nonlocal exploded
        out = work(self, deltas, frontier)
        exploded += len(out)
        return out

    monkeypatch.setattr(ExplodeOperator, "process", counted)
    for i in range(part * CASES // 2, (part + 1) * CASES // 2):
        rng = random.Random(f"lists/{SEED}/{i}")
        case = draw_list_case(rng)
        expected = case.expected()
        full += bool(expected)
        seed = rng.randrange(1 << 30)
        for way in (Way(seed, small=True), Way(seed, snapshot=True, heartbeats=rng.random() < 0.5)):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    print(f"\n  rows that explode made: {exploded:,} in {CASES // 2} cases")
    assert full > CASES // 8
    assert exploded > CASES


ROWS = [{"ts": 1, "k": 1, "tags": ["a", "b"]}, {"ts": 2, "k": 2, "tags": []}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT tags FROM S", "'tags' is a list"),
        ("SELECT k FROM S WHERE tags = tags", "'tags' is a list"),
        ("SELECT count(tags) FROM S", "'tags' is a list"),
        ("SELECT k FROM S GROUP BY k, tags", "'tags' is a list"),
        ("SELECT element_at(k, 1) FROM S", "element_at wants a list, not bigint"),
        ("SELECT element_at(tags, 'x') FROM S", "whole number as the position"),
        ("SELECT array_contains(tags, k) FROM S [ROWS 1] GROUP BY tags", "'tags' is a list"),
        ("SELECT 1 + explode(tags) FROM S", "explode stands in the select list, alone"),
        ("SELECT explode(tags) AS t, count(*) FROM S GROUP BY t", "explode stands in the select list, alone"),
        ("SELECT explode(tags), explode(tags) FROM S", "a SELECT explodes one list"),
        ("SELECT explode(k) FROM S", "explode takes a column of lists, not bigint"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    session = ed.Session()
    session.stream("S", ROWS, timestamp="ts")
    with pytest.raises(ed.CqlError, match=said):
        session.query(text)


def test_a_position_that_is_not_there_is_an_error_of_its_row() -> None:
    session = ed.Session()
    session.stream("S", ROWS, timestamp="ts")
    with pytest.raises(ed.EddylineError, match="the list has 0 elements, and none at 1"):
        session.query("SELECT element_at(tags, 1) FROM S").to_arrow()
