"""Fits of degree 2 to 4, and Keogh's online segmentation: a candidate is computed, then every sample is checked.

No cheap test says whether *some* polynomial of such a degree holds a run of samples, so a run is held if the candidate
holds it: least squares, reweighted towards the worst samples (Lawson). The lengths that are tried double from
degree + 1 on until one fails, and the longest below it is found by bisection. Whether a length is tried depends on the
samples that the run has from there on and not on how they were cut into batches: a run waits until its next length is
complete.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel

REWEIGHTINGS = 4  # more hold longer runs, and cost as much again each


@kernel("boolean(float64[::1], float64[::1], float64[::1], int64, int64, int64, float64[::1])")
def hold(x, y, bound, start, length, degree, coefficient):
    """Whether a polynomial that was found holds these samples; it is a function of x − x[start]."""
    n = degree + 1
    span = x[start + length - 1] - x[start]
    if span <= 0.0:
        coefficient[:] = 0.0
        coefficient[0] = y[start]
        return True
    weight = np.ones(length)
    matrix = np.empty((n, n + 1))
    power = np.empty(n)
    for _ in range(REWEIGHTINGS):
        matrix[:] = 0.0
        for i in range(length):
            s = (x[start + i] - x[start]) / span
            power[0] = 1.0
            for a in range(1, n):
                power[a] = power[a - 1] * s
            for a in range(n):
                for b in range(n):
                    matrix[a, b] += weight[i] * power[a] * power[b]
                matrix[a, n] += weight[i] * power[a] * y[start + i]
        for a in range(n):  # elimination with pivots; as many samples as unknowns at least
            best = a
            for b in range(a + 1, n):
                if abs(matrix[b, a]) > abs(matrix[best, a]):
                    best = b
            if matrix[best, a] == 0.0:
                return False
            for c in range(n + 1):
                matrix[a, c], matrix[best, c] = matrix[best, c], matrix[a, c]
            for b in range(a + 1, n):
                factor = matrix[b, a] / matrix[a, a]
                for c in range(a, n + 1):
                    matrix[b, c] -= factor * matrix[a, c]
        stretch = 1.0
        for a in range(n - 1, -1, -1):
            value = matrix[a, n]
            for b in range(a + 1, n):
                value -= matrix[a, b] * power[b]
            power[a] = value / matrix[a, a]
        for a in range(n):
            coefficient[a] = power[a] / stretch
            stretch *= span
        held = True
        total = 0.0
        for i in range(length):
            t = x[start + i] - x[start]
            value = coefficient[degree]
            for a in range(degree - 1, -1, -1):
                value = value * t + coefficient[a]
            error = abs(value - y[start + i])
            held = held and error <= bound[start + i]
            weight[i] *= error / max(bound[start + i], 1e-300) + 1e-9
            total += weight[i]
        if held:
            return True
        if not total > 0.0 or not np.isfinite(total):
            return False
        for i in range(length):
            weight[i] *= length / total
    return False


@kernel("boolean(float64[::1], float64[:, ::1], float64[:, ::1], int64, int64, int64, float64[:, ::1])")
def hold_all(x, value, bound, start, length, degree, coefficient):
    """``hold`` for each row of ``value``: several values of one sample."""
    for j in range(len(value)):  # noqa: SIM110 (numba has no all())
        if not hold(x, value[j], bound[j], start, length, degree, coefficient[j]):
            return False
    return True


@kernel("int64(float64[::1], float64[:, ::1], float64[:, ::1], int64, int64, int64, boolean, float64[:, ::1])")
def longest(x, value, bound, start, stop, degree, final, coefficient):
    """How many samples from ``start`` on one polynomial holds; 0: that cannot be said before more samples come."""
    n = degree + 1
    available = stop - start
    if available < n and not final:
        return 0
    good, bad = 0, available + 1
    length = n
    while length <= available:
        if not hold_all(x, value, bound, start, length, degree, coefficient):
            bad = length
            break
        good = length
        length *= 2
    if bad > available:
        if not final:
            return 0
        if available == good:
            hold_all(x, value, bound, start, good, degree, coefficient)
            return good
    if good == 0:  # not even degree + 1 samples, which rounding alone can cause, or there are fewer
        good = min(available, n)
        while not hold_all(x, value, bound, start, good, min(degree, good - 1), coefficient):
            good -= 1
        return good
    while bad - good > 1:
        middle = (good + bad) // 2
        if hold_all(x, value, bound, start, middle, degree, coefficient):
            good = middle
        else:
            bad = middle
    hold_all(x, value, bound, start, good, degree, coefficient)
    return good


@kernel(
    "int64(int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], float64, int64, int64, boolean, int64[::1], "
    "int64[:, ::1], float64[:, :, ::1])"
)
def fit_checked(begin, time, value, bound, scale, degree, gap, final, rest, out, coefficient):
    """Cut the samples of every key into segments; ``rest[k]`` is where its open one begins. Returns the number made.

    Samples of key k are ``begin[k]`` up to ``begin[k + 1]``, in order of time, each time once.
    """
    made = 0
    for k in range(len(begin) - 1):
        start = begin[k]
        while start < begin[k + 1]:
            stop = start + 1
            while stop < begin[k + 1] and not (gap > 0 and time[stop] - time[stop - 1] > gap):
                stop += 1
            closed = final or stop < begin[k + 1]
            x = np.empty(stop - start)
            for i in range(start, stop):
                x[i - start] = (time[i] - time[start]) * scale
            at = 0
            v, e = value[:, start:stop].copy(), bound[:, start:stop].copy()
            while at < stop - start:
                coefficient[made] = 0.0
                taken = longest(x, v, e, at, stop - start, degree, closed, coefficient[made])
                if taken == 0:
                    break
                last = start + at + taken - 1
                out[made, 0], out[made, 1], out[made, 3] = k, time[start + at], taken
                out[made, 2] = time[last + 1] if last + 1 < stop else time[last] + 1
                made += 1
                at += taken
            if at < stop - start:
                start += at
                break
            start = stop
        rest[k] = start
    return made


@kernel("int64(int64[::1], float64[::1], float64[::1], float64, int64[:, ::1], float64[:, ::1])")
def fit_keogh(time, value, bound, scale, out, coefficient):
    """Keogh's sliding window: the line from the first sample to the newest must hold all between; returns the number.

    Each new sample checks all of its segment again, so a segment of L samples costs L² / 2.
    """
    made = start = 0
    n = len(time)
    while start < n:
        slope = 0.0
        end = start + 1
        while end < n:
            tried = (value[end] - value[start]) / ((time[end] - time[start]) * scale)
            held = True
            for i in range(start + 1, end):
                error = value[start] + tried * (time[i] - time[start]) * scale - value[i]
                if abs(error) > bound[i]:
                    held = False
                    break
            if not held:
                break
            slope = tried
            end += 1
        out[made, 0], out[made, 1], out[made, 3] = 0, time[start], end - start
        out[made, 2] = time[end] if end < n else time[end - 1] + 1
        coefficient[made, 0], coefficient[made, 1] = value[start], slope
        made += 1
        start = end
    return made
