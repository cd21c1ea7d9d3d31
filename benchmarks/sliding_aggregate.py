"""Averages, extremes and sums of the last minute for each symbol, anew at every change: 2 million trades."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.harness import Contest, Limit, Measured, Options, Paths, at_least_events, eddyline, trades

EVENTS = 2_000_000
QUERY = """SELECT Istream(symbol, avg(price), min(price), max(price), sum(size))
FROM trades [RANGE 60 SECONDS] GROUP BY symbol"""


def data(options: Options) -> Paths:
    return trades(options.scaled(EVENTS))


def check(options: Options, paths: Paths, results: Mapping[str, Any]) -> str:
    """The last row shown of each symbol is what a batch query over the last minute computes."""
    import duckdb

    ours = results["eddyline"]
    latest = {row["symbol"]: row for row in ours.slice(max(0, len(ours) - 50_000)).to_pylist()}
    batch = duckdb.sql(
        f"""SELECT symbol, avg(price), min(price), max(price), sum(size)::BIGINT FROM read_parquet('{paths["trades"]}')
        WHERE ts >= (SELECT max(ts) FROM read_parquet('{paths["trades"]}')) - INTERVAL 60 SECONDS GROUP BY symbol"""
    ).fetchall()
    for symbol, average, *exact in batch:
        _, shown, *rest = list(latest[symbol].values())[:5]
        if rest != exact or abs(shown - average) > 1e-9 * abs(average):
            raise AssertionError(f"{symbol}: {latest[symbol]} instead of {average}, {exact}")
    return f"checked: the last row of all {len(batch)} symbols, against DuckDB"


def limits(contest: Contest, options: Options, m: Mapping[str, Measured]) -> list[Limit]:
    return [at_least_events(contest, options, m["eddyline"], 1_000_000)]


CONTEST = Contest(
    "sliding-aggregate",
    "avg, min, max, sum over 60 s for each of 200 symbols, 2 M trades",
    EVENTS,
    data,
    (eddyline(QUERY),),
    check,
    limits,
    compiles=True,
)
