"""One element of a join on its way through its pipeline: the inner loop of the kernel.

A pipeline is, for each input, a sequence of steps; a step probes one index with codes taken from rows already bound.
An element runs through it depth first, in two phases that are one loop (5.2.2): what a probe finds depends on one level
only (READY), its first match is remembered as long as that level stays, and a probe that finds nothing ends all that
hangs on that level, not only the last choice. So until every input has been probed once only first matches are bound:
*drop probing*. From there the loops go on where the probes left off: *output generation*.

Caches are operators of a pipeline. CacheLookup before a segment binds all its rows from an entry (a hit), or has the
segment's whole result written into a new one (a miss); CacheUpdate after a prefix of another pipeline adds what a new
row joins with. Both need *all* joins of a segment: there a later probe that finds nothing must not end the loops inside
(FLOOR).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import inlined
from eddyline.kernels.hashing import mix, u
from eddyline.kernels.join_cache import SLOT, add, create, find, insert, unchain
from eddyline.kernels.join_profile import count_key
from eddyline.kernels.join_rows import code_of, holds_for


def _form(full: bool) -> Any:
    """With or without everything that pipelines without caches and conditions, and elements that are not profiled, can
    do without."""

    @inlined
    def run_through(
        s, t, pos, sign, leaving, enters, sample, depth, fresh, found, probed, links, clock,
        contents, caches, loops, out,
    ):  # fmt: skip
        """Join an element with the current contents of all other inputs, from where it stands. It is done if it comes
        back with a negative depth; else there is no room for more results."""
        inputs, steps, probes, heads, records, codes, weight, rownum, born, first = contents
        stores, lookups, updates, cells, segment, conditions, bits, refs, wanted, profile = caches
        bound, cursor, factor, tick, memo, memo_tick, home, floor, cache_hit, building, key = loops
        out_time, out_weight, out_rows = out
        m = inputs.shape[0]
        last = m - 2
        room = len(out_time)
        empty = False
        while depth >= 0:
            if depth > last:
                if found >= room:
                    break
                out_time[u(found)] = t
                out_weight[u(found)] = factor[u(depth)]
                for i in range(m):
                    if inputs[i, k.KIND] == k.BAG:
                        out_rows[i, found] = rownum[inputs[i, k.POS_OFF] + (bound[i] & inputs[i, k.POS_MASK])]
                    else:
                        out_rows[u(i), u(found)] = bound[u(i)]
                found += 1
                if full and sample >= 0:
                    profile[sample, m + depth] += 1
                depth -= 1
                if full:
                    depth = home[u(depth)]
                fresh = False
                continue
            row = u(s * (m - 1) + depth)
            if fresh:
                if full:
                    home[u(depth)] = depth
                    cache_hit[u(depth)] = -1
                if full and sample >= 0:
                    profile[sample, m + depth] += 1
                if full and steps[row, k.ST_LOOKUP_END] > steps[row, k.ST_LOOKUP]:  # CacheLookup
                    for lookup_row in range(steps[row, k.ST_LOOKUP], steps[row, k.ST_LOOKUP_END]):
                        lookup = u(lookup_row)
                        probe = lookups[lookup, k.LK_KEY_OFF]
                        h = np.int64(0)
                        for c in range(lookups[lookup, k.LK_KEYS]):
                            code = code_of(probe + 2 * c, probes, bound, inputs, codes)
                            key[u(c)] = code
                            h = mix(h, code)
                        if lookups[lookup, k.LK_USED] == 0:
                            count_key(lookup, h, lookups, bits)
                            continue
                        end = lookups[lookup, k.LK_LAST]
                        building[u(end)] = 0
                        if full and sample >= 0:
                            continue  # a profiled element uses no cache
                        st = lookups[lookup, k.LK_STORE]
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
                            cache_hit[u(depth)] = lookup
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
                if full and empty:  # a hit without a join: nothing that hangs on the key has a result
                    empty = False
                    upper = max(lookups[lookup, k.LK_READY] - 1, floor[u(depth)])
                    depth = home[u(upper)] if upper >= 0 else np.int64(-1)
                    fresh = False
                    continue
            begun = depth
            if full and cache_hit[u(depth)] >= 0:  # from the entry of a cache
                lookup = u(cache_hit[u(depth)])
                st = lookups[lookup, k.LK_STORE]
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
                        upper = max(lookups[lookup, k.LK_READY] - 1, floor[u(depth)])
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
                depth = lookups[lookup, k.LK_LAST]
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
                if full and sample >= 0:
                    profile[sample, 2 * m + depth] += links - before + np.int64(fresh and not known)
                if p < low:
                    upper = depth - 1
                    if fresh:  # nothing that hangs on the level of this probe can have a result
                        upper = steps[row, k.ST_READY] - 1
                        if full:
                            upper = max(upper, floor[u(depth)])
                    depth = upper
                    if full and depth >= 0:
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
            ground = floor[u(begun)] if full else np.int64(-1)
            if full and steps[row, k.ST_AFTER] != 0:
                holds = True
                if cache_hit[u(begun)] < 0:
                    for x in range(steps[row, k.ST_COND], steps[row, k.ST_COND_END]):
                        if not holds_for(x, conditions, inputs, codes, bound):
                            holds = False
                            break
                    if not holds:
                        fresh = False
                        continue
                    if steps[row, k.ST_AFTER] > 1 and building[u(depth)] > 0:  # CacheUpdate of the pipeline's own cache
                        lookup = u(steps[row, k.ST_AFTER] - 2)
                        st = lookups[lookup, k.LK_STORE]
                        for x in range(stores[st, k.SR_SEGMENT]):
                            i = segment[u(stores[st, k.SR_INPUT_OFF] + x)]
                            refs[u(x)] = bound[u(i)]
                            if inputs[u(i), k.KIND] == k.BAG:
                                refs[u(x)] += born[u(inputs[u(i), k.POS_OFF] + bound[u(i)])] << k.LIFE
                        stores[st, k.SR_FILLS] += 1
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
                                if one and home[u(c)] == c and cache_hit[u(c)] < 0 and cursor[u(c)] != memo[u(c)]:
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
            if full:
                floor[u(depth)] = ground
            fresh = True
        return depth, fresh, found, probed, links, clock

    return run_through


run_full_pipeline = _form(True)
run_join_steps = _form(False)
