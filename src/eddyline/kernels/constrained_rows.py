"""Rows of a constrained join in slots: chains of equal keys, lists by age, and the status of every row.

*Status* (Figures 6.4 to 6.7, with an explicit stack). A row is NO if a filter rejects it, if all its matches at a child
are NO, or if it has no match at a port and none will come; otherwise UNKNOWN if it has no YES match at some child;
otherwise YES. A row whose status changes has its parents looked at again.

What a row's matches at a child are is remembered with the row (``know``), for its other matches lie anywhere in memory:
it is forgotten when a row of the child goes, and told anew when the status of one changes.

Statuses are always those of the rows in memory. So a result consists of YES rows only: each of its rows has a match at
every port, and a match at every child that is part of the same result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eddyline.kernels.compile import inlined, prefetch
from eddyline.kernels.constrained_layout import (
    BY_EXPIRY,
    BY_FILTER,
    CHANGED,
    DOWN,
    FAILED,
    FREE,
    KINDS,
    KNOWN_AT,
    KNOWN_PORTS,
    NB,
    NBP,
    NO,
    QUEUED,
    TWO_WAY,
    UNKNOWN,
    YES,
)
from eddyline.kernels.hashing import spread, u

AHEAD, NEARER = 16, 8  # elements before whose turn memory is fetched, as in ``join_ahead``
I1, I2, I3, B1 = "int64[::1]", "int64[:, ::1]", "int64[:, :, ::1]", "uint8[::1]"
ROWS = f"{I3}, {B1}, {B1}, {I2}, int32[:, ::1], uint16[:, ::1], int32[::1], {I1}, {I1}, {I2}, {I1}, {I1}, int32[::1]"


class Rows(NamedTuple):
    """All arrays of the slots; ``fifo`` has the oldest and the newest slot of each input, ``live`` how many it has,
    ``cursor`` by port the first row whose wait was not looked at, and after these how many rows became YES or NO since
    the last collection, and the first free slot. ``stack`` has room for every slot, then for ``CHANGED`` rows that
    became YES or NO, then by port of an input for matches that are fetched for each of the next NEARER elements, then
    by port for the first matches of the row that arrives."""

    ports: Any
    status: Any
    stream: Any
    r64: Any
    r32: Any
    r16: Any
    head: Any
    base: Any
    mask: Any
    fifo: Any
    live: Any
    cursor: Any
    stack: Any


@inlined
def next_match(rows, width, p, s, key):
    """The next slot from ``s`` on in a chain of port p that has a key; −1: none."""
    at = 3 * width + 6 + p
    while s >= 0 and rows.r64[u(s), u(p)] != key:
        s = np.int64(rows.r32[u(s), u(at)])
    return s


@inlined
def first(rows, width, port, p, key):
    """The first slot of a key at a port, whose number within its input is p; −1: none."""
    s = np.int64(rows.head[u(rows.base[u(port)] + spread(key, rows.mask[u(port)]))])
    return next_match(rows, width, p, s, key)


@inlined
def fetch(rows, s):
    """Have a row's record fetched while other work goes on: both lines of the processor's cache that it may lie in."""
    size = np.int64(rows.r16.shape[1])
    prefetch(rows.r16, s * size)
    prefetch(rows.r16, (s + 1) * size - 1)


@inlined
def fetch_ahead(rows, width, owner, keys, at, stop):
    """Have fetched what elements of an input that come soon will touch: the places of their keys in the tables of both
    ends of their edges, then the first records that lie there. What changes meanwhile makes it useless, never wrong."""
    for j in range(width):
        other = rows.ports[u(owner), u(j), NB]
        if other < 0:
            continue
        here, there = owner * width + j, other * width + rows.ports[u(owner), u(j), NBP]
        if at + AHEAD < stop:
            key = keys[u(at + AHEAD), u(j)]
            prefetch(rows.head, rows.base[u(here)] + spread(key, rows.mask[u(here)]))
            prefetch(rows.head, rows.base[u(there)] + spread(key, rows.mask[u(there)]))
        if at + NEARER < stop:
            key = keys[u(at + NEARER), u(j)]
            fetch(rows, np.int64(rows.head[u(rows.base[u(here)] + spread(key, rows.mask[u(here)]))]))
            fetch(rows, np.int64(rows.head[u(rows.base[u(there)] + spread(key, rows.mask[u(there)]))]))


@inlined
def fetch_first(rows, port, keys, at):
    """Have fetched what looking for keys that follow at a port will touch."""
    if at + AHEAD < len(keys):
        prefetch(rows.head, rows.base[u(port)] + spread(keys[u(at + AHEAD)], rows.mask[u(port)]))
    if at + NEARER < len(keys):
        place = spread(keys[u(at + NEARER)], rows.mask[u(port)])
        fetch(rows, np.int64(rows.head[u(rows.base[u(port)] + place)]))


@inlined
def ahead_at(rows, width, port, at):
    """The place of the stack that has the match which was fetched for an element of an input at a port."""
    return len(rows.stack) - width - NEARER * (port + 1) + (at & (NEARER - 1))


@inlined
def forget_ahead(rows, width):
    """Nothing is fetched for the elements that come: between two runs slots may have moved."""
    many = NEARER * rows.ports.shape[0] * width
    for i in range(len(rows.stack) - width - many, len(rows.stack) - width):
        rows.stack[u(i)] = -1


@inlined
def fetch_matches(rows, width, owner, keys, at, stop):
    """Have the matches fetched of elements that come soon at ports where there are several (parents of a child): with
    each element the next one of each of the elements behind it."""
    for j in range(width):
        other, p = rows.ports[u(owner), u(j), NB], rows.ports[u(owner), u(j), NBP]
        if other < 0 or rows.ports[u(other), u(p), DOWN] == 0:
            continue
        port, following = owner * width + j, 3 * width + 6 + p
        for i in range(at + 1, at + NEARER):
            place = ahead_at(rows, width, port, i)
            node = np.int64(rows.stack[u(place)])
            if node >= 0:
                node = np.int64(rows.r32[u(node), u(following)])
                rows.stack[u(place)] = node
                if node >= 0:
                    fetch(rows, node)
        if at + NEARER < stop:
            there = other * width + p
            place = spread(keys[u(at + NEARER), u(j)], rows.mask[u(there)])
            node = np.int64(rows.head[u(rows.base[u(there)] + place)])
            rows.stack[u(ahead_at(rows, width, port, at))] = node


@inlined
def after(rows, width, p, s, key):
    """The next slot of the same key."""
    return next_match(rows, width, p, np.int64(rows.r32[u(s), u(3 * width + 6 + p)]), key)


@inlined
def link(rows, width, s):
    """Put a row in front of the chains of its keys."""
    owner = np.int64(rows.stream[u(s)])
    following, before = 3 * width + 6, 4 * width + 6
    for j in range(width):
        if rows.ports[u(owner), u(j), NB] < 0:
            continue
        port = owner * width + j
        place = spread(rows.r64[u(s), u(j)], rows.mask[u(port)])
        bucket = rows.base[u(port)] + place
        old = np.int64(rows.head[u(bucket)])
        rows.r32[u(s), u(following + j)] = old
        rows.r32[u(s), u(before + j)] = -1 - place
        if old >= 0:
            rows.r32[u(old), u(before + j)] = s
        rows.head[u(bucket)] = s


@inlined
def link_and_compare(rows, width, s, j):
    """Put a row in front of the chain of its key at one port; whether another row of its input has that key."""
    port = np.int64(rows.stream[u(s)]) * width + j
    key = rows.r64[u(s), u(j)]
    place = spread(key, rows.mask[u(port)])
    bucket = rows.base[u(port)] + place
    old = np.int64(rows.head[u(bucket)])
    rows.r32[u(s), u(3 * width + 6 + j)] = old
    rows.r32[u(s), u(4 * width + 6 + j)] = -1 - place
    if old >= 0:
        rows.r32[u(old), u(4 * width + 6 + j)] = s
    rows.head[u(bucket)] = s
    return next_match(rows, width, j, old, key) >= 0


@inlined
def unlink(rows, width, s):
    """Take a row out of its chains."""
    owner = np.int64(rows.stream[u(s)])
    following, before = 3 * width + 6, 4 * width + 6
    for j in range(width):
        if rows.ports[u(owner), u(j), NB] < 0:
            continue
        later, earlier = np.int64(rows.r32[u(s), u(following + j)]), np.int64(rows.r32[u(s), u(before + j)])
        if earlier < 0:
            rows.head[u(rows.base[u(owner * width + j)] - 1 - earlier)] = later
        else:
            rows.r32[u(earlier), u(following + j)] = later
        if later >= 0:
            rows.r32[u(later), u(before + j)] = earlier


@inlined
def enlist(rows, width, s, behind):
    """Put a row into the list of its input, behind a slot; −1: in front."""
    owner = np.int64(rows.stream[u(s)])
    later, earlier = 5 * width + 6, 5 * width + 7
    ahead = rows.fifo[u(owner), 0] if behind < 0 else np.int64(rows.r32[u(behind), u(later)])
    rows.r32[u(s), u(earlier)], rows.r32[u(s), u(later)] = behind, ahead
    if behind < 0:
        rows.fifo[u(owner), 0] = s
    else:
        rows.r32[u(behind), u(later)] = s
    if ahead < 0:
        rows.fifo[u(owner), 1] = s
    else:
        rows.r32[u(ahead), u(earlier)] = s
    for j in range(width):
        if rows.cursor[u(owner * width + j)] < 0:
            rows.cursor[u(owner * width + j)] = s
    rows.live[u(owner)] += 1


@inlined
def delist(rows, width, s):
    """Take a row out of the list of its input."""
    owner = np.int64(rows.stream[u(s)])
    later, earlier = np.int64(rows.r32[u(s), u(5 * width + 6)]), np.int64(rows.r32[u(s), u(5 * width + 7)])
    if earlier < 0:
        rows.fifo[u(owner), 0] = later
    else:
        rows.r32[u(earlier), u(5 * width + 6)] = later
    if later < 0:
        rows.fifo[u(owner), 1] = earlier
    else:
        rows.r32[u(later), u(5 * width + 7)] = earlier
    for j in range(width):
        if rows.cursor[u(owner * width + j)] == s:
            rows.cursor[u(owner * width + j)] = later
    rows.live[u(owner)] -= 1


@inlined
def look_again(rows, width, s):
    """A row goes: the waits of its one-one partners were looked at while it matched them, and are looked at again."""
    owner = np.int64(rows.stream[u(s)])
    for j in range(width):
        if rows.ports[u(owner), u(j), NB] >= 0 and rows.ports[u(owner), u(j), TWO_WAY]:
            other = rows.ports[u(owner), u(j), NB]
            rows.cursor[u(other * width + rows.ports[u(owner), u(j), NBP])] = rows.fifo[u(other), 0]


@inlined
def release(rows, width, s):
    """Free the slot of a row that is in no chain and no list."""
    free = len(rows.cursor) - 1
    rows.status[u(s)] = FREE
    rows.r32[u(s), u(5 * width + 6)] = rows.cursor[u(free)]
    rows.cursor[u(free)] = s


@inlined
def known(rows, width, s, j):
    """The best status of a row's matches at a port that leads to a child; FREE: it is not known."""
    if j >= KNOWN_PORTS:
        return np.int64(FREE)
    return (np.int64(rows.r16[u(s), u(12 * width + 19)]) >> (KNOWN_AT + 2 * j)) & np.int64(3)


