"""The contents of a join's caches (thesis 5.4): keys to references of joined rows, in flat arrays for the kernel.

A store has the contents of all caches with equal contents, which share it. ``kernels.join_cache`` defines what a store
may contain; ``operators.cache_consistency`` proves that it never changes an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from eddyline.core.bound import Bound
from eddyline.core.delta import Int64s
from eddyline.kernels import join_cache
from eddyline.kernels import join_layout as k
from eddyline.synopses.store_id import StoreId

INITIAL_BUCKETS, INITIAL_NODES = 1 << 10, 1 << 11  # of a new store
MIN_BUCKETS = 16  # a store with fewer gives no memory back


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """What a store did since it was made."""

    probes: int
    misses: int
    updates: int
    update_work: int
    evicted: int
    replaced: int
    entries: int
    live: int
    buckets: int
    nodes: int
    bytes: int
    complete: bool


class JoinCaches:
    """The stores of one join: ``stores`` has a row each, ``cells`` their buckets and nodes, ``segment`` the inputs that
    they bind. A ``CacheSynopsis``: what it lacks is computed again.

    >>> caches = JoinCaches()
    >>> caches.arrange([StoreId((1, 2), (0,), (), -1, False)], {})
    >>> len(caches), caches.nbytes == 8 * (INITIAL_BUCKETS * 2 + INITIAL_NODES * 3), caches.bound
    (0, True, Bound(rows=2048, ticks=None, each=None))
    >>> caches.give_back(20_000), caches.size_of(caches.ids[0])
    (32768, (512, 1024))
    """

    def __init__(self) -> None:
        self.ids: list[StoreId] = []
        self.stores = np.zeros((0, k.STORE_FIELDS), np.int64)
        self.cells = np.zeros(1, np.int64)
        self.segment = np.zeros(1, np.int64)
        self.moved: list[tuple[int, int]] = []  # stores that get another size: number before, number now
        self._old = (self.stores, self.cells)

    def __len__(self) -> int:
        """Entries."""
        return int(self.stores[:, k.SR_ENTRIES].sum())

    @property
    def bound(self) -> Bound:
        """Joined rows for which there is room."""
        return Bound(rows=int(self.stores[:, k.SR_NODES].sum()))

    @property
    def nbytes(self) -> int:
        return int(self.cells.nbytes) if self.ids else 0

    def arrange(self, wanted: Collection[StoreId], sizes: Mapping[StoreId, tuple[int, int]]) -> None:
        """Have these stores and no others. Those that stay keep what they hold; ``settle`` carries it over where
        ``sizes`` gives them another size."""
        ids = list(wanted)
        old_stores, old_cells, old_ids = self.stores, self.cells, self.ids
        if ids == old_ids and not any(s in sizes and self._size(old_ids.index(s)) != sizes[s] for s in ids):
            return
        stores = np.zeros((len(ids), k.STORE_FIELDS), np.int64)
        segment: list[int] = []
        parts: list[Int64s] = []
        off = 0
        for n, store in enumerate(ids):
            inputs, key, support, anchor, complete = store
            was = old_ids.index(store) if store in old_ids else None
            buckets, nodes = sizes.get(store) or ((INITIAL_BUCKETS, INITIAL_NODES) if was is None else self._size(was))
            width, node_width = store.bucket_words, store.node_words
            length = buckets * width + nodes * node_width
            same = was is not None and self._size(was) == (buckets, nodes)
            if same:
                stores[n] = old_stores[was]
                start = int(old_stores[was, k.SR_BUCKET_OFF])
                parts.append(old_cells[start : start + length])
            else:
                stores[n, k.SR_KEYS], stores[n, k.SR_SEGMENT] = len(key), len(inputs)
                stores[n, k.SR_BUCKETS], stores[n, k.SR_NODES] = buckets, nodes
                stores[n, k.SR_BUCKET_WIDTH] = width
                stores[n, k.SR_COMPLETE] = complete
                stores[n, k.SR_SUPPORTED] = bool(support)
                stores[n, k.SR_ANCHOR], stores[n, k.SR_FREE] = anchor, -1
                if was is not None:
                    stores[n, k.SR_COMPLETE] = old_stores[was, k.SR_COMPLETE]
                    stores[n, k.SR_PROBES :] = old_stores[was, k.SR_PROBES :]
                parts.append(np.zeros(length, np.int64))
            stores[n, k.SR_BUCKET_OFF], stores[n, k.SR_NODE_OFF] = off, off + buckets * width
            stores[n, k.SR_INPUT_OFF] = len(segment)
            segment += inputs
            off += length
        self.stores, self.ids = stores, ids
        self.cells = np.concatenate(parts) if parts else np.zeros(1, np.int64)
        self.segment = np.array(segment or [0], np.int64)
        self.moved = [
            (old_ids.index(s), n)
            for n, s in enumerate(ids)
            if s in old_ids and self._size(n) != _size(old_stores, old_ids.index(s))
        ]
        self._old = (old_stores, old_cells)

    def settle(self, inputs: Int64s, first: Int64s, weight: Int64s, born: Int64s) -> None:
        """Carry what is alive over into stores of another size. Comes after ``arrange``."""
        for was, n in self.moved:
            stores, cells = self._old
            join_cache.move(
                stores, cells, was, self.stores, self.cells, n, self.segment, inputs, first, weight, born
            )  # fmt: skip
        self.moved, self._old = [], (self.stores, self.cells)

    def _size(self, n: int) -> tuple[int, int]:
        return _size(self.stores, n)

    def size_of(self, store: StoreId) -> tuple[int, int]:
        return self._size(self.ids.index(store))

    def counts(self, store: StoreId) -> StoreCounts:
        r = self.stores[self.ids.index(store)]
        buckets, nodes = int(r[k.SR_BUCKETS]), int(r[k.SR_NODES])
        return StoreCounts(
            probes=int(r[k.SR_PROBES]),
            misses=int(r[k.SR_MISSES]),
            updates=int(r[k.SR_UPDATES]),
            update_work=int(r[k.SR_UPDATE_WORK]),
            evicted=int(r[k.SR_EVICTED]),
            replaced=int(r[k.SR_REPLACED]),
            entries=int(r[k.SR_ENTRIES]),
            live=int(r[k.SR_LIVE]),
            buckets=buckets,
            nodes=nodes,
            bytes=8 * (buckets * store.bucket_words + nodes * store.node_words),
            complete=bool(r[k.SR_COMPLETE]),
        )

    def smaller(self, bytes: int) -> dict[StoreId, tuple[int, int]]:
        """Sizes with which the stores take so many bytes less: the largest is halved, as often as it takes. Complete
        ones stay, for they may lack nothing."""
        sizes = {s: self.size_of(s) for s in self.ids if not self.counts(s).complete}
        saved, changed = 0, {}
        while saved < bytes:
            can = [s for s, (buckets, nodes) in sizes.items() if min(buckets, nodes) >= 2 * MIN_BUCKETS]
            if not can:
                break
            most = max(can, key=lambda s: words(s, *sizes[s]))
            half = sizes[most][0] // 2, sizes[most][1] // 2
            saved += 8 * (words(most, *sizes[most]) - words(most, *half))
            sizes[most] = changed[most] = half
        return changed

    def give_back(self, bytes: int) -> int:
        """Halve the largest stores and empty them: they fill again. ``JoinArrays.give_back`` keeps what is in them."""
        before, sizes = self.nbytes, self.smaller(bytes)
        if sizes:
            ids, complete = self.ids, {s for s in self.ids if self.counts(s).complete}
            if complete:  # what they hold may not be lost, and moving it needs the inputs
                return 0
            sizes = {s: sizes.get(s, self.size_of(s)) for s in ids}
            self.forget()
            self.arrange(ids, sizes)
        return before - self.nbytes

    def forget(self) -> None:
        """Empty all stores, for instance because the rows that they refer to are numbered anew."""
        self.stores, self.ids, self.cells = np.zeros((0, k.STORE_FIELDS), np.int64), [], np.zeros(1, np.int64)


def words(store: StoreId, buckets: int, nodes: int) -> int:
    """The words of a store of a size."""
    return buckets * store.bucket_words + nodes * store.node_words


def _size(stores: Int64s, n: int) -> tuple[int, int]:
    return int(stores[n, k.SR_BUCKETS]), int(stores[n, k.SR_NODES])
