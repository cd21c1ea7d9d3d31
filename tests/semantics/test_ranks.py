"""Ranks and ORDER BY … LIMIT: random cases with disorder and restarts, DuckDB's answers, and what is kept."""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import nullcontext
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.operators.number import NumberOperator
from eddyline.operators.rank import RankOperator
from eddyline.synopses import order_codes
from eddyline.testing.case_queries import TO_STREAM, Focus
from eddyline.testing.case_windows import WINDOWS
from eddyline.testing.cases import draw_case
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = scaled(40, least=10)


@pytest.mark.parametrize("part", range(4))
def test_answers_are_those_of_the_reference(part: int) -> None:
    full = ranked = 0
    for i in range(part * CASES // 4, (part + 1) * CASES // 4):
        rng = random.Random(f"ranks/{SEED}/{i}")
        case = draw_case(rng, Focus("top-n", rng.choice(WINDOWS), rng.choice(TO_STREAM)))
        ranked += any(operator == "top-n" for operator, _, _ in case.features())
        expected = case.expected()
        full += bool(expected)
        seed = rng.randrange(1 << 30)
        for way in (Way(seed, small=True), Way(seed, snapshot=True, small=rng.random() < 0.5)):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    assert ranked == (part + 1) * CASES // 4 - part * CASES // 4
    assert full > ranked // 4


def bids(count: int, rng: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "ts": t,
            "auction": rng.randint(1, 5),
            "price": rng.choice([None, *range(9)]),
            "bidder": rng.choice(["ann", "bob", "eve", None, f"b{rng.randint(0, 999)}"]),
            "x": rng.choice([0.0, -0.0, 1.5, -2.5, float("inf")]),
        }
        for t in range(count)
    ]


ORDERS = (
    "price DESC, ts",
    "price DESC NULLS FIRST, bidder, ts DESC",
    "bidder DESC NULLS LAST, x, ts",
    "x DESC, bidder NULLS FIRST, ts",
)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
def test_the_last_relation_is_duckdbs(order: str, function: str) -> None:
    rows = bids(400, random.Random(order + function))
    text = f"""SELECT * FROM (SELECT *, {function}() OVER (PARTITION BY auction ORDER BY {order}) AS r FROM bids)
        WHERE r <= 7"""
    session = ed.Session()
    session.stream("bids", rows, timestamp="ts")
    answer: Counter[tuple[Any, ...]] = Counter()
    for row in session.query(text).to_arrow().to_pylist():
        sign, _ = row.pop("_sign"), row.pop("_time")
        answer[tuple(row.values())] += sign
    with duckdb.connect(config={"threads": 1, "default_null_order": "nulls_last"}) as connection:
        connection.register("bids", pa.Table.from_pylist(rows))
        # Spark's defaults: NULLs are the least values.
        spelled = ", ".join(
            k if "NULLS" in k else f"{k} NULLS {'LAST' if k.endswith('DESC') else 'FIRST'}" for k in order.split(", ")
        )
        theirs = connection.execute(text.replace(order, spelled)).fetchall()
    assert +answer == Counter(theirs)
    assert len(theirs) >= 35


def last_operator(query: Any) -> RankOperator:
    return next(n.operator for n in query.running.physical.nodes if isinstance(n.operator, RankOperator))


def test_without_deletions_only_the_first_rows_are_kept() -> None:
    session = ed.Session()
    schema = pa.schema([(n, pa.int64()) for n in ("ts", "auction", "price")])
    session.stream("bids", schema=schema, timestamp="ts")
    query = session.query(
        "SELECT auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS r"
        " FROM bids) WHERE r <= 3"
    )
    rng = random.Random(3)
    for start in range(0, 2000, 100):
        rows = [{"ts": t, "auction": t % 7, "price": rng.randint(0, 10_000)} for t in range(start, start + 100)]
        session.push("bids", pa.RecordBatch.from_pylist(rows, schema))
        assert last_operator(query).size()[0] <= 21
    assert not last_operator(query).schema.names[-1].startswith("_rank")  # nobody reads the rank


