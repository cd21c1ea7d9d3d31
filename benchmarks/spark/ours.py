"""Our side: DataFrames in, a DataFrame out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyspark.sql.functions as F

from benchmarks.spark import skewed
from benchmarks.spark.configuration import Configuration
from benchmarks.spark.native import TINY, Checked

CHAIN = """SELECT Istream(R.a AS a, S.b AS b, R.ts AS R_ts, S.ts AS S_ts, T.ts AS T_ts,
                          R.val AS R_val, S.val AS S_val, T.val AS T_val)
FROM R [RANGE {0} SECONDS], S [RANGE {0} SECONDS], T [RANGE {0} SECONDS]
WHERE R.a = S.a AND S.b = T.b"""

MACD = """SELECT Istream(S.symbol AS symbol, S.ap - L.ap AS diff) FROM
  (SELECT symbol, avg(price) AS ap FROM trades [size 10 advance 2] GROUP BY symbol) AS S
JOIN
  (SELECT symbol, avg(price) AS ap FROM trades [size 60 advance 2] GROUP BY symbol) AS L
ON (S.symbol = L.symbol)
WHERE S.ap > L.ap"""


def text(c: Configuration, columns: Mapping[str, Sequence[str]]) -> str:
    """The query of a workload, given the columns of its streams."""

    from eddyline.spark import frames

    if c.workload in ("three-way", "four-way"):
        return frames.join_text(columns, ["key"], f"{c.window} seconds")
    return {"chain": CHAIN.format(c.window), "macd": MACD}.get(c.workload) or skewed.text(c)


def over_frames(c: Configuration, streams: Mapping[str, Any]) -> Any:
    import eddyline.spark as eds

    asked = text(c, {n: df.columns for n, df in streams.items()})
    return eds.query(asked, dict(streams), timestamp="ts", shards=c.shards)


def over_paths(spark: Any, c: Configuration, folders: Mapping[str, str], columns: Mapping[str, Sequence[str]]) -> Any:
    """As the command line runs it: our own readers, so that no row passes through Java before it is packed."""
    import eddyline as ed

    session = ed.Session(spark, shards=c.shards, rows_per_batch=c.batch)
    for name, folder in folders.items():
        session.stream(name, f"{folder}/*.parquet", timestamp="ts")
    return session.query(text(c, columns)).dataframe()


def column(stream: str, name: str) -> str:
    return f"{stream}_{name}"


def times(names: Sequence[str]) -> list[Any]:
    """The times of a result, in microseconds."""
    return [F.unix_micros(column(n, "ts")) for n in names]


def above(averages: Any) -> Checked:
    return averages, F.unix_micros("_time"), F.when(F.col("diff") > TINY, F.col("diff"))
