"""Roots of polynomials on an interval, and where a polynomial compares with zero as wanted.

Time is scaled first, to [0, 1] over the least power of two that holds the interval: that is exact, so a root does not
depend on how far the interval reaches beyond it. Up to degree 2 roots have closed forms; above, the roots of the
derivative cut [0, 1] into stretches on which the polynomial is monotone, and a stretch with a change of sign has one
root, which Newton's method finds between brackets. A value below what rounding can produce counts as zero: so the
point at which a polynomial touches zero is a root, and a difference that vanishes has none and is zero everywhere.
"""

from __future__ import annotations

import math

import numpy as np

from eddyline.kernels.compile import kernel

MAX_COEFFICIENTS = 20  # coefficients of a polynomial
NOISE = 2.0**-44  # of the sum of the terms' magnitudes: what counts as zero
# Times the noise: a polynomial that stays as far from zero as this has no root, nor one that is nearly so.
CLEAR_OF_ZERO = 2.0**20
LT, LE, EQ, NE, GE, GT = 0, 1, 2, 3, 4, 5
LOW_CLOSED, HIGH_CLOSED = 1, 2  # bits of an interval's closedness


@kernel("float64(float64[::1], int64, float64)")
def value_at(c, n, x):
    """Σ c[i]·xⁱ of the first n coefficients."""
    y = 0.0
    for i in range(n - 1, -1, -1):
        y = y * x + c[i]
    return y


@kernel("void(float64[::1], int64, float64)")
def shift(c, n, by):
    """From a function of x to one of x − ``by``, in place: p(x) = q(x − by)."""
    if by != 0.0:
        for i in range(n - 1):
            for j in range(n - 2, i - 1, -1):
                c[j] += by * c[j + 1]


@kernel("int64(float64[::1], int64, float64[::1])")
def quadratic_roots(c, n, out):
    """Distinct roots in [0, 1] of c[0] + c[1]·x + c[2]·x², in order; a vanishing polynomial has none."""
    size = abs(c[0]) + (abs(c[1]) if n > 1 else 0.0) + (abs(c[2]) if n > 2 else 0.0)
    small = NOISE * size
    count = 0
    if n > 2 and abs(c[2]) > small:
        half = -0.5 * c[1] / c[2]
        inner = half * half - c[0] / c[2]
        least = 4.0 * NOISE * (half * half + abs(c[0] / c[2]))
        if inner > least:
            reach = np.sqrt(inner)
            far = half + reach if half >= 0.0 else half - reach
            near = c[0] / c[2] / far
            out[0], out[1] = min(near, far), max(near, far)
            count = 2
        elif inner >= -least:
            out[0] = half
            count = 1
    elif n > 1 and abs(c[1]) > small:
        out[0] = -c[0] / c[1]
        count = 1
    kept = 0
    for i in range(count):
        if -NOISE <= out[i] <= 1.0 + NOISE:
            out[kept] = min(1.0, max(0.0, out[i]))
            kept += 1
    if kept == 2 and out[0] == out[1]:
        kept = 1
    return kept


@kernel("float64(float64[::1], int64, float64, float64)")
def bracketed(c, n, low, high):
    """The root between two points at which the polynomial has different signs."""
    rising = value_at(c, n, low) < 0.0
    x = 0.5 * (low + high)
    for _ in range(80):
        y = slope = 0.0
        for i in range(n - 1, -1, -1):
            slope = slope * x + y
            y = y * x + c[i]
        if y == 0.0:
            return x
        if (y < 0.0) == rising:
            low = x
        else:
            high = x
        step = x - y / slope if slope != 0.0 else low
        if not low < step < high:
            step = 0.5 * (low + high)
        if abs(step - x) <= 1e-16 * max(abs(x), 1e-3):
            return step
        x = step
    return x


@kernel("float64(float64[::1], int64, float64)")
def magnitude_at(c, n, x):
    """Σ |c[i]|·xⁱ of the first n coefficients, for x of at least 0: what the rounding of ``value_at`` is a share of."""
    y = 0.0
    for i in range(n - 1, -1, -1):
        y = y * x + abs(c[i])
    return y


