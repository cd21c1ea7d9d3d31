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


def join(c: Configuration, streams: Mapping[str, Any]) -> Any:
    import eddyline.spark as eds

    if c.workload == "skewed":
        return skewed.ours(c, streams)
    if c.workload == "chain":
        return eds.query(CHAIN.format(c.window), dict(streams), timestamp="ts", shards=c.shards)
    return eds.window_join(dict(streams), on="key", within=f"{c.window} seconds", timestamp="ts", shards=c.shards)


def column(stream: str, name: str) -> str:
    return f"{stream}_{name}"


def times(names: Sequence[str]) -> list[Any]:
    """The times of a result, in microseconds."""
    return [F.unix_micros(column(n, "ts")) for n in names]


def macd(c: Configuration, streams: Mapping[str, Any]) -> Checked:
    import eddyline.spark as eds

    above = eds.query(MACD, dict(streams), timestamp="ts", shards=c.shards)
    return above, F.unix_micros("_time"), F.when(F.col("diff") > TINY, F.col("diff"))
