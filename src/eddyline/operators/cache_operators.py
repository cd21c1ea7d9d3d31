"""The cache operators of a join (thesis 5.4) as rows for the kernel: CacheLookup and CacheUpdate, by step.

Why they never change an answer is proved in ``cache_consistency``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import join_layout as k
from eddyline.operators.cache_consistency import check_consistency, unread
from eddyline.operators.join_plan import CacheSpec, JoinGraph, Member, Step
from eddyline.synopses.join_caches import JoinCaches
from eddyline.synopses.store_id import StoreId


@dataclass(frozen=True, slots=True)
class Bloom:
    """How the keys that a profiled cache would see are counted: ``distance`` of them at a time (W_d of the thesis), in
    ``alpha`` bits each."""

    distance: int = 1024
    alpha: int = 8


class CacheOperators:
    """Which caches are used and which are only profiled, and where. Their contents are in ``caches``."""

    def __init__(self, graph: JoinGraph) -> None:
        self.graph = graph
        self.classes = graph.classes
        self.pairs: frozenset[frozenset[int]] = frozenset()  # of inputs with another condition than an equality
        self.used: tuple[CacheSpec, ...] = ()
        self.profiled: tuple[CacheSpec, ...] = ()
        self.kept: tuple[CacheSpec, ...] = ()
        self.caches = JoinCaches()
        self.lookups = np.zeros((0, k.LOOKUP_FIELDS), np.int64)
        self.updates = np.zeros((0, k.UPDATE_FIELDS), np.int64)
        self.bits = np.zeros(1, np.int64)
        self.lookup_specs: list[CacheSpec] = []

    def arrange(
        self,
        used: Sequence[CacheSpec],
        profiled: Sequence[CacheSpec],
        pipelines: Sequence[tuple[Step, ...]],
        steps: Int64s,
        probes: list[int],
        bloom: Bloom,
        sizes: Mapping[StoreId, tuple[int, int]],
        kept: Sequence[CacheSpec] = (),
    ) -> None:
        """Write cache operators into the pipelines. Stores that stay keep what they hold, but for those in ``sizes``.
        Those of ``kept`` are maintained and not looked up."""
        m = len(pipelines)
        orders = [tuple(step.target for step in pipeline) for pipeline in pipelines]
        check_consistency(used, kept, orders, self.graph, self.pairs)
        self.caches.arrange(dict.fromkeys(c.store for c in (*used, *kept)), sizes)
        lookups: list[list[int]] = []
        by_step: dict[int, list[tuple[CacheSpec, bool]]] = {}
        for cache, uses in (*((c, True) for c in used), *((c, False) for c in profiled)):
            by_step.setdefault(cache.pipeline * (m - 1) + cache.first, []).append((cache, uses))
        bits = 0
        size = 1 << max(6, (bloom.distance * bloom.alpha - 1).bit_length())
        steps[:, k.ST_LOOKUP : k.ST_AFTER + 1] = 0
        steps[:, k.ST_UPDATE : k.ST_UPDATE_END + 1] = 0
        for row, here in sorted(by_step.items()):
            steps[row, k.ST_LOOKUP] = len(lookups)
            # A cache that is used comes last: a hit leaves the step.
            for cache, uses in sorted(here, key=lambda c: c[1]):
                bound = (cache.pipeline, *orders[cache.pipeline][: cache.first])
                members = [self._member(c, bound) for c in cache.key]
                ready = max((bound.index(x.input) for x in members), default=0)
                lookup = [0] * k.LOOKUP_FIELDS
                lookup[k.LK_STORE] = self.caches.ids.index(cache.store) if uses else -1
                lookup[k.LK_USED] = int(uses)
                lookup[k.LK_FIRST : k.LK_READY + 1] = cache.first, cache.last, len(probes), len(members), ready
                lookup[k.LK_BITS_OFF], lookup[k.LK_BITS], lookup[k.LK_DISTANCE] = bits, size - 1, bloom.distance
                bits += 0 if uses else size >> 6
                if uses:
                    steps[cache.pipeline * (m - 1) + cache.last, k.ST_AFTER] = 2 + len(lookups)
                lookups.append(lookup)
                for x in members:
                    probes += [x.input, x.key]
            steps[row, k.ST_LOOKUP_END] = len(lookups)
        self.lookups = np.array(lookups, np.int64).reshape(len(lookups), k.LOOKUP_FIELDS)
        self.lookup_specs = [c for _, here in sorted(by_step.items()) for c, _ in sorted(here, key=lambda c: c[1])]
        self.bits = np.zeros(max(1, bits), np.int64)
        self._maintain((*used, *kept), pipelines, steps, probes)
        self.used, self.profiled, self.kept = tuple(used), tuple(profiled), tuple(kept)

    def _member(self, cls: int, among: Sequence[int]) -> Member:
        there = [x for x in self.classes[cls] if x.input in among]
        return min(there, key=lambda x: (among.index(x.input), x.key))

    def _maintain(
        self, used: Sequence[CacheSpec], pipelines: Sequence[tuple[Step, ...]], steps: Int64s, probes: list[int]
    ) -> None:
        """CacheUpdate after the prefix of each pipeline whose input a store depends on."""
        m = len(pipelines)
        users: dict[StoreId, set[int]] = {}
        for cache in used:
            users.setdefault(cache.store, set()).add(cache.pipeline)
        by_step: dict[int, list[tuple[int, tuple[int, ...], StoreId]]] = {}
        for number, store in enumerate(self.caches.ids):
            whole = (*store.segment, *store.support)
            for i in whole:
                if users[store] == {i}:
                    continue  # anchored: its own pipeline sees only what the entry holds, or writes a new one
                by_step.setdefault(i * (m - 1) + len(whole) - 2, []).append((number, whole, store))
        updates: list[tuple[int, int, int]] = []
        for row, here in sorted(by_step.items()):
            steps[row, k.ST_UPDATE] = len(updates)
            for number, whole, store in here:
                source = row // (m - 1)
                order = [step.target for step in pipelines[source]]
                first = sum(1 << j for j in unread(order, pipelines[source], store.support, self.pairs))
                updates.append((number, len(probes), first))
                for c in store.key:
                    x = self._member(c, whole)
                    probes += [x.input, x.key]
            steps[row, k.ST_UPDATE_END] = len(updates)
            steps[row, k.ST_AFTER] = max(1, steps[row, k.ST_AFTER])
        self.updates = np.array(updates, np.int64).reshape(len(updates), k.UPDATE_FIELDS)

    def distinct(self) -> list[tuple[CacheSpec, int, int]]:
        """For each profiled cache: the Bloom filters that were filled since the last call, and the bits set in them."""
        out = []
        for cache, lookup in zip(self.lookup_specs, self.lookups, strict=True):
            if not lookup[k.LK_USED]:
                out.append((cache, int(lookup[k.LK_WINDOWS]), int(lookup[k.LK_TOTAL])))
                lookup[k.LK_WINDOWS] = lookup[k.LK_TOTAL] = 0
        return out

    @property
    def nbytes(self) -> int:
        """Of the caches in use and of the Bloom filters of those that are only profiled."""
        return self.caches.nbytes + (int(self.bits.nbytes) if self.caches.ids or len(self.lookups) else 0)
