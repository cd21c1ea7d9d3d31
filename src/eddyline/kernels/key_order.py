"""The order of keys, by their digits: keys that are spilled or merged together lie close to one another."""

from __future__ import annotations

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels.compile import kernel

DIGIT_BITS = 11  # a count for each value of a digit fits into the processor's first cache
MIN_KEYS_FOR_DIGITS = 256  # fewer keys are sorted by comparison
MAX_PASSES = 4  # digits; keys that differ in more are sorted by comparison


def in_order(keys: Int64s) -> Int64s:
    """The places of keys, by increasing keys, and those of equal keys in order.

    >>> keys = np.random.default_rng(1).integers(-500, 500, 1_000)
    >>> (in_order(keys) == np.argsort(keys, kind="stable")).all()
    np.True_
    """
    least = int(keys.min()) if len(keys) else 0
    passes = -(-(int(keys.max()) - least).bit_length() // DIGIT_BITS) if len(keys) else 0
    if len(keys) < MIN_KEYS_FOR_DIGITS or passes > MAX_PASSES:
        return np.argsort(keys, kind="stable")
    order, spare = np.empty((2, len(keys)), np.int64)
    by_digits(np.ascontiguousarray(keys), least, passes, order, spare, np.empty(1 << DIGIT_BITS, np.int64))
    return order


@kernel("void(int64[::1], int64, int64, int64[::1], int64[::1], int64[::1])")
def by_digits(keys, least, passes, order, spare, counts):
    """Sort the places of keys by one digit of the distance from the least key after another, the lowest first."""
    for i in range(len(keys)):
        order[i] = i
    for turn in range(passes):
        shift = np.int64(turn * DIGIT_BITS)
        for d in range(len(counts)):
            counts[d] = 0
        for i in range(len(keys)):
            counts[((keys[i] - least) >> shift) & np.int64((1 << DIGIT_BITS) - 1)] += 1
        at = np.int64(0)
        for d in range(len(counts)):
            here = counts[d]
            counts[d] = at
            at += here
        for i in range(len(keys)):
            s = order[i]
            d = ((keys[s] - least) >> shift) & np.int64((1 << DIGIT_BITS) - 1)
            spare[counts[d]] = s
            counts[d] += 1
        for i in range(len(keys)):
            order[i] = spare[i]
