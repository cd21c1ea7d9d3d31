"""What a monitor of ordered arrival remembers of many rows, against all running maxima."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.adapting.ordered_arrival import OrderedArrival
from eddyline.adaptive.constraints.adherence import Adherence
from eddyline.adaptive.constraints.forms import Forms
from eddyline.core.delta import Int64s

MANY = 40_000


def monitor(in_ticks: bool) -> OrderedArrival:
    form = "ticks" if in_ticks else "arrivals"
    return OrderedArrival(Forms(Adherence(c=1.2, W=1000), Adherence(c=1.2, W=1000), form))


def scrambled(k: int, seed: int) -> tuple[Int64s, Int64s]:
    """Values of which one in fifty comes up to about k rows too late, and times with quiet hours."""
    random = np.random.default_rng(seed)
    late = np.where(random.random(MANY) < 0.02, random.random(MANY) * k, 0)
    values = np.argsort(np.arange(MANY) + late, kind="stable")
    pauses = np.where(random.random(MANY) < 0.001, 5_000, random.integers(0, 3, MANY))
    return values.astype(np.int64), np.cumsum(pauses)


@pytest.mark.parametrize("in_ticks", [False, True])
@pytest.mark.parametrize("k", [0, 10, 300, 6_000])
def test_maxima_taken_together_never_infer_too_much_and_little_less(k: int, in_ticks: bool) -> None:
    for seed in range(2):
        values, times = scrambled(k, seed)
        oa, all_of_them = monitor(in_ticks), monitor(in_ticks)
        all_of_them._dense = 10 * MANY  # takes none together
        for start in range(0, MANY, 500):
            part = slice(start, start + 500)
            for one in (oa, all_of_them):
                one.arrived(values[part], times[part])
            now = int(times[part][-1])
            assert oa.low(now) <= all_of_them.low(now)
            ours, exact = oa.forms.used.k_u, all_of_them.forms.used.k_u
            if np.isfinite(ours) and np.isfinite(exact):
                assert exact <= ours <= 1.04 * exact + 1
        assert oa.forms.arrivals.increases <= all_of_them.forms.arrivals.increases + 1
        assert len(oa.at) <= 2_000 and (k < 6_000 or oa.nbytes < all_of_them.nbytes / 4)
