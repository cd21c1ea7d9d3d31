"""The interval of a median."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb


def interval(ratios: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """The k-th smallest and the k-th largest, the innermost that hold the true median with this probability.

    >>> interval([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7])
    (1.0, 1.7)
    """
    ordered, n = sorted(ratios), len(ratios)
    k = 0
    while k < (n - 1) // 2 and 2 * sum(comb(n, i) for i in range(k + 1)) / 2**n <= 1 - level:
        k += 1
    k = max(0, k - 1)
    return ordered[k], ordered[n - 1 - k]
