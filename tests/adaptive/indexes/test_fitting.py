"""Sets of indexes: their costs against operations that are counted, their bytes, and the division of memory."""

from __future__ import annotations

import dataclasses
import itertools
import random

import numpy as np
import pytest

from eddyline.adapting.route_control import agreeing, to_spec
from eddyline.adaptive.indexes import selection
from eddyline.adaptive.indexes.access_patterns import attributes_of
from eddyline.adaptive.indexes.cost import UnitCosts, Workload, dependent_cost
from eddyline.adaptive.indexes.fitting import candidates, first_choice
from eddyline.adaptive.indexes.index_sets import best_hashes, bytes_of, costs_of_hash_sets, costs_of_searches, upkeep
from eddyline.adaptive.indexes.policies import make_tuner, parse_index
from eddyline.adaptive.indexes.selection import Choice, best_by_bits, divide, divide_by_gain, exhaustive, select
from eddyline.adaptive.indexes.tuners import StateFacts
from eddyline.synopses.state_module import Search, StateModule

ROWS, REQUESTS = 1_000, 400


def random_load(rng: random.Random, n: int) -> Workload:
    patterns = rng.sample(range(1, 1 << n), min((1 << n) - 1, rng.randint(1, 6)))
    shares = [rng.random() for _ in patterns]
    frequencies = {p: s / sum(shares) for p, s in zip(patterns, shares, strict=True)}
    same = {a: 1 / rng.choice([4, 30, 200, 5_000]) for a in range(n)}
    return Workload(ROWS, ROWS * rng.choice([1, 20]), 1.0, frequencies, 1.0, same)


def random_indexes(rng: random.Random, n: int) -> tuple[tuple[object, ...], ...]:
    if rng.random() < 0.4:
        return (("bits", *(rng.randint(0, 3) for _ in range(n))),)
    some = [("hashed", *sorted(rng.sample(range(n), rng.randint(1, n)))) for _ in range(rng.randint(0, 4))]
    return tuple(dict.fromkeys(some))


@pytest.mark.parametrize("seed", range(30))
def test_the_cost_of_searches_is_that_of_the_operations_that_are_counted(seed):
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    n = rng.randint(1, 4)
    values = [rng.choice([8, 60, 400, 20_000]) for _ in range(n)]
    codes = np.stack([draw.integers(0, v, ROWS) for v in values], axis=1)
    indexes, pattern = random_indexes(rng, n), rng.randrange(1, 1 << n)
    module = StateModule(n, ROWS, to_spec(indexes))
    module.insert(codes, np.zeros(ROWS, np.int64), np.ones(ROWS, np.int64))
    assert module.insert_hashes == ROWS * (upkeep(indexes) - len(indexes))
    asked = attributes_of(pattern, n)
    wanted = np.stack([draw.integers(0, values[a], REQUESTS) for a in asked], axis=1)
    at = np.zeros(REQUESTS, np.int64)
    module.search(Search(np.array(asked), wanted, wanted, at, at, frozenset(asked)))
    load = Workload(ROWS, 1, 1.0, {pattern: 1.0}, 1.0, {a: agreeing(codes, a) for a in range(n)})
    expected = float(costs_of_searches(indexes, n, np.array([float(ROWS)]), load)[0])
    assert module.counts[:3].sum() / REQUESTS == pytest.approx(expected, rel=0.4, abs=1.0)


@pytest.mark.parametrize("seed", range(30))
def test_bytes_are_those_of_the_module(seed):
    rng = random.Random(f"bytes/{seed}")
    n, rows = rng.randint(1, 4), rng.choice([300, 1_000, 5_000])
    indexes = random_indexes(rng, n)
    module = StateModule(n, rows, to_spec(indexes))
    module.insert(np.random.default_rng(seed).integers(0, 99, (rows, n)), np.arange(rows), np.arange(rows) + rows)
    assert module.index_bytes == pytest.approx(bytes_of(indexes, rows), rel=0.02, abs=16)


@pytest.mark.parametrize("seed", range(30))
def test_candidates_hold_the_best_bits_and_the_usual_hash_indices_or_better_ones(seed):
    rng = random.Random(f"candidates/{seed}")
    n = rng.randint(2, 4)
    load, unit = random_load(rng, n), UnitCosts(scan=rng.choice([0.3, 1.0]))
    found = candidates(n, load, unit)
    assert [c.bytes for c in found] == sorted(c.bytes for c in found)
    assert [c.cost for c in found] == sorted((c.cost for c in found), reverse=True)
    rows = np.array([load.rows])

    def cost(indexes):
        search = float(costs_of_searches(indexes, n, rows, load, unit)[0])
        return load.searches * search + load.rows * upkeep(indexes, unit)

    least = found[-1].cost
    usual = [(("bits", *select(n, 10, load, unit)),), tuple(("hashed", a) for a in range(n)),
             tuple(("hashed", *attributes_of(p, n)) for p in load.frequencies)]  # fmt: skip
    assert all(least <= 1.000001 * cost(indexes) for indexes in usual)


