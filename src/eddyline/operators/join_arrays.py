"""A join's plan and synopses as the flat arrays that the kernel works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import join as kernel
from eddyline.kernels import join_layout as k
from eddyline.operators.cache_operators import Bloom, CacheOperators
from eddyline.operators.join_plan import CacheSpec, Condition, JoinGraph, Step
from eddyline.operators.join_side import JoinSide
from eddyline.synopses import join_contents
from eddyline.synopses.join_caches import INITIAL_BUCKETS, INITIAL_NODES
from eddyline.synopses.join_contents import stride_from
from eddyline.synopses.pooled_contents import PooledContents
from eddyline.synopses.store_id import StoreId

# Words of heads and records up to which they stay in the processor's cache, and are not worth fetching ahead.
WORDS_IN_PROCESSOR_CACHE = 1 << 15
OPERATORS = {"lt": k.LT, "le": k.LE, "gt": k.GT, "ge": k.GE, "ne": k.NE}


class JoinArrays(PooledContents):
    """``orders[i]`` is the order in which elements of input i visit the others."""

    def __init__(self, sides: Sequence[JoinSide], graph: JoinGraph, conditions: Sequence[Condition] = ()) -> None:
        key_class = {(m.input, m.key): c for c, members in enumerate(graph.classes) for m in members}
        super().__init__(sides, key_class, {i: s.reader for i, s in enumerate(sides) if s.reader is not None})
        self.sides: Sequence[JoinSide] = list(sides)
        self.graph = graph
        self.conditions = tuple(conditions)
        m = len(self.sides)
        self.counters = np.zeros(k.CN_LEFT + m, np.int64)
        self.pause_after()
        self.cache_operators, self.bloom = CacheOperators(graph), Bloom()
        self.cache_operators.pairs = frozenset(frozenset((c.left.input, c.right.input)) for c in self.conditions)
        self.machine = np.zeros((k.MACHINE_ROWS, m + 2), np.int64)
        self.active = np.zeros(k.ACTIVE_FIELDS, np.int64)
        self.refs = np.zeros(m + 1, np.int64)
        self.out = np.empty(0, np.int64), np.empty(0, np.int64), np.empty((m, 0), np.int64)
        self.result = np.zeros(2, np.int64)  # results in ``out``; what is full
        self.sample_at, self.samples = np.full((3, m), -1, np.int64), np.full(1, -1, np.int64)
        self.profile = np.zeros((0, 3 * m - 1), np.int64)
        self.profiling = True
        self.logical: tuple[tuple[tuple[int, ...], ...], ...] | None = None  # by input: the paths of its filters
        self._pipelines: dict[tuple[int, tuple[int, ...]], tuple[Step, ...]] = {}
        self.set_plan([graph.default_order(i) for i in range(m)], fresh=True)

    # ── the plan ──────────────────────────────────────────────────────────────────────────────────────────────────

    def set_plan(
        self,
        orders: Sequence[tuple[int, ...]],
        used: Sequence[CacheSpec] = (),
        profiled: Sequence[CacheSpec] = (),
        *,
        kept: Sequence[CacheSpec] = (),
        bloom: Bloom | None = None,
        sizes: Mapping[StoreId, tuple[int, int]] | None = None,
        fresh: bool = False,
    ) -> None:
        """Take another plan between two elements. The contents of inputs stay where they are; indexes that the new
        orders need and the old did not are built."""
        if not self.between_elements:
            raise RuntimeError("a plan can only change between two elements")
        m = len(self.sides)
        self.bloom = bloom or self.bloom
        self.orders = [tuple(o) for o in orders]
        pipelines = [self._pipeline(i, self.orders[i]) for i in range(m)]
        paths: list[list[tuple[Step, ...]]] = [
            [self._pipeline(i, path) for path in self.logical[i]] if self.logical else [()] * (m - 1) for i in range(m)
        ]
        wanted = {(st.target, st.columns) for p in (*pipelines, *(x for xs in paths for x in xs)) for st in p}
        if missing := not wanted <= self.index_of.keys():
            self.index(wanted)
        probes: list[int] = []
        self.steps = self._steps(pipelines, probes)
        self.paths = self._steps([x for xs in paths for x in xs], probes)
        self.path_from = np.cumsum([0, *(len(x) for xs in paths for x in xs)]).astype(np.int64)
        self.cache_operators.arrange(used, profiled, pipelines, self.steps, probes, self.bloom, sizes or {}, kept)
        self._attach_conditions(used, [(i, x) for i, xs in enumerate(paths) for x in xs])
        self.probes = np.array(probes or [0], np.int64)
        columns = max((len(st.columns) for p in pipelines for st in p), default=1)
        keys = max((len(c.key) for c in (*used, *profiled, *kept)), default=1)
        self.wanted = np.zeros((m + 3, max(1, columns, keys, m)), np.int64)
        self.machine[:] = 0
        if fresh or missing:
            self.lay_out([s.capacity for s in self.sides], fresh=fresh)
        else:
            self.moved()
        self.cache_operators.caches.settle(self.inputs, self.first, self.weight, self.born)

    def _pipeline(self, source: int, order: tuple[int, ...]) -> tuple[Step, ...]:
        """Kept: a plan that changes takes most of them over."""
        found = self._pipelines.get((source, order))
        if found is None:
            found = self._pipelines[source, order] = self.graph.pipeline(source, order)
        return found

    @property
    def needs_full_kernel(self) -> bool:
        """Whether there is more to do than steps. To profile nothing while there is nothing else is to leave it."""
        profiling = self.profiling and (
            len(self.cache_operators.lookups) or (self.sample_at[0] >= 0).any() or (self.sample_at[2] > 0).any()
        )
        return bool(len(self.cache_operators.caches.ids) or len(self.condition_rows) or profiling)

    @property
    def between_elements(self) -> bool:
        return not self.active[k.AC_ACTIVE]

    def _steps(self, pipelines: Sequence[tuple[Step, ...]], probes: list[int]) -> Int64s:
        """Rows for the kernel. A step is ready as soon as the last of the inputs that it takes codes from is bound."""
        rows: list[list[int]] = []
        for pipeline in pipelines:
            level = {st.target: d for d, st in enumerate(pipeline, 1)}
            for st in pipeline:
                row = [0] * k.STEP_FIELDS
                row[: k.ST_PROBE_OFF + 1] = st.target, self.index_of[st.target, st.columns], len(probes)
                row[k.ST_READY] = max((level.get(x.input, 0) for x in st.probes), default=0)
                for member in st.probes:
                    probes += [member.input, member.key]
                rows.append(row)
        return np.array(rows, np.int64).reshape(len(rows), k.STEP_FIELDS)

    def _attach_conditions(self, used: Sequence[CacheSpec], paths: Sequence[tuple[int, tuple[Step, ...]]]) -> None:
        """A condition is looked at when the second of its inputs is bound; one that crosses into a cached segment at
        the segment's end, for the entry does not depend on it."""
        m = len(self.sides)
        rows: list[tuple[int, int, int, int, int]] = []
        for i, order in enumerate(self.orders if self.conditions else ()):
            mine = [c for c in used if c.pipeline == i]
            at: dict[tuple[int, bool], list[Condition]] = {}
            for c, low, high in self._levels(i, order):
                step, deferred = high - 1, False
                for cache in mine:
                    if cache.first <= step <= cache.last and low <= cache.first:
                        step, deferred = cache.last, True
                at.setdefault((step, deferred), []).append(c)
            for (step, deferred), conditions in at.items():
                row = self.steps[i * (m - 1) + step]
                begin = k.ST_DEFER if deferred else k.ST_COND
                row[begin], row[begin + 1] = self._condition_rows(conditions, rows)
                row[k.ST_AFTER] = max(1, row[k.ST_AFTER])
        step = 0
        for i, path in paths if self.conditions else ():
            for depth in range(len(path)):
                here = [c for c, _, high in self._levels(i, [st.target for st in path]) if high - 1 == depth]
                self.paths[step, k.ST_COND], self.paths[step, k.ST_COND_END] = self._condition_rows(here, rows)
                step += 1
        self.condition_rows = np.array(rows, np.int64).reshape(len(rows), k.COND_FIELDS)

    def _levels(self, source: int, order: Sequence[int]) -> list[tuple[Condition, int, int]]:
        """The conditions among these inputs, with the levels on which their two rows are bound."""
        level = {source: 0, **{target: d for d, target in enumerate(order, 1)}}
        found = []
        for c in self.conditions:
            if c.left.input in level and c.right.input in level:
                low, high = sorted((level[c.left.input], level[c.right.input]))
                found.append((c, low, high))
        return found

    @staticmethod
    def _condition_rows(conditions: Sequence[Condition], rows: list[tuple[int, int, int, int, int]]) -> tuple[int, int]:
        begin = len(rows)
        for c in conditions:
            rows.append((c.left.input, c.left.key, OPERATORS[c.op], c.right.input, c.right.key))
        return begin, len(rows)

    def moved(self) -> None:
        """Repeat in each step what is said of its target and its index."""
        for st in (self.steps, self.paths):
            x, side = self.indexes[st[:, k.ST_INDEX]], self.inputs[st[:, k.ST_TARGET]]
            st[:, k.ST_COLS : k.ST_MASK] = x[:, [k.IX_COLS, k.IX_REC_OFF, k.IX_REC_WIDTH]]
            st[:, k.ST_MASK] = x[:, k.IX_REC_MASK]
            st[:, k.ST_HEAD_OFF : k.ST_HEAD_STRIDE + 1] = x[:, k.IX_HEAD_OFF : k.IX_HEAD_STRIDE + 1]
            st[:, k.ST_POS_OFF], st[:, k.ST_BAG] = side[:, k.POS_OFF], side[:, k.KIND] == k.BAG

    def make_room(self, smallest: bool = False) -> None:
        """Make room for the slots of bags (rings grow when they are full); ``smallest``: from nothing, to load."""
        capacities = []
        for i, s in enumerate(self.sides):
            need = int(self.tail[i] - self.first[i]) if s.bag is None else s.bag.table.capacity
            room = join_contents.FIRST_CAPACITY if smallest else s.capacity
            if room < need:
                room = 1 << (need * (1 if smallest else stride_from(need)) - 1).bit_length()
            capacities.append(room)
        if smallest:
            first, tail = self.first.copy(), self.tail.copy()
            self.first[:], self.tail[:] = 0, 0  # nothing to link yet
            for s, cap in zip(self.sides, capacities, strict=True):
                s.capacity = cap
            self.cache_operators.caches.forget()  # what caches hold are numbers of rows, and rows are numbered anew
            self.set_plan(self.orders, fresh=True)
            self.first[:], self.tail[:] = first, tail
        elif capacities != [s.capacity for s in self.sides]:
            self.resize(capacities)
        else:
            self.fit_heads()
        for i, s in enumerate(self.sides):
            if s.bag is not None:
                self.number_rows(i, s.slot)

    def events(self, lengths: Sequence[int]) -> tuple[Int64s, ...]:
        """The first events of each input, one after another."""
        at = code = 0
        for i, (s, n) in enumerate(zip(self.sides, lengths, strict=True)):
            self.inputs[i, k.EV_OFF], self.inputs[i, k.EV_LEN], self.inputs[i, k.EV_CODE_OFF] = at, n, code
            at += n
            code += n * len(s.keys)
        cut = list(zip(self.sides, lengths, strict=True))
        return (
            np.concatenate([s.time[:n] for s, n in cut]),
            np.concatenate([*(s.codes[:n].reshape(-1) for s, n in cut), np.zeros(1, np.int64)]),
            np.concatenate([s.leave[:n] for s, n in cut]),
            np.concatenate([s.weight[:n] for s, n in cut]),
            np.concatenate([s.slot[:n] for s, n in cut]),
            np.concatenate([s.valid[:n] for s, n in cut]),
        )

    def run(
        self, frontier: int, events: tuple[Int64s, ...], next_event: Int64s, room: int, limit: int = int(k.NEVER)
    ) -> int:
        """Apply events until all are done, ``limit`` of them have arrived, ``room`` results are full, or a ring or a
        complete store is, which is then made larger. Returns the kernel's status; the results wait in ``out``."""
        if len(self.out[0]) != room:  # kept from call to call: new pages cost more than the results in them
            assert not self.found
            m = len(self.sides)
            self.out = np.empty(room, np.int64), np.empty(room, np.int64), np.empty((m, room), np.int64)
        before: Sequence[int] = ()
        if self.pool is not None:
            before = self.tail.tolist()
            self.bring_indexes((self.inputs[:, k.EV_LEN] - next_event).tolist())
        self.counters[k.CN_FAR] = len(self.heads) + len(self.records) > WORDS_IN_PROCESSOR_CACHE
        at = self.cache_operators
        run = kernel.mjoin if self.needs_full_kernel else kernel.plain_mjoin
        status = run(
            frontier, limit, self.inputs, self.indexes, self.steps, self.index_columns, self.probes, self.heads,
            self.records, self.codes, self.leave, self.weight, self.rownum, self.born, self.first, self.tail,
            *events, next_event, self.counters,
            at.caches.stores, at.lookups, at.updates, at.caches.cells, at.caches.segment, self.condition_rows,
            at.bits, self.refs,
            self.machine, self.wanted, self.active, self.sample_at, self.samples, self.paths, self.profile,
            self.path_from, *self.out, self.result,
        )  # fmt: skip
        if self.pool is not None:
            self.indexes_ran(before)
        if status == k.GROW:
            self.grow(int(self.result[1]))
        elif status == k.CROWDED:
            self.enlarge(at.caches.ids[int(self.result[1])])
        return int(status)

    def give_back(self, bytes: int) -> int:
        """Free memory between two elements: of caches first, which only spare time, then room for rows."""
        at = self.cache_operators
        before, sizes = at.nbytes, at.caches.smaller(bytes)
        if sizes:
            self.set_plan(self.orders, at.used, at.profiled, kept=at.kept, sizes=sizes)
        freed = before - at.nbytes
        return freed if freed >= bytes else freed + super().give_back(bytes - freed)

    @property
    def found(self) -> int:
        """Results that wait."""
        return int(self.result[0])

    def take(self) -> tuple[Int64s, Int64s, Int64s]:
        """Times, weights and rows by input of the results that wait, which are overwritten by the next run."""
        n = self.found
        self.result[0] = 0
        return self.out[0][:n], self.out[1][:n], self.out[2][:, :n]

    def pause_after(self, probes: int | None = None) -> None:
        """Have the kernel pause between two elements when it has made so many more probes, or never."""
        self.counters[k.CN_MAX_PROBES] = k.NEVER if probes is None else self.counters[k.CN_PROBES] + probes

    def sample(self, events: Sequence[Sequence[int]], room: int, leaving: Sequence[int] | None = None) -> None:
        """Have elements profiled: by input the numbers of events, increasing; of the rows that leave (and are seen to)
        each whose number is a multiple of ``leaving``, none if that is 0. ``room`` is for how many profiles."""
        self.sample_at[2] = 0 if leaving is None else leaving
        samples: list[int] = []
        for i, numbers in enumerate(events):
            self.sample_at[1, i] = len(samples)
            samples += (*numbers, -1)
        self.samples = np.array(samples, np.int64)
        self.sample_at[0] = self.samples[self.sample_at[1]]
        self.counters[k.CN_SAMPLES] = 0
        if len(self.profile) < room:
            self.profile = np.zeros((room, 3 * len(self.sides) - 1), np.int64)

    def sample_none(self) -> None:
        """Have no element profiled, whichever kernel runs."""
        self.sample_at[0], self.sample_at[2] = -1, 0

    def profiles(self) -> Int64s:
        """What was seen of the sampled elements: input; by logical filter the accesses, negative if it drops; by step
        the tuples that came, then results; by step the accesses."""
        return self.profile[: int(self.counters[k.CN_SAMPLES])]

    def enlarge(self, store: StoreId) -> None:
        """Throw away what has died in a complete store, and leave room for three times what is alive and more: what it
        costs to go through all is then little for each join that came since."""
        buckets, nodes = self.cache_operators.caches.size_of(store)
        self._resize({store: (2 * buckets, nodes)})
        after = self.cache_operators.caches.counts(store)
        fits = (
            max(INITIAL_BUCKETS, 1 << (4 * after.entries).bit_length()),
            max(INITIAL_NODES, 1 << (4 * after.live).bit_length()),
        )
        self._resize({store: fits})

    def _resize(self, sizes: Mapping[StoreId, tuple[int, int]]) -> None:
        at = self.cache_operators
        self.set_plan(self.orders, at.used, at.profiled, kept=at.kept, sizes=sizes)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.cache_operators.nbytes
