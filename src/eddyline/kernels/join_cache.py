"""The contents of caches (thesis 5.4 and 5.4.1): keys to sets of references, direct-mapped.

What is true between two elements, the *consistency invariant*: the live references of an entry are exactly the joins
of the segment's inputs that have the entry's key; with support (globally-consistent caches, 5.7) at least those of them
that have a partner in the supporting inputs, and no others than those. A cache need not have an entry for a key: a
*complete* one does for all keys that have a join (an XJoin's materialised subresult), and what it lacks is empty.

Deletions are not brought to caches. A reference shows by itself that its row has gone, and is thrown away when it is
met; the row's number is never used again, so that no other row can be mistaken for it.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import mix, u
from eddyline.kernels.join_layout import (
    BK_ANCHOR,
    BK_COUNT,
    BK_HEAD,
    BK_KEY,
    BK_STATE,
    I1,
    I2,
    KIND,
    LIFE,
    POS_OFF,
    RING,
    SR_BUCKET_MASK,
    SR_BUCKET_OFF,
    SR_COMPLETE,
    SR_ENTRIES,
    SR_EVICTED,
    SR_FREE,
    SR_HAND,
    SR_INPUT_OFF,
    SR_KEYS,
    SR_LIVE,
    SR_NODE_OFF,
    SR_NODES,
    SR_REPLACED,
    SR_SEGMENT,
    SR_SUPPORTED,
    SR_UNUSED,
)

SLOT = np.int64((1 << LIFE) - 1)


@kernel(f"boolean(int64, int64, {I2}, {I1}, {I1}, {I1})")
def alive(ref, i, inputs, first, weight, born):
    """Whether the row that a reference names is still among the contents of input i."""
    if inputs[u(i), KIND] == RING:
        return ref >= first[u(i)]
    place = u(inputs[u(i), POS_OFF] + (ref & SLOT))
    return born[place] == ref >> LIFE and weight[place] != 0


@kernel(f"int64({I2}, {I1}, int64, {I1}, int64)")
def find(stores, cells, st, key, h):
    """Where the entry of a key is, or −2 − the place that it would get."""
    nk = stores[st, SR_KEYS]
    width = BK_KEY + nk
    off, mask = stores[st, SR_BUCKET_OFF], stores[st, SR_BUCKET_MASK]
    b = h & mask
    while True:
        at = off + b * width
        if cells[u(at)] == 0:
            return -2 - at
        same = True
        for c in range(nk):
            if cells[u(at + BK_KEY + c)] != key[u(c)]:
                same = False
                break
        if same:
            return at
        if stores[st, SR_COMPLETE] == 0:
            return -2 - at
        b = (b + 1) & mask


@kernel(f"void({I2}, {I1}, int64, int64)")
def clear(stores, cells, st, at):
    """Forget an entry."""
    width = 1 + stores[st, SR_SEGMENT]
    off = stores[st, SR_NODE_OFF]
    node = cells[at + BK_HEAD]
    while node >= 0:
        following = cells[off + node * width]
        cells[off + node * width] = stores[st, SR_FREE]
        stores[st, SR_FREE] = node
        stores[st, SR_LIVE] -= 1
        node = following
    cells[at + BK_STATE] = 0
    cells[at + BK_HEAD] = -1
    stores[st, SR_ENTRIES] -= 1


@kernel(f"void({I2}, {I1}, int64, int64, {I1}, int64)")
def create(stores, cells, st, at, key, anchor):
    """An empty entry for a key; what was there gives way."""
    if cells[at + BK_STATE] != 0:
        clear(stores, cells, st, at)
        stores[st, SR_REPLACED] += 1
    cells[at + BK_STATE] = 1
    cells[at + BK_ANCHOR] = anchor
    cells[at + BK_HEAD] = -1
    cells[at + BK_COUNT] = 0
    for c in range(stores[st, SR_KEYS]):
        cells[at + BK_KEY + c] = key[c]
    stores[st, SR_ENTRIES] += 1


@kernel(f"boolean({I2}, {I1}, int64, int64, {I1})")
def add(stores, cells, st, at, refs):
    """Add a join to an entry. False: there was no room, and the entry is gone, for it would not be complete."""
    width = 1 + stores[st, SR_SEGMENT]
    off = stores[st, SR_NODE_OFF]
    node = stores[st, SR_FREE]
    if node >= 0:
        stores[st, SR_FREE] = cells[off + node * width]
    elif stores[st, SR_UNUSED] < stores[st, SR_NODES]:
        node = stores[st, SR_UNUSED]
        stores[st, SR_UNUSED] += 1
    elif stores[st, SR_COMPLETE] != 0:  # evicting would make it incomplete, and so does this: from now on it may miss
        stores[st, SR_COMPLETE] = 0
    else:
        bucket = BK_KEY + stores[st, SR_KEYS]
        for _ in range(stores[st, SR_BUCKET_MASK] + 1):  # the entry that the hand comes to
            victim = stores[st, SR_BUCKET_OFF] + stores[st, SR_HAND] * bucket
            stores[st, SR_HAND] = (stores[st, SR_HAND] + 1) & stores[st, SR_BUCKET_MASK]
            if victim != at and cells[victim + BK_STATE] != 0 and cells[victim + BK_HEAD] >= 0:
                clear(stores, cells, st, victim)
                stores[st, SR_EVICTED] += 1
                node = stores[st, SR_FREE]
                stores[st, SR_FREE] = cells[off + node * width]
                break
    if node < 0:
        clear(stores, cells, st, at)
        stores[st, SR_EVICTED] += 1
        return False
    here = off + node * width
    cells[here] = cells[at + BK_HEAD]
    for x in range(width - 1):
        cells[here + 1 + x] = refs[x]
    cells[at + BK_HEAD] = node
    cells[at + BK_COUNT] += 1
    stores[st, SR_LIVE] += 1
    return True


@kernel(f"int64({I2}, {I1}, int64, {I1}, int64, {I1}, {I1}, {I2}, {I1}, {I1}, {I1})")
def insert(stores, cells, st, key, h, refs, segment, inputs, first, weight, born):
    """insert(u, r) of 5.4: ignored unless there is an entry, but in a complete store. Returns the accesses it took."""
    at = find(stores, cells, st, key, h)
    if at < 0:
        if stores[st, SR_COMPLETE] == 0:
            return 1
        at = -2 - at
        create(stores, cells, st, at, key, -1)
    work = np.int64(2)
    if stores[st, SR_SUPPORTED] != 0:  # the same join may be supported by many: it is held once
        n = stores[st, SR_SEGMENT]
        node, before = cells[at + BK_HEAD], np.int64(-1)
        while node >= 0:
            work += 1
            here = stores[st, SR_NODE_OFF] + node * (1 + n)
            following = cells[here]
            same, dead = True, False
            for x in range(n):
                ref = cells[here + 1 + x]
                if ref != refs[x]:
                    same = False
                    if not alive(ref, segment[stores[st, SR_INPUT_OFF] + x], inputs, first, weight, born):
                        dead = True
                        break
            if same:
                return work
            if dead:
                unchain(stores, cells, st, at, node, before)
            else:
                before = node
            node = following
    add(stores, cells, st, at, refs)
    return work


@kernel(f"void({I2}, {I1}, int64, int64, int64, int64)")
def unchain(stores, cells, st, at, node, before):
    """Take a node out of the list of an entry."""
    width = 1 + stores[st, SR_SEGMENT]
    here = stores[st, SR_NODE_OFF] + node * width
    if before < 0:
        cells[at + BK_HEAD] = cells[here]
    else:
        cells[stores[st, SR_NODE_OFF] + before * width] = cells[here]
    cells[here] = stores[st, SR_FREE]
    stores[st, SR_FREE] = node
    cells[at + BK_COUNT] -= 1
    stores[st, SR_LIVE] -= 1


@kernel(f"void({I2}, {I1}, int64, {I2}, {I1}, int64, {I1}, {I2}, {I1}, {I1}, {I1})")
def move(old, old_cells, was, stores, cells, st, segment, inputs, first, weight, born):
    """Copy what is alive of a store into an empty one of another size. Of a complete one empty entries are nothing."""
    nk, n = stores[st, SR_KEYS], stores[st, SR_SEGMENT]
    key, refs = np.zeros(max(nk, 1), np.int64), np.zeros(n, np.int64)
    for b in range(old[was, SR_BUCKET_MASK] + 1):
        at = old[was, SR_BUCKET_OFF] + b * (BK_KEY + nk)
        if old_cells[at + BK_STATE] == 0:
            continue
        h = np.int64(0)
        for c in range(nk):
            key[c] = old_cells[at + BK_KEY + c]
            h = mix(h, key[c])
        place = np.int64(-1)
        node = old_cells[at + BK_HEAD]
        whole = True
        if old[was, SR_COMPLETE] == 0:
            if old[was, SR_BUCKET_OFF] + (h & old[was, SR_BUCKET_MASK]) * (BK_KEY + nk) != at:
                continue  # it was complete once and this entry stood elsewhere: nobody has kept it up since
            place = find(stores, cells, st, key, h)
            if place < 0:
                place = -2 - place
            create(stores, cells, st, place, key, old_cells[at + BK_ANCHOR])
        while node >= 0 and whole:
            here = old[was, SR_NODE_OFF] + node * (1 + n)
            lives = True
            for x in range(n):
                refs[x] = old_cells[here + 1 + x]
                i = segment[stores[st, SR_INPUT_OFF] + x]
                lives = lives and alive(refs[x], i, inputs, first, weight, born)
            if lives:
                if place < 0:
                    place = find(stores, cells, st, key, h)
                    if place < 0:
                        place = -2 - place
                        create(stores, cells, st, place, key, old_cells[at + BK_ANCHOR])
                whole = add(stores, cells, st, place, refs)
            node = old_cells[here]
