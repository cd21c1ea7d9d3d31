"""How large the caches of a join are: what they need, as far as the memory for caches reaches (thesis 5.6)."""

from __future__ import annotations

from collections.abc import Iterable

from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.adaptive.joins.candidates import Candidate
from eddyline.kernels import join_layout as k
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.join_plan import CacheSpec, StoreId
from eddyline.operators.join_stations import BUCKETS, NODES, Bloom

CROWDED = 0.02  # of the misses since the last look that pushed somebody else out: then a cache wants more room
LARGEST = 1 << 26  # bytes of a cache that nobody limits


def specs(candidates: Iterable[Candidate]) -> list[CacheSpec]:
    """Candidates in the words of the operator."""
    return [CacheSpec(c.pipeline, c.first, c.last, c.segment, c.key, c.support) for c in candidates]


def words(store: StoreId, buckets: int, nodes: int) -> int:
    return buckets * (k.BK_KEY + len(store.key)) + nodes * (1 + len(store.segment))


class CacheSizes:
    """Buckets and nodes of the stores. A cache begins small and doubles what runs out; with a budget it has to get the
    pages for that, and loses them again to caches that are worth more."""

    def __init__(self) -> None:
        self.sizes: dict[StoreId, tuple[int, int]] = {}
        self._pushed: dict[StoreId, tuple[int, int, int]] = {}

    def has_room(self, spec: CacheSpec) -> bool:
        return self.sizes.get(spec.store, (1, 1)) != (0, 0)

    def bloom(self, caching: ACaching) -> Bloom:
        return Bloom(caching.W_d, caching.alpha_bits)

    def fit(self, arrays: JoinArrays, caching: ACaching) -> dict[StoreId, tuple[int, int]]:
        """The sizes that have to change."""
        wanted: dict[StoreId, tuple[int, int]] = {}
        of = {spec.store: c for c, spec in zip(caching.used, specs(caching.used), strict=True)}
        for c, spec in zip(caching.suspended, specs(caching.suspended), strict=True):
            of.setdefault(spec.store, c)
        for store in of:
            wanted[store] = self._wanted(store, arrays)
        if caching.memory is not None:
            for store, candidate in of.items():
                held = int(caching.memory.pages.get(candidate.store, 0))
                need = -(-8 * words(store, *wanted[store]) // caching.memory.page_bytes)
                if need > held:
                    caching.memory.request(candidate.store, need - held)
                elif need < held:
                    caching.memory.release(candidate.store, held - need)
            for store, candidate in of.items():
                pages = int(caching.memory.pages.get(candidate.store, 0))
                wanted[store] = within(store, wanted[store], pages * caching.memory.page_bytes)
        changed = {s: size for s, size in wanted.items() if self.sizes.get(s) != size}
        self.sizes = wanted
        return changed

    def _wanted(self, store: StoreId, arrays: JoinArrays) -> tuple[int, int]:
        size = self.sizes.get(store) or (BUCKETS, NODES)
        if store not in arrays.stations.ids or size == (0, 0):
            return BUCKETS, NODES
        c = arrays.stations.counts(store)
        before = self._pushed.get(store, (0, 0, 0))
        if c.misses < before[0]:
            before = (0, 0, 0)
        misses, replaced, evicted = c.misses - before[0], c.replaced - before[1], c.evicted - before[2]
        self._pushed[store] = (c.misses, c.replaced, c.evicted)
        buckets, nodes = size
        if replaced > CROWDED * misses and replaced > 16 and 2 * c.entries > buckets:
            buckets *= 2
        if evicted > CROWDED * misses and evicted > 16:
            nodes *= 2
        return (buckets, nodes) if 8 * words(store, buckets, nodes) <= LARGEST else size


def within(store: StoreId, wanted: tuple[int, int], bytes: int) -> tuple[int, int]:
    """The largest size up to what is wanted that fits; (0, 0) if none does."""
    buckets, nodes = wanted
    if 8 * words(store, buckets, nodes) <= bytes:
        return wanted
    width, node = 8 * (k.BK_KEY + len(store.key)), 8 * (1 + len(store.segment))
    while buckets > 1 and 2 * buckets * width > bytes:
        buckets //= 2
    nodes = min(nodes, (bytes - buckets * width) // node)
    return (buckets, nodes) if nodes > 0 else (0, 0)
