"""Runs a multiway join under a plan and counts what it does: probes, accesses, seconds, results.

The operator is driven directly, with a plan that is forced upon it or with the policies of the engine. An *access* is a
probe of an index or of a cache, a record or an entry's row that is followed, a row that is brought to a cache; accesses
made only to learn are counted too. Counts can be repeated exactly. Seconds are those of the join itself: results are
counted and hashed, not made into columns, and neither that nor the encoding of arrivals is timed. Whatever the plan,
results have the same digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.adapting.join_choice import Joining
from eddyline.adapting.join_history import CACHED
from eddyline.adaptive.joins.candidates import Candidate
from eddyline.adaptive.joins.shape import Shape
from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.core.window import Rows, WindowSpec
from eddyline.datasets.joins import Arrivals
from eddyline.expr.nodes import Column
from eddyline.kernels import join_layout as k
from eddyline.operators.base import Context
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.join_plan import CacheSpec, JoinGraph, Member
from eddyline.operators.join_side import JoinInput
from eddyline.operators.mjoin import MJoin
from eddyline.streamon.decision import Decision
from eddyline.synopses.join_contents import Laid
from eddyline.synopses.registry import Registry
from eddyline.synopses.store_id import StoreId

STEP = 1024  # elements after which a forced cache may get more room, while the run is warming up
NEVER = int(k.NEVER)


@dataclass(frozen=True, slots=True)
class Query:
    """A join of streams with one window each. ``edges`` are equalities (stream, column, stream, column). The hash
    indexes of ``scanned`` (stream, column) are dropped: whoever looks there looks at every row."""

    names: tuple[str, ...]
    windows: tuple[int | WindowSpec, ...]
    edges: tuple[tuple[int, str, int, str], ...]
    scanned: tuple[tuple[int, str], ...] = ()
    keys: int = 1024  # different ones that are alive at a time: caches have eight buckets for each

    @property
    def buckets(self) -> int:
        return 1 << (8 * self.keys - 1).bit_length()

    @property
    def shape(self) -> Shape:
        graph, _ = _graph(self)
        return Shape(len(self.names), tuple(frozenset(m.input for m in c) for c in graph.classes))


def chain(*windows: int | WindowSpec, keys: int, scanned: tuple[tuple[int, str], ...] = ()) -> Query:
    """R ⋈ S ⋈ T on R.a = S.a and S.b = T.b."""
    return Query(("R", "S", "T"), windows, ((0, "a", 1, "a"), (1, "b", 2, "b")), scanned, keys)


def on_one_attribute(windows: Sequence[int | WindowSpec], keys: int, names: Sequence[str] | None = None) -> Query:
    """R1 ⋈ … ⋈ Rn on one attribute."""
    n = len(windows)
    edges = tuple((i - 1, "a", i, "a") for i in range(1, n))
    return Query(tuple(names or (f"R{i + 1}" for i in range(n))), tuple(windows), edges, keys=keys)


@dataclass(frozen=True, slots=True)
class Plan:
    """Orders and caches that are forced upon a join, or the options that say who chooses them. Without orders they are
    as written. ``complete``: caches are an XJoin's subresults."""

    orders: tuple[tuple[int, ...], ...] | None = None
    caches: tuple[Candidate, ...] = ()
    complete: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[int, int] | None = None  # of all caches: fixed, else as large as they need

    def specs(self) -> list[CacheSpec]:
        return [CacheSpec(c.pipeline, c.first, c.last, c.segment, c.key, c.support, self.complete) for c in self.caches]


@dataclass(frozen=True, slots=True)
class Run:
    """What was counted after the warm-up, but for ``results`` and ``digest``, which are of the whole run."""

    elements: int
    probes: int
    accesses: int
    learning: int  # accesses, part of them, that were made only to learn
    seconds: float
    results: int
    digest: int
    cache_bytes: int
    caches: tuple[Candidate, ...]
    orders: tuple[tuple[int, ...], ...]
    hits: float  # of the probes of caches; NaN without
    updates: float  # of caches, for each probe of one
    series: tuple[tuple[int, int, int, float], ...] = ()  # by part: last time, elements, accesses, seconds
    decisions: tuple[Decision, ...] = ()  # the last hundred, of the whole run; their times are the ends of parts

    @property
    def each(self) -> float:
        """Accesses for each element."""
        return self.accesses / self.elements

    @property
    def rate(self) -> float:
        """Elements a second."""
        return self.elements / self.seconds


