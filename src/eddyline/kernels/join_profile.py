"""Profiles an element for A-Greedy: which logical filters (thesis 5.2.3) would drop it.

The logical filter of an input is the join along the path to it: it drops an element if that join is empty. Paths have
the form of pipelines; their rows are steps.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import mix, u
from eddyline.kernels.join_layout import I1, I2
from eddyline.kernels.join_rows import code_of, holds_for

# Accesses after which a filter counts as one that lets the element pass: a profile must not hold a join up.
MAX_ACCESSES_PER_PROFILE = 4096


@kernel(f"int64(int64, int64, int64, int64, {I2}, {I2}, {I2}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1})", borrows=True)
def drops(s, pos, start, stop, inputs, paths, conditions, probes, heads, records, codes, first, bound, cursor):
    """Probe along the path paths[start:stop]. Returns the accesses it took, negative if the path has no join (and 0 if
    there is no path)."""
    work = np.int64(0)
    depth = np.int64(0)
    fresh = True
    bound[u(s)] = pos
    while 0 <= depth < stop - start:
        row = u(start + depth)
        target = paths[row, k.ST_TARGET]
        ncols = paths[row, k.ST_COLS]
        rec_off, width, mask = paths[row, k.ST_REC_OFF], paths[row, k.ST_REC_WIDTH], paths[row, k.ST_MASK]
        probe = paths[row, k.ST_PROBE_OFF]
        if fresh:
            h = np.int64(0)
            for c in range(ncols):
                h = mix(h, code_of(probe + 2 * c, probes, bound, inputs, codes))
            p = heads[u(paths[row, k.ST_HEAD_OFF] + (h & paths[row, k.ST_HEAD_MASK]) * paths[row, k.ST_HEAD_STRIDE])]
            work += 1
        else:
            p = records[u(rec_off + (cursor[u(depth)] & mask) * width)]
        while p >= first[u(target)]:
            work += 1
            here = rec_off + (p & mask) * width
            same = True
            for c in range(ncols):
                if records[u(here + width - ncols + c)] != code_of(probe + 2 * c, probes, bound, inputs, codes):
                    same = False
                    break
            if same:
                break
            p = records[u(here)]
        if p < first[u(target)]:
            depth -= 1
            fresh = False
            continue
        cursor[u(depth)] = p
        bound[u(target)] = p
        holds = True
        for x in range(paths[row, k.ST_COND], paths[row, k.ST_COND_END]):
            if not holds_for(x, conditions, inputs, codes, bound):
                holds = False
                break
        fresh = holds
        if holds:
            depth += 1
        if start + depth == stop or work > MAX_ACCESSES_PER_PROFILE:
            return work
    return -work


@kernel(f"void(uint64, int64, {I2}, {I1})", borrows=True)
def count_key(lookup, h, lookups, bits):
    """Set the bit of a key in the Bloom filter of a profiled cache (5.5.3); a full window of keys begins another."""
    bit = h & lookups[lookup, k.LK_BITS]
    word = lookups[lookup, k.LK_BITS_OFF] + (bit >> 6)
    one = np.int64(1) << (bit & 63)
    if bits[word] & one == 0:
        bits[word] |= one
        lookups[lookup, k.LK_SET] += 1
    lookups[lookup, k.LK_SEEN] += 1
    if lookups[lookup, k.LK_SEEN] == lookups[lookup, k.LK_DISTANCE]:
        lookups[lookup, k.LK_WINDOWS] += 1
        lookups[lookup, k.LK_TOTAL] += lookups[lookup, k.LK_SET]
        lookups[lookup, k.LK_SEEN] = 0
        lookups[lookup, k.LK_SET] = 0
        start = lookups[lookup, k.LK_BITS_OFF]
        for word in range(start, start + (lookups[lookup, k.LK_BITS] >> 6) + 1):
            bits[word] = 0
