"""The hash indexes of a join's inputs: putting rows in, building, probing, taking a bag's rows out, and taking the
newest rows of a ring out again."""

from __future__ import annotations

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import inlined, kernel, prefetch
from eddyline.kernels.hashing import mix, u
from eddyline.kernels.join_ahead import AHEAD
from eddyline.kernels.join_layout import I1, I2


@inlined
def link(x, pos, keys, place, ring, indexes, index_columns, heads, records):
    """Put a row at position ``pos``, with its keys at ``place``, in front of its chain in index x."""
    width, ncols, rec_off = indexes[x, k.IX_REC_WIDTH], indexes[x, k.IX_COLS], indexes[x, k.IX_REC_OFF]
    mask = indexes[x, k.IX_REC_MASK]
    here = rec_off + (pos & mask) * width
    h = np.int64(0)
    for c in range(ncols):
        code = keys[u(place + index_columns[u(indexes[x, k.IX_COL_OFF] + c)])]
        records[u(here + width - ncols + c)] = code
        h = mix(h, code)
    slot = h & indexes[x, k.IX_HEAD_MASK]
    head = u(indexes[x, k.IX_HEAD_OFF] + slot * indexes[x, k.IX_HEAD_STRIDE])
    old = heads[head]
    records[u(here)] = old
    if not ring:
        records[u(here + 1)] = -1 - slot  # no predecessor: the head itself
        if old >= 0:
            records[u(rec_off + (old & mask) * width + 1)] = pos
    heads[head] = pos


@kernel(f"void(int64, int64, {I2}, {I2}, {I1}, {I1})", borrows=True)
def unlink(s, pos, inputs, indexes, heads, records):
    """Take a bag's row out of all its indexes."""
    for x in range(inputs[s, k.INDEX_FROM], inputs[s, k.INDEX_TO]):
        width, mask = indexes[x, k.IX_REC_WIDTH], indexes[x, k.IX_REC_MASK]
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
    borrows=True,
)
def relink(s, x, begin, end, inputs, indexes, index_columns, heads, records, codes, leave, weight):
    """Put the rows at positions ``begin`` … ``end`` − 1 of an input into an index whose heads are empty, if they join:
    those of a ring with a weight, those of a bag with a weight and without a NULL among their keys (LEAVE ≠ 0).

    Rows are read in the order in which they lie; their heads are anywhere, and fetched before a row's turn comes."""
    ring = inputs[s, k.KIND] == k.RING
    mask, pos_off = inputs[s, k.POS_MASK], inputs[s, k.POS_OFF]
    code_off, code_width = inputs[s, k.CODE_OFF], inputs[s, k.CODE_WIDTH]
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
        link(u(x), pos, codes, place, ring, indexes, index_columns, heads, records)


@kernel(f"int64(int64, {I1}, {I2}, {I2}, {I1}, {I1}, {I1}, {I1})", work=lambda *args: 1, borrows=True)
def probe(x, key, inputs, indexes, heads, records, first, found):
    """How many rows have a key; as many of their positions as there is room for are put into ``found``."""
    s = indexes[x, k.IX_INPUT]
    width, ncols, rec_off = indexes[x, k.IX_REC_WIDTH], indexes[x, k.IX_COLS], indexes[x, k.IX_REC_OFF]
    h = np.int64(0)
    for c in range(ncols):
        h = mix(h, key[c])
    found_count = np.int64(0)
    p = heads[indexes[x, k.IX_HEAD_OFF] + (h & indexes[x, k.IX_HEAD_MASK]) * indexes[x, k.IX_HEAD_STRIDE]]
    while p >= first[s]:
        here = rec_off + (p & indexes[x, k.IX_REC_MASK]) * width
        same = True
        for c in range(ncols):
            same = same and records[here + width - ncols + c] == key[c]
        if same:
            if found_count < len(found):
                found[found_count] = p
            found_count += 1
        p = records[here]
    return found_count


@kernel(f"int64(int64, int64, int64, {I2}, {I1}, {I1}, {I1})", work=lambda *args: args[2] - args[1], borrows=True)
def rewind(x, begin, end, indexes, heads, records, linked):
    """Take the rows ``begin`` … ``end`` − 1, the newest of a ring, out of index x again, the last first: how many were
    in it. ``linked`` says of each whether it was.

    A chain begins with its newest row. So a row is in the index if and only if the head of its chain names it when all
    newer ones are out; where it is not, its record is that of an older row, whose chain cannot begin with this one.
    """
    width, ncols, mask = indexes[x, k.IX_REC_WIDTH], indexes[x, k.IX_COLS], indexes[x, k.IX_REC_MASK]
    found_count = np.int64(0)
    for back in range(end - begin):
        pos = end - 1 - back
        here = indexes[x, k.IX_REC_OFF] + (pos & mask) * width
        h = np.int64(0)
        for c in range(ncols):
            h = mix(h, records[here + width - ncols + c])
        head = indexes[x, k.IX_HEAD_OFF] + (h & indexes[x, k.IX_HEAD_MASK]) * indexes[x, k.IX_HEAD_STRIDE]
        linked[pos - begin] = 0
        if heads[head] == pos:
            heads[head] = records[here]
            linked[pos - begin] = 1
            found_count += 1
    return found_count
