"""Greedy fits within an error bound: as many samples as one polynomial of degree 0 or 1 can hold, then the next one.

What is correct: sample i, at x since its segment's start, allows the values [y − ε, y + ε]. A segment grows while some
polynomial satisfies all its samples, so no segmentation into disjoint runs has fewer pieces: whatever holds a run holds
each part of it. The feasible lines form a convex set; its extremes are the line of the largest slope (through a lower
end on the left and an upper end on the right) and that of the smallest slope. The next sample fits iff it is not above
the first or below the second. An extreme that the sample cuts turns about it until it touches the convex hull of the
other ends (O'Rourke 1981), and hulls are popped as often as they were pushed: a sample costs O(1) amortised.

Several values of a sample are fitted together: a segment ends where any of them ends.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel

# What is counted of the samples.
LATE, VIOLATIONS, REPEATED = 0, 1, 2


@kernel("void(int64[::1], int64[::1], int64[::1])")
def group_rows(code, begin, order):
    """Row numbers by code, in order within a code: rows of code k are ``order[begin[k]:begin[k + 1]]``."""
    begin[:] = 0
    for i in range(len(code)):
        begin[code[i] + 1] += 1
    for k in range(len(begin) - 1):
        begin[k + 1] += begin[k]
    for i in range(len(code)):
        k = code[i]
        order[begin[k]] = i
        begin[k] += 1
    for k in range(len(begin) - 1, 0, -1):
        begin[k] = begin[k - 1]
    begin[0] = 0


@kernel("void(float64, float64, float64, float64[::1], float64[:, ::1], float64[:, ::1], int64[:, ::1], int64)")
def add_sample(x, low, high, line, hull_x, hull_y, ends, j):
    """Narrow the extreme lines of value j by a sample that fits them, and put its ends on the hulls.

    ``line`` holds (a, b) of the largest slope, then of the smallest: a + b·x. Row 2·j of the hulls is the upper hull of
    the lower ends, row 2·j + 1 the lower hull of the upper ends; a hull stands at ``ends[row]`` (first, behind last).
    """
    lows, highs = 2 * j, 2 * j + 1
    first, last = ends[lows, 0], ends[lows, 1]
    if line[0] + line[1] * x > high:
        slope = (high - hull_y[lows, first]) / (x - hull_x[lows, first])
        while first + 1 < last:
            turned = (high - hull_y[lows, first + 1]) / (x - hull_x[lows, first + 1])
            if turned > slope:
                break
            slope = turned
            first += 1
        line[1] = slope
        line[0] = high - slope * x
    while last - first >= 2:
        ax, ay = hull_x[lows, last - 2], hull_y[lows, last - 2]
        if (hull_x[lows, last - 1] - ax) * (low - ay) - (hull_y[lows, last - 1] - ay) * (x - ax) < 0.0:
            break
        last -= 1
    hull_x[lows, last], hull_y[lows, last] = x, low
    ends[lows, 0], ends[lows, 1] = first, last + 1

    first, last = ends[highs, 0], ends[highs, 1]
    if line[2] + line[3] * x < low:
        slope = (low - hull_y[highs, first]) / (x - hull_x[highs, first])
        while first + 1 < last:
            turned = (low - hull_y[highs, first + 1]) / (x - hull_x[highs, first + 1])
            if turned < slope:
                break
            slope = turned
            first += 1
        line[3] = slope
        line[2] = low - slope * x
    while last - first >= 2:
        ax, ay = hull_x[highs, last - 2], hull_y[highs, last - 2]
        if (hull_x[highs, last - 1] - ax) * (high - ay) - (hull_y[highs, last - 1] - ay) * (x - ax) > 0.0:
            break
        last -= 1
    hull_x[highs, last], hull_y[highs, last] = x, high
    ends[highs, 0], ends[highs, 1] = first, last + 1


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], float64, int64, int64, int64, int64, "
    "boolean, int64[:, ::1], float64[:, :, ::1], float64[::1], float64[::1], int64[:, ::1], "
    "float64[::1], float64[::1], int64[:, ::1], int64[:, ::1], float64[:, :, ::1], int64[::1])"
)
def fit_greedy(
    begin, order, time, value, bound, scale, degree, gap, longest, most, share,
    open_, state, old_x, old_y, old_at, new_x, new_y, new_at, out, coefficient, counts,
):  # fmt: skip
    """Fit the samples of every key and return the number of segments that are complete.

    ``begin`` and ``order`` are those of ``group_rows``; ``value`` and ``bound`` are (rows, values). ``gap``: a longer
    silence ends a segment (0: none does). ``longest`` and ``most``: ticks and samples that a segment holds at most
    (0: any number). ``share``: a segment begins with the last sample of the one before it.
    Of a key ``open_`` holds (samples, first time, last time), ``state`` for each value (the two lines, last value, its
    bound); the hulls of key k are at ``old_at[k]`` in ``old_x`` and ``old_y``, and are written to the new ones.
    ``out`` gets (key, first time, end, samples), ``coefficient`` what belongs to it.
    """
    width = value.shape[1]
    room = 0
    for k in range(len(begin) - 1):
        for r in range(2 * width):
            room = max(room, old_at[k, r + 1] - old_at[k, r] + begin[k + 1] - begin[k])
    hull_x, hull_y = np.empty((2 * width, room + 3)), np.empty((2 * width, room + 3))
    ends = np.zeros((2 * width, 2), np.int64)
    made = written = 0
    for k in range(len(begin) - 1):
        samples, first, last = open_[k, 0], open_[k, 1], open_[k, 2]
        for r in range(2 * width):
            size = old_at[k, r + 1] - old_at[k, r]
            for i in range(size):
                hull_x[r, i], hull_y[r, i] = old_x[old_at[k, r] + i], old_y[old_at[k, r] + i]
            ends[r, 0], ends[r, 1] = 0, size
        line = state[k]
        for place in range(begin[k], begin[k + 1]):
            row = order[place]
            now = time[row]
            if samples > 0:
                if now < last:
                    counts[LATE] += 1
                    continue
                if now == last:
                    differs = False
                    for j in range(width):
                        differs = differs or value[row, j] != line[j, 4]
                    counts[VIOLATIONS if differs else REPEATED] += 1
                    continue
            x = (now - first) * scale
            ends_here = samples > 0 and gap > 0 and now - last > gap
            broken = ends_here or (longest > 0 and samples > 1 and now - first > longest) or 0 < most <= samples
            if samples > 0 and not broken:
                for j in range(width):
                    low, high = value[row, j] - bound[row, j], value[row, j] + bound[row, j]
                    if degree == 0:
                        broken = broken or low > line[j, 0] or high < line[j, 2]
                    elif samples > 1:
                        broken = broken or low > line[j, 0] + line[j, 1] * x or high < line[j, 2] + line[j, 3] * x
            if broken:
                out[made, 0], out[made, 1], out[made, 3] = k, first, samples
                out[made, 2] = last + 1 if ends_here else now
                if share and not ends_here:
                    out[made, 2] = last
                for j in range(width):
                    coefficient[made, j, 0] = 0.5 * line[j, 0] + 0.5 * line[j, 2]
                    if degree == 1:
                        coefficient[made, j, 1] = 0.5 * line[j, 1] + 0.5 * line[j, 3]
                made += 1
                if share and not ends_here:
                    samples, first = 1, last
                    x = (now - first) * scale
                    for j in range(width):
                        low, high = line[j, 4] - line[j, 5], line[j, 4] + line[j, 5]
                        line[j, 0], line[j, 1], line[j, 2], line[j, 3] = high, 0.0, low, 0.0
                        for r, y in ((2 * j, low), (2 * j + 1, high)):
                            hull_x[r, 0], hull_y[r, 0] = 0.0, y
                            ends[r, 0], ends[r, 1] = 0, 1
                else:
                    samples = 0
            if samples == 0:
                samples, first, last = 1, now, now
                for j in range(width):
                    low, high = value[row, j] - bound[row, j], value[row, j] + bound[row, j]
                    line[j, 0], line[j, 1], line[j, 2], line[j, 3] = high, 0.0, low, 0.0
                    line[j, 4], line[j, 5] = value[row, j], bound[row, j]
                    for r, y in ((2 * j, low), (2 * j + 1, high)):
                        hull_x[r, 0], hull_y[r, 0] = 0.0, y
                        ends[r, 0], ends[r, 1] = 0, 1
                continue
            for j in range(width):
                low, high = value[row, j] - bound[row, j], value[row, j] + bound[row, j]
                if degree == 0:
                    line[j, 0], line[j, 2] = min(line[j, 0], high), max(line[j, 2], low)
                else:
                    if samples == 1:
                        one_low, one_high = hull_y[2 * j, 0], hull_y[2 * j + 1, 0]
                        line[j, 1], line[j, 3] = (high - one_low) / x, (low - one_high) / x
                        line[j, 0], line[j, 2] = high - line[j, 1] * x, low - line[j, 3] * x
                    add_sample(x, low, high, line[j], hull_x, hull_y, ends, j)
                line[j, 4], line[j, 5] = value[row, j], bound[row, j]
            samples += 1
            last = now
        open_[k, 0], open_[k, 1], open_[k, 2] = samples, first, last
        for r in range(2 * width):
            new_at[k, r] = written
            if degree == 1 and samples > 0:
                for i in range(ends[r, 0], ends[r, 1]):
                    new_x[written], new_y[written] = hull_x[r, i], hull_y[r, i]
                    written += 1
        new_at[k, 2 * width] = written
    return made
