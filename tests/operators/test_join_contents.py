"""Synopses that have to be moved again and again are what they were."""

from __future__ import annotations

import random

import pytest

from eddyline.core.window import Range, Slide
from eddyline.operators import join_contents, join_side
from eddyline.operators.join_contents import JoinContents
from tests.operators import test_join_caches as caches
from tests.operators import test_mjoin as orders


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Room for two rows at first, growth by the smallest step, much spare room: how often a ring moved into it."""
    moved: list[bool] = []
    grow = JoinContents._grow_into_spare

    def noted(self: JoinContents, capacities: list[int]) -> bool:
        moved.append(grow(self, capacities))
        return moved[-1]

    monkeypatch.setattr(join_side, "SMALLEST", 2)
    monkeypatch.setattr(join_contents, "STRIDE", 2)
    monkeypatch.setattr(join_contents, "SPARE", 1)
    monkeypatch.setattr(JoinContents, "_grow_into_spare", noted)
    return moved


def test_joins_are_right_however_often_their_synopses_move(crowded: list[bool]) -> None:
    for seed in range(40):
        orders.test_adds_up_to_nested_loops_at_every_instant(seed)
        caches.test_any_orders_and_caches_flipped_between_elements_give_the_join(seed)
    assert crowded.count(True) > 20 and crowded.count(False) > 20


def test_a_ring_gets_the_room_that_its_window_will_need() -> None:
    rng = random.Random(0)
    inputs = [orders.Input(n, rng) for n in "RS"]
    for i, each in zip(inputs, (20, 1), strict=True):
        i.window = Range(400)
        i.rows = [(t // each, t, "x") for t in range(500 * each)]
    join = orders.make(inputs, [(0, 1, "k")], rng, [])
    grown = 0
    for t in range(500):
        before = [s.capacity for s in join.sides]
        join.process([i.delta(t - 1, t) for i in inputs], t)
        grown += before != [s.capacity for s in join.sides]
    # 20 · 401 rows and 401: in two steps, where doubling would take six.
    assert ([s.capacity for s in join.sides], grown) == ([16384, 1024], 2)


def test_a_burst_does_not_claim_what_a_window_never_holds() -> None:
    """All rows of a slide leave together; that says nothing about how many there will be."""
    rng = random.Random(0)
    inputs = [orders.Input(n, rng) for n in "RS"]
    for i, window in zip(inputs, (Slide(10, 10), Range(10)), strict=True):
        i.window = window
        i.rows = [(1 + 10 * (t // 5000), t, "x") for t in range(10_000)]
    join = orders.make(inputs, [(0, 1, "k")], rng, [])
    join.process([i.delta(-1, 40) for i in inputs], 40)
    assert [s.capacity for s in join.sides] == [8192, 16384]
