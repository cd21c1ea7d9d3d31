"""The join kernel while it is uncompiled: a few elements at a time, so that it can change to the compiled form between
any two. The time of an element is not known beforehand: it may find no partner, or visit a whole window."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from eddyline.kernels import join_layout as k

if TYPE_CHECKING:
    from eddyline.kernels.compile import Kernel

FIRST_SLICE, MIN_SLICE, MAX_SLICE = 64, 4, 4096  # elements of a slice
SLICE_SECONDS = 0.02  # that a slice may take: less changes to the compiled form sooner, more spends less on calls
# the places of the kernel's arguments
FRONTIER, LIMIT, INPUTS, LEAVE, FIRST, TAIL, NEXT_EVENT, COUNTERS = 0, 1, 2, 10, 14, 15, 22, 23


def elements(*args: Any) -> int:
    """The elements of a call: what may arrive, and what leaves on the way."""
    inputs = args[INPUTS]
    waiting = int((inputs[:, k.EV_LEN] - args[NEXT_EVENT]).sum())
    leaving = sum(_leaving(i, *args) for i in range(len(inputs)))
    return min(int(args[LIMIT]), waiting) + (leaving if waiting <= args[LIMIT] else 0)


def _leaving(i: int, *args: Any) -> int:
    """Rows of a ring with a leave time up to the frontier; they leave in the order in which they came."""
    inputs, leave, frontier = args[INPUTS], args[LEAVE], args[FRONTIER]
    if inputs[i, k.KIND] != k.RING or inputs[i, k.LIMIT] > 0:
        return 0
    offset, mask = int(inputs[i, k.POS_OFF]), int(inputs[i, k.POS_MASK])
    first = low = int(args[FIRST][i])
    high = int(args[TAIL][i])
    while low < high:
        middle = (low + high) // 2
        if leave[offset + (middle & mask)] <= frontier:
            low = middle + 1
        else:
            high = middle
    return low - first


def in_slices(kernel: Kernel, *args: Any) -> int:
    """As one call. The kernel pauses at the end of a slice, as it does at a limit, and goes on in the next call."""
    limit, next_event, counters = int(args[LIMIT]), args[NEXT_EVENT], args[COUNTERS]
    size = FIRST_SLICE
    while True:
        before = int(next_event.sum())
        began = time.thread_time()
        status = int(kernel.run_uncompiled(args[FRONTIER], min(size, limit), *args[LIMIT + 1 :]))
        took = time.thread_time() - began
        limit -= int(next_event.sum()) - before
        if status != k.PAUSE or limit <= 0 or counters[k.CN_PROBES] >= counters[k.CN_MAX_PROBES]:
            return status
        rest = (args[FRONTIER], limit, *args[LIMIT + 1 :])
        kernel.choose(*rest)
        if kernel.compiled:
            return int(kernel.dispatcher(*rest))
        size = int(min(max(size * min(4.0, SLICE_SECONDS / max(took, 1e-6)), MIN_SLICE), MAX_SLICE))