@kernel("int64(float64[::1], int64, float64, float64[::1])")
def roots(c, n, near, out):
    """Distinct roots in [0, 1], in order; a polynomial that vanishes has none. ``out`` has room for n + 1; ``near`` is
    the magnitude of what c[0] was computed from.

    What counts as zero at x is a share of the terms at x: a value at the beginning is known well however large the
    polynomial is at the end, and whether it is zero must not depend on where the end is.
    """
    size = 0.0
    for i in range(n):
        size += abs(c[i])
    while n > 1 and abs(c[n - 1]) <= NOISE * size:
        n -= 1
    if n <= 3:
        return quadratic_roots(c, n, out)
    derivative = np.empty(MAX_COEFFICIENTS)
    critical = np.empty(MAX_COEFFICIENTS + 1)
    inner = np.empty(MAX_COEFFICIENTS + 1)
    found = 0
    for order in range(n - 3, -1, -1):  # of the derivative whose roots are found from those of the next one
        m = n - order
        for i in range(m):
            factor = 1.0
            for k in range(order):
                factor *= i + order - k
            derivative[i] = c[i + order] * factor
        if m == 3:
            found = quadratic_roots(derivative, 3, inner)
            continue
        critical[0] = 0.0
        for i in range(found):
            critical[i + 1] = inner[i]
        critical[found + 1] = 1.0
        cuts = found + 2
        found = 0
        before, clear_before = 0.0, False
        for i in range(cuts):
            x = critical[i]
            here = value_at(derivative, m, x)
            clear = abs(here) > NOISE * (magnitude_at(derivative, m, x) + (near if order == 0 else 0.0))
            if i > 0 and clear_before and clear and (before < 0.0) != (here < 0.0):
                inner[found] = bracketed(derivative, m, critical[i - 1], x)
                found += 1
            if not clear and (found == 0 or x > inner[found - 1] + 1e-9):
                inner[found] = x
                found += 1
            before, clear_before = here, clear
    for i in range(found):
        out[i] = inner[i]
    return found


@kernel("float64(float64)")
def power_of_two(x):
    """The least power of two that is not below a positive number."""
    fraction, exponent = math.frexp(x)
    return math.ldexp(1.0, exponent - (fraction == 0.5))


@kernel("boolean(int64, int64)")
def holds(sign, comparison):
    """Whether a number of this sign compares with zero as wanted."""
    if comparison == LT:
        return sign < 0
    if comparison == LE:
        return sign <= 0
    if comparison == EQ:
        return sign == 0
    if comparison == NE:
        return sign != 0
    if comparison == GE:
        return sign >= 0
    return sign > 0


@kernel("int64(float64, float64, float64, float64, int64, int64, float64[::1])")
def solve_line(c0, c1, size, limit, closed, comparison, place):
    """Where c0 + c1·x compares with zero for 0 ≤ x ≤ limit, in the usual cases: −1 if it is none of them.

    Otherwise the flags of one interval, or 4 for no interval; ``place`` gets its ends as parts of the scaled time.
    The usual cases are those without a root at or near an end, and comparisons by < and >.
    """
    largest = abs(c0) + abs(c1)
    if comparison in (EQ, NE) or largest <= NOISE * size:
        return -1
    place[0], place[1] = 0.0, limit
    root = -c0 / c1 if abs(c1) > NOISE * largest else -1.0
    if root < -NOISE or root > limit + NOISE:
        return closed if holds(-1 if c0 + 0.5 * c1 * limit < 0.0 else 1, comparison) else 4
    if root <= NOISE or root >= limit - NOISE:
        return -1
    at_root = comparison in (LE, GE)
    if holds(-1 if c0 < 0.0 else 1, comparison):
        place[1] = root
        return (closed & LOW_CLOSED) | (HIGH_CLOSED if at_root else 0)
    place[0] = root
    return (closed & HIGH_CLOSED) | (LOW_CLOSED if at_root else 0)


