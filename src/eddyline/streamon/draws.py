"""Uniform numbers for tuples, from a hash of (seed, number of the tuple, number of the draw).

There is no state but the number of the next tuple, and what a tuple draws does not depend on batch borders.
"""

from __future__ import annotations

import numpy as np

from eddyline.core.delta import Float64s

_ALL_BITS = 2**64 - 1


def uniform_draws(seed: int, first: int, rows: int, draws: int = 1) -> Float64s:
    """``rows`` × ``draws`` numbers in (0, 1), the first row for the tuple with number ``first``.

    >>> uniform_draws(7, 0, 3, 2).round(3).tolist()
    [[0.019, 0.831], [0.738, 0.841], [0.279, 0.619]]
    >>> bool((uniform_draws(7, 1, 2, 2) == uniform_draws(7, 0, 3, 2)[1:]).all())
    True
    """
    start = (first * draws) % 2**64
    x = np.arange(rows * draws, dtype=np.uint64) + np.uint64(start)
    x = x * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed * 0xD1342543DE82EF95 % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    uniform: Float64s = ((x >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return uniform.reshape(rows, draws)


def uniform_draw(seed: int, number: int, draws: int) -> list[float]:
    """The numbers of one tuple, without the price of arrays.

    >>> uniform_draw(7, 1, 2) == uniform_draws(7, 1, 1, 2)[0].tolist()
    True
    """
    found = []
    for i in range(draws):
        x = ((number * draws + i) * 0x9E3779B97F4A7C15 + seed * 0xD1342543DE82EF95) & _ALL_BITS
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _ALL_BITS
        x = (x ^ x >> 27) * 0x94D049BB133111EB & _ALL_BITS
        x ^= x >> 31
        found.append(((x >> 11) + 0.5) / 2.0**53)
    return found
