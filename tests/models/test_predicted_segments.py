"""PREDICT over stored segments: what they say ahead, until they end or later ones correct them."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from tests.models.test_queries import random_segments, segments

CASES = max(1, round(3 * float(os.environ.get("EDDYLINE_CASES", "1"))))
QUERIES = (
    "SELECT k, x FROM S WHERE x > 1 SAMPLE EVERY 1",
    "SELECT a.k, b.k AS other, a.x - b.x AS gap FROM S a JOIN S b ON a.k < b.k WHERE a.x > b.x SAMPLE EVERY 1",
    "SELECT min(x) AS low, max(x) AS high FROM S SAMPLE EVERY 3",
    "SELECT k, avg(x) AS m FROM S [RANGE 6 SLIDE 2] GROUP BY k",
    "SELECT k, max(x) AS m FROM S [RANGE 9] GROUP BY k HAVING max(x) > 0 PARTIAL SAMPLE EVERY 2",
)
Row = tuple[Any, ...]


def rows_of(table: pa.Table, text: str, size: int = 1000) -> list[dict[str, Any]]:
    session = ed.Session()
    session.stream("S", table.to_batches(max_chunksize=size))
    return session.query(text).to_arrow().to_pylist()


def shown(row: dict[str, Any], at: str) -> Row:
    values = (round(v, 6) + 0.0 if isinstance(v, float) else v for n, v in row.items() if not n.startswith("_"))
    return (row[at], *values)


def ahead(table: pa.Table, text: str, now: int) -> Counter[Row]:
    """The query's rows from ``now`` on over the segments that have begun by then."""
    begun = table.filter(pa.compute.less_equal(table["_from"], now))
    return Counter(shown(r, "_time") for r in rows_of(begun, text) if r["_time"] >= now)


@pytest.mark.parametrize("text", QUERIES)
def test_what_is_predicted_is_what_the_segments_that_have_begun_say(text: str) -> None:
    taken_back = many = 0
    for case in range(CASES):
        rng = np.random.default_rng([len(text), case])
        table = random_segments(rng, int(rng.integers(0, 3)))
        query = text + ("" if rng.random() < 0.5 else f" HORIZON {rng.integers(3, 15)}")
        found = rows_of(table, query + " PREDICT", int(rng.integers(1, 9)))
        relation: Counter[Row] = Counter()
        place = 0
        for now in sorted(set(table["_from"].to_pylist())):
            while place < len(found) and found[place]["_time"] == now:
                row = found[place]
                place += 1
                assert row["_at"] >= now, "what is final was touched"
                relation[shown(row, "_at")] += row["_sign"]
                taken_back += row["_sign"] < 0
            assert all(n >= 0 for n in relation.values())
            assert Counter({r: n for r, n in relation.items() if n and r[0] >= now}) == ahead(table, query, now), now
        assert place == len(found)
        last = Counter(shown(r, "_time") for r in rows_of(table, query))
        assert +relation == last  # at the end it is the answer without PREDICT
        many += len(last)
    assert taken_back > CASES and many > 20 * CASES


def test_the_later_of_two_segments_counts_and_one_without_an_end_takes_back_what_was_said() -> None:
    table = segments(
        [("a", 0, 9, [1.0, 0.0]), ("a", 3, 9, [2.0, 0.0]), ("a", 3, 7, [3.0, 0.0]), ("a", 5, None, [4.0, 0.0])]
    )
    found = rows_of(table, "SELECT k, x FROM S SAMPLE EVERY 4 PREDICT")
    assert [(r["_time"], r["_sign"], r["_at"], r["x"]) for r in found] == [
        (0, 1, 0, 1.0), (0, 1, 4, 1.0), (0, 1, 8, 1.0), (3, -1, 4, 1.0), (3, -1, 8, 1.0), (3, 1, 4, 3.0),
    ]  # fmt: skip


def test_timestamps_and_keys_of_any_type_and_a_snapshot(tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, 1), None]
    start = datetime.datetime(2024, 1, 1)
    rows = [
        {"ts": start + datetime.timedelta(seconds=t), "day": day, "x": float(abs(t % 40 - 20))}
        for t in range(200)
        for day in days
    ]
    samples = pa.Table.from_pylist(rows, pa.schema([("ts", pa.timestamp("us")), ("day", pa.date32()), ("x", "double")]))
    table = ed.fit(samples, key="day", time="ts", value="x", error=0.1)
    text = "SELECT day, x FROM S WHERE x < 5 SAMPLE EVERY 3 SECONDS HORIZON 1 MINUTE PREDICT"

    def started() -> tuple[ed.Session, Any]:
        session = ed.Session()
        session.stream("S", table.to_batches(max_chunksize=3))
        return session, session.query(text)

    _, query = started()
    want = query.to_arrow()
    session, query = started()
    for _ in range(3):
        session.step()
    got = list(query.fetch())
    session.snapshot(tmp_path)
    session, query = started()
    session.restore(tmp_path)
    assert pa.Table.from_batches([*got, *query.to_arrow().to_batches()]).equals(want.combine_chunks())
    assert 0 < sum(b.num_rows for b in got) < len(want)


def test_a_stored_forecast_meets_declared_models() -> None:
    """The depth that a forecast tells, beside a ship with a course of its own."""
    session = ed.Session()
    session.stream("tide", segments([("bar", 0, 60, [5.0, -0.05]), ("bar", 30, 90, [2.0, 0.1])]))
    ships = [{"ts": 10, "id": "Anna", "x": 0.0, "v": 1.0}]
    session.stream("S", ships, timestamp="ts")
    query = session.query(
        "SELECT id, S.x AS place, tide.x - 4.0 AS room FROM S MODEL S.x = S.x + S.v * t JOIN tide ON S.x > 5 "
        "SAMPLE EVERY 10 HORIZON 40 PREDICT"
    )
    found = [(r["_time"], r["_sign"], r["_at"], r["place"], round(r["room"], 6)) for r in query.to_arrow().to_pylist()]
    assert found == [
        (10, 1, 20, 10.0, 0.0), (10, 1, 30, 20.0, -0.5),
        (30, -1, 30, 20.0, -0.5), (30, 1, 30, 20.0, -2.0), (30, 1, 40, 30.0, -1.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT k, x FROM S PREDICT", "add SAMPLE EVERY"),
        ("SELECT k, x FROM S ERROR WITHIN 1 SAMPLE EVERY 2 PREDICT", "S has models already: leave it out, or query"),
    ],
)
def test_refusals(text: str, told: str) -> None:
    session = ed.Session()
    session.stream("S", segments([("a", 0, 9, [1.0, 0.0])]))
    with pytest.raises(ed.CqlError, match=told):
        session.query(text)