def test_the_best_by_bits_is_the_best_of_all_and_near_it_where_configurations_are_many(monkeypatch):
    for seed in range(20):
        rng = random.Random(f"bits/{seed}")
        n, bits = rng.randint(2, 4), 6
        load = random_load(rng, n)
        found = best_by_bits(n, bits, load)
        assert [sum(c) for c in found] == list(range(bits + 1))
        least = dependent_cost(exhaustive(n, bits, load), load)
        assert min(dependent_cost(c, load) for c in found) == pytest.approx(least)
        with monkeypatch.context() as many:
            many.setattr(selection, "MOST_AT_ONCE", 0)
            assert min(dependent_cost(c, load) for c in best_by_bits(n, bits, load)) <= 1.1 * least


@pytest.mark.parametrize("seed", range(40))
def test_memory_is_divided_within_one_choice_of_the_best_division(seed):
    rng = random.Random(f"divide/{seed}")
    states = []
    for _ in range(rng.randint(1, 4)):
        sizes = sorted(rng.sample(range(1, 200), 4))
        costs = sorted((rng.uniform(1, 100) for _ in range(5)), reverse=True)
        states.append([Choice((i,), c, b) for i, (b, c) in enumerate(zip([0, *sizes], costs, strict=True))])
    budget = rng.randint(0, 500)
    found, best = divide_by_gain(budget, states), divide(budget, states)
    assert sum(c.bytes for c in found) <= budget
    most = max(a.cost - b.cost for s in states for a, b in itertools.pairwise(s))
    assert sum(c.cost for c in found) <= sum(c.cost for c in best) + 4 * most
    everything = divide_by_gain(10_000, states)
    assert [c.cost for c in everything] == [s[-1].cost for s in states]


def test_ranges_are_not_hashed():
    load = Workload(ROWS, ROWS, 1.0, {0b11: 0.5, 0b01: 0.5}, admitted={1: 0.5})
    assert {a for s in best_hashes(2, load) for _, *rest in s for a in rest} == {0}


def test_a_state_without_room_has_no_index_and_one_with_room_a_hash_index_for_each_attribute():
    unit = UnitCosts()
    assert first_choice(3, ROWS, 0, unit).configuration == ()
    assert len(first_choice(3, ROWS, None, unit).configuration) == 3


@pytest.mark.parametrize("seed", range(20))
def test_costs_of_many_sets_of_hash_indices_are_those_of_each(seed):
    rng = random.Random(f"sets/{seed}")
    n = rng.randint(1, 5)
    load, unit = random_load(rng, n), UnitCosts(hash=rng.choice([0.5, 4.0]), scan=rng.choice([0.3, 1.0]))
    sets = [s for s in (random_indexes(rng, n) for _ in range(12)) if not s or s[0][0] == "hashed"]
    one_by_one = [float(costs_of_searches(s, n, np.array([load.rows]), load, unit)[0]) for s in sets]
    assert costs_of_hash_sets(sets, n, load, unit).tolist() == pytest.approx(one_by_one)


def test_rows_of_a_batch_take_memory_beside_a_full_window():
    load = Workload(ROWS, ROWS, 1.0, {0b10: 0.5, 0b01: 0.5})
    alone, with_batch = (candidates(2, load, UnitCosts(), arriving) for arriving in (0.0, ROWS))
    assert [c.configuration for c in alone if len(c.configuration) == 2] == [(("hashed", 0), ("hashed", 1))]
    assert with_batch[-1].bytes == pytest.approx(2 * alone[-1].bytes, rel=0.1)
    assert with_batch[-1].cost == alone[-1].cost


def test_the_rows_of_a_batch_are_not_counted_twice():
    """A decision amid a batch sees a window that is full and the rows that arrived: indexes that fit stay."""
    n, rows, batch = 2, ROWS, 400
    single = tuple(("hashed", a) for a in range(n))
    budget = round(2 * 1.01 * bytes_of(single, rows + batch / 2))
    name, options = parse_index(f"fitting(memory={budget}, costs=counted, batch={batch})")
    options = dataclasses.replace(options, rows=2 * rows, largest=rows)
    tuner = make_tuner(name, options, [n, n], UnitCosts())
    assert tuner.initial(n) == single
    stored = rows + batch // 2
    facts = StateFacts(("a", "b"), stored, ((single, stored),), 0, {0: 0.001, 1: 0.001}, full=rows)
    for state in range(2):
        for pattern in (0b01, 0b10):
            tuner.searched(state, pattern, 2_000)
    due = tuner.round_ended()
    assert due == [0, 1]
    assert [tuner.decide(s, [facts, facts]) for s in due] == [[], []]


