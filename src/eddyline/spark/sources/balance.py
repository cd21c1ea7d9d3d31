"""Divides a micro-batch between sources.

An instant closes when every stream has shown a later time, so what one stream is ahead of the others is held back and
takes memory. Where the times of all sources are known ahead (statistics of Parquet files, rows in memory), all of them
go on to about the same time; elsewhere each goes on by the same part of what it has left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eddyline.spark.sources.parts import Outlook, Times


def by_time(outlooks: Sequence[Outlook], rows: int) -> list[float] | None:
    """So many rows in all, up to one time; None if times are not known.

    >>> slow = Outlook(100, Times(np.array([0, 100]), np.array([0, 100])))
    >>> fast = Outlook(100, Times(np.array([0, 10]), np.array([0, 100])))
    >>> by_time([slow, fast], 55)
    [5.0, 50.0]
    """
    known = [o.times for o in outlooks if o.times is not None]
    if len(known) < len(outlooks) or not known:
        return None
    low, high = min(int(t.ticks[0]) for t in known) - 1, max(int(t.ticks[-1]) for t in known)
    if sum(_until(t, high) for t in known) <= rows:
        return [_until(t, high) for t in known]
    while high - low > 1:
        middle = (low + high) // 2
        if sum(_until(t, middle) for t in known) > rows:
            high = middle
        else:
            low = middle
    # Many rows may have the very time at which it gets too much: each source takes the same part of its own.
    least, most = [_until(t, low) for t in known], [_until(t, high) for t in known]
    part = (rows - sum(least)) / max(sum(most) - sum(least), 1.0)
    return [a + (b - a) * part for a, b in zip(least, most, strict=True)]


def _until(times: Times, tick: int) -> float:
    """Rows up to and with a time, straight between two that are known.

    >>> known = Times(np.array([0, 10, 10, 20]), np.array([0, 5, 8, 9]))
    >>> _until(known, 10), _until(known, -1)
    (8.0, 0.0)
    """
    after = int(np.searchsorted(times.ticks, tick, side="right"))
    if after == 0:
        return 0.0
    here = float(times.rows[after - 1])
    if after == len(times.ticks):
        return here
    span = int(times.ticks[after]) - int(times.ticks[after - 1])
    return here + (float(times.rows[after]) - here) * (tick - int(times.ticks[after - 1])) / span


def by_part(remaining: Sequence[float], rows: int) -> list[float]:
    """So many rows in all, in proportion to what is left; a source without an end counts like the largest.

    >>> by_part([300, 100], 40), by_part([10, math.inf], 100), by_part([math.inf, math.inf], 10)
    ([30.0, 10.0], [10, 10], [5.0, 5.0])
    """
    finite = [r for r in remaining if math.isfinite(r)]
    weights = [r if math.isfinite(r) else max(finite, default=0) or float(rows) for r in remaining]
    if sum(weights) <= rows:
        return weights
    return [w * rows / sum(weights) for w in weights]
