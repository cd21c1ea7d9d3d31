"""A join's plan and synopses as the flat arrays that the kernel works on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import join as k
from eddyline.operators.join_plan import JoinGraph, Member, Step
from eddyline.operators.join_side import JoinSide

SMALLEST = 256  # rows that a synopsis has room for at first


class JoinArrays:
    """``orders[i]`` is the order in which elements of input i visit the others. Positions of a ring are row numbers,
    those of a bag slots; arrays are indexed by position & (capacity − 1)."""

    def __init__(self, sides: Sequence[JoinSide], graph: JoinGraph) -> None:
        self.sides, self.graph = list(sides), graph
        m = len(self.sides)
        self.first = np.zeros(m, np.int64)
        self.tail = np.zeros(m, np.int64)
        for i, s in enumerate(self.sides):
            if s.stub is not None:
                self.first[i] = self.tail[i] = s.stub.low
        self.counters = np.zeros(4, np.int64)
        self.orders = [graph.default_order(i) for i in range(m)]
        self.plan()
        self.lay_out([s.capacity for s in self.sides], fresh=True)

    def plan(self) -> None:
        m = len(self.sides)
        pipelines: list[tuple[Step, ...]] = [self.graph.pipeline(i, self.orders[i]) for i in range(m)]
        self.index_of: dict[tuple[int, tuple[int, ...]], int] = {}
        wanted = sorted({(st.target, st.columns) for p in pipelines for st in p})
        for key in wanted:
            self.index_of[key] = len(self.index_of)
        self.indexes = np.zeros((len(wanted), k.INDEX_FIELDS), np.int64)
        columns: list[int] = []
        for x, (target, cols) in enumerate(wanted):
            self.indexes[x, k.IX_INPUT] = target
            self.indexes[x, k.IX_COLS] = len(cols)
            self.indexes[x, k.IX_COL_OFF] = len(columns)
            self.indexes[x, k.IX_REC_WIDTH] = len(cols) + (1 if self.sides[target].ring else 2)
            columns += cols
        self.index_columns = np.array(columns or [0], np.int64)
        probes: list[int] = []
        self.steps = np.zeros((m * (m - 1), k.STEP_FIELDS), np.int64)
        for i, pipeline in enumerate(pipelines):
            for j, st in enumerate(pipeline):
                self.steps[i * (m - 1) + j, : k.ST_PROBE_OFF + 1] = (
                    st.target,
                    self.index_of[st.target, st.columns],
                    len(probes),
                )
                for member in st.probes:
                    probes += [member.input, member.key]
        self.probes = np.array(probes or [0], np.int64)

    def lay_out(self, capacities: Sequence[int], fresh: bool = False) -> None:
        """Lay the synopses out for new capacities, keep their contents, rebuild the indexes."""
        m = len(self.sides)
        old = None if fresh else (self.inputs, self.codes, self.leave, self.weight)
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
        for st in self.steps:
            x, side = self.indexes[st[k.ST_INDEX]], self.inputs[st[k.ST_TARGET]]
            st[k.ST_COLS : k.ST_MASK + 1] = x[k.IX_COLS], x[k.IX_REC_OFF], x[k.IX_REC_WIDTH], side[k.POS_MASK]
            st[k.ST_HEAD_OFF : k.ST_HEAD_STRIDE + 1] = x[k.IX_HEAD_OFF : k.IX_HEAD_STRIDE + 1]
            st[k.ST_POS_OFF :] = side[k.POS_OFF], side[k.KIND] == k.BAG
        self.heads = np.full(max(heads, 1), -1, np.int64)
        self.records = np.zeros(max(records, 1), np.int64)
        self.codes: Int64s = np.zeros(max(code, 1), np.int64)
        self.leave: Int64s = np.zeros(pos, np.int64)
        self.weight: Int64s = np.zeros(pos, np.int64)
        self.rownum = np.zeros(pos, np.int64)
        for i in range(m):
            if old is not None:
                self._copy(i, *old)
            self.relink(i)
        self._number_rows()

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

    def _copy(self, i: int, inputs: Int64s, codes: Int64s, leave: Int64s, weight: Int64s) -> None:
        width = len(self.sides[i].keys)
        old_off, old_mask, old_code = (int(inputs[i, f]) for f in (k.POS_OFF, k.POS_MASK, k.CODE_OFF))
        off, mask, code = (int(self.inputs[i, f]) for f in (k.POS_OFF, k.POS_MASK, k.CODE_OFF))
        ring = self.sides[i].ring
        live = self.live(i) if ring else np.arange(min(old_mask, mask) + 1, dtype=np.int64)
        a, b = live & old_mask, live & mask
        self.leave[off + b] = leave[old_off + a]
        self.weight[off + b] = weight[old_off + a]
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
        k.relink(
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
            self.lay_out(capacities, fresh=True)
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
        self, frontier: int, events: tuple[Int64s, ...], next_event: Int64s, room: int
    ) -> tuple[int, Int64s, Int64s, Int64s]:
        """Apply events until all are done, ``room`` results are full or a ring is, which is then made larger: the
        kernel's status, times, weights, and rows by input."""
        out_time, out_weight = np.empty(room, np.int64), np.empty(room, np.int64)
        out_rows = np.empty((len(self.sides), room), np.int64)
        result = np.zeros(2, np.int64)
        status = k.mjoin(
            frontier, self.inputs, self.indexes, self.steps, self.index_columns, self.probes, self.heads, self.records,
            self.codes, self.leave, self.weight, self.rownum, self.first, self.tail, *events, next_event, self.counters,
            out_time, out_weight, out_rows, result,
        )  # fmt: skip
        if status == k.GROW:
            self.grow(int(result[1]))
        n = int(result[0])
        return int(status), out_time[:n], out_weight[:n], out_rows[:, :n]

    @property
    def nbytes(self) -> int:
        arrays = (self.heads, self.records, self.codes, self.leave, self.weight, self.rownum)
        return int(sum(a.nbytes for a in arrays))
