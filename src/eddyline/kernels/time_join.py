"""The instantaneous join: pairs of pieces of equal keys that have an instant in common."""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel


@kernel(
    "int64(int64[::1], float64[::1], float64[::1], int64[::1], int64[::1], float64[::1], float64[::1], int64[::1], "
    "int64, int64[::1], int64[::1])"
)
def overlaps(key_a, low_a, high_a, order_a, key_b, low_b, high_b, order_b, keys, left, right):
    """Fill ``left`` and ``right`` with pairs of rows as far as they reach, and return how many there are.

    The orders are by (low, row). A pair is found when its later piece begins; active pieces stand in a list by key,
    and leave it when one of the other side finds that they have ended.
    """
    head_a, head_b = np.full(keys, -1, np.int64), np.full(keys, -1, np.int64)
    next_a, next_b = np.full(len(key_a), -1, np.int64), np.full(len(key_b), -1, np.int64)
    i = j = found = 0
    room = len(left)
    while i < len(order_a) or j < len(order_b):
        takes_a = j >= len(order_b) or (i < len(order_a) and low_a[order_a[i]] <= low_b[order_b[j]])
        if takes_a:
            one = order_a[i]
            i += 1
            k, now = key_a[one], low_a[one]
            before, other = -1, head_b[k]
            while other >= 0:
                after = next_b[other]
                if high_b[other] < now:
                    if before < 0:
                        head_b[k] = after
                    else:
                        next_b[before] = after
                else:
                    if found < room:
                        left[found], right[found] = one, other
                    found += 1
                    before = other
                other = after
            next_a[one] = head_a[k]
            head_a[k] = one
        else:
            one = order_b[j]
            j += 1
            k, now = key_b[one], low_b[one]
            before, other = -1, head_a[k]
            while other >= 0:
                after = next_a[other]
                if high_a[other] < now:
                    if before < 0:
                        head_a[k] = after
                    else:
                        next_a[before] = after
                else:
                    if found < room:
                        left[found], right[found] = other, one
                    found += 1
                    before = other
                other = after
            next_b[one] = head_b[k]
            head_b[k] = one
    return found


@kernel("void(int64[::1], float64[::1], int64, float64[::1])")
def next_starts(key, low, keys, following):
    """Where the next row of the same key begins, infinity if there is none. Rows are in order of ``low``."""
    after = np.full(keys, np.inf)
    for i in range(len(key) - 1, -1, -1):
        following[i] = after[key[i]]
        after[key[i]] = low[i]
