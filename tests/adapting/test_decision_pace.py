"""Decisions about indexes wait until the searches of their state have cost enough."""

from __future__ import annotations

import pytest

import eddyline as ed
from eddyline.adapting import decision_pace
from eddyline.adapting.decision_pace import SEARCH_PER_DECISION, TYPICAL_NANOSECONDS, DecisionPace
from eddyline.adapting.route_control import RoutesAndIndexes
from eddyline.datasets.multi_route import complete_join, multi_route


class Steps:
    """A clock on which every reading takes ``step`` nanoseconds."""

    def __init__(self, step: int) -> None:
        self.step, self.time = step, 0

    def now(self) -> int:
        return self.time // 1000

    def nanoseconds(self) -> int:
        self.time += self.step
        return self.time


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_pace, "_known", {})


def test_a_decision_waits_for_so_many_times_its_own_price() -> None:
    pace = DecisionPace("test", Steps(1_000))
    enough = SEARCH_PER_DECISION * TYPICAL_NANOSECONDS
    assert not pace.pays(0, 3, enough - 1) and pace.pays(0, 3, enough)
    pace.timed(0, 3, 5e6, lambda: None)
    enough = 5e6 + SEARCH_PER_DECISION * 1_000
    assert not pace.pays(0, 3, enough - 1) and pace.pays(0, 3, enough)
    assert pace.pays(1, 3, SEARCH_PER_DECISION * 1_000)  # another state has not been decided about, the price is known
    assert not pace.pays(1, 4, SEARCH_PER_DECISION * 1_000)  # with other attributes it is another price


@pytest.mark.parametrize(
    ("taken", "prices"),
    [
        ([9, 8, 9, 9, 9], [1, 1, 1, 8, 8]),  # what takes long some times was interrupted, what always does is dear
        ([0.1, 9, 9, 9, 9], [0.1, 0.1, 0.1, 0.1, 9]),
        ([9, 9, 9, 9, 0.1], [1, 1, 1, 9, 0.1]),  # a price that has risen falls at once
    ],
)
def test_the_price_is_what_the_last_decisions_took(taken: list[float], prices: list[float]) -> None:
    clock = Steps(0)
    pace = DecisionPace("test", clock)
    for multiple, price in zip(taken, prices, strict=True):
        clock.step = int(multiple * TYPICAL_NANOSECONDS)
        pace.timed(0, 3, 0.0, lambda: None)
        enough = SEARCH_PER_DECISION * price * TYPICAL_NANOSECONDS
        assert not pace.pays(0, 3, enough - 1) and pace.pays(0, 3, enough)


def test_without_a_clock_nothing_waits() -> None:
    pace = DecisionPace("test")
    assert pace.pays(0, 3, 0.0) and pace.timed(0, 3, 0.0, lambda: 5) == 5 and pace.pays(0, 3, 0.0)


def run(costs: str) -> ed.Query:
    session = ed.Session()
    for name, table in multi_route(4, tuples=1500, phase=400, values=(8, 12, 20, 30, 40, 60)).items():
        session.stream(name, table, timestamp="ts")
    index = f"amri(window=500, periodic=2000, triggered=3000, partition=75, costs={costs})"
    query = session.query(complete_join(4, "[ROWS 300]"), joins="routes", index=index)
    query.to_arrow()
    return query


@pytest.mark.parametrize(("price", "decides"), [(1.0, True), (1e15, False)])
def test_a_join_decides_where_that_pays(price: float, decides: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """States whose decision does not pay wait, and are saved with those that are due."""
    controls: list[RoutesAndIndexes] = []
    begin = RoutesAndIndexes.begin

    def noted(self: RoutesAndIndexes, join: object) -> None:
        controls.append(self)
        begin(self, join)  # type: ignore[arg-type]

    monkeypatch.setattr(RoutesAndIndexes, "begin", noted)
    monkeypatch.setattr(decision_pace, "TYPICAL_NANOSECONDS", price)
    query = run("measured")
    (told,) = query.statistics().values()
    assert (told["changes"] > 0) == decides
    assert bool(controls[0].waiting) or decides
    assert sorted(controls[0].state()["due"]) == sorted([*controls[0].waiting, *controls[0].due])


def test_counted_runs_can_be_repeated() -> None:
    first, second = (run("counted").statistics() for _ in range(2))
    assert first == second
    assert next(iter(first.values()))["changes"] > 0
