"""One element of a join on its way through its pipeline: the inner loop of the kernel.

A pipeline is, for each input, a sequence of steps; a step probes one index with codes taken from rows already bound.
An element runs through it depth first, in two phases that are one loop (5.2.2): what a probe finds depends on one level
only (READY), its first match is remembered as long as that level stays, and a probe without a match ends all loops
that depend on that level, not only the last one. So until every input has been probed once only first matches are
bound: *drop probing*. From there the loops go on where the probes left off: *output generation*.

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
from eddyline.kernels.join_cache_lookup import (
    bind_cached,
    cache_lookup,
    cache_update,
    fill_entry,
    lookup_key,
    next_cached,
)
from eddyline.kernels.join_profile import count_key
from eddyline.kernels.join_rows import code_of, holds_for


@inlined
def emit(found, t, weight, m, contents, bound, out):
    """Write a result."""
    inputs, rownum = contents.inputs, contents.rownum
    out.time[u(found)] = t
    out.weight[u(found)] = weight
    for i in range(m):
        if inputs[i, k.KIND] == k.BAG:
            out.rows[i, found] = rownum[inputs[i, k.POS_OFF] + (bound[i] & inputs[i, k.POS_MASK])]
        else:
            out.rows[u(i), u(found)] = bound[u(i)]


@inlined
def probe_index(row, depth, contents, bound, wanted):
    """The head of the chain that a step probes; the codes that it looks for are put into ``wanted``."""
    inputs, steps, probes, codes = contents.inputs, contents.steps, contents.probes, contents.codes
    probe = steps[row, k.ST_PROBE_OFF]
    h = np.int64(0)
    for c in range(steps[row, k.ST_COLS]):
        code = code_of(probe + 2 * c, probes, bound, inputs, codes)
        wanted[u(depth), u(c)] = code
        h = mix(h, code)
    slot = (h & steps[row, k.ST_HEAD_MASK]) * steps[row, k.ST_HEAD_STRIDE]
    return contents.heads[u(steps[row, k.ST_HEAD_OFF] + slot)]


@inlined
def next_match(p, low, links, row, depth, contents, wanted):
    """The first row of a chain from ``p`` on that has the codes that are looked for, and the links followed so far."""
    steps, records = contents.steps, contents.records
    rec_off, width, mask = steps[row, k.ST_REC_OFF], steps[row, k.ST_REC_WIDTH], steps[row, k.ST_MASK]
    ncols = steps[row, k.ST_COLS]
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
    return p, links


@inlined
def all_hold(begin, end, contents, conditions, bound):
    """Whether conditions between bound rows hold."""
    holds = True
    for x in range(begin, end):
        if not holds_for(x, conditions, contents.inputs, contents.codes, bound):
            holds = False
            break
    return holds


def _form(full: bool) -> Any:
    """With or without everything that pipelines without caches and conditions, and elements that are not profiled, can
    do without."""

    @inlined
    def run_through(
        s, t, pos, sign, leaving, enters, sample, depth, fresh, found, probed, links, clock,
        contents, caches, loops, profile, out,
    ):  # fmt: skip
        """Join an element with the current contents of all other inputs, from where it stands. It is done if it comes
        back with a negative depth; else there is no room for more results."""
        steps, first, weight = contents.steps, contents.first, contents.weight
        lookups, cells, conditions = caches.lookups, caches.cells, caches.conditions
        bound, cursor, factor, tick, memo, memo_tick, home, floor, cache_hit, building, wanted, _ = loops
        m = contents.inputs.shape[0]
        empty = False
        while depth >= 0:
            if depth > m - 2:
                if found >= len(out.time):
                    break
                emit(found, t, factor[u(depth)], m, contents, bound, out)
                found += 1
                if full and sample >= 0:
                    profile[sample, m + depth] += 1
                depth -= 1
                if full:
                    depth = home[u(depth)]
                fresh = False
                continue
            row = u(s * (m - 1) + depth)
            if full and fresh:
                home[u(depth)] = depth
                cache_hit[u(depth)] = -1
                if sample >= 0:
                    profile[sample, m + depth] += 1
                if steps[row, k.ST_LOOKUP_END] > steps[row, k.ST_LOOKUP]:
                    for number in range(steps[row, k.ST_LOOKUP], steps[row, k.ST_LOOKUP_END]):
                        lookup = u(number)
                        h = lookup_key(lookups[lookup, k.LK_KEY_OFF], lookups[lookup, k.LK_KEYS], contents, loops)
                        if lookups[lookup, k.LK_USED] == 0:
                            count_key(lookup, h, lookups, caches.bits)
                        else:
                            building[u(lookups[lookup, k.LK_LAST])] = 0
                            if sample < 0:  # a profiled element uses no cache
                                empty = cache_lookup(
                                    lookup, h, s, pos, sign, leaving, enters, depth, contents, caches, loops
                                )  # fmt: skip
                if empty:  # a hit without a join: nothing that hangs on the key has a result
                    empty = False
                    upper = max(lookups[lookup, k.LK_READY] - 1, floor[u(depth)])
                    depth = home[u(upper)] if upper >= 0 else np.int64(-1)
                    fresh = False
                    continue
            begun = depth
            if full and cache_hit[u(depth)] >= 0:  # from the entry of a cache
                lookup = u(cache_hit[u(depth)])
                st = lookups[lookup, k.LK_STORE]
                if fresh:
                    bucket, before = cursor[u(depth)], np.int64(-1)
                    node = cells[u(bucket + k.BK_HEAD)] - k.NODE if bucket >= 0 else np.int64(-1)
                    memo[u(depth)] = bucket  # the place is not needed for a probe now
                    memo_tick[u(depth)] = -1
                else:
                    bucket, before = memo[u(depth)], cursor[u(depth)]
                    width = 1 + caches.stores[st, k.SR_SEGMENT]
                    node = cells[u(caches.stores[st, k.SR_NODE_OFF] + before * width)]
                node = next_cached(st, bucket, node, before, contents, caches)
                if node < 0:
                    upper = depth - 1
                    if fresh:
                        upper = max(lookups[lookup, k.LK_READY] - 1, floor[u(depth)])
                    depth = home[u(upper)] if upper >= 0 else np.int64(-1)
                    fresh = False
                    continue
                cursor[u(depth)] = node
                clock += 1
                product = bind_cached(st, node, factor[u(depth)], contents, caches, bound)
                depth = lookups[lookup, k.LK_LAST]
                for c in range(begun, depth + 1):
                    tick[u(c + 1)] = clock
                factor[u(depth + 1)] = product
                row = u(s * (m - 1) + depth)
            else:
                target, mask = steps[row, k.ST_TARGET], steps[row, k.ST_MASK]
                low, followed, known = first[u(target)], links, False
                if fresh:
                    known = memo_tick[u(depth)] == tick[u(steps[row, k.ST_READY])]
                    if known:
                        p = memo[u(depth)]
                    else:
                        p = probe_index(row, depth, contents, bound, wanted)
                        probed += 1
                else:
                    width = steps[row, k.ST_REC_WIDTH]
                    p = contents.records[u(steps[row, k.ST_REC_OFF] + (cursor[u(depth)] & mask) * width)]
                if not known:
                    p, links = next_match(p, low, links, row, depth, contents, wanted)
                    if fresh:
                        memo[u(depth)] = p
                        memo_tick[u(depth)] = tick[u(steps[row, k.ST_READY])]
                if full and sample >= 0:
                    profile[sample, 2 * m + depth] += links - followed + np.int64(fresh and not known)
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
                factor[u(depth + 1)] = factor[u(depth)]
                if steps[row, k.ST_BAG] != 0:
                    factor[u(depth + 1)] *= weight[u(steps[row, k.ST_POS_OFF] + (p & mask))]
            ground = floor[u(begun)] if full else np.int64(-1)
            if full and steps[row, k.ST_AFTER] != 0:
                if cache_hit[u(begun)] < 0:
                    if not all_hold(steps[row, k.ST_COND], steps[row, k.ST_COND_END], contents, conditions, bound):
                        fresh = False
                        continue
                    if steps[row, k.ST_AFTER] > 1 and building[u(depth)] > 0:
                        fill_entry(u(steps[row, k.ST_AFTER] - 2), depth, contents, caches, loops)
                        ground = depth
                if not all_hold(steps[row, k.ST_DEFER], steps[row, k.ST_DEFER_END], contents, conditions, bound):
                    depth = begun
                    fresh = False
                    continue
                if enters and steps[row, k.ST_UPDATE_END] > steps[row, k.ST_UPDATE]:
                    ground = depth
                    for x in range(steps[row, k.ST_UPDATE], steps[row, k.ST_UPDATE_END]):
                        cache_update(x, depth, contents, caches, loops)
            depth += 1
            if full:
                floor[u(depth)] = ground
            fresh = True
        return depth, fresh, found, probed, links, clock

    return run_through


run_full_pipeline = _form(True)
run_join_steps = _form(False)
