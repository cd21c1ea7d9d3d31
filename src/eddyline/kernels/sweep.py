"""One comparison of lines with many constants: what ``polynomials.compare`` finds for each of them, in one pass each.

Most lines are on one side of a constant for as long as they last, which the signs at their two ends tell; a root is
computed for the others only. Which lines those are is told for all of them first, without a branch: the side on which
a line lies cannot be foreseen, and a branch that is foreseen wrongly costs more than the comparison. Results leave as
they are shown: ends, flags, and coefficients since the new start.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.polynomials import (
    HIGH_CLOSED,
    LOW_CLOSED,
    MOST,
    NOISE,
    holds,
    power_of_two,
    solve_line,
    solve_row,
)

NOWHERE, EVERYWHERE, PARTLY = 0, 1, 2  # where a line compares as wanted; partly: perhaps


@inlined
def told_by_ends(constant, over, under, level, slope, by, rise, size, told, chosen):
    """Fill ``told`` with where each line compares with a constant as wanted, as far as its ends tell, and ``chosen``
    with the lines that do so anywhere; returns how many. ``over``, ``under``: what is told of a line on that side."""
    for i in range(len(level)):
        begins = (level[i] - constant) + by[i] * slope[i]
        ends = begins + rise[i]
        margin = 4.0 * NOISE * (size[i] + abs(constant) + abs(rise[i]))
        is_over = (begins > margin) & (ends > margin)
        is_under = (begins < -margin) & (ends < -margin)
        told[i] = over if is_over else (under if is_under else PARTLY)
    found = 0
    for i in range(len(level)):
        chosen[found] = i
        found += told[i] != NOWHERE
    return found


@kernel(
    "int64(float64[:, ::1], float64[::1], float64[::1], float64[::1], uint8[::1], float64, float64[::1], int64, "
    "float64[:, ::1], boolean, int64[::1], int64[::1], float64[::1], float64[::1], uint8[::1], float64[:, ::1], "
    "int64[::1])"
)
def sweep_lines(
    line, base, low, high, closed, scale, constants, comparison, values, on_ticks, count, row, out_low, out_high,
    out_closed, out, dropped,
):  # fmt: skip
    """Where line i compares with each constant as wanted (< ≤ ≥ >); returns the number of intervals.

    ``count`` gets how many each constant has, in the order of the constants and of the lines. ``values`` holds pairs
    of coefficients that go along, ``out`` those since the start of the interval. ``on_ticks``: ends are moved to ticks
    inside. Intervals without a tick are dropped and counted.
    """
    n, made = len(line), 0
    c, at, edge = np.empty(MOST), np.empty(MOST + 1), np.empty(MOST + 3)
    by, rise, size, wide, limit = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        span = (high[i] - low[i]) * scale
        wide[i] = power_of_two(span) if span > 0.0 else 1.0
        limit[i] = span / wide[i]
        by[i] = (low[i] - base[i]) * scale
        rise[i] = line[i, 1] * span
        reach = max(abs(low[i] - base[i]), abs(high[i] - base[i])) * scale
        size[i] = abs(line[i, 1]) * reach + abs(line[i, 0])
    level, steep = line[:, 0].copy(), line[:, 1].copy()
    told, chosen = np.empty(n, np.int64), np.empty(n, np.int64)
    over, under = (EVERYWHERE, NOWHERE) if holds(1, comparison) else (NOWHERE, EVERYWHERE)
    for p in range(len(constants)):
        constant, first = constants[p], made
        for place in range(told_by_ends(constant, over, under, level, steep, by, rise, size, told, chosen)):
            i = chosen[place]
            if told[i] == PARTLY:
                if not np.isfinite(size[i]):
                    continue
                begins = (level[i] - constant) + by[i] * steep[i]
                flags = -1
                a, b = low[i], high[i]
                if a < b:
                    slope = line[i, 1] * wide[i]
                    flags = solve_line(begins, slope, size[i] + abs(constant), limit[i], closed[i], comparison, edge)
                if flags == 4:
                    continue
                if flags >= 0:
                    if edge[0] != 0.0:
                        a = low[i] + edge[0] * wide[i] / scale
                    if edge[1] != limit[i]:
                        b = low[i] + edge[1] * wide[i] / scale
                else:
                    c[0], c[1] = begins, line[i, 1]
                    found = solve_row(
                        c, 2, size[i] + abs(constant), scale, i, low[i], high[i], closed[i], comparison, at, edge,
                        made, row, out_low, out_high, out_closed,
                    )  # fmt: skip
                    if found == made:
                        continue
                    a, b, flags = out_low[made], out_high[made], np.int64(out_closed[made])
                if a != b:
                    tick = np.ceil(a)
                    if tick == a and not flags & LOW_CLOSED:
                        tick += 1.0
                    if tick > b or (tick == b and not flags & HIGH_CLOSED):
                        dropped[0] += 1
                        continue
                if on_ticks:
                    if a == b:
                        a = b = np.rint(a)
                        flags = LOW_CLOSED | HIGH_CLOSED
                    else:
                        if np.ceil(a) != a:
                            flags |= LOW_CLOSED
                        if np.floor(b) != b:
                            flags |= HIGH_CLOSED
                        a, b = np.ceil(a), np.floor(b)
                row[made], out_low[made], out_high[made], out_closed[made] = i, a, b, flags
                since = (a - base[i]) * scale
                for k in range(0, values.shape[1], 2):
                    out[k, made] = values[i, k] + since * values[i, k + 1]
                    out[k + 1, made] = values[i, k + 1]
                made += 1
                continue
            row[made], out_low[made], out_high[made], out_closed[made] = i, low[i], high[i], closed[i]
            for k in range(0, values.shape[1], 2):
                out[k, made] = values[i, k] + by[i] * values[i, k + 1]
                out[k + 1, made] = values[i, k + 1]
            made += 1
        count[p] = made - first
    return made
