"""Prefetching: memory is fetched before an element's turn comes.

In large windows most of the time of an element is waiting for memory: for the heads of the chains that it probes and
enters, then for the first record of each chain. The chains that it enters, and those that it probes with its own keys,
are known as soon as it has arrived. So at each turn the heads of the element AHEAD places behind in the same input are
prefetched, and the first records of the element NEARER places behind, whose heads have come meanwhile. Heads on the
same keys lie side by side, so most heads that an element probes come with those that it enters. The rest is not
prefetched.

Results never depend on prefetching: rows that come, go or are hidden in between make it useless, but not wrong.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import inlined, prefetch
from eddyline.kernels.hashing import mix, u

AHEAD, NEARER = 16, 8  # half and twice as many do as well


@inlined
def fetch_heads(s, keys, place, inputs, indexes, index_columns, heads):
    """The heads of all chains that a row of input s with its keys at ``place`` will enter."""
    for index in range(inputs[u(s), k.INDEX_FROM], inputs[u(s), k.INDEX_TO]):
        x = u(index)
        h = np.int64(0)
        for c in range(indexes[x, k.IX_COLS]):
            h = mix(h, keys[u(place + index_columns[u(indexes[x, k.IX_COL_OFF] + c)])])
        slot = (h & indexes[x, k.IX_HEAD_MASK]) * indexes[x, k.IX_HEAD_STRIDE]
        prefetch(heads, indexes[x, k.IX_HEAD_OFF] + slot)


@inlined
def fetch_records(s, keys, place, inputs, steps, probes, heads, records):
    """The first records of the chains that such a row will probe, where that follows from its own keys."""
    m = inputs.shape[0]
    for step in range(s * (m - 1), (s + 1) * (m - 1)):
        row = u(step)
        if steps[row, k.ST_READY] == 0:
            h = np.int64(0)
            for c in range(steps[row, k.ST_COLS]):
                h = mix(h, keys[u(place + probes[u(steps[row, k.ST_PROBE_OFF] + 2 * c + 1)])])
            slot = (h & steps[row, k.ST_HEAD_MASK]) * steps[row, k.ST_HEAD_STRIDE]
            p = heads[u(steps[row, k.ST_HEAD_OFF] + slot)]
            prefetch(records, steps[row, k.ST_REC_OFF] + (p & steps[row, k.ST_MASK]) * steps[row, k.ST_REC_WIDTH])
