"""Nexmark's queries that ask for first or last rows, as Flink's users write them: the last relation is DuckDB's.

The texts are those of the benchmark, with columns in our spelling. DuckDB answers the same texts over whole tables.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import eddyline as ed

WINNING = """SELECT a.id AS id, a.seller AS seller, a.expires AS expires, b.bidder AS bidder, b.price AS price,
  b.ts AS sold, ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts) AS rownum
FROM auction {all} a, bid {all} b WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires"""

QUERIES = {
    # The average price of the last ten auctions of each seller.
    "q6": f"""SELECT seller, avg(price) AS price FROM (
  SELECT seller, price, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY expires DESC, id) AS latest
  FROM ({WINNING}) WHERE rownum <= 1) WHERE latest <= 10 GROUP BY seller""",
    # The winning bid of each auction.
    "q9": f"SELECT id, seller, bidder, price, sold FROM ({WINNING}) WHERE rownum <= 1",
    # The last bid of each bidder on each auction.
    "q18": """SELECT auction, bidder, price, ts FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) AS rownum FROM bid) WHERE rownum <= 1""",
    # The ten highest bids on each auction.
    "q19": """SELECT auction, bidder, price, ts, rownum FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, ts) AS rownum FROM bid) WHERE rownum <= 10""",
}


def events(count: int, rng: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Auctions, and bids on those that were opened a short while ago."""
    auctions: list[dict[str, Any]] = []
    bids: list[dict[str, Any]] = []
    for t in range(count):
        if t % 12 == 0:
            opened = {"ts": t, "id": len(auctions), "seller": rng.randint(0, 3), "expires": t + rng.randint(5, 90)}
            auctions.append(opened)
        else:
            auction = rng.randrange(max(0, len(auctions) - 6), len(auctions))
            bids.append({"ts": t, "auction": auction, "bidder": rng.randint(0, 9), "price": rng.randint(1, 60)})
    return auctions, bids


@pytest.mark.parametrize("name", QUERIES)
def test_the_last_relation_is_duckdbs(name: str) -> None:
    auctions, bids = events(1200, random.Random(name))
    session = ed.Session()
    session.stream("auction", auctions, timestamp="ts")
    session.stream("bid", bids, timestamp="ts")
    answer: Counter[tuple[Any, ...]] = Counter()
    for row in session.query(QUERIES[name].replace("{all}", "[ROWS UNBOUNDED]")).to_arrow().to_pylist():
        sign, _ = row.pop("_sign"), row.pop("_time")
        answer[tuple(row.values())] += sign
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("auction", pa.Table.from_pylist(auctions))
        connection.register("bid", pa.Table.from_pylist(bids))
        theirs = Counter(connection.execute(QUERIES[name].replace("{all}", "")).fetchall())
    assert +answer == theirs
    assert len(theirs) >= (4 if name == "q6" else 90)
