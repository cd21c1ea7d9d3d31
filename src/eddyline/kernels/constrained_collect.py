"""Garbage collection of a constrained join: which rows constraints make useless (thesis 6.6.2, 6.7.2, 6.8.2, 6.8.6).

Three facts say that *no future row of a neighbour matches a row at a port*: the neighbour has received k more rows
since the row came (RIDS), its rows of that key have all come (CA, ``closed``), or its future keys are larger (OA,
``low``).

- A row without a match at such a port is NO, and so are the rows that need it (RIDS and OAC for a parent that waits for
  its child; OAP for a child that no parent references).
- A row is useless if it is NO and a root, or NO and nobody will ask for it.
- A YES row of the only root has been part of all its results (Theorem 6.3.5).
- A row is useless if no UNKNOWN row of any root matches it and no future one will (Theorem 6.7.1).

Where deletions can show, a row of a current result has to stay: then a row is useless only if it has no match at some
port, or is NO.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.constrained_join import I1, I3, SLOTS, after, first, push, settle, unlink
from eddyline.kernels.constrained_layout import (
    BY_MANY_ONE,
    BY_OAC,
    BY_OAP,
    BY_RIDS,
    DOWN,
    FREE,
    KEY,
    KINDS,
    LOWEST,
    NB,
    NBP,
    NEVER_USED,
    NO,
    QUEUED,
    SAMPLED,
    TWO_WAY,
    UNKNOWN,
    WAITING,
    WHY,
    YES,
)
from eddyline.kernels.hashing import mix

FORGOTTEN = -1  # the count of a key in CA-Aux whose entry is over


@inlined
def is_sampled(key, share):
    """Whether useless rows of a key are kept to the end of their windows, to see what others miss; ``share`` of 65,536.
    Rows of one key are sampled together: whoever they match is kept as well."""
    return (mix(np.int64(17), key) & np.int64(65535)) < share


@kernel(f"int64({I3}, {SLOTS}, {I1}, {I1}, {I1}, {I1})", work=lambda *args: len(args[2]))
def infer(ports, stream, status, slot, head, arrived, wait, low, stack):
    """Make rows NO that have no match at a port and will get none; returns how many were inferred directly.

    By port: ``wait`` rows of the neighbour are waited for (RIDS), ``low`` is a bound on its future keys (OA)."""
    width = ports.shape[1]
    many = np.int64(0)
    possible = np.zeros(ports.shape[0], np.int64)
    for at in range(len(wait)):
        if wait[at] < NEVER_USED or low[at] > LOWEST:
            possible[at // width] = 1
    for s in range(len(status)):
        owner = stream[s]
        if (status[s] != UNKNOWN and status[s] != YES) or possible[owner] == 0:
            continue
        top = np.int64(0)
        for j in range(width):
            other, p, at = ports[owner, j, NB], ports[owner, j, NBP], owner * width + j
            if other < 0 or slot[s, KEY + 2 * width + j] != 0 or (status[s] == YES and ports[owner, j, DOWN]):
                continue
            why = np.int64(0)
            if arrived[other] - slot[s, KEY + width + j] >= wait[at]:
                why = np.int64(BY_RIDS)
            elif slot[s, KEY + j] < low[at]:
                why = np.int64(BY_OAC) if ports[owner, j, DOWN] else np.int64(BY_OAP)
            if why != 0 and first(other, p, slot[s, KEY + j], width, stream, slot, head) < 0:
                slot[s, KEY + 2 * width + j] = why + KINDS * at
                many += 1
                top = push(s, top, stack, slot)
        settle(top, stack, ports, stream, status, slot, head)
    return many


@inlined
def no_more_parents(s, ports, stream, slot, low):
    """Why no future row of any parent matches a row; 0: one may, or there is no parent."""
    width = ports.shape[1]
    owner = stream[s]
    why = np.int64(0)
    for j in range(width):
        other, p = ports[owner, j, NB], ports[owner, j, NBP]
        if other < 0 or ports[other, p, DOWN] == 0:
            continue
        if slot[s, KEY + 3 * width + j] != 0:
            why = slot[s, KEY + 3 * width + j]
        elif slot[s, KEY + j] < low[owner * width + j]:
            why = BY_OAP + KINDS * (owner * width + j)
        else:
            return np.int64(0)
    return why


@inlined
def waited_for(s, ports, stream, status, slot, head):
    """Whether an UNKNOWN row of a parent matches a row."""
    width = ports.shape[1]
    for j in range(width):
        other, p = ports[stream[s], j, NB], ports[stream[s], j, NBP]
        if other < 0 or ports[other, p, DOWN] == 0:
            continue
        node = first(other, p, slot[s, KEY + j], width, stream, slot, head)
        while node >= 0:
            if status[node // width] == UNKNOWN:
                return True
            node = after(node, other, p, slot[s, KEY + j], width, stream, slot)
    return False


@inlined
def matches_everywhere(s, ports, stream, slot, head):
    """Whether a row has a match at every port, so that it may be part of a result."""
    width = ports.shape[1]
    for j in range(width):
        other, p = ports[stream[s], j, NB], ports[stream[s], j, NBP]
        if other >= 0 and first(other, p, slot[s, KEY + j], width, stream, slot, head) < 0:
            return False
    return True


@inlined
def useless(s, deletes, root, only_root, all_roots, drop_no, ports, stream, status, slot, head, low):
    """Why a row is useless, 0 if it is not."""
    width = ports.shape[1]
    owner = stream[s]
    if status[s] == NO:
        if root[owner] or drop_no[owner]:
            return slot[s, WHY]
        for j in range(width):
            if ports[owner, j, NB] >= 0 and ports[owner, j, DOWN] == 0 and slot[s, KEY + 2 * width + j] != 0:
                return slot[s, WHY]
        return no_more_parents(s, ports, stream, slot, low)
    if status[s] == YES and only_root[owner]:
        return np.int64(0) if deletes else np.int64(BY_MANY_ONE)
    if all_roots[owner]:
        why = no_more_parents(s, ports, stream, slot, low)
        if why == 0 or waited_for(s, ports, stream, status, slot, head):
            return np.int64(0)
        if not deletes or not matches_everywhere(s, ports, stream, slot, head):
            return why
    return np.int64(0)


@kernel(
    f"int64(boolean, int64, {I1}, {I1}, {I1}, {I1}, {I3}, {SLOTS}, {I1}, {I1}, {I1})",
    work=lambda *args: len(args[8]),
)
def collect(
    deletes, share, root, only_root, all_roots, drop_no, ports, stream, status, slot, head, low, stack, victims
):  # fmt: skip
    """Take useless rows out of their chains: their slots are put into ``victims``, why into the slots. ``share`` of
    65,536 stay, as sampled ones.

    By input: ``root``; ``only_root``: the one root of a graph all of whose edges are many-one; ``all_roots``: such a
    graph's roots are all parents of the input; ``drop_no``: parents learn from RIDS or OAC what NO rows would tell."""
    width = ports.shape[1]
    many = np.int64(0)
    for s in range(len(status)):
        if status[s] == FREE or status[s] == WAITING:
            continue
        if status[s] != NO and not all_roots[stream[s]] and (status[s] != YES or deletes or not only_root[stream[s]]):
            continue  # without a look at the row itself: most are of this kind
        if slot[s, QUEUED] or slot[s, SAMPLED]:
            continue
        why = useless(s, deletes, root, only_root, all_roots, drop_no, ports, stream, status, slot, head, low)
        if why == 0:
            continue
        slot[s, WHY], slot[s, QUEUED] = why, 1
        top = np.int64(1)
        stack[0] = s
        while top > 0:
            top -= 1
            x = stack[top]
            if is_sampled(slot[x, KEY], share):
                slot[x, SAMPLED], slot[x, QUEUED] = 1, 0
            else:
                victims[many] = x
                many += 1
            if deletes or status[x] == NO:
                continue
            # Rows that are only part of results which are complete go with the row that completes them: the parents of
            # a row that no future row needs, and the one-one partners of a root's row that has its results.
            for j in range(width):
                other, p = ports[stream[x], j, NB], ports[stream[x], j, NBP]
                if other < 0:
                    continue
                upwards = ports[other, p, DOWN] != 0 and why != BY_MANY_ONE
                across = ports[stream[x], j, DOWN] != 0 and why == BY_MANY_ONE and ports[stream[x], j, TWO_WAY] != 0
                if not upwards and not across:
                    continue
                node = first(other, p, slot[x, KEY + j], width, stream, slot, head)
                while node >= 0:
                    y = node // width
                    if slot[y, QUEUED] == 0 and slot[y, SAMPLED] == 0 and status[y] == YES:
                        slot[y, WHY], slot[y, QUEUED] = why, 1
                        stack[top] = y
                        top += 1
                    node = after(node, other, p, slot[x, KEY + j], width, stream, slot)
    for i in range(many):
        unlink(victims[i], ports, stream, slot, head)
        status[victims[i]] = FREE
        slot[victims[i], QUEUED] = 0
    return many


