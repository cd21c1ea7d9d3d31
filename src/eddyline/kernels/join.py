"""The multiway windowed join (MJoin, thesis 5.1) over signed elements, as one kernel that takes the plan as data.

The invariant: elements are applied one after another in time order (at one instant: expiries first, then arrivals,
lower input first), and each is joined with the *current* contents of the other inputs before it changes its own. So
the output, added up to any instant, is the join of the inputs at that instant.

``join_element`` has the loop that takes an element through its pipeline. That loop is part of this kernel twice: with
all features, and with the plain steps for the elements that need no more. A call instead would cost more than an
element, because of the many arrays. ``join_turns`` chooses the next element and applies its changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import u
from eddyline.kernels.join_element import run_full_pipeline, run_join_steps
from eddyline.kernels.join_groups import Caches, Contents, Events, Loops, Output, Profiling, Turns
from eddyline.kernels.join_layout import I1, I2
from eddyline.kernels.join_slices import elements, in_slices
from eddyline.kernels.join_turns import (
    ASKED_FOR,
    begin_arrival,
    begin_leaving,
    begin_profile,
    crowded_store,
    enter,
    expire,
    first_turns,
    next_in_time,
    pipelines_with_more,
)

SIGNATURE = (
    f"int64(int64, int64, {I2}, {I2}, {I2}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1},"
    f" {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1},"
    f" {I2}, {I2}, {I2}, {I1}, {I1}, {I2}, {I1}, {I1},"
    f" {I2}, {I2}, {I1}, {I2}, {I1}, {I2}, {I2}, {I1},"
    f" {I1}, {I1}, {I2}, {I1})"
)


def _compiled(name: str, full: bool, seconds: float) -> Any:
    """The kernel, with or without everything that plans without caches, conditions and samples can do without.
    ``seconds`` is what it takes to compile, about."""

    @kernel(SIGNATURE, name=name, work=elements, slices=in_slices, seconds=seconds, borrows=True)
    def mjoin(
        frontier, limit, inputs, indexes, steps, index_columns, probes, heads, records, codes, leave, weight, rownum,
        born, first, tail,
        ev_time, ev_code, ev_leave, ev_weight, ev_slot, ev_valid, next_event, counters,
        stores, lookups, updates, cells, segment, conditions, bits, refs,
        machine, wanted, active, sample_at, samples, paths, profile, path_from,
        out_time, out_weight, out_rows, result,
    ):  # fmt: skip
        """Apply events with time ≤ frontier. ``result[0]`` is the number of results, with those of earlier calls that
        the caller has not yet taken. Returns

        DONE: all are applied; PAUSE: ``limit`` have arrived, or there were MAX_PROBES probes; FULL: there is no room
        for more results, the element goes on in the next call; GROW: input ``result[1]`` has no room or no heads for
        another row; CROWDED: the complete store ``result[1]`` is nearly full. But for FULL every element has been
        applied or has not begun.
        """
        # Of what an element's own loop takes nothing is counted as a reference, which would cost more than an element.
        contents = Contents(
            inputs, indexes, steps, index_columns, probes,
            heads, records, codes, leave, weight, rownum,
            born, first, tail,
        )  # fmt: skip
        events = Events(
            ev_time, ev_code, ev_leave, ev_weight, ev_slot,
            ev_valid, next_event,
        )  # fmt: skip
        caches = Caches(
            stores, lookups, updates, cells, segment,
            conditions, bits, refs,
        )  # fmt: skip
        profiling = Profiling(sample_at, samples, paths, profile, path_from)
        m = inputs.shape[0]
        loops = Loops(
            machine[k.BOUND], machine[k.CURSOR], machine[k.FACTOR],
            machine[k.TICK], machine[k.MEMO], machine[k.MEMO_TICK],
            machine[k.HOME], machine[k.FLOOR], machine[k.CACHE_HIT],
            machine[k.BUILDING], wanted, wanted[m],
        )  # fmt: skip
        out = Output(out_time, out_weight, out_rows)
        turns = Turns(machine[k.NEXT_TIME], machine[k.NEXT_LEAVE])
        held = peak = first_turns(contents, events, turns)
        found, probed, links, arrived = result[0], np.int64(0), np.int64(0), np.int64(0)
        most = counters[k.CN_MAX_PROBES] - counters[k.CN_PROBES]
        needs_full = machine[k.NEEDS_FULL]
        if full:
            pipelines_with_more(m, steps, needs_full)
        complete = False
        for i in range(stores.shape[0]):
            complete = complete or stores[i, k.SR_COMPLETE] != 0
        far, clock, status = counters[k.CN_FAR] != 0, active[k.AC_CLOCK], k.DONE
        resumed = active[k.AC_ACTIVE] != 0
        while True:
            if resumed:  # go on with the element that had no room
                s, t, pos, sign = active[k.AC_INPUT], active[k.AC_TIME], active[k.AC_POS], active[k.AC_SIGN]
                leaving, depth, fresh = active[k.AC_LEAVING] != 0, active[k.AC_DEPTH], active[k.AC_FRESH] != 0
                at, enters, sample = u(active[k.AC_AT]), active[k.AC_ENTERS] != 0, active[k.AC_SAMPLE]
                resumed, shows = False, True
                active[k.AC_ACTIVE] = 0
            else:
                s, t, d, e = next_in_time(m, turns)
                if s < 0 and e > frontier:
                    break
                if full and complete:
                    result[1] = crowded_store(stores)
                    if result[1] >= 0:
                        status = k.CROWDED
                        break
                leaving, sample, depth, fresh, at, enters = e <= t, np.int64(-1), np.int64(0), True, u(0), False
                if leaving:
                    # Rows leave before anything arrives at the same instant; in time order where deletions are wanted.
                    mode = inputs[u(d), k.DELETES]
                    shows = mode == k.ALL_DELETIONS or (mode == k.AT_ARRIVALS and e == t)
                    s, t, pos, sign = d, e, first[u(d)], np.int64(-1)
                    if shows:
                        shows, sample = begin_leaving(s, pos, full, far, contents, profiling, counters)
                else:
                    if arrived >= limit or probed >= most:
                        status = k.PAUSE
                        break
                    if inputs[u(s), k.KIND] == k.RING and tail[u(s)] - first[u(s)] >= inputs[u(s), k.ROOM]:
                        status, result[1] = k.GROW, s
                        break
                    arrived += 1
                    at = u(inputs[u(s), k.EV_OFF] + next_event[u(s)])
                    shows, sign = ev_valid[at] != 0, ev_weight[at]
                    pos, enters, sample = begin_arrival(s, at, shows, full, far, contents, events, profiling)
                if shows:
                    loops.bound[u(s)], loops.factor[0] = pos, sign
                    clock += 1
                    loops.tick[0] = clock
                    if full:
                        loops.floor[0] = -1
                        if sample == ASKED_FOR and counters[k.CN_SAMPLES] < profile.shape[0]:
                            sample = begin_profile(s, pos, m, contents, conditions, profiling, loops.wanted, counters)

            if shows:
                if full and (needs_full[u(s)] != 0 or sample >= 0):
                    depth, fresh, found, probed, links, clock = run_full_pipeline(
                        s, t, pos, sign, leaving, enters, sample, depth, fresh, found, probed, links, clock,
                        contents, caches, loops, profiling.profile, out,
                    )  # fmt: skip
                else:
                    depth, fresh, found, probed, links, clock = run_join_steps(
                        s, t, pos, sign, leaving, enters, sample, depth, fresh, found, probed, links, clock,
                        contents, caches, loops, profiling.profile, out,
                    )  # fmt: skip
                if depth >= 0:
                    status = k.FULL
                    active[k.AC_ACTIVE] = 1
                    active[k.AC_INPUT], active[k.AC_TIME], active[k.AC_POS], active[k.AC_SIGN] = s, t, pos, sign
                    active[k.AC_LEAVING], active[k.AC_DEPTH], active[k.AC_FRESH] = leaving, depth, fresh
                    active[k.AC_AT], active[k.AC_ENTERS], active[k.AC_SAMPLE] = at, enters, sample
                    break

            if leaving:
                held -= 1
                expire(u(s), contents, turns)
            else:
                held += np.int64(inputs[u(s), k.KIND] == k.RING)
                peak = max(peak, held)
                enter(u(s), pos, at, sign, shows, enters, contents, events, turns)
        counters[k.CN_PROBES] += probed
        counters[k.CN_LINKS] += links
        counters[k.CN_PEAK] = max(counters[k.CN_PEAK], peak)
        active[k.AC_CLOCK] = clock
        result[0] = found
        return status

    return mjoin


mjoin = _compiled("mjoin", True, 10.0)
plain_mjoin = _compiled("plain_mjoin", False, 4.0)
