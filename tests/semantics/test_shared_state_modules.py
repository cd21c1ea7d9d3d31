"""Several queries over one state module (AMRI: "equally applies to multiple SPJ queries"): different windows, different
join attributes, NULLs, filters above windows, queries that come later and that go, sessions that are saved, restored
and switched. Each query's answer is that of the same query alone with the default join, over what came after it was
registered. With ``-s`` a table says what modules did.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.operators.routed_join import RoutedJoin
from tests.semantics.test_long_routed_joins import any_bits

FACTOR = float(os.environ.get("EDDYLINE_CASES", "1"))
SEED = os.environ.get("EDDYLINE_SEED", "2012")
CASES = max(4, round(12 * FACTOR))
PARTS = 4
ELEMENTS = 600 if FACTOR >= 1 else 80  # of each stream
INDEX = "(window=150, periodic=400, triggered=600, partition=32, batch=40, costs=counted)"
SEEN: Counter[str] = Counter()

WINDOWS = ("[RANGE 12]", "[RANGE 30]", "[ROWS 9]", "[ROWS 25]", "[RANGE 12]", "[ROWS 9]", "[RANGE 20 SLIDE 5]")
CONDITIONS = (
    "x.a = y.a",
    "x.a = y.a AND x.b = y.b",
    "x.b = y.b",
    "x.a = y.b AND x.c < y.c",
    "x.s = y.s AND x.a <= y.a",
)
THIRD = ("z.a = x.a", "z.b = y.b", "z.a = x.a AND z.s = y.s", "z.c = y.c AND z.a = x.a")


def draw_rows(rng: random.Random) -> list[dict[str, Any]]:
    rows, ts = [], 0
    for _ in range(ELEMENTS):
        ts += rng.choice([0, 0, 1, 1, 2])
        values = {c: rng.choice([None, *range(8), *range(8)]) for c in "ab"}
        rows.append({"ts": ts, **values, "c": rng.random() * 8, "s": rng.choice([None, "u", "v", "w", "x", "y", "z"])})
    return rows


def draw_late(rng: random.Random, texts: list[str]) -> str:
    """A query that comes later: often an earlier one with other windows, which has the same join attributes."""
    if rng.random() < 0.3:
        return draw_query(rng)
    return re.sub(r"\[[^]]*\]", lambda _: rng.choice(WINDOWS), rng.choice(texts))


def draw_query(rng: random.Random) -> str:
    streams = [rng.choice("RST") for _ in range(rng.choice([2, 2, 3]))]  # a stream may be joined with itself
    aliases = "xyz"[: len(streams)]
    inputs = [f"{s} {rng.choice(WINDOWS)} {a}" for s, a in zip(streams, aliases, strict=True)]
    where = [rng.choice(CONDITIONS), *([rng.choice(THIRD)] if len(streams) > 2 else [])]
    if rng.random() < 0.4:
        where.append(f"x.b {rng.choice(['<', '>'])} {rng.randrange(2, 6)}")
    result = rng.choice(
        ["x.a, count(*) AS n, sum(y.b) AS t", "Istream(x.a, count(*) AS n)", "x.b, count(*) AS n, max(y.a) AS m"]
    )
    return f"SELECT {result} FROM {', '.join(inputs)} WHERE {' AND '.join(where)}"


def joins_of(session: ed.Session) -> list[RoutedJoin]:
    return [o.operator for o in session._graph.operators if isinstance(o.operator, RoutedJoin)]


def declared(schema: pa.Schema, sharing: bool) -> ed.Session:
    session = ed.Session(sharing=sharing)
    for name in "RST":
        session.stream(name, schema=schema, timestamp="ts")
    return session


def register(session: ed.Session, texts: list[str], index: str, first: int = 0) -> list[Any]:
    new = enumerate(texts[first:], first)
    return [session.query(t, name=f"q{i}", joins="routes", index=index) for i, t in new]


@pytest.mark.parametrize("part", range(PARTS))
def test_each_query_answers_as_if_it_had_modules_of_its_own(part: int) -> None:
    for number in range(part, CASES, PARTS):
        run(random.Random(f"{SEED}/modules/{number}"), f"{SEED}/{number}")


@pytest.mark.parametrize("number", [32, 54, 60])
def test_a_later_query_does_not_search_rows_whose_codes_are_not_known(number: int) -> None:
    """After a restart a row has the codes of those views only that still needed it. A query that came later and needs
    more rows moved to such a module, and missed the matches of the rows without codes."""
    run(random.Random(f"2012/modules/{number}"), f"2012/{number}")


def test_modules_without_attributes_are_restored() -> None:
    """Of joins without an equality. What several queries had stored could not be loaded."""
    schema = pa.schema({"ts": pa.int64(), "a": pa.int64()})
    texts = [f"SELECT Istream(x.a, y.a AS b) FROM R [ROWS {n}] x, S [ROWS {n}] y" for n in (2, 3)]
    data = {name: [{"ts": t, "a": 10 * i + t} for t in range(20)] for i, name in enumerate("RST")}
    session = declared(schema, sharing=True)
    queries, got = register(session, texts, "amri"), [[], []]
    for first, last in ((0, 8), (8, 20)):
        for name, rows in data.items():
            session.push(name, pa.Table.from_pylist(rows[first:last], schema))
        if not first:
            got = [rows_of(q) for q in queries]
            session, queries = restored(session, schema, texts, "amri")
            assert all(len(view.shared.views) == 2 for join in joins_of(session) for view in join.states)
    session.finish()
    for text, query, before in zip(texts, queries, got, strict=True):
        assert sorted(before + rows_of(query)) == sorted(alone(text, data, schema))


def run(rng: random.Random, label: str) -> None:
    schema = pa.schema({"ts": pa.int64(), "a": pa.int64(), "b": pa.int64(), "c": pa.float64(), "s": pa.string()})
    data = {n: draw_rows(rng) for n in "RST"}
    texts = [draw_query(rng) for _ in range(rng.randint(2, 4))]
    index = rng.choice(["amri", "fitting", "hash", "bitmap"]) + INDEX
    session = declared(schema, sharing=True)
    queries = register(session, texts, index)
    got: list[list[tuple[Any, ...]]] = [[] for _ in texts]
    gone_at: dict[int, int] = {}
    since: list[dict[str, int]] = [dict.fromkeys("RST", 0) for _ in texts]  # elements that came before each query
    late = sorted(rng.randrange(ELEMENTS // 20, ELEMENTS // 2) for _ in range(rng.choice([0, 1, 1, 2])))
    dropped = rng.randrange(len(texts)) if rng.random() < 0.4 else None
    with any_bits(rng):
        at = dict.fromkeys("RST", 0)
        while any(at[n] < ELEMENTS for n in at):
            while late and min(at.values()) >= late[0]:
                late.pop(0)
                texts.append(draw_late(rng, texts))
                queries += register(session, texts, index, first=len(queries))
                got.append([])
                since.append(dict(at))
                SEEN["queries that came later"] += 1
            name = min(at, key=lambda n: (data[n][at[n]]["ts"] if at[n] < ELEMENTS else 1 << 40, n))
            until = data[name][at[name]]["ts"] + rng.choice([1, 3, 9])
            part = []
            while at[name] < ELEMENTS and data[name][at[name]]["ts"] <= until:
                part.append(data[name][at[name]])
                at[name] += 1
            session.push(name, pa.Table.from_pylist(part, schema))
            for i, q in enumerate(queries):
                if i not in gone_at:
                    got[i] += rows_of(q)
            draw = rng.random()
            if draw < 0.01 and dropped is not None and dropped not in gone_at and min(at.values()) > 60:
                gone_at[dropped] = 1
                session.drop(queries[dropped])
                SEEN["queries dropped"] += 1
            elif draw < 0.02:
                observe(session)
                session.sharing = not session.sharing
                SEEN["sharing switched"] += 1
            elif draw < 0.03 and not gone_at:
                observe(session)
                session, queries = restored(session, schema, texts, index)
        observe(session)
    session.finish()
    for i, text in enumerate(texts):
        if i not in gone_at:
            got[i] += rows_of(queries[i])
            expected = alone(text, {n: rows[since[i][n] :] for n, rows in data.items()}, schema)
            assert sorted(got[i], key=repr) == sorted(expected, key=repr), f"{label}, {index}\n{text}"
            SEEN["answers compared"] += 1
            SEEN["rows of answers"] += len(expected)
    SEEN["sessions"] += 1


def rows_of(query: Any) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for batch in query.fetch() for r in batch.to_pylist()]


def restored(session: ed.Session, schema: pa.Schema, texts: list[str], index: str) -> tuple[ed.Session, list[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        session.snapshot(folder)
        fresh = declared(schema, session.sharing)
        queries = register(fresh, texts, index)
        fresh.restore(folder)
    SEEN["sessions restored"] += 1
    return fresh, queries


def alone(text: str, data: dict[str, list[dict[str, Any]]], schema: pa.Schema) -> list[tuple[Any, ...]]:
    session = ed.Session(sharing=False)
    for name, rows in data.items():
        session.stream(name, pa.Table.from_pylist(rows, schema=schema), timestamp="ts")
    return [tuple(r.values()) for r in session.query(text).to_arrow().to_pylist()]


def observe(session: ed.Session) -> None:
    for join in joins_of(session):
        for view in join.states:
            SEEN["modules seen"] += view.leads
            SEEN["modules of several inputs"] += view.leads and len(view.shared.views) > 1
            SEEN["late views in modules of older joins"] += view.offset > 0 and len(view.shared.views) > 1
            SEEN["views that share"] += len(view.shared.views) > 1
            SEEN["attributes of other joins"] += view.module.attributes > len(view.attributes)
            SEEN["rows that match in some views only"] += bool(view._invalid)
        SEEN["changes of indexes"] += join.control.tunings


def test_modules_were_shared() -> None:
    if SEEN["sessions"] < CASES:
        pytest.fail("run the whole file: what modules did is counted by the tests above")
    print("\n" + "\n".join(f"  {what:40s} {n:,}" for what, n in SEEN.items()))
    if FACTOR >= 1:
        assert SEEN["modules of several inputs"] > CASES
        assert SEEN["attributes of other joins"] > CASES
        assert SEEN["late views in modules of older joins"] > CASES / 2
        assert SEEN["rows that match in some views only"] > CASES
        assert SEEN["changes of indexes"] > 10 * CASES