@kernel(f"void({I1}, int64, int64, int64, {I3}, {SLOTS}, {I1})")
def close_keys(keys, child, p, why, ports, stream, status, slot, head, kept):
    """Mark the rows of an input whose key at port p has no future match: CA says that all of it have come. ``kept`` is
    1 for a key that an UNKNOWN row of the neighbour still has, which must wait (Condition C2)."""
    width = ports.shape[1]
    other, q = ports[child, p, NB], ports[child, p, NBP]
    for i in range(len(keys)):
        kept[i] = 0
        node = first(other, q, keys[i], width, stream, slot, head)
        while node >= 0 and kept[i] == 0:
            if status[node // width] == UNKNOWN:
                kept[i] = 1
            node = after(node, other, q, keys[i], width, stream, slot)
        if kept[i]:
            continue
        node = first(child, p, keys[i], width, stream, slot, head)
        while node >= 0:
            slot[node // width, KEY + 3 * width + p] = why
            node = after(node, child, p, keys[i], width, stream, slot)


@kernel(f"int64({I1}, int64, {I1}, {I1}, {I1}, {I1})")
def clustering(keys, count, table, first_count, used, distances):
    """CA-Aux (6.7.2): for each arriving key its clustering distance so far. ``table`` is an open hash table of keys,
    ``first_count`` has C_v = the count of arrivals less those of other keys since the first of the key, ``used`` says
    which places are taken, also by forgotten keys. Returns how many places were taken."""
    mask = len(table) - 1
    new = np.int64(0)
    for i in range(len(keys)):
        count += 1
        at = mix(np.int64(3), keys[i]) & mask
        while used[at] and table[at] != keys[i]:
            at = (at + 1) & mask
        if used[at] and first_count[at] != FORGOTTEN:
            first_count[at] += 1
            distances[i] = count - first_count[at]
        else:
            new += used[at] == 0
            used[at], table[at], first_count[at] = 1, keys[i], count
            distances[i] = 0
    return new
