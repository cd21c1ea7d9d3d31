"""The multiway windowed join (MJoin, thesis 5.1) over signed elements, as one kernel that takes the plan as data.

The invariant: elements are applied one after another in time order (at one instant: expiries first, then arrivals,
lower input first), and each is joined with the *current* contents of the other inputs before it changes its own. So
the output, added up to any instant, is the join of the inputs at that instant.

Inputs are of two kinds. RING: rows enter in row-number order and leave in the same order, each with a known leave time
(time-based windows, constant and append-only relations); row number = position, expired rows are those below
``first``. BAG: distinct rows in slots with a weight (everything else); a deletion names its slot.

Indexes: each is a chained hash table on some join columns of one input (on none: the chain of all rows, for products).
A record of an index is (next, [previous,] codes of its columns), so that following a chain touches one place. The
chain of a ring is in descending row order: the walk ends at the first expired row. Chains of bags are doubly linked.

A pipeline is, for each input, a sequence of steps; a step probes one index with codes taken from rows already bound.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import mix

RING, BAG = 0, 1
NO_DELETIONS, AT_ARRIVALS, ALL_DELETIONS = 0, 1, 2

# columns of ``inputs`` (one row an input)
KIND, POS_OFF, POS_MASK, CODE_OFF, CODE_WIDTH, EV_OFF, EV_LEN, EV_CODE_OFF, DELETES, INDEX_FROM, INDEX_TO = range(11)
INPUT_FIELDS = 11
# columns of ``indexes`` (one row an index)
IX_INPUT, IX_HEAD_OFF, IX_HEAD_MASK, IX_REC_OFF, IX_REC_WIDTH, IX_COLS, IX_COL_OFF = range(7)
INDEX_FIELDS = 7
# columns of ``steps`` (one row a step; the pipeline of input s has rows s·(m−1) … (s+1)·(m−1)−1)
ST_TARGET, ST_INDEX, ST_PROBE_OFF = range(3)
STEP_FIELDS = 3
# status of a call
DONE, FULL = 0, 1
NEVER = np.int64((1 << 63) - 1)

_I1 = "int64[::1]"
_I2 = "int64[:, ::1]"


@kernel(
    f"int64(int64, int64, int64, int64, {_I2}, {_I2}, {_I2}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1},"
    f" {_I1}, {_I1}, {_I1}, int64, {_I1}, {_I1}, {_I2})"
)
def extend(
    s, pos, time, sign, inputs, indexes, steps, probes, heads, records, codes, weight, rownum, first, bound,
    cursor, factor, counters, found, out_time, out_weight, out_rows,
):  # fmt: skip
    """Join one element of input ``s`` (its codes are at ``pos``) with all others; returns the new number of results.

    −1 when they do not fit: nothing has been changed, the caller comes back with more room.
    """
    m = inputs.shape[0]
    last = m - 2
    room = len(out_time)
    bound[s] = pos
    depth = 0
    fresh = True
    factor[0] = sign
    while depth >= 0:
        row = s * (m - 1) + depth
        target = steps[row, ST_TARGET]
        x = steps[row, ST_INDEX]
        width = indexes[x, IX_REC_WIDTH]
        rec_off = indexes[x, IX_REC_OFF]
        ncols = indexes[x, IX_COLS]
        probe = steps[row, ST_PROBE_OFF]
        mask = inputs[target, POS_MASK]
        if fresh:
            h = np.int64(0)
            for c in range(ncols):
                b = probes[probe + 2 * c]
                place = inputs[b, CODE_OFF] + (bound[b] & inputs[b, POS_MASK]) * inputs[b, CODE_WIDTH]
                h = mix(h, codes[place + probes[probe + 2 * c + 1]])
            p = heads[indexes[x, IX_HEAD_OFF] + (h & indexes[x, IX_HEAD_MASK])]
            counters[0] += 1
        else:
            p = records[rec_off + (cursor[depth] & mask) * width]
        low = first[target]
        key_at = width - ncols
        while p >= low:
            at = rec_off + (p & mask) * width
            same = True
            for c in range(ncols):
                b = probes[probe + 2 * c]
                place = inputs[b, CODE_OFF] + (bound[b] & inputs[b, POS_MASK]) * inputs[b, CODE_WIDTH]
                if records[at + key_at + c] != codes[place + probes[probe + 2 * c + 1]]:
                    same = False
                    break
            if same:
                break
            p = records[at]
        if p < low:
            depth -= 1
            fresh = False
            continue
        cursor[depth] = p
        bound[target] = p
        if inputs[target, KIND] == BAG:
            factor[depth + 1] = factor[depth] * weight[inputs[target, POS_OFF] + (p & mask)]
        else:
            factor[depth + 1] = factor[depth]
        if depth < last:
            depth += 1
            fresh = True
            continue
        if found >= room:
            return np.int64(-1)
        out_time[found] = time
        out_weight[found] = factor[depth + 1]
        for i in range(m):
            if inputs[i, KIND] == BAG:
                out_rows[i, found] = rownum[inputs[i, POS_OFF] + (bound[i] & inputs[i, POS_MASK])]
            else:
                out_rows[i, found] = bound[i]
        found += 1
        fresh = False
    return found


@kernel(f"void(int64, int64, {_I2}, {_I2}, {_I1}, {_I1}, {_I1}, {_I1})")
def link(s, pos, inputs, indexes, index_columns, heads, records, codes):
    """Put a row into all indexes of its input."""
    mask = inputs[s, POS_MASK]
    place = inputs[s, CODE_OFF] + (pos & mask) * inputs[s, CODE_WIDTH]
    bag = inputs[s, KIND] == BAG
    for x in range(inputs[s, INDEX_FROM], inputs[s, INDEX_TO]):
        width = indexes[x, IX_REC_WIDTH]
        ncols = indexes[x, IX_COLS]
        rec_off = indexes[x, IX_REC_OFF]
        at = rec_off + (pos & mask) * width
        h = np.int64(0)
        for c in range(ncols):
            code = codes[place + index_columns[indexes[x, IX_COL_OFF] + c]]
            records[at + width - ncols + c] = code
            h = mix(h, code)
        head = indexes[x, IX_HEAD_OFF] + (h & indexes[x, IX_HEAD_MASK])
        old = heads[head]
        records[at] = old
        if bag:
            records[at + 1] = -1 - head  # no predecessor: the head itself
            if old >= 0:
                records[rec_off + (old & mask) * width + 1] = pos
        heads[head] = pos


@kernel(f"void(int64, int64, {_I2}, {_I2}, {_I1}, {_I1})")
def unlink(s, pos, inputs, indexes, heads, records):
    """Take a bag's row out of all its indexes."""
    mask = inputs[s, POS_MASK]
    for x in range(inputs[s, INDEX_FROM], inputs[s, INDEX_TO]):
        width = indexes[x, IX_REC_WIDTH]
        rec_off = indexes[x, IX_REC_OFF]
        at = rec_off + (pos & mask) * width
        following, before = records[at], records[at + 1]
        if before < 0:
            heads[-1 - before] = following
        else:
            records[rec_off + (before & mask) * width] = following
        if following >= 0:
            records[rec_off + (following & mask) * width + 1] = before


