"""Kernels over bags of coded rows: set operators, match counts, partitioned windows, Rstream, merging by time.

They share one pattern: walk the changes of one instant, remember each touched code's value before the instant, then
emit the difference that the instant made. ``stamp`` holds the number of the instant that last touched a code.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import inlined, kernel

DISTINCT, EXCEPT_ALL, EXCEPT, INTERSECT_ALL, INTERSECT, UNION = 0, 1, 2, 3, 4, 5
SEMI, ANTI, MARK = 0, 1, 2
_I1 = "int64[::1]"


@inlined
def multiplicity(kind, left, right):
    """How often a row is in the result, from its multiplicities on both sides."""
    if kind == EXCEPT_ALL:
        return max(left - right, 0)
    if kind == INTERSECT_ALL:
        return min(left, right)
    if kind == DISTINCT:
        return 1 if left > 0 else 0
    if kind == UNION:
        return 1 if left > 0 or right > 0 else 0
    if kind == EXCEPT:
        return 1 if left > 0 and right <= 0 else 0
    return 1 if left > 0 and right > 0 else 0


@kernel(f"int64(int64, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1})")
def set_operation(kind, time, code, side, change, left, right, stamp, old, out_time, out_code, out_weight):
    """Changes of a set operator's result; at most one an instant and code. Returns how many."""
    n = len(time)
    found = 0
    i = 0
    touched = np.empty(n, np.int64)
    while i < n:
        j = i
        count = 0
        while j < n and time[j] == time[i]:
            c = code[j]
            if stamp[c] != i:
                stamp[c] = i
                old[c] = multiplicity(kind, left[c], right[c])
                touched[count] = c
                count += 1
            if side[j] == 0:
                left[c] += change[j]
            else:
                right[c] += change[j]
            j += 1
        for q in range(count):
            c = touched[q]
            stamp[c] = -1
            difference = multiplicity(kind, left[c], right[c]) - old[c]
            if difference != 0:
                out_time[found], out_code[found], out_weight[found] = time[i], c, difference
                found += 1
        i = j
    return found


@kernel(f"int64(int64, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1})")
def match(
    kind, time, code, rows, matches, present, matched, stamp, was_p, was_m, out_time, out_code, out_weight, out_mark
):  # fmt: skip
    """Changes of a semijoin, antijoin or mark join: ``rows`` changes multiplicities, ``matches`` the partner counts."""
    n = len(time)
    found = 0
    i = 0
    touched = np.empty(n, np.int64)
    while i < n:
        j = i
        count = 0
        while j < n and time[j] == time[i]:
            c = code[j]
            if stamp[c] != i:
                stamp[c] = i
                was_p[c], was_m[c] = present[c], matched[c]
                touched[count] = c
                count += 1
            present[c] += rows[j]
            matched[c] += matches[j]
            j += 1
        for q in range(count):
            c = touched[q]
            stamp[c] = -1
            for mark in range(2):
                if (kind == SEMI and mark == 0) or (kind == ANTI and mark == 1):
                    continue
                before = was_p[c] if (was_m[c] > 0) == (mark == 1) else 0
                after = present[c] if (matched[c] > 0) == (mark == 1) else 0
                if after != before:
                    out_time[found], out_code[found] = time[i], c
                    out_weight[found], out_mark[found] = after - before, mark
                    found += 1
        i = j
    return found


@kernel(f"int64({_I1}, {_I1}, {_I1}, int64, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1})")
def partition_rows(time, group, slot, limit, head, tail, count, following, out_time, out_slot, out_weight):
    """Per group the last ``limit`` slots: each arrival beyond expels the group's oldest. Returns the elements made."""
    found = 0
    for i in range(len(time)):
        g = group[i]
        if count[g] == limit:
            gone = head[g]
            head[g] = following[gone]
            count[g] -= 1
            out_time[found], out_slot[found], out_weight[found] = time[i], gone, -1
            found += 1
        s = slot[i]
        following[s] = -1
        if count[g] == 0:
            head[g] = s
        else:
            following[tail[g]] = s
        tail[g] = s
        count[g] += 1
        out_time[found], out_slot[found], out_weight[found] = time[i], s, 1
        found += 1
    return found


# positions in ``progress`` of rstream
EVENT, TICK, LIVE, FOUND = 0, 1, 2, 3


@kernel(
    f"int64({_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1})",
    work=lambda *args: len(args[0]) + len(args[8]),
)
def rstream(time, slot, change, ticks, weight, live, place, progress, out_time, out_slot, out_weight):
    """The whole bag at every tick. Returns 1 when the output is full (call again), 0 when done."""
    i, k, n, found = progress[EVENT], progress[TICK], progress[LIVE], np.int64(0)
    while k < len(ticks):
        while i < len(time) and time[i] <= ticks[k]:
            s = slot[i]
            before = weight[s]
            weight[s] = before + change[i]
            if before == 0 and weight[s] != 0:
                live[n], place[s] = s, n
                n += 1
            elif before != 0 and weight[s] == 0:
                n -= 1
                live[place[s]] = live[n]
                place[live[n]] = place[s]
            i += 1
        if found + n > len(out_time):
            progress[EVENT], progress[TICK], progress[LIVE], progress[FOUND] = i, k, n, found
            return 1
        for q in range(n):
            out_time[found], out_slot[found], out_weight[found] = ticks[k], live[q], weight[live[q]]
            found += 1
        k += 1
    while i < len(time):
        s = slot[i]
        before = weight[s]
        weight[s] = before + change[i]
        if before == 0 and weight[s] != 0:
            live[n], place[s] = s, n
            n += 1
        elif before != 0 and weight[s] == 0:
            n -= 1
            live[place[s]] = live[n]
            place[live[n]] = place[s]
        i += 1
    progress[EVENT], progress[TICK], progress[LIVE], progress[FOUND] = i, k, n, found
    return 0


@kernel(f"void({_I1}, {_I1}, {_I1})", work=lambda a, b, order: len(order))
def merge_order(a, b, order):
    """The positions (in a followed by b) that put two sorted arrays of times in order, a first where equal."""
    i = j = 0
    for p in range(len(order)):
        if j >= len(b) or (i < len(a) and a[i] <= b[j]):
            order[p] = i
            i += 1
        else:
            order[p] = len(a) + j
            j += 1
