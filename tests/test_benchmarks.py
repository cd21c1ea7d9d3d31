"""The benchmarks measure what they say: the bare kernel joins, ratios and limits are what they seem."""

from __future__ import annotations

import doctest
from itertools import product

import numpy as np
import pytest
from benchmarks import bare_kernel, harness, linearity, registry
from benchmarks.harness import Limit, Measured, ratio


def test_the_bare_kernel_joins_within_windows() -> None:
    rng = np.random.default_rng(7)
    times = [np.sort(rng.integers(0, 400, n)) for n in (50, 60, 40)]
    keys = [rng.integers(0, 4, len(t)) for t in times]
    width = 30
    found = bare_kernel.run(*bare_kernel.laid_out(times, keys), width, 100_000, most=64)
    expected = {
        rows
        for rows in product(*(range(len(t)) for t in times))
        if len({int(k[r]) for k, r in zip(keys, rows, strict=True)}) == 1
        and np.ptp([t[r] for t, r in zip(times, rows, strict=True)]) <= width
    }
    assert len(expected) > 100
    assert found.shape[1] == len(expected)
    assert {tuple(column) for column in found.T.tolist()} == expected


def test_a_ratio_compares_within_rounds() -> None:
    """A machine that is slow in one round is slow for both."""
    ours, peer = Measured("ours", "", [1.0, 10.0, 1.2]), Measured("peer", "", [0.5, 5.0, 0.6])
    assert ratio(ours, peer) == pytest.approx(2.0)
    assert ratio(ours, peer, peer) == pytest.approx(1.0)


def test_limits_say_whether_they_are_met() -> None:
    assert str(Limit("time", 1.5, 2.0)).startswith("met")
    assert str(Limit("time", 2.5, 2.0)).startswith("MISSED")
    assert Limit("events", 5e6, 5e6, "at least").met


def test_every_benchmark_has_a_name_of_its_own() -> None:
    names = [b.name for b in registry.ALL]
    assert len(set(names)) == len(names)
    assert registry.find(names[-1]).name == names[-1]


@pytest.mark.parametrize("module", [bare_kernel, harness, linearity])
def test_doctests(module: object) -> None:
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0  # type: ignore[arg-type]
