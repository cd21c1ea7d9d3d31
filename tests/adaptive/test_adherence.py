"""When the estimate of one k is set, and how it follows distances that become smaller."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.adaptive.constraints.adherence import Adherence


def test_careful_monitors_set_k_no_sooner_than_the_largest_distance_after_the_start() -> None:
    """Of a constant k of 5,000 the first 500 arrivals show distances up to 500 only."""
    monitor = Adherence(c=1.2, W=500)
    for arrived in range(100, 5_000, 100):
        monitor.observe(np.array([arrived]), np.array([arrived]), arrived)
        assert monitor.k_u == float("inf")


def test_few_rows_are_not_taken_for_a_small_k() -> None:
    """Of a constant k of 10,000 few rows come back in the first 1,000 arrivals: the largest distance lags behind the
    arrivals, and k_u is unknown until it has stopped to grow. From then on it is k."""
    for seed in range(20):
        random, monitor = np.random.default_rng(seed), Adherence(c=1.2, W=500)
        due: dict[int, list[int]] = {}
        for arrived in range(1, 40_000):
            due.setdefault(arrived + int(random.random() * 10_000), []).append(arrived)
            back = due.pop(arrived, [])
            monitor.observe(np.full(len(back), arrived), arrived - np.array(back, np.int64), arrived)
            assert monitor.k_u > 8_500, (seed, arrived)
        assert monitor.k_u < 10_000


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("fewest", [1_500, 1_000])
def test_a_slow_decrease_is_followed_within_a_tenth(fewest: int, careful: bool) -> None:
    """k falls from 3,000 during 20,000 arrivals."""
    random = np.random.default_rng(3)
    monitor = Adherence(c=1.2, W=500, careful=careful)
    arrived = 0
    for k in [3_000] * 80 + np.linspace(3_000, fewest, 200).astype(int).tolist():
        monitor.observe(arrived + 1 + np.arange(100), (random.random(100) * k).astype(np.int64) + 1, arrived + 100)
        arrived += 100
        if arrived > 10_000:
            assert monitor.k_u <= 1.1 * k, arrived
    assert monitor.k_u >= 0.9 * fewest


def test_a_monitor_that_was_refuted_takes_longer_to_lower_k() -> None:
    """Each time a wrong k was paid for, twice as long."""
    random, lowered = np.random.default_rng(5), []
    for refuted in range(3):
        monitor, arrived = Adherence(c=1.2, W=100), 0
        for k, many in ((2_000, 60_000), (200, 60_000)):
            for _ in range(many // 100):
                distances = (random.random(100) * k).astype(np.int64) + 1
                monitor.observe(arrived + 1 + np.arange(100), distances, arrived + 100)
                arrived += 100
                if arrived == 10_000:
                    for _ in range(refuted):
                        monitor.k_u = 2_000
                        monitor.refuted(arrived)
                if k == 200 and monitor.k_u <= 200:
                    lowered.append(arrived - 60_000)
                    break
    assert 500 < lowered[0] < 0.6 * lowered[1] < 0.36 * lowered[2], lowered
