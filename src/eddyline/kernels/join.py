"""The multiway windowed join (MJoin, thesis 5.1) over signed elements, as one kernel that takes the plan as data.

The invariant: elements are applied one after another in time order (at one instant: expiries first, then arrivals,
lower input first), and each is joined with the *current* contents of the other inputs before it changes its own. So
the output, added up to any instant, is the join of the inputs at that instant.

Inputs are of two kinds. RING: rows enter in row-number order and leave in the same order, at a leave time known when
they enter (time-based windows, constant and append-only relations) or when LIMIT newer rows have come (tuple-based
windows); row number = position, expired rows are those below ``first``. BAG: distinct rows in slots with a weight
(everything else); a deletion names its slot.

Indexes: each is a chained hash table on some join columns of one input (on none: the chain of all rows, for products).
A record of an index is (next, [previous,] codes of its columns), so that following a chain touches one place. The heads
of indexes on the same keys lie side by side: an element that probes two inputs and enters a third touches one line. The
chain of a ring is in descending row order: the walk ends at the first expired row. Chains of bags are doubly linked.

A pipeline is, for each input, a sequence of steps; a step probes one index with codes taken from rows already bound.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import mix, u

RING, BAG = 0, 1
NO_DELETIONS, AT_ARRIVALS, ALL_DELETIONS = 0, 1, 2

# columns of ``inputs`` (one row an input)
KIND, POS_OFF, POS_MASK, CODE_OFF, CODE_WIDTH, EV_OFF, EV_LEN, EV_CODE_OFF, DELETES, INDEX_FROM, INDEX_TO, LIMIT = (
    range(12)
)
INPUT_FIELDS = 12
# columns of ``indexes`` (one row an index)
IX_INPUT, IX_HEAD_OFF, IX_HEAD_MASK, IX_HEAD_STRIDE, IX_REC_OFF, IX_REC_WIDTH, IX_COLS, IX_COL_OFF = range(8)
INDEX_FIELDS = 8
# columns of ``steps`` (one row a step; the pipeline of input s has rows s·(m−1) … (s+1)·(m−1)−1). All but the first
# three repeat what is said of the target and its index, so that a step is one place in memory.
ST_TARGET, ST_INDEX, ST_PROBE_OFF = range(3)
ST_COLS, ST_REC_OFF, ST_REC_WIDTH, ST_MASK, ST_HEAD_OFF, ST_HEAD_MASK, ST_HEAD_STRIDE, ST_POS_OFF, ST_BAG = range(3, 12)
STEP_FIELDS = 12
# status of a call
DONE, FULL, GROW = 0, 1, 2
NEVER = np.int64((1 << 63) - 1)

_I1 = "int64[::1]"
_I2 = "int64[:, ::1]"


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
        head = indexes[x, IX_HEAD_OFF] + (h & indexes[x, IX_HEAD_MASK]) * indexes[x, IX_HEAD_STRIDE]
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
    f" {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I2}, {_I1})"
)
def mjoin(
    frontier, inputs, indexes, steps, index_columns, probes, heads, records, codes, leave, weight, rownum, first, tail,
    ev_time, ev_code, ev_leave, ev_weight, ev_slot, ev_valid, next_event, counters, out_time, out_weight, out_rows,
    result,
):  # fmt: skip
    """Apply all events with time ≤ frontier. ``result[0]`` is the number of results. Returns DONE, FULL or GROW.

    FULL means that the results of one element do not fit, GROW that the ring of input ``result[1]`` is full: in both
    cases that element has not been applied, and the caller comes back with more room. The body is one loop without
    calls, because a call with this many arrays costs more than an element.
    """
    m = inputs.shape[0]
    last = m - 2
    room = len(out_time)
    found = np.int64(0)
    probed = np.int64(0)
    bound = np.zeros(m, np.int64)
    cursor = np.zeros(m, np.int64)
    factor = np.zeros(m + 1, np.int64)
    wanted = np.zeros((m, max(1, probes.shape[0])), np.int64)  # by depth: the codes that the step looks for
    next_time = np.full(m, NEVER, np.int64)
    next_leave = np.full(m, NEVER, np.int64)
    for i in range(m):
        if next_event[i] < inputs[i, EV_LEN]:
            next_time[i] = ev_time[inputs[i, EV_OFF] + next_event[i]]
        if inputs[i, KIND] == RING and first[i] < tail[i]:
            next_leave[i] = leave[inputs[i, POS_OFF] + (first[i] & inputs[i, POS_MASK])]
            if inputs[i, LIMIT] > 0 and tail[i] - first[i] >= inputs[i, LIMIT]:
                next_leave[i] = next_time[i]
    status = DONE
    while True:
        s, t = np.int64(-1), NEVER
        d, e = np.int64(-1), NEVER
        for i in range(m):
            if next_time[u(i)] < t:
                t, s = next_time[u(i)], np.int64(i)
            if next_leave[u(i)] < e:
                e, d = next_leave[u(i)], np.int64(i)
        if s < 0 and e > frontier:
            break
        leaving = e <= t
        if leaving:
            # Rows leave before anything arrives at the same instant; in time order where the deletions are wanted.
            mode = inputs[u(d), DELETES]
            shows = mode == ALL_DELETIONS or (mode == AT_ARRIVALS and e == t)
            s, t, pos, sign = d, e, first[u(d)], np.int64(-1)
            if shows:
                shows = weight[u(inputs[u(s), POS_OFF] + (pos & inputs[u(s), POS_MASK]))] != 0
        else:
            at = u(inputs[u(s), EV_OFF] + next_event[u(s)])
            if inputs[u(s), KIND] == RING and tail[u(s)] - first[u(s)] > inputs[u(s), POS_MASK]:
                status = GROW
                result[1] = s
                break
            shows = ev_valid[at] != 0
            pos = tail[u(s)] if inputs[u(s), KIND] == RING else ev_slot[at]
            sign = ev_weight[at]
            width = inputs[u(s), CODE_WIDTH]
            place = inputs[u(s), CODE_OFF] + (pos & inputs[u(s), POS_MASK]) * width
            source = inputs[u(s), EV_CODE_OFF] + next_event[u(s)] * width
            for c in range(width):
                codes[u(place + c)] = ev_code[u(source + c)]

        if shows:  # join the element with the current contents of all other inputs
            begun = found
            bound[u(s)] = pos
            factor[0] = sign
            depth = np.int64(0)
            fresh = True
            while depth >= 0:
                row = u(s * (m - 1) + depth)
                target = steps[row, ST_TARGET]
                ncols = steps[row, ST_COLS]
                rec_off = steps[row, ST_REC_OFF]
                width = steps[row, ST_REC_WIDTH]
                mask = steps[row, ST_MASK]
                low = first[u(target)]
                if fresh:
                    probe = steps[row, ST_PROBE_OFF]
                    h = np.int64(0)
                    for c in range(ncols):
                        b = u(probes[u(probe + 2 * c)])
                        place = inputs[b, CODE_OFF] + (bound[b] & inputs[b, POS_MASK]) * inputs[b, CODE_WIDTH]
                        code = codes[u(place + probes[u(probe + 2 * c + 1)])]
                        wanted[u(depth), u(c)] = code
                        h = mix(h, code)
                    slot = (h & steps[row, ST_HEAD_MASK]) * steps[row, ST_HEAD_STRIDE]
                    p = heads[u(steps[row, ST_HEAD_OFF] + slot)]
                    probed += 1
                else:
                    p = records[u(rec_off + (cursor[u(depth)] & mask) * width)]
                if ncols == 1:
                    key = wanted[u(depth), 0]
                    while p >= low:
                        here = rec_off + (p & mask) * width
                        if records[u(here + width - 1)] == key:
                            break
                        p = records[u(here)]
                else:
                    key_at = width - ncols
                    while p >= low:
                        here = rec_off + (p & mask) * width
                        same = True
                        for c in range(ncols):
                            if records[u(here + key_at + c)] != wanted[u(depth), u(c)]:
                                same = False
                                break
                        if same:
                            break
                        p = records[u(here)]
                if p < low:
                    depth -= 1
                    fresh = False
                    continue
                cursor[u(depth)] = p
                bound[u(target)] = p
                if steps[row, ST_BAG] != 0:
                    factor[u(depth + 1)] = factor[u(depth)] * weight[u(steps[row, ST_POS_OFF] + (p & mask))]
                else:
                    factor[u(depth + 1)] = factor[u(depth)]
                if depth < last:
                    depth += 1
                    fresh = True
                    continue
                fresh = False
                if found >= room:
                    status = FULL
                    break
                out_time[u(found)] = t
                out_weight[u(found)] = factor[u(depth + 1)]
                for i in range(m):
                    if inputs[i, KIND] == BAG:
                        out_rows[i, found] = rownum[inputs[i, POS_OFF] + (bound[i] & inputs[i, POS_MASK])]
                    else:
                        out_rows[u(i), u(found)] = bound[u(i)]
                found += 1
            if status == FULL:
                found = begun
                break

        own = u(s)
        mask = inputs[own, POS_MASK]
        if leaving:
            first[own] += 1
            next_leave[own] = NEVER
            if first[own] < tail[own]:
                next_leave[own] = leave[u(inputs[own, POS_OFF] + (first[own] & mask))]
            continue
        where = u(inputs[own, POS_OFF] + (pos & mask))
        enters = shows
        if inputs[own, KIND] == RING:
            leave[where] = ev_leave[at]
            weight[where] = ev_valid[at]  # 0: has a NULL key, joins with nothing
            if first[own] == tail[own]:
                next_leave[own] = ev_leave[at]
            tail[own] += 1
        else:
            before = weight[where]
            weight[where] = before + sign
            enters = shows and before == 0 and weight[where] != 0
            if shows and before != 0 and weight[where] == 0:
                unlink(s, pos, inputs, indexes, heads, records)
        if enters:
            place = inputs[own, CODE_OFF] + (pos & mask) * inputs[own, CODE_WIDTH]
            for index in range(inputs[own, INDEX_FROM], inputs[own, INDEX_TO]):
                x = u(index)
                width = indexes[x, IX_REC_WIDTH]
                ncols = indexes[x, IX_COLS]
                rec_off = indexes[x, IX_REC_OFF]
                here = rec_off + (pos & mask) * width
                h = np.int64(0)
                for c in range(ncols):
                    code = codes[u(place + index_columns[u(indexes[x, IX_COL_OFF] + c)])]
                    records[u(here + width - ncols + c)] = code
                    h = mix(h, code)
                head = indexes[x, IX_HEAD_OFF] + (h & indexes[x, IX_HEAD_MASK]) * indexes[x, IX_HEAD_STRIDE]
                old = heads[u(head)]
                records[u(here)] = old
                if inputs[own, KIND] == BAG:
                    records[u(here + 1)] = -1 - head
                    if old >= 0:
                        records[u(rec_off + (old & mask) * width + 1)] = pos
                heads[u(head)] = pos
        next_event[own] += 1
        next_time[own] = NEVER
        if next_event[own] < inputs[own, EV_LEN]:
            next_time[own] = ev_time[u(inputs[own, EV_OFF] + next_event[own])]
        if inputs[own, LIMIT] > 0 and tail[own] - first[own] >= inputs[own, LIMIT]:
            next_leave[own] = next_time[own]  # a full tuple-based window: the next element expels the oldest
    counters[0] += probed
    result[0] = found
    return status


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
