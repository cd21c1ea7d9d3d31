"""The multiway windowed join (MJoin, thesis 5.1) over signed elements, as one kernel that takes the plan as data.

The invariant: elements are applied one after another in time order (at one instant: expiries first, then arrivals,
lower input first), and each is joined with the *current* contents of the other inputs before it changes its own. So
the output, added up to any instant, is the join of the inputs at that instant.

What an element meets on its way through its pipeline is in ``join_element``. That loop is part of this kernel twice:
with everything, and with the bare steps for the elements that need no more. A call instead would cost more than an
element, for the many arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import borrowed, kernel
from eddyline.kernels.hashing import u
from eddyline.kernels.join_ahead import AHEAD, NEARER, fetch_heads, fetch_records
from eddyline.kernels.join_element import run_full_pipeline, run_join_steps
from eddyline.kernels.join_index import link, unlink
from eddyline.kernels.join_layout import I1, I2
from eddyline.kernels.join_profile import drops
from eddyline.kernels.join_slices import elements, in_slices

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

    @kernel(SIGNATURE, name=name, work=elements, slices=in_slices, seconds=seconds)
    def mjoin(
        frontier, limit, inputs, indexes, steps, index_columns, probes, heads, records, codes, leave, weight, rownum,
        born, first, tail,
        ev_time, ev_code, ev_leave, ev_weight, ev_slot, ev_valid, next_event, counters,
        stores, lookups, updates, cells, segment, conditions, bits, refs,
        machine, wanted, active, sample_at, samples, paths, profile, path_from,
        out_time, out_weight, out_rows, result,
    ):  # fmt: skip
        """Apply events with time ≤ frontier. ``result[0]`` is the number of results, those of earlier calls that nobody
        has taken among them. Returns

        DONE: all are applied; PAUSE: ``limit`` have arrived, or there were MAX_PROBES probes; FULL: there is no room
        for more results, the element goes on in the next call; GROW: input ``result[1]`` has no room or no heads for
        another row; CROWDED: the complete store ``result[1]`` is nearly full. But for FULL every element has been
        applied or has not begun.
        """
        # Of what an element's own loop takes nothing is counted as a reference, which would cost more than an element.
        contents = (
            borrowed(inputs), borrowed(steps), borrowed(probes), borrowed(heads), borrowed(records), borrowed(codes),
            borrowed(weight), borrowed(rownum), borrowed(born), borrowed(first),
        )  # fmt: skip
        caches = (
            borrowed(stores), borrowed(lookups), borrowed(updates), borrowed(cells), borrowed(segment),
            borrowed(conditions), borrowed(bits), borrowed(refs), borrowed(wanted), borrowed(profile),
        )  # fmt: skip
        loops = (
            borrowed(machine[k.BOUND]), borrowed(machine[k.CURSOR]), borrowed(machine[k.FACTOR]),
            borrowed(machine[k.TICK]), borrowed(machine[k.MEMO]), borrowed(machine[k.MEMO_TICK]),
            borrowed(machine[k.HOME]), borrowed(machine[k.FLOOR]), borrowed(machine[k.CACHE_HIT]),
            borrowed(machine[k.BUILDING]), borrowed(wanted[inputs.shape[0]]),
        )  # fmt: skip
        out = borrowed(out_time), borrowed(out_weight), borrowed(out_rows)
        m = inputs.shape[0]
        found = result[0]
        probed = np.int64(0)
        links = np.int64(0)
        arrived = np.int64(0)
        most = counters[k.CN_MAX_PROBES] - counters[k.CN_PROBES]
        bound, factor, tick, floor = machine[k.BOUND], machine[k.FACTOR], machine[k.TICK], machine[k.FLOOR]
        next_time = np.full(m, k.NEVER, np.int64)
        next_leave = np.full(m, k.NEVER, np.int64)
        for i in range(m):
            if next_event[i] < inputs[i, k.EV_LEN]:
                next_time[i] = ev_time[inputs[i, k.EV_OFF] + next_event[i]]
            if inputs[i, k.KIND] == k.RING and first[i] < tail[i]:
                next_leave[i] = leave[inputs[i, k.POS_OFF] + (first[i] & inputs[i, k.POS_MASK])]
                if inputs[i, k.LIMIT] > 0 and tail[i] - first[i] >= inputs[i, k.LIMIT]:
                    next_leave[i] = next_time[i]
        needs_full = np.zeros(m, np.bool_)  # whether a pipeline has more than steps
        if full:
            for row in range(m * (m - 1)):
                if steps[row, k.ST_LOOKUP_END] > steps[row, k.ST_LOOKUP] or steps[row, k.ST_AFTER] != 0:
                    needs_full[row // (m - 1)] = True
        complete = False
        for i in range(stores.shape[0]):
            complete = complete or stores[i, k.SR_COMPLETE] != 0
        far = counters[k.CN_FAR] != 0
        clock = active[k.AC_CLOCK]
        status = k.DONE
        resumed = active[k.AC_ACTIVE] != 0
        while True:
            if resumed:  # go on with the element that had no room
                s, t, pos, sign = active[k.AC_INPUT], active[k.AC_TIME], active[k.AC_POS], active[k.AC_SIGN]
                leaving, depth, fresh = active[k.AC_LEAVING] != 0, active[k.AC_DEPTH], active[k.AC_FRESH] != 0
                at, enters, sample = u(active[k.AC_AT]), active[k.AC_ENTERS] != 0, active[k.AC_SAMPLE]
                resumed = False
                active[k.AC_ACTIVE] = 0
                shows = True
            else:
                s, t = np.int64(-1), k.NEVER
                d, e = np.int64(-1), k.NEVER
                for i in range(m):
                    if next_time[u(i)] < t:
                        t, s = next_time[u(i)], np.int64(i)
                    if next_leave[u(i)] < e:
                        e, d = next_leave[u(i)], np.int64(i)
                if s < 0 and e > frontier:
                    break
                if full and complete:
                    for i in range(stores.shape[0]):
                        if stores[i, k.SR_COMPLETE] != 0 and (
                            2 * stores[i, k.SR_ENTRIES] >= stores[i, k.SR_BUCKETS]
                            or 8 * stores[i, k.SR_LIVE] > 7 * stores[i, k.SR_NODES]
                        ):
                            status = k.CROWDED
                            result[1] = i
                    if status == k.CROWDED:
                        break
                leaving = e <= t
                sample = np.int64(-1)
                depth, fresh = np.int64(0), True
                at = u(0)
                if leaving:
                    # Rows leave before anything arrives at the same instant; in time order where deletions are wanted.
                    mode = inputs[u(d), k.DELETES]
                    shows = mode == k.ALL_DELETIONS or (mode == k.AT_ARRIVALS and e == t)
                    s, t, pos, sign = d, e, first[u(d)], np.int64(-1)
                    if shows:
                        shows = weight[u(inputs[u(s), k.POS_OFF] + (pos & inputs[u(s), k.POS_MASK]))] != 0
                        counters[u(k.CN_LEFT + s)] += np.int64(shows)
                        if full and sample_at[2, u(s)] > 0 and pos % sample_at[2, u(s)] == 0:
                            sample = np.int64(-2)  # asked for
                        if far:
                            width, behind = inputs[u(s), k.CODE_WIDTH], tail[u(s)] - pos
                            if behind > AHEAD:
                                place = inputs[u(s), k.CODE_OFF] + ((pos + AHEAD) & inputs[u(s), k.POS_MASK]) * width
                                fetch_heads(s, codes, place, inputs, indexes, index_columns, heads)
                            if behind > NEARER:
                                place = inputs[u(s), k.CODE_OFF] + ((pos + NEARER) & inputs[u(s), k.POS_MASK]) * width
                                fetch_records(s, codes, place, inputs, steps, probes, heads, records)
                    enters = False
                else:
                    if arrived >= limit or probed >= most:
                        status = k.PAUSE
                        break
                    if inputs[u(s), k.KIND] == k.RING and tail[u(s)] - first[u(s)] >= inputs[u(s), k.ROOM]:
                        status = k.GROW
                        result[1] = s
                        break
                    arrived += 1
                    at = u(inputs[u(s), k.EV_OFF] + next_event[u(s)])
                    shows = ev_valid[at] != 0
                    sign = ev_weight[at]
                    enters = shows
                    if inputs[u(s), k.KIND] == k.RING:
                        pos = tail[u(s)]
                    else:
                        pos = ev_slot[at]
                        if weight[u(inputs[u(s), k.POS_OFF] + (pos & inputs[u(s), k.POS_MASK]))] != 0:
                            enters = False
                        else:  # another life, also of a row that joins with nothing: what died here must stay dead
                            born[u(inputs[u(s), k.POS_OFF] + (pos & inputs[u(s), k.POS_MASK]))] += 1
                    width = inputs[u(s), k.CODE_WIDTH]
                    place = inputs[u(s), k.CODE_OFF] + (pos & inputs[u(s), k.POS_MASK]) * width
                    source = inputs[u(s), k.EV_CODE_OFF] + next_event[u(s)] * width
                    for c in range(width):
                        codes[u(place + c)] = ev_code[u(source + c)]
                    if far:
                        behind = inputs[u(s), k.EV_LEN] - next_event[u(s)]
                        if behind > AHEAD:
                            fetch_heads(s, ev_code, source + AHEAD * width, inputs, indexes, index_columns, heads)
                        if behind > NEARER:
                            fetch_records(s, ev_code, source + NEARER * width, inputs, steps, probes, heads, records)
                    if full and next_event[u(s)] == sample_at[0, u(s)]:
                        sample = np.int64(-2)  # asked for
                        sample_at[1, u(s)] += 1
                        sample_at[0, u(s)] = samples[u(sample_at[1, u(s)])]
                if shows:
                    bound[u(s)] = pos
                    factor[0] = sign
                    if full:
                        floor[0] = -1
                    clock += 1
                    tick[0] = clock
                    if full and sample == -2 and counters[k.CN_SAMPLES] < profile.shape[0]:
                        sample = counters[k.CN_SAMPLES]
                        counters[k.CN_SAMPLES] += 1
                        for c in range(profile.shape[1]):
                            profile[sample, c] = 0
                        profile[sample, 0] = s
                        for f in range(m - 1):
                            row = s * (m - 1) + f
                            work = drops(
                                s, pos, path_from[row], path_from[row + 1], inputs, paths, conditions, probes, heads,
                                records, codes, first, wanted[m + 1], wanted[m + 2],
                            )  # fmt: skip
                            profile[sample, 1 + f] = work
                            counters[k.CN_PROFILING] += abs(work)

            if shows:
                if full and (needs_full[u(s)] or sample >= 0):
                    depth, fresh, found, probed, links, clock = run_full_pipeline(
                        s, t, pos, sign, leaving, enters, sample, depth, fresh, found, probed, links, clock,
                        contents, caches, loops, out,
                    )  # fmt: skip
                else:
                    depth, fresh, found, probed, links, clock = run_join_steps(
                        s, t, pos, sign, leaving, enters, sample, depth, fresh, found, probed, links, clock,
                        contents, caches, loops, out,
                    )  # fmt: skip
                if depth >= 0:
                    status = k.FULL
                    active[k.AC_ACTIVE] = 1
                    active[k.AC_INPUT], active[k.AC_TIME], active[k.AC_POS], active[k.AC_SIGN] = s, t, pos, sign
                    active[k.AC_LEAVING], active[k.AC_DEPTH], active[k.AC_FRESH] = leaving, depth, fresh
                    active[k.AC_AT], active[k.AC_ENTERS], active[k.AC_SAMPLE] = at, enters, sample
                    break

            own = u(s)
            mask = inputs[own, k.POS_MASK]
            if leaving:
                first[own] += 1
                next_leave[own] = k.NEVER
                if first[own] < tail[own]:
                    next_leave[own] = leave[u(inputs[own, k.POS_OFF] + (first[own] & mask))]
                continue
            where = u(inputs[own, k.POS_OFF] + (pos & mask))
            if inputs[own, k.KIND] == k.RING:
                leave[where] = ev_leave[at]
                weight[where] = ev_valid[at]  # 0: has a NULL key, joins with nothing
                if first[own] == tail[own]:
                    next_leave[own] = ev_leave[at]
                tail[own] += 1
            else:
                before = weight[where]
                weight[where] = before + sign
                leave[where] = ev_valid[at]
                if shows and before != 0 and weight[where] == 0:
                    unlink(s, pos, inputs, indexes, heads, records)
            if enters:
                place = inputs[own, k.CODE_OFF] + (pos & mask) * inputs[own, k.CODE_WIDTH]
                for index in range(inputs[own, k.INDEX_FROM], inputs[own, k.INDEX_TO]):
                    ring = inputs[own, k.KIND] == k.RING
                    link(u(index), pos, codes, place, mask, ring, indexes, index_columns, heads, records)
            next_event[own] += 1
            next_time[own] = k.NEVER
            if next_event[own] < inputs[own, k.EV_LEN]:
                next_time[own] = ev_time[u(inputs[own, k.EV_OFF] + next_event[own])]
            if inputs[own, k.LIMIT] > 0 and tail[own] - first[own] >= inputs[own, k.LIMIT]:
                next_leave[own] = next_time[own]  # a full tuple-based window: the next element expels the oldest
        counters[k.CN_PROBES] += probed
        counters[k.CN_LINKS] += links
        active[k.AC_CLOCK] = clock
        result[0] = found
        return status

    return mjoin


mjoin = _compiled("mjoin", True, 10.0)
plain_mjoin = _compiled("plain_mjoin", False, 4.0)
