"""How the estimate of one k follows distances that become smaller."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.adaptive.constraints.adherence import Adherence


@pytest.mark.parametrize("careful", [False, True])
def test_a_slow_decrease_is_followed_within_a_tenth(careful: bool) -> None:
    """k falls from 3,000 to 1,500 during 20,000 arrivals."""
    random = np.random.default_rng(3)
    monitor = Adherence(c=1.2, W=500, careful=careful)
    arrived = 0
    for k in [3_000] * 80 + np.linspace(3_000, 1_500, 200).astype(int).tolist():
        monitor.observe(arrived + 1 + np.arange(100), (random.random(100) * k).astype(np.int64) + 1, arrived + 100)
        arrived += 100
        if arrived > 10_000:
            assert monitor.k_u <= 1.1 * k, arrived
    assert monitor.k_u >= 0.9 * 1_500


def test_careful_monitors_set_k_no_sooner_than_the_largest_distance_after_the_start() -> None:
    """Of a constant k of 5,000 the first 500 arrivals show distances up to 500 only."""
    monitor = Adherence(c=1.2, W=500)
    for arrived in range(100, 5_000, 100):
        monitor.observe(np.array([arrived]), np.array([arrived]), arrived)
        assert monitor.k_u == float("inf")
