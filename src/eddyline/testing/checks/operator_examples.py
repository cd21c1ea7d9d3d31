"""Queries that between them use every operator of the package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa

from eddyline.operators.base import Operator
from eddyline.testing.checks.operators import OperatorExample, QueryExample, record

ROWS = 60
EXAMPLES_PER_CLASS = 3  # the plain operators occur in every query

_TEXTS = (
    # windows, aggregates, projections
    "SELECT a, count(*) AS n, max(v) AS m FROM S [RANGE 6] GROUP BY a",
    "SELECT count(*) AS n FROM S [ROWS 4]",
    "SELECT a, sum(v) AS n FROM S [PARTITION BY a ROWS 2] GROUP BY a",
    "SELECT a, sum(v) AS n FROM S [RANGE 8 SLIDE 4] GROUP BY a",
    "SELECT a, min(d) AS low, first(v) AS f, count(DISTINCT v) AS n FROM S [RANGE 7 SLIDE 3] GROUP BY a",
    "SELECT Istream(a + 1 AS b) FROM S WHERE v > 2",
    "SELECT Dstream(a, v) FROM S [RANGE 3]",
    "SELECT Rstream(a, v) FROM S [RANGE 3]",
    "SELECT count(*) AS n FROM (SELECT Istream(a) FROM S [RANGE 2]) AS X [ROWS 3]",
    # windows that close, ranks and as-of joins
    "SELECT a, count(*) AS n FROM S [TUMBLE 5] GROUP BY a",
    "SELECT Wstream(a, window_end, count(*) AS n) FROM S [HOP 6 EVERY 3] GROUP BY a, window_end",
    "SELECT Wstream(a, window_end, sum(v) AS s) FROM S [SESSION 2 GAP PARTITION BY a] GROUP BY a, window_end",
    "SELECT Wstream(S.v, T.v AS w) FROM S [TUMBLE 4], T [TUMBLE 4] WHERE S.a = T.a",
    "SELECT a, v FROM S [UNTIL v]",
    "SELECT a, window_start, v FROM S [TUMBLE 4]",
    "SELECT a, v FROM S [RANGE 6] ORDER BY v DESC, a LIMIT 3",
    "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY v) AS rn FROM S [RANGE 6]) x WHERE rn <= 2",
    "SELECT S.v, T.v AS w FROM S [RANGE 5], T [ROWS 4] WHERE S.a = T.a ORDER BY S.b LIMIT 2",
    "SELECT Istream(S.v, T.v AS w) FROM S ASOF JOIN T ON S.a = T.a AND T.ts <= S.ts",
    "SELECT Istream(S.v, T.v AS w) FROM S ASOF JOIN T ON S.a = T.a AND T.ts >= S.ts WITHIN 3",
    "SELECT Istream(S.v, T.v AS w) FROM S LEFT ASOF JOIN T ON S.a = T.a AND T.ts < S.ts WITHIN 3",
    # the last rows of a partition
    "SELECT Istream(a, LAG(v) OVER (PARTITION BY a ORDER BY ts) AS w) FROM S WHERE v < 9",
    "SELECT avg(v) OVER (PARTITION BY a ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM S WHERE v < 9",
    # lists
    "SELECT a, explode(l) AS e FROM S [RANGE 4]",
    "SELECT e, count(*) AS n FROM (SELECT explode(l) AS e FROM S [ROWS 5]) GROUP BY e",
    # models
    "SELECT a, b, v, d FROM S MODEL S.d = S.d + 0.1 * t WHERE d > 0.6 SAMPLE EVERY 1 HORIZON 4 PREDICT",
    "SELECT a, max(d) AS m FROM S MODEL S.d = S.d + 0.1 * t GROUP BY a SAMPLE EVERY 2 ERROR WITHIN 0.2 PREDICT",
    "SELECT a, d FROM S WHERE d > 0.4 ERROR WITHIN 0.2 BY a MAX GAP 6 SAMPLE EVERY 1 HORIZON 5 PREDICT",
    "SELECT a, b, d FROM S WHERE d > 0.4 ERROR WITHIN 0.2 BY (a, b) MAX GAP 6 SAMPLE EVERY 1",
    "SELECT min(d) AS low FROM S [RANGE 4] ERROR WITHIN 10 % FLOOR 0.05 BY a",
    "SELECT a, b, d * d AS s, v FROM S WHERE d * v > 1 ERROR WITHIN 0.2 BY (a, b) MAX GAP 6 SAMPLE EVERY 1",
    "SELECT a, v, d FROM S MODEL S.d = S.d - 0.1 * t WHERE d > 0.3 HORIZON 5",
    "SELECT S.a, S.d - T.d AS gap FROM S MODEL S.d = S.d + 0.1 * t JOIN T MODEL T.d = T.d ON S.a = T.a SAMPLE EVERY 2",
    "SELECT a, b, v, avg(d) AS m FROM S [RANGE 6] MODEL S.d = S.d + 0.1 * t^2 GROUP BY a, b, v PARTIAL SAMPLE EVERY 3",
    # sets
    "SELECT DISTINCT a FROM S [RANGE 4]",
    "SELECT a FROM S [RANGE 4] UNION SELECT a FROM T [ROWS 3]",
    "SELECT a FROM S [RANGE 4] UNION ALL SELECT a FROM T [ROWS 3]",
    "SELECT a FROM S [RANGE 4] EXCEPT SELECT a FROM T [ROWS 3]",
    "SELECT a FROM S [RANGE 4] INTERSECT ALL SELECT a FROM T [ROWS 3]",
    # joins
    "SELECT S.v, T.v AS w FROM S [RANGE 5], T [ROWS 4] WHERE S.a = T.a",
    "SELECT S.v, T.v AS w, U.v AS x FROM S [RANGE 4], T [RANGE 3], U [ROWS 3] WHERE S.a = T.a AND T.b = U.b",
    "SELECT S.v, T.v AS w FROM S [RANGE 5] LEFT JOIN T [RANGE 4] ON S.a = T.a AND S.v < T.v",
    "SELECT S.v, T.v AS w FROM S [RANGE 5] FULL JOIN T [RANGE 4] ON S.a = T.a",
    "SELECT S.v, K.w FROM S [RANGE 5] LEFT JOIN K ON S.a = K.a",
    "SELECT S.v, K.w FROM S [RANGE 5], K WHERE S.a = K.a",
    # memberships
    "SELECT v FROM S [RANGE 5] WHERE a IN (SELECT a FROM T [RANGE 4])",
    "SELECT v FROM S [RANGE 5] WHERE a NOT IN (SELECT b FROM T [RANGE 4])",
    "SELECT v FROM S [RANGE 5] WHERE a IN (SELECT a FROM T [RANGE 4]) AND odd(b) AND v > 1",
    "SELECT v FROM S [RANGE 5] WHERE a IN (SELECT a FROM K) OR b = 1",
    "SELECT v FROM S [RANGE 5] WHERE EXISTS (SELECT b FROM T [RANGE 4] WHERE T.v > S.v)",
    "SELECT Istream(v) FROM S WHERE a IN (SELECT a FROM K)",
    "SELECT v FROM S [RANGE 5] WHERE 12 / (a + 1) > 2 AND a IN (SELECT a FROM T [RANGE 4])",
    "SELECT Rstream(v) FROM S [RANGE 5] WHERE EXISTS (SELECT a FROM T [NOW] WHERE T.a = S.a)",
    "SELECT v FROM S [RANGE 5] WHERE 6 / (a + 1) IN (SELECT b FROM T [RANGE 4])",
    "SELECT X.a, K.w FROM (SELECT DISTINCT a FROM S [RANGE UNBOUNDED]) AS X LEFT JOIN K ON X.a = K.a",
    # users' functions
    "SELECT S.v, odd(S.v) AS o FROM S [RANGE 5], T [RANGE 2] WHERE S.a = T.a",
    "SELECT S.v, T.v AS w FROM S [RANGE 5], T [RANGE 2] WHERE S.a = T.a AND odd(S.v + T.v)",
    "SELECT a, count(*) AS n FROM S [RANGE 5] GROUP BY a HAVING odd(count(*))",
    # filters that are ordered
    "SELECT Istream(v) FROM S WHERE odd(v) AND odd(b) AND v > 1",
)
_STAR = "SELECT Istream(S.v, K.w, L.x) FROM S [NOW], K, L WHERE S.a = K.a AND S.b = L.b"


def stream(seed: int) -> pa.Table:
    """Rows with ties in time, NULLs and small domains.

    >>> stream(1).schema.names
    ['ts', 'a', 'b', 'v', 'd', 'l']
    """
    random = np.random.default_rng(seed)
    draw = random.integers
    nulls = random.random(ROWS) < 0.1
    return pa.table(
        {
            "ts": pa.array(np.sort(draw(0, 30, ROWS))),
            "a": pa.array(draw(0, 4, ROWS), mask=nulls),
            "b": pa.array(draw(0, 3, ROWS)),
            "v": pa.array(draw(0, 9, ROWS)),
            "d": pa.array(random.random(ROWS).round(2)),
            "l": pa.array([list(range(n)) for n in draw(0, 4, ROWS).tolist()], pa.list_(pa.int64())),
        }
    )


def query_examples() -> Iterator[QueryExample]:
    relations = {
        "K": pa.table({"a": [0, 1, 1, 3], "w": ["x", "y", "z", None]}),
        "L": pa.table({"b": [0, 1, 2], "x": [1.5, 2.5, 3.5]}),
    }
    streams = {name: stream(seed) for seed, name in enumerate("STU")}
    functions = {"odd": lambda n: n % 2 == 1}
    for text in _TEXTS:
        mine = {n: t for n, t in streams.items() if f" {n} " in text.replace(",", " ").replace("(", " ")}
        yield QueryExample(text, mine, relations, functions)
    mine = {"S": streams["S"]}
    yield QueryExample(_STAR, mine, relations, functions, {"routing": "content-learns(P=0.5, R=8)"})
    adaptive = {"filters": "a-greedy(p=0.5, window=12)"}
    yield QueryExample(_TEXTS[-1], mine, relations, functions, adaptive)
    caches = {"joins": "a-greedy(p=0.5, window=12)", "caches": "global(interval=8, W=1, W_d=2, threshold=0.001)"}
    three = next(t for t in _TEXTS if " U " in t)
    yield QueryExample(three, streams, relations, functions, caches)
    index = "amri(window=20, periodic=30, triggered=40, partition=4, batch=3, migration=partial, costs=counted)"
    yield QueryExample(three, streams, relations, functions, {"joins": "routes", "index": index})
    yield QueryExample(three, streams, relations, functions, {"constraints": "exact(collect=3, W=2)"})


@cache
def operator_examples() -> tuple[OperatorExample, ...]:
    """The operators of the example queries with what they are called with: of each class the first few."""
    found: list[OperatorExample] = []
    seen: Counter[type[Operator]] = Counter()
    for query in query_examples():
        for example in record(query):
            seen[example.operator] += 1
            if seen[example.operator] <= EXAMPLES_PER_CLASS:
                found.append(example)
    return tuple(found)
