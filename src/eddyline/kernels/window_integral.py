"""The integral over a sliding window as a function of its end: ∫ x(s) ds over (t − w, t], piece by piece.

Let a be a point at which a piece begins at the head t or at the tail t − w of the window. Up to the next such point the
head is in one piece and the tail in one, so that the integral is I(a) + Q(t − a) − R(t − a), where Q integrates the
head's polynomial from a on and R the tail's from a − w on. I(a) adds what the window holds at a: the rest of the tail's
piece, the pieces between (sums of integrals in pairs of doubles, so that long streams lose nothing) and the beginning
of the head's.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel
from eddyline.kernels.polynomials import MAX_COEFFICIENTS, shift


@kernel("float64(float64[:, ::1], float64[::1], int64, float64, float64, float64, float64[::1])")
def integral(polynomial, base, row, scale, begin, end, c):
    """Of a row from ``begin`` to ``end`` (in ticks), in units of t."""
    width = polynomial.shape[1]
    for k in range(width):
        c[k] = polynomial[row, k]
    shift(c, width, (begin - base[row]) * scale)
    x = (end - begin) * scale
    y = 0.0
    for k in range(width - 1, -1, -1):
        y = y * x + c[k] / (k + 1)
    return y * x


@kernel(
    "int64(int64[::1], float64[:, ::1], float64[::1], float64[::1], float64[::1], float64, float64, boolean, "
    "int64[::1], float64[::1], float64[::1], float64[:, ::1], float64[:, ::1])"
)
def window_integral(
    group, polynomial, base, low, high, scale, width, partial, out_group, out_low, out_high, out, cover
):
    """Window functions of each group, in order of time; returns their number.

    Rows are in order of (group, low), disjoint within a group, and each is defined for low ≤ t < high. ``out`` gets
    coefficients of t − out_low, one more than the input has; ``cover`` (c₀, c₁) of the length that the window covers.
    Without ``partial`` windows that reach over a gap, or begin before the first piece, are left out.
    """
    n, made, start, terms = len(group), 0, 0, polynomial.shape[1]
    head_c, tail_c, work = np.empty(MAX_COEFFICIENTS), np.empty(MAX_COEFFICIENTS), np.empty(MAX_COEFFICIENTS)
    whole, rest = np.zeros(n + 1), np.zeros(n + 1)  # sums of integrals up to a row, as pairs of doubles
    length = np.zeros(n + 1)
    run = np.zeros(n, np.int64)  # pieces without a gap between them have the same number
    while start < n:
        stop = start
        while stop < n and group[stop] == group[start]:
            if stop > start:
                run[stop] = run[stop - 1] + (high[stop - 1] != low[stop])
            x = integral(polynomial, base, stop, scale, low[stop], high[stop], work)
            total = whole[stop] + x
            z = total - whole[stop]
            whole[stop + 1] = total
            rest[stop + 1] = rest[stop] + ((whole[stop] - (total - z)) + (x - z))
            length[stop + 1] = length[stop] + (high[stop] - low[stop])
            stop += 1
        # The next point at which a piece begins or ends, at the head or at the tail: four lists, each in order.
        begins, ends, begins_tail, ends_tail = start, start, start, start
        head = tail = start
        b = low[start]
        while ends_tail < stop:
            a, b = b, np.inf
            while begins < stop and low[begins] <= a:
                begins += 1
            while ends < stop and high[ends] <= a:
                ends += 1
            while begins_tail < stop and low[begins_tail] + width <= a:
                begins_tail += 1
            while ends_tail < stop and high[ends_tail] + width <= a:
                ends_tail += 1
            if begins < stop:
                b = min(b, low[begins])
            if ends < stop:
                b = min(b, high[ends])
            if begins_tail < stop:
                b = min(b, low[begins_tail] + width)
            if ends_tail < stop:
                b = min(b, high[ends_tail] + width)
            if b == np.inf:
                break
            while head < stop and high[head] <= a:
                head += 1
            while tail < stop and high[tail] <= a - width:
                tail += 1
            in_head = head < stop and low[head] <= a
            in_tail = tail < stop and low[tail] <= a - width
            if not partial and not (in_head and in_tail and run[head] == run[tail]):
                continue
            if partial and tail >= stop:
                continue
            for i in range(terms):
                head_c[i] = polynomial[head, i] if in_head else 0.0
                tail_c[i] = polynomial[tail, i] if in_tail else 0.0
            if in_head:
                shift(head_c, terms, (a - base[head]) * scale)
            if in_tail:
                shift(tail_c, terms, (a - width - base[tail]) * scale)
            held = 0.0
            covered = 0.0
            if in_head and in_tail and head == tail:
                held = integral(polynomial, base, head, scale, a - width, a, work)
                covered = width
            else:
                first = tail
                if in_tail:
                    held += integral(polynomial, base, tail, scale, a - width, high[tail], work)
                    covered += high[tail] - (a - width)
                    first = tail + 1
                if in_head and low[head] < a:
                    held += integral(polynomial, base, head, scale, low[head], a, work)
                    covered += a - low[head]
                last = min(head, stop)
                if last > first:
                    held += (whole[last] - whole[first]) + (rest[last] - rest[first])
                    covered += length[last] - length[first]
            if partial and covered == 0.0 and not in_head:
                continue
            out_group[made], out_low[made], out_high[made] = group[start], a, b
            out[made, 0] = held
            for i in range(terms):
                out[made, i + 1] = (head_c[i] - tail_c[i]) / (i + 1)
            cover[made, 0] = covered * scale
            cover[made, 1] = (1.0 if in_head else 0.0) - (1.0 if in_tail else 0.0)
            made += 1
        start = stop
    return made
