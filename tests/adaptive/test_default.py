"""The product default: what it may spend, how soon it reacts, what it does not react to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eddyline.adaptive.filters.bounds import clairvoyant, optimal_order, order_cost
from eddyline.adaptive.filters.default import Default
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.simulate import draw, simulate
from eddyline.streamon.call_times import CallTimes
from eddyline.streamon.drift import DropRates
from eddyline.streamon.processing_times import ProcessingTimes

RATES = [0.05, 0.2, 0.4, 0.7, 0.9, 0.98]


@pytest.mark.parametrize("rates", [[0.5] * 6, [0.9] * 6, RATES])
@pytest.mark.parametrize("costs", [[1.0] * 6, [1.0, 1.0, 1.0, 1.0, 1.0, 100.0]])
def test_profiling_costs_what_was_allowed(rates: list[float], costs: list[float]) -> None:
    """``overhead`` times the work, and at the start half a window and a block of tuples evaluated by all filters."""
    policy = Default(Pipeline(6))
    run = simulate(policy, draw(40_000, rates, seed=1), costs, batch=250)
    start = (policy.window.size / 2 + policy.block + 2) * sum(costs)
    assert run.profiling <= policy.overhead * run.work * 1.02 + start


def test_equal_filters_cost_less_than_three_percent() -> None:
    drops = draw(60_000, [0.5] * 6, seed=2)
    run = simulate(Default(Pipeline(6)), drops, batch=250)
    assert run.cost <= 1.03 * order_cost(drops, optimal_order(drops))
    assert len(run.decisions) <= 3


def test_near_the_clairvoyant_in_phases() -> None:
    random = np.random.default_rng(3)
    rates = [RATES, RATES[::-1], [*RATES[3:], *RATES[:3]]]  # another filter leads each time
    drops = np.concatenate([draw(20_000, r, groups=[0, 0, 1, 1, 2, 2], seed=i) for i, r in enumerate(rates)])
    costs = random.uniform(20e-6, 50e-6, 6)
    best = clairvoyant(drops, [20_000, 40_000], costs)
    run = simulate(Default(Pipeline(6)), drops, costs, batch=250)
    assert run.cost <= 1.15 * best.cost
    assert run.cost < order_cost(drops, optimal_order(drops, costs), costs)
    assert any(20_000 < (d.time or 0) <= 21_000 for d in run.decisions)


def test_backs_off_when_nothing_happens() -> None:
    policy, drops = Default(Pipeline(4)), draw(40_000, [0.8, 0.6, 0.4, 0.2], seed=4)
    run = simulate(policy, drops, batch=250)
    first, last = run.profiling_by_batch[:8].sum(), run.profiling_by_batch[-8:].sum()
    assert last < first / 5 and policy.statistics()["p"] == policy.p


def test_finds_what_the_rates_cannot_show() -> None:
    """The cheap second filter comes to drop just what the dear first one drops: survivors look as before."""
    first = draw(120_000, [0.5], seed=5)
    second = first & (np.arange(120_000) >= 10_000)[:, None]
    run = simulate(Default(Pipeline(2)), np.column_stack([first, second]), [10.0, 1.0], batch=250)
    assert run.order == (1, 0)


def test_follows_costs_as_well_as_rates() -> None:
    """Equal rates; the first filter becomes five times dearer in the middle."""
    costs = np.where(np.arange(40_000)[:, None] < 20_000, [1.0, 2.0], [10.0, 2.0])
    run = simulate(Default(Pipeline(2)), draw(40_000, [0.5, 0.5], seed=6), costs, batch=250)
    assert run.order == (1, 0)
    assert [d.time for d in run.decisions if d.time is not None and 20_000 < d.time < 23_000]


def test_drift_is_measured_against_the_last_decision() -> None:
    """Each batch drops one row in a thousand more than the one before."""
    rates, seen = DropRates(1), []
    for step in range(300):
        rates.add(np.array([1000]), np.array([700 - step]))
        seen.append(rates.drift())
    assert seen[20] < 4.5 < seen[-1]
    rates.settle()
    for _ in range(50):
        rates.add(np.array([1000]), np.array([400]))
    assert rates.drift() == 0


def test_a_pause_is_not_a_price() -> None:
    times = ProcessingTimes(1)
    for _ in range(20):
        times.add(np.array([500]), np.array([1e-6]))
    times.add(np.array([500]), np.array([1e-2]))
    assert times.averages()[0] < 1.5e-6
    for _ in range(20):
        times.add(np.array([500]), np.array([1e-5]))  # this one is
    assert times.averages()[0] > 6e-6


@pytest.mark.parametrize("prices", [(10, 1), (10, 10, 10, 10, 10, 1), (100, 100, 1, 100), (1, 1, 10), (1, 20)])
@pytest.mark.parametrize("rows", [50, 200, 3000])
def test_prices_that_come_in_turn_are_their_mean(prices: tuple[int, ...], rows: int) -> None:
    """A pause at the beginning is forgotten, the dear half of a filter is not."""
    averages, line, seen = ProcessingTimes(1), CallTimes(1), []
    for n in range(600):
        price = prices[n % len(prices)] * 1e-6 * (1000 if n == 0 else 1)
        b = line.add(np.array([rows]), np.array([price * rows]))
        averages.add(np.array([rows]), np.array([price]))
        if n >= 300:
            seen.append([float(b[0]), float(averages.averages()[0])])
    assert np.mean(seen, 0) == pytest.approx(np.mean(prices) * 1e-6, rel=0.25)


@pytest.mark.parametrize("kind", [CallTimes, ProcessingTimes])
@pytest.mark.parametrize("at", [0, 1, 3, 6, 12])
def test_prices_go_on_identically_after_a_restart_at_any_call(kind: type[CallTimes | ProcessingTimes], at: int) -> None:
    calls = [(64, 0.5), (64, 1e-4), (16, 3e-5), (512, 9e-4), (64, 0.2), (32, 5e-5), *[(128, 2e-4), (1024, 1e-3)] * 6]
    one, other = kind(2), kind(2)
    for n, (rows, seconds) in enumerate(calls):
        if n == at:
            other.load(one.state())
        for times in (one, other) if n >= at else (one,):
            times.add(np.array([rows, 0]), np.array([seconds, np.nan]))
    np.testing.assert_equal(one.state(), other.state())


def test_one_cheap_row_does_not_make_thousands_forgotten() -> None:
    line = CallTimes(1)
    for rows, price in ((65_536, 50e-6), (65_536, 50e-6), (1, 5e-6)):
        b = line.add(np.array([rows]), np.array([rows * price]))
    assert b[0] == pytest.approx(50e-6, rel=0.01)


def test_many_filters_are_ordered_greedily() -> None:
    rates = np.linspace(0.05, 0.95, 12)
    drops = draw(20_000, rates, seed=7)
    run = simulate(Default(Pipeline(12)), drops, batch=250)
    assert order_cost(drops, run.order) <= 1.1 * order_cost(drops, optimal_order(drops))


def test_hopes_for_nothing_where_its_order_is_the_best_and_for_anything_after_an_alarm() -> None:
    policy = Default(Pipeline(2))
    assert policy.hoped == math.inf
    drops = np.zeros((200, 2), np.bool_)
    drops[:150, 0] = True
    drops[150:, 1] = True
    policy.processed(np.array([200, 50]), np.array([50, 0]), np.array([1e-8, 1e-8]))
    policy.profiled(drops, np.array([1e-8, 1e-8]))
    assert policy.decide(0) is None
    assert policy.hoped == 0
    policy.alarm()
    assert policy.hoped == math.inf
