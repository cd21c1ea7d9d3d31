"""The table of slots as a whole: rows that are put in and taken out by Python, and their memory."""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel
from eddyline.kernels.constrained_layout import FREE, NB, NBP, VICTIM
from eddyline.kernels.constrained_rows import (
    B1,
    I1,
    I2,
    I3,
    ROWS,
    Rows,
    after,
    enlist,
    fetch,
    first,
    know,
    link,
    push,
    settle,
)

SLOTS_PER_LISTED_ROW = 4  # slots for each row of an input, beyond which its list is followed


@kernel(f"void({ROWS}, int64, {I1}, {I1})", work=lambda *args: len(args[14]), borrows=True)
def insert(
    ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack, behind_newest, slots, arrived
):  # fmt: skip
    """Put rows, by input and number, into lists and chains, and settle who depends on them. They wait anew unless they
    are all ``behind_newest``; otherwise each goes to its place among those of its input."""
    rows = Rows(ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack)
    width = ports.shape[1]
    behind, last = np.int64(-1), np.int64(-1)
    for i in range(len(slots)):
        s = slots[i]
        owner = np.int64(stream[s])
        if behind_newest:
            enlist(rows, width, s, fifo[owner, 1])
        else:
            if owner != last:
                behind, last = np.int64(-1), owner
            ahead = fifo[owner, 0] if behind < 0 else np.int64(r32[behind, 5 * width + 6])
            while ahead >= 0 and r64[ahead, width] < r64[s, width]:
                behind = ahead
                ahead = np.int64(r32[behind, 5 * width + 6])
            enlist(rows, width, s, behind)
            behind = s
            for j in range(width):
                if ports[owner, j, NB] >= 0:
                    r32[s, 2 * width + 6 + j] = np.int32(arrived[ports[owner, j, NB]])
                    cursor[owner * width + j] = fifo[owner, 0]
        status[s] = FREE  # whatever it becomes, parents are told
        link(rows, width, s)
    for i in range(len(slots)):
        # Who was taken to get no more matches at a port has one again.
        s, top = slots[i], np.int64(0)
        owner = np.int64(stream[s])
        for j in range(width):
            other, p = ports[owner, j, NB], ports[owner, j, NBP]
            node = first(rows, width, other * width + p, p, r64[s, j]) if other >= 0 else np.int64(-1)
            while node >= 0:
                if not behind_newest and r16[node, 10 * width + 18 + p] != 0:
                    r16[node, 10 * width + 18 + p] = 0
                    top = push(rows, width, node, top)
                node = after(rows, width, p, node, r64[s, j])
        settle(rows, width, push(rows, width, s, top), np.int64(-1))


@kernel(f"void({ROWS})", work=lambda *args: len(args[1]), borrows=True)
def settle_all(ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack):
    """Compute the status of each row anew, and look at every wait again: edges may have other directions."""
    rows = Rows(ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack)
    width = ports.shape[1]
    for s in range(len(status)):
        for j in range(width if status[s] != FREE else 0):
            know(rows, width, np.int64(s), j, np.int64(FREE))
    for i in range(ports.shape[0]):
        for j in range(width):
            cursor[i * width + j] = fifo[i, 0]
    for s in range(len(status)):
        if status[s] != FREE:
            settle(rows, width, push(rows, width, np.int64(s), np.int64(0)), np.int64(-1))


@kernel(f"void(int64, {ROWS})", work=lambda *args: int(args[11][args[0]]), borrows=True)
def link_input(owner, ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack):
    """Put all rows of an input into empty chains."""
    rows = Rows(ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack)
    width = ports.shape[1]
    s = fifo[owner, 0]
    while s >= 0:
        ahead = np.int64(r32[s, 5 * width + 6])
        if ahead >= 0:
            fetch(rows, ahead)
        link(rows, width, s)
        s = ahead


@kernel(f"int64(int64, {I3}, {B1}, {B1}, {I2}, int32[:, ::1], int32[::1], {I2}, {I1}, int32[::1])",
        work=lambda *args: len(args[2]), borrows=True)  # fmt: skip
def move_to_front(size, ports, status, stream, r64, r32, head, fifo, cursor, number):
    """Move all rows to the first slots, in the order in which they are; the slots behind them, of the first ``size``,
    are free. ``number`` has room for where each slot goes. Returns how many rows there are."""
    width, many = ports.shape[1], np.int64(0)
    for s in range(len(status)):
        if status[s] == FREE:
            continue
        number[s] = many
        if many != s:
            status[many], stream[many] = status[s], stream[s]
            for c in range(r64.shape[1]):  # the whole record
                r64[many, c] = r64[s, c]
        many += 1
    for s in range(many):
        for j in range(width + 1):  # chains by port, then the list by age
            at, step = (3 * width + 6 + j, width) if j < width else (5 * width + 6, np.int64(1))
            if j < width and ports[stream[s], j, NB] < 0:
                continue
            for c in (at, at + step):
                if r32[s, c] >= 0:
                    r32[s, c] = number[r32[s, c]]
    for b in range(len(head)):
        if head[b] >= 0:
            head[b] = number[head[b]]
    for i in range(fifo.shape[0]):
        for end in range(2):
            if fifo[i, end] >= 0:
                fifo[i, end] = number[fifo[i, end]]
    for q in range(len(cursor) - 2):
        if cursor[q] >= 0:
            cursor[q] = number[cursor[q]]
    for s in range(many, size):
        status[s] = FREE
        r32[s, 5 * width + 6] = s + 1 if s + 1 < size else -1
    cursor[len(cursor) - 1] = many if many < size else -1
    return many


@kernel("int64(int64, int32[:, ::1], int64[::1], int64[::1])", borrows=True)
def take_free(width, r32, cursor, out):
    """Slots for rows out of the list of the free ones; returns how many there were, and takes none if too few."""
    s, many = cursor[len(cursor) - 1], np.int64(0)
    while s >= 0 and many < len(out):
        out[many] = s
        many += 1
        s = np.int64(r32[s, 5 * width + 6])
    if many == len(out):
        cursor[len(cursor) - 1] = s
    return many


@kernel(f"int64(int64, int64, {B1}, {B1}, int32[:, ::1], {I2}, {I1})", work=lambda *args: len(args[6]), borrows=True)
def move_places(owner, width, status, stream, r32, fifo, places):
    """Give the rows of an input that are stored the places 0, 1, …, and put out where they were stored; returns how
    many. Few of many slots are found along their list, others along all slots, which lie in order."""
    many = np.int64(0)
    if SLOTS_PER_LISTED_ROW * len(places) < len(status):
        s = fifo[owner, 0]
        while s >= 0:
            if r32[s, 5 * width + 8] >= 0:
                places[many] = r32[s, 5 * width + 8]
                r32[s, 5 * width + 8] = many
                many += 1
            s = np.int64(r32[s, 5 * width + 6])
        return many
    for s in range(len(status)):
        if status[s] != FREE and stream[s] == owner and r32[s, 5 * width + 8] >= 0:
            places[many] = r32[s, 5 * width + 8]
            r32[s, 5 * width + 8] = many
            many += 1
    return many


@kernel(f"int64(int64, {B1}, uint16[:, ::1], {I1})", work=lambda *args: len(args[1]), borrows=True)
def victims(width, status, r16, slots):
    """The slots of the rows that are to be spilled; returns how many."""
    many = np.int64(0)
    for s in range(len(status)):
        if status[s] != FREE and r16[s, 12 * width + 19] & VICTIM:
            slots[many] = s
            many += 1
    return many
