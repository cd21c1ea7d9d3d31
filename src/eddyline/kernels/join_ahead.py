"""Having memory fetched before an element's turn comes.

Most of what an element costs in large windows is to wait for memory: for the heads of the chains that it probes and
enters, then for the first record of each chain. Those that it enters, and those that it probes with keys of its own,
are known as soon as it has arrived. So whenever an element's turn comes, the heads of the one AHEAD places behind it in
the same input are asked for, and the first records of the one NEARER places behind it, whose heads have come meanwhile.
Heads on the same keys lie side by side: most of those that an element probes come with those that it enters. The others
are waited for, as they would be anyway.

Nothing depends on what is fetched here: rows that come, go or are hidden between make it useless, never wrong.
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
