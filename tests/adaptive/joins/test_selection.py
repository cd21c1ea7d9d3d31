from __future__ import annotations

import random
from itertools import combinations

import pytest

from eddyline.adaptive.joins.candidates import Candidate, candidates, conflicts, prefix_caches
from eddyline.adaptive.joins.model import CacheCosts, Statistics, Value, benefit, cost, net, proc, value
from eddyline.adaptive.joins.selection import exhaustive, greedy, optimal_per_pipeline, select
from tests.adaptive.joins.graphs import (
    EXAMPLE,
    chain,
    clique,
    random_orders,
    random_shape,
    random_statistics,
    random_values,
)

Orders = list[tuple[int, ...]]


def brute_force(some: list[Candidate], values: dict[Candidate, Value], orders: Orders) -> float:
    best = 0.0
    for size in range(1, len(some) + 1):
        for chosen in combinations(some, size):
            if not any(conflicts(a, b, orders) for a, b in combinations(chosen, 2)):
                best = max(best, net(chosen, values))
    return best


def problem(seed: int, m: int = 8) -> tuple[list[Candidate], dict[Candidate, Value], Statistics, Orders]:
    rng = random.Random(seed)
    shape = clique(5) if seed % 3 == 0 else random_shape(rng, rng.randrange(3, 7))
    orders = EXAMPLE if seed % 7 == 0 else random_orders(rng, shape)
    shape = clique(6) if seed % 7 == 0 else shape
    some = candidates(shape, orders, m)
    statistics = random_statistics(rng, shape.size)
    return some, random_values(rng, some, statistics), statistics, orders


@pytest.mark.parametrize("seed", range(60))
def test_exhaustive_search_finds_the_best_set(seed: int) -> None:
    some, values, _, orders = problem(seed)
    found = exhaustive(some, values, orders)
    assert not any(conflicts(a, b, orders) for a, b in combinations(found, 2))
    assert net(found, values) == pytest.approx(brute_force(some, values, orders))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("m", [0, 8])
def test_greedy_is_valid_never_a_loss_and_at_most_the_best(seed: int, m: int) -> None:
    some, values, statistics, orders = problem(seed, m)
    found = greedy(some, values, statistics, orders)
    assert not any(conflicts(a, b, orders) for a, b in combinations(found, 2))
    best = net(exhaustive(some, values, orders), values)
    assert 0 <= net(found, values) <= best + 1e-9
    if not any(c.support for c in some):  # Theorem 5.5.3; with globally-consistent caches nothing is promised
        factor = sum(1 / k for k in range(1, len(orders) * (len(orders) - 1) + 1))
        assert statistics.total - net(found, values) <= factor * (statistics.total - best) + 1e-9


def test_greedy_is_usually_the_best() -> None:
    same = 0
    for seed in range(200):
        some, values, statistics, orders = problem(seed, m=0)
        found, best = greedy(some, values, statistics, orders), exhaustive(some, values, orders)
        same += net(found, values) == pytest.approx(net(best, values))
    assert same >= 195


@pytest.mark.parametrize("size", [7, 8])
def test_greedy_misses_no_cache_that_others_pay_for(size: int) -> None:
    """Where windows are many and their operators cheap, the cover alone finds nothing in some cases."""
    share, seen = 1.0, 0
    for seed in range(40):
        rng = random.Random(seed)
        shape = clique(size) if seed % 2 else random_shape(rng, size)
        orders = random_orders(rng, shape)
        some, statistics = prefix_caches(shape, orders), random_statistics(rng, size)
        values = random_values(rng, some, statistics)
        best = net(exhaustive(some, values, orders), values)
        if best > 0:
            share, seen = min(share, net(greedy(some, values, statistics, orders), values) / best), seen + 1
    assert share > 0.95 and seen > 10


@pytest.mark.parametrize("seed", range(60))
def test_the_recursion_is_optimal_where_nothing_is_shared(seed: int) -> None:
    rng = random.Random(seed)
    shape = clique(6) if seed % 3 == 0 else random_shape(rng, rng.randrange(4, 8))
    orders = EXAMPLE if seed % 6 == 0 else random_orders(rng, shape)
    some = prefix_caches(shape, orders)
    by_store = {c.store: c for c in rng.sample(some, len(some))}
    alone = sorted(by_store.values())
    statistics = random_statistics(rng, shape.size)
    values = random_values(rng, alone, statistics)
    found = optimal_per_pipeline(alone, values)
    assert net(found, values) == pytest.approx(net(exhaustive(alone, values, orders), values))
    assert not any(conflicts(a, b, orders) for a, b in combinations(found, 2))


