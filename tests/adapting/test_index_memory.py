"""The planner's choice of a join's indexes within a limit of memory."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting.index_memory import JoinSize, fits_mjoin, search_cost
from eddyline.adaptive.indexes.cost import UnitCosts
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
    ("bytes_per_row", "operator"), [(200, "adaptive-join"), (20, "routes"), (9, "routes"), (5, "routes"), (1, "routes")]
)
def test_what_fits_is_taken_and_answers_alike(bytes_per_row, operator, expected):
    limit = bytes_per_row * ROWS * STREAMS
    _, query = start(index=f"fitting(memory={limit}, window=500, periodic=2000, triggered=3000)")
    assert chosen(query) == operator
    assert answer(query) == expected
    (told,) = query.statistics().values()
    if operator == "routes":
        assert told["index"] == "fitting"
        taken = sum(s["index_bytes"] for s in told["states"].values())
        assert taken <= 1.1 * limit


def test_without_a_limit_routes_are_never_taken():
    assert chosen(start()[1]) == "adaptive-join"
    for attributes in range(1, 9):
        for rows in (100, 10_000, 1_000_000):
            assert fits_mjoin(JoinSize(4 * rows, rows, attributes), float("inf"))


def test_the_costs_of_both_are_part_of_the_decision():
    _, query = start(index=f"fitting(memory={9 * ROWS * STREAMS})")
    (choice,) = (d for d in query.decisions if d.kind == "join operator")
    costs = choice.evidence["costs"]
    assert costs["routes"] < costs["adaptive-join"]
    assert "the hash indexes of an MJoin take about" in choice.reason


@pytest.mark.parametrize("bytes_per_row", [8, 24])
def test_the_kind_of_index_follows_the_searches_and_is_near_the_best_one(bytes_per_row):
    """In counted operations: within 10 % of the best kind that fits, what is learned on the way included."""
    quick = "window=1000, periodic=4000, triggered=6000, partition=75, batch=256, costs=counted"
    limit = bytes_per_row * ROWS * STREAMS
    operations = {}
    for index in (f"amri({quick})", f"hash(count=1, {quick})", "single(partition=75, batch=256)",
                  f"fitting(memory={limit}, {quick})"):  # fmt: skip
        _, query = start(joins="routes", index=index)
        query.to_arrow()
        (told,) = query.statistics().values()
        states = told["states"].values()
        if index.startswith("fitting"):
            kinds = [d for d in query.decisions if d.kind == "index kind"]
            assert (len(kinds) > 0) == (bytes_per_row == 8)  # more is enough for hash indexes from the start
            assert all(set(d.evidence["costs"]) >= {"bit-address", "hash indices"} for d in kinds)
            assert all(d.reason.startswith("searches by ⟨") for d in kinds)
        elif sum(s["index_bytes"] for s in states) > limit:
            continue
        operations[index] = sum(s["hashes"] + s["bucket_visits"] + s["comparisons"] for s in states)
    *others, planned = operations.values()
    assert len(others) >= 2 and planned <= 1.1 * min(others)


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
    searches = [search_cost(size, limit * size.rows, UnitCosts()) for limit in (0, 2, 4, 8, 16, 32, 64)]
    assert searches == sorted(searches, reverse=True)
