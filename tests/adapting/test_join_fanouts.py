"""Orders of joins whose elements find many partners: estimated from rows of the windows, and changed in quiet runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import eddyline as ed
from eddyline.adapting.join_fanouts import FanoutModel, JoinFanouts
from eddyline.datasets.multi_route import complete_join, multi_route
from eddyline.operators.mjoin import MJoin
from eddyline.testing.clock import ManualClock

STAYS = {"joins": "static", "caches": "none"}
VALUES = (4, 8, 16, 16, 32, 64)  # half of the attributes leave a tuple of the first input hundreds of partial results
WINDOW = "[ROWS 400]"


def run(
    streams: int = 5, tuples: int = 2_500, phase: int = 1_250, pieces: int = 1, **options: Any
) -> tuple[ed.Query, MJoin, list[tuple[Any, ...]], int]:
    """The complete join of streams whose attributes exchange their numbers of values: its query, operator, results and
    accesses."""
    session = ed.Session(clock=ManualClock())
    tables = multi_route(streams, tuples, phase, values=VALUES)
    for name, table in tables.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    query = session.query(complete_join(streams, WINDOW), **options)
    found: list[tuple[Any, ...]] = []
    for at in range(pieces):
        for name, table in tables.items():
            session.push(name, table[tuples * at // pieces : tuples * (at + 1) // pieces])
        if at == pieces - 1:
            session.finish()
        found += [row for batch in query.fetch() for row in zip(*batch.to_pydict().values(), strict=True)]
    (join,) = (n.operator for n in query.running.physical.nodes if isinstance(n.operator, MJoin))
    (told,) = query.statistics().values()
    return query, join, sorted(found), told["accesses"]


def orders_of(query: ed.Query) -> list[Any]:
    return [d for d in query.decisions if d.kind.startswith("order of") and "agree" in d.because]


@pytest.mark.parametrize("pieces", [1, 40])
def test_a_join_that_multiplies_takes_a_fraction_of_the_accesses_of_a_bad_order(pieces: int) -> None:
    _, _, expected, written = run(**STAYS)
    query, _, found, accesses = run(pieces=pieces)
    assert found == expected
    assert 3 * accesses < written
    made = orders_of(query)
    assert made and all(d.applied and d.expected_gain > 1.25 for d in made)
    assert made[0].reason.startswith("by how often rows of the windows agree, an element takes ")


def test_where_elements_find_few_partners_nothing_is_reviewed(monkeypatch: pytest.MonkeyPatch) -> None:
    reviewed: list[float] = []
    review = JoinFanouts.review

    def noted(self: JoinFanouts, *given: Any) -> Any:
        reviewed.append(self.rate)
        return review(self, *given)

    monkeypatch.setattr(JoinFanouts, "review", noted)
    session = ed.Session(clock=ManualClock())
    for name, table in multi_route(4, 30_000, 30_000, values=(400, 500, 600)).items():
        session.stream(name, table, timestamp="ts")
    session.query(complete_join(4, WINDOW)).to_arrow()
    assert not reviewed


def test_policies_that_are_asked_for_by_name_order_by_themselves() -> None:
    query, join, _, _ = run(tuples=1_000, joins="a-greedy", caches="none")
    assert join.adapter is not None and join.adapter.fanouts is None  # type: ignore[attr-defined]
    assert not orders_of(query)


def test_the_model_estimates_what_orders_take() -> None:
    _, join, _, accesses = run(tuples=2_500, phase=2_500, **STAYS)
    model = FanoutModel(join.arrays)
    works = [model.work(i, order) for i, order in enumerate(join.arrays.orders)]
    elements = 2 * 5 * 2_500  # each enters and leaves
    assert 0.5 < accesses / elements / np.mean(works) < 2
    for i, work in enumerate(works):
        best = model.best(i, lambda target, bound: True)
        assert sorted((i, *best)) == list(range(5))
        assert model.work(i, best) < work


def test_an_estimate_that_does_not_describe_the_join_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    work = FanoutModel.work
    monkeypatch.setattr(FanoutModel, "work", lambda self, source, order: 10 * work(self, source, order))
    query, _, _, _ = run(tuples=1_250)
    assert not orders_of(query)


def test_orders_that_turn_out_worse_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate that describes the present orders and is wrong about all others: it says the dearest is the best."""
    best, work = FanoutModel.best, FanoutModel.work
    written = [tuple(x for x in range(5) if x != i) for i in range(5)]

    def dearest(self: FanoutModel, source: int, connected: Any) -> tuple[int, ...]:
        return best(self, source, connected)[::-1]

    def deceived(self: FanoutModel, source: int, order: Sequence[int]) -> float:
        true = work(self, source, order)
        return true if tuple(order) == written[source] else true / 1_000

    monkeypatch.setattr(FanoutModel, "best", dearest)
    monkeypatch.setattr(FanoutModel, "work", deceived)
    query, join, found, _ = run(phase=2_500)
    decisions = [d for d in query.decisions if d.kind.startswith("order of")]
    assert any("were estimated to be better" in d.because for d in decisions)
    assert [list(o) for o in join.arrays.orders] == [list(o) for o in written]
    assert found == run(phase=2_500, **STAYS)[2]


def test_an_order_that_is_pinned_stays_and_what_would_have_been_done_is_told_once() -> None:
    session = ed.Session(clock=ManualClock())
    tables = multi_route(5, 2_500, 2_500, values=VALUES)
    for name, table in tables.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    query = session.query(complete_join(5, WINDOW))
    query.pin()
    for name, table in tables.items():
        session.push(name, table)
    session.finish()
    made = orders_of(query)
    assert made and not any(d.applied for d in made)
    assert len({d.kind for d in made}) == len(made)
    (join,) = (n.operator for n in query.running.physical.nodes if isinstance(n.operator, MJoin))
    assert join.arrays.orders[0] == (1, 2, 3, 4)
