"""Useless rows that leave memory while a run goes on, in exact mode.

A run knows all elements that it still has to apply. So a row that can be part of no result of the run any more need
not wait for its end to go into the spill: it is *staged*, which is to copy it out and to free its slot. A row of a new
result has a match at each of its ports that no filter rejects, in memory or among the elements to come; and there is a
way of equal keys from it, through rows in memory, to an element to come, for one completes the result. (Spilled rows
that the run may need came back before it, and staged ones are part of none of its results.) Elements to come are
counted by port in places that several keys may share (``coming``), and ways of more than two steps are taken to lead to
one: what is wrong about that keeps a row until the end of the run, and never stages one too soon.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.constrained_layout import FAILED, FREE, NB, NBP, VICTIM
from eddyline.kernels.constrained_rows import (
    B1,
    I1,
    I2,
    I3,
    ROWS,
    Rows,
    after,
    delist,
    first,
    forget_matches,
    look_again,
    release,
    unlink,
)
from eddyline.kernels.hashing import spread, u

STAGE = f"{I2}, {I2}, {I2}, {B1}, {I2}, {B1}, int32[::1]"
UNCOUNTED = 255  # a count that is not followed any more: as many elements or more share the place
DEAD, COMPLETE, OPEN = -1, 0, 1  # a match that is part of no result, of none to come, perhaps of one to come


class Stage(NamedTuple):
    """``fields`` has number, leave, why and place of the rows that are staged, ``keys`` their keys by port; those of
    each input have places of their own, ``bounds``: the next one and where they end. ``coming`` counts the elements
    that are not applied yet, ``coming_of`` says where the counts of a port begin and which mask its hashes have.
    ``ends`` are inputs with one port. ``marked`` has the slots of the rows that go at the end of the run, and before
    them how many: if that are more than there is room for, some are missing."""

    fields: Any
    keys: Any
    bounds: Any
    coming: Any
    coming_of: Any
    ends: Any
    marked: Any


@inlined
def place_of(stage, port, key):
    """The place that counts the elements to come of a port with a key, and with others."""
    return stage.coming_of[0, u(port)] + spread(key, stage.coming_of[1, u(port)])


@inlined
def comes(stage, port, key):
    """Whether an element of a port with a key may still come in this run."""
    return stage.coming[u(place_of(stage, port, key))] != 0


@inlined
def has_come(rows, width, stage, owner, keys, at):
    """An element that can join is applied now."""
    for j in range(width):
        if rows.ports[u(owner), u(j), NB] >= 0:
            place = place_of(stage, owner * width + j, keys[u(at), u(j)])
            count = np.int64(stage.coming[u(place)])
            if count != UNCOUNTED:
                stage.coming[u(place)] = np.uint8(count - 1)


@inlined
def joined(rows, width, p, s, key):
    """The first slot from ``s`` on in a chain of port p that has a key and is not rejected; −1: none."""
    while s >= 0 and rows.r16[u(s), u(12 * width + 19)] & FAILED:
        s = after(rows, width, p, s, key)
    return s


@inlined
def future_of(rows, width, stage, s, p):
    """What may become of a match of a row, which matches it at port p of its own (DEAD, COMPLETE, OPEN)."""
    owner = np.int64(rows.stream[u(s)])
    found = np.int64(COMPLETE)
    for j in range(width):
        other, q = rows.ports[u(owner), u(j), NB], rows.ports[u(owner), u(j), NBP]
        if other < 0 or j == p:
            continue
        key, port = rows.r64[u(s), u(j)], other * width + q
        if comes(stage, port, key):
            found = np.int64(OPEN)
        elif joined(rows, width, q, first(rows, width, port, q, key), key) < 0:
            return np.int64(DEAD)
        elif stage.ends[u(other)] == 0:
            found = np.int64(OPEN)
    return found


@inlined
def may_join(rows, width, stage, s, arrives):
    """Whether a row may be part of a result that an element to come completes. The first matches are known of one that
    ``arrives``."""
    owner = np.int64(rows.stream[u(s)])
    possible = False
    for j in range(width):
        other, p = rows.ports[u(owner), u(j), NB], rows.ports[u(owner), u(j), NBP]
        if other < 0:
            continue
        key, port = rows.r64[u(s), u(j)], other * width + p
        if comes(stage, port, key):
            possible = True
            continue
        node = np.int64(rows.stack[u(len(rows.stack) - width + j)]) if arrives else first(rows, width, port, p, key)
        node = joined(rows, width, p, node, key)
        there = False
        while node >= 0 and not (there and (possible or stage.ends[u(other)])):
            future = np.int64(COMPLETE) if stage.ends[u(other)] else future_of(rows, width, stage, node, p)
            there = there or future != DEAD
            possible = possible or future == OPEN
            node = joined(rows, width, p, after(rows, width, p, node, key), key)
        if not there:
            return False
    return possible


@inlined
def is_only_match(rows, width, stage, s, j):
    """Whether no other row of its input has a row's key at a port of its own, and none will come in this run."""
    port = np.int64(rows.stream[u(s)]) * width + j
    key = rows.r64[u(s), u(j)]
    if comes(stage, port, key):
        return False
    node = first(rows, width, port, j, key)
    return node == s and after(rows, width, j, node, key) < 0


