"""As-of joins: one pass over two streams in order of time."""

from __future__ import annotations

from eddyline.kernels.compile import kernel

NO_ROW = -1


@kernel(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], boolean, int64, int64, int64[::1], int64[::1], int64[::1])"
)
def last_before(left_time, left_key, right_time, right_key, strict, within, base, last_row, last_time, match):
    """For each left element the row of the last right element of its key: row ``base + j`` is that of element j.

    ``last_row`` and ``last_time`` are by key and know the elements of earlier calls; a key is −1 where it is NULL or
    unknown. ``within`` is negative where there is no bound.
    """
    j = 0
    for i in range(len(left_time)):
        now = left_time[i]
        while j < len(right_time) and (right_time[j] < now or (right_time[j] == now and not strict)):
            if right_key[j] >= 0:
                last_row[right_key[j]] = base + j
                last_time[right_key[j]] = right_time[j]
            j += 1
        key = left_key[i]
        match[i] = NO_ROW
        if key >= 0 and last_row[key] >= 0 and (within < 0 or now - last_time[key] <= within):
            match[i] = last_row[key]
    while j < len(right_time):
        if right_key[j] >= 0:
            last_row[right_key[j]] = base + j
            last_time[right_key[j]] = right_time[j]
        j += 1


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], boolean, int64, int64[::1], int64[::1], int64[::1])")
def first_after(left_time, left_key, right_time, right_key, strict, within, waiting, following, match):
    """For each left element the first right element of its key at its time (not with ``strict``) or later, −1 for none.

    ``waiting`` is −1 for every key; elements of a key that wait are chained through ``following``, the last one first:
    all of them have the same partner.
    """
    i = 0
    for j in range(len(right_time)):
        now = right_time[j]
        while i < len(left_time) and (left_time[i] < now or (left_time[i] == now and not strict)):
            key = left_key[i]
            match[i] = NO_ROW
            if key >= 0:
                following[i] = waiting[key]
                waiting[key] = i
            i += 1
        key = right_key[j]
        if key >= 0:
            at = waiting[key]
            waiting[key] = NO_ROW
            while at >= 0:
                if within < 0 or now - left_time[at] <= within:
                    match[at] = j
                at = following[at]
    while i < len(left_time):
        match[i] = NO_ROW
        i += 1
