"""The execution of a constrained join (thesis 6.3): a whole batch in one call, with its garbage collections.

Elements of all inputs are applied one by one in order of time. Before each, rows leave whose time has come. A row that
arrives is put into its chains, statuses are settled, and if the row is YES its results are looked for among YES rows,
which are all rows that can be part of one (``constrained_rows``). So an inference decides what stays in memory, never
what joins: should a match come against an inference, the inference is taken back first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.constrained_collect import Inferences, collect, infer, is_sampled, mark, raise_low
from eddyline.kernels.constrained_departures import Departures, find_departing
from eddyline.kernels.constrained_layout import (
    APPLIED,
    BY_MANY_ONE,
    CHANGED,
    COLLECT,
    COLLECTED,
    COLLECTIONS,
    CONSULT,
    DONE,
    DOWN,
    DROPPED,
    DUE,
    FAILED,
    FOUND,
    FREE,
    FULL,
    GROW,
    INVALID,
    KINDS,
    KNOWN_PORTS,
    LOWEST,
    MARK_EVERY,
    MARKED,
    MARKED_AT,
    NB,
    NBP,
    NEVER_USED,
    NO,
    NOTICE_LOW,
    NOTICE_WAIT,
    NOTICED,
    NOW,
    PEAK,
    PENDING,
    REJECTED,
    SAMPLED,
    SINCE,
    STEPS,
    TICKS,
    TWO_WAY,
    VICTIM,
    WHOLE,
    WRAP,
    YES,
)
from eddyline.kernels.constrained_rows import (
    B1,
    I1,
    I2,
    I3,
    ROWS,
    Rows,
    after,
    delist,
    depart,
    enlist,
    fetch,
    fetch_ahead,
    fetch_matches,
    first,
    forget_ahead,
    know,
    known,
    link_and_compare,
    push,
    release,
    settle,
    unlink,
)
from eddyline.kernels.constrained_staging import STAGE, Stage, goes_at_once, has_come
from eddyline.kernels.hashing import mix, u
from eddyline.kernels.join_layout import NEVER

MANY_PLACES = 1 << 18  # places of 16 bits in all records, above which most lie outside of the processor's nearest cache


class Measures(NamedTuple):
    """What is counted and measured. By input: rows that ``arrived``. By port: ``duplicates``, rows that came while
    another of their input had their key; ``steps``, join distances with the count of arrivals at which each was seen,
    those only that no later one reaches, and how many; behind those of all ports the same in ticks, with times.
    ``hits`` by why: results that need rows which were useless."""

    arrived: Any
    duplicates: Any
    steps: Any
    hits: Any


class Search(NamedTuple):
    """The nested loops of a search for results, and where they are put."""

    order: Any
    bound: Any
    cursor: Any
    progress: Any
    time: Any
    weight: Any
    sampled: Any
    places: Any


@inlined
def emit(rows, width, search, measures, s, weight, time):
    """Results of a row that is YES; False if there is no room for all of them, and then none is out."""
    many = rows.ports.shape[0]
    owner = np.int64(rows.stream[u(s)])
    flags = 12 * width + 19
    found = search.progress[FOUND]
    search.bound[owner] = s
    search.cursor[0] = -2
    depth = np.int64(0)
    while depth >= 0:
        target, p = search.order[owner, depth, 0], search.order[owner, depth, 1]
        source, q = search.order[owner, depth, 2], search.order[owner, depth, 3]
        key = rows.r64[u(search.bound[source]), u(q)]
        if search.cursor[depth] == -2 and source == owner and weight > 0:
            node = np.int64(rows.stack[u(len(rows.stack) - width + q)])
        elif search.cursor[depth] == -2:
            node = first(rows, width, target * width + p, p, key)
        else:
            node = after(rows, width, p, search.cursor[depth], key)
        while node >= 0 and rows.status[u(node)] != YES:
            node = after(rows, width, p, node, key)
        search.cursor[depth] = node
        if node < 0:
            depth -= 1
            continue
        search.bound[target] = node
        if depth < many - 2:
            depth += 1
            search.cursor[depth] = -2
            continue
        at = search.progress[FOUND]
        if at == len(search.time):
            search.progress[FOUND] = found
            return False
        search.time[at], search.weight[at], search.sampled[at] = time, weight, 0
        for i in range(many):
            x = search.bound[i]
            search.places[i, at] = rows.r32[u(x), u(5 * width + 8)]
            if rows.r16[u(x), u(flags)] & (SAMPLED | VICTIM):
                if rows.r16[u(x), u(flags)] & SAMPLED:
                    search.sampled[at] = mix(np.int64(17), rows.r64[u(x), 0]) | 1
                elif weight > 0:  # it is useful after all
                    rows.r16[u(x), u(flags)] &= 65535 - VICTIM
                    measures.hits[rows.r16[u(x), u(12 * width + 18)]] += 1
        search.progress[FOUND] = at + 1
    return True


@inlined
def measure(measures, port, arrived, distance):
    """Remember a distance, and forget those before it that are not larger."""
    steps = measures.steps
    n = steps[port, 0]
    while n > 0 and steps[port, 2 * n] <= distance:
        n -= 1
    if n == STEPS:  # of each two the larger distance at the later count: never less than what was seen
        for i in range(1, STEPS // 2 + 1):
            steps[port, 2 * i - 1], steps[port, 2 * i] = steps[port, 4 * i - 1], steps[port, 4 * i - 2]
        n = np.int64(STEPS // 2)
    steps[port, 2 * n + 1], steps[port, 2 * n + 2] = arrived, distance
    steps[port, 0] = n + 1


@inlined
def arrive(rows, width, plan, measures, s, now):
    """Count and measure an arrival, put the row into its chains and settle who depends on it. Inferences that it
    contradicts are taken back."""
    owner = np.int64(rows.stream[u(s)])
    gone, flags = 10 * width + 18, 12 * width + 19
    measures.arrived[owner] += 1
    arrived = measures.arrived[owner]
    top = np.int64(0)
    for j in range(width):
        other, p = rows.ports[u(owner), u(j), NB], rows.ports[u(owner), u(j), NBP]
        if other < 0:
            continue
        key = rows.r64[u(s), u(j)]
        port = other * width + p
        rows.r32[u(s), u(2 * width + 6 + j)] = np.int32(measures.arrived[other])
        if key < plan.notice[NOTICE_LOW, u(port)]:
            plan.notice[NOTICED, 0] = 1
        if key < plan.low[port]:
            plan.low[port] = LOWEST
        if plan.notice[MARK_EVERY, u(port)] < NEVER_USED:  # else marks are not used: those that there are get older
            plan.marks[port, 0] += 1
            plan.marks[port, 1] = max(plan.marks[port, 1], key)
            since = now - plan.marks[port, MARKED_AT]
            if plan.units[1, port] != TICKS:
                since = plan.marks[port, 0] - plan.marks[port, MARKED]
            if since >= plan.notice[MARK_EVERY, u(port)]:
                mark(plan, port, now)
        again = link_and_compare(rows, width, s, j)
        farthest, longest = np.int64(0), np.int64(0)
        node = first(rows, width, port, p, key)
        rows.stack[u(len(rows.stack) - width + j)] = node
        if not again and node >= 0 and rows.ports[u(other), u(p), DOWN] == 0:
            again = known(rows, width, node, p) == YES  # such a row was there and left at once
        measures.duplicates[owner * width + j] += again
        while node >= 0:
            farthest = max(farthest, (arrived - np.int64(rows.r32[u(node), u(2 * width + 6 + p)])) & np.int64(WRAP))
            longest = max(longest, now - rows.r64[u(node), u(width + 2)])
            if rows.r16[u(node), u(gone + p)] != 0:
                if rows.r16[u(node), u(flags)] & VICTIM:
                    rows.r16[u(node), u(flags)] &= 65535 - VICTIM
                    measures.hits[rows.r16[u(node), u(gone + p)]] += 1
                rows.r16[u(node), u(gone + p)] = 0
                top = push(rows, width, node, top)
            node = after(rows, width, p, node, key)
        if farthest > 0 and not again:
            measure(measures, port, arrived, farthest)
            if longest > 0:
                measure(measures, len(plan.wait) + port, now, longest)
            waited = longest if plan.units[0, port] == TICKS else farthest
            if waited > plan.notice[NOTICE_WAIT, u(port)]:
                plan.notice[NOTICED, 0] = 1
            if waited > plan.wait[port]:
                plan.wait[port] = NEVER_USED
    enlist(rows, width, s, rows.fifo[u(owner), 1])
    settle(rows, width, push(rows, width, s, top), s)


@inlined
def leave_at_once(rows, width, plan, progress, s):
    """A row of a root that is of no use as soon as it has come, because it has been part of all its results or can be
    part of none, need not wait for the next collection. Its partners remember that a row of its key was there: whether
    keys repeat is measured all the same."""
    owner = np.int64(rows.stream[u(s)])
    status = rows.status[u(s)]
    use = 1 if status == YES else 0  # the only root, or any
    if plan.deletes or status not in (YES, NO) or plan.facts[use, u(owner)] == 0:
        return
    if not plan.spills and is_sampled(rows.r64[u(s), 0], plan.share):
        return
    for j in range(width):
        other, p = rows.ports[u(owner), u(j), NB], rows.ports[u(owner), u(j), NBP]
        if other < 0:
            continue
        unmatched = rows.stack[u(len(rows.stack) - width + j)] < 0  # who will match it would not know of it
        if unmatched or rows.ports[u(owner), u(j), TWO_WAY] or p >= KNOWN_PORTS:
            return
    if status == YES:
        rows.r16[u(s), u(12 * width + 18)] = BY_MANY_ONE
    why = np.int64(rows.r16[u(s), u(12 * width + 18)]) % KINDS
    if plan.spills and not goes_at_once(rows, width, plan.stage, s, True):
        return
    for j in range(width):
        other, p = rows.ports[u(owner), u(j), NB], rows.ports[u(owner), u(j), NBP]
        node = np.int64(rows.stack[u(len(rows.stack) - width + j)]) if other >= 0 else np.int64(-1)
        while node >= 0:
            know(rows, width, node, p, np.int64(YES))
            node = after(rows, width, p, node, rows.r64[u(s), u(j)])
    plan.removed[u(owner), u(why)] += 1
    progress[DROPPED] += 1
    changed = rows.cursor[u(len(rows.cursor) - 2)]
    if 0 < changed <= CHANGED and rows.stack[u(len(rows.status) + changed)] == s:
        rows.cursor[u(len(rows.cursor) - 2)] = changed - 1
    unlink(rows, width, s)
    delist(rows, width, s)
    release(rows, width, s)


@inlined
def leave_until(rows, width, search, measures, departures, limits, deletes, until):
    """Let rows leave whose time has come or which are deleted, the first to leave first; False if results find no
    room. A deletion whose row is not in memory deletes what was dropped."""
    many = rows.ports.shape[0]
    while True:
        s, when, deleted = np.int64(-1), until, np.int64(-1)
        for i in range(many):
            oldest = rows.fifo[u(i), 0]
            if limits[i] < 0:
                at = departures.next[i]
                if at < departures.stop[i]:
                    leave = departures.time[at]
                    if leave < when or (leave == when and s < 0 and deleted < 0):
                        s, when, deleted = np.int64(-1), leave, np.int64(i)
            elif limits[i] == 0 and oldest >= 0:
                leave = rows.r64[u(oldest), u(width + 1)]
                if leave < when or (leave == when and s < 0 and deleted < 0):
                    s, when, deleted = oldest, leave, np.int64(-1)
        if deleted >= 0:
            s = find_departing(rows, width, departures, deleted)
        elif s < 0:
            return True
        if s >= 0:
            gone = deletes and rows.status[u(s)] == YES
            if gone and not emit(rows, width, search, measures, s, np.int64(-1), when):
                return False
            depart(rows, width, s)
        if deleted >= 0:
            departures.next[deleted] += 1


@inlined
def collect_garbage(rows, width, plan, measures, progress, every, rows_per_element):
    """One garbage collection. To look at rows may cost as much as a few arrivals, whatever there is: the next waits
    for as many elements as that takes."""
    progress[PEAK] = max(progress[PEAK], rows.live.sum())
    raise_low(plan, progress[NOW])
    looked = infer(rows, width, plan, measures.arrived, progress[NOW])
    more, useless = collect(rows, width, plan, progress[WHOLE] != 0)
    progress[WHOLE] = 0
    progress[DROPPED] += useless
    progress[SINCE], progress[DUE] = 0, max(every, (looked + more) // rows_per_element)
    progress[COLLECT] = 0
    progress[COLLECTED] += 1
    progress[COLLECTIONS] += 1


@inlined
def fill(rows, width, s, owner, number, leave, time, place, rejected, keys, at):
    """Take the first free slot for an arriving row."""
    rows.cursor[u(len(rows.cursor) - 1)] = rows.r32[u(s), u(5 * width + 6)]
    rows.stream[u(s)] = owner
    for j in range(width):
        rows.r64[u(s), u(j)] = keys[at, j]
    rows.r64[u(s), u(width)], rows.r64[u(s), u(width + 1)], rows.r64[u(s), u(width + 2)] = number, leave, time
    rows.r32[u(s), u(5 * width + 8)] = -1 if rejected else place
    for c in range(10 * width + 18, 12 * width + 20):
        rows.r16[u(s), u(c)] = 0
    if rejected:
        rows.r16[u(s), u(12 * width + 19)] = FAILED
    rows.status[u(s)] = FREE


@kernel(
    f"int64({I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I2}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, int64, {I1}, {B1},"
    f" int64, int64, int64, {ROWS}, {I3}, {I1}, {I1}, boolean, boolean, int64, {I1}, {I1}, {I1}, {I2}, {I2}, {I2},"
    f" {I2}, {I2}, int32[::1], {I1}, {I1}, {I2}, {I1}, {I1}, {STAGE}, {I1}, {I1}, {I1}, {I2})",
    work=lambda *args: len(args[0]),
    borrows=True,
)
def run(
    time, leave, place, place_from, clean, state, keys, next_, stop, gone_time, gone_identity, gone_key, gone_next,
    gone_stop, until, limits, skip, every, per_question, rows_per_element, ports, status, stream, r64, r32, r16, head,
    base, mask, fifo, live, cursor, stack, order, bound, loops, deletes, spills, share, wait, low, lag, units, notice,
    marks, facts, removed, victims, arrived, duplicates, steps, hits, progress, staged, staged_keys, staged_bounds,
    coming, coming_of, ends, marked, out_time, out_weight, out_sampled, out_places,
):  # fmt: skip
    """Apply the elements of all inputs, those of one after those of another, from ``next_`` to ``stop`` by input, and
    let rows leave up to ``until``; ``gone_`` are ``Departures``. ``limits`` by input are −1 for a relation, 0 for a
    time-based window, else rows. Without ``leave`` no window is time-based, without ``place`` rows are stored one
    after another (``place_from`` by input, less its first element). ``state`` says which cannot join or are rejected,
    of an input that is ``clean`` none; rejected rows of inputs in ``skip`` are only counted. ``out_sampled`` is a
    hash of the key of a result that a sampled row is part of."""
    rows = Rows(ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack)
    stage = Stage(staged, staged_keys, staged_bounds, coming, coming_of, ends, marked)
    plan = Inferences(deletes, spills, share, wait, low, lag, units, notice, marks, facts, removed, victims, stage)
    measures = Measures(arrived, duplicates, steps, hits)
    departures = Departures(gone_time, gone_identity, gone_key, gone_next, gone_stop)
    search = Search(order, bound, loops, progress, out_time, out_weight, out_sampled, out_places)
    many, width = ports.shape[0], ports.shape[1]
    far = r16.size >= MANY_PLACES
    forget_ahead(rows, width)
    left = np.int64(0)
    for i in range(many):
        left += stop[i] - next_[i]
    while True:
        if progress[PENDING] >= 0:
            if not emit(rows, width, search, measures, progress[PENDING], np.int64(1), progress[NOW]):
                return np.int64(FULL)
            leave_at_once(rows, width, plan, progress, progress[PENDING])
            progress[PENDING] = -1
        if progress[COLLECT] == 0 and progress[SINCE] >= progress[DUE]:
            # At first the control learns with every collection.
            question = min(per_question, 1 + progress[COLLECTIONS] // 4)
            due = progress[COLLECTED] + 1 >= question and 2 * left >= question * every  # else soon, at the end
            if due or left < progress[DUE] or notice[NOTICED, 0]:
                return np.int64(CONSULT)
            progress[COLLECT] = 1
        if progress[COLLECT]:
            collect_garbage(rows, width, plan, measures, progress, every, rows_per_element)
        owner, now = np.int64(-1), until
        for i in range(many):
            if next_[i] < stop[i] and (owner < 0 or time[next_[i]] < now):
                owner, now = np.int64(i), time[next_[i]]
        if not leave_until(rows, width, search, measures, departures, limits, deletes, now):
            return np.int64(FULL)
        if owner < 0:
            return np.int64(DONE)
        oldest = fifo[owner, 0]
        if limits[owner] > 0 and oldest >= 0 and r64[oldest, width] + limits[owner] <= arrived[owner]:
            if deletes and status[oldest] == YES and not emit(rows, width, search, measures, oldest, np.int64(-1), now):
                return np.int64(FULL)
            depart(rows, width, oldest)
            oldest = fifo[owner, 0]
            if oldest >= 0 and r32[oldest, 5 * width + 6] >= 0:
                fetch(rows, np.int64(r32[oldest, 5 * width + 6]))  # the next that departs
            continue
        at = next_[owner]
        if far:
            fetch_ahead(rows, width, owner, keys, at, stop[owner])
            fetch_matches(rows, width, owner, keys, at, stop[owner])
        kind = np.int64(0) if clean[owner] else state[at]
        rejected = kind & REJECTED != 0
        if kind & INVALID or (rejected and skip[owner]):
            arrived[owner] += 1
        else:
            s = cursor[len(cursor) - 1]
            if s < 0 or live[owner] > mask[owner * width]:
                return np.int64(GROW)
            if spills and not rejected:
                has_come(rows, width, stage, owner, keys, at)
            over = np.int64(NEVER) if len(leave) == 0 else leave[at]
            stored = place_from[owner] + at if len(place) == 0 else place[at]
            fill(rows, width, s, owner, arrived[owner], over, now, stored, rejected, keys, at)
            arrive(rows, width, plan, measures, s, now)
            if status[s] == YES:
                progress[PENDING] = s
            else:
                leave_at_once(rows, width, plan, progress, s)
        next_[owner] += 1
        left -= 1
        progress[NOW] = now
        progress[SINCE] += 1
        progress[APPLIED] += 1
