"""A chain R.a = S.a, S.b = T.b, and a join of four streams on one key; 1.5 million events, 60 s windows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from benchmarks.harness import Contest, Options, Paths, cached, duckdb, eddyline
from benchmarks.polars_join import polars_join
from benchmarks.three_way import EVENTS, check, limits

CHAIN_QUERY = """SELECT Istream(R.a AS a, S.b AS b, R.val AS r, S.val AS s, T.val AS t)
FROM R [RANGE 60 SECONDS], S [RANGE 60 SECONDS], T [RANGE 60 SECONDS]
WHERE R.a = S.a AND S.b = T.b"""

FOUR_QUERY = """SELECT Istream(R.key AS key, R.val AS r, S.val AS s, T.val AS t, U.val AS u)
FROM R [RANGE 60 SECONDS], S [RANGE 60 SECONDS], T [RANGE 60 SECONDS], U [RANGE 60 SECONDS]
WHERE R.key = S.key AND S.key = T.key AND T.key = U.key"""


def _near(*streams: str) -> str:
    """All within a minute of each other: what windows on all streams mean for a batch."""
    pairs = combinations(streams, 2)
    return " AND ".join(
        f"{b}.ts BETWEEN {a}.ts - INTERVAL 60 SECONDS AND {a}.ts + INTERVAL 60 SECONDS" for a, b in pairs
    )


CHAIN_BATCH = f"""SELECT R.a AS a, S.b AS b, R.val AS r, S.val AS s, T.val AS t
FROM R, S, T WHERE R.a = S.a AND S.b = T.b AND {_near("R", "S", "T")}"""

FOUR_BATCH = f"""SELECT R.key AS key, R.val AS r, S.val AS s, T.val AS t, U.val AS u
FROM R, S, T, U WHERE R.key = S.key AND S.key = T.key AND T.key = U.key AND {_near("R", "S", "T", "U")}"""


def chain_data(options: Options) -> Paths:
    events, seconds = options.scaled(EVENTS), options.scaled(600)

    def make() -> Mapping[str, Any]:
        from eddyline.datasets.joins import chain

        return chain(events, seconds)

    return cached(f"chain-{events}", make)


def four_data(options: Options) -> Paths:
    events, seconds = options.scaled(EVENTS), options.scaled(600)

    def make() -> Mapping[str, Any]:
        from eddyline.datasets.joins import many_way

        return many_way(4, events, seconds)

    return cached(f"four-way-{events}", make)


def check_rows(options: Options, paths: Paths, results: Mapping[str, Any]) -> str:
    return check(Options(quick=True), paths, results)  # no pinned number, the same rows


CHAIN = Contest(
    "chain",
    "chain join R.a = S.a, S.b = T.b, 1.5 M events, 60 s windows",
    EVENTS,
    chain_data,
    (
        eddyline(CHAIN_QUERY),
        duckdb(CHAIN_BATCH),
        polars_join("R", [("S", "a"), ("T", "b")], ["a", "b", "r", "s", "t"]),
    ),
    check_rows,
    limits,
)

FOUR_WAY = Contest(
    "four-way",
    "four-way equi-join, 1.5 M events, 60 s windows",
    EVENTS,
    four_data,
    (
        eddyline(FOUR_QUERY),
        duckdb(FOUR_BATCH),
        polars_join("R", [(n, "key") for n in "STU"], ["key", "r", "s", "t", "u"]),
    ),
    check_rows,
    limits,
)
