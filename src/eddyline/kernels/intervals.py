"""Lists of intervals with their closedness: what is in both, and what is in either."""

from __future__ import annotations

from eddyline.kernels.compile import kernel
from eddyline.kernels.polynomials import HIGH_CLOSED, LOW_CLOSED


@kernel(
    "int64(int64[::1], float64[::1], float64[::1], uint8[::1], int64[::1], float64[::1], float64[::1], uint8[::1], "
    "int64[::1], float64[::1], float64[::1], uint8[::1])"
)
def intersect(row_a, low_a, high_a, closed_a, row_b, low_b, high_b, closed_b, row, low, high, closed):
    """Of two lists of intervals, each in order of (row, low) and disjoint within a row, what is in both."""
    i = j = made = 0
    while i < len(row_a) and j < len(row_b):
        if row_a[i] != row_b[j]:
            if row_a[i] < row_b[j]:
                i += 1
            else:
                j += 1
            continue
        if low_a[i] > low_b[j]:
            begin, flags = low_a[i], closed_a[i] & LOW_CLOSED
        elif low_a[i] < low_b[j]:
            begin, flags = low_b[j], closed_b[j] & LOW_CLOSED
        else:
            begin, flags = low_a[i], closed_a[i] & closed_b[j] & LOW_CLOSED
        first = high_a[i] < high_b[j] or (high_a[i] == high_b[j] and not closed_a[i] & HIGH_CLOSED)
        if high_a[i] < high_b[j]:
            end, last = high_a[i], closed_a[i] & HIGH_CLOSED
        elif high_a[i] > high_b[j]:
            end, last = high_b[j], closed_b[j] & HIGH_CLOSED
        else:
            end, last = high_a[i], closed_a[i] & closed_b[j] & HIGH_CLOSED
        if begin < end or (begin == end and flags and last):
            row[made], low[made], high[made], closed[made] = row_a[i], begin, end, flags | last
            made += 1
        if first:
            i += 1
        else:
            j += 1
    return made


@kernel("int64(int64[::1], float64[::1], float64[::1], uint8[::1], int64[::1], float64[::1], float64[::1], uint8[::1])")
def unite(row_a, low_a, high_a, closed_a, row, low, high, closed):
    """Maximal intervals of a list in order of (row, low, open after closed); overlapping and touching ones merge."""
    made = 0
    for i in range(len(row_a)):
        if made > 0 and row[made - 1] == row_a[i]:
            p = made - 1
            touches = low_a[i] == high[p] and (closed[p] & HIGH_CLOSED or closed_a[i] & LOW_CLOSED)
            if low_a[i] < high[p] or touches:
                if high_a[i] > high[p]:
                    high[p] = high_a[i]
                    closed[p] = (closed[p] & LOW_CLOSED) | (closed_a[i] & HIGH_CLOSED)
                elif high_a[i] == high[p]:
                    closed[p] |= closed_a[i] & HIGH_CLOSED
                continue
        row[made], low[made], high[made], closed[made] = row_a[i], low_a[i], high_a[i], closed_a[i]
        made += 1
    return made
