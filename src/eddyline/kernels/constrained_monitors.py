"""What monitors of clustered and of ordered arrival measure of the rows of a batch (thesis 6.7.2 and 6.8.2).

Distances are put out as *steps*: places of a (2, n + 1) array with the position and the distance of each that no later
one of the batch reaches, for only these can become the largest of a window of arrivals. Place 0 has the first that is
above a limit (distance 0: none is), which says when the constraint ceased to hold.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.constrained_rows import I1, I2
from eddyline.kernels.hashing import mix, u

EMPTY, FORGOTTEN = -2, -1  # counts of a place in CA-Aux that was never taken, and of a key whose entry is over
# Lines of what is remembered of ordered arrival: the maxima, and the arrival and the time of the first and of the last
# of those that each stands for.
MAXIMA, AT, WHEN, LAST, UNTIL, HELD = 0, 1, 2, 3, 4, 5


@inlined
def add_step(steps, many, limit, position, distance):
    """Remember a distance above 0 behind ``many`` places; returns how many are taken then. There is no branch that
    depends on the distance but for one that is hardly ever taken."""
    if distance > limit and steps[1, 0] == 0:
        steps[0, 0], steps[1, 0] = position, distance
    steps[0, u(many)], steps[1, u(many)] = position, distance
    return many + np.int64(distance > 0)


@inlined
def keep_steps(steps, many):
    """Of the distances remembered, keep those that no later one reaches; returns how many places are taken then."""
    at, largest = many, np.int64(0)
    for i in range(many - 1, 0, -1):
        if steps[1, u(i)] > largest:
            at -= 1
            largest = steps[1, u(i)]
            steps[0, u(at)], steps[1, u(at)] = steps[0, u(i)], largest
    for i in range(at, many):
        steps[0, u(1 + i - at)], steps[1, u(1 + i - at)] = steps[0, u(i)], steps[1, u(i)]
    return 1 + many - at


@kernel(f"int64({I1}, {I1}, int64, int64, {I1}, {I1}, {I1}, {I1}, {I2}, {I2}, {I1})")
def clustering(keys, times, count, room, table, first_count, first_time, limits, arrivals, ticks, taken):
    """CA-Aux (6.7.2): of each arriving key the clustering distance so far, and the ticks since the first of its key, as
    steps in ``arrivals`` and ``ticks`` with a limit each, behind those that are ``taken``. ``table`` is an open hash
    table of keys, ``first_count`` has C_v = the count of arrivals less those of other keys since the first of the key
    (EMPTY, FORGOTTEN), ``first_time`` when the first came. Returns how many places of the table were taken: at most
    ``room``, after which no further key is looked at. ``taken[2]`` says how many keys were."""
    mask = len(table) - 1
    new, a, t = np.int64(0), taken[0], taken[1]
    taken[2] = len(keys)
    for i in range(len(keys)):
        if new == room:
            taken[2] = i
            break
        count += 1
        at = mix(np.int64(3), keys[i]) & mask
        while first_count[u(at)] != EMPTY and table[u(at)] != keys[i]:
            at = (at + 1) & mask
        if first_count[u(at)] >= 0:
            first_count[u(at)] += 1
            a = add_step(arrivals, a, limits[0], count, count - first_count[u(at)])
            t = add_step(ticks, t, limits[1], times[i], times[i] - first_time[u(at)])
        else:
            new += first_count[u(at)] == EMPTY
            table[u(at)], first_count[u(at)], first_time[u(at)] = keys[i], count, times[i]
    taken[0], taken[1] = keep_steps(arrivals, a), keep_steps(ticks, t)
    return new


@inlined
def first_larger(held, last, value):
    """Of the maxima up to the ``last``, which is larger than a value, the first that is."""
    low, left = np.int64(0), last + 1
    while left > 1:
        half = left >> 1
        low += half * np.int64(held[MAXIMA, u(low + half - 1)] <= value)
        left -= half
    return low


@inlined
def reverse_steps(steps, start, many):
    """Put the places from ``start`` on, up to ``many``, into the opposite order."""
    for i in range((many - start) // 2):
        for line in range(2):
            a, b = start + i, many - 1 - i
            steps[line, u(a)], steps[line, u(b)] = steps[line, u(b)], steps[line, u(a)]


@kernel(f"int64({I1}, {I1}, int64, int64, {I2}, int64, {I1}, {I2}, {I2}, {I1})")
def scrambling(values, times, count, many, held, cut, limits, arrivals, ticks, taken):
    """The running maxima of values, ``many`` of which are ``held`` so far (with room for a new one for each value), and
    of each value that comes after a larger one the arrivals and ticks since the first larger one, as steps. ``cut``:
    older maxima were forgotten, so that such a distance is larger than what is measured. Returns how many maxima there
    are.

    Only distances matter that no later one reaches. So values are looked at from the last to the first, and the first
    larger one is searched for only where the distance is above the largest so far: if one of the maxima that are older
    than that is larger than the value."""
    for i in range(len(values)):
        if many == 0 or values[u(i)] > held[MAXIMA, u(many - 1)]:
            held[MAXIMA, u(many)] = values[u(i)]
            held[AT, u(many)], held[LAST, u(many)] = count + i, count + i
            held[WHEN, u(many)], held[UNTIL, u(many)] = times[u(i)], times[u(i)]
            many += 1
    if cut and many > 0:
        held[AT, 0] -= 1
        held[WHEN, 0] -= 1
    a, t = taken[0], taken[1]
    is_first, is_first_tick = arrivals[1, 0] == 0, ticks[1, 0] == 0
    largest, longest = np.int64(0), np.int64(0)
    least, shortest = min(largest, limits[0]), min(longest, limits[1])  # distances that need not be known
    older, before = many - 1, many - 1  # the last maximum that is so many arrivals, or ticks, old
    for back in range(len(values)):
        i = len(values) - 1 - back
        v, now, when = values[u(i)], count + i, times[u(i)]
        while older >= 0 and held[AT, u(older)] >= now - least:
            older -= 1
        while before >= 0 and held[WHEN, u(before)] >= when - shortest:
            before -= 1
        if older >= 0 and held[MAXIMA, u(older)] > v:
            distance = now - held[AT, u(first_larger(held, older, v))]
            if distance > limits[0] and is_first:
                arrivals[0, 0], arrivals[1, 0] = now + 1, distance
            if distance > largest:
                arrivals[0, u(a)], arrivals[1, u(a)] = now + 1, distance
                largest, least = distance, min(distance, limits[0])
                a += 1
        if before >= 0 and held[MAXIMA, u(before)] > v:
            distance = when - held[WHEN, u(first_larger(held, before, v))]
            if distance > limits[1] and is_first_tick:
                ticks[0, 0], ticks[1, 0] = when, distance
            if distance > longest:
                ticks[0, u(t)], ticks[1, u(t)] = when, distance
                longest, shortest = distance, min(distance, limits[1])
                t += 1
    if cut and many > 0:
        held[AT, 0] += 1
        held[WHEN, 0] += 1
    reverse_steps(arrivals, taken[0], a)
    reverse_steps(ticks, taken[1], t)
    taken[0], taken[1] = keep_steps(arrivals, a), keep_steps(ticks, t)
    return many
