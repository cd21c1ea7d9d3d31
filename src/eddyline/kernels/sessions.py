"""Windows whose elements leave when a time of their own has come: sessions, and ``[UNTIL column]``."""

from __future__ import annotations

from eddyline.kernels.compile import inlined, kernel

_I1 = "int64[::1]"


@kernel(
    f"int64({_I1}, {_I1}, {_I1}, int64, int64, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, {_I1}, "
    f"{_I1}, {_I1})",
    work=lambda *args: len(args[0]) + len(args[5]),
)
def close_sessions(
    time, group, slot, gap, frontier, queue_time, queue_group, progress, head, tail, start, last, following, out_end,
    out_start, out_slot, out_group,
):  # fmt: skip
    """Add elements to the open sessions of their groups, and close those whose gap has passed, in order of time.

    The queue has all elements of open sessions in order of time, and then the new ones; ``progress`` says how many of
    the queue have been looked at, and then how many sessions have closed, those of ``out_group``. An element ends its
    session ``gap`` later if it is still the last one of its group by then. Elements of a session are linked by
    ``following``, from ``head[group]`` on; −1 is none. Returns how many elements of closed sessions stand in the
    output, each with the end and the start of its session.
    """
    n, at, found, closed = len(time), progress[0], 0, 0
    old = len(queue_time) - n
    for i in range(n + 1):
        limit = time[i] if i < n else frontier
        while at < old + i and queue_time[at] + gap <= limit:
            g = queue_group[at]
            if head[g] >= 0 and last[g] == queue_time[at]:
                s = head[g]
                while s >= 0:
                    out_end[found], out_start[found], out_slot[found] = last[g] + gap, start[g], s
                    found += 1
                    s = following[s]
                head[g] = -1
                out_group[closed] = g
                closed += 1
            at += 1
        if i < n:
            g = group[i]
            if head[g] < 0:
                head[g] = slot[i]
                start[g] = time[i]
            else:
                following[tail[g]] = slot[i]
            tail[g] = slot[i]
            following[slot[i]] = -1
            last[g] = time[i]
    progress[0], progress[1] = at, closed
    return found


@inlined
def earlier(heap, a, b):
    """Whether one entry of a heap leaves before another: by time, then by order of arrival."""
    return heap[a, 0] < heap[b, 0] or (heap[a, 0] == heap[b, 0] and heap[a, 1] < heap[b, 1])


@kernel(f"int64({_I1}, {_I1}, {_I1}, {_I1}, int64, int64[:, ::1], {_I1}, {_I1}, {_I1}, {_I1})")
def expire(time, leave, number, slot, frontier, heap, size, out_time, out_slot, out_weight):
    """Elements enter at ``time`` and leave at ``leave``, both in order of time; returns how many changes there are.

    ``heap`` has a row (leave, number, slot) for each element inside; ``size`` says how many, and there is room for the
    new ones. An element that leaves before it enters is never inside.
    """
    n, m, found = len(time), size[0], 0
    for i in range(n + 1):
        limit = time[i] if i < n else frontier
        while m > 0 and heap[0, 0] <= limit:
            out_time[found], out_slot[found], out_weight[found] = heap[0, 0], heap[0, 2], -1
            found += 1
            m -= 1
            for j in range(3):
                heap[0, j] = heap[m, j]
            p = 0
            while True:
                c = 2 * p + 1
                if c >= m:
                    break
                if c + 1 < m and earlier(heap, c + 1, c):
                    c += 1
                if not earlier(heap, c, p):
                    break
                for j in range(3):
                    heap[p, j], heap[c, j] = heap[c, j], heap[p, j]
                p = c
        if i < n and leave[i] > time[i]:
            out_time[found], out_slot[found], out_weight[found] = time[i], slot[i], 1
            found += 1
            heap[m, 0], heap[m, 1], heap[m, 2] = leave[i], number[i], slot[i]
            p = m
            m += 1
            while p > 0 and earlier(heap, p, (p - 1) // 2):
                for j in range(3):
                    heap[p, j], heap[(p - 1) // 2, j] = heap[(p - 1) // 2, j], heap[p, j]
                p = (p - 1) // 2
    size[0] = m
    return found
