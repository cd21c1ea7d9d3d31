"""Horvitz–Thompson: estimates of sums over all rows from a sample, with an interval.

Each row i was kept with a known probability π_i by a coin of its own (Poisson sampling; π = 1 while there was no
overload); w_i = 1/π_i. Over the kept rows:

===========  ==========================================  ====================================================
``count``    N̂ = Σ w                                     V̂ = Σ w (w − 1)
``sum(y)``   Ŷ = Σ w y                                   V̂ = Σ w (w − 1) y²
``avg(y)``   ŷ = Ŷ / N̂, a ratio, linearised              V̂ = Σ w (w − 1) (y − ŷ)² / N̂²
===========  ==========================================  ====================================================

The interval is the estimate ± 1.96 √V̂: 95 %, as far as the sum is nearly normal. It needs some dozens of sampled rows.

D. G. Horvitz, D. J. Thompson: A Generalization of Sampling Without Replacement From a Finite Universe, 1952.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

Z: Final = 1.959964  # the 97.5 % quantile of the normal distribution


@dataclass(frozen=True, slots=True)
class Estimate:
    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def covers(self, truth: float) -> bool:
        return self.low <= truth <= self.high


def total(value: float, variance: float) -> Estimate:
    """
    >>> total(100.0, 4.0)
    Estimate(value=100.0, low=96.080072, high=103.919928)
    """
    half = Z * math.sqrt(max(0.0, variance))
    return Estimate(value, value - half, value + half)


def average(count: float, of_sum: float, ww: float, wwy: float, wwyy: float) -> Estimate | None:
    """``ww``, ``wwy``, ``wwyy`` are the sums of w (w − 1) times 1, y and y²; None where there are no rows.

    >>> average(10.0, 50.0, 0.0, 0.0, 0.0)
    Estimate(value=5.0, low=5.0, high=5.0)
    """
    if count <= 0:
        return None
    mean = of_sum / count
    return total(mean, (wwyy - 2 * mean * wwy + mean * mean * ww) / (count * count))
