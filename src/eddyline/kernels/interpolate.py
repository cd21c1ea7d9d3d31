"""Samples of many keys in order of time: the values at the multiples of a step, on the straight lines between samples.

What is correct: of two neighbouring samples of a key that are not farther apart than the gap, every multiple of the
step from the first one on and before the second one has the value a + (t − ta)/(tb − ta)·(b − a); at a sample it is the
sample's own. So a multiple gets its value when the next sample of the key has come, or at once if it is a sample.

The rows of a key whose samples are fitted (``MODELS``) are passed on. A key that has had as many samples as its limit
is reviewed. If it is on tuples, and models would not pay with endless segments either, it goes on with a later limit;
otherwise it is *held*: the caller decides how it goes on, and passes the rows behind it again.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel

# Columns of what is known of a key: how it is evaluated; its samples, and at how many it is held; the last one's time;
# instants that it got values at since the last review; whether it is held, and the row at which that began; the first
# multiple of the step behind the last sample.
MODE, SEEN, LIMIT, LAST, INSTANTS, HELD, ROW, AHEAD = 0, 1, 2, 3, 4, 5, 6, 7
COLUMNS = 8
TUPLES, MODELS = 0, 1
# What a call counts and where it stopped.
NEXT, FITTED, WAITING, MADE, VIOLATIONS, REPEATED = 0, 1, 2, 3, 4, 5
# Nanoseconds of a sample and of an instant on tuples, of a sample and of an instant on models; which share of the cost
# on tuples models may have at most; the fewest and the most samples between two reviews.
SAMPLE, INSTANT, FIT, SHOWN, CLEARLY, PERIOD, LONGEST = 0, 1, 2, 3, 4, 5, 6
SINCE, PROFILED = 0, 2  # columns of ``since``: samples at the last review; whether the key is in a profile


@kernel(
    "boolean(int64[::1], int64[::1], int64[::1], float64[:, ::1], int64, int64, int64[:, ::1], float64[:, ::1], "
    "float64[::1], int64[:, ::1], float64[::1], int64[::1], int64[::1], int64[:, ::1], float64[:, ::1], int64[::1])"
)
def pass_samples(
    rows, code, time, value, step, gap, keys, last, rate, since, prices, fitted, waiting, out, out_value, meta
):  # fmt: skip
    """Walk along ``rows`` from ``meta[NEXT]`` on; false: there was no room for what a row gives.

    ``keys``, ``last`` (values of the last sample), ``rate`` (instants a sample) and ``since`` are by code.
    ``fitted`` gets the rows of keys that are fitted, ``waiting`` those of keys that are held; ``out`` gets (code,
    instant), ``out_value`` the values there.
    ``gap`` 0: none is too long.
    """
    width = value.shape[1]
    for place in range(meta[NEXT], len(rows)):
        row = rows[place]
        k, now = code[row], time[row]
        if keys[k, HELD]:
            waiting[meta[WAITING]] = row
            meta[WAITING] += 1
            continue
        before = keys[k, LAST]
        seen = keys[k, SEEN]
        held = seen + 1 == keys[k, LIMIT]
        if keys[k, MODE] == MODELS:
            fitted[meta[FITTED]] = row
            meta[FITTED] += 1
            if now <= before:
                continue  # a second sample of an instant: the fit counts it
        else:
            if seen > 0 and now <= before:
                differs = False
                for j in range(width):
                    differs = differs or value[row, j] != last[k, j]
                meta[VIOLATIONS if differs else REPEATED] += 1
                continue
            if seen == 0 or (gap > 0 and now - before > gap):
                keys[k, AHEAD] = -((-now) // step) * step
            ahead = keys[k, AHEAD]
            made = meta[MADE]
            if now >= ahead:
                # Instants come one by one as a rule; a division takes as long as all the rest of the row.
                multiples = 1 if now - ahead < step else (now - ahead) // step + 1
                if made + multiples + 1 > len(out):
                    meta[NEXT] = place
                    return False
                while ahead < now:
                    share = (ahead - before) / (now - before)
                    out[made, 0], out[made, 1] = k, ahead
                    for j in range(width):
                        out_value[made, j] = last[k, j] + share * (value[row, j] - last[k, j])
                    made += 1
                    ahead += step
                keys[k, INSTANTS] += made - meta[MADE]
            reviewed = False
            if held and not since[k, PROFILED]:
                asked = keys[k, INSTANTS] / max(seen + 1 - since[k, SINCE], 1)
                on_tuples = prices[SAMPLE] + prices[INSTANT] * asked
                if prices[FIT] + prices[SHOWN] * asked >= prices[CLEARLY] * on_tuples:
                    period = min(max(seen + 1, np.int64(prices[PERIOD])), np.int64(prices[LONGEST]))
                    rate[k], since[k, SINCE] = asked, seen + 1
                    keys[k, LIMIT], keys[k, INSTANTS] = seen + 1 + period, 0
                    held, reviewed = False, True
            if ahead == now:
                if not held:
                    out[made, 0], out[made, 1] = k, now
                    for j in range(width):
                        out_value[made, j] = value[row, j]
                    made += 1
                    keys[k, INSTANTS] += not reviewed
                ahead += step
            meta[MADE] = made
            keys[k, AHEAD] = ahead
        keys[k, SEEN], keys[k, LAST] = seen + 1, now
        for j in range(width):
            last[k, j] = value[row, j]
        if held:
            keys[k, HELD], keys[k, ROW] = 1, row
    meta[NEXT] = len(rows)
    return True
