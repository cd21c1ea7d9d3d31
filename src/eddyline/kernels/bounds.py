"""Partners by one comparison: left rows for which some right row of their group is less, greater or different.

*Invariant.* Whether a left row with key x has a partner depends on the least and the greatest right key of its group
alone, its *bounds*: ``x < r`` for some r iff x < greatest; ``x > r`` iff x > least; ``x <> r`` iff x is not both. So
when the bounds of a group move, the rows whose answer changes are those with a key between the old bound and the new
one: each is a change of the result, and no other row is visited (except those with keys at the two bounds themselves).

Right keys are a multiset for each group (``kernels.ordered``), because they may leave; where nothing ever leaves, the
bounds are all that is kept. Left keys are a tree for each group, with a doubly linked chain of slots at each key.
Everything is judged at the end of an instant: bounds may go and come back within one.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.bags import ANTI, MARK, SEMI
from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.ordered import COUNT, GREATEST, KEY, LEFT, RIGHT, TREE_STRIDE, tree_change

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, DIFFERENT = 0, 1, 2, 3, 4
LEAST = -GREATEST - 1
NO_SLOT = -1

# columns of ``bounds``
ANY, LOW, HIGH = 0, 1, 2

_I1, _I2 = "int64[::1]", "int64[:, ::1]"


@inlined
def holds(op, key, any_, low, high):
    """Whether a left row with this key has a partner in a group with these bounds."""
    if any_ == 0:
        return False
    if op == LESS:
        return key < high
    if op == LESS_EQUAL:
        return key <= high
    if op == GREATER:
        return key > low
    if op == GREATER_EQUAL:
        return key >= low
    return key != low or key != high


@kernel("int64(int64[::1], int64, int64)")
def tree_from(pool, root, key):
    """The node with the least key that is not below ``key``; 0 for none."""
    node, found = root, 0
    while node != 0:
        if pool[node * TREE_STRIDE + KEY] >= key:
            found = node
            node = pool[node * TREE_STRIDE + LEFT]
        else:
            node = pool[node * TREE_STRIDE + RIGHT]
    return found


@kernel("void(int64[::1], int64, int64[:, ::1], int64)")
def read_bounds(pool, root, bounds, g):
    bounds[g, ANY] = 1 if root != 0 else 0
    if root != 0:
        node = root
        while pool[node * TREE_STRIDE + LEFT] != 0:
            node = pool[node * TREE_STRIDE + LEFT]
        bounds[g, LOW] = pool[node * TREE_STRIDE + KEY]
        node = root
        while pool[node * TREE_STRIDE + RIGHT] != 0:
            node = pool[node * TREE_STRIDE + RIGHT]
        bounds[g, HIGH] = pool[node * TREE_STRIDE + KEY]


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], int64, int64, int64)")
def chain(pool, roots, control, heads, links, g, key, slot):
    """Put a slot into the tree of its group."""
    tree_change(pool, roots, control, g, key, 1)
    node = tree_from(pool, roots[g], key)
    after = heads[node] if pool[node * TREE_STRIDE + COUNT] > 1 else NO_SLOT
    links[slot, 0], links[slot, 1] = NO_SLOT, after
    if after != NO_SLOT:
        links[after, 0] = slot
    heads[node] = slot


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], int64, int64, int64)")
def unchain(pool, roots, control, heads, links, g, key, slot):
    """Take a slot out of the tree of its group."""
    before, after = links[slot, 0], links[slot, 1]
    if after != NO_SLOT:
        links[after, 0] = before
    if before != NO_SLOT:
        links[before, 1] = after
    else:
        heads[tree_from(pool, roots[g], key)] = after
    tree_change(pool, roots, control, g, key, -1)


@kernel("int64[:, ::1](int64[:, ::1], int64, int64, int64, int64, int64, int64)")
def emit(out, found, kind, time, slot, weight, now):
    """Write what it means that ``weight`` rows of a slot have a partner from now on (``now`` 1), or none (0); the rows
    are in ``out`` from ``found`` on, and there is room for as many again."""
    if found + 2 > len(out):
        more = np.empty((2 * len(out) + 2, 4), np.int64)
        more[: len(out)] = out
        out = more
    if kind == MARK:
        out[found, 0], out[found, 1], out[found, 2], out[found, 3] = time, slot, -weight, 1 - now
        out[found + 1, 0], out[found + 1, 1], out[found + 1, 2], out[found + 1, 3] = time, slot, weight, now
    else:
        out[found, 0], out[found, 1] = time, slot
        out[found, 2], out[found, 3] = weight if (kind == SEMI) == (now == 1) else -weight, now
    return out


@kernel(
    f"int64[:, ::1](int64, int64, boolean, boolean, {_I2}, {_I1}, {_I2}, {_I1}, {_I2}, {_I2}, {_I1}, {_I1}, {_I1}, "
    f"{_I1}, {_I1}, {_I1}, {_I1}, {_I2}, {_I2})"
)
def match_bounds(
    kind, op, forever, forget, events, present, rows, was_present, bounds, was_bounds, right_pool, right_roots,
    right_control, left_pool, left_roots, left_control, heads, links, stamps,
):  # fmt: skip
    """The changes of a semijoin, antijoin or mark join: rows of (time, slot, weight, mark).

    ``events`` are (time, side, slot, group, key, weight) in order of time; group −1 has no partners (a NULL).
    ``rows[slot]`` is (group, key). With ``forever`` no right row ever leaves; with ``forget`` left rows are judged once
    and not kept. ``stamps`` holds, for groups and for slots, the instant that last touched them, −1 in between.
    """
    n = len(events)
    out = np.empty((max(16, n), 4), np.int64)
    found = 0
    slots, groups = np.empty(n, np.int64), np.empty(n, np.int64)
    i = 0
    while i < n:
        time, j, count, touched = events[i, 0], i, 0, 0
        while j < n and events[j, 0] == time:
            side, slot, g, key, weight = events[j, 1], events[j, 2], events[j, 3], events[j, 4], events[j, 5]
            if g >= 0 and stamps[g, 0] != i:
                stamps[g, 0] = i
                for b in range(3):
                    was_bounds[g, b] = bounds[g, b]
                groups[touched] = g
                touched += 1
            if side == 0:
                if stamps[slot, 1] != i:
                    stamps[slot, 1] = i
                    was_present[slot] = present[slot]
                    rows[slot, 0], rows[slot, 1] = g, key
                    slots[count] = slot
                    count += 1
                present[slot] += weight
            elif g >= 0:
                if forever:
                    bounds[g, LOW] = key if bounds[g, ANY] == 0 else min(key, bounds[g, LOW])
                    bounds[g, HIGH] = key if bounds[g, ANY] == 0 else max(key, bounds[g, HIGH])
                    bounds[g, ANY] = 1
                else:
                    tree_change(right_pool, right_roots, right_control, g, key, weight)
            j += 1
        for q in range(touched):
            g = groups[q]
            if not forever:
                read_bounds(right_pool, right_roots[g], bounds, g)
            any_, low, high = bounds[g, ANY], bounds[g, LOW], bounds[g, HIGH]
            was_any, was_low, was_high = was_bounds[g, ANY], was_bounds[g, LOW], was_bounds[g, HIGH]
            if any_ == was_any and (any_ == 0 or (low == was_low and high == was_high)):
                continue
            for part in range(2):
                begin, end = LEAST, GREATEST
                if op <= LESS_EQUAL:
                    end = max(high, was_high) if any_ != 0 and was_any != 0 else high if any_ != 0 else was_high
                    begin = min(high, was_high) if any_ != 0 and was_any != 0 else begin
                elif op <= GREATER_EQUAL:
                    begin = min(low, was_low) if any_ != 0 and was_any != 0 else low if any_ != 0 else was_low
                    end = max(low, was_low) if any_ != 0 and was_any != 0 else end
                elif any_ != 0 and was_any != 0:
                    # Only what is the one value of a group is without a partner.
                    a, b = (low, high) if part == 0 else (was_low, was_high)
                    if a != b or (part == 1 and low == high and low == a):
                        continue
                    begin, end = a, a
                if part == 1 and (op != DIFFERENT or any_ == 0 or was_any == 0):
                    continue
                node = tree_from(left_pool, left_roots[g], begin)
                while node != 0:
                    key = left_pool[node * TREE_STRIDE + KEY]
                    if key > end:
                        break
                    found_now = holds(op, key, any_, low, high)
                    if found_now != holds(op, key, was_any, was_low, was_high):
                        slot = heads[node]
                        while slot != NO_SLOT:
                            if stamps[slot, 1] != i:
                                out = emit(out, found, kind, time, slot, present[slot], 1 if found_now else 0)
                                found += 2 if kind == MARK else 1
                            slot = links[slot, 1]
                    if key == GREATEST:
                        break
                    node = tree_from(left_pool, left_roots[g], key + 1)
        for q in range(count):
            slot = slots[q]
            stamps[slot, 1] = -1
            g, key = rows[slot, 0], rows[slot, 1]
            now = was = 0
            if g >= 0:
                now = 1 if holds(op, key, bounds[g, ANY], bounds[g, LOW], bounds[g, HIGH]) else 0
                was = 1 if holds(op, key, was_bounds[g, ANY], was_bounds[g, LOW], was_bounds[g, HIGH]) else 0
            for mark in range(2):
                if (kind == SEMI and mark == 0) or (kind == ANTI and mark == 1):
                    continue
                change = (present[slot] if now == mark else 0) - (was_present[slot] if was == mark else 0)
                if change != 0:
                    out = emit(out, found, SEMI, time, slot, change, 1)
                    out[found, 3] = mark
                    found += 1
            if forget:
                present[slot] = 0
            elif g >= 0 and (was_present[slot] > 0) != (present[slot] > 0):
                if present[slot] > 0:
                    chain(left_pool, left_roots, left_control, heads, links, g, key, slot)
                else:
                    unchain(left_pool, left_roots, left_control, heads, links, g, key, slot)
        for q in range(touched):
            stamps[groups[q], 0] = -1
        i = j
    return out[:found]
