"""The run history of an adaptive join: its work, the gains of its decisions, its present plan. For people only."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from eddyline.adapting.cache_sizes import specs
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.core.amounts import size
from eddyline.core.time import Clock
from eddyline.kernels import join_layout as k
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.join_plan import CacheSpec
from eddyline.streamon.decision import Decision
from eddyline.streamon.gains import GainMeter
from eddyline.streamon.log import DecisionLog
from eddyline.synopses.store_id import StoreId

RUNS_KEPT = 2048  # last runs in the history: more shows more of the past and takes memory
RUNS_BEFORE = 64  # runs by whose accesses the gain of a decision is measured
CACHES_SHOWN = 6  # lines on caches in explain, unless more are in use
STATES = {"used": "cache in use  ", "profiled": "cache weighed ", "unused": "cache not used"}
CACHED = [k.SR_PROBE_WORK, k.SR_UPDATE_WORK, k.SR_FILLS]  # accesses of a store
ELEMENTS_TO_SETTLE_GAIN = 4096  # elements after a decision by which its gain is measured: more is surer and later


class DescribedJoin(Protocol):
    """The part of an adaptive join that its history describes."""

    policies: list[FilterPolicy] | None
    caching: ACaching | None
    elements: int


class RunHistory:
    """Work and time by run, and the decisions with the gain that was measured after them."""

    def __init__(self, operator: str, names: Sequence[str], clock: Clock, log: DecisionLog | None = None) -> None:
        self.operator, self.names, self.clock = operator, tuple(names), clock
        self.log = log if log is not None else DecisionLog(clock=clock)
        self.gains = GainMeter(
            self.log,
            1,
            steps_before=RUNS_BEFORE,
            units_after=ELEMENTS_TO_SETTLE_GAIN,
            fewest_before=ELEMENTS_TO_SETTLE_GAIN // 2,
        )
        self.orders: list[tuple[int, ...]] = []
        self.caching = "no caches"  # in words
        # by run: time reached, elements in all, elements, seconds, accesses, number of decisions so far
        self.history: deque[tuple[int, int, int, float, int, int]] = deque(maxlen=RUNS_KEPT)
        self.made = self.elements = self.work = self.profiling = 0
        self._began = self._spent = 0  # nanoseconds: when elements came, and what those before took
        self._resting = False
        self._at_begin = (0, 0)

    def begin(self, done: tuple[int, int]) -> None:
        """A run begins after so many ``accesses``."""
        self._began, self._at_begin, self._spent = self.clock.nanoseconds(), done, 0

    def rest(self) -> None:
        """The run goes on when more elements come."""
        self._spent += self.clock.nanoseconds() - self._began
        self._resting = True

    def resume(self) -> None:
        self._began, self._resting = self.clock.nanoseconds(), False

    def end(self, orders: Sequence[tuple[int, ...]], done: tuple[int, int], now: int, elements: int) -> int:
        """The run is over: the accesses that it took."""
        if not self._resting:
            self.rest()
        self._resting, seconds = False, self._spent / 1e9
        work, profiling = done[0] - self._at_begin[0], done[1] - self._at_begin[1]
        self.orders = list(orders)
        self.elements += elements
        self.work += work
        self.profiling += profiling
        if elements:
            self.history.append((now, self.elements, elements, seconds, work, self.made))
        if elements:
            self.gains.add(elements, np.array([float(work)]))
        return work

    def suggested(self, decisions: Sequence[Decision]) -> None:
        """Decisions that were not applied; nothing is gained by them."""
        for d in decisions:
            self.log.record(d)

    def decided(self, decisions: Sequence[Decision]) -> None:
        for d in decisions:
            record = self.log.record(d)
            self.made += 1
        if decisions:
            self.gains.decided(record.sequence)

    # ── for people ────────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self, join: DescribedJoin, arrays: JoinArrays) -> list[str]:
        """What it does and costs; the pipelines as they stand, cached segments in brackets; then the caches."""
        orders = "orders as written" if join.policies is None else f"orders by the policy {join.policies[0].name}"
        lines = [f"{orders}, {self.caching}", *([self._cost()] if self.elements else []), *drawn(self.names, arrays)]
        if join.caching is not None:
            lines += self._caches(join, arrays)
        return lines

    def _cost(self) -> str:
        learned = f", and {self.profiling / self.work:.1%} more to learn" if self.work and self.profiling else ""
        return f"{each(self.elements, self.work)}{learned}"

    def _caches(self, join: DescribedJoin, arrays: JoinArrays) -> list[str]:
        """Those in use, then those that would bring most; a join of seven inputs has dozens."""
        lines: list[str] = []
        hidden = 0
        memory = join.caching.memory if join.caching is not None else None
        if memory is not None and not memory.budget:
            return ["there is no memory for caches, not even a page"]
        if memory is not None:
            held_now = arrays.cache_operators.caches.cells.nbytes if arrays.cache_operators.caches.ids else 0
            lines.append(f"caches take {size(held_now)} of {size(memory.budget * memory.page_bytes)}")
        rows = list(zip(self._table(join), specs(_all(join)), strict=True))
        rows.sort(key=lambda r: (r[0]["state"] != "used", -_net(r[0])))
        stores: dict[StoreId, str] = {}  # the cache under which the cost of each store in use is shown
        for row, spec in rows:
            used = row["state"] == "used"
            if not used and len(lines) >= CACHES_SHOWN:
                hidden += 1
                continue
            figures = []
            if row["miss"] is not None:
                figures.append(f"{'hits' if used else 'would hit'} {1 - row['miss']:.1%}")
            paid = stores.get(spec.store) if used else None
            if row["benefit"] is not None:
                figures.append(worth(row["benefit"], 0.0 if paid else row["cost"], used))
            kept = held(arrays, spec) if used and not paid else None
            figures += [f"one with {paid}"] if paid else [kept] if kept else []
            if used:
                stores.setdefault(spec.store, row["cache"])
            shown = ", ".join(figures) or "no statistics yet"
            lines.append(f"{STATES[str(row['state'])]} {row['cache']}: {shown}")
        lines += [f"and {hidden} more cache{'' if hidden == 1 else 's'} with less benefit"] if hidden else []
        semijoin = next((c for r, _ in rows if (c := re.match(r"\((.+)\)⋉(\S+)", r["cache"]))), None)
        if semijoin is not None and any("⋉" in line for line in lines):
            lines.append(
                f"where ({semijoin[1]})⋉{semijoin[2]} are the rows of {semijoin[1]} that join with {semijoin[2]}"
            )
        return lines

    def _table(self, join: DescribedJoin) -> list[dict[str, Any]]:
        caching = join.caching
        assert caching is not None
        candidates = _all(join)
        misses = caching.profiler.misses(candidates, join.elements)
        values = caching.profiler.values(misses, caching.profiler.statistics())
        rows = []
        for c in candidates:
            v = values.get(c)
            rows.append(
                {
                    "cache": c.label(self.names),
                    "state": caching.states.of(c),
                    "miss": misses.get(c),
                    "benefit": None if v is None else v.benefit,
                    "cost": None if v is None else v.cost,
                    "span": [self.names[c.pipeline], c.first, c.last],
                }
            )
        return rows

    def statistics(self, join: DescribedJoin, arrays: JoinArrays) -> dict[str, Any]:
        """The statistics and the history of the join, as plain data."""
        used = arrays.cache_operators.used
        caches = [] if join.caching is None else self._table(join)
        for row, spec in zip(caches, specs(_all(join)) if caches else (), strict=True):
            if spec.store in arrays.cache_operators.caches.ids and spec in used:
                c = arrays.cache_operators.caches.counts(spec.store)
                row |= {"entries": c.entries, "rows": c.live, "bytes": c.bytes, "probes": c.probes, "misses": c.misses}
        return {
            "inputs": list(self.names),
            "orders": {self.names[i]: [self.names[x] for x in o] for i, o in enumerate(arrays.orders)},
            "ordering": None if join.policies is None else join.policies[0].name,
            "caching": None if join.caching is None else join.caching.name,
            "elements": self.elements,
            "accesses": self.work,
            "probes": int(arrays.counters[k.CN_PROBES]),
            "profiling": self.profiling,
            "caches": caches,
            "cache_bytes": arrays.cache_operators.nbytes,
            "history": [
                dict(zip(("time", "total", "elements", "seconds", "accesses", "decisions"), h, strict=True))
                for h in self.history
            ],
        }

    def state(self) -> dict[str, Any]:
        """Totals. The history is of this process."""
        return {"elements": self.elements, "work": self.work, "profiling": self.profiling, "made": self.made}

    def load(self, state: Mapping[str, Any]) -> None:
        self.elements, self.work = int(state["elements"]), int(state["work"])
        self.profiling, self.made = int(state["profiling"]), int(state["made"])


def _all(join: DescribedJoin) -> list[Any]:
    assert join.caching is not None
    rank = {"used": 0, "profiled": 1, "unused": 2}
    return sorted(join.caching.states, key=lambda c: (rank[str(join.caching.states.of(c))], c))  # type: ignore[union-attr]


def each(elements: int, work: int) -> str:
    """
    >>> each(48_000, 120_000)
    '48,000 elements came or left, 2.50 accesses each'
    """
    return f"{elements:,} elements came or left, {work / elements:.2f} accesses each"


def worth(benefit: float, cost: float, used: bool) -> str:
    """
    >>> worth(1.25, 0.25, True)
    'spares 1.25 and costs 0.25 accesses an element'
    >>> worth(0.5, 0.0001, False)
    'would spare 0.50 accesses an element and cost next to nothing'
    >>> worth(-0.1, 0.3, False)
    'would lose 0.10 and cost 0.30 accesses an element'
    """
    spares, costs = ("spares", "costs") if used else ("would spare", "cost")
    if benefit < 0:
        spares = "loses" if used else "would lose"
    if cost < 0.005:
        return f"{spares} {abs(benefit):.2f} accesses an element and {costs} next to nothing"
    return f"{spares} {abs(benefit):.2f} and {costs} {cost:.2f} accesses an element"


def _net(row: Mapping[str, Any]) -> float:
    return float("-inf") if row["benefit"] is None else float(row["benefit"] - row["cost"])


def drawn(names: Sequence[str], arrays: JoinArrays) -> list[str]:
    """The pipelines, one a line: what an element of each input is joined with, in brackets what a cache may spare."""
    wide = max(map(len, names))
    spans = [span(c, names) for c in arrays.cache_operators.used]
    return [
        f"Δ{names[i]:{wide}} → " + " → ".join(bracketed(names[i], [names[x] for x in order], spans))
        for i, order in enumerate(arrays.orders)
    ]


def span(cache: CacheSpec, names: Sequence[str]) -> tuple[str, int, int]:
    """Where a cache stands: the input of its pipeline, its first step and its last."""
    return names[cache.pipeline], cache.first, cache.last


def bracketed(name: str, steps: Sequence[str], spans: Iterable[Sequence[Any]]) -> list[str]:
    """
    >>> bracketed("R", ["S", "T", "U"], [("R", 1, 2), ("S", 0, 1)])
    ['S', '[T', 'U]']
    """
    shown = list(steps)
    for pipeline, first, last in spans:
        if pipeline == name:
            shown[first], shown[last] = f"[{shown[first]}", f"{shown[last]}]"
    return shown


def held(arrays: JoinArrays, cache: CacheSpec) -> str | None:
    """What a cache holds."""
    if cache.store not in arrays.cache_operators.caches.ids:
        return None
    c = arrays.cache_operators.caches.counts(cache.store)
    return f"{c.live:,} row{'' if c.live == 1 else 's'} under {c.entries:,} keys in {size(c.bytes)}"


def named_cache(cache: CacheSpec, names: Sequence[str]) -> str:
    return f"{'⋈'.join(names[x] for x in cache.segment)} in Δ{names[cache.pipeline]}"


def accesses(arrays: JoinArrays, counters: Sequence[int] | None = None) -> tuple[int, int]:
    """Accesses so far, and those made only to learn; ``counters`` are those of the join, if the caller has them."""
    stores = arrays.cache_operators.caches.stores
    cached = int(stores[:, CACHED].sum()) if len(stores) else 0
    counters = arrays.counters.tolist() if counters is None else counters
    return counters[k.CN_PROBES] + counters[k.CN_LINKS] + cached, counters[k.CN_PROFILING]
