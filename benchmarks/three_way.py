"""Three streams joined on a key within a minute: 1.5 million events over 600 s, 100,000 keys."""

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
from benchmarks.polars_join import polars_join

EVENTS = 1_500_000
RESULTS = 350_894  # of the full data; the generator and its seed are pinned

FROM = """FROM R [RANGE 60 SECONDS], S [RANGE 60 SECONDS], T [RANGE 60 SECONDS]
WHERE R.key = S.key AND S.key = T.key"""
QUERY = f"SELECT Istream(R.key AS key, R.val AS r, S.val AS s, T.val AS t)\n{FROM}"
EVERYTHING = f"SELECT Istream(*)\n{FROM}"

BATCH_FROM = """FROM R JOIN S ON R.key = S.key
                               AND S.ts BETWEEN R.ts - INTERVAL 60 SECONDS AND R.ts + INTERVAL 60 SECONDS
       JOIN T ON S.key = T.key AND T.ts BETWEEN R.ts - INTERVAL 60 SECONDS AND R.ts + INTERVAL 60 SECONDS
                               AND T.ts BETWEEN S.ts - INTERVAL 60 SECONDS AND S.ts + INTERVAL 60 SECONDS"""
BATCH = f"SELECT R.key AS key, R.val AS r, S.val AS s, T.val AS t\n{BATCH_FROM}"
BATCH_EVERYTHING = f"SELECT R.*, S.*, T.*\n{BATCH_FROM}"


def data(options: Options) -> Paths:
    events, seconds = options.scaled(EVENTS), options.scaled(600)

    def make() -> Mapping[str, Any]:
        from eddyline.datasets.joins import three_way

        return three_way(events, seconds)

    return cached(f"three-way-{events}", make)


def reading(paths: Paths) -> Run:
    import pyarrow.parquet as pq

    def run() -> int:
        return sum(pq.read_table(p, columns=["ts", "key", "val"]).num_rows for p in paths.values())

    return run


def bare(paths: Paths) -> Run:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from benchmarks.bare_kernel import laid_out
    from benchmarks.bare_kernel import run as join

    tables = [pq.read_table(p) for p in paths.values()]
    times = [t["ts"].combine_chunks().cast(pa.int64()).to_numpy() for t in tables]
    keys = [t["key"].combine_chunks().to_numpy() for t in tables]
    streams = laid_out(times, keys)
    return lambda: join(*streams, 60_000_000, 1 << 19).shape[1]


def check(options: Options, paths: Paths, results: Mapping[str, Any]) -> str:
    ours = results["eddyline"]
    counts = {n: r if isinstance(r, int) else r.num_rows for n, r in results.items() if n != "reading"}
    if len(set(counts.values())) != 1 or (not options.quick and ours.num_rows != RESULTS):
        raise AssertionError(f"different numbers of results: {counts}")
    if "_time" in ours.column_names:
        ours = ours.drop_columns(["_time"])
    keys = [(n, "ascending") for n in ours.column_names]
    ordered = ours.sort_by(keys)
    peers = [n for n in ("DuckDB", "Polars") if n in results]
    for name in peers:
        theirs = results[name].rename_columns(ours.column_names).cast(ours.schema)
        if not ordered.equals(theirs.sort_by(keys)):
            raise AssertionError(f"other rows than {name}")
    return f"checked: {ours.num_rows:,} results, the same rows as {' and '.join(peers)}"


def limits(contest: Contest, options: Options, m: Mapping[str, Measured]) -> list[Limit]:
    ours = m["eddyline"]
    peers = [n for n in ("DuckDB", "Polars") if n in m]
    found = [Limit(f"time against the batch join of {n}", ratio(ours, m[n]), 2.0) for n in peers]
    if "bare kernel" in m:
        found.append(Limit("time against bare kernel + reading", ratio(ours, m["bare kernel"], m["reading"]), 3.0))
    return found


CONTEST = Contest(
    "three-way",
    "three-way windowed equi-join, 1.5 M events, 60 s windows",
    EVENTS,
    data,
    (
        eddyline(QUERY),
        duckdb(BATCH),
        polars_join("R", [("S", "key"), ("T", "key")], ["key", "r", "s", "t"]),
        Contestant("bare kernel", "benchmarks/bare_kernel.py", bare),
        Contestant("reading", "pyarrow.parquet.read_table, the three files one after another", reading),
    ),
    check,
    limits,
    compiles=True,
)

ALL_COLUMNS = Contest(
    "three-way-all",
    "the same join with all columns, SELECT Istream(*)",
    EVENTS,
    data,
    (eddyline(EVERYTHING), duckdb(BATCH_EVERYTHING)),
    check,
    limits,
)