@inlined
def know(rows, width, s, j, status):
    """Remember the best status of a row's matches at a port; FREE: forget it."""
    if j < KNOWN_PORTS:
        at = KNOWN_AT + 2 * j
        flags = np.int64(rows.r16[u(s), u(12 * width + 19)]) & (np.int64(65535) - (np.int64(3) << at))
        rows.r16[u(s), u(12 * width + 19)] = np.uint16(flags | (status << at))


@inlined
def better(a, b):
    """The better of two statuses; FREE is none."""
    if a == YES or b == FREE or (a == UNKNOWN and b == NO):
        return a
    return b


@inlined
def forget_matches(rows, width, s):
    """A row goes: what its matches are is not known to its parents."""
    owner = np.int64(rows.stream[u(s)])
    for j in range(width):
        other, p = rows.ports[u(owner), u(j), NB], rows.ports[u(owner), u(j), NBP]
        if other >= 0 and rows.ports[u(other), u(p), DOWN]:
            key = rows.r64[u(s), u(j)]
            node = first(rows, width, other * width + p, p, key)
            while node >= 0:
                know(rows, width, node, p, np.int64(FREE))
                node = after(rows, width, p, node, key)


@inlined
def evaluate(rows, width, s, arrives):
    """The status of a row by Theorems 6.3.1 and 6.3.2; a NO row is told why. Those that ``arrive`` know matches."""
    flags, gone, why = 12 * width + 19, 10 * width + 18, 12 * width + 18
    if rows.r16[u(s), u(flags)] & FAILED:
        rows.r16[u(s), u(why)] = BY_FILTER
        return np.int64(NO)
    owner = np.int64(rows.stream[u(s)])
    found = np.int64(YES)
    for j in range(width):
        other, p = rows.ports[u(owner), u(j), NB], rows.ports[u(owner), u(j), NBP]
        down = rows.ports[u(owner), u(j), DOWN] != 0
        if other < 0 or (not down and rows.r16[u(s), u(gone + j)] == 0):
            continue
        best, reason = known(rows, width, s, j) if down else np.int64(FREE), np.int64(0)
        if best in (FREE, NO):
            key = rows.r64[u(s), u(j)]
            if arrives:
                node = np.int64(rows.stack[u(len(rows.stack) - width + j)])
            else:
                node = first(rows, width, other * width + p, p, key)
            best = np.int64(FREE)
            while node >= 0 and best != YES:
                here = np.int64(rows.status[u(node)])
                if here == NO:
                    reason = np.int64(rows.r16[u(node), u(why)])
                best = better(here, best)
                node = after(rows, width, p, node, key)
            if down:
                know(rows, width, s, j, best)
        if best == FREE and rows.r16[u(s), u(gone + j)] != 0:
            rows.r16[u(s), u(why)] = rows.r16[u(s), u(gone + j)]
            return np.int64(NO)
        if down:
            if best == NO:
                rows.r16[u(s), u(why)] = reason
                return np.int64(NO)
            if best != YES:
                found = np.int64(UNKNOWN)
    return found