def test_shared_maintenance_makes_the_difference() -> None:
    some = [c for c in prefix_caches(clique(6), EXAMPLE) if c.segment == (0, 1)]
    values = {c: Value(2.0, 5.0, 0.0) for c in some}
    assert exhaustive(some[:1], values, EXAMPLE) == () == exhaustive(some[:2], values, EXAMPLE)
    assert set(exhaustive(some, values, EXAMPLE)) == set(some)  # three benefits, one cost
    assert net(some, values) == 1.0


def test_a_parent_or_its_children() -> None:
    inner, other, outer = [c for c in prefix_caches(clique(6), EXAMPLE) if c.pipeline == 5 and c.first in (0, 2)][:3]
    assert {len(c.segment) for c in (inner, other, outer)} == {2, 5}
    wide = max((inner, other, outer), key=lambda c: len(c.segment))
    narrow = {inner, other, outer} - {wide}
    values = {wide: Value(5.0, 0.0, 1.0), **{c: Value(2.0, 0.0, 1.0) for c in narrow}}
    assert optimal_per_pipeline(list(values), values) == (wide,)
    values = {wide: Value(3.0, 0.0, 1.0), **{c: Value(2.0, 0.0, 1.0) for c in narrow}}
    assert set(optimal_per_pipeline(list(values), values)) == narrow


@pytest.mark.parametrize("seed", range(40))
def test_selection_keeps_the_current_set_on_ties_and_does_not_depend_on_order(seed: int) -> None:
    some, values, statistics, orders = problem(seed)
    first = select(some, values, statistics, orders)
    shuffled = random.Random(seed).sample(some, len(some))
    assert select(shuffled, values, statistics, orders) == first
    assert select(some, values, statistics, orders, current=first) == first
    for c in some:  # equal values: whatever single cache is in use stays
        if values[c].benefit > 0:
            flat = {o: Value(1.0, 0.5, 1.0) for o in some}
            rivals = [o for o in some if o == c or conflicts(o, c, orders)]
            if not any(not conflicts(a, b, orders) for a, b in combinations(rivals, 2)):
                assert select(rivals, flat, statistics, orders, current=[c]) == (c,)


def test_selection_leaves_a_current_set_that_conflicts() -> None:
    orders = [(1, 2), (0, 2), (1, 0)]
    one, other = candidates(chain(3), orders)
    values = {one: Value(2.0, 1.0, 0.0), other: Value(2.0, 1.5, 0.0)}
    statistics = Statistics((1.0,) * 3, ((1.0,) * 3,) * 3, ((1.0,) * 2,) * 3)
    assert select([one, other], values, statistics, orders, current=[one, other]) == (one,)


def test_the_cost_model_of_section_5_5_1() -> None:
    # ΔT: 50 elements a second, each meets 2 of S, each of these 3 of R; R⋈S is updated by 4 + 6 tuples a second.
    statistics = Statistics(
        (2.0, 3.0, 50.0), ((2.0, 4.0, 8.0), (3.0, 6.0, 6.0), (50.0, 100.0, 300.0)), ((7.0, 5.0),) * 3
    )
    cache, costs = Candidate(2, 0, 1, (0, 1), (1,)), CacheCosts(probe=1.0, update=2.0, miss=0.25)
    work = 50 * 7 + 100 * 5
    assert proc(cache, statistics, costs) == 50 * 1.0 + 0.25 * (work + 300 * 2.0)
    assert benefit(cache, statistics, costs) == work - proc(cache, statistics, costs)
    assert cost(cache, statistics, costs) == 2.0 * (4.0 + 6.0)
    wide = Candidate(0, 0, 1, (1, 2), (0,), (0,))  # maintained by the results of the others: ΔR writes the entries
    assert cost(wide, statistics, costs) == 2.0 * (6.0 + 300.0)
    assert value(cache, statistics, costs) == Value(
        benefit(cache, statistics, costs), cost(cache, statistics, costs), proc(cache, statistics, costs)
    )