@kernel(
    "int64(float64[::1], int64, float64, float64, float64, int64, float64, float64, int64, int64, float64[::1], "
    "float64[::1], int64, int64[::1], float64[::1], float64[::1], uint8[::1])"
)
def solve_row(
    c, width, size, near, scale, i, low, high, closed, comparison, at, edge, made, row, out_low, out_high, out_closed
):
    """The intervals of one row, whose polynomial ``c`` is one of (t − low)·scale; returns how many there are now.
    ``size`` and ``near`` are the largest magnitude of what it was computed from, and that at ``low``."""
    span = (high - low) * scale
    wide = power_of_two(span) if span > 0.0 else 1.0
    if width <= 2 and span > 0.0:
        flags = solve_line(c[0], c[1] * wide if width == 2 else 0.0, size, span / wide, closed, comparison, edge)
        if flags == 4:
            return made
        if flags >= 0:
            begin = low if edge[0] == 0.0 else low + edge[0] * wide / scale
            end = high if edge[1] == span / wide else low + edge[1] * wide / scale
            if begin <= low:  # a root may be nearer to an end than two numbers of this size are apart
                flags &= HIGH_CLOSED | (closed & LOW_CLOSED)
            if end >= high:
                flags &= LOW_CLOSED | (closed & HIGH_CLOSED)
            begin, end = max(low, min(begin, high)), max(low, min(end, high))
            row[made], out_low[made], out_high[made], out_closed[made] = i, begin, end, flags
            return made + (begin < end or flags == LOW_CLOSED | HIGH_CLOSED)
    if width > 2 and span > 0.0:
        # Lower and upper bounds from the signs of the terms: far from zero there is no root to look for.
        lowest, highest, magnitude, power = c[0], c[0], abs(c[0]), span
        for k in range(1, width):
            term = c[k] * power
            lowest += min(term, 0.0)
            highest += max(term, 0.0)
            magnitude += abs(c[k]) * power
            power *= span
        clear = CLEAR_OF_ZERO * NOISE * max(magnitude, size)
        if lowest > clear or highest < -clear:
            if holds(1 if lowest > 0.0 else -1, comparison):
                row[made], out_low[made], out_high[made], out_closed[made] = i, low, high, closed
                made += 1
            return made
    largest = 0.0
    stretch = 1.0
    for k in range(width):
        c[k] *= stretch
        stretch *= wide
        largest += abs(c[k])
    if low == high or largest <= NOISE * size:
        sign = 0
        if largest > NOISE * size and abs(c[0]) > NOISE * size:
            sign = -1 if c[0] < 0.0 else 1
        if holds(sign, comparison):
            row[made], out_low[made], out_high[made], out_closed[made] = i, low, high, closed
            made += 1
        return made
    many, limit, at_end = roots(c, width, near, at), span / wide, False
    while many > 0 and at[many - 1] >= limit - NOISE:
        at_end = at_end or at[many - 1] <= limit + NOISE
        many -= 1
    # The interval as points and open stretches in turn: its low end, a stretch, a root, … , its high end.
    edges = 0
    edge[0] = 0.0
    for k in range(many):
        if at[k] > 0.0:
            edges += 1
            edge[edges] = at[k]
    edges += 1
    edge[edges] = limit
    within = False
    for k in range(edges + 1):
        x = edge[k]
        zero = 0 < k < edges or (k == 0 and many > 0 and at[0] == 0.0) or (k == edges and at_end)
        place = low if k == 0 else (high if k == edges else max(low, min(high, low + x * wide / scale)))
        sign = 0
        if not zero:  # an end: the sign is that of the stretch beside it
            middle = 0.5 * (x + edge[1]) if k == 0 else 0.5 * (x + edge[k - 1])
            sign = -1 if value_at(c, width, middle) < 0.0 else 1
        there = holds(sign, comparison)
        if (place == low and not closed & LOW_CLOSED) or (place == high and not closed & HIGH_CLOSED):
            there = False
        after = False
        if k < edges:
            middle = value_at(c, width, 0.5 * (x + edge[k + 1]))
            after = holds(-1 if middle < 0.0 else (1 if middle > 0.0 else 0), comparison)
        if within and there and after:
            continue
        if within:
            out_high[made] = place
            if there:
                out_closed[made] |= HIGH_CLOSED
            made += out_low[made] < place or out_closed[made] == LOW_CLOSED | HIGH_CLOSED
        elif there:
            row[made], out_low[made], out_high[made] = i, place, place
            out_closed[made] = LOW_CLOSED
            if not after:
                out_closed[made] |= HIGH_CLOSED
                made += 1
        if after and (within or not there):
            row[made], out_low[made], out_closed[made] = i, place, 0
        within = after
    return made


