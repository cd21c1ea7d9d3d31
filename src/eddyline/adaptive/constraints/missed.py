"""How many results a lossy join misses: estimated from rows that it should have dropped and kept as a sample.

Useless rows of a share p of the keys are kept. A result with such a row is one that would be missing if its key were
not in the sample, so c results of a sampled key stand for c (1 − p) / p missing ones. Keys are few and bring several
results each: the interval is that of a Poisson count with the same mean and variance as the sum of results by key.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from eddyline.core.delta import Int64s

Z = 1.959964  # of a normal distribution: 95 % lie within


class MissedResults:
    """
    >>> missed = MissedResults(0.1)
    >>> missed.seen(np.array([7, 7, 8]))
    >>> found = missed.report()
    >>> found["missed"], round(found["low"]), round(found["high"])
    (27.0, 2, 104)
    """

    def __init__(self, p: float) -> None:
        self.p = p
        self.by_key: Counter[int] = Counter()

    def seen(self, keys: Int64s) -> None:
        """Results of sampled keys."""
        for key, many in zip(*np.unique(keys, return_counts=True), strict=True):
            self.by_key[int(key)] += int(many)

    def report(self) -> dict[str, float]:
        """The estimate and its interval of 95 %."""
        counts = list(self.by_key.values())
        total, squares = float(sum(counts)), float(sum(c * c for c in counts))
        size = squares / total if total else 1.0  # results of a key
        low, high = poisson_interval(total / size)
        scale = (1 - self.p) / self.p
        return {"missed": total * scale, "low": low * size * scale, "high": high * size * scale}

    def state(self) -> dict[str, Any]:
        pairs = np.array(sorted(self.by_key.items()), np.int64).reshape(-1, 2)
        return {"keys": np.ascontiguousarray(pairs[:, 0]), "counts": np.ascontiguousarray(pairs[:, 1])}

    def load(self, state: dict[str, Any]) -> None:
        self.by_key = Counter(dict(zip(state["keys"].tolist(), state["counts"].tolist(), strict=True)))


def poisson_interval(n: float) -> tuple[float, float]:
    """The interval of 95 % of the mean of a Poisson variable of which ``n`` was observed (Garwood's, by the
    approximation of Wilson and Hilferty to the quantiles of χ²).

    >>> [round(x, 1) for x in poisson_interval(10)], round(poisson_interval(0)[1], 1)
    ([4.8, 18.4], 3.7)
    """
    low = n * max(0.0, 1 - 1 / (9 * n) - Z / (3 * math.sqrt(n))) ** 3 if n > 0 else 0.0
    m = n + 1
    high = m * (1 - 1 / (9 * m) + Z / (3 * math.sqrt(m))) ** 3
    return low, high
