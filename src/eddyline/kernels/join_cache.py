"""The contents of caches (thesis 5.4 and 5.4.1): keys to sets of references, direct-mapped.

The *consistency invariant*, which holds between two elements: the live references of an entry are exactly the joins of
the segment's inputs that have the entry's key; with support (globally-consistent caches, 5.7) at least those of these
joins that have a partner in the supporting inputs, and no others. A cache need not have an entry for a key. A
*complete* cache has one for all keys that have a join (an XJoin's materialised subresult); a key without an entry has
no join there.

Deletions are not applied to caches. A reference shows whether its row is dead, and is removed when it is visited; the
row's number is never used again, so that no other row can be mistaken for it.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.hashing import mix, u
from eddyline.kernels.join_layout import I1, I2

LOW = np.int64((1 << 32) - 1)
SLOT = np.int64((1 << k.LIFE) - 1)


@inlined
def alive(ref, i, inputs, first, weight, born):
    """Whether the row that a reference names is still among the contents of input i. All arrays are read on every path:
    one that is read on some is counted as a reference by numba, which costs more than all else here."""
    bag = np.int64(inputs[u(i), k.KIND] != k.RING)
    place = u(inputs[u(i), k.POS_OFF] + (ref & SLOT) * bag)
    there = (born[place] == ref >> k.LIFE) & (weight[place] != 0)
    return (there & (bag != 0)) | ((ref >= first[u(i)]) & (bag == 0))


@inlined
def place_of(h, buckets):
    """The bucket of a hash: of any number of them, so that a cache has as many as its memory allows."""
    return ((h & LOW) * buckets) >> 32


@kernel(f"int64({I2}, {I1}, int64, {I1}, int64)", borrows=True)
def find(stores, cells, st, key, h):
    """Where the entry of a key is, or −2 − the place that it would get."""
    nk = stores[u(st), k.SR_KEYS]
    width = stores[u(st), k.SR_BUCKET_WIDTH]
    off, buckets = stores[u(st), k.SR_BUCKET_OFF], stores[u(st), k.SR_BUCKETS]
    b = place_of(h, buckets)
    while True:
        at = off + b * width
        if cells[u(at)] == k.NOTHING:
            return -2 - at
        same = True
        for c in range(nk):
            if cells[u(at + k.BK_KEY + c)] != key[u(c)]:
                same = False
                break
        if same:
            return at
        if stores[u(st), k.SR_COMPLETE] == 0:
            return -2 - at
        b = b + 1 if b + 1 < buckets else 0


@kernel(f"void({I2}, {I1}, int64, int64)", borrows=True)
def clear(stores, cells, st, at):
    """Forget an entry."""
    width = 1 + stores[st, k.SR_SEGMENT]
    off = stores[st, k.SR_NODE_OFF]
    node = cells[at + k.BK_HEAD] - k.NODE
    while node >= 0:
        following = cells[off + node * width]
        cells[off + node * width] = stores[st, k.SR_FREE]
        stores[st, k.SR_FREE] = node
        stores[st, k.SR_LIVE] -= 1
        node = following
    cells[at + k.BK_HEAD] = k.NOTHING
    stores[st, k.SR_ENTRIES] -= 1


@kernel(f"void({I2}, {I1}, int64, int64, {I1}, int64)", borrows=True)
def create(stores, cells, st, at, key, anchor):
    """An empty entry for a key; what was there gives way."""
    if cells[u(at + k.BK_HEAD)] != k.NOTHING:
        clear(stores, cells, st, at)
        stores[u(st), k.SR_REPLACED] += 1
    cells[u(at + k.BK_HEAD)] = k.EMPTY
    for c in range(stores[u(st), k.SR_KEYS]):
        cells[u(at + k.BK_KEY + c)] = key[u(c)]
    if stores[u(st), k.SR_ANCHOR] >= 0:
        cells[u(at + stores[u(st), k.SR_BUCKET_WIDTH] - 1)] = anchor
    stores[u(st), k.SR_ENTRIES] += 1


@kernel(f"int64({I2}, {I1}, int64, int64)", borrows=True)
def evict(stores, cells, st, at):
    """A node, taken from the entry that the hand comes to, but not from the one at ``at``; −1 if there is none. It is
    the last that may be tried: the entry that wants it is not complete then, and goes too."""
    node = np.int64(-1)
    if stores[st, k.SR_COMPLETE] != 0:  # evicting would make it incomplete, and so does this: from now on it may miss
        stores[st, k.SR_COMPLETE] = 0
    else:
        for _ in range(stores[st, k.SR_BUCKETS]):
            victim = stores[st, k.SR_BUCKET_OFF] + stores[st, k.SR_HAND] * stores[st, k.SR_BUCKET_WIDTH]
            stores[st, k.SR_HAND] = (stores[st, k.SR_HAND] + 1) % stores[st, k.SR_BUCKETS]
            if victim != at and cells[victim + k.BK_HEAD] >= k.NODE:
                clear(stores, cells, st, victim)
                stores[st, k.SR_EVICTED] += 1
                node = stores[st, k.SR_FREE]
                stores[st, k.SR_FREE] = cells[stores[st, k.SR_NODE_OFF] + node * (1 + stores[st, k.SR_SEGMENT])]
                break
    if node < 0:
        clear(stores, cells, st, at)
        stores[st, k.SR_EVICTED] += 1
    return node


@kernel(f"boolean({I2}, {I1}, int64, int64, {I1})", borrows=True)
def add(stores, cells, st, at, refs):
    """Add a join to an entry. False: there was no room, and the entry is gone, for it would not be complete."""
    width = 1 + stores[u(st), k.SR_SEGMENT]
    off = stores[u(st), k.SR_NODE_OFF]
    node = stores[u(st), k.SR_FREE]
    if node >= 0:
        stores[u(st), k.SR_FREE] = cells[u(off + node * width)]
    elif stores[u(st), k.SR_UNUSED] < stores[u(st), k.SR_NODES]:
        node = stores[u(st), k.SR_UNUSED]
        stores[u(st), k.SR_UNUSED] += 1
    else:
        node = evict(stores, cells, st, at)
    if node >= 0:
        here = off + node * width
        cells[u(here)] = cells[u(at + k.BK_HEAD)] - k.NODE
        for x in range(width - 1):
            cells[u(here + 1 + x)] = refs[u(x)]
        cells[u(at + k.BK_HEAD)] = k.NODE + node
        stores[u(st), k.SR_LIVE] += 1
    return node >= 0


@kernel(f"int64({I2}, {I1}, int64, {I1}, int64, {I1}, {I1}, {I2}, {I1}, {I1}, {I1})", borrows=True)
def insert(stores, cells, st, key, h, refs, segment, inputs, first, weight, born):
    """insert(u, r) of 5.4: ignored unless there is an entry, but in a complete store. Returns the accesses it took."""
    at = find(stores, cells, st, key, h)
    work = np.int64(1)
    if at < 0 and stores[u(st), k.SR_COMPLETE] != 0:
        at = -2 - at
        create(stores, cells, st, at, key, -1)
    if at >= 0:
        work += 1
        new = True
        if stores[u(st), k.SR_SUPPORTED] != 0:  # the same join may be supported by many: it is held once
            n = stores[u(st), k.SR_SEGMENT]
            node, before = cells[u(at + k.BK_HEAD)] - k.NODE, np.int64(-1)
            while node >= 0 and new:
                work += 1
                here = stores[u(st), k.SR_NODE_OFF] + node * (1 + n)
                following = cells[u(here)]
                same, dead = True, False
                for x in range(n):
                    ref = cells[u(here + 1 + x)]
                    if ref != refs[u(x)]:
                        same = False
                        if not alive(ref, segment[u(stores[u(st), k.SR_INPUT_OFF] + x)], inputs, first, weight, born):
                            dead = True
                            break
                if same:
                    new = False
                elif dead:
                    unchain(stores, cells, st, at, node, before)
                else:
                    before = node
                node = following
        if new:
            add(stores, cells, st, at, refs)
    return work


@kernel(f"void({I2}, {I1}, int64, int64, int64, int64)", borrows=True)
def unchain(stores, cells, st, at, node, before):
    """Take a node out of the list of an entry."""
    width = 1 + stores[st, k.SR_SEGMENT]
    here = stores[st, k.SR_NODE_OFF] + node * width
    if before < 0:
        cells[at + k.BK_HEAD] = k.NODE + cells[here]
    else:
        cells[stores[st, k.SR_NODE_OFF] + before * width] = cells[here]
    cells[here] = stores[st, k.SR_FREE]
    stores[st, k.SR_FREE] = node
    stores[st, k.SR_LIVE] -= 1


@kernel(
    f"void({I2}, {I1}, int64, {I2}, {I1}, int64, {I1}, {I2}, {I1}, {I1}, {I1})",
    work=lambda *args: len(args[1]),
)
def move(old, old_cells, was, stores, cells, st, segment, inputs, first, weight, born):
    """Copy what is alive of a store into an empty one of another size. Of a complete one empty entries are nothing."""
    nk, n, width = stores[st, k.SR_KEYS], stores[st, k.SR_SEGMENT], stores[st, k.SR_BUCKET_WIDTH]
    key, refs = np.zeros(max(nk, 1), np.int64), np.zeros(n, np.int64)
    for b in range(old[was, k.SR_BUCKETS]):
        at = old[was, k.SR_BUCKET_OFF] + b * width
        if old_cells[at + k.BK_HEAD] == k.NOTHING:
            continue
        h = np.int64(0)
        for c in range(nk):
            key[c] = old_cells[at + k.BK_KEY + c]
            h = mix(h, key[c])
        place = np.int64(-1)
        node = old_cells[at + k.BK_HEAD] - k.NODE
        anchor = old_cells[at + width - 1]
        whole = True
        if old[was, k.SR_COMPLETE] == 0:
            if old[was, k.SR_BUCKET_OFF] + place_of(h, old[was, k.SR_BUCKETS]) * width != at:
                continue  # it was complete once and this entry stood elsewhere: it has not been maintained since
            place = find(stores, cells, st, key, h)
            if place < 0:
                place = -2 - place
            create(stores, cells, st, place, key, anchor)
        while node >= 0 and whole:
            here = old[was, k.SR_NODE_OFF] + node * (1 + n)
            lives = True
            for x in range(n):
                refs[x] = old_cells[here + 1 + x]
                i = segment[stores[st, k.SR_INPUT_OFF] + x]
                lives = lives and alive(refs[x], i, inputs, first, weight, born)
            if lives:
                if place < 0:
                    place = find(stores, cells, st, key, h)
                    if place < 0:
                        place = -2 - place
                        create(stores, cells, st, place, key, anchor)
                whole = add(stores, cells, st, place, refs)
            node = old_cells[here]
