"""The lower envelope of pieces: which of the polynomials that are defined at t is the smallest there.

Between two starts or ends of pieces the same ones compete. There the envelope follows one until another goes below it:
the earliest root of the difference behind which it is negative. Ties go to the smaller rank. Constants that another
constant undercuts for as long as they last are dropped at once, which keeps the competitors of a sliding minimum few.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel
from eddyline.kernels.polynomials import (
    HIGH_CLOSED,
    LOW_CLOSED,
    MAX_COEFFICIENTS,
    NOISE,
    power_of_two,
    roots,
    shift,
    value_at,
)


@kernel("void(float64[:, ::1], float64[::1], int64, float64, float64, float64, float64[::1])")
def scaled(polynomial, base, row, scale, begin, span, c):
    """Row ``row`` as a function of (t − begin) / span, into ``c``."""
    width = polynomial.shape[1]
    for k in range(width):
        c[k] = polynomial[row, k]
    shift(c, width, (begin - base[row]) * scale)
    stretch = 1.0
    for k in range(width):
        c[k] *= stretch
        stretch *= span * scale


@kernel("boolean(float64[:, ::1], float64[::1], int64[::1], float64, int64, int64, float64, float64)")
def line_below(polynomial, base, rank, scale, one, other, now, end):
    """``below`` for lines, without arrays: most pieces are lines, and most of the time goes into their comparison."""
    a1, b1 = polynomial[one, 1], polynomial[other, 1]
    a0 = polynomial[one, 0] + (now - base[one]) * scale * a1
    b0 = polynomial[other, 0] + (now - base[other]) * scale * b1
    span = (end - now) * scale
    a1, b1 = a1 * span, b1 * span
    size = abs(a0) + abs(b0) + abs(a1) + abs(b1)
    if abs(a0 - b0) > 16.0 * NOISE * size:
        return a0 < b0
    if abs(a1 - b1) > 16.0 * NOISE * size:
        return a1 < b1
    return rank[one] < rank[other]


@kernel("boolean(float64[:, ::1], float64[::1], float64, int64, int64, float64, float64)")
def line_above(polynomial, base, scale, one, other, now, end):
    """Whether a line is clearly above another one all the time, so that no root has to be looked for."""
    a1, b1 = polynomial[one, 1], polynomial[other, 1]
    a0 = polynomial[one, 0] + (now - base[one]) * scale * a1
    b0 = polynomial[other, 0] + (now - base[other]) * scale * b1
    span = (end - now) * scale
    size = abs(a0) + abs(b0) + (abs(a1) + abs(b1)) * span
    apart = a0 - b0
    return min(apart, apart + (a1 - b1) * span) > 64.0 * NOISE * size


@kernel(
    "boolean(float64[:, ::1], float64[::1], int64[::1], float64, int64, int64, float64, float64, float64[::1], "
    "float64[::1])"
)
def below(polynomial, base, rank, scale, one, other, now, end, a, b):
    """Whether ``one`` is below ``other`` right behind ``now``: by the first power in which they differ, or by rank."""
    width = polynomial.shape[1]
    if width == 2:
        return line_below(polynomial, base, rank, scale, one, other, now, end)
    scaled(polynomial, base, one, scale, now, end - now, a)
    scaled(polynomial, base, other, scale, now, end - now, b)
    size = 0.0
    for k in range(width):
        size += abs(a[k]) + abs(b[k])
    for k in range(width):
        if abs(a[k] - b[k]) > 16.0 * NOISE * size:
            return a[k] < b[k]
    return rank[one] < rank[other]


@kernel(
    "float64(float64[:, ::1], float64[::1], float64, int64, int64, float64, float64, float64[::1], float64[::1], "
    "float64[::1])"
)
def first_below(polynomial, base, scale, current, other, now, end, a, b, at):
    """When ``other`` first goes below ``current`` between ``now`` and ``end``; ``end``: it does not."""
    width = polynomial.shape[1]
    if width == 2 and line_above(polynomial, base, scale, other, current, now, end):
        return end
    wide = power_of_two((end - now) * scale) / scale  # exact, so that a root does not depend on the end
    scaled(polynomial, base, current, scale, now, wide, a)
    scaled(polynomial, base, other, scale, now, wide, b)
    size = difference = 0.0
    near = abs(a[0]) + abs(b[0])
    for k in range(width):
        size += abs(a[k]) + abs(b[k])
        b[k] -= a[k]
        difference += abs(b[k])
    if difference <= 16.0 * NOISE * size:
        return end
    many = roots(b, width, near, at)
    for i in range(many):
        # A root may be nearer than two numbers of this size are apart: the next one is behind it then.
        place = max(now + at[i] * wide, np.nextafter(now, np.inf))
        if place >= end:
            break
        after = 0.5 * (at[i] + (at[i + 1] if i + 1 < many else 1.0))
        if value_at(b, width, after) < 0.0:
            return place
    return end


@kernel(
    "int64(int64[::1], float64[:, ::1], float64[::1], float64[::1], float64[::1], int64[::1], boolean[::1], float64, "
    "int64[::1], float64[::1], float64[::1])"
)
def lower_envelope(group, polynomial, base, low, high, rank, constant, scale, row, out_low, out_high):
    """The envelope of each group as (row, from, to) in order of time; returns how many pieces it has, or −1 if the
    arrays are too short. Rows are in order of (group, low); a row is defined for low ≤ t < high."""
    n, made, start = len(group), 0, 0
    active = np.empty(n, np.int64)
    a, b, at = np.empty(MAX_COEFFICIENTS), np.empty(MAX_COEFFICIENTS), np.empty(MAX_COEFFICIENTS + 1)
    while start < n:
        stop = start
        while stop < n and group[stop] == group[start]:
            stop += 1
        following, many = start, 0
        now = low[start]
        while following < stop or many > 0:
            if many == 0:
                now = low[following]
            while following < stop and low[following] <= now:
                new = following
                following += 1
                if high[new] <= now:
                    continue
                if constant[new]:
                    kept = 0
                    undercut = False
                    for i in range(many):
                        other = active[i]
                        above = polynomial[other, 0] - polynomial[new, 0] if constant[other] else 0.0
                        if above < 0.0 and high[other] >= high[new]:
                            undercut = True
                        if not (above > 0.0 and high[other] <= high[new]):
                            active[kept] = other
                            kept += 1
                    many = kept
                    if undercut:
                        continue
                active[many] = new
                many += 1
            kept, end = 0, np.inf
            for i in range(many):
                if high[active[i]] > now:
                    active[kept] = active[i]
                    end = min(end, high[active[i]])
                    kept += 1
            many = kept
            if many == 0:
                continue
            if following < stop and low[following] < end:
                end = low[following]
            # The same pieces compete from now to end; of the constants only the smallest does.
            least = -1
            for i in range(many):
                one = active[i]
                if constant[one]:
                    c = polynomial[one, 0]
                    if least < 0 or c < polynomial[least, 0] or (c == polynomial[least, 0] and rank[one] < rank[least]):
                        least = one
            steps = 0
            while now < end and steps < 64 * MAX_COEFFICIENTS:
                steps += 1
                best = least
                for i in range(many):
                    if constant[active[i]]:
                        continue
                    if best < 0 or below(polynomial, base, rank, scale, active[i], best, now, end, a, b):
                        best = active[i]
                until = end
                for i in range(many):
                    if active[i] != best and (active[i] == least or not constant[active[i]]):
                        until = first_below(polynomial, base, scale, best, active[i], now, until, a, b, at)
                if made > 0 and row[made - 1] == best and out_high[made - 1] == now:
                    out_high[made - 1] = until
                else:
                    if made == len(row):
                        return -1
                    row[made], out_low[made], out_high[made] = best, now, until
                    made += 1
                now = until
            now = end
        start = stop
    return made


@kernel(
    "int64(int64[::1], float64[::1], float64[::1], uint8[::1], int64[::1], float64[::1], float64[::1], uint8[::1], "
    "int64[::1], float64[::1], float64[::1], uint8[::1])"
)
def clip(
    group, low, high, closed, run_group, run_low, run_high, run_closed, row, out_low, out_high, out_closed
):  # fmt: skip
    """The parts of pieces that lie in runs, as (row, from, to) with their closedness; returns their number. Both sides
    are in order of (group, low) and disjoint within a group, so a row and a run meet at most once for each row and each
    run. A run holds where it begins, and where it ends if it is closed there."""
    i = j = made = 0
    while i < len(group) and j < len(run_group):
        if group[i] != run_group[j]:
            if group[i] < run_group[j]:
                i += 1
            else:
                j += 1
            continue
        begin, end = max(low[i], run_low[j]), min(high[i], run_high[j])
        to_end = run_closed[j] & HIGH_CLOSED and high[i] > end
        flags = LOW_CLOSED if begin > low[i] else closed[i] & LOW_CLOSED
        if end == high[i]:
            flags |= closed[i] & HIGH_CLOSED
        elif to_end:
            flags |= HIGH_CLOSED
        if begin < end or (begin == end and flags == LOW_CLOSED | HIGH_CLOSED):
            row[made], out_low[made], out_high[made], out_closed[made] = i, begin, end, flags
            made += 1
        if high[i] <= run_high[j]:
            i += 1
        else:
            j += 1
    return made
