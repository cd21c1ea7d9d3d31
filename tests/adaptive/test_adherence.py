"""When the estimate of one k is set."""

from __future__ import annotations

import numpy as np

from eddyline.adaptive.constraints.adherence import Adherence


def test_careful_monitors_set_k_no_sooner_than_the_largest_distance_after_the_start() -> None:
    """Of a constant k of 5,000 the first 500 arrivals show distances up to 500 only."""
    monitor = Adherence(c=1.2, W=500)
    for arrived in range(100, 5_000, 100):
        monitor.observe(np.array([arrived]), np.array([arrived]), arrived)
        assert monitor.k_u == float("inf")
