"""Two sides in turn, a step at a time, so that a machine that grows slower or faster does so for both.

Pairs of whole runs differ by what a machine does in seconds; here the two sides change places every few milliseconds.
Steps are summed by block, and each block gives a ratio of processor times.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from statistics import median

from benchmarks.interval import interval

Steps = Iterator[object]  # does a part of the work whenever it is asked for the next


def block_ratios(make_one: Callable[[], Steps], make_other: Callable[[], Steps], block: int) -> list[float]:
    """Processor time of the one over the other in each block of so many steps. The first block warms both up.

    >>> def steps():
    ...     for _ in range(8):
    ...         yield sum(range(20_000))
    >>> len(block_ratios(steps, steps, 2))
    3
    """
    sides = make_one(), make_other()
    found: list[float] = []
    spent, done, ends = [0.0, 0.0], 0, False
    gc.collect()
    while not ends:
        for side in (0, 1) if done % 2 else (1, 0):
            begin = time.process_time()
            ends = next(sides[side], None) is None
            spent[side] += time.process_time() - begin
        done += 1
        if done % block == 0:
            found.append(spent[0] / spent[1])
            spent = [0.0, 0.0]
    return found[1:]


def spelled(ratios: list[float]) -> str:
    low, high = interval(ratios)
    return f"{median(ratios):.4f} × [{low:.4f}, {high:.4f}], {len(ratios)} blocks"
