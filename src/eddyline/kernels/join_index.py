"""The hash indexes of a join's inputs: building them, and taking a bag's rows out. The join kernel puts rows in."""

from __future__ import annotations

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import kernel, prefetch
from eddyline.kernels.hashing import mix, u
from eddyline.kernels.join_ahead import AHEAD
from eddyline.kernels.join_layout import I1, I2


@kernel(f"void(int64, int64, {I2}, {I2}, {I1}, {I1})")
def unlink(s, pos, inputs, indexes, heads, records):
    """Take a bag's row out of all its indexes."""
    mask = inputs[s, k.POS_MASK]
    for x in range(inputs[s, k.INDEX_FROM], inputs[s, k.INDEX_TO]):
        width = indexes[x, k.IX_REC_WIDTH]
        rec_off = indexes[x, k.IX_REC_OFF]
        at = rec_off + (pos & mask) * width
        following, before = records[at], records[at + 1]
        if before < 0:
            heads[indexes[x, k.IX_HEAD_OFF] + (-1 - before) * indexes[x, k.IX_HEAD_STRIDE]] = following
        else:
            records[rec_off + (before & mask) * width] = following
        if following >= 0:
            records[rec_off + (following & mask) * width + 1] = before


@kernel(
    f"void(int64, int64, int64, int64, {I2}, {I2}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1})",
    work=lambda *args: args[3] - args[2],
)
def relink(s, x, begin, end, inputs, indexes, index_columns, heads, records, codes, leave, weight):
    """Put the rows at positions ``begin`` … ``end`` − 1 of an input into an index whose heads are empty, if they join:
    those of a ring with a weight, those of a bag with a weight and without a NULL among their keys (LEAVE ≠ 0).

    Rows are read in the order in which they lie; their heads are anywhere, and fetched before a row's turn comes."""
    ring = inputs[s, k.KIND] == k.RING
    mask, pos_off = inputs[s, k.POS_MASK], inputs[s, k.POS_OFF]
    code_off, code_width = inputs[s, k.CODE_OFF], inputs[s, k.CODE_WIDTH]
    rec_off, width = indexes[x, k.IX_REC_OFF], indexes[x, k.IX_REC_WIDTH]
    ncols, columns = indexes[x, k.IX_COLS], indexes[x, k.IX_COL_OFF]
    head_off, head_mask, stride = indexes[x, k.IX_HEAD_OFF], indexes[x, k.IX_HEAD_MASK], indexes[x, k.IX_HEAD_STRIDE]
    for pos in range(begin, end):
        if pos + AHEAD < end:
            place = code_off + ((pos + AHEAD) & mask) * code_width
            h = np.int64(0)
            for c in range(ncols):
                h = mix(h, codes[u(place + index_columns[u(columns + c)])])
            prefetch(heads, head_off + (h & head_mask) * stride)
        where = u(pos_off + (pos & mask))
        if weight[where] == 0 or (not ring and leave[where] == 0):
            continue
        place = code_off + (pos & mask) * code_width
        at = rec_off + (pos & mask) * width
        h = np.int64(0)
        for c in range(ncols):
            code = codes[u(place + index_columns[u(columns + c)])]
            records[u(at + width - ncols + c)] = code
            h = mix(h, code)
        slot = h & head_mask
        head = u(head_off + slot * stride)
        old = heads[head]
        records[u(at)] = old
        if not ring:
            records[u(at + 1)] = -1 - slot  # no predecessor: the head itself
            if old >= 0:
                records[u(rec_off + (old & mask) * width + 1)] = pos
        heads[head] = pos
