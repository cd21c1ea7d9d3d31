"""Each trade with the last quote of its symbol: 1.7 million trades and 5.7 million quotes of a day, where the real sets
are at hand; otherwise as many generated ones. Beside the as-of joins of Polars and DuckDB, over the same files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.harness import (
    Contest,
    Contestant,
    Limit,
    Measured,
    Options,
    Paths,
    Run,
    cached,
    duckdb,
    eddyline,
    ratio,
)

TRADES, QUOTES = 1_684_116, 5_690_227
QUERY = """SELECT t.ts, t.symbol, t.price, q.bid, q.ask FROM stock_trades t
ASOF JOIN stock_quotes q ON t.symbol = q.symbol AND q.ts <= t.ts"""


def data(options: Options) -> Paths:
    from eddyline.datasets import real

    names = ("stock_trades", "stock_quotes")
    if set(names) <= set(real.available()) and not options.quick:
        return {n: real.path(n) for n in names}
    return generated(options.scaled(TRADES), options.scaled(QUOTES))


def generated(trades: int, quotes: int) -> Paths:
    def make() -> dict[str, Any]:
        import numpy as np
        import pyarrow as pa

        rng = np.random.default_rng(11)
        symbols = np.array([f"S{i}" for i in range(12)])

        def stamps(count: int) -> Any:
            return pa.array(np.sort(rng.integers(0, 23_400_000, count)) * 1000, pa.timestamp("us"))

        def prices(count: int) -> Any:
            return np.round(rng.uniform(10, 500, count), 2)

        return {
            "stock_trades": pa.table(
                {"ts": stamps(trades), "symbol": rng.choice(symbols, trades), "price": prices(trades)}
            ),
            "stock_quotes": pa.table(
                {
                    "ts": stamps(quotes),
                    "symbol": rng.choice(symbols, quotes),
                    "bid": prices(quotes),
                    "ask": prices(quotes),
                }
            ),
        }

    return cached(f"trades-and-quotes-{trades}-{quotes}", make)


def polars() -> Contestant:
    text = 'trades.join_asof(quotes, on="ts", by="symbol")'

    def open(paths: Paths) -> Run:
        import polars as pl

        def run() -> Any:
            trades = pl.scan_parquet(paths["stock_trades"]).select("ts", "symbol", "price").set_sorted("ts")
            quotes = pl.scan_parquet(paths["stock_quotes"]).select("ts", "symbol", "bid", "ask").set_sorted("ts")
            joined = trades.join_asof(quotes, on="ts", by="symbol").filter(pl.col("bid").is_not_null())
            return joined.collect().to_arrow()

        return run

    return Contestant("Polars", text, open)


def check(options: Options, paths: Paths, results: Mapping[str, Any]) -> str:
    """Row by row as Polars, which takes the last of several quotes of an instant, too; DuckDB takes any of them."""
    ours, theirs, other = (results[n] for n in ("eddyline", "Polars", "DuckDB"))
    for name in ("bid", "ask"):
        same = ours.column(name).combine_chunks().equals(theirs.column(name).combine_chunks())
        if not same:
            raise AssertionError(f"{name}: not Polars's")
    if len(ours) != len(other):
        raise AssertionError(f"{len(ours):,} results instead of DuckDB's {len(other):,}")
    return f"checked: bid and ask of all {len(ours):,} results against Polars, their number against DuckDB"


def limits(contest: Contest, options: Options, m: Mapping[str, Measured]) -> list[Limit]:
    return [Limit("time against Polars", ratio(m["eddyline"], m["Polars"]), 2.0)]


CONTEST = Contest(
    "as-of",
    "1.7 M trades, each with the last of 5.7 M quotes of its symbol",
    TRADES + QUOTES,
    data,
    (eddyline(QUERY), polars(), duckdb(QUERY)),
    check,
    limits,
)
