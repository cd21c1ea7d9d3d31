"""The cache operators of a pipeline (thesis 5.4): CacheLookup, the rows of a hit, CacheUpdate. In the join kernel.

CacheLookup before a segment binds all its rows from an entry (a hit), or has the segment's whole result written into a
new one (a miss); CacheUpdate after a prefix of another pipeline adds what a new row joins with.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import inlined
from eddyline.kernels.hashing import mix, u
from eddyline.kernels.join_cache import SLOT, add, create, find, insert, unchain
from eddyline.kernels.join_rows import code_of


@inlined
def lookup_key(probe, keys, contents, loops):
    """Put the key of a look-up or an update into ``loops.key``: its hash."""
    inputs, probes, codes, bound, key = contents.inputs, contents.probes, contents.codes, loops.bound, loops.key
    h = np.int64(0)
    for c in range(keys):
        code = code_of(probe + 2 * c, probes, bound, inputs, codes)
        key[u(c)] = code
        h = mix(h, code)
    return h


@inlined
def anchor_lives(s, pos, leaving, hold, contents, cells):
    """Whether the row that an entry is anchored to is still there; if so, the element at hand takes its place."""
    inputs, weight, born, first = contents.inputs, contents.weight, contents.born, contents.first
    anchor = cells[hold]
    if inputs[u(s), k.KIND] == k.RING:
        lives = anchor >= first[u(s)]
    else:
        own = u(inputs[u(s), k.POS_OFF] + (anchor & SLOT))
        lives = anchor >= 0 and born[own] == anchor >> k.LIFE and weight[own] != 0
    if lives and not leaving:
        cells[hold] = pos
        if inputs[u(s), k.KIND] == k.BAG:
            cells[hold] += born[u(inputs[u(s), k.POS_OFF] + pos)] << k.LIFE
    return lives


@inlined
def cache_lookup(lookup, h, s, pos, sign, leaving, enters, depth, contents, caches, loops):
    """CacheLookup of a cache that is used. True: a hit without a join, so that nothing below has a result."""
    inputs, weight, born = contents.inputs, contents.weight, contents.born
    stores, lookups, cells = caches.stores, caches.lookups, caches.cells
    cursor, home, cache_hit, building, key = loops.cursor, loops.home, loops.cache_hit, loops.building, loops.key
    end, st = lookups[lookup, k.LK_LAST], lookups[lookup, k.LK_STORE]
    bucket = find(stores, cells, st, key, h)
    stores[st, k.SR_PROBES] += 1
    stores[st, k.SR_PROBE_WORK] += 1
    anchored = stores[st, k.SR_ANCHOR] == s
    if bucket >= 0 and anchored:
        hold = u(bucket + stores[u(st), k.SR_BUCKET_WIDTH] - 1)
        if not anchor_lives(s, pos, leaving, hold, contents, cells):
            bucket = -2 - bucket
    if bucket >= 0 and cells[u(bucket + k.BK_HEAD)] < k.NODE:
        return True
    if bucket >= 0 or stores[u(st), k.SR_COMPLETE] != 0:
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
    return False


@inlined
def next_cached(st, bucket, node, before, contents, caches):
    """The first node of an entry from ``node`` on whose rows all live; dead ones on the way are taken out."""
    inputs, weight, born, first = contents.inputs, contents.weight, contents.born, contents.first
    stores, cells, segment = caches.stores, caches.cells, caches.segment
    n, nodes = stores[st, k.SR_SEGMENT], stores[st, k.SR_NODE_OFF]
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
    return node


@inlined
def bind_cached(st, node, product, contents, caches, bound):
    """Bind the rows of a node; the product of their weights and ``product``."""
    inputs, weight = contents.inputs, contents.weight
    stores, cells, segment = caches.stores, caches.cells, caches.segment
    n = stores[st, k.SR_SEGMENT]
    here = stores[st, k.SR_NODE_OFF] + node * (1 + n)
    for x in range(n):
        i = segment[u(stores[st, k.SR_INPUT_OFF] + x)]
        ref = cells[u(here + 1 + x)]
        if inputs[u(i), k.KIND] == k.BAG:
            ref &= SLOT
            product *= weight[u(inputs[u(i), k.POS_OFF] + ref)]
        bound[u(i)] = ref
    return product


@inlined
def references(st, contents, caches, bound):
    """Put references to the bound rows of a segment into ``caches.refs``."""
    inputs, born = contents.inputs, contents.born
    stores, segment, refs = caches.stores, caches.segment, caches.refs
    for x in range(stores[st, k.SR_SEGMENT]):
        i = segment[u(stores[st, k.SR_INPUT_OFF] + x)]
        refs[u(x)] = bound[u(i)]
        if inputs[u(i), k.KIND] == k.BAG:
            refs[u(x)] += born[u(inputs[u(i), k.POS_OFF] + bound[u(i)])] << k.LIFE


@inlined
def fill_entry(lookup, depth, contents, caches, loops):
    """CacheUpdate of the pipeline's own cache: add what a miss has found to the entry that is being written."""
    stores, building = caches.stores, loops.building
    st = caches.lookups[lookup, k.LK_STORE]
    references(st, contents, caches, loops.bound)
    stores[st, k.SR_FILLS] += 1
    if not add(stores, caches.cells, st, building[u(depth)] - 1, caches.refs):
        building[u(depth)] = 0


@inlined
def cache_update(update, depth, contents, caches, loops):
    """CacheUpdate for a cache of another pipeline."""
    stores, updates = caches.stores, caches.updates
    cursor, memo, home, cache_hit = loops.cursor, loops.memo, loops.home, loops.cache_hit
    st, first_only = updates[update, k.UP_STORE], updates[update, k.UP_FIRST]
    again = False
    if first_only != 0:
        # one support of a join is enough, and the first of each input is one of them
        for c in range(depth + 1):
            one = first_only >> c & 1 != 0
            if one and home[u(c)] == c and cache_hit[u(c)] < 0 and cursor[u(c)] != memo[u(c)]:
                again = True
                break
    if not again:
        h = lookup_key(updates[update, k.UP_KEY_OFF], stores[st, k.SR_KEYS], contents, loops)
        references(st, contents, caches, loops.bound)
        stores[st, k.SR_UPDATES] += 1
        stores[st, k.SR_UPDATE_WORK] += insert(
            stores, caches.cells, st, loops.key, h, caches.refs, caches.segment, contents.inputs, contents.first,
            contents.weight, contents.born,
        )  # fmt: skip
