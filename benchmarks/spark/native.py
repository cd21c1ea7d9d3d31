"""Spark's own operators in the fastest form found.

A chain of stream-stream interval joins is refused as long as more than one event-time column flows into a stateful
operator (``MULTIPLE_EVENT_TIME_COLUMNS``): after each join only R's time stays a timestamp, and the others go on as
numbers, microseconds. Windows over all streams mean that all times are within the window of each other, pairwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyspark.sql.functions as F

Frame = Any  # pyspark.sql.DataFrame, classic or Connect
#: streams in the order in which they are joined; with each the equality, and the column that is then there twice
ON: dict[str, dict[str, tuple[str, str]]] = {
    "three-way": {"S": ("keyR = keyS", "keyS"), "T": ("keyR = keyT", "keyT")},
    "four-way": {"S": ("keyR = keyS", "keyS"), "T": ("keyR = keyT", "keyT"), "U": ("keyR = keyU", "keyU")},
    "chain": {"S": ("aR = aS", "aS"), "T": ("bS = bT", "bT")},
}


def join(streams: Mapping[str, Frame], on: Mapping[str, tuple[str, str]], window: int) -> Frame:
    """The columns of all streams, each named after its stream (``keyR``, ``valS``); times but R's in microseconds."""
    named = {n: df.toDF(*(c + n for c in df.columns)).withWatermark(f"ts{n}", "0 seconds") for n, df in streams.items()}
    joined, done = named["R"], []
    for name, (equal, twice) in on.items():
        near = [
            f"ts{name} >= tsR - interval {window} seconds",
            f"ts{name} <= tsR + interval {window} seconds",
            *(f"abs(unix_micros(ts{name}) - micros{other}) <= {window * 1_000_000}" for other in done),
        ]
        joined = joined.join(named[name], F.expr(" and ".join([equal, *near])))
        joined = joined.withColumn(f"micros{name}", F.unix_micros(f"ts{name}")).drop(f"ts{name}", twice)
        done.append(name)
    return joined


def times(names: Sequence[str]) -> list[Any]:
    """The times of a result of ``join``, in microseconds."""
    first, *others = names
    return [F.unix_micros(f"ts{first}"), *(F.col(f"micros{n}") for n in others)]


# ── averages over 10 s and over 60 s, every 2 s, where the short one is above the long one ─────────────────────────

TINY = 1e-9  # within the first 10 s both windows hold the same trades, and rounding decides which average is larger
Checked = tuple[Frame, Any, Any]  # the frame, the instant of a row, what its checksum adds up


def _shifted(trades: Frame) -> Frame:
    """A window of ours ends with its slide, e − w < ts ≤ e; one of Spark's before it, e − w ≤ ts < e: 1 µs earlier."""
    at = F.col("ts") - F.expr("interval 1 microsecond")
    return trades.select(at.alias("at"), "symbol", "price").withWatermark("at", "0 seconds")


def _above(averages: Frame) -> Checked:
    diff = F.col("short") - F.col("long")
    above = averages.where("short > long").select("e", "symbol", diff.alias("diff"))
    return above, F.unix_micros("e") + 1, F.when(F.col("diff") > TINY, F.col("diff"))


def macd_joined(trades: Frame) -> Checked:
    """As one would write it: two windowed aggregates, joined on symbol and end of window."""

    def average(seconds: int, name: str) -> Frame:
        window = F.window("at", f"{seconds} seconds", "2 seconds").alias("w")
        grouped = _shifted(trades).groupBy(window, "symbol").agg(F.avg("price").alias(name))
        return grouped.select(F.window_time("w").alias(f"e_{name}"), F.col("symbol").alias(f"symbol_{name}"), name)

    both = average(10, "short").join(average(60, "long"), F.expr("symbol_short = symbol_long and e_short = e_long"))
    return _above(both.select(F.col("e_short").alias("e"), F.col("symbol_short").alias("symbol"), "short", "long"))


def macd_folded(trades: Frame) -> Checked:
    """One aggregate over the long window; the short average is that of its last 10 s. One has to see that it nests."""
    windowed = _shifted(trades).select(F.window("at", "60 seconds", "2 seconds").alias("w"), "at", "symbol", "price")
    recent = F.expr("at >= w.end - interval 10 seconds")
    grouped = windowed.groupBy("w", "symbol").agg(
        F.avg(F.when(recent, F.col("price"))).alias("short"), F.avg("price").alias("long")
    )
    return _above(grouped.select(F.window_time("w").alias("e"), "symbol", "short", "long"))


def macd_panes(trades: Frame) -> Checked:
    """Panes of 2 s first, windows put together from their sums: the trick for sums and counts, useless for medians."""
    panes = _shifted(trades).groupBy(F.window("at", "2 seconds").alias("p"), "symbol")
    panes = panes.agg(F.sum("price").alias("total"), F.count("price").alias("n"))
    timed = panes.select(F.window_time("p").alias("at"), "symbol", "total", "n")
    windowed = timed.select(F.window("at", "60 seconds", "2 seconds").alias("w"), "at", "symbol", "total", "n")
    recent = F.expr("at >= w.end - interval 10 seconds")
    grouped = windowed.groupBy("w", "symbol").agg(
        (F.sum(F.when(recent, F.col("total"))) / F.sum(F.when(recent, F.col("n")))).alias("short"),
        (F.sum("total") / F.sum("n")).alias("long"),
    )
    return _above(grouped.select(F.window_time("w").alias("e"), "symbol", "short", "long"))


MACD = {"native": macd_joined, "native-folded": macd_folded, "native-panes": macd_panes}
