"""The planner's choice of a join's indexes within a limit of memory."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting.index_memory import JoinSize, estimates, quickest_within
from eddyline.datasets.multi_route import complete_join, multi_route

ROWS = 300
STREAMS = 4


def start(window: str = f"[ROWS {ROWS}]", **options: str) -> tuple[ed.Session, ed.Query]:
    session = ed.Session()
    tables = multi_route(STREAMS, tuples=1500, phase=400, values=(8, 12, 20, 30, 40, 60))
    for name, table in tables.items():
        session.stream(name, table, timestamp="ts")
    return session, session.query(complete_join(STREAMS, window), **options)


def chosen(query: ed.Query) -> str:
    (choice,) = (d for d in query.decisions if d.kind == "join operator")
    return str(choice.after)


def answer(query: ed.Query) -> Counter[tuple[object, ...]]:
    table: pa.Table = query.to_arrow()
    return Counter(tuple(r.values()) for r in table.to_pylist())


@pytest.fixture(scope="module")
def expected() -> Counter[tuple[object, ...]]:
    found = answer(start()[1])
    assert sum(found.values()) > 500
    return found


@pytest.mark.parametrize(
    ("bytes_per_row", "operator", "index"),
    [(200, "adaptive-join", None), (20, "routes", "single"), (9, "routes", "amri"), (5, "routes", "hash"),
     (1, "routes", "hash")],
)  # fmt: skip
def test_the_quickest_that_fits_is_taken_and_answers_alike(bytes_per_row, operator, index, expected):
    limit = bytes_per_row * ROWS * STREAMS
    _, query = start(index=f"fitting(memory={limit}, window=500, periodic=2000, triggered=3000)")
    assert chosen(query) == operator
    assert answer(query) == expected
    (told,) = query.statistics().values()
    if index is not None:
        assert told["index"] == index
        taken = sum(s["index_bytes"] for s in told["states"].values())
        assert taken > ROWS * STREAMS
        if bytes_per_row >= 5:
            assert taken <= 1.1 * limit


def test_without_a_limit_routes_are_never_taken():
    assert chosen(start()[1]) == "adaptive-join"
    for attributes in range(1, 9):
        for rows in (100, 10_000, 1_000_000):
            assert quickest_within(JoinSize(4 * rows, rows, attributes), float("inf")).index == "mjoin"


def test_the_costs_of_both_are_part_of_the_decision():
    _, query = start(index=f"fitting(memory={9 * ROWS * STREAMS})")
    (choice,) = (d for d in query.decisions if d.kind == "join operator")
    costs = choice.evidence["costs"]
    assert costs["routes"] < costs["adaptive-join"]
    assert "amri takes about" in choice.reason


def test_windows_whose_rows_are_not_known_keep_the_usual_join():
    _, query = start(window="[RANGE 300]", index="fitting(memory=100)")
    assert chosen(query) == "adaptive-join"
    _, query = start(window="[RANGE 300]", joins="routes", index="fitting(memory=1000)")
    assert chosen(query) == "routes"


def test_no_limit_changes_nothing():
    assert chosen(start(index="fitting")[1]) == "adaptive-join"


@pytest.mark.parametrize("attributes", [1, 3, 8])
def test_more_memory_is_never_slower(attributes):
    size = JoinSize(40_000, 10_000, attributes)
    limits = sorted({e.bytes for e in estimates(size)})
    searches = [quickest_within(size, limit).search for limit in limits]
    assert searches == sorted(searches, reverse=True)
