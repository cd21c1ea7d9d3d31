"""A sweep over lines finds for each constant what one comparison finds: roots at ends, points, what is no number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eddyline.kernels.polynomials import GE, GT, HIGH_CLOSED, LE, LOW_CLOSED, LT, compare
from eddyline.kernels.sweep import sweep_lines

CONSTANTS = np.array([-1.0, 0.0, 1.0, 2.5, 3.5, 1e9, 0.7, -0.3])


def has_tick(low: float, high: float, flags: int) -> bool:
    first = np.ceil(low) + (1 if np.ceil(low) == low and not flags & LOW_CLOSED else 0)
    return bool(low == high or first < high or (first == high and flags & HIGH_CLOSED))


@pytest.mark.parametrize("comparison", [LT, LE, GE, GT])
def test_a_sweep_against_one_comparison_for_each_constant(comparison: int) -> None:
    intervals = cut = without_tick = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 60))
        base = np.floor(rng.uniform(-50, 50, n))
        low = base + rng.choice([0, 0, 1, 3, 8], n)
        high = low + rng.choice([0, 1, 2, 5, 100, 1e6], n)
        closed = np.where(low == high, LOW_CLOSED | HIGH_CLOSED, LOW_CLOSED).astype(np.uint8)
        levels, slopes = rng.choice([-1, 0, 1, 2.5, 1e9, rng.normal()], n), rng.choice([0, 1, -1, 3, 1e-17, 1e9], n)
        line = np.column_stack([np.where(rng.random(n) < 0.03, np.nan, levels), slopes])
        scale = float(rng.choice([1.0, 1e-3, 1e-6, 0.5]))
        lines = base, low, high, closed
        room = len(CONSTANTS) * n + 2
        count, out, dropped = np.zeros(len(CONSTANTS), np.int64), np.zeros((2, room)), np.zeros(1, np.int64)
        row, a, b, flags = found = places(room)
        made = sweep_lines(line, *lines, scale, CONSTANTS, comparison, line, False, count, *found, out, dropped)
        row, a, b = row[:made], a[:made], b[:made]
        expected: list[tuple[float, ...]] = []
        for constant in CONSTANTS:
            one = places(n + 2)
            many = compare(line, np.full((n, 1), constant), scale, *lines, comparison, *one)
            expected += zip(*(x[:many] for x in one), strict=True)
        kept = [e for e in expected if has_tick(e[1], e[2], int(e[3]))]
        assert list(zip(row, a, b, flags[:made], strict=True)) == kept
        assert int(dropped[0]) == len(expected) - len(kept)
        assert (out[1, :made] == line[row, 1]).all()
        assert (out[0, :made] == line[row, 0] + (a - base[row]) * scale * line[row, 1]).all()
        intervals, without_tick = intervals + made, without_tick + int(dropped[0])
        cut += int(((a != low[row]) | (b != high[row])).sum())
    assert intervals > 1000 and cut > 100 and without_tick > 10


def places(room: int) -> tuple[Any, ...]:
    return np.zeros(room, np.int64), np.zeros(room), np.zeros(room), np.zeros(room, np.uint8)