def test_a_state_is_assessed_again_until_enough_is_known():
    """A change that was not worth it after the first searches is asked for again, not only at the next period."""
    name, options = parse_index("fitting(costs=counted, window=20000, periodic=1000000, triggered=1000000)")
    tuner = make_tuner(name, options, [2, 2], UnitCosts())
    searched, assessed = 0, []
    for _ in range(200):
        tuner.searched(0, 0b01, 100)
        searched += 100
        if tuner.round_ended() == [0]:
            assessed.append(searched)
    assert assessed == [1_500, 3_000, 6_000]
    assert tuner.frequencies(0) == {0b01: 1.0} and tuner.frequencies(1) == {}


@pytest.mark.parametrize("unit", [UnitCosts(), UnitCosts(4.0, 3.0, 4.0, 6.0, 1.0, 1.0, 15e3, 60e3)])
@pytest.mark.parametrize("name", ["amri", "fitting"])
def test_a_decision_says_what_it_costs_to_move_rows(name: str, unit: UnitCosts) -> None:
    name, options = parse_index(f"{name}(costs=counted, window=2000, periodic=4000)")
    tuner = make_tuner(name, options, [2], unit)
    facts = StateFacts(("a", "b"), ROWS, (((("bits", 10, 0),), ROWS),), 0, {0: 0.001, 1: 0.001}, full=ROWS)
    tuner.take_over(0, (("bits", 10, 0),))
    found = []
    while not found:
        tuner.searched(0, 0b10, 5_000)
        tuner.searched(0, 0b01, 5_000)
        tuner.inserted(0, 100)
        found = [t for s in tuner.round_ended() for t in tuner.decide(s, [facts])]
    decision = found[0].decision
    assert decision.evidence["moved_rows"] == ROWS
    assert decision.cost == ROWS * upkeep(found[0].indexes, unit) + unit.build
    assert decision.units["cost"] == ("operations" if unit == UnitCosts() else "ns")


def test_what_a_batch_costs_in_each_index_is_part_of_the_choice():
    """Where a call for each index costs more than its searches save, fewer indices are worth having."""
    shares = {0b1000: 0.3, 0b0100: 0.3, 0b0010: 0.2, 0b0001: 0.2}
    taken = []
    for brought, put_more in ((50.0, 0.0), (50.0, 1e7), (1000.0, 1e7)):
        load = Workload(1000, 5000, 1.0, shares, agreeing=dict.fromkeys(range(4), 0.01), brought=brought)
        best = min(candidates(4, load, UnitCosts(put_more=put_more)), key=lambda c: c.cost)
        taken.append(len(best.configuration))
    assert taken == [4, 1, 1]
    costs = [
        best_hashes(4, Workload(1000, 5000, 1.0, shares, brought=b), UnitCosts(put_more=2e5)) for b in (50.0, 1000.0)
    ]
    assert len(costs[0]) < len(costs[1])  # what comes in larger batches costs fewer calls


def test_the_rows_of_a_batch_are_counted():
    _, options = parse_index("fitting(memory=100000)")
    tuner = make_tuner("fitting", options, states=[2, 2], unit=UnitCosts())
    for _ in range(200):
        tuner.inserted(0, 10)
        tuner.inserted(0, 0)  # nothing is put anywhere
    assert tuner.brought[0] == pytest.approx(10, abs=0.5) and tuner.brought[1] > 50
    tuner.known[0] = {0b10: 1.0}
    facts = [StateFacts(("a", "b"), 100)] * 2
    assert tuner.workload(0, facts).brought == tuner.brought[0]


def test_rows_that_are_found_along_all_rows_make_an_index_worth_more():
    """Values that repeat: to compare all rows costs more than to compare as many that never fit."""
    load = Workload(500, 5000, 1.0, {0b10: 0.5, 0b01: 0.5}, agreeing={0: 0.25, 1: 0.25})
    never, often = (
        min(candidates(2, load, UnitCosts(scan=0.2, hit=hit)), key=lambda c: c.cost).configuration for hit in (0, 4)
    )
    assert never == () and len(often) > 0