@inlined
def stage_row(rows, width, stage, s):
    """Copy a row out; False if there is no room."""
    owner = np.int64(rows.stream[u(s)])
    at = stage.bounds[0, u(owner)]
    if at == stage.bounds[1, u(owner)]:
        return False
    stage.fields[0, u(at)], stage.fields[1, u(at)] = rows.r64[u(s), u(width)], rows.r64[u(s), u(width + 1)]
    stage.fields[2, u(at)] = rows.r16[u(s), u(12 * width + 18)]
    stage.fields[3, u(at)] = rows.r32[u(s), u(5 * width + 8)]
    for j in range(width):
        stage.keys[u(at), u(j)] = rows.r64[u(s), u(j)]
    stage.bounds[0, u(owner)] = at + 1
    return True


@inlined
def goes_at_once(rows, width, stage, s, arrives):
    """Stage a useless row that no result of the run needs; False if it has to stay for now."""
    return not may_join(rows, width, stage, s, arrives) and stage_row(rows, width, stage, s)


@inlined
def goes_at_end(rows, width, stage, s):
    """Mark a row that goes into the spill at the end of the run."""
    rows.r16[u(s), u(12 * width + 19)] |= VICTIM
    many = np.int64(stage.marked[0]) + 1
    if many < len(stage.marked):
        stage.marked[u(many)] = s
    stage.marked[0] = many


@inlined
def take_out_of_memory(rows, width, s):
    """Take a row out of its chains and its list, and free its slot; no parent is notified, for none waits for it."""
    look_again(rows, width, s)
    forget_matches(rows, width, s)
    unlink(rows, width, s)
    delist(rows, width, s)
    release(rows, width, s)


@kernel(f"void({I1}, {I2}, {I1}, {I1}, {I1}, {I3}, {B1}, {I2})", work=lambda *args: len(args[0]), borrows=True)
def count_coming(state, keys, begin, stop, clean, ports, coming, coming_of):
    """Count the elements that a run has to apply, by port and key; those of an input that is ``clean`` can all join."""
    width = ports.shape[1]
    for owner in range(len(begin)):
        for j in range(width):
            if ports[owner, j, NB] < 0:
                continue
            base, mask = coming_of[0, owner * width + j], coming_of[1, owner * width + j]
            for i in range(begin[owner], stop[owner]):
                if clean[owner] or state[i] == 0:
                    place = base + spread(keys[i, j], mask)
                    coming[place] = np.uint8(min(np.int64(UNCOUNTED), np.int64(coming[place]) + 1))


@kernel(f"int64(int64, {ROWS}, {STAGE})", borrows=True)
def stage_marked(
    begin, ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack, fields, keys, bounds,
    coming, coming_of, ends, marked,
):  # fmt: skip
    """Stage the rows that were marked, from one of them on, and take them out of memory; returns up to which, for there
    may be no room for all. Some are not useless any more, some have gone."""
    rows = Rows(ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack)
    stage = Stage(fields, keys, bounds, coming, coming_of, ends, marked)
    width = ports.shape[1]
    for i in range(begin, marked[0]):
        s = np.int64(marked[i + 1])
        if status[s] == FREE or r16[s, 12 * width + 19] & VICTIM == 0:
            continue
        if not stage_row(rows, width, stage, s):
            return np.int64(i)
        take_out_of_memory(rows, width, s)
    return np.int64(marked[0])
