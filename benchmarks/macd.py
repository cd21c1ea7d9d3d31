"""MACD (Pulse, 2.7.2): averages over 10 s and 60 s, both sliding by 2 s, joined, short above long; 2 million trades.

The batch engines answer it in two forms each. *Straightforward*: every slide is joined with the trades of its window
(DuckDB: a range join; Polars: ``group_by_dynamic``). *Panes*: trades are first added up for each 2 s and symbol, and
windows put together from these; one has to know the trick, and it works for sums but not for medians.
"""

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
    duckdb,
    eddyline,
    ratio,
    trades,
)

EVENTS = 2_000_000
TINY = 1e-9  # within the first 10 s both windows hold the same trades, and rounding decides which average is larger

QUERY = """select symbol, S.ap - L.ap as diff from
  (select symbol, avg(price) as ap from trades [size 10 advance 2]) as S
join
  (select symbol, avg(price) as ap from trades [size 60 advance 2]) as L
on (S.symbol = L.symbol)
where S.ap > L.ap"""

_FIRST, _LAST = "time_bucket(INTERVAL 2 SECONDS, min(ts))", "time_bucket(INTERVAL 2 SECONDS, max(ts))"
STRAIGHT = f"""WITH slides AS (
  SELECT unnest(generate_series({_FIRST}, {_LAST}, INTERVAL 2 SECONDS)) AS e FROM trades),
s AS (SELECT e, symbol, avg(price) AS ap FROM slides JOIN trades ON ts > e - INTERVAL 10 SECONDS AND ts <= e
      GROUP BY e, symbol),
l AS (SELECT e, symbol, avg(price) AS ap FROM slides JOIN trades ON ts > e - INTERVAL 60 SECONDS AND ts <= e
      GROUP BY e, symbol)
SELECT e, symbol, s.ap - l.ap AS diff FROM s JOIN l USING (e, symbol) WHERE s.ap > l.ap"""

PANES = f"""WITH panes AS (
  SELECT symbol, time_bucket(INTERVAL 2 SECONDS, ts - INTERVAL 1 MICROSECOND) + INTERVAL 2 SECONDS AS e,
         sum(price) AS total, count(price) AS n FROM trades GROUP BY ALL),
slides AS (SELECT DISTINCT e FROM panes WHERE e <= (SELECT {_LAST} FROM trades)),
s AS (SELECT slides.e, symbol, sum(total) / sum(n) AS ap
      FROM slides JOIN panes p ON p.e > slides.e - INTERVAL 10 SECONDS AND p.e <= slides.e GROUP BY ALL),
l AS (SELECT slides.e, symbol, sum(total) / sum(n) AS ap
      FROM slides JOIN panes p ON p.e > slides.e - INTERVAL 60 SECONDS AND p.e <= slides.e GROUP BY ALL)
SELECT e, symbol, s.ap - l.ap AS diff FROM s JOIN l USING (e, symbol) WHERE s.ap > l.ap"""


def data(options: Options) -> Paths:
    return trades(options.scaled(EVENTS))


def polars_straight(paths: Paths) -> Run:
    import polars as pl

    def average(period: str) -> pl.LazyFrame:
        rows = pl.scan_parquet(paths["trades"]).select("ts", "symbol", "price")
        # Windows that begin before the first trade count as well: start a period earlier.
        window = rows.group_by_dynamic(
            "ts", every="2s", period=period, offset=f"-{period}", closed="right", label="right", group_by="symbol"
        )
        return window.agg(ap=pl.col("price").mean())

    return lambda: _above(average("10s"), average("60s"), "ts")


def polars_panes(paths: Paths) -> Run:
    import polars as pl

    tick = pl.duration(microseconds=1)

    def run() -> Any:
        rows = pl.scan_parquet(paths["trades"]).select("ts", "symbol", "price")
        pane = (pl.col("ts") - tick).dt.truncate("2s").dt.offset_by("2s").alias("e")
        panes = rows.group_by(pane, "symbol").agg(total=pl.col("price").sum(), n=pl.len()).sort("e")

        def average(period: str) -> pl.LazyFrame:
            window = panes.rolling("e", period=period, closed="right", group_by="symbol")
            return window.agg(ap=pl.col("total").sum() / pl.col("n").sum())

        return _above(average("10s"), average("60s"), "e")

    return run


def _above(short: Any, long: Any, time: str) -> Any:
    import polars as pl

    both = short.join(long, on=[time, "symbol"], suffix="_long").filter(pl.col("ap") > pl.col("ap_long"))
    return both.select(e=time, symbol="symbol", diff=pl.col("ap") - pl.col("ap_long")).collect().to_arrow()


def check(options: Options, paths: Paths, results: Mapping[str, Any]) -> str:
    """Our changes, added up, hold at every slide the rows of the batch answer (but those that rounding decides)."""
    import duckdb

    c = duckdb.connect()
    c.register("ours", results["eddyline"])
    c.register("batch", results["DuckDB panes"])
    c.execute("CREATE TABLE slides AS SELECT DISTINCT e FROM batch")
    c.execute(f"CREATE TABLE answer AS SELECT * FROM batch WHERE abs(diff) > {TINY}")
    c.execute(  # each of our rows at all slides between its insertion and its deletion
        f"""CREATE TABLE shown AS SELECT e, symbol, diff FROM slides JOIN (
            SELECT *, lead(_time) OVER (PARTITION BY symbol ORDER BY _time, _sign) AS until FROM ours
            QUALIFY _sign = 1 AND abs(diff) > {TINY}) ON _time <= e AND (until IS NULL OR e < until)"""
    )
    differing = c.sql(
        """SELECT * FROM answer a FULL JOIN shown s USING (e, symbol)
           WHERE a.diff IS NULL OR s.diff IS NULL OR abs(a.diff - s.diff) > 1e-6"""
    ).fetchall()
    if differing:
        raise AssertionError(f"{len(differing)} rows differ from DuckDB's, the first: {differing[0]}")
    ((slides, rows),) = c.sql("SELECT (SELECT count(*) FROM slides), (SELECT count(*) FROM answer)").fetchall()
    return f"checked: the relation at all {slides:,} slides, {rows:,} rows in all, against DuckDB"


def limits(contest: Contest, options: Options, m: Mapping[str, Measured]) -> list[Limit]:
    return [Limit("time against DuckDB, straightforward", ratio(m["eddyline"], m["DuckDB"]), 1.0)]


CONTEST = Contest(
    "macd",
    "MACD: 10 s and 60 s averages sliding by 2 s, joined, 2 M trades",
    EVENTS,
    data,
    (
        eddyline(QUERY),
        duckdb(STRAIGHT),
        duckdb(PANES, "DuckDB panes"),
        Contestant(
            "Polars", "group_by_dynamic(every='2s', period=…) for both windows, joined, filtered", polars_straight
        ),
        Contestant("Polars panes", "group_by 2 s panes, rolling sums of panes, joined, filtered", polars_panes),
    ),
    check,
    limits,
    compiles=True,
)
