"""The ten highest bids of each auction, as they change: 1 million bids; beside the self-join that counts better bids.

The self-join is what one writes without ranks: a bid is among the first ten if fewer than ten are better. It compares
every pair of bids of an auction, so it gets a slice of the stream, and both are measured on that slice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import Contest, Contestant, Limit, Measured, Options, Paths, Run, cached, eddyline, ratio

EVENTS = 1_000_000
SLICE = 20_000  # of the bids, for the self-join
AUCTIONS = 2_000
TOP_N = """SELECT auction, price, bidder, rank FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank FROM bids) WHERE rank <= 10"""
SELF_JOIN = """SELECT b.auction, b.price, b.bidder, count(*) AS rank
FROM bids [ROWS UNBOUNDED] b, bids [ROWS UNBOUNDED] c
WHERE b.auction = c.auction AND (c.price > b.price OR (c.price = b.price AND c.ts <= b.ts))
GROUP BY b.ts, b.auction, b.price, b.bidder HAVING count(*) <= 10"""


def bids(count: int, auctions: int = AUCTIONS) -> dict[str, Path]:
    def make() -> dict[str, Any]:
        import numpy as np
        import pyarrow as pa

        rng = np.random.default_rng(19)
        return {
            "bids": pa.table(
                {
                    "ts": np.arange(count),
                    "auction": rng.integers(0, auctions, count),
                    "price": rng.integers(1, 1_000_000, count),
                    "bidder": rng.integers(0, 10_000, count),
                }
            )
        }

    return cached(f"bids-{count}-{auctions}", make)


def data(options: Options) -> Paths:
    return {**bids(options.scaled(EVENTS)), "slice": bids(options.scaled(SLICE), AUCTIONS // 50)["bids"]}


def on(name: str, text: str, which: str) -> Contestant:
    """A query over the bids, or over the slice of them."""

    def open(paths: Paths) -> Run:
        return eddyline(text).open({"bids": paths[which]})

    return Contestant(name, text, open)


def check(options: Options, paths: Paths, results: Mapping[str, Any]) -> str:
    import duckdb

    found = [(name, last(results[name]), last(results[name]) == batch(duckdb, paths[which])) for name, which in CHECKED]
    for name, _, same in found:
        if not same:
            raise AssertionError(f"{name}: the last relation is not DuckDB's")
    return f"checked: the last relation of {', '.join(n for n, _, _ in found)}, against DuckDB"


CHECKED = (("eddyline", "bids"), ("top-n of the slice", "slice"), ("self-join of the slice", "slice"))


def last(changes: Any) -> Counter[Any]:
    """The relation that the changes lead to."""
    rows: Counter[Any] = Counter()
    for row in changes.to_pylist():
        rows[row["auction"], row["price"], row["bidder"], row["rank"]] += row["_sign"]
    return +rows


def batch(duckdb: Any, path: Path) -> Counter[Any]:
    text = f"""SELECT * FROM (SELECT auction, price, bidder,
      ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, ts) AS r FROM read_parquet('{path}'))
      WHERE r <= 10"""
    return Counter(duckdb.sql(text).fetchall())


def limits(contest: Contest, options: Options, m: Mapping[str, Measured]) -> list[Limit]:
    gain = ratio(m["self-join of the slice"], m["top-n of the slice"])
    return [Limit("self-join against top-n, on the slice", gain, 20.0, "at least")]


CONTEST = Contest(
    "top-n",
    "the ten highest bids of each of 2,000 auctions, 1 M bids",
    EVENTS,
    data,
    tuple(on(name, SELF_JOIN if "self" in name else TOP_N, which) for name, which in CHECKED),
    check,
    limits,
)