@inlined
def push(rows, width, s, top):
    """Have a row looked at, once."""
    flags = 12 * width + 19
    if rows.r16[u(s), u(flags)] & QUEUED:
        return top
    rows.r16[u(s), u(flags)] |= QUEUED
    rows.stack[u(top)] = s
    return top + 1


@inlined
def settle(rows, width, top, arriving):
    """Look at the rows on the stack, and at the parents of those whose status changes. ``arriving`` is the slot of the
    row whose matches are known, −1 if there is none."""
    while top > 0:
        top -= 1
        s = np.int64(rows.stack[u(top)])
        rows.r16[u(s), u(12 * width + 19)] &= 65535 - QUEUED
        new = evaluate(rows, width, s, s == arriving)
        if new == rows.status[u(s)]:
            continue
        rows.status[u(s)] = new
        changed = rows.cursor[u(len(rows.cursor) - 2)]
        if new != UNKNOWN and changed <= CHANGED:
            if changed < CHANGED:
                rows.stack[u(len(rows.status) + 1 + changed)] = s
            rows.cursor[u(len(rows.cursor) - 2)] = changed + 1
        owner = np.int64(rows.stream[u(s)])
        for j in range(width):
            other, p = rows.ports[u(owner), u(j), NB], rows.ports[u(owner), u(j), NBP]
            if other >= 0 and rows.ports[u(other), u(p), DOWN]:
                key = rows.r64[u(s), u(j)]
                node = first(rows, width, other * width + p, p, key)
                if node < 0:
                    continue
                best = np.int64(FREE)
                same = first(rows, width, owner * width + j, j, key)
                while same >= 0 and best != YES:
                    best = better(np.int64(rows.status[u(same)]), best)
                    same = after(rows, width, j, same, key)
                while node >= 0:
                    know(rows, width, node, p, best)
                    top = push(rows, width, node, top)
                    node = after(rows, width, p, node, key)


@inlined
def depart(rows, width, s):
    """A row leaves its window; parents that have no other match will get none (6.3.2)."""
    owner = np.int64(rows.stream[u(s)])
    look_again(rows, width, s)
    forget_matches(rows, width, s)
    unlink(rows, width, s)
    delist(rows, width, s)
    release(rows, width, s)
    top = np.int64(0)
    for j in range(width):
        other, p = rows.ports[u(owner), u(j), NB], rows.ports[u(owner), u(j), NBP]
        if other < 0 or rows.ports[u(other), u(p), DOWN] == 0:
            continue
        key = rows.r64[u(s), u(j)]
        if first(rows, width, owner * width + j, j, key) >= 0:
            continue
        node = first(rows, width, other * width + p, p, key)
        while node >= 0:
            rows.r16[u(node), u(10 * width + 18 + p)] = BY_EXPIRY + KINDS * (other * width + p)
            top = push(rows, width, node, top)
            node = after(rows, width, p, node, key)
    settle(rows, width, top, np.int64(-1))
