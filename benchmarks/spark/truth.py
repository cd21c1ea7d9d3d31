"""How many results there must be: a batch query in DuckDB over the same files."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from benchmarks.macd import PANES, TINY
from benchmarks.spark.configuration import Configuration

STREAMS = {
    "three-way": (("R", "S", "T"), "R.key = S.key AND S.key = T.key"),
    "four-way": (("R", "S", "T", "U"), "R.key = S.key AND S.key = T.key AND T.key = U.key"),
    "chain": (("R", "S", "T"), "R.a = S.a AND S.b = T.b"),
}


def expected(c: Configuration, folder: Path, closed: int) -> int:
    """The results before the instant ``closed`` (microseconds)."""
    import duckdb

    connection = duckdb.connect()
    names = {"macd": ("trades",), "skewed": ("R", "S", "T", "U", "V")}.get(c.workload) or STREAMS[c.workload][0]
    for n in names:
        connection.execute(
            f"CREATE VIEW {n} AS SELECT * REPLACE (ts::TIMESTAMP AS ts) FROM read_parquet('{folder / n}/*.parquet')"
        )
    ((count,),) = connection.sql(question(c, closed)).fetchall()
    return int(count)


def question(c: Configuration, closed: int) -> str:
    """
    >>> print(question(Configuration("chain", "ours", 1000, 100), 7))
    SELECT count(*) FROM R, S, T WHERE R.a = S.a AND S.b = T.b
      AND abs(epoch_us(R.ts) - epoch_us(S.ts)) <= 60000000
      AND abs(epoch_us(R.ts) - epoch_us(T.ts)) <= 60000000
      AND abs(epoch_us(S.ts) - epoch_us(T.ts)) <= 60000000
      AND epoch_us(greatest(R.ts, S.ts, T.ts)) < 7
    """
    if c.workload == "skewed":
        from benchmarks.spark import skewed

        return skewed.question(c, closed)
    if c.workload == "macd":
        return f"SELECT count(*) FROM ({PANES}) WHERE diff > {TINY} AND epoch_us(e) < {closed}"
    names, equal = STREAMS[c.workload]
    width = c.window * 1_000_000
    near = [f"abs(epoch_us({a}.ts) - epoch_us({b}.ts)) <= {width}" for a, b in combinations(names, 2)]
    last = f"epoch_us(greatest({', '.join(f'{n}.ts' for n in names)})) < {closed}"
    return "\n  AND ".join([f"SELECT count(*) FROM {', '.join(names)} WHERE {equal}", *near, last])
