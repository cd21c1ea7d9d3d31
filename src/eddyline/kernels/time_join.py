"""The instantaneous join: pairs of pieces of equal keys that have an instant in common."""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import borrowed, inlined, kernel
from eddyline.kernels.polynomials import HIGH_CLOSED, LOW_CLOSED

BELOW, EQUAL, ABOVE = 1, 2, 4  # how the rank of one piece compares with that of another, as bits


@inlined
def pair_with_active(
    one, key, now, closed_now, found, heads, following, high, closed, allowed, rank, ranks, own, others
):
    """Pair a piece that begins at ``now`` with the active pieces of its key on the other side, whose lists are given;
    those that have ended leave their list. ``allowed``: bits of the ways in which the rank of the one may compare with
    the rank of the other. Returns how many pairs there are now."""
    before, other = np.int64(-1), heads[key]
    while other >= 0:
        after = following[other]
        if high[other] < now or (high[other] == now and not closed[other] & HIGH_CLOSED):
            if before < 0:
                heads[key] = after
            else:
                following[before] = after
        else:
            compared = BELOW if rank < ranks[other] else (ABOVE if rank > ranks[other] else EQUAL)
            if compared & allowed and (high[other] > now or closed_now & LOW_CLOSED):
                if found < len(own):
                    own[found], others[found] = one, other
                found += 1
            before = other
        other = after
    return found


@kernel(
    "int64(int64[::1], float64[::1], float64[::1], uint8[::1], int64[::1], int64[::1], int64[::1], float64[::1], "
    "float64[::1], uint8[::1], int64[::1], int64[::1], int64, int64, int64[::1], int64[::1])"
)
def overlaps(
    key_a, low_a, high_a, closed_a, rank_a, order_a, key_b, low_b, high_b, closed_b, rank_b, order_b, keys, compared,
    left, right,
):  # fmt: skip
    """Fill ``left`` and ``right`` with pairs of rows as far as they reach, and return how many there are.

    The orders are by (low, row). A pair is found when its later piece begins; active pieces stand in a list by key,
    and leave it when one of the other side finds that they have ended. Pairs are only those whose ranks compare as
    ``compared`` says (bits ``BELOW``, ``EQUAL``, ``ABOVE`` of a against b).
    """
    head_a, head_b = np.full(keys, -1, np.int64), np.full(keys, -1, np.int64)
    next_a, next_b = np.full(len(key_a), -1, np.int64), np.full(len(key_b), -1, np.int64)
    active_a, behind_a, active_b, behind_b = borrowed(head_a), borrowed(next_a), borrowed(head_b), borrowed(next_b)
    end_a, end_b, pairs_a, pairs_b = borrowed(high_a), borrowed(high_b), borrowed(left), borrowed(right)
    flags_a, flags_b, ranks_a, ranks_b = borrowed(closed_a), borrowed(closed_b), borrowed(rank_a), borrowed(rank_b)
    turned = (compared & EQUAL) | (ABOVE if compared & BELOW else 0) | (BELOW if compared & ABOVE else 0)
    i, j, found = 0, 0, np.int64(0)
    while i < len(order_a) or j < len(order_b):
        takes_a = j >= len(order_b) or (i < len(order_a) and low_a[order_a[i]] <= low_b[order_b[j]])
        if takes_a:
            one = order_a[i]
            i += 1
            key = key_a[one]
            found = pair_with_active(
                one, key, low_a[one], closed_a[one], found, active_b, behind_b, end_b, flags_b, compared, rank_a[one],
                ranks_b, pairs_a, pairs_b,
            )  # fmt: skip
            next_a[one] = head_a[key]
            head_a[key] = one
        else:
            one = order_b[j]
            j += 1
            key = key_b[one]
            found = pair_with_active(
                one, key, low_b[one], closed_b[one], found, active_a, behind_a, end_a, flags_a, turned, rank_b[one],
                ranks_a, pairs_b, pairs_a,
            )  # fmt: skip
            next_b[one] = head_b[key]
            head_b[key] = one
    return found


@kernel(
    "int64(int64[::1], int64[::1], float64[::1], float64[::1], uint8[::1], float64[::1], float64[::1], uint8[::1], "
    "float64[::1], float64[::1], uint8[::1])"
)
def common(left, right, low_a, high_a, closed_a, low_b, high_b, closed_b, low, high, closed):
    """The interval that both pieces of each pair have in common. Pairs that have none leave ``left`` and ``right``;
    returns how many stay. An end that both have is closed if both are, otherwise as the piece has it that ends there.
    """
    kept = 0
    for i in range(len(left)):
        a, b = left[i], right[i]
        begin, end, flags = low_a[a], high_a[a], closed_a[a] & LOW_CLOSED
        if low_b[b] > begin:
            begin, flags = low_b[b], closed_b[b] & LOW_CLOSED
        elif low_b[b] == begin:
            flags &= closed_b[b]
        ends = closed_a[a] & HIGH_CLOSED
        if high_b[b] < end:
            end, ends = high_b[b], closed_b[b] & HIGH_CLOSED
        elif high_b[b] == end:
            ends &= closed_b[b]
        if begin < end or (begin == end and flags and ends):
            left[kept], right[kept] = a, b
            low[kept], high[kept], closed[kept] = begin, end, flags | ends
            kept += 1
    return kept


@kernel("void(int64[::1], float64[::1], int64, float64[::1])")
def next_starts(key, low, keys, following):
    """Where the next row of the same key begins, infinity if there is none. Rows are in order of ``low``."""
    after = np.full(keys, np.inf)
    for i in range(len(key) - 1, -1, -1):
        following[i] = after[key[i]]
        after[key[i]] = low[i]
