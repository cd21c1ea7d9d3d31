"""Memory for caches: pages by priority (section 5.6)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from eddyline.adaptive.joins.candidates import Candidate, Store
from eddyline.adaptive.joins.model import Value, net

MIN_SAVING_SHARE = 0.1  # of its segment's work that a cache with less memory than it needs must save to be kept
BUCKETS_PER_KEY = 4  # of a direct-mapped cache: with fewer, keys push each other out; more take memory from others


class Allocation:
    """A pool of pages that caches draw from; who is worth more per byte may take from who is worth less.

    The *priority* of a cache is (benefit − cost) / expected memory. A request takes free pages first, then pages of
    caches with strictly lower priority, lowest first; what it does not get, the cache goes on without. The budget can
    grow and shrink while running: shrinking takes from the lowest priorities. The owner of the caches reads ``pages``
    after each call and makes the caches fit: direct-mapped caches lose entries, never correctness.

    >>> pool = Allocation(budget_bytes=4096, page_bytes=1024)
    >>> pool.prioritise({"R⋈S": 2.0, "S⋈T": 5.0})
    >>> pool.request("R⋈S", 3), pool.request("S⋈T", 3), dict(pool.pages)
    (3, 3, {'R⋈S': 1, 'S⋈T': 3})
    >>> pool.request("R⋈S", 1)
    0
    >>> pool.resize(2048)
    >>> dict(pool.pages)
    {'R⋈S': 0, 'S⋈T': 2}
    """

    def __init__(self, budget_bytes: int, page_bytes: int = 4096) -> None:
        self.page_bytes = page_bytes
        self.budget = budget_bytes // page_bytes
        self._priority: dict[Hashable, float] = {}
        self._pages: dict[Hashable, int] = {}

    @property
    def pages(self) -> Mapping[Hashable, int]:
        """Pages by cache."""
        return self._pages

    @property
    def free(self) -> int:
        return self.budget - sum(self._pages.values())

    def priority(self, cache: Hashable) -> float:
        return self._priority.get(cache, 0.0)

    def prioritise(self, priorities: Mapping[Any, float]) -> None:
        """The caches in use and their priorities; those that are no longer among them give their pages back."""
        self._priority = {cache: float(p) for cache, p in priorities.items()}
        self._pages = {cache: self._pages.get(cache, 0) for cache in self._priority}

    def request(self, cache: Hashable, pages: int = 1) -> int:
        """How many of the pages asked for the cache was given."""
        if cache not in self._priority:
            return 0
        own = self._priority[cache]
        given = min(pages, max(0, self.free))
        self._pages[cache] += given
        for other in self._lowest():
            if given == pages or self._priority[other] >= own:
                break
            taken = min(self._pages[other], pages - given)
            self._pages[other] -= taken
            self._pages[cache] += taken
            given += taken
        return given

    def release(self, cache: Hashable, pages: int | None = None) -> None:
        """Give pages back, all by default: a cache that holds less than it was given."""
        held = self._pages.get(cache, 0)
        if cache in self._pages:
            self._pages[cache] = 0 if pages is None else max(0, held - pages)

    def resize(self, budget_bytes: int) -> None:
        """A new budget; if it is smaller, pages go, lowest priority first."""
        self.budget = budget_bytes // self.page_bytes
        for cache in self._lowest():
            taken = min(self._pages[cache], max(0, -self.free))
            self._pages[cache] -= taken

    def _lowest(self) -> list[Hashable]:
        return sorted(self._pages, key=lambda cache: self._priority[cache])

    def state(self) -> dict[str, Any]:
        caches = [[cache, self._priority[cache], pages] for cache, pages in self._pages.items()]
        return {"budget": self.budget, "page_bytes": self.page_bytes, "caches": caches}

    def load(self, state: Mapping[str, Any]) -> None:
        self.budget, self.page_bytes = int(state["budget"]), int(state["page_bytes"])
        self._priority = {_frozen(cache): float(p) for cache, p, _ in state["caches"]}
        self._pages = {_frozen(cache): int(pages) for cache, _, pages in state["caches"]}


def shares(
    chosen: Iterable[Candidate], values: Mapping[Candidate, Value], sizes: Mapping[Candidate, float], budget: float
) -> dict[Store, float]:
    """What part of the memory that it needs each store would get of so many bytes: the highest priorities all of it,
    as long as it lasts.

    >>> one, other = Candidate(2, 0, 1, (0, 1), (0,)), Candidate(0, 0, 1, (1, 2), (0,))
    >>> shares([one, other], {one: Value(5.0, 1.0, 0.0), other: Value(8.0, 1.0, 0.0)}, {one: 100, other: 400}, 200)
    {((0, 1), (0,), (), -1): 1.0, ((1, 2), (0,), (), -1): 0.25}
    """
    groups: dict[Store, list[Candidate]] = {}
    for c in chosen:
        groups.setdefault(c.store, []).append(c)
    needs = {s: max(sizes[c] for c in g) for s, g in groups.items()}
    given, left = {}, budget
    for store in sorted(groups, key=lambda s: (-net(groups[s], values) / needs[s], s)):
        given[store] = min(1.0, left / needs[store])
        left -= given[store] * needs[store]
    return given


def remembered(store: Store, share: float) -> float:
    """The part of its keys that a direct-mapped cache still has when they come again, if it has this share of the
    memory it needs, which is ``BUCKETS_PER_KEY`` places a key: of n keys in b places (b/n)(1 − e^(−n/b)). Entries of an
    anchored
    cache are asked again at the end of their lives, which n others have begun since: e^(−n/b).

    >>> [round(remembered(((0, 1), (0,), (), -1), share), 2) for share in (0, 0.1, 0.25, 0.5, 1, 2)]
    [0.0, 0.37, 0.63, 0.79, 0.88, 0.94]
    >>> round(remembered(((0, 1), (0,), (2,), 2), 0.5), 2)
    0.61
    """
    places = BUCKETS_PER_KEY * share
    if places <= 0:
        return 0.0
    return math.exp(-1 / places) if store[3] >= 0 else places * -math.expm1(-1 / places)


def squeezed(miss: float, value: Value, work: float, kept: float) -> Value:
    """The figures of a cache that keeps this part of its keys: as many of its hits, and of the rows that are brought
    to it those of the missing entries only knock.

    >>> squeezed(0.1, Value(benefit=80.0, cost=10.0, proc=20.0), work=100.0, kept=0.5)
    Value(benefit=35.0, cost=7.5, proc=65.0)
    """
    lost = (1 - miss) * (1 - kept)
    proc = value.proc + lost * work
    return Value(work - proc, value.cost * (1 + kept) / 2, proc)


def priorities(
    used: Iterable[Candidate], values: Mapping[Candidate, Value], sizes: Mapping[Candidate, float], old: Allocation
) -> dict[Store, float]:
    """Net benefit per byte of each store in use; a store without statistics keeps its priority.

    >>> cache = Candidate(2, 0, 1, (0, 1), (0,))
    >>> priorities([cache], {cache: Value(5.0, 1.0, 0.0)}, {cache: 200.0}, Allocation(0))
    {((0, 1), (0,), (), -1): 0.02}
    """
    groups: dict[Store, list[Candidate]] = {}
    for c in used:
        groups.setdefault(c.store, []).extend([c] if c in values else [])
    return {s: net(g, values) / max(sizes[c] for c in g) if g else old.priority(s) for s, g in groups.items()}


def _frozen(value: Any) -> Hashable:
    """Tuples come back as lists from formats that know no tuples."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list | tuple) else value
