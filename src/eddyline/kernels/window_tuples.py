"""Samples of many keys in order of time: averages and extremes over (t − w, t] along the straight lines between them.

What is correct: a *run* is a stretch of samples of a key; no two neighbours in it are farther apart than the gap. At
every multiple t of the step with run's first sample + w ≤ t ≤ its last sample the window has a value: the integral of
the lines divided by w, or their infimum or supremum, which lies at a sample or at an end of the window. A multiple gets
its value when the next sample of the key has come, or at once if it is a sample.

Each key has a ring of the samples that windows to come can still reach: those behind t − w, and the one before. With
every sample goes the integral of its run up to it, over w, as a pair of doubles, so that an average costs the same
however wide the window is; and for an extreme a queue of the samples that could still become it.

The modes of keys and their reviews are those of ``kernels.interpolate``. Two things differ. A key that is fitted fills
its ring too, so it may return to tuples at any sample. And when a fit begins at s, its models have no whole window
before s + w: up to there (``UNTIL``) tuples give the values.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.interpolate import (
    AHEAD,
    CLEARLY,
    FIT,
    FITTED,
    HELD,
    INSTANT,
    INSTANTS,
    LAST,
    LIMIT,
    LONGEST,
    MADE,
    MODE,
    NEXT,
    PERIOD,
    PROFILED,
    REPEATED,
    ROW,
    SAMPLE,
    SEEN,
    SHOWN,
    SINCE,
    TUPLES,
    VIOLATIONS,
    WAITING,
)

AVG, MIN, MAX = 0, 1, 2
# Columns of what is known of a key's ring: where its run began; before which instant tuples give windows although it is
# fitted; numbers of its oldest sample and of the next one to come; where the ring begins, and its length, a power of 2.
RUN, UNTIL, OLDEST, NEWEST, BEGIN, ROOM = 0, 1, 2, 3, 4, 5
RING = 6
FULL = 6  # in ``meta``, behind what ``interpolate`` counts: one more than the key whose ring is full
COUNTS = 7

_RING = "int64[:, ::1], int64[::1], float64[:, ::1], float64[:, ::1], int64[:, ::1], int64[:, :, ::1]"


@inlined
def window_at(k, t, width, head, kind, column, state, times, values, sums, queue, ends, out, made):
    """The functions over (t − width, t] into ``out[made]``; ``head`` has the arguments at t, which is not before the
    newest sample of the ring. Instants of a key never go back."""
    begin, mask = state[k, BEGIN], state[k, ROOM] - 1
    newest, low = state[k, NEWEST] - 1, t - width
    a = state[k, OLDEST]
    while a < newest and times[begin + ((a + 1) & mask)] <= low:
        a += 1
    state[k, OLDEST] = a
    before, last, after = begin + (a & mask), begin + (newest & mask), begin + ((a + 1) & mask)
    for f in range(len(kind)):
        j = column[f]
        next_time, next_value = t, head[j]
        if a < newest:
            next_time, next_value = times[after], values[after, j]
        share = (low - times[before]) / (next_time - times[before])
        tail = values[before, j] + share * (next_value - values[before, j])
        if kind[f] == AVG:
            total = (0.5 * tail + 0.5 * next_value) * ((next_time - low) / width)
            if a < newest:
                total += (sums[last, 2 * j] - sums[after, 2 * j]) + (sums[last, 2 * j + 1] - sums[after, 2 * j + 1])
                total += (0.5 * values[last, j] + 0.5 * head[j]) * ((t - times[last]) / width)
            out[made, f] = total
            continue
        sign = 1.0 if kind[f] == MIN else -1.0
        best = min(sign * tail, sign * head[j])
        i = ends[k, f, 0]
        while i < ends[k, f, 1] and times[begin + (queue[begin + (i & mask), f] & mask)] <= low:
            i += 1
        ends[k, f, 0] = i
        if i < ends[k, f, 1]:
            best = min(best, sign * values[begin + (queue[begin + (i & mask), f] & mask), j])
        out[made, f] = sign * best


@inlined
def push_sample(k, now, width, argument, row, kind, column, state, times, values, sums, queue, ends):
    """A sample into the ring of its key; false: there was no room, and nothing changed but what no window reaches."""
    begin, mask = state[k, BEGIN], state[k, ROOM] - 1
    low, number = now - width, state[k, NEWEST]
    a = state[k, OLDEST]
    while a + 1 < number and times[begin + ((a + 1) & mask)] <= low:
        a += 1
    state[k, OLDEST] = a
    if number - a > mask:
        return False
    place, last = begin + (number & mask), begin + ((number - 1) & mask)
    times[place] = now
    for j in range(argument.shape[1]):
        v = argument[row, j]
        values[place, j] = v
        sums[place, 2 * j] = sums[place, 2 * j + 1] = 0.0
        if number > a:
            x = (0.5 * values[last, j] + 0.5 * v) * ((now - times[last]) / width)
            whole = sums[last, 2 * j]
            total = whole + x
            z = total - whole
            sums[place, 2 * j] = total
            sums[place, 2 * j + 1] = sums[last, 2 * j + 1] + ((whole - (total - z)) + (x - z))
    for f in range(len(kind)):
        if kind[f] == AVG:
            continue
        sign = 1.0 if kind[f] == MIN else -1.0
        v = sign * argument[row, column[f]]
        i, stop = ends[k, f, 0], ends[k, f, 1]
        while i < stop and times[begin + (queue[begin + (i & mask), f] & mask)] <= low:
            i += 1
        while i < stop and sign * values[begin + (queue[begin + ((stop - 1) & mask), f] & mask), column[f]] >= v:
            stop -= 1
        queue[begin + (stop & mask), f] = number
        ends[k, f, 0], ends[k, f, 1] = i, stop + 1
    state[k, NEWEST] = number + 1
    return True


@kernel(
    "boolean(int64[::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], int64, int64, int64, int64[::1], "
    f"int64[::1], int64[:, ::1], float64[:, ::1], float64[::1], int64[:, ::1], float64[::1], {_RING}, int64[::1], "
    "int64[::1], int64[:, ::1], float64[:, ::1], int64[::1], float64[::1])",
    borrows=True,
)
def pass_windows(
    rows, code, time, value, argument, step, gap, width, kind, column, keys, last, rate, since, prices, state, times,
    values, sums, queue, ends, fitted, waiting, out, out_value, meta, head,
):  # fmt: skip
    """As ``interpolate.pass_samples``; ``argument`` are those of the functions at the samples, and ``head`` has room
    for them at an instant. False: there was no room for the values, or with ``meta[FULL]`` in a ring."""
    for place in range(meta[NEXT], len(rows)):
        row = rows[place]
        k, now = code[row], time[row]
        if keys[k, HELD]:
            waiting[meta[WAITING]] = row
            meta[WAITING] += 1
            continue
        before, seen = keys[k, LAST], keys[k, SEEN]
        on_tuples = keys[k, MODE] == TUPLES
        if seen > 0 and now <= before:
            if not on_tuples:  # the fit counts it
                fitted[meta[FITTED]] = row
                meta[FITTED] += 1
                continue
            differs = False
            for j in range(value.shape[1]):
                differs = differs or value[row, j] != last[k, j]
            meta[VIOLATIONS if differs else REPEATED] += 1
            continue
        if seen == 0 or (gap > 0 and now - before > gap):
            state[k, RUN], state[k, OLDEST] = now, state[k, NEWEST]
            for f in range(len(kind)):
                ends[k, f, 0] = ends[k, f, 1]
            keys[k, AHEAD] = -((-(now + width)) // step) * step
        ahead = keys[k, AHEAD]
        stop = now if on_tuples else min(now, state[k, UNTIL] - 1)
        if ahead <= stop:
            made = meta[MADE]
            multiples = 1 if stop - ahead < step else (stop - ahead) // step + 1
            if made + multiples > len(out):
                meta[NEXT] = place
                return False
            newest = state[k, BEGIN] + ((state[k, NEWEST] - 1) & (state[k, ROOM] - 1))
            while ahead <= stop:
                share = (ahead - before) / (now - before)
                for j in range(argument.shape[1]):
                    x = values[newest, j]
                    head[j] = argument[row, j] if ahead == now else x + share * (argument[row, j] - x)
                window_at(k, ahead, width, head, kind, column, state, times, values, sums, queue, ends, out_value, made)
                out[made, 0], out[made, 1] = k, ahead
                made += 1
                ahead += step
            keys[k, INSTANTS] += made - meta[MADE]
            meta[MADE], keys[k, AHEAD] = made, ahead
        if not push_sample(k, now, width, argument, row, kind, column, state, times, values, sums, queue, ends):
            meta[NEXT], meta[FULL] = place, k + 1
            return False
        held = seen + 1 == keys[k, LIMIT]
        if not on_tuples:
            fitted[meta[FITTED]] = row
            meta[FITTED] += 1
        elif held and not since[k, PROFILED]:
            asked = keys[k, INSTANTS] / max(seen + 1 - since[k, SINCE], 1)
            cost = prices[SAMPLE] + prices[INSTANT] * asked
            if prices[FIT] + prices[SHOWN] * asked >= prices[CLEARLY] * cost:
                period = min(max(seen + 1, np.int64(prices[PERIOD])), np.int64(prices[LONGEST]))
                rate[k], since[k, SINCE] = asked, seen + 1
                keys[k, LIMIT], keys[k, INSTANTS] = seen + 1 + period, 0
                held = False
        keys[k, SEEN], keys[k, LAST] = seen + 1, now
        for j in range(value.shape[1]):
            last[k, j] = value[row, j]
        if held:
            keys[k, HELD], keys[k, ROW] = 1, row
    meta[NEXT] = len(rows)
    return True


@kernel(
    f"int64(int64[::1], int64, int64[::1], int64[::1], {_RING}, int64[:, ::1], float64[:, ::1], float64[::1])",
    borrows=True,
)
def windows_at_last(chosen, width, kind, column, state, times, values, sums, queue, ends, out, out_value, head):
    """The windows that end at the last samples of keys; their number."""
    for i in range(len(chosen)):
        k = chosen[i]
        place = state[k, BEGIN] + ((state[k, NEWEST] - 1) & (state[k, ROOM] - 1))
        for j in range(values.shape[1]):
            head[j] = values[place, j]
        window_at(k, times[place], width, head, kind, column, state, times, values, sums, queue, ends, out_value, i)
        out[i, 0], out[i, 1] = k, times[place]
    return len(chosen)


@kernel(f"void({_RING}, {_RING})")
def repack(state, times, values, sums, queue, ends, new_state, new_times, new_values, new_sums, new_queue, new_ends):
    """Samples into rings of other lengths; numbers stay, so ``new_state`` differs in where rings begin and how long
    they are."""
    for k in range(len(state)):
        begin, mask = state[k, BEGIN], state[k, ROOM] - 1
        new_begin, new_mask = new_state[k, BEGIN], new_state[k, ROOM] - 1
        for i in range(state[k, OLDEST], state[k, NEWEST]):
            p, q = begin + (i & mask), new_begin + (i & new_mask)
            new_times[q] = times[p]
            for j in range(values.shape[1]):
                new_values[q, j] = values[p, j]
            for j in range(sums.shape[1]):
                new_sums[q, j] = sums[p, j]
        for f in range(queue.shape[1]):
            for i in range(ends[k, f, 0], ends[k, f, 1]):
                new_queue[new_begin + (i & new_mask), f] = queue[begin + (i & mask), f]
