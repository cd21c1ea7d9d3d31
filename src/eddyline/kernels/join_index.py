"""The hash indexes of a join's inputs: putting rows in, taking a bag's rows out, building them anew."""

from __future__ import annotations

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import mix
from eddyline.kernels.join_layout import I1, I2


@kernel(f"void(int64, int64, int64, {I2}, {I2}, {I1}, {I1}, {I1}, {I1})")
def link(s, x, pos, inputs, indexes, index_columns, heads, records, codes):
    """Put a row into an index of its input."""
    mask = inputs[s, k.POS_MASK]
    place = inputs[s, k.CODE_OFF] + (pos & mask) * inputs[s, k.CODE_WIDTH]
    width = indexes[x, k.IX_REC_WIDTH]
    ncols = indexes[x, k.IX_COLS]
    rec_off = indexes[x, k.IX_REC_OFF]
    at = rec_off + (pos & mask) * width
    h = np.int64(0)
    for c in range(ncols):
        code = codes[place + index_columns[indexes[x, k.IX_COL_OFF] + c]]
        records[at + width - ncols + c] = code
        h = mix(h, code)
    head = indexes[x, k.IX_HEAD_OFF] + (h & indexes[x, k.IX_HEAD_MASK]) * indexes[x, k.IX_HEAD_STRIDE]
    old = heads[head]
    records[at] = old
    if inputs[s, k.KIND] == k.BAG:
        records[at + 1] = -1 - head  # no predecessor: the head itself
        if old >= 0:
            records[rec_off + (old & mask) * width + 1] = pos
    heads[head] = pos


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
            heads[-1 - before] = following
        else:
            records[rec_off + (before & mask) * width] = following
        if following >= 0:
            records[rec_off + (following & mask) * width + 1] = before


@kernel(f"void(int64, int64, {I2}, {I2}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1})", work=lambda *args: len(args[-1]))
def relink(s, x, inputs, indexes, index_columns, heads, records, codes, first, tail, live):
    """Build an index of an input from its codes: of a ring's rows with ``live`` ≠ 0, of the slots in ``live``."""
    if inputs[s, k.KIND] == k.RING:
        for p in range(first[s], tail[s]):
            if live[p - first[s]] != 0:
                link(s, x, p, inputs, indexes, index_columns, heads, records, codes)
    else:
        for n in range(len(live)):
            link(s, x, live[n], inputs, indexes, index_columns, heads, records, codes)
