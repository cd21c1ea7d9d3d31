"""The execution of a constrained join (thesis 6.3): results of arriving rows, and the status of every row.

*Results.* A row that arrives is taken through the tree of the join and meets all rows in memory, whatever their
status; so does a row that leaves, where deletions can show. Nothing here depends on what was inferred: an inference
decides what stays in memory, never what joins.

*Status* (Figures 6.4 to 6.7, with an explicit stack). A row is NO if a filter rejects it, if all its matches at a child
are NO, or if it has no match at a port and none will come; otherwise UNKNOWN if it has no YES match at some child;
otherwise YES. A row whose status changes has its parents looked at again.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.constrained_layout import (
    ARRIVE,
    ASKED,
    BITS_PER_KEY,
    BLOCK,
    BY_EXPIRY,
    BY_FILTER,
    COUNT,
    DONE,
    DOWN,
    EVENT,
    FAILED,
    FETCH,
    FOUND,
    FREE,
    FULL,
    KEY,
    KINDS,
    MEASURED,
    NB,
    NBP,
    NO,
    QUEUED,
    SAMPLED,
    UNKNOWN,
    WHY,
    YES,
)
from eddyline.kernels.hashing import mix

I1, I2, I3, B1 = "int64[::1]", "int64[:, ::1]", "int64[:, :, ::1]", "uint8[::1]"
TREE = f"{I3}, {I3}"  # ports, order
SLOTS = f"{I1}, {I1}, {I2}, {I1}"  # stream, status, slot, head


@inlined
def matching(node, owner, p, key, width, stream, slot):
    """The first node from ``node`` on in its chain that is port p of a row of ``owner`` with a key; −1: none."""
    while node >= 0:
        s = node // width
        if node - s * width == p and stream[s] == owner and slot[s, KEY + p] == key:
            return node
        node = slot[s, KEY + 4 * width + node - s * width]
    return np.int64(-1)


@inlined
def first(owner, p, key, width, stream, slot, head):
    """The first node of a key at port p of ``owner``; −1: none."""
    return matching(head[mix(owner * width + p, key) & (len(head) - 1)], owner, p, key, width, stream, slot)


@inlined
def after(node, owner, p, key, width, stream, slot):
    """The next node of the same key."""
    s = node // width
    return matching(slot[s, KEY + 4 * width + p], owner, p, key, width, stream, slot)


@inlined
def link(s, ports, stream, slot, head):
    """Put a row in front of the chains of its keys."""
    width = ports.shape[1]
    owner = stream[s]
    for j in range(width):
        if ports[owner, j, NB] < 0:
            continue
        bucket = mix(owner * width + j, slot[s, KEY + j]) & (len(head) - 1)
        old = head[bucket]
        slot[s, KEY + 4 * width + j] = old
        slot[s, KEY + 5 * width + j] = -1 - bucket
        if old >= 0:
            slot[old // width, KEY + 5 * width + old % width] = s * width + j
        head[bucket] = s * width + j


@inlined
def unlink(s, ports, stream, slot, head):
    """Take a row out of its chains."""
    width = ports.shape[1]
    for j in range(width):
        if ports[stream[s], j, NB] < 0:
            continue
        following, before = slot[s, KEY + 4 * width + j], slot[s, KEY + 5 * width + j]
        if before < 0:
            head[-1 - before] = following
        else:
            slot[before // width, KEY + 4 * width + before % width] = following
        if following >= 0:
            slot[following // width, KEY + 5 * width + following % width] = before


@inlined
def evaluate(s, ports, stream, status, slot, head):
    """The status of a row by Theorems 6.3.1 and 6.3.2; a NO row is told why."""
    if slot[s, FAILED]:
        slot[s, WHY] = BY_FILTER
        return np.int64(NO)
    width = ports.shape[1]
    owner = stream[s]
    found = np.int64(YES)
    for j in range(width):
        other, p = ports[owner, j, NB], ports[owner, j, NBP]
        if other < 0 or (ports[owner, j, DOWN] == 0 and slot[s, KEY + 2 * width + j] == 0):
            continue
        best, why = np.int64(FREE), np.int64(0)
        node = first(other, p, slot[s, KEY + j], width, stream, slot, head)
        while node >= 0 and best != YES:
            here = status[node // width]
            if here == NO:
                why = slot[node // width, WHY]
            if here == YES or best == FREE or (here == UNKNOWN and best == NO):
                best = here
            node = after(node, other, p, slot[s, KEY + j], width, stream, slot)
        if best == FREE and slot[s, KEY + 2 * width + j] != 0:
            slot[s, WHY] = slot[s, KEY + 2 * width + j]
            return np.int64(NO)
        if ports[owner, j, DOWN]:
            if best == NO:
                slot[s, WHY] = why
                return np.int64(NO)
            if best != YES:
                found = np.int64(UNKNOWN)
    return found


@inlined
def push(s, top, stack, slot):
    """Have a row looked at, once."""
    if slot[s, QUEUED]:
        return top
    slot[s, QUEUED] = 1
    stack[top] = s
    return top + 1


@inlined
def settle(top, stack, ports, stream, status, slot, head):
    """Look at the rows on the stack, and at the parents of those whose status changes."""
    width = ports.shape[1]
    while top > 0:
        top -= 1
        s = stack[top]
        slot[s, QUEUED] = 0
        new = evaluate(s, ports, stream, status, slot, head)
        if new == status[s]:
            continue
        status[s] = new
        for j in range(width):
            other, p = ports[stream[s], j, NB], ports[stream[s], j, NBP]
            if other >= 0 and ports[other, p, DOWN]:
                node = first(other, p, slot[s, KEY + j], width, stream, slot, head)
                while node >= 0:
                    top = push(node // width, top, stack, slot)
                    node = after(node, other, p, slot[s, KEY + j], width, stream, slot)


@inlined
def maybe_spilled(port, key, filters, bits):
    """Whether a Bloom filter of a port, of either generation, has a key."""
    for g in range(2):
        if filters[g, port, 1] < 0:
            continue
        h = mix(np.int64(0), key)
        base = filters[g, port, 0] + (h & filters[g, port, 1]) * BLOCK
        there = True
        for i in range(BITS_PER_KEY):
            bit = (h >> np.int64(9 + 9 * i + 1)) & np.int64(511)
            there = there and (bits[base + (bit >> 3)] >> (bit & 7)) & 1 == 1
        if there:
            return True
    return False


@kernel(f"void({I1}, {B1}, int64, int64)")
def add_to_filter(keys, bits, base, mask):
    """Put keys into a Bloom filter of ``mask`` + 1 blocks that begins at ``base``."""
    for key in keys:
        h = mix(np.int64(0), key)
        block = base + (h & mask) * BLOCK
        for i in range(BITS_PER_KEY):
            bit = (h >> np.int64(9 + 9 * i + 1)) & np.int64(511)
            bits[block + (bit >> 3)] |= 1 << (bit & 7)


@kernel(f"void({I1}, int64, {I3}, {B1}, {I1})")
def filter_keys(keys, port, filters, bits, there):
    """Which keys the spill may have at a port."""
    for i in range(len(keys)):
        there[i] = maybe_spilled(port, keys[i], filters, bits)


@kernel(f"void({I2}, int64, {I3}, {I1}, {I2}, {I1}, {I3}, {B1}, {I2})")
def may_complete(keys, port, ports, stream, slot, head, filters, bits, worth):
    """Whether rows that are not in memory, with these keys by port, have a match at every port but one: in ``worth``
    1 for each port at which they have. It may be 1 before."""
    width = ports.shape[1]
    owner, came = port // width, port % width
    for i in range(len(keys)):
        for j in range(width):
            other, p = ports[owner, j, NB], ports[owner, j, NBP]
            if other < 0 or j == came or worth[i, j]:
                worth[i, j] = 1
                continue
            node = first(other, p, keys[i, j], width, stream, slot, head)
            while node >= 0 and slot[node // width, FAILED]:
                node = after(node, other, p, keys[i, j], width, stream, slot)
            worth[i, j] = node >= 0 or maybe_spilled(other * width + p, keys[i, j], filters, bits)


@inlined
def arrive(s, stack, ports, stream, status, slot, head, arrived, duplicates, progress, distances):
    """Count and measure an arrival, put the row into its chains and settle who depends on it."""
    width = ports.shape[1]
    owner = stream[s]
    arrived[owner] += 1
    for j in range(width):
        other, p = ports[owner, j, NB], ports[owner, j, NBP]
        if other < 0:
            continue
        key = slot[s, KEY + j]
        again = first(owner, j, key, width, stream, slot, head) >= 0
        duplicates[owner * width + j] += again
        farthest = np.int64(0)
        node = np.int64(-1)
        if not again:
            node = first(other, p, key, width, stream, slot, head)
        while node >= 0:
            farthest = max(farthest, arrived[owner] - slot[node // width, KEY + width + p])
            node = after(node, other, p, key, width, stream, slot)
        if farthest > 0:
            at = progress[MEASURED]
            distances[at, 0], distances[at, 1], distances[at, 2] = other * width + p, arrived[owner], farthest
            progress[MEASURED] += 1
        slot[s, KEY + width + j] = arrived[other]
    link(s, ports, stream, slot, head)
    settle(push(s, np.int64(0), stack, slot), stack, ports, stream, status, slot, head)


@inlined
def leave(s, stack, ports, stream, status, slot, head):
    """Take a row out; parents that have no other match will get none (6.3.2)."""
    width = ports.shape[1]
    owner = stream[s]
    unlink(s, ports, stream, slot, head)
    status[s] = FREE
    top = np.int64(0)
    for j in range(width):
        other, p = ports[owner, j, NB], ports[owner, j, NBP]
        if other < 0 or ports[other, p, DOWN] == 0:
            continue
        key = slot[s, KEY + j]
        if first(owner, j, key, width, stream, slot, head) >= 0:
            continue
        node = first(other, p, key, width, stream, slot, head)
        while node >= 0:
            slot[node // width, KEY + 2 * width + p] = BY_EXPIRY + KINDS * (other * width + p)
            top = push(node // width, top, stack, slot)
            node = after(node, other, p, key, width, stream, slot)
    settle(top, stack, ports, stream, status, slot, head)


@kernel(
    f"int64({I2}, boolean, int64, {TREE}, {SLOTS}, {I1}, {I1}, {I1}, {I1}, {I3}, {B1}, {I2}, int64, {I2}, {I2}, {I1},"
    f" {I1}, {I1}, {I1}, {I2})",
    work=lambda *args: args[0].shape[1],
)
def run(
    events, deletes, exact, ports, order, stream, status, slot, head, number, arrived, duplicates, stack, filters, bits,
    checked, checks, asked, distances, progress, out_time, out_weight, out_sampled, out_rows,
):  # fmt: skip
    """Apply events (kind, input, slot, time) from ``progress[EVENT]`` on. An event whose results find no room, or that
    may match spilled rows which were not yet looked for, is undone before it changes anything, and comes again.
    ``exact`` is 0 where nothing is spilled, 2 where rows that match an arriving row itself were looked for already.
    ``out_sampled`` is a hash of the key of a result that a sampled row is part of, 0 for all others."""
    many, width = ports.shape[0], ports.shape[1]
    bound, cursor = np.empty(many, np.int64), np.empty(many, np.int64)
    room = len(out_time)
    while progress[EVENT] < events.shape[1]:
        kind, owner, s, time = (
            events[0, progress[EVENT]], events[1, progress[EVENT]], events[2, progress[EVENT]],
            events[3, progress[EVENT]],
        )  # fmt: skip
        if kind == COUNT:
            arrived[owner] += 1
            progress[EVENT] += 1
            continue
        found = progress[FOUND]
        if slot[s, FAILED] == 0 and (kind == ARRIVE or deletes):
            bound[owner] = s
            depth = 0
            cursor[0] = -2
            while depth >= 0:
                target, p, source, q = (
                    order[owner, depth, 0], order[owner, depth, 1], order[owner, depth, 2], order[owner, depth, 3],
                )  # fmt: skip
                key = slot[bound[source], KEY + q]
                if cursor[depth] == -2:
                    looks = kind == ARRIVE and (exact == 1 or (exact == 2 and source != owner))
                    if looks and maybe_spilled(target * width + p, key, filters, bits):
                        new = True
                        for i in range(checks):
                            new = new and not (checked[i, 0] == target * width + p and checked[i, 1] == key)
                        for i in range(progress[ASKED]):
                            new = new and not (asked[i, 0] == target * width + p and asked[i, 1] == key)
                        if new and progress[ASKED] < len(asked):
                            asked[progress[ASKED], 0], asked[progress[ASKED], 1] = target * width + p, key
                            progress[ASKED] += 1
                    node = first(target, p, key, width, stream, slot, head)
                else:
                    node = after(cursor[depth], target, p, key, width, stream, slot)
                while node >= 0 and slot[node // width, FAILED]:
                    node = after(node, target, p, key, width, stream, slot)
                cursor[depth] = node
                if node < 0:
                    depth -= 1
                    continue
                bound[target] = node // width
                if depth < many - 2:
                    depth += 1
                    cursor[depth] = -2
                    continue
                if progress[FOUND] == room:
                    progress[FOUND], progress[ASKED] = found, 0
                    return np.int64(FULL)
                out_time[progress[FOUND]], out_weight[progress[FOUND]] = time, kind
                out_sampled[progress[FOUND]] = 0
                for i in range(many):
                    out_rows[i, progress[FOUND]] = number[bound[i]]
                    if slot[bound[i], SAMPLED]:
                        out_sampled[progress[FOUND]] = mix(np.int64(17), slot[bound[i], KEY]) | 1
                progress[FOUND] += 1
            if progress[ASKED]:
                progress[FOUND] = found
                return np.int64(FETCH)
        if kind == ARRIVE:
            arrive(s, stack, ports, stream, status, slot, head, arrived, duplicates, progress, distances)
        else:
            leave(s, stack, ports, stream, status, slot, head)
        progress[EVENT] += 1
    return np.int64(DONE)


@kernel(f"void({I1}, {I3}, {SLOTS}, {I1}, {I1})")
def put_back(slots, ports, stream, status, slot, head, arrived, stack):
    """Put rows that were spilled into their chains again, and settle who depends on them. A row waits anew."""
    width = ports.shape[1]
    for s in slots:
        for j in range(width):
            if ports[stream[s], j, NB] >= 0:
                slot[s, KEY + width + j] = arrived[ports[stream[s], j, NB]]
        link(s, ports, stream, slot, head)
    for s in slots:
        settle(push(s, np.int64(0), stack, slot), stack, ports, stream, status, slot, head)


@kernel(f"void({I1}, {I3}, {SLOTS}, {I1})")
def link_all(slots, ports, stream, status, slot, head, stack):
    """Put rows into empty chains, and compute the status of each anew."""
    head[:] = -1
    for s in slots:
        link(s, ports, stream, slot, head)
    for s in slots:
        settle(push(s, np.int64(0), stack, slot), stack, ports, stream, status, slot, head)


@kernel(f"void({I1}, {I3}, {SLOTS})")
def unlink_all(slots, ports, stream, status, slot, head):
    """Take rows out of their chains and free their slots; nobody is told, for nobody waits for them."""
    for s in slots:
        unlink(s, ports, stream, slot, head)
        status[s] = FREE
        slot[s, QUEUED] = 0
