"""The yardsticks against brute force."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from eddyline.adaptive.filters.bounds import (
    approximation,
    clairvoyant,
    gain,
    greedy_order,
    optimal_order,
    order_cost,
    tuple_costs,
    violates,
)
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.simulate import draw


def cases() -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(3)
    found = []
    for seed in range(25):
        n = int(random.integers(1, 6))
        drops = draw(60, random.random(n), groups=list(random.integers(0, 2, n)), seed=seed)
        found.append((drops, random.integers(1, 9, n).astype(np.float64)))
    return found


def test_the_optimum_is_that_of_all_permutations() -> None:
    for drops, costs in cases():
        best = min(order_cost(drops, o, costs) for o in permutations(range(drops.shape[1])))
        order = optimal_order(drops, costs)
        assert sorted(order) == list(range(drops.shape[1])) and order_cost(drops, order, costs) == best
        assert order_cost(drops, order, costs) == tuple_costs(drops, order, costs).sum()
        assert best <= order_cost(drops, greedy_order(drops, costs), costs) <= 4 * best
        assert violates(drops, greedy_order(drops, costs), costs) is None


def test_the_optimum_within_walls() -> None:
    for drops, costs in cases():
        n = drops.shape[1]
        pipeline = Pipeline(n, pinned=frozenset({n // 2}))
        allowed = [o for o in permutations(range(n)) if pipeline.allows(o)]
        order = optimal_order(drops, costs, pipeline.segments)
        assert pipeline.allows(order) and pipeline.allows(greedy_order(drops, costs, pipeline.segments))
        assert order_cost(drops, order, costs) == min(order_cost(drops, o, costs) for o in allowed)


def test_clairvoyant_best_fixed_and_costs_by_phase() -> None:
    for drops, _ in cases():
        n = drops.shape[1]
        costs = np.random.default_rng(n).integers(1, 9, (2, n)).astype(np.float64)

        def total(order: tuple[int, ...], d: np.ndarray = drops, c: np.ndarray = costs) -> float:
            return order_cost(d[:25], order, c[0]) + order_cost(d[25:], order, c[1])

        fixed = optimal_order(drops, costs, changes=[25])
        assert total(fixed) == min(total(o) for o in permutations(range(n)))
        known = clairvoyant(drops, [25], costs)
        assert known.cost == sum(
            min(order_cost(d, o, c) for o in permutations(range(n)))
            for d, c in zip((drops[:25], drops[25:]), costs, strict=True)
        )
        assert known.cost <= total(fixed)


def test_a_gain_is_that_of_the_part_that_changes() -> None:
    drops = np.zeros((100, 4), np.bool_)
    drops[:90, 0] = True  # nine in ten never come to where the orders differ
    drops[90:, 3] = True
    before, after = (0, 1, 2, 3), (0, 3, 1, 2)
    assert gain(drops, before, after) == 3.0
    assert order_cost(drops, before) / order_cost(drops, after) == pytest.approx(130 / 110)
    assert gain(drops, before, before) == 1.0
    assert approximation(drops, after) == 1.0


def test_too_many_filters_for_an_optimum() -> None:
    with pytest.raises(ValueError, match="at most 16"):
        optimal_order(np.zeros((1, 17), np.bool_))
