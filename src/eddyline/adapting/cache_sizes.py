"""The sizes of the caches of a join: the size that each needs, within the memory for caches (thesis 5.6)."""

from __future__ import annotations

from collections.abc import Iterable

from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.adaptive.joins.candidates import Candidate
from eddyline.adaptive.joins.memory import BUCKETS_PER_KEY
from eddyline.operators.cache_operators import Bloom
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.join_plan import CacheSpec
from eddyline.synopses.join_caches import INITIAL_BUCKETS, INITIAL_NODES, words
from eddyline.synopses.store_id import StoreId

# Of the misses since the last profiling run, the share that pushed another entry out beyond which a cache wants more
# room: less gives room sooner, more spares memory.
CROWDED_MISS_SHARE = 0.02
MAX_BYTES_WITHOUT_BUDGET = 1 << 26  # bytes of one cache where no memory budget is given


def specs(candidates: Iterable[Candidate]) -> list[CacheSpec]:
    """Candidates in the words of the operator."""
    return [CacheSpec(c.pipeline, c.first, c.last, c.segment, c.key, c.support) for c in candidates]


class CacheSizes:
    """Buckets and nodes of the stores. A cache begins small and doubles what runs out; with a budget it has to get the
    pages for that, and loses them again to caches that are worth more."""

    def __init__(self) -> None:
        self.sizes: dict[StoreId, tuple[int, int]] = {}
        self._wants: dict[StoreId, tuple[int, int]] = {}  # what they would have if there were memory enough
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
        expected = {} if caching.memory is None else caching.entries()
        for store, candidate in of.items():
            # A limit of memory that the user sets is meant to be used.
            roomy = 2 if caching.memory is None else 2 * BUCKETS_PER_KEY
            wanted[store] = self._wanted(store, arrays, _size_for(expected.get(candidate)), roomy)
        self._wants = dict(wanted)
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
        # What a cache wants is asked for again at every profiling run: others may have gone.
        changed = {s: size for s, size in wanted.items() if self.sizes.get(s) != size}
        self.sizes = wanted
        return changed

    def _wanted(self, store: StoreId, arrays: JoinArrays, first: tuple[int, int], roomy: int) -> tuple[int, int]:
        size = self._wants.get(store) or first
        if store not in arrays.cache_operators.caches.ids:
            return size
        c = arrays.cache_operators.caches.counts(store)
        before = self._pushed.get(store, (0, 0, 0))
        if c.misses < before[0]:
            before = (0, 0, 0)
        misses, replaced, evicted = c.misses - before[0], c.replaced - before[1], c.evicted - before[2]
        self._pushed[store] = (c.misses, c.replaced, c.evicted)
        buckets, nodes = size
        if self.sizes.get(store) != size:
            return size  # it is crowded because it did not get what it wants
        if replaced > CROWDED_MISS_SHARE * misses and replaced > 16 and roomy * c.entries > buckets:
            buckets *= 2
        if evicted > CROWDED_MISS_SHARE * misses and evicted > 16:
            nodes *= 2
        return (buckets, nodes) if 8 * words(store, buckets, nodes) <= MAX_BYTES_WITHOUT_BUDGET else size


def _size_for(expected: tuple[float, float] | None) -> tuple[int, int]:
    """Where memory is scarce a cache asks for what it is expected to need, and not for what most find enough."""
    if expected is None:
        return INITIAL_BUCKETS, INITIAL_NODES
    entries, rows = expected
    return max(16, int(BUCKETS_PER_KEY * entries)), 16 + int(1.25 * entries * rows)


def within(store: StoreId, wanted: tuple[int, int], bytes: int) -> tuple[int, int]:
    """The largest size up to what is wanted that fits, buckets and nodes cut alike; (0, 0) if none does."""
    buckets, nodes = wanted
    width, node = 8 * store.bucket_words, 8 * store.node_words
    share = min(1.0, bytes / (buckets * width + nodes * node))
    buckets = max(1, int(share * buckets))
    nodes = min(nodes, (bytes - buckets * width) // node)
    return (buckets, nodes) if nodes > 0 else (0, 0)
