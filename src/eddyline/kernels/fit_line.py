"""``fit.fit_greedy`` for what is fitted most: one value, degree 1, neighbours that share no sample.

The same decisions in the same arithmetic, with the lines and the ends of the hulls in registers instead of arrays; so
the two are exchangeable from batch to batch, and the tests compare their segments bit by bit.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel
from eddyline.kernels.fit import LATE, REPEATED, VIOLATIONS


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], float64, int64, int64[:, ::1], "
    "float64[:, :, ::1], float64[::1], float64[::1], int64[:, ::1], float64[::1], float64[::1], int64[:, ::1], "
    "int64[:, ::1], float64[:, :, ::1], int64[::1])"
)
def fit_lines(
    begin, order, time, value, bound, scale, gap, open_, state, old_x, old_y, old_at, new_x, new_y, new_at, out,
    coefficient, counts,
):  # fmt: skip
    """Arguments and result are those of ``fit_greedy``."""
    longest = 0
    for k in range(len(begin) - 1):
        for r in range(2):
            longest = max(longest, old_at[k, r + 1] - old_at[k, r] + begin[k + 1] - begin[k])
    low_x, low_y, high_x, high_y = (
        np.empty(longest + 3),
        np.empty(longest + 3),
        np.empty(longest + 3),
        np.empty(longest + 3),
    )
    made = written = 0
    for k in range(len(begin) - 1):
        samples, start, last = open_[k, 0], open_[k, 1], open_[k, 2]
        lows, lows_end = 0, old_at[k, 1] - old_at[k, 0]
        for i in range(lows_end):
            low_x[i], low_y[i] = old_x[old_at[k, 0] + i], old_y[old_at[k, 0] + i]
        highs, highs_end = 0, old_at[k, 2] - old_at[k, 1]
        for i in range(highs_end):
            high_x[i], high_y[i] = old_x[old_at[k, 1] + i], old_y[old_at[k, 1] + i]
        line = state[k, 0]
        most_a, most_b, least_a, least_b = line[0], line[1], line[2], line[3]
        y, e = line[4], line[5]
        for place in range(begin[k], begin[k + 1]):
            row = order[place]
            now = time[row]
            if samples > 0 and now <= last:
                if now < last:
                    counts[LATE] += 1
                else:
                    counts[VIOLATIONS if value[row, 0] != y else REPEATED] += 1
                continue
            y, e = value[row, 0], bound[row, 0]
            low, high = y - e, y + e
            x = (now - start) * scale
            if samples > 0:
                silent = gap > 0 and now - last > gap
                if silent or (samples > 1 and (low > most_a + most_b * x or high < least_a + least_b * x)):
                    out[made, 0], out[made, 1], out[made, 3] = k, start, samples
                    out[made, 2] = last + 1 if silent else now
                    coefficient[made, 0, 0] = 0.5 * most_a + 0.5 * least_a
                    coefficient[made, 0, 1] = 0.5 * most_b + 0.5 * least_b
                    made += 1
                    samples = 0
            if samples == 0:
                samples, start, last = 1, now, now
                most_a, most_b, least_a, least_b = high, 0.0, low, 0.0
                low_x[0], low_y[0], high_x[0], high_y[0] = 0.0, low, 0.0, high
                lows, lows_end, highs, highs_end = 0, 1, 0, 1
                continue
            if samples == 1:
                most_b, least_b = (high - low_y[0]) / x, (low - high_y[0]) / x
                most_a, least_a = high - most_b * x, low - least_b * x
            # The line of the largest slope turns about the new upper end, down to the hull of the lower ends.
            if most_a + most_b * x > high:
                slope = (high - low_y[lows]) / (x - low_x[lows])
                while lows + 1 < lows_end:
                    turned = (high - low_y[lows + 1]) / (x - low_x[lows + 1])
                    if turned > slope:
                        break
                    slope = turned
                    lows += 1
                most_b = slope
                most_a = high - slope * x
            while lows_end - lows >= 2:
                ax, ay = low_x[lows_end - 2], low_y[lows_end - 2]
                if (low_x[lows_end - 1] - ax) * (low - ay) - (low_y[lows_end - 1] - ay) * (x - ax) < 0.0:
                    break
                lows_end -= 1
            low_x[lows_end], low_y[lows_end] = x, low
            lows_end += 1
            # Likewise the line of the smallest slope about the new lower end.
            if least_a + least_b * x < low:
                slope = (low - high_y[highs]) / (x - high_x[highs])
                while highs + 1 < highs_end:
                    turned = (low - high_y[highs + 1]) / (x - high_x[highs + 1])
                    if turned < slope:
                        break
                    slope = turned
                    highs += 1
                least_b = slope
                least_a = low - slope * x
            while highs_end - highs >= 2:
                ax, ay = high_x[highs_end - 2], high_y[highs_end - 2]
                if (high_x[highs_end - 1] - ax) * (high - ay) - (high_y[highs_end - 1] - ay) * (x - ax) > 0.0:
                    break
                highs_end -= 1
            high_x[highs_end], high_y[highs_end] = x, high
            highs_end += 1
            samples += 1
            last = now
        open_[k, 0], open_[k, 1], open_[k, 2] = samples, start, last
        line[0], line[1], line[2], line[3], line[4], line[5] = most_a, most_b, least_a, least_b, y, e
        new_at[k, 0] = written
        for i in range(lows, lows_end):
            new_x[written], new_y[written] = low_x[i], low_y[i]
            written += 1
        new_at[k, 1] = written
        for i in range(highs, highs_end):
            new_x[written], new_y[written] = high_x[i], high_y[i]
            written += 1
        new_at[k, 2] = written
    return made
