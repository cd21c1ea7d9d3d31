"""Sliding minima as steps: the smallest of numbers that are all valid for equally long.

Each number holds for [low, low + width). They begin in order, so those that can still become the smallest are a queue
in order of their values: one that comes later and is not larger outlives all before it that are larger. Each number
enters and leaves the queue once, however many hold at a time.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel


@kernel("int64(int64[::1], float64[::1], float64[::1], float64, int64[::1], float64[::1], float64[::1])")
def sliding_steps(group, low, value, width, row, begin, end):
    """Of each group, whose numbers are in order of ``low``: which number is the smallest from ``begin`` to ``end``;
    returns how many steps there are, at most two for a number. Of equal numbers the last counts."""
    n, made = len(group), 0
    queue = np.empty(n, np.int64)
    start = 0
    while start < n:
        stop = start
        while stop < n and group[stop] == group[start]:
            stop += 1
        front = back = 0
        since = 0.0  # since when the first of the queue is the smallest
        for i in range(start, stop + 1):
            now = low[i] if i < stop else np.inf
            while front < back and low[queue[front]] + width <= now:
                until = low[queue[front]] + width
                if until > since:
                    row[made], begin[made], end[made] = queue[front], since, until
                    made += 1
                since = until
                front += 1
            if i == stop:
                break
            if front == back:
                since = now
            while front < back and value[queue[back - 1]] >= value[i]:
                back -= 1
                if front == back:
                    if now > since:
                        row[made], begin[made], end[made] = queue[back], since, now
                        made += 1
                    since = now
            if front == back:
                front = back = 0
            queue[back] = i
            back += 1
        start = stop
    return made
