"""A join's plan and synopses as the flat arrays that the kernel works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import join as kernel
from eddyline.kernels import join_index
from eddyline.kernels import join_layout as k
from eddyline.operators.join_plan import CacheSpec, Condition, JoinGraph, Member, Step, StoreId
from eddyline.operators.join_side import JoinSide
from eddyline.operators.join_stations import BUCKETS, NODES, Bloom, Stations

OPERATORS = {"lt": k.LT, "le": k.LE, "gt": k.GT, "ge": k.GE, "ne": k.NE}
SMALLEST = 256  # rows that a synopsis has room for at first


class JoinArrays:
    """``orders[i]`` is the order in which elements of input i visit the others. Positions of a ring are row numbers,
    those of a bag slots; arrays are indexed by position & (capacity − 1)."""

    def __init__(self, sides: Sequence[JoinSide], graph: JoinGraph, conditions: Sequence[Condition] = ()) -> None:
        self.sides, self.graph, self.conditions = list(sides), graph, tuple(conditions)
        m = len(self.sides)
        self.first = np.zeros(m, np.int64)
        self.tail = np.zeros(m, np.int64)
        for i, s in enumerate(self.sides):
            if s.stub is not None:
                self.first[i] = self.tail[i] = s.stub.low
        self.counters = np.zeros(k.CN_LEFT + m, np.int64)
        self.stations, self.bloom = Stations(graph), Bloom()
        self.stations.compared = frozenset(m.input for c in self.conditions for m in (c.left, c.right))
        self.machine = np.zeros((k.MACHINE_ROWS, m + 2), np.int64)
        self.active = np.zeros(k.ACTIVE_FIELDS, np.int64)
        self.refs = np.zeros(m + 1, np.int64)
        self.out = np.empty(0, np.int64), np.empty(0, np.int64), np.empty((m, 0), np.int64)
        self.sample_at, self.samples = np.full((3, m), -1, np.int64), np.full(1, -1, np.int64)
        self.profile = np.zeros((0, 3 * m - 1), np.int64)
        self.profiling = True
        self.logical: tuple[tuple[tuple[int, ...], ...], ...] | None = None  # by input: the paths of its filters
        self.index_of: dict[tuple[int, tuple[int, ...]], int] = {}
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
            self._index(wanted)
        probes: list[int] = []
        self.steps = self._steps(pipelines, probes)
        self.paths = self._steps([x for xs in paths for x in xs], probes)
        self.path_from = np.cumsum([0, *(len(x) for xs in paths for x in xs)]).astype(np.int64)
        self.stations.arrange(used, profiled, self.orders, self.steps, probes, self.bloom, sizes or {}, kept)
        self._attach_conditions(used, [(i, x) for i, xs in enumerate(paths) for x in xs])
        self.probes = np.array(probes or [0], np.int64)
        columns = max((len(st.columns) for p in pipelines for st in p), default=1)
        keys = max((len(c.key) for c in (*used, *profiled, *kept)), default=1)
        self.wanted = np.zeros((m + 3, max(1, columns, keys, m)), np.int64)
        self.machine[:] = 0
        if fresh or missing:
            self.lay_out([s.capacity for s in self.sides], fresh=fresh)
        else:
            self._point()
        self.stations.settle(self.inputs, self.first, self.weight, self.born)

    def _pipeline(self, source: int, order: tuple[int, ...]) -> tuple[Step, ...]:
        """Kept: a plan that changes takes most of them over."""
        found = self._pipelines.get((source, order))
        if found is None:
            found = self._pipelines[source, order] = self.graph.pipeline(source, order)
        return found

    @property
    def stationed(self) -> bool:
        """Whether there is more to do than steps. To profile nothing while there is nothing else is to leave it."""
        profiling = self.profiling and (
            len(self.stations.looks) or (self.sample_at[0] >= 0).any() or (self.sample_at[2] > 0).any()
        )
        return bool(len(self.stations.ids) or len(self.condition_rows) or profiling)

    @property
    def between_elements(self) -> bool:
        return not self.active[k.AC_ACTIVE]

    def _index(self, wanted: set[tuple[int, tuple[int, ...]]]) -> None:
        self.index_of = {key: x for x, key in enumerate(sorted(wanted))}
        self.indexes = np.zeros((len(wanted), k.INDEX_FIELDS), np.int64)
        columns: list[int] = []
        for (target, cols), x in self.index_of.items():
            self.indexes[x, k.IX_INPUT] = target
            self.indexes[x, k.IX_COLS] = len(cols)
            self.indexes[x, k.IX_COL_OFF] = len(columns)
            self.indexes[x, k.IX_REC_WIDTH] = len(cols) + (1 if self.sides[target].ring else 2)
            columns += cols
        self.index_columns = np.array(columns or [0], np.int64)

    def _steps(self, pipelines: Sequence[tuple[Step, ...]], probes: list[int]) -> Int64s:
        """Rows for the kernel. A step is ready as soon as the last of the inputs that it takes codes from is bound."""
        steps = np.zeros((sum(map(len, pipelines)), k.STEP_FIELDS), np.int64)
        row = 0
        for pipeline in pipelines:
            level = {st.target: d for d, st in enumerate(pipeline, 1)}
            for st in pipeline:
                steps[row, : k.ST_PROBE_OFF + 1] = st.target, self.index_of[st.target, st.columns], len(probes)
                steps[row, k.ST_READY] = max((level.get(x.input, 0) for x in st.probes), default=0)
                for member in st.probes:
                    probes += [member.input, member.key]
                row += 1
        return steps

    def _attach_conditions(self, used: Sequence[CacheSpec], paths: Sequence[tuple[int, tuple[Step, ...]]]) -> None:
        """A condition is looked at when the second of its inputs is bound; one that crosses into a cached segment at
        the segment's end, for the entry does not depend on it."""
        m = len(self.sides)
        rows: list[tuple[int, int, int, int, int]] = []
        for i, order in enumerate(self.orders):
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
        for i, path in paths:
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

    def lay_out(self, capacities: Sequence[int], fresh: bool = False) -> None:
        """Lay the synopses out for new capacities, keep their contents, rebuild the indexes."""
        m = len(self.sides)
        old = None if fresh else (self.inputs, self.codes, self.leave, self.weight, self.born)
        self.inputs: Int64s = np.zeros((m, k.INPUT_FIELDS), np.int64)
        if old is not None:
            events = slice(k.EV_OFF, k.EV_CODE_OFF + 1)  # it may be in the middle of them
            self.inputs[:, events] = old[0][:, events]
        pos = code = 0
        for i, (s, cap) in enumerate(zip(self.sides, capacities, strict=True)):
            s.capacity = cap
            mine = np.flatnonzero(self.indexes[:, k.IX_INPUT] == i)
            low, high = (int(mine[0]), int(mine[-1]) + 1) if len(mine) else (0, 0)
            self.inputs[i, : k.CODE_WIDTH + 1] = (k.RING if s.ring else k.BAG, pos, cap - 1, code, len(s.keys))
            self.inputs[i, k.DELETES :] = s.spec.deletes, low, high, s.limit
            pos += cap
            code += cap * len(s.keys)
        heads = self._lay_out_heads()
        records = 0
        for x in self.indexes:
            x[k.IX_REC_OFF] = records
            records += self.sides[int(x[k.IX_INPUT])].capacity * int(x[k.IX_REC_WIDTH])
        self._point()
        self.heads = np.full(max(heads, 1), -1, np.int64)
        self.records = np.zeros(max(records, 1), np.int64)
        self.codes: Int64s = np.zeros(max(code, 1), np.int64)
        self.leave: Int64s = np.zeros(pos, np.int64)
        self.weight: Int64s = np.zeros(pos, np.int64)
        self.rownum = np.zeros(pos, np.int64)
        self.born: Int64s = np.zeros(pos, np.int64)
        for i in range(m):
            if old is not None:
                self._copy(i, *old)
            self.relink(i)
        self._number_rows()

    def _point(self) -> None:
        """Repeat in each step what is said of its target and its index."""
        for st in (*self.steps, *self.paths):
            x, side = self.indexes[st[k.ST_INDEX]], self.inputs[st[k.ST_TARGET]]
            st[k.ST_COLS : k.ST_MASK + 1] = x[k.IX_COLS], x[k.IX_REC_OFF], x[k.IX_REC_WIDTH], side[k.POS_MASK]
            st[k.ST_HEAD_OFF : k.ST_HEAD_STRIDE + 1] = x[k.IX_HEAD_OFF : k.IX_HEAD_STRIDE + 1]
            st[k.ST_POS_OFF : k.ST_BAG + 1] = side[k.POS_OFF], side[k.KIND] == k.BAG

    def _lay_out_heads(self) -> int:
        """Heads of indexes over the same classes of keys are interleaved: equal keys have equal hashes."""
        number = {m: c for c, members in enumerate(self.graph.classes()) for m in members}
        groups: dict[tuple[int, ...], list[int]] = {}
        for (target, columns), x in self.index_of.items():
            groups.setdefault(tuple(number[Member(target, c)] for c in columns), []).append(x)
        heads = 0
        for classes, group in groups.items():
            largest = max(self.sides[int(self.indexes[x, k.IX_INPUT])].capacity for x in group)
            slots = largest if classes else 1
            for j, x in enumerate(group):
                self.indexes[x, k.IX_HEAD_OFF : k.IX_HEAD_STRIDE + 1] = heads + j, slots - 1, len(group)
            heads += slots * len(group)
        return heads

    def _number_rows(self) -> None:
        for i, s in enumerate(self.sides):
            if s.bag is not None:
                slots = np.arange(min(s.bag.table.capacity, s.capacity))
                self.rownum[self.place(i, slots)] = s.bag.rownum[slots]

    def grow(self, i: int) -> None:
        """Double the ring of an input that is full, and with it those that soon will be: each growth rebuilds all."""
        held = self.tail - self.first
        soon = [s.ring and (j == i or 2 * int(held[j]) > s.capacity) for j, s in enumerate(self.sides)]
        self.lay_out([s.capacity * (2 if grows else 1) for s, grows in zip(self.sides, soon, strict=True)])

    def live(self, i: int) -> Int64s:
        """Positions of input i that hold a row."""
        if self.sides[i].ring:
            return np.arange(self.first[i], self.tail[i], dtype=np.int64)
        off, cap = int(self.inputs[i, k.POS_OFF]), self.sides[i].capacity
        return np.flatnonzero(self.weight[off : off + cap])

    def _copy(self, i: int, inputs: Int64s, codes: Int64s, leave: Int64s, weight: Int64s, born: Int64s) -> None:
        width = len(self.sides[i].keys)
        old_off, old_mask, old_code = (int(inputs[i, f]) for f in (k.POS_OFF, k.POS_MASK, k.CODE_OFF))
        off, mask, code = (int(self.inputs[i, f]) for f in (k.POS_OFF, k.POS_MASK, k.CODE_OFF))
        ring = self.sides[i].ring
        live = self.live(i) if ring else np.arange(min(old_mask, mask) + 1, dtype=np.int64)
        a, b = live & old_mask, live & mask
        self.leave[off + b] = leave[old_off + a]
        self.weight[off + b] = weight[old_off + a]
        self.born[off + b] = born[old_off + a]
        for c in range(width):
            self.codes[code + b * width + c] = codes[old_code + a * width + c]

    def relink(self, i: int) -> None:
        off, mask = int(self.inputs[i, k.POS_OFF]), int(self.inputs[i, k.POS_MASK])
        live = self.live(i)
        if self.sides[i].ring:
            live = np.ascontiguousarray(self.weight[off + (live & mask)])
        else:
            _, valid = self.sides[i].key_codes(self.sides[i].rows_at(live), len(live))
            live = live[valid != 0]
        join_index.relink(
            i, self.inputs, self.indexes, self.index_columns, self.heads, self.records, self.codes, self.first,
            self.tail, live,
        )  # fmt: skip

    def place(self, i: int, positions: Int64s) -> Int64s:
        """Where the leave times, weights and row numbers of positions are."""
        return int(self.inputs[i, k.POS_OFF]) + (positions & int(self.inputs[i, k.POS_MASK]))

    def make_room(self, smallest: bool = False) -> None:
        """Make room for the slots of bags (rings grow when they are full); ``smallest``: from nothing, to load."""
        capacities = []
        for i, s in enumerate(self.sides):
            need = int(self.tail[i] - self.first[i]) if s.bag is None else s.bag.table.capacity
            cap = SMALLEST if smallest else s.capacity
            while cap < need:
                cap *= 2
            capacities.append(cap)
        if smallest:
            first, tail = self.first.copy(), self.tail.copy()
            self.first[:], self.tail[:] = 0, 0  # nothing to link yet
            for s, cap in zip(self.sides, capacities, strict=True):
                s.capacity = cap
            self.stations.forget()  # what caches hold are numbers of rows, and rows are numbered anew
            self.set_plan(self.orders, fresh=True)
            self.first[:], self.tail[:] = first, tail
        elif capacities != [s.capacity for s in self.sides]:
            self.lay_out(capacities)
        else:
            self._number_rows()

    def put(self, i: int, positions: Int64s, leaves: Int64s, weights: Int64s) -> None:
        """Fill one input with rows that its synopsis already holds, and index them."""
        side, at = self.sides[i], self.place(i, positions)
        self.leave[at], self.weight[at] = leaves, weights
        codes, _ = side.key_codes(side.rows_at(positions), len(positions))
        width, code = len(side.keys), int(self.inputs[i, k.CODE_OFF])
        base = code + (positions & int(self.inputs[i, k.POS_MASK])) * width
        for j in range(width):
            self.codes[base + j] = codes[:, j]
        self.relink(i)

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
    ) -> tuple[int, Int64s, Int64s, Int64s]:
        """Apply events until all are done, ``limit`` of them have arrived, ``room`` results are full, or a ring or a
        complete store is, which is then made larger: the kernel's status, times, weights, and rows by input."""
        if len(self.out[0]) != room:  # kept from call to call: new pages cost more than the results in them
            m = len(self.sides)
            self.out = np.empty(room, np.int64), np.empty(room, np.int64), np.empty((m, room), np.int64)
        out_time, out_weight, out_rows = self.out
        result = np.zeros(2, np.int64)
        at = self.stations
        run = kernel.mjoin if self.stationed else kernel.plain_mjoin
        status = run(
            frontier, limit, self.inputs, self.indexes, self.steps, self.index_columns, self.probes, self.heads,
            self.records, self.codes, self.leave, self.weight, self.rownum, self.born, self.first, self.tail,
            *events, next_event, self.counters,
            at.stores, at.looks, at.updates, at.cells, at.segment, self.condition_rows, at.bits, self.refs,
            self.machine, self.wanted, self.active, self.sample_at, self.samples, self.paths, self.profile,
            self.path_from, out_time, out_weight, out_rows, result,
        )  # fmt: skip
        if status == k.GROW:
            self.grow(int(result[1]))
        elif status == k.CROWDED:
            self.enlarge(at.ids[int(result[1])])
        n = int(result[0])
        return int(status), out_time[:n].copy(), out_weight[:n].copy(), out_rows[:, :n].copy()

    def sample(self, events: Sequence[Int64s], room: int, leaving: Sequence[int] | None = None) -> None:
        """Have elements profiled: by input the numbers of events, increasing; of the rows that leave (and are seen to)
        each whose number is a multiple of ``leaving``, none if that is 0. ``room`` is for how many profiles."""
        self.sample_at[2] = 0 if leaving is None else leaving
        self.samples = np.concatenate([np.append(e, -1) for e in events]).astype(np.int64)
        self.sample_at[1] = np.cumsum([0, *(len(e) + 1 for e in events[:-1])])
        self.sample_at[0] = self.samples[self.sample_at[1]]
        self.counters[k.CN_SAMPLES] = 0
        if len(self.profile) < room:
            self.profile = np.zeros((room, 3 * len(self.sides) - 1), np.int64)

    def profiles(self) -> Int64s:
        """What was seen of the sampled elements: input; by logical filter the accesses, negative if it drops; by step
        the tuples that came, then results; by step the accesses."""
        return self.profile[: int(self.counters[k.CN_SAMPLES])]

    def enlarge(self, store: StoreId) -> None:
        """Throw away what has died in a complete store, and leave room for three times what is alive and more: what it
        costs to go through all is then little for each join that came since."""
        buckets, nodes = self.stations.size_of(store)
        self._resize({store: (2 * buckets, nodes)})
        after = self.stations.counts(store)
        fits = max(BUCKETS, 1 << (4 * after.entries).bit_length()), max(NODES, 1 << (4 * after.live).bit_length())
        self._resize({store: fits})

    def _resize(self, sizes: Mapping[StoreId, tuple[int, int]]) -> None:
        at = self.stations
        self.set_plan(self.orders, at.used, at.profiled, kept=at.kept, sizes=sizes)

    @property
    def nbytes(self) -> int:
        arrays = (self.heads, self.records, self.codes, self.leave, self.weight, self.rownum, self.born)
        return int(sum(a.nbytes for a in arrays)) + self.stations.nbytes
