"""Synopses that have to be moved again and again are what they were."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.core.delta import Delta
from eddyline.core.window import Range, Slide, Unbounded
from eddyline.synopses import hash_index, join_contents
from eddyline.synopses.join_contents import JoinContents
from tests.operators import test_join_caches as caches
from tests.operators import test_mjoin as orders


@pytest.fixture(params=[(2, 1, 4), (16, 8, 2)], ids=["smallest steps", "room far ahead"])
def crowded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Room for two rows at first: how often inputs moved into spare room, all were laid out, only heads were."""
    seen: Counter[str] = Counter()
    into_spare, lay_out, fit = JoinContents._grow_into_spare, JoinContents.lay_out, JoinContents._lay_out_heads

    def spare(self: JoinContents, capacities: list[int]) -> bool:
        fits = into_spare(self, capacities)
        seen["spare"] += fits
        return fits

    def laid_out(self: JoinContents, capacities: list[int], fresh: bool = False) -> None:
        seen["all"] += not fresh
        lay_out(self, capacities, fresh)

    def heads(self: JoinContents, old: Any) -> None:
        seen["heads"] += 1
        fit(self, old)

    monkeypatch.setattr(join_contents, "FIRST_CAPACITY", 2)
    for name, value in zip(("MAX_GROWTH", "PARTS_PER_SPARE", "HEADS_PER_ROW"), request.param, strict=True):
        monkeypatch.setattr(join_contents, name, value)
    monkeypatch.setattr(JoinContents, "_grow_into_spare", spare)
    monkeypatch.setattr(JoinContents, "lay_out", laid_out)
    monkeypatch.setattr(JoinContents, "_lay_out_heads", heads)
    return seen


def test_joins_are_right_however_often_their_synopses_move(crowded: Counter[str]) -> None:
    for seed in range(40):
        orders.test_adds_up_to_nested_loops_at_every_instant(seed)
        caches.test_any_orders_and_caches_flipped_between_elements_give_the_join(seed)
    assert crowded["all"] > 20 and crowded["heads"] > crowded["all"] + crowded["spare"] + 20
    assert crowded["spare"] > 20 or join_contents.PARTS_PER_SPARE > 1


def test_rows_of_a_window_without_an_end_are_hardly_ever_linked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    linked: Counter[int] = Counter()
    relink, lay_out = hash_index.join_index.relink, JoinContents.lay_out
    laid: list[int] = []

    def counted(s: int, x: int, begin: int, end: int, *arrays: Any) -> None:
        linked[s] += end - begin
        relink(s, x, begin, end, *arrays)

    def noted(self: JoinContents, capacities: list[int], fresh: bool = False) -> None:
        laid.append(int(self.tail.sum()))
        lay_out(self, capacities, fresh)

    monkeypatch.setattr(hash_index.join_index, "relink", counted)
    monkeypatch.setattr(JoinContents, "lay_out", noted)
    rng = random.Random(0)
    inputs = [orders.Input(n, rng) for n in "RS"]
    rows = 250_000
    for i in inputs:
        i.window = Unbounded()
    join = orders.make(inputs, [(0, 1, "k")], rng, [])
    for begin in range(0, rows, 10_000):
        time = np.arange(begin, begin + 10_000)
        keys = [pa.array(2 * time + side) for side in (0, 1)]  # that never meet
        none = pa.nulls(len(time), pa.string())
        deltas = [Delta(time, {f"{n}.k": key, f"{n}.s": none}, None) for n, key in zip("RS", keys, strict=True)]
        join.process(deltas, begin + 9_999)
    assert join.arrays.tail.tolist() == [rows, rows]
    assert max(linked.values()) < rows / 2, linked  # with room that doubles, each is linked again once
    assert sum(laid) < 2 * rows / 3  # rows that were moved
    assert join.arrays.nbytes < 2 * rows * 8 * 20  # of the room that is ahead nothing is counted


def test_rows_of_a_bag_are_found_after_its_store_was_rewritten() -> None:
    rng = random.Random(0)
    ring, bag = orders.Input("R", rng), orders.Input("S", rng)
    ring.window, bag.window = Range(0), None
    join = orders.make([ring, bag], [(0, 1, "k")], rng, [])
    schema = {n: (f"{n}.k", f"{n}.s") for n in "RS"}
    empty = Delta.empty(ring.schema)

    def changes(time: int, keys: range, weight: int) -> Delta:
        columns = {"S.k": pa.array(keys, pa.int64()), "S.s": pa.array([f"row {key}" for key in keys])}
        return Delta(np.full(len(keys), time), columns, np.full(len(keys), weight, np.int64))

    stores = set()
    for round_ in range(6):
        begin, time = 2000 * round_, 10 * round_
        join.process([empty, changes(time, range(begin, begin + 2000), 1)], time)
        join.process([empty, changes(time + 1, range(begin + 20, begin + 2000), -1)], time + 1)
        kept = [key for r in range(round_ + 1) for key in range(2000 * r, 2000 * r + 20)]
        asked = dict(zip(schema["R"], (pa.array(kept), pa.nulls(len(kept), pa.string())), strict=True))
        out = join.process([Delta(np.full(len(kept), time + 2), asked, None), Delta.empty(bag.schema)], time + 2)
        found = {(row["R.k"], row["S.k"], row["S.s"]) for row in pa.table(dict(out.columns)).to_pylist()}
        assert found == {(key, key, f"row {key}") for key in kept}
        held = join.sides[1].bag
        assert held is not None
        stores.add(id(held.store))
    assert len(stores) > 1


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
