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
from eddyline.operators.rank import RankOperator
from eddyline.synopses import order_codes
from eddyline.testing.case_queries import TO_STREAM, WINDOWS, Focus
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
    monkeypatch.setattr(order_codes, "STEP", 4)
    monkeypatch.setattr(order_codes, "VALUES_BEFORE_FORGETTING", 8)
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


def test_a_join_is_ranked_by_arrival_where_its_elements_are_numbered() -> None:
    """``count(*) OVER`` is the number of an element by (timestamp, arrival), disorder and late rows included."""
    text = """SELECT a.seller, b.who FROM
      (SELECT *, count(*) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM bid) [ROWS UNBOUNDED] b,
      auction [ROWS UNBOUNDED] a WHERE b.auction = a.id
      QUALIFY ROW_NUMBER() OVER (PARTITION BY a.seller ORDER BY b.price DESC, b.n) <= 2"""
    ties = 0
    for seed in range(scaled(6, least=3)):
        rng = random.Random(f"arrival/{SEED}/{seed}")
        times = [max(0, t // 4 - rng.choice([0, 0, 0, 1, 3])) for t in range(80)]
        came = [(t, rng.randrange(4), rng.randrange(3), f"w{rng.randrange(99)}") for t in times]
        kept, newest = [], 0
        for row in came:
            if row[0] >= newest - 2:
                kept.append(row)
            newest = max(newest, row[0])
        auctions = {i: f"s{i % 2}" for i in range(4)}
        expected: Counter[Any] = Counter()
        for seller in ("s0", "s1"):
            of = sorted((r for r in sorted(kept, key=lambda r: r[0]) if auctions[r[1]] == seller), key=lambda r: -r[2])
            expected.update((seller, who) for *_, who in of[:2])
            ties += len({r[0] for r in of[:2]}) == 1
        session = ed.Session()
        rows = [dict(zip(("ts", "auction", "price", "who"), r, strict=True)) for r in came]
        session.stream("bid", rows, timestamp="ts", slack=2)
        session.stream("auction", [{"ts": 0, "id": i, "seller": s} for i, s in auctions.items()], timestamp="ts")
        with pytest.warns(ed.LateRowsWarning) if len(kept) < len(came) else nullcontext():
            changes = session.query(text).to_arrow().to_pylist()
        found: Counter[Any] = Counter()
        for r in changes:
            found[r["seller"], r["who"]] += r["_sign"]
        assert +found == expected, seed
    assert ties
