"""Index selection: EPrune against exhaustive search, the division of a budget against brute force, migration."""

import itertools
import random

import numpy as np
import pytest

from eddyline.adaptive.indexes import selection
from eddyline.adaptive.indexes.cost import UnitCosts, Workload, dependent_cost, search_costs
from eddyline.adaptive.indexes.index_sets import costs_of_searches, upkeep
from eddyline.adaptive.indexes.migration import (
    MOMENTS,
    ExpectedCosts,
    IndexedRun,
    StoredPartition,
    least_expected,
    migration_benefit,
    to_migrate,
)
from eddyline.adaptive.indexes.selection import Choice, divide, eprune, exhaustive, max_benefit, select


def random_load(rng: random.Random, n: int) -> Workload:
    patterns = rng.sample(range(1 << n), k=rng.randint(1, 1 << n))
    weights = [rng.paretovariate(0.7) for _ in patterns]
    frequencies = {p: w / sum(weights) for p, w in zip(patterns, weights, strict=True)}
    admitted = {a: rng.choice([0.1, 0.5]) for a in range(n)} if rng.random() < 0.3 else {}
    agreeing = {a: rng.choice([0.0, 0.01, 0.3]) for a in range(n)} if rng.random() < 0.5 else {}
    return Workload(rng.choice([1, 50, 1000]), rng.choice([0.1, 5, 500]), rng.choice([0.1, 1, 10]), frequencies,
                    indexes=rng.choice([1, 4]), agreeing=agreeing, admitted=admitted)  # fmt: skip


def random_costs(rng: random.Random) -> UnitCosts:
    return UnitCosts(hash=rng.choice([0, 1, 30]), compare=rng.choice([0.5, 2]), visit=rng.choice([0, 1, 5]))


def test_exhaustive_search_finds_the_least_of_all_configurations():
    for seed in range(60):
        rng = random.Random(seed)
        n, bits = rng.randint(1, 3), rng.randint(0, 5)
        load, unit = random_load(rng, n), random_costs(rng)
        every = [c for c in itertools.product(range(bits + 1), repeat=n) if sum(c) <= bits]
        least = min(dependent_cost(c, load, unit) for c in every)
        assert dependent_cost(exhaustive(n, bits, load, unit), load, unit) == pytest.approx(least)


def test_eprune_finds_what_exhaustive_search_finds():
    pruned = 0
    for seed in range(300):
        rng = random.Random(seed)
        n, bits = rng.randint(1, 4), rng.randint(0, 6)
        load, unit = random_load(rng, n), random_costs(rng)
        pruned += any(max_benefit(a, n, bits, load, unit) < 0 for a in range(n))
        costs = [dependent_cost(search(n, bits, load, unit), load, unit) for search in (eprune, exhaustive)]
        assert costs[0] == pytest.approx(costs[1]), seed
    assert pruned > 50  # otherwise the two are the same by construction


def test_bits_are_left_unused_where_visits_cost_more_than_comparisons():
    load = Workload(arrivals=16, searches=1, window=1, frequencies={0b10: 0.5, 0b01: 0.5})
    assert sum(exhaustive(2, 16, load, UnitCosts(hash=0, visit=0))) == 16
    assert sum(exhaustive(2, 16, load, UnitCosts(hash=0, visit=1))) < 8


def test_a_budget_is_divided_as_brute_force_would():
    for seed in range(200):
        rng = random.Random(seed)
        states = []
        for _ in range(rng.randint(1, 4)):
            costs = sorted((rng.uniform(0, 100) for _ in range(5)), reverse=True)
            states.append([Choice((b,), c, 0 if b == 0 else 8 << b) for b, c in enumerate(costs)])
        budget = rng.randint(0, 300)
        fitting = [c for c in itertools.product(*states) if sum(x.bytes for x in c) <= budget]
        found = divide(budget, states)
        assert sum(c.bytes for c in found) <= budget
        assert sum(c.cost for c in found) == pytest.approx(min(sum(x.cost for x in c) for c in fitting))


def test_a_budget_too_small_for_any_choice_is_refused():
    with pytest.raises(ValueError, match="fits into the budget"):
        divide(10, [[Choice((3,), 1.0, 64)]])


def test_partial_migration_moves_what_the_searches_in_process_pay_for():
    frequencies = {0b01: 1.0}
    for searches in (0, 10, 1_000, 100_000):
        partition = StoredPartition((4, 0), 2500, searches)
        gain = migration_benefit(partition, (0, 4), frequencies)
        assert to_migrate("partial", [partition], (0, 4), frequencies) == ([0] if gain > 0 else [])
    assert migration_benefit(StoredPartition((4, 0), 2500, 0), (0, 4), frequencies) == -2500 * 4


def test_bits_beyond_the_number_of_values_are_given_to_other_attributes():
    load = Workload(10_000, 10_000, 1, {0b11: 1.0}, agreeing={0: 1 / 4, 1: 1 / 10_000})
    few, many = exhaustive(2, 12, load, UnitCosts(hash=0, visit=0.01))
    assert few < many


