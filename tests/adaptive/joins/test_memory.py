from __future__ import annotations

import random

from eddyline.adaptive.joins.memory import Allocation


def test_a_request_takes_free_pages_then_those_of_lower_priority() -> None:
    pool = Allocation(5 * 1024, 1024)
    pool.prioritise({"low": 1.0, "middle": 2.0, "high": 3.0})
    assert pool.request("low", 3) == 3 and pool.request("middle", 2) == 2 and pool.free == 0
    assert pool.request("low", 1) == 0 and pool.request("middle", 1) == 1
    assert pool.request("high", 3) == 3
    assert pool.pages == {"low": 0, "middle": 2, "high": 3}
    assert pool.request("high", 5) == 2 and pool.request("nobody", 1) == 0
    assert pool.pages == {"low": 0, "middle": 0, "high": 5}


def test_equals_do_not_rob_each_other() -> None:
    pool = Allocation(2048, 1024)
    pool.prioritise({"a": 1.0, "b": 1.0})
    assert pool.request("a", 2) == 2 and pool.request("b", 1) == 0


def test_growing_shrinking_and_leaving() -> None:
    pool = Allocation(4096, 1024)
    pool.prioritise({"a": 1.0, "b": 2.0})
    pool.request("a", 2)
    pool.request("b", 2)
    pool.resize(3 * 1024)
    assert pool.pages == {"a": 1, "b": 2}
    pool.resize(0)
    assert pool.pages == {"a": 0, "b": 0} and pool.request("b", 1) == 0
    pool.resize(10 * 1024)
    assert pool.request("a", 20) == 10
    pool.prioritise({"b": 2.0})
    assert pool.pages == {"b": 0} and pool.free == 10
    pool.request("b", 4)
    pool.release("b", 1)
    assert pool.pages == {"b": 3}
    pool.release("b")
    pool.release("gone")
    assert pool.free == 10


def test_the_budget_is_never_exceeded_and_state_goes_on() -> None:
    rng = random.Random(3)
    pool, other = Allocation(16 * 64, 64), Allocation(64, 64)
    stores = [((0, n), (0,), ()) for n in range(5)]
    for _ in range(500):
        what = rng.randrange(4)
        if what == 0:
            pool.prioritise({s: rng.random() for s in rng.sample(stores, 3)})
        elif what == 1:
            pool.resize(64 * rng.randrange(20))
        elif what == 2:
            pool.release(rng.choice(stores), rng.randrange(3))
        else:
            store, wanted = rng.choice(stores), rng.randrange(6)
            before = pool.pages.get(store, 0)
            given = pool.request(store, wanted)
            assert given <= wanted and pool.pages.get(store, 0) == before + given
        assert sum(pool.pages.values()) <= pool.budget and all(p >= 0 for p in pool.pages.values())
        other.load(pool.state())
        assert other.state() == pool.state() and other.pages == pool.pages