class CountingJoin(MJoin):
    """Counts and hashes results instead of handing them on."""

    results = digest = 0
    counting = 0.0  # seconds for all that is not the join

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        began = perf_counter()
        for side, delta in zip(self.sides, deltas, strict=True):
            side.accept(delta)
        self.counting += perf_counter() - began
        return super().process([Delta.empty(s.spec.schema) for s in self.sides], frontier)

    def _materialise(self, time: Int64s, weight: Int64s, rows: Int64s) -> Delta:
        began = perf_counter()
        mixed = time.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + weight.astype(np.uint64)
        for row in rows:
            mixed ^= mixed >> np.uint64(29)
            mixed = (mixed + row.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
        self.results += len(time)
        self.digest = (self.digest + int(mixed.sum(dtype=np.uint64))) % (1 << 64)  # whatever their order
        self.counting += perf_counter() - began
        return Delta.empty(self.schema)


def _graph(query: Query) -> tuple[JoinGraph, list[Schema]]:
    columns: list[list[str]] = [[] for _ in query.names]

    def member(i: int, column: str) -> Member:
        if column not in columns[i]:
            columns[i].append(column)
        return Member(i, columns[i].index(column))

    equalities = tuple((member(a, x), member(b, y)) for a, x, b, y in query.edges)
    keys = tuple(tuple(Column(f"{n}.{c}", pa.int64()) for c in cs) for n, cs in zip(query.names, columns, strict=True))
    schemas = [Schema(tuple(Field(c.name, pa.int64()) for c in ks)) for ks in keys]
    return JoinGraph(keys, equalities), schemas


def build(query: Query, deletes: int = k.ALL_DELETIONS) -> CountingJoin:
    graph, schemas = _graph(query)
    registry = Registry()
    windows = [Rows(w) if isinstance(w, int) else w for w in query.windows]
    inputs = [JoinInput(s, w, deletes=deletes) for s, w in zip(schemas, windows, strict=True)]
    stubs = [lambda s=s: registry.stub(None, s, "") for s in schemas]
    names = [n for s in schemas for n in s.names]
    join = CountingJoin("mjoin", inputs, graph, [], stubs, names, Context(start=0))
    if query.scanned:
        dropped = {(i, (schemas[i].names.index(f"{query.names[i]}.{c}"),)) for i, c in query.scanned}
        _scan(join.arrays, dropped)
    return join


def _scan(arrays: JoinArrays, dropped: set[tuple[int, tuple[int, ...]]]) -> None:
    """Give indexes a single chain, which holds every row."""
    lay_out, done = arrays._lay_out_heads, arrays._done

    def heads(old: Laid | None) -> None:
        lay_out(old)
        for key, x in arrays.index_of.items():
            if key in dropped:
                arrays.indexes[x, k.IX_HEAD_MASK] = 0
        arrays.heads[:] = -1
        for i in range(len(arrays.sides)):
            for x in arrays.indexes_of(i):
                arrays.relink(i, x)

    def finish() -> None:
        done()
        for i, side in enumerate(arrays.sides):  # a single chain calls for no more heads, however many rows there are
            arrays.inputs[i, k.ROOM] = side.capacity

    arrays._lay_out_heads = heads  # type: ignore[method-assign]
    arrays._done = finish  # type: ignore[method-assign]
    arrays.lay_out([s.capacity for s in arrays.sides])


class Meter:
    """Stands between the join and whoever adapts it. Adds up accesses before stores are dropped, and with them their
    counts; gives forced caches room while the run is warming up."""

    def __init__(self, inner: Any, grows: bool) -> None:
        self.inner, self.grows = inner, grows
        self.work = np.zeros(3, np.int64)  # probes, accesses, learning
        self.stores = np.zeros(3, np.int64)  # probes, misses, updates
        self._before = (self.work.copy(), self.stores.copy())
        self._pushed: dict[Any, int] = {}

    def begin(self, arrays: JoinArrays, next_event: Int64s, lengths: Sequence[int]) -> int:
        limit = NEVER if self.inner is None else self.inner.begin(arrays, next_event, lengths)
        self._before = counts(arrays)
        return STEP if self.grows else limit

    def end(self, arrays: JoinArrays, now: int) -> None:
        work, stores = counts(arrays)
        self.work += work - self._before[0]
        self.stores += stores - self._before[1]
        if self.grows:
            self._grow(arrays)
        if self.inner is not None:
            self.inner.end(arrays, now)

    def _grow(self, arrays: JoinArrays) -> None:
        sizes = {}
        for store in arrays.cache_operators.caches.ids:
            c = arrays.cache_operators.caches.counts(store)
            if c.evicted > self._pushed.get(store, 0) and not c.complete:
                sizes[store] = (c.buckets, 2 * c.nodes)
            self._pushed[store] = c.evicted
        if sizes:
            at = arrays.cache_operators
            arrays.set_plan(arrays.orders, at.used, at.profiled, kept=at.kept, sizes=sizes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def counts(arrays: JoinArrays) -> tuple[Int64s, Int64s]:
    """Probes, accesses and accesses to learn; probes, misses and updates of caches."""
    c, stores = arrays.counters, arrays.cache_operators.caches.stores
    by = stores.sum(0) if len(stores) else np.zeros(k.STORE_FIELDS, np.int64)
    probes = int(c[k.CN_PROBES] + by[k.SR_PROBES])
    accesses = int(c[k.CN_PROBES] + c[k.CN_LINKS] + by[CACHED].sum() + c[k.CN_PROFILING])
    work = np.array([probes, accesses, int(c[k.CN_PROFILING])], np.int64)
    return work, np.array([by[k.SR_PROBES], by[k.SR_MISSES], by[k.SR_UPDATES]], np.int64)


def execute(
    query: Query, data: Arrivals, plan: Plan, warm: float = 0.3, parts: int = 1, deletes: int = k.ALL_DELETIONS
) -> Run:
    """Join the data under a plan. What happens in the first share ``warm`` of the time is not counted; the rest is
    processed in so many ``parts``."""
    join = build(query, deletes)
    arrays = join.arrays
    if plan.options:
        if plan.orders is not None:
            arrays.set_plan(plan.orders)
        joining = Joining.of(plan.options)
        if joining.tree is not None:
            joining.plant(join, query.names)
        elif joining.nothing_to_adapt(join.graph.size, lambda: join.graph.simple) is None:
            joining.attach(join, query.names)
        else:
            joining.stay(join, query.names)
    else:
        specs = plan.specs()
        # A complete store begins small and grows by itself.
        ample = (64, 64) if plan.complete else (query.buckets, query.buckets)
        sizes = {s.store: plan.sizes or ample for s in specs}
        arrays.set_plan(plan.orders or arrays.orders, specs, sizes=sizes)
    meter = Meter(join.adapter, False)
    join.adapter = meter  # type: ignore[assignment]
    start, stop = data.times
    begin = start + int((stop - start) * warm)
    edges = [start - 1, begin, *np.linspace(begin, stop, parts + 1).astype(np.int64)[1:].tolist()]
    series = []
    work, stores, elements, seconds = meter.work.copy(), meter.stores.copy(), 0, 0.0
    for n, (after, upto) in enumerate(pairwise(edges)):
        meter.grows = n == 0 and bool(plan.caches) and plan.sizes is None and not plan.complete
        deltas = [
            Delta(time, {f"{name}.{c}": pa.array(v) for c, v in columns.items()}, None)
            for name, (time, columns) in zip(query.names, data.between(after, upto), strict=True)
        ]
        first, tail = arrays.first.copy(), arrays.tail.copy()
        counting, was = join.counting, int(meter.work[1])
        began = perf_counter()
        join.process(deltas, upto)
        took = perf_counter() - began - (join.counting - counting)
        if n == 0:
            work, stores = meter.work.copy(), meter.stores.copy()
            continue
        done = int((arrays.first - first).sum() + (arrays.tail - tail).sum())
        series.append((upto, done, int(meter.work[1]) - was, took))
        elements += done
        seconds += took
    probes, accesses, learning = (int(x) for x in meter.work - work)
    looked, missed, updated = (int(x) for x in meter.stores - stores)
    used = tuple(
        Candidate(c.pipeline, c.first, c.last, c.segment, c.key, c.support) for c in arrays.cache_operators.used
    )
    return Run(
        elements, probes, accesses, learning, seconds, join.results, join.digest,
        sum(_bytes(arrays, s) for s in arrays.cache_operators.caches.ids), used, tuple(arrays.orders),
        1 - missed / looked if looked else float("nan"), updated / looked if looked else float("nan"), tuple(series),
        tuple(join.context.log),
    )  # fmt: skip


def _bytes(arrays: JoinArrays, store: StoreId) -> int:
    """Of a cache what it was given; of a complete store, which takes as much room as it likes, what is in it."""
    c = arrays.cache_operators.caches.counts(store)
    return 8 * (c.entries * store.bucket_words + c.live * store.node_words) if store.complete else c.bytes


class DifferentResultsError(AssertionError):
    """Two plans for the same join and data found different results: no number of such an experiment means anything."""


def compare(
    query: Query, data: Arrivals, plans: Mapping[str, Plan], warm: float = 0.3, times: int = 1, fastest: bool = False
) -> dict[str, Run]:
    """All plans on the same data. Counts are those of one run; seconds the median of ``times`` interleaved ones, or the
    ``fastest``: of runs that take a few milliseconds medians of the very same plan differ by a fifth. Names of one and
    the same plan share its runs."""
    same = {name: next(n for n in plans if plans[n] == plan) for name, plan in plans.items()}
    found: dict[str, list[Run]] = {name: [] for name in dict.fromkeys(same.values())}
    for _ in range(times):
        for name, runs in found.items():
            runs.append(execute(query, data, plans[name], warm))
    answers = {(r.results, r.digest) for runs in found.values() for r in runs}
    if len(answers) > 1:
        raise DifferentResultsError(f"plans differ in their results: {[(n, r[0].results) for n, r in found.items()]}")
    place = 0 if fastest else times // 2
    chosen = {name: sorted(runs, key=lambda r: r.seconds)[place] for name, runs in found.items()}
    return {name: chosen[first] for name, first in same.items()}
