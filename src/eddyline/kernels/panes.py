"""Panes: the elements of one group within one slide are added up before they enter windows.

Elements come in order of time, so those of one pane (the elements between two ends, ``end[i]``) stand together. Each
(pane, group) gets a slot, and of every argument the slot holds a sum and how many were not NULL.

A sum here is *exact or not made*. That of integers is an int64; that of doubles is a pair whose exact sum it is: the
rounded sum, and the rest that rounding left over (two-sum, twice). An element with which either would no longer be
exact (an overflow, a rest that needs more bits, an infinity, NaN) gets a new slot of the same pane and group. So what
windows add up has the same exact sum; that is the only guarantee: there are fewer slots only where that is possible.
"""

from __future__ import annotations

import math

from eddyline.kernels.compile import kernel

COUNT, INTEGER, DOUBLE = 0, 1, 2  # what is kept of an argument


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64[:, ::1], float64[:, ::1], boolean[:, ::1], int64[::1], "
    "int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], float64[:, ::1], float64[:, ::1], "
    "int64[:, ::1])"
)
def add_up(
    time, end, group, integers, doubles, valid, kind, place, ends, when, first, rows, whole, high, rest, count
):  # fmt: skip
    """Fill the slots and return their number.

    ``integers`` and ``doubles`` are the same codes of the arguments, read as either, and so are ``whole`` and ``high``;
    ``valid`` has no columns where there are no NULLs. ``place`` is indexed by group and all −1 before and after. A slot
    has the end of its pane, the time of the last element of that pane here, its first element, and what it holds.
    """
    width, nulls, made = len(kind), valid.shape[1] > 0, 0
    for i in range(len(time)):
        g = group[i]
        s = place[g]
        fits = s >= 0 and ends[s] == end[i]
        if fits:
            for k in range(width):
                if nulls and not valid[k, i]:
                    continue
                if kind[k] == DOUBLE:
                    a, b, r = high[k, s], doubles[k, i], rest[k, s]
                    t = a + b
                    z = t - a
                    e = (a - (t - z)) + (b - z)
                    u = r + e
                    z = u - r
                    if not math.isfinite(t) or (r - (u - z)) + (e - z) != 0.0:
                        fits = False
                elif kind[k] == INTEGER:
                    w, x = whole[k, s], integers[k, i]
                    if (x > 0 and w > 9223372036854775807 - x) or (x < 0 and w < -9223372036854775808 - x):
                        fits = False
        if not fits:
            s = made
            made += 1
            place[g] = s
            ends[s] = end[i]
            first[s] = i
            rows[s] = 0
            for k in range(width):
                whole[k, s] = 0  # as a double: zero
                rest[k, s] = 0.0
                count[k, s] = 0
        rows[s] += 1
        for k in range(width):
            if nulls and not valid[k, i]:
                continue
            if kind[k] == DOUBLE:
                a, b = high[k, s], doubles[k, i]
                if count[k, s] == 0:
                    high[k, s] = b
                else:
                    t = a + b
                    z = t - a
                    high[k, s] = t
                    rest[k, s] += (a - (t - z)) + (b - z)
            elif kind[k] == INTEGER:
                whole[k, s] += integers[k, i]
            count[k, s] += 1
    i = len(time) - 1
    for s in range(made - 1, -1, -1):
        while end[i] != ends[s]:
            i -= 1
        when[s] = time[i]
        place[group[first[s]]] = -1
    return made