def test_labels_are_given_anew_where_they_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_codes, "LABEL_STEP", 4)
    monkeypatch.setattr(order_codes, "MIN_VALUES_TO_FORGET", 8)
    moved = 0
    relabel = order_codes.SortedLabels._relabel

    def counted(self: order_codes.SortedLabels) -> None:
        nonlocal moved
        moved += 1
        relabel(self)

    monkeypatch.setattr(order_codes.SortedLabels, "_relabel", counted)
    rng = random.Random(5)
    rows = [{"ts": t, "s": "".join(rng.choices("ab", k=rng.randint(0, 6))) or None} for t in range(300)]
    for text in (
        "SELECT s FROM S [RANGE 20] ORDER BY s DESC LIMIT 5",
        "SELECT s FROM S [RANGE 20] ORDER BY s NULLS LAST LIMIT 5",
    ):
        session = ed.Session()
        schema = pa.schema([("ts", pa.int64()), ("s", pa.string())])
        session.stream("S", schema=schema, timestamp="ts")
        query = session.query(text)
        for start in range(0, len(rows), 10):
            session.push("S", pa.RecordBatch.from_pylist(rows[start : start + 10], schema))
        session.finish()
        answer: Counter[Any] = Counter()
        for row in pa.Table.from_batches(query.fetch()).to_pylist():
            answer[row["s"]] += row["_sign"]
        inside = [r["s"] for r in rows[-21:]]
        first = sorted((s for s in inside if s is not None), reverse="DESC" in text)[:5]
        assert +answer == Counter(first)
        assert len(last_operator(query).codes[0].labels.values) <= 60  # type: ignore[union-attr]
    assert moved > 10


def kept_of(came: list[tuple[Any, ...]], slack: int) -> list[tuple[Any, ...]]:
    """The rows that are not late, in the order of (time, arrival)."""
    kept, newest = [], 0
    for row in came:
        if row[0] >= newest - slack:
            kept.append(row)
        newest = max(newest, row[0])
    return sorted(kept, key=lambda r: r[0])


