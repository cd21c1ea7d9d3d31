"""The sizes of caches under a budget: all of it is used, and asked for again when there is more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from eddyline.adapting.cache_sizes import CacheSizes, specs, within, words
from eddyline.adaptive.joins.candidates import Candidate
from eddyline.adaptive.joins.memory import Allocation

CACHE = Candidate(3, 0, 2, (0, 1, 2), (0,))
STORE = specs([CACHE])[0].store


@pytest.mark.parametrize("kilobytes", [2, 8, 32, 45, 60, 100])
def test_next_to_nothing_of_what_was_given_is_left_over(kilobytes: int) -> None:
    wanted = (1024, 34)  # places are most of it: 16 KB
    buckets, nodes = within(STORE, wanted, 1024 * kilobytes)
    held = 8 * words(STORE, buckets, nodes)
    assert held <= 1024 * kilobytes
    assert (buckets, nodes) == wanted or held > 0.98 * 1024 * kilobytes
    assert within(STORE, wanted, 40) == (0, 0)


def test_few_places_and_many_rows_are_cut_alike() -> None:
    buckets, nodes = within(STORE, (256, 4096), 32 * 1024)
    assert buckets == 62 and nodes == 993


class Caching:
    """As much of the policy as sizes depend on."""

    suspended = ()

    def __init__(self, memory: int | None, entries: float = 250.0) -> None:
        self.used = (CACHE,)
        self.memory = None if memory is None else Allocation(memory, 1024)
        if self.memory is not None:
            self.memory.prioritise({CACHE.store: 1.0})
        self._entries = entries

    def entries(self) -> dict[Candidate, tuple[float, float]]:
        return {CACHE: (self._entries, 0.1)}


def arrays(**seen: int) -> Any:
    counts = SimpleNamespace(**{"misses": 0, "replaced": 0, "evicted": 0, "entries": 0, **seen})
    return SimpleNamespace(
        cache_operators=SimpleNamespace(caches=SimpleNamespace(ids=[STORE], counts=lambda _: counts))
    )


def test_a_cache_asks_for_what_it_is_expected_to_need_and_asks_again() -> None:
    sizes, caching = CacheSizes(), Caching(8 * 1024)
    assert sizes.fit(arrays(), caching)[STORE][0] == 468  # of 1,000: four for each key
    assert sizes.fit(arrays(), caching) == {}
    caching.memory.resize(64 * 1024)  # type: ignore[union-attr]
    assert sizes.fit(arrays(), caching)[STORE][0] == 1000
    caching.memory.resize(0)  # type: ignore[union-attr]
    assert sizes.fit(arrays(), caching)[STORE] == (0, 0)
    caching.memory.resize(64 * 1024)  # type: ignore[union-attr]
    assert sizes.fit(arrays(), caching)[STORE][0] == 1000


def test_a_crowded_cache_grows_unless_it_is_crowded_for_want_of_memory() -> None:
    crowded = {"misses": 1000, "replaced": 900, "entries": 220}
    for memory, then in ((1 << 20, 2000), (8 * 1024, None), (None, None)):
        sizes, caching = CacheSizes(), Caching(memory)
        sizes.fit(arrays(), caching)
        assert sizes.fit(arrays(**crowded), caching).get(STORE, (None, 0))[0] == then