@kernel(
    "int64(float64[:, ::1], float64[::1], float64, float64[::1], float64[::1], float64[::1], uint8[::1], int64, "
    "int64[::1], float64[::1], float64[::1], uint8[::1])"
)
def solve(polynomial, size, scale, base, low, high, closed, comparison, row, out_low, out_high, out_closed):
    """The maximal intervals of [low, high] on which polynomial(t) compares with zero as wanted; returns their number.

    Row i is a function of (t − base[i])·scale; ``size[i]`` is the magnitude of what it was computed from, below
    ``NOISE`` of which it is zero. A row has at most as many intervals as coefficients and one more.
    """
    width = polynomial.shape[1]
    c, at, edge = np.empty(MAX_COEFFICIENTS), np.empty(MAX_COEFFICIENTS + 1), np.empty(MAX_COEFFICIENTS + 3)
    made = 0
    for i in range(len(polynomial)):
        for k in range(width):
            c[k] = polynomial[i, k]
        begin = (low[i] - base[i]) * scale
        near = magnitude_at(c, width, abs(begin))
        shift(c, width, begin)
        made = solve_row(
            c, width, size[i], near, scale, i, low[i], high[i], closed[i], comparison, at, edge, made, row, out_low,
            out_high, out_closed,
        )  # fmt: skip
    return made


@kernel(
    "int64(float64[:, ::1], float64[:, ::1], float64, float64[::1], float64[::1], float64[::1], uint8[::1], int64, "
    "int64[::1], float64[::1], float64[::1], uint8[::1])"
)
def compare(a, b, scale, base, low, high, closed, comparison, row, out_low, out_high, out_closed):
    """``solve`` for a − b. What is no number compares with nothing."""
    most, least = max(a.shape[1], b.shape[1]), min(a.shape[1], b.shape[1])
    c, at, edge = np.empty(MAX_COEFFICIENTS), np.empty(MAX_COEFFICIENTS + 1), np.empty(MAX_COEFFICIENTS + 3)
    made = 0
    for i in range(len(a)):
        begin = (low[i] - base[i]) * scale
        reach = max(abs(low[i] - base[i]), abs(high[i] - base[i])) * scale
        size_a = size_b = near = 0.0
        for k in range(most - 1, -1, -1):
            one = a[i, k] if k < a.shape[1] else 0.0
            other = b[i, k] if k < b.shape[1] else 0.0
            c[k] = one - other if k < least else (one if a.shape[1] > b.shape[1] else -other)
            size_a = size_a * reach + abs(one)
            size_b = size_b * reach + abs(other)
            near = near * abs(begin) + abs(one) + abs(other)
        if not np.isfinite(size_a + size_b):
            known = True
            for k in range(most):
                known = known and np.isfinite(c[k])
            if not known:
                continue
        shift(c, most, begin)
        made = solve_row(
            c, most, size_a + size_b, near, scale, i, low[i], high[i], closed[i], comparison, at, edge, made, row,
            out_low, out_high, out_closed,
        )  # fmt: skip
    return made


@kernel("void(float64[::1], float64[::1], uint8[::1], float64, float64, float64, float64[::1], float64[::1])")
def multiples(low, high, closed, step, start, stop, first, last):
    """The first and the last k with k·step in each interval and start ≤ k·step < stop."""
    for i in range(len(low)):
        begin, end = max(low[i], start), min(high[i], stop)
        k = np.ceil(begin / step)
        if k * step < begin:
            k += 1.0
        if k * step == low[i] and not closed[i] & LOW_CLOSED:
            k += 1.0
        first[i] = k
        k = np.floor(end / step)
        if k * step > end:
            k -= 1.0
        if k * step == high[i] and not closed[i] & HIGH_CLOSED:
            k -= 1.0
        if k * step >= stop:
            k -= 1.0
        last[i] = k


@kernel("void(float64[:, ::1], float64[::1], int64[::1], float64[::1], float64, float64[::1])")
def sample(polynomial, base, row, at, scale, out):
    """The values of rows at instants ``at``, in ticks."""
    width = polynomial.shape[1]
    for i in range(len(row)):
        r = row[i]
        x = (at[i] - base[r]) * scale
        y = 0.0
        for k in range(width - 1, -1, -1):
            y = y * x + polynomial[r, k]
        out[i] = y