@kernel(
    f"int64(int64, {_I2}, {_I2}, {_I2}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1},"
    f" {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I2}, {_I1})"
)
def mjoin(
    frontier, inputs, indexes, steps, index_columns, probes, heads, records, codes, leave, weight, rownum, first, tail,
    ev_time, ev_code, ev_leave, ev_weight, ev_slot, ev_valid, next_event, bound, counters, out_time, out_weight,
    out_rows, result,
):  # fmt: skip
    """Apply all events with time ≤ frontier. ``result[0]`` is the number of results. Returns DONE or FULL."""
    m = inputs.shape[0]
    cursor = np.empty(m, np.int64)
    factor = np.empty(m + 1, np.int64)
    found = np.int64(0)
    while True:
        s = np.int64(-1)
        t = NEVER
        for i in range(m):
            if next_event[i] < inputs[i, EV_LEN]:
                when = ev_time[inputs[i, EV_OFF] + next_event[i]]
                if when < t:
                    t, s = when, np.int64(i)
        if s < 0:
            t = frontier
        # Rows that leave before or at t: in time order where the deletions are wanted.
        while True:
            e = NEVER
            d = np.int64(-1)
            for i in range(m):
                if inputs[i, KIND] == RING and first[i] < tail[i]:
                    when = leave[inputs[i, POS_OFF] + (first[i] & inputs[i, POS_MASK])]
                    if when < e:
                        e, d = when, np.int64(i)
            if e > t:
                break
            mode = inputs[d, DELETES]
            linked = weight[inputs[d, POS_OFF] + (first[d] & inputs[d, POS_MASK])] != 0
            if linked and (mode == ALL_DELETIONS or (mode == AT_ARRIVALS and e == t and s >= 0)):
                now = extend(
                    d, first[d], e, -1, inputs, indexes, steps, probes, heads, records, codes, weight, rownum,
                    first, bound, cursor, factor, counters, found, out_time, out_weight, out_rows,
                )  # fmt: skip
                if now < 0:
                    result[0] = found
                    return FULL
                found = now
            first[d] += 1
        if s < 0:
            result[0] = found
            return DONE
        j = next_event[s]
        at = inputs[s, EV_OFF] + j
        width = inputs[s, CODE_WIDTH]
        mask = inputs[s, POS_MASK]
        ring = inputs[s, KIND] == RING
        pos = tail[s] if ring else ev_slot[at]
        place = inputs[s, CODE_OFF] + (pos & mask) * width
        source = inputs[s, EV_CODE_OFF] + j * width
        for c in range(width):
            codes[place + c] = ev_code[source + c]
        if ev_valid[at] != 0:
            now = extend(
                s, pos, t, ev_weight[at], inputs, indexes, steps, probes, heads, records, codes, weight, rownum,
                first, bound, cursor, factor, counters, found, out_time, out_weight, out_rows,
            )  # fmt: skip
            if now < 0:
                result[0] = found
                return FULL
            found = now
        if ring:
            leave[inputs[s, POS_OFF] + (pos & mask)] = ev_leave[at]
            weight[inputs[s, POS_OFF] + (pos & mask)] = ev_valid[at]  # 0: has a NULL key, joins with nothing
            if ev_valid[at] != 0:
                link(s, pos, inputs, indexes, index_columns, heads, records, codes)
            tail[s] += 1
        else:
            w = inputs[s, POS_OFF] + pos
            before = weight[w]
            weight[w] = before + ev_weight[at]
            if ev_valid[at] != 0:
                if before == 0 and weight[w] != 0:
                    link(s, pos, inputs, indexes, index_columns, heads, records, codes)
                elif before != 0 and weight[w] == 0:
                    unlink(s, pos, inputs, indexes, heads, records)
        next_event[s] = j + 1


@kernel(f"void(int64, {_I2}, {_I2}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1})")
def relink(s, inputs, indexes, index_columns, heads, records, codes, first, tail, live):
    """Rebuild the indexes of one input from its codes: of a ring's rows with ``live`` ≠ 0, of the slots in ``live``."""
    if inputs[s, KIND] == RING:
        for p in range(first[s], tail[s]):
            if live[p - first[s]] != 0:
                link(s, p, inputs, indexes, index_columns, heads, records, codes)
    else:
        for k in range(len(live)):
            link(s, live[k], inputs, indexes, index_columns, heads, records, codes)
