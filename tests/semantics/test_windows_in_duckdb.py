"""``Wstream`` over TUMBLE, HOP and SESSION against DuckDB's answer to the whole input as a batch.

DuckDB has none of these windows, so its queries say what they mean: an element of ``HOP w EVERY l`` is in each window
whose end e = k·l + o lies in (ts, ts + w]; a session ends where the next element of its key is a gap away or more.
"""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import eddyline
from tests.scale import scaled

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
ROUNDS = scaled(12, least=3)
SECOND = 1_000_000

HOP = """
    SELECT e - {w} AS s, e, a, count(*) AS n, sum(b) AS t, min(b) AS l, count(DISTINCT b) AS d
    FROM (SELECT *, unnest(generate_series(((t - {o} - (((t - {o}) % {l}) + {l}) % {l}) // {l} + 1) * {l} + {o},
                                           t + {w}, {l})) AS e FROM elements)
    GROUP BY e, a
"""
SESSION = """
    SELECT min(t) AS s, max(t) + {w} AS e, a, count(*) AS n, sum(b) AS t, min(b) AS l, count(DISTINCT b) AS d
    FROM (SELECT *, sum(begins) OVER (PARTITION BY a ORDER BY t, i) AS session
          FROM (SELECT *, CASE WHEN t - lag(t) OVER (PARTITION BY a ORDER BY t, i) < {w} THEN 0 ELSE 1 END AS begins
                FROM elements))
    GROUP BY a, session
"""
VALUES = "a, count(*) AS n, sum(b) AS t, min(b) AS l, count(DISTINCT b) AS d"


def draw(rng: random.Random, timestamps: bool) -> tuple[pa.Table, int]:
    """Elements in disorder, with quiet stretches between bursts; the slack that keeps all of them."""
    unit = SECOND if timestamps else 1
    time, rows = rng.randint(-40, 10**6), []
    for i in range(2_000):
        time += rng.choice([0, 0, 0, 1, 1, 2, rng.choice([3, 10, 90])])
        at = (time - rng.randint(0, 5)) * unit
        rows.append({"i": i, "t": at, "a": rng.choice([None, 1, 2, 3, 4]), "b": rng.choice([None, -3, 0, 8])})
    table = pa.Table.from_pylist(rows, pa.schema([(n, pa.int64()) for n in "itab"]))
    return table, 5 * unit


@pytest.mark.parametrize("timestamps", [False, True], ids=["integers", "timestamps"])
@pytest.mark.parametrize("kind", ["tumble", "hop", "session"])
def test_each_window_and_group_is_duckdbs(kind: str, timestamps: bool) -> None:
    shown = 0
    for number in range(ROUNDS):
        rng = random.Random(f"{SEED}/{kind}/{timestamps}/{number}")
        table, slack = draw(rng, timestamps)
        width, slide, offset = rng.randint(1, 20), rng.randint(1, 9), rng.choice([0, 0, 3])
        unit = " SECONDS" if timestamps else ""
        moved = f" OFFSET {offset}{unit}" if offset else ""
        window = {
            "tumble": f"[TUMBLE {width}{unit}{moved}]",
            "hop": f"[HOP {width}{unit} EVERY {slide}{unit}{moved}]",
            "session": f"[SESSION {width}{unit} GAP PARTITION BY a]",
        }[kind]
        scale = SECOND if timestamps else 1
        step = width if kind == "tumble" else slide
        text = (SESSION if kind == "session" else HOP).format(w=width * scale, l=step * scale, o=offset * scale)
        found, wanted = ours(table, window, slack, timestamps), duckdbs(table, text)
        assert found == wanted, (window, list((found - wanted).items())[:5], list((wanted - found).items())[:5])
        shown += found.total()
    assert shown > 300 * ROUNDS


def ours(table: pa.Table, window: str, slack: int, timestamps: bool) -> Counter[tuple[Any, ...]]:
    if timestamps:
        table = table.set_column(1, "t", table.column("t").cast(pa.timestamp("us")))
    session = eddyline.Session()
    late = dt.timedelta(microseconds=slack) if timestamps else slack
    session.stream("S", table, timestamp="t", slack=late)
    query = session.query(f"SELECT Wstream(window_start, window_end, {VALUES}) FROM S {window} "
                          "GROUP BY a, window_start, window_end")  # fmt: skip
    answer = query.to_arrow()
    assert answer.column("_time").equals(answer.column("window_end"))  # a window is shown when it ends
    columns = [answer.column(i).cast(pa.int64()).to_pylist() for i in range(answer.num_columns - 1)]
    return Counter(zip(*columns, strict=True))


def duckdbs(table: pa.Table, text: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("elements", table)
        return Counter(tuple(None if v is None else int(v) for v in row) for row in connection.execute(text).fetchall())