@pytest.mark.parametrize("seed", range(40))
def test_the_cost_of_searches_by_rows_is_that_of_the_whole_equation(seed):
    """Without arrivals C_D of one search is what the migration's estimate takes for it."""
    rng = random.Random(seed)
    n = rng.randint(1, 4)
    configuration = tuple(rng.randint(0, 4) for _ in range(n))
    frequencies = {p: rng.random() for p in rng.sample(range(1 << n), rng.randint(1, 1 << n))}
    agreeing = {a: rng.random() for a in range(n) if rng.random() < 0.5}
    admitted = {a: rng.random() for a in range(n) if rng.random() < 0.3}
    unit = UnitCosts(rng.random(), rng.random(), rng.random())
    rows = np.array([0.5, 20.0, 3000.0])
    found = search_costs(configuration, rows, Workload(1, 1, 1, frequencies, 1, agreeing, admitted), unit)
    for r, cost in zip(rows.tolist(), found.tolist(), strict=True):
        load = Workload(r, 1.0, 1.0, frequencies, 1.0, agreeing, admitted)
        hashes = r * sum(b > 0 for b in configuration) * unit.hash
        assert cost == pytest.approx(dependent_cost(configuration, load, unit) - hashes)


def random_indexes(rng):
    hashes = [("hashed", 0), ("hashed", 1), ("hashed", 0, 1)]
    if rng.random() < 0.5:
        return (("bits", rng.randint(0, 6), rng.randint(0, 6)),)
    return tuple(rng.sample(hashes, rng.randint(0, 3)))


def expected_cost(runs, indexes, n, moved, load, unit):
    """The cost of a window to come, moment by moment and run by run."""
    kept = runs[: len(runs) - moved]
    while kept and kept[-1].indexes == indexes:
        kept = kept[:-1]
    stored, rest = sum(r.rows for r in runs), sum(r.rows for r in runs[len(kept) :])
    total = max(stored, load.rows)
    cost = load.arrivals * upkeep(indexes, unit) + (rest * upkeep(indexes, unit) + unit.build if moved else 0.0)
    for moment in range(MOMENTS):
        arrived = total * (moment + 0.5) / MOMENTS
        gone = max(0.0, arrived - (total - stored))
        found = 0.0
        for run in kept:
            alive = max(0.0, run.rows - gone)
            gone = max(0.0, gone - run.rows)
            found += float(costs_of_searches(run.indexes, n, np.array([alive]), load, unit)[0])
            found += unit.call / load.batch * (alive > 0)
        newest = arrived + max(0.0, rest - gone)
        found += float(costs_of_searches(indexes, n, np.array([newest]), load, unit)[0])
        cost += load.searches / MOMENTS * found
    return cost


@pytest.mark.parametrize("seed", range(40))
def test_costs_of_a_window_to_come_are_those_of_its_moments(seed):
    rng = random.Random(f"moments/{seed}")
    runs = [IndexedRun(random_indexes(rng), rng.randint(1, 3000), 1) for _ in range(rng.randint(0, 5))]
    frequencies = {0b10: rng.random(), 0b01: rng.random(), 0b11: rng.random()}
    unit = UnitCosts(rng.random(), rng.random(), rng.random(), call=100 * rng.random(), build=1000 * rng.random())
    stored = float(max(1, sum(r.rows for r in runs)))
    load = Workload(stored * rng.choice([0.5, 1, 3]), stored * 5, 1.0, frequencies, batch=rng.choice([1.0, 50.0]))
    for indexes in (random_indexes(rng), *(r.indexes for r in runs)):
        found = ExpectedCosts(runs, 2, load, unit).by_moved(indexes).tolist()
        assert found == pytest.approx([expected_cost(runs, indexes, 2, m, load, unit) for m in range(len(runs) + 1)])


@pytest.mark.parametrize("seed", range(40))
def test_expected_migration_pays(seed):
    """What is moved is never dearer than nothing or everything; few searches move nothing, many move all."""
    rng = random.Random(seed)
    runs = [IndexedRun(random_indexes(rng), rng.randint(100, 3000), rng.randint(1, 3))
            for _ in range(rng.randint(1, 5))]  # fmt: skip
    frequencies = {0b10: rng.random(), 0b01: rng.random(), 0b11: rng.random()}
    best = random_indexes(rng)
    rows = float(sum(r.rows for r in runs))
    load = Workload(rows, rows * rng.choice([0.01, 1, 50]), 1.0, frequencies)
    cost, partitions = least_expected(runs, best, 2, load)
    unit = UnitCosts()
    assert cost <= 1.000001 * min(expected_cost(runs, best, 2, m, load, unit) for m in range(len(runs) + 1))
    assert partitions in {sum(r.partitions for r in runs[i:]) for i in range(len(runs) + 1)}
    never = Workload(rows, 1e-6, 1.0, frequencies)
    assert least_expected(runs, best, 2, never)[1] == 0


@pytest.mark.parametrize("seed", range(40))
def test_climbing_comes_near_to_the_best_of_all(seed, monkeypatch):
    rng = random.Random(seed)
    n, bits = rng.randint(2, 4), rng.randint(2, 8)
    load = random_load(rng, n)
    best = dependent_cost(exhaustive(n, bits, load), load)
    assert select(n, bits, load) == eprune(n, bits, load)
    monkeypatch.setattr(selection, "MOST_CONFIGURATIONS", 0)
    climbed = select(n, bits, load)
    assert sum(climbed) <= bits
    assert dependent_cost(climbed, load) <= 1.1 * best
