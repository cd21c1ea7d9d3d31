"""A plain filter and projection: what the engine costs when there is nothing to keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.harness import Contest, Limit, Measured, Options, Paths, at_least_events, duckdb, eddyline, trades

EVENTS = 2_000_000
QUERY = "SELECT Istream(symbol, price * size AS value) FROM trades WHERE size > 500"
BATCH = "SELECT symbol, price * size AS value, ts FROM trades WHERE size > 500"


def data(options: Options) -> Paths:
    return trades(options.scaled(EVENTS))


def check(options: Options, paths: Paths, results: Mapping[str, Any]) -> str:
    ours, theirs = results["eddyline"], results["DuckDB"]
    if not ours.rename_columns(theirs.column_names).equals(theirs):
        raise AssertionError("other rows than DuckDB")
    return f"checked: {len(ours):,} results, the same rows in the same order as DuckDB's"


def limits(contest: Contest, options: Options, m: Mapping[str, Measured]) -> list[Limit]:
    return [at_least_events(contest, options, m["eddyline"], 5_000_000)]


CONTEST = Contest(
    "filter-project",
    "filter and project, 2 M trades",
    EVENTS,
    data,
    (eddyline(QUERY), duckdb(BATCH)),
    check,
    limits,
)
