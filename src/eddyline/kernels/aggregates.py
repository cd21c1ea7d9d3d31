"""Aggregates over weighted elements: a state for each group, whose value is read when an instant ends.

All kernels share one form. Elements come in order; ``group[i]`` is the dense id of the element's group, ``weight[i]``
its multiplicity (0 is ignored), ``valid`` says which arguments are not NULL (an empty array: all). ``slot[i] ≥ 0``
marks the last element of its (instant, group): there, and only there, the group's value is written to that slot.

Slots number the rows of this batch's result buffers: first the ``base`` groups touched by the batch (their values as
last emitted, filled in by the caller), then one row for each emission, in order. So "the row before" of an emission is
a slot too, and old and new values are compared and gathered without a special case.
"""

from __future__ import annotations

from eddyline.kernels.compile import kernel

DIGIT = (1 << 32) - 1
HEAVY = 1 << 30


@kernel(
    "UniTuple(int64, 2)(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1], int64[::1])"
)
def emission_points(time, group, mark, latest, slot, touched, previous, owner, when):
    """Number the slots; returns (touched groups, emissions).

    ``touched[t]`` is the group of slot t; ``previous``, ``owner`` (an index of ``touched``) and ``when`` describe each
    emission. ``mark`` and ``latest`` are indexed by group; ``mark`` is all zeros before and after.
    """
    n = len(time)
    stamp = 1
    base = 0
    for i in range(n - 1, -1, -1):
        if i < n - 1 and time[i] != time[i + 1]:
            stamp += 1
        g = group[i]
        if mark[g] == stamp:
            slot[i] = -1
        else:
            if mark[g] == 0:
                touched[base] = g
                base += 1
            mark[g] = stamp
            slot[i] = 0
    for t in range(base):
        mark[touched[t]] = t
        latest[touched[t]] = t
    made = 0
    for i in range(n):
        if slot[i] == 0:
            g = group[i]
            slot[i] = base + made
            previous[made] = latest[g]
            owner[made] = mark[g]
            when[made] = time[i]
            latest[g] = base + made
            made += 1
    for t in range(base):
        mark[touched[t]] = 0
    return base, made


@kernel("void(int64[::1], int64[::1], boolean[::1], int64[::1], int64[::1], int64[::1])")
def count(group, weight, valid, slot, state, out):
    """COUNT of what is not NULL."""
    nulls = len(valid) > 0
    for i in range(len(group)):
        g = group[i]
        if not nulls or valid[i]:
            state[g] += weight[i]
        if slot[i] >= 0:
            out[slot[i]] = state[g]


@kernel(
    "int64(int64[::1], int64[::1], boolean[::1], int64[::1], int64[::1], int64[:, ::1], int64[::1], float64[::1], "
    "int64[::1])"
)
def sum_integers(group, weight, valid, values, slot, state, total, approximate, counts):
    """SUM of int64, accumulated in 96 bits: ``state[g]`` is (count, low digit in [0, 2^32), signed high part).

    Writes the total and its nearest double; returns the first slot at which the total does not fit, or −1.
    """
    nulls = len(valid) > 0
    overflow = -1
    for i in range(len(group)):
        g = group[i]
        if not nulls or valid[i]:
            state[g, 0] += weight[i]
            left = weight[i]
            while left != 0:
                w = min(max(left, -HEAVY), HEAVY)
                left -= w
                t = state[g, 1] + (values[i] & DIGIT) * w
                state[g, 1] = t & DIGIT
                state[g, 2] += (values[i] >> 32) * w + (t >> 32)
        s = slot[i]
        if s >= 0:
            counts[s] = state[g, 0]
            high = state[g, 2]
            # Both parts are exact doubles below 2^85, so their sum is rounded once.
            approximate[s] = float(high) * 4294967296.0 + float(state[g, 1])
            if -(1 << 31) <= high < 1 << 31:
                total[s] = (high << 32) | state[g, 1]
            else:
                total[s] = 0
                if overflow < 0:
                    overflow = s
    return overflow


@kernel("void(int64[::1], int64[::1], boolean[::1], int64[::1], int64[::1])")
def transitions(pair, weight, valid, state, out):
    """Weights of DISTINCT: +1 where a pair (group, value) appears, −1 where it vanishes, 0 elsewhere."""
    nulls = len(valid) > 0
    for i in range(len(pair)):
        out[i] = 0
        if not nulls or valid[i]:
            before = state[pair[i]]
            after = before + weight[i]
            state[pair[i]] = after
            if before <= 0 and after > 0:
                out[i] = 1
            elif before > 0 and after <= 0:
                out[i] = -1


@kernel("void(int64[::1], boolean[::1], int64[::1], int64, boolean[::1])")
def differing(codes, valid, previous, base, differs):
    """Mark the emissions whose value is not the one before (codes are canonical: equal values have equal codes)."""
    if len(valid) == 0:
        for j in range(len(previous)):
            if codes[base + j] != codes[previous[j]]:
                differs[j] = True
        return
    for j in range(len(previous)):
        now, before = valid[base + j], valid[previous[j]]
        if now != before or (now and codes[base + j] != codes[previous[j]]):
            differs[j] = True


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64, boolean[::1], boolean[::1], boolean, int64[::1], int64[::1], "
    "int64[::1], int64[::1])"
)
def changes(previous, owner, when, base, alive, differs, inserts_only, source, keys, time, weight):
    """The output's elements: −old, +new for each emission that changed. Returns their number.

    ``source`` is the slot that holds the row, ``keys`` the touched group it belongs to.
    """
    k = 0
    for j in range(len(previous)):
        p = previous[j]
        old, new = alive[p], alive[base + j]
        if old and new and not differs[j]:
            continue
        if old and not inserts_only:
            source[k] = p
            keys[k] = owner[j]
            time[k] = when[j]
            weight[k] = -1
            k += 1
        if new:
            source[k] = base + j
            keys[k] = owner[j]
            time[k] = when[j]
            weight[k] = 1
            k += 1
    return k
