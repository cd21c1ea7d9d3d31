"""How many results a lossy join misses: estimated from rows that it should have dropped and kept as a sample.

Useless rows of a share p of the keys are kept. A result with such a row is one that would be missing if its key were
not in the sample, so c results of a sampled key stand for c (1 − p) / p missing ones. Keys are few and bring several
results each: the interval is that of as many keys of one size as have the same mean and variance as the sum of results
by key. It holds the number that is missing, which varies, too: one sampled key may be the only one that was late.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from eddyline.core.delta import Int64s

TAIL = 0.025  # outside of the interval, at each end
Z = 1.959964  # of a normal distribution: 95 % lie within
EXACT = 500  # keys up to which the interval is summed up
ROUNDING = 1e-9


class MissedResults:
    """
    >>> missed = MissedResults(0.1)
    >>> missed.seen(np.array([7, 7, 9]))
    >>> found = missed.report()
    >>> found["missed"], round(found["low"]), round(found["high"])
    (27.0, 0, 112)
    """

    def __init__(self, p: float) -> None:
        self.p = p
        self.by_key: Counter[int] = Counter()

    def seen(self, keys: Int64s) -> None:
        """Results of sampled keys."""
        for key, many in zip(*np.unique(keys, return_counts=True), strict=True):
            if (int(key) & 65535) < self.share:
                self.by_key[int(key)] += int(many)

    def thin(self, p: float) -> None:
        """Go on with a smaller share. Samples are nested, by the lowest 16 bits of a key's hash: what was seen of the
        smaller one is known for all time."""
        if p < self.p:
            self.p = p
            self.by_key = Counter({key: many for key, many in self.by_key.items() if (key & 65535) < self.share})

    @property
    def share(self) -> int:
        """Of 65,536; even, for the lowest bit of a hash is not kept."""
        return max(2, 2 * round(32768 * self.p))

    def report(self) -> dict[str, float]:
        """The estimate and its interval of 95 %."""
        counts = list(self.by_key.values())
        total, squares = float(sum(counts)), float(sum(c * c for c in counts))
        size = squares / total if total else 1.0  # results of a key
        keys, scale = total / size, (1 - self.p) / self.p
        low, _ = missing_interval(math.floor(keys + ROUNDING), self.p)
        _, high = missing_interval(math.ceil(keys - ROUNDING), self.p)
        return {"missed": total * scale, "low": low * size, "high": high * size}

    def state(self) -> dict[str, Any]:
        """Results by key, and the share."""
        pairs = np.array(sorted(self.by_key.items()), np.int64).reshape(-1, 2)
        return {"keys": np.ascontiguousarray(pairs[:, 0]), "counts": np.ascontiguousarray(pairs[:, 1]), "p": self.p}

    def load(self, state: dict[str, Any]) -> None:
        self.p = float(state["p"])
        self.by_key = Counter(dict(zip(state["keys"].tolist(), state["counts"].tolist(), strict=True)))


def missing_interval(n: int, p: float) -> tuple[float, float]:
    """How many keys are outside a sample that has ``n`` of them, each with the probability ``p``: the interval of 95 %
    (Clopper and Pearson's, of the number of trials; beyond ``EXACT`` keys that of the normal distribution).

    >>> missing_interval(0, 0.1), missing_interval(1, 0.1), missing_interval(10, 0.1)
    ((0.0, 35.0), (0.0, 52.0), (41.0, 169.0))
    """
    if n > EXACT:
        # (n − pN)² = Z² N p (1 − p), solved for N.
        middle, half = n + Z * Z * (1 - p) / 2, Z * math.sqrt((1 - p) * (n + Z * Z * (1 - p) / 4))
        return max(0.0, (middle - half) / p - n), (middle + half) / p - n
    low = _first(n, lambda trials: 1 - _at_most(n - 1, trials, p) >= TAIL)
    high = _first(n, lambda trials: _at_most(n, trials, p) < TAIL) - 1
    return float(low - n), float(high - n)


def _first(least: int, holds: Callable[[int], bool]) -> int:
    """The least number, from ``least`` on, for which a condition holds that goes on to hold."""
    step = 1
    while not holds(least + step - 1):
        step *= 2
    return least + bisect_left(range(step), True, key=lambda more: holds(least + more))


def _at_most(n: int, trials: int, p: float) -> float:
    """The probability of at most ``n`` successes."""
    whole = math.lgamma(trials + 1)
    return sum(
        math.exp(
            whole - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * math.log(p) + (trials - k) * math.log1p(-p)
        )
        for k in range(min(n, trials) + 1)
    )
