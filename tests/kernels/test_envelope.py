"""Envelopes of lines, which are compared without arrays, against the same lines as polynomials of a higher degree."""

from __future__ import annotations

import numpy as np

from eddyline.core.delta import Float64s, Int64s
from eddyline.kernels.envelope import lower_envelope


def pieces(rng: np.random.Generator, many: int = 60) -> tuple[Int64s, Float64s, Float64s, Float64s, Float64s]:
    """Lines of a few groups with ties, parallel ones, touching ends, and crossings within and at the ends."""
    group = np.sort(rng.integers(0, 3, many))
    low = rng.integers(0, 40, many).astype(float)
    order = np.lexsort((low, group))
    group, low = group[order], low[order]
    c = np.column_stack([rng.integers(-4, 5, many), rng.integers(-2, 3, many) / 2.0]).astype(float)
    if rng.random() < 0.5:
        c += rng.normal(size=c.shape) * np.array([1.0, 0.1])
    if rng.random() < 0.3:
        c[:, 0] += 1e6
    return group, low, low + rng.integers(1, 25, many), low - rng.integers(0, 3, many), c


def envelope(
    group: Int64s, low: Float64s, high: Float64s, base: Float64s, c: Float64s
) -> tuple[Int64s, Float64s, Float64s]:
    room = 100 * len(group)
    row, start, end = np.empty(room, np.int64), np.empty(room), np.empty(room)
    constant = ~c[:, 1:].any(axis=1)
    rank = np.arange(len(group)) % 7
    made = lower_envelope(group, np.ascontiguousarray(c), base, low, high, rank, constant, 1.0, row, start, end)
    assert made >= 0
    return row[:made], start[:made], end[:made]


def test_lines_are_compared_as_polynomials_are() -> None:
    crossings = 0
    for case in range(200):
        group, low, high, base, c = pieces(np.random.default_rng(case))
        lines = envelope(group, low, high, base, c)
        padded = envelope(group, low, high, base, np.column_stack([c, np.zeros(len(c))]))
        assert np.array_equal(lines[0], padded[0])
        assert np.allclose(lines[1], padded[1], rtol=0, atol=1e-9)
        assert np.allclose(lines[2], padded[2], rtol=0, atol=1e-9)
        crossings += int((lines[1] % 1.0 != 0.0).sum())
    assert crossings > 200


def test_an_envelope_is_the_least_of_what_is_there() -> None:
    for case in range(50):
        rng = np.random.default_rng([2, case])
        group, low, high, base, c = pieces(rng)
        row, start, end = envelope(group, low, high, base, c)
        for t in rng.uniform(0, 66, 40):
            for g in range(3):
                there = np.flatnonzero((group == g) & (low <= t) & (t < high))
                found = row[(group[row] == g) & (start <= t) & (t < end)]
                assert len(found) == min(1, len(there))
                if len(there):
                    values = c[there, 0] + c[there, 1] * (t - base[there])
                    mine = c[found[0], 0] + c[found[0], 1] * (t - base[found[0]])
                    assert mine <= values.min() + 1e-9 * (1.0 + abs(mine))
