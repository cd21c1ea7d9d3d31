"""As-of joins: random cases with disorder and restarts, DuckDB's answers, what is kept, and order of arrival."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import CqlError
from eddyline.operators import as_of_join
from eddyline.testing.case_queries import TO_STREAM, Focus
from eddyline.testing.case_windows import WINDOWS
from eddyline.testing.cases import draw_case
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = scaled(40, least=10)
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])


@pytest.mark.parametrize("part", range(4))
def test_answers_are_those_of_the_reference(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_of_join, "ROWS_BEFORE_COMPACTION", 1)
    full, joins = 0, 0
    for i in range(part * CASES // 4, (part + 1) * CASES // 4):
        rng = random.Random(f"as-of/{SEED}/{i}")
        case = draw_case(rng, Focus("as-of-join", rng.choice(WINDOWS), rng.choice(TO_STREAM)))
        joins += "ASOF" in case.text
        expected = case.expected()
        full += bool(expected)
        seed = rng.randrange(1 << 30)
        for way in (Way(seed, small=True), Way(seed, snapshot=True, heartbeats=rng.random() < 0.5)):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    assert joins == (part + 1) * CASES // 4 - part * CASES // 4
    assert full >= joins // 5  # conditions on one side leave few rows in some cases


def elements(count: int, step: int, rng: random.Random) -> list[dict[str, Any]]:
    """Times of one stream are all different: of several rows of an instant DuckDB takes any."""
    keys = ["a", "b", "c", None]
    return [{"ts": t * step + 1, "k": rng.choice(keys), "v": rng.randint(0, 99)} for t in range(count)]


@pytest.mark.parametrize("sign", ["<=", "<", ">=", ">"])
@pytest.mark.parametrize("outer", [False, True])
def test_the_partners_are_duckdbs(sign: str, outer: bool) -> None:
    rng = random.Random(sign)
    left, right = elements(200, 3, rng), elements(150, 4, rng)
    last = {"ts": 100_000, "k": "z", "v": 0}  # shows time, so that nothing waits any more
    word = "ASOF LEFT JOIN" if outer else "ASOF JOIN"
    ahead = outer and sign.startswith(">")
    text = f"SELECT t.ts AS t, t.k AS k, q.ts AS q, q.v AS v FROM t {word} q ON t.k = q.k AND t.ts {sign} q.ts"
    session = ed.Session()
    looks_ahead = outer and sign.startswith("<")
    session.stream("t", [*left, last], timestamp="ts")
    session.stream("q", [*right, last], timestamp="ts")
    found = session.query(f"{text}{' WITHIN 50000' if looks_ahead else ''}").to_arrow().to_pylist()
    ours = Counter((r["t"], r["k"], r["q"], r["v"]) for r in found if r["k"] != "z")
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("t", pa.Table.from_pylist(left, SCHEMA))
        connection.register("q", pa.Table.from_pylist(right, SCHEMA))
        theirs = Counter(connection.execute(text).fetchall())
    assert ours == theirs
    assert len(theirs) > 100
    assert ahead or looks_ahead or outer or all(q is not None for _, _, q, _ in theirs)


def test_one_row_of_each_key_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_of_join, "ROWS_BEFORE_COMPACTION", 16)
    session = ed.Session()
    for name in ("t", "q"):
        session.stream(name, schema=SCHEMA, timestamp="ts")
    query = session.query("SELECT t.ts, q.v FROM t ASOF JOIN q ON t.k = q.k AND q.ts <= t.ts")
    short = session.query("SELECT t.ts, q.v FROM t ASOF JOIN q ON t.k = q.k AND q.ts <= t.ts WITHIN 5")
    rng = random.Random(2)
    for start in range(0, 3000, 100):
        for name in ("t", "q"):
            rows = [{"ts": t, "k": f"{t // 500}-{rng.randint(0, 4)}", "v": t} for t in range(start, start + 100)]
            session.push(name, pa.RecordBatch.from_pylist(rows, SCHEMA))
    operators = [next(n.operator for n in q.running.physical.nodes if n.operator and "as-of" in n.operator.name)
                 for q in (query, short)]  # fmt: skip
    assert 25 <= operators[0].size()[0] <= 2 * 30 + 16 + 100
    assert len(operators[0].table) == 30
    assert len(operators[1].table) <= 15  # those that no element can meet any more are forgotten


@pytest.mark.parametrize(
    ("where", "left", "right"),
    [
        ("t.v > 3", "select", "stream"),  # of the left side only: the partner stays what it is
        ("t.k = 'a'", "select", "select"),  # of the keys: others are no partners
        ("q.k = 'a'", "select", "select"),
        ("q.v > 3", "stream", "stream"),  # would make an earlier element the partner
        ("10 / t.v > 1", "stream", "stream"),  # can fail: is asked where it is written
    ],
)
def test_conditions_go_below_where_they_may(where: str, left: str, right: str) -> None:
    rng = random.Random(where)
    rows = {n: [{"ts": t, "k": rng.choice("abc"), "v": rng.randint(1, 9)} for t in range(40)] for n in "tq"}
    text = "SELECT Istream(t.ts AS t, t.k, t.v, q.k AS qk, q.v AS qv) FROM t ASOF JOIN q ON t.k = q.k AND q.ts <= t.ts"
    answers = []
    for filtered in (True, False):
        session = ed.Session()
        for name, elements_of in rows.items():
            session.stream(name, elements_of, timestamp="ts")
        query = session.query(f"{text} WHERE {where}" if filtered else text)
        answers.append(query.to_arrow().to_pylist())
        if filtered:
            plan = query.explain()
            shown = [line.strip(" │├└─").split()[0] for line in plan.splitlines() if "├─" in line or "└─" in line]
            at = next(i for i, word in enumerate(shown) if word.startswith("as-of"))
            sides = [w for w in shown[at + 1 :] if w in ("select", "stream")]
            assert sides == [
                left,
                *(["stream"] if left == "select" else []),
                right,
                *(["stream"] if right == "select" else []),
            ]
    with duckdb.connect() as connection:
        connection.register("rows", pa.Table.from_pylist(answers[1]))
        plain = where.replace("t.", "").replace("q.k", "qk").replace("q.v", "qv")
        kept = connection.execute(f"SELECT * FROM rows WHERE {plain}").fetchall()
    assert [tuple(r.values()) for r in answers[0]] == kept
    assert 0 < len(kept) < len(answers[1]) + (where.startswith("10"))


def test_equal_timestamps_keep_their_order_through_filters_and_projections() -> None:
    rows = [{"ts": 1, "k": "b", "v": 1}, {"ts": 1, "k": "a", "v": 2}, {"ts": 1, "k": "c", "v": -1}]
    for source in (
        "(SELECT k, v + 1 AS w FROM S WHERE v > 0) [ROWS 1]",
        "(SELECT Istream(k, v + 1 AS w) FROM S WHERE v > 0) [ROWS 1]",
        "filtered [ROWS 1]",
    ):
        session = ed.Session()
        session.stream("S", rows, timestamp="ts")
        session.view("filtered", "SELECT k, v + 1 AS w FROM S WHERE v > 0")
        found = session.query(f"SELECT k, w FROM {source}").to_arrow().to_pylist()
        assert [r["k"] for r in found] == ["a"]  # the last that came, not the greatest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT t.v FROM t ASOF JOIN q ON t.k = q.k", "needs one comparison of both streams' timestamps"),
        ("SELECT t.v FROM t ASOF JOIN q ON t.ts >= q.ts AND t.v > q.v", "takes equalities of both sides"),
        (
            "SELECT t.v FROM t [RANGE 5] ASOF JOIN q ON t.ts >= q.ts",
            "streams without a window, and t is something else",
        ),
        ("SELECT t.v FROM t LEFT ASOF JOIN q ON t.ts <= q.ts", "waits for ever for a partner: bound it"),
        ("SELECT t.v FROM t ASOF RIGHT JOIN q ON t.ts <= q.ts", "is ASOF JOIN or LEFT ASOF JOIN"),
    ],
)
def test_mistakes_are_told(text: str, message: str) -> None:
    session = ed.Session()
    for name in ("t", "q"):
        session.stream(name, schema=SCHEMA, timestamp="ts")
    with pytest.raises(CqlError, match=message):
        session.query(text)
