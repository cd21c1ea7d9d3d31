"""Online estimates: averages of the W most recent observations (section 5.5.3)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence


class Window:
    """The W most recent observations of a statistic, each with a weight.

    ``mean`` is Σ value / Σ weight: with weights of one the average, with values and weights that are both counted
    (misses out of probes, seconds for tuples) the ratio that the thesis estimates as sum(τ)/sum(δ).

    >>> window = Window(2)
    >>> for misses, probes in ((9, 10), (1, 10), (3, 30)):
    ...     window.push(misses, probes)
    >>> window.mean, window.full
    (0.1, True)
    """

    __slots__ = ("_values", "_weights", "size")

    def __init__(self, size: int = 10) -> None:
        self.size = size
        # Summed when asked, not kept as running sums, which would drift away from what is in the window.
        self._values: deque[float] = deque(maxlen=size)
        self._weights: deque[float] = deque(maxlen=size)

    def push(self, value: float, weight: float = 1.0) -> None:
        self._values.append(float(value))
        self._weights.append(float(weight))

    def forget(self, weight: float) -> None:
        """Only as much of the past counts as is needed for so much weight; the last observation always does.

        >>> window = Window(5)
        >>> for count in (9, 9, 1, 1):
        ...     window.push(count, 10)
        >>> window.forget(20)
        >>> window.mean
        0.1
        """
        total = sum(self._weights)
        while len(self._weights) > 1 and total - self._weights[0] >= weight:
            total -= self._weights.popleft()
            self._values.popleft()

    def keep(self, observations: int) -> None:
        """Only so many of them."""
        while len(self._values) > observations:
            self._weights.popleft()
            self._values.popleft()

    @property
    def weight(self) -> float:
        return sum(self._weights)

    def clear(self) -> None:
        self._values.clear()
        self._weights.clear()

    def __len__(self) -> int:
        return len(self._values)

    @property
    def full(self) -> bool:
        return len(self._values) == self.size

    @property
    def sum(self) -> float:
        return sum(self._values)

    @property
    def mean(self) -> float:
        """0 where nothing was seen: a statistic without weight costs nothing."""
        weight = sum(self._weights)
        return sum(self._values) / weight if weight else 0.0

    def state(self) -> list[list[float]]:
        return [[v, w] for v, w in zip(self._values, self._weights, strict=True)]

    def load(self, state: Iterable[Sequence[float]]) -> None:
        self.clear()
        for v, w in state:
            self.push(v, w)


def miss_probability(bits: int, tuples: int) -> float:
    """The share of distinct keys among the tuples that would have probed a cache: each misses once, then is there.

    ``bits`` are those set in a Bloom filter of α bits a tuple, which a few more keys than bits may have set; with large
    α the difference is small. Keys that recur less often than every ``tuples`` probes count as misses, so the estimate
    errs on the side of no cache.

    >>> miss_probability(20, 100)
    0.2
    """
    return min(1.0, bits / tuples) if tuples else 1.0


def anchored_miss_probability(bits: int, tuples: int, rows: float) -> float:
    """The miss probability of a cache that keeps an entry only while the window of the probing input, which has
    ``rows`` rows, holds a row with its key.

    A row that leaves its window finds the entry that it made, or found, when it came. A row that comes finds an entry
    if the window holds another row of its key. Where the profiled ``tuples`` are more than the window holds, fewer rows
    find one than keys recur: the number of equally frequent keys that would leave so many ``bits`` distinct says how
    many.

    >>> miss_probability(958, 4096), round(anchored_miss_probability(958, 4096, 300), 2)
    (0.23388671875, 0.38)
    """
    seen = tuples / 2 + rows  # rows whose arrival or departure was among the tuples
    if rows <= 0 or tuples / 2 <= rows:
        return miss_probability(bits, tuples)
    if bits >= seen:
        return 0.5
    low, high = float(bits), float(bits) * tuples
    for _ in range(50):
        keys = (low + high) / 2
        low, high = (keys, high) if keys * -math.expm1(-seen / keys) < bits else (low, keys)
    return 0.5 * math.exp(-rows / low)