@pytest.mark.parametrize(
    "tables", ["bid [ROWS UNBOUNDED] b, auction [RANGE 99] a", "auction [ROWS 99] a, bid [RANGE 99] b"]
)
def test_ties_of_a_join_are_ordered_by_arrival(tables: str) -> None:
    """By when the last element came, then by the places of the elements, in the order of FROM; disorder and late rows
    included. Nothing of the engine's numbers is used here."""
    text = f"""SELECT a.seller, b.who, a.n FROM {tables} WHERE b.auction = a.id
      QUALIFY ROW_NUMBER() OVER (PARTITION BY a.seller ORDER BY b.price DESC) <= 2"""
    ties = 0
    for seed in range(scaled(6, least=3)):
        rng = random.Random(f"arrival/{SEED}/{seed}")
        times = [[max(0, t // 4 - rng.choice([0, 0, 0, 1, 3])) for t in range(n)] for n in (60, 24)]
        bids = [(t, rng.randrange(4), rng.randrange(3), f"w{rng.randrange(99)}") for t in times[0]]
        auctions = [(4 * t, rng.randrange(4), f"s{rng.randrange(2)}", rng.randrange(99)) for t in times[1]]
        some = [kept_of(bids, 2), kept_of(auctions, 8)]
        pairs = [(i, j) for i in range(len(some[0])) for j in range(len(some[1])) if some[0][i][1] == some[1][j][1]]

        def order(pair: tuple[int, int], bids: Any = some[0], auctions: Any = some[1]) -> tuple[Any, ...]:
            i, j = pair
            places = (i, j) if tables.startswith("bid") else (j, i)
            return (-bids[i][2], max(bids[i][0], auctions[j][0]), *places)

        expected: Counter[Any] = Counter()
        for seller in ("s0", "s1"):
            first = sorted((p for p in pairs if some[1][p[1]][2] == seller), key=order)
            expected.update((seller, some[0][i][3], some[1][j][3]) for i, j in first[:2])
            ties += order(first[1])[:2] == order(first[2])[:2]
        session = ed.Session()
        rows = [dict(zip(("ts", "auction", "price", "who"), r, strict=True)) for r in bids]
        session.stream("bid", rows, timestamp="ts", slack=2)
        rows = [dict(zip(("ts", "id", "seller", "n"), r, strict=True)) for r in auctions]
        session.stream("auction", rows, timestamp="ts", slack=8)
        late = len(some[0]) < len(bids) or len(some[1]) < len(auctions)
        with pytest.warns(ed.LateRowsWarning) if late else nullcontext():
            changes = session.query(text).to_arrow().to_pylist()
        found: Counter[Any] = Counter()
        for r in changes:
            found[r["seller"], r["who"], r["n"]] += r["_sign"]
        assert +found == expected, seed
    assert ties


def test_a_tie_does_not_push_out_the_row_that_came_before() -> None:
    """The row of the older element may come later; then it stands behind."""
    session = ed.Session()
    session.stream("S", [{"ts": 1, "k": 1}, {"ts": 2, "k": 2}], timestamp="ts")
    session.stream("T", [{"ts": 3, "k": 2}, {"ts": 9, "k": 1}], timestamp="ts")
    query = session.query("SELECT S.k FROM S [ROWS 9], T [ROWS 9] WHERE S.k = T.k ORDER BY 1 + 1 LIMIT 1")
    assert query.to_arrow().to_pylist() == [{"k": 2, "_time": 3, "_sign": 1}]


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        ("SELECT S.k FROM S [ROWS 9], T [ROWS 9] WHERE S.k = T.k", 0),
        ("SELECT S.k, RANK() OVER (ORDER BY T.x) AS r FROM S [ROWS 9], T [ROWS 9] WHERE S.k = T.k", 0),
        ("SELECT k FROM S [ROWS 9] ORDER BY x LIMIT 1", 0),
        ("SELECT k, count(*) FROM S [ROWS 9] GROUP BY k ORDER BY 2 LIMIT 1", 0),
        ("SELECT S.k FROM S [ROWS 9], T [ROWS 9] WHERE S.k = T.k ORDER BY T.x LIMIT 1", 2),
        ("SELECT k FROM S [ROWS 9] WHERE k IN (SELECT k FROM T [ROWS 9]) ORDER BY x LIMIT 1", 1),
    ],
)
def test_only_row_numbers_of_joins_pay_for_the_order_of_arrival(text: str, operators: int) -> None:
    session = ed.Session()
    for name in "ST":
        session.stream(name, schema=pa.schema(dict.fromkeys(("ts", "k", "x"), pa.int64())), timestamp="ts")
    query = session.query(text)
    made = [n.operator for n in query.running.physical.nodes]
    assert sum(isinstance(o, NumberOperator) for o in made) == operators


def test_a_named_join_that_is_ranked_and_read_otherwise_runs_once() -> None:
    session = ed.Session()
    session.stream("S", [{"ts": t, "k": t % 3, "x": t % 2} for t in range(9)], timestamp="ts")
    session.stream("T", [{"ts": t, "k": t % 4} for t in range(9)], timestamp="ts")
    query = session.query("""WITH j AS (SELECT S.k, S.x, T.ts AS at FROM S [ROWS 9], T [ROWS 9] WHERE S.k = T.k)
        SELECT f.k, f.at, c.n FROM (SELECT * FROM j ORDER BY x LIMIT 1) f, (SELECT count(*) AS n FROM j) c""")
    names = [n.name for n in query.running.physical.nodes]
    assert sum("join" in n for n in names) == 2, names  # that of j, and the one around
    found: Counter[Any] = Counter()
    for r in query.to_arrow().to_pylist():
        found[r["k"], r["at"], r["n"]] += r["_sign"]
    pairs = sum(s % 3 == t % 4 for s in range(9) for t in range(9))
    assert +found == Counter({(0, 0, pairs): 1})
