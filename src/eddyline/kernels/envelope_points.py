"""Envelopes at single instants: pieces that do not hold where they begin, or still hold where they end.

``lower_envelope`` takes every piece as low ≤ t < high. A piece that a condition cut may be open at its low end and
closed at its high end; at these instants other pieces compete than beside them, and the smallest of them is looked for
there. Everywhere else the envelope is right as it is.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.polynomials import HIGH_CLOSED, LOW_CLOSED


@kernel(
    "void(int64[::1], float64[:, ::1], float64[::1], float64[::1], float64[::1], uint8[::1], int64[::1], float64, "
    "int64[::1], float64[::1], int64[::1])"
)
def least_at(group, polynomial, base, low, high, closed, rank, scale, at_group, at, winner):
    """Of each instant the row that is the smallest of those of its group that hold then, −1 if none does; ties go to
    the smaller rank. Rows are in order of (group, low), instants of (group, time)."""
    n, width = len(group), polynomial.shape[1]
    active = np.empty(n, np.int64)
    following, many = 0, 0
    for i in range(len(at)):
        t = at[i]
        if i == 0 or at_group[i] != at_group[i - 1]:
            many = 0
            while following < n and group[following] < at_group[i]:
                following += 1
        while following < n and group[following] == at_group[i] and low[following] <= t:
            active[many] = following
            many += 1
            following += 1
        kept, best, least = 0, np.int64(-1), np.inf
        for k in range(many):
            one = active[k]
            if high[one] < t:
                continue
            active[kept] = one
            kept += 1
            begun = low[one] < t or closed[one] & LOW_CLOSED
            if begun and (high[one] > t or closed[one] & HIGH_CLOSED):
                x = (t - base[one]) * scale
                y = 0.0
                for p in range(width - 1, -1, -1):
                    y = y * x + polynomial[one, p]
                if best < 0 or y < least or (y == least and rank[one] < rank[best]):
                    best, least = one, y
        many = kept
        winner[i] = best


@inlined
def put(made, row, low, high, flags, out_row, out_low, out_high, out_closed):
    """One more piece of the envelope; returns how many there are."""
    out_row[made], out_low[made], out_high[made], out_closed[made] = row, low, high, flags
    return made + 1


@kernel(
    "int64(int64[::1], int64[::1], float64[::1], float64[::1], int64[::1], float64[::1], int64[::1], int64[::1], "
    "float64[::1], float64[::1], uint8[::1])"
)
def with_instants(group, row, low, high, at_group, at, winner, out_row, out_low, out_high, out_closed):
    """The envelope, low ≤ t < high, with what holds at given instants instead, as pieces with their closedness; returns
    their number, at most that of the pieces and two for each instant. All is in order of (group, time)."""
    made, s, many = 0, 0, len(at)
    for e in range(len(row)):
        while s < many and (at_group[s] < group[e] or (at_group[s] == group[e] and at[s] < low[e])):
            if winner[s] >= 0:
                made = put(made, winner[s], at[s], at[s], 3, out_row, out_low, out_high, out_closed)
            s += 1
        begin, flags = low[e], LOW_CLOSED
        if s > 0 and at_group[s - 1] == group[e] and at[s - 1] == begin:
            flags = 0  # the piece before this one holds at the instant at which it ends
        elif s < many and at_group[s] == group[e] and at[s] == begin:
            if winner[s] != row[e]:
                flags = 0
                if winner[s] >= 0:
                    made = put(made, winner[s], begin, begin, 3, out_row, out_low, out_high, out_closed)
            s += 1
        while s < many and at_group[s] == group[e] and at[s] < high[e]:
            if winner[s] != row[e]:
                made = put(made, row[e], begin, at[s], flags, out_row, out_low, out_high, out_closed)
                begin, flags = at[s], 0
                if winner[s] >= 0:
                    made = put(made, winner[s], begin, begin, 3, out_row, out_low, out_high, out_closed)
            s += 1
        if s < many and at_group[s] == group[e] and at[s] == high[e] and winner[s] == row[e]:
            flags |= HIGH_CLOSED
            s += 1
        made = put(made, row[e], begin, high[e], flags, out_row, out_low, out_high, out_closed)
    while s < many:
        if winner[s] >= 0:
            made = put(made, winner[s], at[s], at[s], 3, out_row, out_low, out_high, out_closed)
        s += 1
    return made
