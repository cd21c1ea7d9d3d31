"""Interning of composite keys: rows of int64 codes to dense ids, exactly.

Open addressing with linear probing; ``table`` holds ids, EMPTY or GONE. ``keys[id]`` is the whole key, so a hash
collision is only a longer probe. Ids of released keys are reused through a free list.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import mix

EMPTY = -1
GONE = -2

# positions in the ``meta`` array
NEXT, FREE, USED, LIVE = 0, 1, 2, 3  # next fresh id; length of the free list; filled slots (with GONE); live keys


@kernel("int64(int64[:, ::1], int64, int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def intern(rows, begin, keys, table, free, meta, out):
    """Give ids to ``rows[begin:]``; returns the first row not done: the caller then grows ``table``/``keys``."""
    n, width = rows.shape
    mask = len(table) - 1
    for i in range(begin, n):
        h = np.int64(0)
        for j in range(width):
            h = mix(h, rows[i, j])
        slot = h & mask
        grave = np.int64(-1)
        found = np.int64(-1)
        while True:
            k = table[slot]
            if k == EMPTY:
                break
            if k == GONE:
                if grave < 0:
                    grave = slot
            else:
                same = True
                for j in range(width):
                    if keys[k, j] != rows[i, j]:
                        same = False
                        break
                if same:
                    found = k
                    break
            slot = (slot + 1) & mask
        if found < 0:
            if (meta[USED] + 1) * 2 > len(table) or (meta[FREE] == 0 and meta[NEXT] >= len(keys)):
                return i
            if meta[FREE] > 0:
                meta[FREE] -= 1
                found = free[meta[FREE]]
            else:
                found = meta[NEXT]
                meta[NEXT] += 1
            for j in range(width):
                keys[found, j] = rows[i, j]
            if grave >= 0:
                table[grave] = found
            else:
                table[slot] = found
                meta[USED] += 1
            meta[LIVE] += 1
        out[i] = found
    return n


@kernel("void(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1])")
def find(rows, keys, table, out):
    """The ids of rows, −1 for those that are not there."""
    n, width = rows.shape
    mask = len(table) - 1
    for i in range(n):
        h = np.int64(0)
        for j in range(width):
            h = mix(h, rows[i, j])
        slot = h & mask
        out[i] = -1
        while table[slot] != EMPTY:
            k = table[slot]
            if k != GONE:
                same = True
                for j in range(width):
                    if keys[k, j] != rows[i, j]:
                        same = False
                        break
                if same:
                    out[i] = k
                    break
            slot = (slot + 1) & mask


@kernel("void(int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1])")
def release(ids, keys, table, free, meta):
    """Forget keys: their slots become GONE, their ids free."""
    mask = len(table) - 1
    width = keys.shape[1]
    for i in range(len(ids)):
        k = ids[i]
        h = np.int64(0)
        for j in range(width):
            h = mix(h, keys[k, j])
        slot = h & mask
        while table[slot] != k:
            slot = (slot + 1) & mask
        table[slot] = GONE
        free[meta[FREE]] = k
        meta[FREE] += 1
        meta[LIVE] -= 1


@kernel("void(int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def rebuild(ids, keys, table, meta):
    """Fill an empty ``table`` with the live ids."""
    mask = len(table) - 1
    width = keys.shape[1]
    for i in range(len(ids)):
        h = np.int64(0)
        for j in range(width):
            h = mix(h, keys[ids[i], j])
        slot = h & mask
        while table[slot] != EMPTY:
            slot = (slot + 1) & mask
        table[slot] = ids[i]
    meta[USED] = len(ids)
