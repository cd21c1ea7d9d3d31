"""A plain filter and projection: what the engine costs when there is nothing to keep."""

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
    at_least_events,
    duckdb,
    eddyline,
    trades,
)

EVENTS = 2_000_000
QUERY = "SELECT Istream(symbol, price * size AS value) FROM trades WHERE size > 500"
BATCH = "SELECT symbol, price * size AS value, ts FROM trades WHERE size > 500"


def data(options: Options) -> Paths:
    return trades(options.scaled(EVENTS))


def polars(paths: Paths) -> Run:
    import polars as pl

    def run() -> Any:
        trades = pl.scan_parquet(paths["trades"]).filter(pl.col("size") > 500)
        return trades.select("symbol", (pl.col("price") * pl.col("size")).alias("value"), "ts").collect().to_arrow()

    return run


def check(options: Options, paths: Paths, results: Mapping[str, Any]) -> str:
    ours, theirs = results["eddyline"], results["DuckDB"]
    if not ours.rename_columns(theirs.column_names).equals(theirs):
        raise AssertionError("other rows than DuckDB")
    if not results["Polars"].cast(theirs.schema).equals(theirs):
        raise AssertionError("other rows than Polars")
    return f"checked: {len(ours):,} results, the same rows in the same order as DuckDB and Polars"


def limits(contest: Contest, options: Options, m: Mapping[str, Measured]) -> list[Limit]:
    return [at_least_events(contest, options, m["eddyline"], 5_000_000)]


CONTEST = Contest(
    "filter-project",
    "filter and project, 2 M trades",
    EVENTS,
    data,
    (eddyline(QUERY), duckdb(BATCH), Contestant("Polars", "filter(size > 500).select(…)", polars)),
    check,
    limits,
)
