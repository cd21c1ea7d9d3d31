"""Garbage collection of a constrained join: which rows constraints make useless (thesis 6.6.2, 6.7.2, 6.8.2, 6.8.6).

Three facts say that *no future row of a neighbour matches a row at a port*: the neighbour has received k more rows
since the row came, or so much time has passed (RIDS), its rows of that key have all come (CA, ``closed``), or its
future keys are larger (OA, ``low``).

- A row without a match at such a port is NO, and so are the rows that need it (RIDS and OAC for a parent that waits for
  its child; OAP for a child that no parent references).
- A row is useless if it is NO and a root, or NO and no parent will ask for it.
- A YES row of the only root has been part of all its results (Theorem 6.3.5).
- A row is useless if no UNKNOWN row of any root matches it and no future one will (Theorem 6.7.1).

Where deletions can show, a row of a current result has to stay: then a row is useless only if it has no match at some
port, or is NO.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.constrained_layout import (
    BY_MANY_ONE,
    BY_OAC,
    BY_OAP,
    BY_RIDS,
    CHANGED,
    DOWN,
    FAILED,
    FIRST_MARK,
    FREE,
    KINDS,
    LOWEST,
    MARKED,
    MARKED_AT,
    MARKS,
    NB,
    NBP,
    NEVER_USED,
    NO,
    NOTICE_LAG,
    NOTICE_LOW,
    QUEUED,
    SAMPLED,
    TICKS,
    TURN,
    TWO_WAY,
    UNKNOWN,
    VICTIM,
    WRAP,
    YES,
)
from eddyline.kernels.constrained_rows import (
    AHEAD,
    I1,
    ROWS,
    Rows,
    after,
    fetch,
    fetch_first,
    first,
    push,
    settle,
)
from eddyline.kernels.constrained_staging import (
    goes_at_end,
    goes_at_once,
    is_only_match,
    stage_row,
    take_out_of_memory,
)
from eddyline.kernels.hashing import mix


class Inferences(NamedTuple):
    """What a collection may infer. By port: ``wait`` rows of the neighbour are waited for (RIDS), ``low`` is a bound on
    its future keys (OA), which follows the largest key that came ``lag`` arrivals ago (``marks``: how many arrivals of
    the neighbour were counted, its largest key, then both and the time as they were some arrivals ago, in turn).
    ``units`` says by port what ``wait`` and what ``lag`` count: rows of the neighbour or ticks. ``notice`` is the same
    a little earlier than ``wait``, ``low`` and ``lag``, and whether a row was noticed.

    By input (``facts``): root; the one root of a graph all of whose edges are many-one; such a graph's roots are all
    parents of the input; NO rows need not stay, for parents learn from RIDS or OAC what they would tell. ``share`` of
    65,536 useless rows stay, as sampled ones. ``spills``: useless rows are staged (``stage``), and those that the run
    may need stay to its end. ``removed`` counts rows by input and kind; ``victims`` has room for all slots."""

    deletes: Any
    spills: Any
    share: Any
    wait: Any
    low: Any
    lag: Any
    units: Any
    notice: Any
    marks: Any
    facts: Any
    removed: Any
    victims: Any
    stage: Any


@inlined
def is_sampled(key, share):
    """Whether useless rows of a key are kept to the end of their windows, to see what others miss; ``share`` of 65,536.
    Rows of one key are sampled together: the rows that they match are kept as well."""
    return (mix(np.int64(17), key) & np.int64(65535)) < share


@inlined
def infer_at(rows, width, s, owner, j, why):
    """Make a row NO if it has no match at a port, where none will come."""
    status = rows.status[s]
    down = rows.ports[owner, j, DOWN] != 0
    gone = 10 * width + 18 + j
    if (status != UNKNOWN and status != YES) or rows.r16[s, gone] != 0 or (status == YES and down):
        return
    other, p = rows.ports[owner, j, NB], rows.ports[owner, j, NBP]
    if first(rows, width, other * width + p, p, rows.r64[s, j]) < 0:
        rows.r16[s, gone] = why + KINDS * (owner * width + j)
        settle(rows, width, push(rows, width, s, np.int64(0)), np.int64(-1))


@inlined
def infer_below(rows, width, owner, j, low):
    """Make rows of an input NO that have no match at a port and whose keys are below all future ones there; returns how
    many rows were looked at. They are all of the input, in the order in which they came: others are not touched."""
    why = np.int64(BY_OAC) if rows.ports[owner, j, DOWN] else np.int64(BY_OAP)
    looked = np.int64(0)
    s = rows.fifo[owner, 0]
    while s >= 0:
        if rows.r64[s, j] < low and (rows.status[s] == UNKNOWN or rows.status[s] == YES):
            infer_at(rows, width, s, owner, j, why)
        s = np.int64(rows.r32[s, 5 * width + 6])
        looked += 1
    return looked


@inlined
def waited(rows, width, s, j, unit, arrived, now):
    """How long a row has waited for the neighbour at a port: rows that came there, or ticks that are over."""
    if unit == TICKS:
        return now - rows.r64[s, width + 2] - 1  # rows of this instant may still come
    return (arrived - np.int64(rows.r32[s, 2 * width + 6 + j])) & np.int64(WRAP)


@inlined
def infer(rows, width, plan, arrived, now):
    """Make rows NO that have no match at a port and will get none; returns how many rows were looked at.

    Rows of one input wait since they came, so RIDS looks at each once, the oldest first, when its wait is over."""
    looked = np.int64(0)
    for owner in range(rows.ports.shape[0]):
        for j in range(width):
            other, at = rows.ports[owner, j, NB], owner * width + j
            if other < 0:
                continue
            if plan.low[at] > LOWEST:
                looked += infer_below(rows, width, np.int64(owner), j, plan.low[at])
            if plan.wait[at] >= NEVER_USED:
                continue
            s = rows.cursor[at]
            while s >= 0 and waited(rows, width, s, j, plan.units[0, at], arrived[other], now) >= plan.wait[at]:
                infer_at(rows, width, s, np.int64(owner), j, np.int64(BY_RIDS))
                s = np.int64(rows.r32[s, 5 * width + 6])
                looked += 1
            rows.cursor[at] = s
    return looked


@inlined
def marked(plan, at, lag, now):
    """The largest key that had come to a port ``lag`` arrivals or ticks ago, by its marks; LOWEST: there is none."""
    turn = plan.marks[at, TURN]
    for back in range(1, min(turn, MARKS) + 1):
        place = FIRST_MARK + 3 * ((turn - back) % MARKS)
        age = (
            now - plan.marks[at, place + 2] - 1
            if plan.units[1, at] == TICKS
            else plan.marks[at, 0] - plan.marks[at, place]
        )
        if age >= lag:
            return plan.marks[at, place + 1]
    return np.int64(LOWEST)


@inlined
def raise_low(plan, now):
    """Raise the bounds on future keys to the largest that came ``lag`` arrivals or ticks ago."""
    for at in range(len(plan.low)):
        if plan.low[at] > LOWEST and plan.lag[at] < NEVER_USED:
            plan.low[at] = max(plan.low[at], marked(plan, at, plan.lag[at], now))


@inlined
def mark(plan, at, now):
    """Remember the count and the largest key of a port, and the time; and raise the bound below which keys are
    noticed."""
    place = FIRST_MARK + 3 * (plan.marks[at, TURN] % MARKS)
    plan.marks[at, place], plan.marks[at, place + 1] = plan.marks[at, 0], plan.marks[at, 1]
    plan.marks[at, place + 2] = now
    plan.marks[at, MARKED], plan.marks[at, MARKED_AT] = plan.marks[at, 0], now
    plan.marks[at, TURN] += 1
    plan.notice[NOTICE_LOW, at] = max(plan.notice[NOTICE_LOW, at], marked(plan, at, plan.notice[NOTICE_LAG, at], now))


@inlined
def no_more_parents(rows, width, s, low):
    """Why no future row of any parent matches a row; 0: one may, or there is no parent."""
    owner = np.int64(rows.stream[s])
    why = np.int64(0)
    for j in range(width):
        other, p = rows.ports[owner, j, NB], rows.ports[owner, j, NBP]
        if other < 0 or rows.ports[other, p, DOWN] == 0:
            continue
        if rows.r16[s, 11 * width + 18 + j] != 0:
            why = np.int64(rows.r16[s, 11 * width + 18 + j])
        elif rows.r64[s, j] < low[owner * width + j]:
            why = BY_OAP + KINDS * (owner * width + j)
        else:
            return np.int64(0)
    return why


@inlined
def waited_for(rows, width, s):
    """Whether an UNKNOWN row of a parent matches a row."""
    owner = np.int64(rows.stream[s])
    for j in range(width):
        other, p = rows.ports[owner, j, NB], rows.ports[owner, j, NBP]
        if other < 0 or rows.ports[other, p, DOWN] == 0:
            continue
        node = first(rows, width, other * width + p, p, rows.r64[s, j])
        while node >= 0:
            if rows.status[node] == UNKNOWN:
                return True
            node = after(rows, width, p, node, rows.r64[s, j])
    return False


@inlined
def matches_everywhere(rows, width, s):
    """Whether a row has a match at every port, so that it may be part of a result."""
    owner = np.int64(rows.stream[s])
    for j in range(width):
        other, p = rows.ports[owner, j, NB], rows.ports[owner, j, NBP]
        if other >= 0 and first(rows, width, other * width + p, p, rows.r64[s, j]) < 0:
            return False
    return True


@inlined
def useless(rows, width, s, plan):
    """Why a row is useless, 0 if it is not."""
    owner = np.int64(rows.stream[s])
    if rows.status[s] == NO:
        why = np.int64(rows.r16[s, 12 * width + 18])
        if plan.facts[0, owner] or plan.facts[3, owner]:
            return why
        for j in range(width):
            down = rows.ports[owner, j, DOWN] != 0
            if rows.ports[owner, j, NB] >= 0 and not down and rows.r16[s, 10 * width + 18 + j] != 0:
                return why
        return no_more_parents(rows, width, s, plan.low)
    if rows.status[s] == YES and plan.facts[1, owner]:
        return np.int64(0) if plan.deletes else np.int64(BY_MANY_ONE)
    if plan.facts[2, owner]:
        why = no_more_parents(rows, width, s, plan.low)
        if why == 0 or waited_for(rows, width, s):
            return np.int64(0)
        if not plan.deletes or not matches_everywhere(rows, width, s):
            return why
    return np.int64(0)


@inlined
def to_look_at(plan, owner, status):
    """Whether rows of an input and status may be useless: most are not, and are not touched."""
    if status == FREE:
        return False
    if status == NO or plan.facts[2, owner]:
        return True
    return status == YES and plan.facts[1, owner] != 0 and not plan.deletes


@inlined
def companions(rows, width, plan, x, why, top, staged):
    """Rows that are only part of results which are complete go with the row that completes them: the parents of a row
    that no future row needs, and the one-one partners of a root's row that has its results. Puts them on the stack,
    and −1 less the slot of those that can be staged because the row was, which is the only one that they match."""
    owner = np.int64(rows.stream[x])
    flags = 12 * width + 19
    for j in range(width):
        other, p = rows.ports[owner, j, NB], rows.ports[owner, j, NBP]
        if other < 0:
            continue
        upwards = rows.ports[other, p, DOWN] != 0 and why != BY_MANY_ONE
        across = rows.ports[owner, j, DOWN] != 0 and why == BY_MANY_ONE and rows.ports[owner, j, TWO_WAY] != 0
        if not upwards and not across:
            continue
        node = first(rows, width, other * width + p, p, rows.r64[x, j])
        alone = staged and plan.stage.ends[other] and is_only_match(rows, width, plan.stage, x, j)
        while node >= 0:
            if rows.r16[node, flags] & (QUEUED | SAMPLED | VICTIM) == 0 and rows.status[node] == YES:
                rows.r16[node, 12 * width + 18] = why
                rows.r16[node, flags] |= QUEUED
                rows.stack[top] = -1 - node if alone else node
                top += 1
            node = after(rows, width, p, node, rows.r64[x, j])
    return top


@inlined
def take_out(rows, width, plan, s, many):
    """If a row is useless, put it and what goes with it among the victims, of which there are ``many``, or mark them;
    returns how many victims there are then, and how many rows were useless."""
    flags = 12 * width + 19
    if rows.r16[s, flags] & (QUEUED | VICTIM):
        return many, np.int64(0)
    if rows.r16[s, flags] & SAMPLED and is_sampled(rows.r64[s, 0], plan.share):
        return many, np.int64(0)  # of those that were sampled some are not any more, where the share became smaller
    why = useless(rows, width, s, plan)
    if why == 0:
        return many, np.int64(0)
    found = np.int64(0)
    rows.r16[s, 12 * width + 18] = why
    rows.r16[s, flags] |= QUEUED
    rows.stack[0] = s
    top = np.int64(1)
    while top > 0:
        top -= 1
        x, staged = np.int64(rows.stack[top]), False
        if x < 0:
            x, staged = -1 - x, stage_row(rows, width, plan.stage, -1 - x)
        if not plan.spills and is_sampled(rows.r64[x, 0], plan.share):
            rows.r16[x, flags] = (rows.r16[x, flags] | SAMPLED) & (65535 - QUEUED)
        else:
            plan.removed[np.int64(rows.stream[x]), why % KINDS] += 1
            found += 1
            is_spilled = plan.spills and rows.r16[x, flags] & FAILED == 0
            staged = staged or (is_spilled and goes_at_once(rows, width, plan.stage, x, False))
            if is_spilled and not staged:
                rows.r16[x, flags] &= 65535 - QUEUED
                goes_at_end(rows, width, plan.stage, x)
            else:
                plan.victims[many] = x
                many += 1
        if not plan.deletes and rows.status[x] != NO:
            top = companions(rows, width, plan, x, why, top, staged)
    return many, found


@inlined
def collect(rows, width, plan, whole):
    """Take useless rows out, or mark them as victims; returns how many rows were looked at, and how many are so. Rows
    that became YES or NO since the last collection are looked at, and those that can become useless without a change of
    their status; all rows if it is to be a ``whole`` one."""
    many, useless_rows, looked = np.int64(0), np.int64(0), np.int64(0)
    changed = rows.cursor[len(rows.cursor) - 2]
    if whole or changed > CHANGED:
        for s in range(len(rows.status)):
            if to_look_at(plan, np.int64(rows.stream[s]), rows.status[s]):
                looked += 1
                many, found = take_out(rows, width, plan, np.int64(s), many)
                useless_rows += found
    else:
        for i in range(changed):
            if i + AHEAD < changed:
                fetch(rows, np.int64(rows.stack[len(rows.status) + 1 + i + AHEAD]))
            s = np.int64(rows.stack[len(rows.status) + 1 + i])
            if to_look_at(plan, np.int64(rows.stream[s]), rows.status[s]):
                many, found = take_out(rows, width, plan, s, many)
                useless_rows += found
        ends = np.int64(0)
        for i in range(rows.ports.shape[0]):
            ends += plan.facts[2, i]
        for i in range(rows.ports.shape[0] if ends > 0 else 0):
            # Rows of other inputs are useless as soon as they are NO, if they are roots or no parent will ask for them.
            if plan.facts[2, i] == 0 and (plan.facts[0, i] or plan.facts[3, i]):
                continue
            s = rows.fifo[i, 0]
            while s >= 0:
                if to_look_at(plan, np.int64(i), rows.status[s]):
                    looked += 1
                    many, found = take_out(rows, width, plan, s, many)
                    useless_rows += found
                s = np.int64(rows.r32[s, 5 * width + 6])
    rows.cursor[len(rows.cursor) - 2] = 0
    for i in range(many):
        if i + AHEAD < many:
            fetch(rows, np.int64(plan.victims[i + AHEAD]))
        x = np.int64(plan.victims[i])
        rows.r16[x, 12 * width + 19] &= 65535 - QUEUED
        take_out_of_memory(rows, width, x)
    return looked, useless_rows


@kernel(f"void({I1}, int64, int64, int64, {ROWS}, {I1})", borrows=True)
def close_keys(
    keys, child, p, why, ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack, kept
):  # fmt: skip
    """Mark the rows of an input whose key at port p has no future match: CA says that all of it have come. ``kept`` is
    1 for a key that an UNKNOWN row of the neighbour still has, which must wait (Condition C2)."""
    rows = Rows(ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack)
    width = ports.shape[1]
    other, q = ports[child, p, NB], ports[child, p, NBP]
    for i in range(len(keys)):
        fetch_first(rows, other * width + q, keys, i)
        fetch_first(rows, child * width + p, keys, i)
        kept[i] = 0
        node = first(rows, width, other * width + q, q, keys[i])
        while node >= 0 and kept[i] == 0:
            if status[node] == UNKNOWN:
                kept[i] = 1
            node = after(rows, width, q, node, keys[i])
        if kept[i]:
            continue
        node = first(rows, width, child * width + p, p, keys[i])
        while node >= 0:
            r16[node, 11 * width + 18 + p] = why
            node = after(rows, width, p, node, keys[i])
