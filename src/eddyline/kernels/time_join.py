"""The instantaneous join: pairs of pieces of equal keys that have an instant in common."""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import borrowed, inlined, kernel


@inlined
def pair_with_active(one, key, now, found, heads, following, high, own, others):
    """Pair a piece that begins at ``now`` with the active pieces of its key on the other side, whose lists are given;
    those that have ended leave their list. Returns how many pairs there are now."""
    before, other = np.int64(-1), heads[key]
    while other >= 0:
        after = following[other]
        if high[other] < now:
            if before < 0:
                heads[key] = after
            else:
                following[before] = after
        else:
            if found < len(own):
                own[found], others[found] = one, other
            found += 1
            before = other
        other = after
    return found


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
    active_a, behind_a, active_b, behind_b = borrowed(head_a), borrowed(next_a), borrowed(head_b), borrowed(next_b)
    end_a, end_b, pairs_a, pairs_b = borrowed(high_a), borrowed(high_b), borrowed(left), borrowed(right)
    i, j, found = 0, 0, np.int64(0)
    while i < len(order_a) or j < len(order_b):
        takes_a = j >= len(order_b) or (i < len(order_a) and low_a[order_a[i]] <= low_b[order_b[j]])
        if takes_a:
            one = order_a[i]
            i += 1
            key = key_a[one]
            found = pair_with_active(one, key, low_a[one], found, active_b, behind_b, end_b, pairs_a, pairs_b)
            next_a[one] = head_a[key]
            head_a[key] = one
        else:
            one = order_b[j]
            j += 1
            key = key_b[one]
            found = pair_with_active(one, key, low_b[one], found, active_a, behind_a, end_a, pairs_b, pairs_a)
            next_b[one] = head_b[key]
            head_b[key] = one
    return found


@kernel("void(int64[::1], float64[::1], int64, float64[::1])")
def next_starts(key, low, keys, following):
    """Where the next row of the same key begins, infinity if there is none. Rows are in order of ``low``."""
    after = np.full(keys, np.inf)
    for i in range(len(key) - 1, -1, -1):
        following[i] = after[key[i]]
        after[key[i]] = low[i]
