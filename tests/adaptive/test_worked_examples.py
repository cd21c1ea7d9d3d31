"""The worked examples of chapter 4 of the thesis, with its errata corrected."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from eddyline.adaptive.filters.a_greedy import AGreedy
from eddyline.adaptive.filters.bounds import approximation, independent_order, optimal_order, order_cost, violates
from eddyline.adaptive.filters.independent import Independent
from eddyline.adaptive.filters.local_swaps import LocalSwaps
from eddyline.adaptive.filters.matrix_view import MatrixView
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.simulate import simulate
from eddyline.core.delta import Bools
from tests.adaptive.executor import population

F1, F2, F3, F4 = range(4)
BITS = {1: "0000", 2: "0010", 4: "0111", 5: "1101", 7: "1000"}
INPUT = population(*(BITS[s] for s in (1, 2, 1, 4, 7, 2, 5, 4)))
ONES = np.ones(4)


def example(order: tuple[int, ...] = (F3, F1, F2, F4), batch: int = 1) -> AGreedy:
    """Figure 4.3: every dropped tuple is profiled, and the window holds six."""
    policy = AGreedy(Pipeline(4, initial=order), p=1.0, window=6, alpha=1.0)
    simulate(policy, INPUT, batch=batch)
    return policy


def test_example_4_2_1_costs() -> None:
    orders = [(F1, F2, F3, F4), (F3, F2, F4, F1), (F3, F1, F2, F4)]
    assert [order_cost(INPUT, o) for o in orders] == [20, 18, 16]
    assert order_cost(INPUT, optimal_order(INPUT)) == 16


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_example_4_3_2_matrix_view(batch: int) -> None:
    policy = example(batch=batch)
    assert policy.window.tuples().tolist() == population(*(BITS[s] for s in (2, 4, 7, 2, 5, 4))).tolist()
    assert policy.order == (F3, F1, F2, F4)
    assert [policy.view.V[i, i:].tolist() for i in range(4)] == [[4, 2, 3, 3], [2, 1, 1], [0, 0], [0]]
    assert policy.view.violation(ONES, 1.0) is None and violates(policy.window.tuples(), policy.order) is None


def test_from_any_order_to_the_optimum_of_the_example() -> None:
    for order in [(F1, F2, F3, F4), (F4, F3, F2, F1), (F2, F4, F1, F3)]:
        assert order_cost(INPUT, example(order).order) == 16


def test_example_4_3_3_for_all_bits_by_which_f4_leads() -> None:
    leading = 0
    for three, six in product(map("".join, product("01", repeat=4)), repeat=2):
        policy = example()
        new = population(three, six)
        if not new.any(1).all():
            continue  # both are dropped
        policy.profiled(new, ONES)
        tuples = policy.window.tuples()
        counts = tuples.sum(0)
        assert len(tuples) == 6
        if counts[F4] <= counts[:F4].max():
            continue
        leading += 1
        assert policy.view.violation(ONES, 1.0) == 0
        decision = policy.decide(10)
        assert decision is not None and decision.evidence["position"] == 0
        assert policy.order[0] == F4
        assert violates(tuples, policy.order) is None
        again = MatrixView(policy.order)
        again.insert(tuples)
        assert np.array_equal(np.triu(policy.view.V), np.triu(again.V))
    assert leading > 10


def test_example_4_3_3_the_printed_order_is_the_other_of_two() -> None:
    """After F4 only 7 and 2 are left, one for F1 and one for F3. The thesis prints F4, F3, F1, F2, but the swap of its
    Figure 4.7 brings F1 to the second place, and no bits of 3 and 6 by which F4 leads can change that.
    """
    policy = example()
    policy.profiled(population("0001", "0001"), ONES)
    policy.decide()
    tuples, printed = policy.window.tuples(), (F4, F3, F1, F2)
    assert policy.order == (F4, F1, F3, F2)
    assert violates(tuples, printed) is None
    assert order_cost(tuples, printed) == order_cost(tuples, policy.order)


def converged(policy: AGreedy | Independent | LocalSwaps, *populations: Bools) -> tuple[int, ...]:
    """Show each population three times over."""
    for p in populations:
        simulate(policy, np.tile(p, (3, 1)), batch=50)
    return policy.order


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_example_4_5_1(n: int) -> None:
    """F1 … Fn−1 contain 1 … 49, Fn contains 50 … 100."""
    s = np.arange(1, 101)
    drops = np.column_stack([s >= 50] * (n - 1) + [s < 50])
    options = {"p": 1.0, "window": 100, "alpha": 1.0}
    independent = converged(Independent(Pipeline(n), **options), drops)
    assert independent[-1] == n - 1 and independent_order(drops)[-1] == n - 1
    assert order_cost(drops, independent) / 100 == pytest.approx(0.49 * n + 0.51)
    greedy = converged(AGreedy(Pipeline(n), **options), drops)
    assert greedy[1] == n - 1 and order_cost(drops, greedy) / 100 == pytest.approx(1.49)
    assert approximation(drops, greedy) == 1


@pytest.mark.parametrize("n", [4, 5, 10])
def test_example_4_6_1(n: int) -> None:
    """Fi drops the i-th part of the tuples; then Fn comes to drop all but the part of Fn−1. The printed 50(n + 1) is
    for 100 tuples, and 1 + 200/n should read 1 + 1/n.
    """
    part = np.repeat(np.arange(n), 100 // n)
    before = part[:, None] == np.arange(n)
    after = before.copy()
    after[:, n - 1] = part != n - 2
    options = {"p": 1.0, "window": 100, "alpha": 1.0}
    local = converged(LocalSwaps(Pipeline(n), **options), before, after)
    assert local == tuple(range(n))
    assert order_cost(after, local) / 100 == pytest.approx((n + 1) / 2)
    greedy = converged(AGreedy(Pipeline(n), **options), before, after)
    assert greedy[:2] == (n - 1, n - 2)
    assert order_cost(after, greedy) / 100 == pytest.approx(1 + 1 / n)
