"""The multiway windowed join (MJoin, thesis 5.1) over signed elements, as one kernel that takes the plan as data.

The invariant: elements are applied one after another in time order (at one instant: expiries first, then arrivals,
lower input first), and each is joined with the *current* contents of the other inputs before it changes its own. So
the output, added up to any instant, is the join of the inputs at that instant.

A pipeline is, for each input, a sequence of steps; a step probes one index with codes taken from rows already bound.
An element runs through it depth first, in two phases that are one loop (5.2.2): what a probe finds depends on one level
only (READY), its first match is remembered as long as that level stays, and a probe that finds nothing ends all that
hangs on that level, not only the last choice. So until every input has been probed once only first matches are bound:
*drop probing*. From there the loops go on where the probes left off: *output generation*.

Caches are stations of a pipeline. CacheLookup before a segment binds all its rows from an entry (a hit), or has the
segment's whole result written into a new one (a miss); CacheUpdate after a prefix of another pipeline adds what a new
row joins with. Both need *all* joins of a segment: there a later probe that finds nothing must not end the loops inside
(FLOOR).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import mix, u
from eddyline.kernels.join_cache import SLOT, add, create, find, insert, unchain
from eddyline.kernels.join_index import unlink
from eddyline.kernels.join_layout import I1, I2
from eddyline.kernels.join_profile import count_key, drops
from eddyline.kernels.join_rows import code_of, holds_for

SIGNATURE = (
    f"int64(int64, int64, {I2}, {I2}, {I2}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1},"
    f" {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1}, {I1},"
    f" {I2}, {I2}, {I2}, {I1}, {I1}, {I2}, {I1}, {I1},"
    f" {I2}, {I2}, {I1}, {I2}, {I1}, {I2}, {I2}, {I1},"
    f" {I1}, {I1}, {I2}, {I1})"
)


def _compiled(stations: bool) -> Any:
    """The kernel, with or without everything that plans without caches, conditions and samples can do without."""

    @kernel(SIGNATURE)
    def mjoin(
        frontier, limit, inputs, indexes, steps, index_columns, probes, heads, records, codes, leave, weight, rownum,
        born, first, tail,
        ev_time, ev_code, ev_leave, ev_weight, ev_slot, ev_valid, next_event, counters,
        stores, looks, updates, cells, segment, conditions, bits, refs,
        machine, wanted, active, sample_at, samples, paths, profile, path_from,
        out_time, out_weight, out_rows, result,
    ):  # fmt: skip
        """Apply events with time ≤ frontier. ``result[0]`` is the number of results. Returns

        DONE: all are applied; PAUSE: ``limit`` have arrived; FULL: there is no room for more results, the element goes
        on in the next call; GROW: the ring of input ``result[1]`` is full; CROWDED: the complete store ``result[1]``
        nearly is. But for FULL every element has been applied or has not begun. The body is one loop, because a call
        with this many arrays costs more than an element.
        """
        m = inputs.shape[0]
        last = m - 2
        room = len(out_time)
        found = np.int64(0)
        probed = np.int64(0)
        links = np.int64(0)
        arrived = np.int64(0)
        bound, cursor, factor = machine[k.BOUND], machine[k.CURSOR], machine[k.FACTOR]
        tick, memo, memo_tick, home = machine[k.TICK], machine[k.MEMO], machine[k.MEMO_TICK], machine[k.HOME]
        floor, looked, building = machine[k.FLOOR], machine[k.LOOKED], machine[k.BUILDING]
        key = wanted[m]
        next_time = np.full(m, k.NEVER, np.int64)
        next_leave = np.full(m, k.NEVER, np.int64)
        for i in range(m):
            if next_event[i] < inputs[i, k.EV_LEN]:
                next_time[i] = ev_time[inputs[i, k.EV_OFF] + next_event[i]]
            if inputs[i, k.KIND] == k.RING and first[i] < tail[i]:
                next_leave[i] = leave[inputs[i, k.POS_OFF] + (first[i] & inputs[i, k.POS_MASK])]
                if inputs[i, k.LIMIT] > 0 and tail[i] - first[i] >= inputs[i, k.LIMIT]:
                    next_leave[i] = next_time[i]
        complete = False
        for i in range(stores.shape[0]):
            complete = complete or stores[i, k.SR_COMPLETE] != 0
        empty = False
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
                if stations and complete:
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
                        if stations and sample_at[2, u(s)] > 0 and pos % sample_at[2, u(s)] == 0:
                            sample = np.int64(-2)  # asked for
                    enters = False
                else:
                    if arrived >= limit:
                        status = k.PAUSE
                        break
                    if inputs[u(s), k.KIND] == k.RING and tail[u(s)] - first[u(s)] > inputs[u(s), k.POS_MASK]:
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
                        elif enters:
                            born[u(inputs[u(s), k.POS_OFF] + (pos & inputs[u(s), k.POS_MASK]))] += 1  # another life
                    width = inputs[u(s), k.CODE_WIDTH]
                    place = inputs[u(s), k.CODE_OFF] + (pos & inputs[u(s), k.POS_MASK]) * width
                    source = inputs[u(s), k.EV_CODE_OFF] + next_event[u(s)] * width
                    for c in range(width):
                        codes[u(place + c)] = ev_code[u(source + c)]
                    if stations and next_event[u(s)] == sample_at[0, u(s)]:
                        sample = np.int64(-2)  # asked for
                        sample_at[1, u(s)] += 1
                        sample_at[0, u(s)] = samples[u(sample_at[1, u(s)])]
                if shows:
                    bound[u(s)] = pos
                    factor[0] = sign
                    if stations:
                        floor[0] = -1
                    clock += 1
                    tick[0] = clock
                    if stations and sample == -2 and counters[k.CN_SAMPLES] < profile.shape[0]:
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

            if shows:  # join the element with the current contents of all other inputs
                while depth >= 0:
                    if depth > last:
                        if found >= room:
                            status = k.FULL
                            break
                        out_time[u(found)] = t
                        out_weight[u(found)] = factor[u(depth)]
                        for i in range(m):
                            if inputs[i, k.KIND] == k.BAG:
                                out_rows[i, found] = rownum[inputs[i, k.POS_OFF] + (bound[i] & inputs[i, k.POS_MASK])]
                            else:
                                out_rows[u(i), u(found)] = bound[u(i)]
                        found += 1
                        if stations and sample >= 0:
                            profile[sample, m + depth] += 1
                        depth -= 1
                        if stations:
                            depth = home[u(depth)]
                        fresh = False
                        continue
                    row = u(s * (m - 1) + depth)
                    if fresh:
                        if stations:
                            home[u(depth)] = depth
                            looked[u(depth)] = -1
                        if stations and sample >= 0:
                            profile[sample, m + depth] += 1
                        if stations and steps[row, k.ST_LOOK_END] > steps[row, k.ST_LOOK]:  # CacheLookup
                            for one_look in range(steps[row, k.ST_LOOK], steps[row, k.ST_LOOK_END]):
                                look = u(one_look)
                                probe = looks[look, k.LK_KEY_OFF]
                                h = np.int64(0)
                                for c in range(looks[look, k.LK_KEYS]):
                                    code = code_of(probe + 2 * c, probes, bound, inputs, codes)
                                    key[u(c)] = code
                                    h = mix(h, code)
                                if looks[look, k.LK_USED] == 0:
                                    count_key(look, h, looks, bits)
                                    continue
                                end = looks[look, k.LK_LAST]
                                building[u(end)] = 0
                                if stations and sample >= 0:
                                    continue  # a profiled element uses no cache
                                st = looks[look, k.LK_STORE]
                                bucket = find(stores, cells, st, key, h)
                                stores[st, k.SR_PROBES] += 1
                                stores[st, k.SR_PROBE_WORK] += 1
                                anchored = stores[st, k.SR_ANCHOR] == s
                                if bucket >= 0 and anchored:
                                    hold = u(bucket + stores[u(st), k.SR_BUCKET_WIDTH] - 1)
                                    anchor = cells[hold]
                                    if inputs[u(s), k.KIND] == k.RING:
                                        lives = anchor >= first[u(s)]
                                    else:
                                        own = u(inputs[u(s), k.POS_OFF] + (anchor & SLOT))
                                        lives = anchor >= 0 and born[own] == anchor >> k.LIFE and weight[own] != 0
                                    if not lives:
                                        bucket = -2 - bucket
                                    elif not leaving:
                                        cells[hold] = pos
                                        if inputs[u(s), k.KIND] == k.BAG:
                                            cells[hold] += born[u(inputs[u(s), k.POS_OFF] + pos)] << k.LIFE
                                if bucket >= 0 and cells[u(bucket + k.BK_HEAD)] < k.NODE:
                                    empty = True
                                elif bucket >= 0 or stores[u(st), k.SR_COMPLETE] != 0:
                                    looked[u(depth)] = look
                                    cursor[u(depth)] = bucket  # ≥ 0, or an entry that is not there: an empty one
                                    for c in range(depth, end + 1):
                                        home[u(c)] = depth
                                else:
                                    stores[st, k.SR_MISSES] += 1
                                    bucket = -2 - bucket
                                    writes, ref = True, np.int64(-1)
                                    if anchored:
                                        own = u(inputs[u(s), k.POS_OFF] + (pos & inputs[u(s), k.POS_MASK]))
                                        writes = not leaving and (enters or weight[own] + sign != 0)
                                        ref = pos if inputs[u(s), k.KIND] == k.RING else pos + (born[own] << k.LIFE)
                                    if writes:
                                        create(stores, cells, st, bucket, key, ref)
                                        building[u(end)] = bucket + 1
                        if stations and empty:  # a hit without a join: nothing that hangs on the key has a result
                            empty = False
                            upper = max(looks[u(look), k.LK_READY] - 1, floor[u(depth)])
                            depth = home[u(upper)] if upper >= 0 else np.int64(-1)
                            fresh = False
                            continue
                    begun = depth
                    if stations and looked[u(depth)] >= 0:  # from the entry of a cache
                        look = looked[u(depth)]
                        st = looks[look, k.LK_STORE]
                        n = stores[st, k.SR_SEGMENT]
                        nodes = stores[st, k.SR_NODE_OFF]
                        if fresh:
                            bucket = cursor[u(depth)]
                            node = cells[u(bucket + k.BK_HEAD)] - k.NODE if bucket >= 0 else np.int64(-1)
                            before = np.int64(-1)
                            memo[u(depth)] = bucket  # the place is not needed for a probe now
                            memo_tick[u(depth)] = -1
                        else:
                            bucket = memo[u(depth)]
                            before = cursor[u(depth)]
                            node = cells[u(nodes + before * (1 + n))]
                        while node >= 0:
                            stores[st, k.SR_PROBE_WORK] += 1
                            here = nodes + node * (1 + n)
                            lives = True
                            for x in range(n):
                                i = u(segment[u(stores[st, k.SR_INPUT_OFF] + x)])
                                ref = cells[u(here + 1 + x)]
                                if inputs[i, k.KIND] == k.RING:
                                    lives = ref >= first[i]
                                else:
                                    own = u(inputs[i, k.POS_OFF] + (ref & SLOT))
                                    lives = born[own] == ref >> k.LIFE and weight[own] != 0
                                if not lives:
                                    break
                            if lives:
                                break
                            following = cells[u(here)]
                            unchain(stores, cells, st, bucket, node, before)
                            node = following
                        if node < 0:
                            upper = depth - 1
                            if fresh:
                                upper = max(looks[look, k.LK_READY] - 1, floor[u(depth)])
                            depth = home[u(upper)] if upper >= 0 else np.int64(-1)
                            fresh = False
                            continue
                        cursor[u(depth)] = node
                        clock += 1
                        product = factor[u(depth)]
                        for x in range(n):
                            i = segment[u(stores[st, k.SR_INPUT_OFF] + x)]
                            ref = cells[u(here + 1 + x)]
                            if inputs[u(i), k.KIND] == k.BAG:
                                ref &= SLOT
                                product *= weight[u(inputs[u(i), k.POS_OFF] + ref)]
                            bound[u(i)] = ref
                        depth = looks[look, k.LK_LAST]
                        for c in range(begun, depth + 1):
                            tick[u(c + 1)] = clock
                        factor[u(depth + 1)] = product
                        row = u(s * (m - 1) + depth)
                    else:
                        target = steps[row, k.ST_TARGET]
                        ncols = steps[row, k.ST_COLS]
                        rec_off = steps[row, k.ST_REC_OFF]
                        width = steps[row, k.ST_REC_WIDTH]
                        mask = steps[row, k.ST_MASK]
                        low = first[u(target)]
                        before = links
                        known = False
                        if fresh:
                            known = memo_tick[u(depth)] == tick[u(steps[row, k.ST_READY])]
                            if known:
                                p = memo[u(depth)]
                            else:
                                probe = steps[row, k.ST_PROBE_OFF]
                                h = np.int64(0)
                                for c in range(ncols):
                                    code = code_of(probe + 2 * c, probes, bound, inputs, codes)
                                    wanted[u(depth), u(c)] = code
                                    h = mix(h, code)
                                slot = (h & steps[row, k.ST_HEAD_MASK]) * steps[row, k.ST_HEAD_STRIDE]
                                p = heads[u(steps[row, k.ST_HEAD_OFF] + slot)]
                                probed += 1
                        else:
                            p = records[u(rec_off + (cursor[u(depth)] & mask) * width)]
                        if not known:
                            if ncols == 1:
                                sought = wanted[u(depth), 0]
                                while p >= low:
                                    here = rec_off + (p & mask) * width
                                    links += 1
                                    if records[u(here + width - 1)] == sought:
                                        break
                                    p = records[u(here)]
                            else:
                                key_at = width - ncols
                                while p >= low:
                                    here = rec_off + (p & mask) * width
                                    links += 1
                                    same = True
                                    for c in range(ncols):
                                        if records[u(here + key_at + c)] != wanted[u(depth), u(c)]:
                                            same = False
                                            break
                                    if same:
                                        break
                                    p = records[u(here)]
                            if fresh:
                                memo[u(depth)] = p
                                memo_tick[u(depth)] = tick[u(steps[row, k.ST_READY])]
                        if stations and sample >= 0:
                            profile[sample, 2 * m + depth] += links - before + np.int64(fresh and not known)
                        if p < low:
                            upper = depth - 1
                            if fresh:  # nothing that hangs on the level of this probe can have a result
                                upper = steps[row, k.ST_READY] - 1
                                if stations:
                                    upper = max(upper, floor[u(depth)])
                            depth = upper
                            if stations and depth >= 0:
                                depth = home[u(depth)]
                            fresh = False
                            continue
                        cursor[u(depth)] = p
                        bound[u(target)] = p
                        clock += 1
                        tick[u(depth + 1)] = clock
                        if steps[row, k.ST_BAG] != 0:
                            factor[u(depth + 1)] = factor[u(depth)] * weight[u(steps[row, k.ST_POS_OFF] + (p & mask))]
                        else:
                            factor[u(depth + 1)] = factor[u(depth)]
                    ground = floor[u(begun)] if stations else np.int64(-1)
                    if stations and steps[row, k.ST_AFTER] != 0:
                        holds = True
                        if looked[u(begun)] < 0:
                            for x in range(steps[row, k.ST_COND], steps[row, k.ST_COND_END]):
                                if not holds_for(x, conditions, inputs, codes, bound):
                                    holds = False
                                    break
                            if not holds:
                                fresh = False
                                continue
                            if (
                                steps[row, k.ST_AFTER] > 1 and building[u(depth)] > 0
                            ):  # CacheUpdate of the pipeline's own cache
                                look = steps[row, k.ST_AFTER] - 2
                                st = looks[look, k.LK_STORE]
                                for x in range(stores[st, k.SR_SEGMENT]):
                                    i = segment[u(stores[st, k.SR_INPUT_OFF] + x)]
                                    refs[u(x)] = bound[u(i)]
                                    if inputs[u(i), k.KIND] == k.BAG:
                                        refs[u(x)] += born[u(inputs[u(i), k.POS_OFF] + bound[u(i)])] << k.LIFE
                                stores[st, k.SR_UPDATES] += 1
                                stores[st, k.SR_UPDATE_WORK] += 1
                                if not add(stores, cells, st, building[u(depth)] - 1, refs):
                                    building[u(depth)] = 0
                                ground = depth
                        for x in range(steps[row, k.ST_DEFER], steps[row, k.ST_DEFER_END]):
                            if not holds_for(x, conditions, inputs, codes, bound):
                                holds = False
                                break
                        if not holds:
                            depth = begun
                            fresh = False
                            continue
                        if enters and steps[row, k.ST_UPDATE_END] > steps[row, k.ST_UPDATE]:  # CacheUpdate for others
                            ground = depth
                            for x in range(steps[row, k.ST_UPDATE], steps[row, k.ST_UPDATE_END]):
                                st = updates[x, k.UP_STORE]
                                probe = updates[x, k.UP_KEY_OFF]
                                if updates[x, k.UP_FIRST] != 0:
                                    # one support of a join is enough, and the first of each input is one of them
                                    again = False
                                    for c in range(depth + 1):
                                        one = updates[x, k.UP_FIRST] >> c & 1 != 0
                                        if one and home[u(c)] == c and looked[u(c)] < 0 and cursor[u(c)] != memo[u(c)]:
                                            again = True
                                            break
                                    if again:
                                        continue
                                h = np.int64(0)
                                for c in range(stores[st, k.SR_KEYS]):
                                    key[u(c)] = code_of(probe + 2 * c, probes, bound, inputs, codes)
                                    h = mix(h, key[u(c)])
                                for y in range(stores[st, k.SR_SEGMENT]):
                                    i = segment[u(stores[st, k.SR_INPUT_OFF] + y)]
                                    refs[u(y)] = bound[u(i)]
                                    if inputs[u(i), k.KIND] == k.BAG:
                                        refs[u(y)] += born[u(inputs[u(i), k.POS_OFF] + bound[u(i)])] << k.LIFE
                                stores[st, k.SR_UPDATES] += 1
                                stores[st, k.SR_UPDATE_WORK] += insert(
                                    stores, cells, st, key, h, refs, segment, inputs, first, weight, born
                                )
                    depth += 1
                    if stations:
                        floor[u(depth)] = ground
                    fresh = True
                if status == k.FULL:
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
                if shows and before != 0 and weight[where] == 0:
                    unlink(s, pos, inputs, indexes, heads, records)
            if enters:
                place = inputs[own, k.CODE_OFF] + (pos & mask) * inputs[own, k.CODE_WIDTH]
                for index in range(inputs[own, k.INDEX_FROM], inputs[own, k.INDEX_TO]):
                    x = u(index)
                    width = indexes[x, k.IX_REC_WIDTH]
                    ncols = indexes[x, k.IX_COLS]
                    rec_off = indexes[x, k.IX_REC_OFF]
                    here = rec_off + (pos & mask) * width
                    h = np.int64(0)
                    for c in range(ncols):
                        code = codes[u(place + index_columns[u(indexes[x, k.IX_COL_OFF] + c)])]
                        records[u(here + width - ncols + c)] = code
                        h = mix(h, code)
                    head = indexes[x, k.IX_HEAD_OFF] + (h & indexes[x, k.IX_HEAD_MASK]) * indexes[x, k.IX_HEAD_STRIDE]
                    old = heads[u(head)]
                    records[u(here)] = old
                    if inputs[own, k.KIND] == k.BAG:
                        records[u(here + 1)] = -1 - head
                        if old >= 0:
                            records[u(rec_off + (old & mask) * width + 1)] = pos
                    heads[u(head)] = pos
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


mjoin = _compiled(True)
plain_mjoin = _compiled(False)
