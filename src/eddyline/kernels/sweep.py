"""One comparison of lines with many constants: what ``polynomials.compare`` finds for each of them, in one pass each.

Many lines are on one side of a constant for as long as they last, which the signs at their two ends tell; a root is
computed for the others only. Each step is done for all lines before the next one, without a branch: on which side of a
constant a line lies cannot be foreseen, and a branch that is foreseen wrongly costs more than the comparison. Results
leave as they are shown: ends, flags, and coefficients since the new start.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.polynomials import (
    GE,
    HIGH_CLOSED,
    LE,
    LOW_CLOSED,
    MAX_COEFFICIENTS,
    NOISE,
    holds,
    power_of_two,
    solve_line,
    solve_row,
)

NOWHERE, EVERYWHERE, PARTLY, UNTOLD = 0, 1, 2, 3  # where a line compares as wanted


@inlined
def told_by_ends(constant, above, level, slope, by, rise, size, told):
    """Fill ``told`` with where each line compares with a constant as wanted, as far as its ends tell. ``above``:
    whether larger values are wanted."""
    over, under = (EVERYWHERE, NOWHERE) if above else (NOWHERE, EVERYWHERE)
    for i in range(len(level)):
        begins = (level[i] - constant) + by[i] * slope[i]
        ends = begins + rise[i]
        margin = 4.0 * NOISE * (size[i] + abs(constant) + abs(rise[i]))
        is_over = (begins > margin) & (ends > margin)
        is_under = (begins < -margin) & (ends < -margin)
        told[i] = over if is_over else (under if is_under else UNTOLD)


@inlined
def lines_told(told, least, chosen):
    """Fill ``chosen`` with the lines of which ``least`` or more is told; returns how many."""
    found = 0
    for i in range(len(told)):
        chosen[found] = i
        found += told[i] >= least
    return found


@inlined
def cut_at_roots(
    constant, above, at_root, on_ticks, scale, cut, cuts, level, slope, by, size, wide, limit, low, high, closed, told,
    out_low, out_high, out_closed,
):  # fmt: skip
    """Cut lines at their roots: the usual case of ``solve_line``, with a root well inside and not at an end; returns
    how many intervals have no tick. The other lines stay untold."""
    without = 0
    for place in range(cuts):
        i = cut[place]
        begins, turn = (level[i] - constant) + by[i] * slope[i], slope[i] * wide[i]
        largest = abs(begins) + abs(turn)
        is_steep = (abs(turn) > NOISE * largest) & (largest > NOISE * (size[i] + abs(constant)))
        root = -begins / (turn if is_steep else 1.0)
        middle = low[i] + root * wide[i] / scale
        to_root = (begins >= 0.0) == above
        a, b = low[i] if to_root else middle, middle if to_root else high[i]
        low_closed = closed[i] & LOW_CLOSED if to_root else (LOW_CLOSED if at_root else 0)
        high_closed = (HIGH_CLOSED if at_root else 0) if to_root else closed[i] & HIGH_CLOSED
        first, last = np.ceil(a), np.floor(b)
        tick = first + (1.0 if (first == a) & (low_closed == 0) else 0.0)
        is_usual = is_steep & (root > NOISE) & (root < limit[i] - NOISE) & (a < b) & np.isfinite(size[i])
        has_tick = (tick < b) | ((tick == b) & (high_closed != 0))
        without += is_usual & (not has_tick)
        told[i] = UNTOLD if not is_usual else (PARTLY if has_tick else NOWHERE)
        out_low[i], out_high[i] = first if on_ticks else a, last if on_ticks else b
        rounded_low, rounded_high = on_ticks & (first != a), on_ticks & (last != b)
        out_closed[i] = (LOW_CLOSED if rounded_low else low_closed) | (HIGH_CLOSED if rounded_high else high_closed)
    return without


@inlined
def move_to_ticks(a, b, flags):
    """An interval with its ends moved to the ticks inside."""
    if a == b:
        a = b = np.rint(a)
        flags = LOW_CLOSED | HIGH_CLOSED
    else:
        if np.ceil(a) != a:
            flags |= LOW_CLOSED
        if np.floor(b) != b:
            flags |= HIGH_CLOSED
        a, b = np.ceil(a), np.floor(b)
    return a, b, flags


@inlined
def holds_tick(a, b, flags):
    """Whether an interval is a point or contains a tick."""
    tick = np.ceil(a)
    if tick == a and not flags & LOW_CLOSED:
        tick += 1.0
    return a == b or tick < b or (tick == b and flags & HIGH_CLOSED != 0)


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
    c, at, edge = np.empty(MAX_COEFFICIENTS), np.empty(MAX_COEFFICIENTS + 1), np.empty(MAX_COEFFICIENTS + 3)
    found_row = np.empty(MAX_COEFFICIENTS, np.int64)
    found_low, found_high = np.empty(MAX_COEFFICIENTS), np.empty(MAX_COEFFICIENTS)
    found_closed = np.empty(MAX_COEFFICIENTS, np.uint8)
    by, rise, size, wide, limit = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        span = (high[i] - low[i]) * scale
        wide[i] = power_of_two(span) if span > 0.0 else 1.0
        limit[i] = span / wide[i]
        by[i] = (low[i] - base[i]) * scale
        rise[i] = line[i, 1] * span
        reach = max(abs(low[i] - base[i]), abs(high[i] - base[i])) * scale
        size[i] = abs(line[i, 1]) * reach + abs(line[i, 0])
    level, steep, pairs = line[:, 0].copy(), line[:, 1].copy(), values.T.copy()
    told, chosen = np.empty(n, np.int8), np.empty(n, np.int64)
    # The interval of each line for the present constant: the whole line, unless it was cut.
    part_low, part_high, part_closed, cut = low.copy(), high.copy(), closed.copy(), np.empty(n, np.int64)
    above, at_root = holds(1, comparison), comparison in (LE, GE)
    for p in range(len(constants)):
        constant = constants[p]
        told_by_ends(constant, above, level, steep, by, rise, size, told)
        cuts = lines_told(told, UNTOLD, cut)
        dropped[0] += cut_at_roots(
            constant, above, at_root, on_ticks, scale, cut, cuts, level, steep, by, size, wide, limit, low, high,
            closed, told, part_low, part_high, part_closed,
        )  # fmt: skip
        for place in range(cuts):
            i = cut[place]
            if told[i] != UNTOLD:
                continue
            told[i] = NOWHERE
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
                    c, 2, size[i] + abs(constant), size[i] + abs(constant), scale, i, low[i], high[i], closed[i],
                    comparison, at, edge, 0, found_row, found_low, found_high, found_closed,
                )  # fmt: skip
                if found == 0:
                    continue
                a, b, flags = found_low[0], found_high[0], np.int64(found_closed[0])
            if not holds_tick(a, b, flags):
                dropped[0] += 1
                continue
            if on_ticks:
                a, b, flags = move_to_ticks(a, b, flags)
            told[i] = PARTLY
            part_low[i], part_high[i], part_closed[i] = a, b, flags
        many = lines_told(told, EVERYWHERE, chosen)
        for place in range(many):
            i = chosen[place]
            row[made + place], out_closed[made + place] = i, part_closed[i]
            out_low[made + place], out_high[made + place] = part_low[i], part_high[i]
        for k in range(0, len(pairs), 2):
            for place in range(many):
                i = chosen[place]
                since = (part_low[i] - base[i]) * scale
                out[k, made + place] = pairs[k, i] + since * pairs[k + 1, i]
                out[k + 1, made + place] = pairs[k + 1, i]
        for place in range(cuts):
            i = cut[place]
            part_low[i], part_high[i], part_closed[i] = low[i], high[i], closed[i]
        count[p] = many
        made += many
    return made
