"""The bare three-way windowed join: what a machine can do when nothing but the join is asked for.

Three streams sorted by time are merged in one pass. Each window is a ring of (time, key, link) records with chained
hashing; an arrival first probes the other two rings, then joins its own. No signs, no general plan, no Arrow: the
engine is measured against this kernel plus the reading of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


@numba.njit(cache=True, nogil=True)
def join(times: Any, keys: Any, ends: Any, width: int, heads: Any, rings: Any, out: Any) -> int:  # pragma: no cover
    """``times[s, :ends[s]]`` and ``keys`` are the streams. ``heads[s, slot]`` is the last row of a chain, −1 if none;
    ``rings[s, row & mask]`` is (key, the row before it in the chain). Rows of results go to ``out``; returns how many.
    """
    slots, mask = heads.shape[1] - 1, rings.shape[1] - 1
    at = np.zeros(3, np.int64)  # next row of each stream: all before it are in their rings
    first = np.zeros(3, np.int64)  # rows before it have left their windows
    found = 0
    while True:
        s = -1
        for i in range(3):
            if at[i] < ends[i] and (s < 0 or times[i, at[i]] < times[s, at[s]]):
                s = i
        if s < 0:
            return found
        now, key, row = times[s, at[s]], keys[s, at[s]], at[s]
        a, b = (s + 1) % 3, (s + 2) % 3
        for i in (a, b):
            while first[i] < at[i] and times[i, first[i]] < now - width:
                first[i] += 1
        hashed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64(hashed >> np.uint64(32)) & slots
        p = heads[a, slot]
        while p >= first[a]:
            if rings[a, p & mask, 0] == key:
                q = heads[b, slot]
                while q >= first[b]:
                    if rings[b, q & mask, 0] == key:
                        if found < out.shape[1]:
                            out[s, found], out[a, found], out[b, found] = row, p, q
                        found += 1
                    q = rings[b, q & mask, 1]
            p = rings[a, p & mask, 1]
        rings[s, row & mask, 0] = key
        rings[s, row & mask, 1] = heads[s, slot]
        heads[s, slot] = row
        at[s] = row + 1


def laid_out(times: Sequence[Int64s], keys: Sequence[Int64s]) -> tuple[Int64s, Int64s, Int64s]:
    """The streams as the kernel wants them: times and keys in one array each, and the lengths."""
    ends = np.array([len(t) for t in times], np.int64)
    flat_times, flat_keys = (np.zeros((3, int(ends.max())), np.int64) for _ in range(2))
    for i in range(3):
        flat_times[i, : ends[i]], flat_keys[i, : ends[i]] = times[i], keys[i]
    return flat_times, flat_keys, ends


def run(times: Int64s, keys: Int64s, ends: Int64s, width: int, room: int, most: int = 1 << 17) -> Int64s:
    """Row numbers in each stream of all results. ``most`` bounds the rows of a window (a power of two).

    >>> t = np.array([0, 5, 20])
    >>> run(*laid_out([t, t, t], [np.array([1, 2, 1])] * 3), 5, 10, most=8).tolist()
    [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    """
    out = np.empty((3, room), np.int64)
    heads, rings = np.full((3, most), -1, np.int64), np.empty((3, most, 2), np.int64)
    found = join(times, keys, ends, width, heads, rings, out)
    assert found <= room, f"{found} results, room for {room}"
    return out[:, :found]
