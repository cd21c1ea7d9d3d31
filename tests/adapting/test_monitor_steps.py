"""What kernels tell monitors of a batch, against all distances told one by one."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.adapting.clustered_arrival import ClusteredArrival
from eddyline.adapting.ordered_arrival import OrderedArrival
from eddyline.adaptive.constraints.adherence import Adherence
from eddyline.adaptive.constraints.forms import Forms
from eddyline.core.delta import Int64s

MANY = 3_000


def forms(careful: bool) -> Forms:
    made = Forms(*(Adherence(c=1.2, W=100, careful=careful) for _ in range(2)))
    made.passed(0, rate=0.5)
    return made


def rows(seed: int) -> tuple[Int64s, Int64s]:
    """Values that come at most 40 rows too late at first, then 7, then 90, and times with ties."""
    random = np.random.default_rng(seed)
    k = np.repeat([40, 7, 90], MANY // 3)
    values = np.argsort(np.arange(MANY) + random.random(MANY) * k, kind="stable") // 3
    return values.astype(np.int64), np.cumsum(random.integers(0, 5, MANY))


def scrambled(values: Int64s, times: Int64s) -> list[tuple[int, int]]:
    """Of each row the arrivals and the ticks since the first larger one; 0: none is."""
    found = []
    for i, v in enumerate(values.tolist()):
        larger = np.flatnonzero(values[:i] > v)
        found.append((i - int(larger[0]), int(times[i] - times[larger[0]])) if len(larger) else (0, 0))
    return found


def clustered(values: Int64s, times: Int64s) -> list[tuple[int, int]]:
    """Of each row the rows of other values, and the ticks, since the first of its value."""
    found = []
    for i, v in enumerate(values.tolist()):
        first = int(np.flatnonzero(values == v)[0])
        others = int((values[first:i] != v).sum())
        found.append((others, int(times[i] - times[first])))
    return found


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_steps_leave_monitors_as_all_distances_do(seed: int, careful: bool) -> None:
    values, times = rows(seed)
    cuts = np.unique(np.random.default_rng(seed).integers(1, MANY, 40)).tolist()
    for distances, told in (
        (scrambled(values, times), OrderedArrival(forms(careful))),
        (clustered(values, times), ClusteredArrival(forms(careful))),
    ):
        expected, seen = forms(careful), set()
        for start, stop in zip([0, *cuts], [*cuts, MANY], strict=True):
            told.arrived(values[start:stop], times[start:stop])
            far, long = np.array(distances[start:stop]).T
            at = np.flatnonzero(far)
            expected.arrivals.observe(start + at + 1, far[at], stop)
            at = np.flatnonzero(long)
            expected.observe_ticks(times[start:stop][at], long[at], int(times[stop - 1]))
            for ours, theirs in ((told.forms.arrivals, expected.arrivals), (told.forms.ticks, expected.ticks)):
                assert (ours.k_u, ours.reset_at, ours.increases) == (theirs.k_u, theirs.reset_at, theirs.increases)
                assert list(ours._recent) == list(theirs._recent)
                seen.add(ours.k_u)
        assert len(seen) > 5 and expected.arrivals.increases > 0
