"""The multiway join operator: keeps the synopses of its inputs and runs the kernel over them.

With two inputs it is STREAM's binary-join. The kernel works on codes and row numbers; this file turns columns into
codes, lays the synopses out in flat arrays, and turns row numbers back into columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.core.window import Unbounded, WindowSpec
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr
from eddyline.expr.predicates import Conjunction
from eddyline.kernels import join as k
from eddyline.operators.base import Context, Operator
from eddyline.operators.join_plan import JoinGraph, Step
from eddyline.operators.windows import enter_times, leave_times
from eddyline.synopses.bag import Bag
from eddyline.synopses.codes import hash_codes, is_direct
from eddyline.synopses.store import Stub


@dataclass(frozen=True, slots=True)
class JoinInput:
    """``window`` makes the input a ring (a stream under a time-based window, or an append-only relation); without it
    the input is a bag of changes. ``deletes`` is one of the kernel's NO_DELETIONS, AT_ARRIVALS, ALL_DELETIONS."""

    schema: Schema
    window: WindowSpec | None
    by_id: bool = False
    deletes: int = k.ALL_DELETIONS


class _Side:
    """One input's synopsis and the events that are waiting for it."""

    def __init__(self, spec: JoinInput, keys: Sequence[Expr], stub: Callable[[], Stub] | None) -> None:
        self.spec = spec
        self.keys = [compile_expr(e) for e in keys]
        self.ring = spec.window is not None
        self.stub = stub() if stub is not None and self.ring else None
        self.bag = None if self.ring else Bag(spec.schema, spec.by_id)
        self.capacity = 64
        none = np.empty(0, np.int64)
        # Events not yet applied (elements of sliding windows wait for their slide).
        self.time, self.leave, self.weight, self.slot, self.valid = none, none, none, none, none
        self.codes = np.empty((0, len(keys)), np.int64)

    def accept(self, delta: Delta) -> None:
        n = len(delta)
        if n == 0:
            return
        codes = np.empty((n, len(self.keys)), np.int64)
        valid = np.ones(n, np.int64)
        for j, key in enumerate(self.keys):
            codes[:, j], nulls = hash_codes(key(delta.columns, n))
            if nulls is not None:
                valid[nulls] = 0
        if self.ring:
            assert self.stub is not None and self.spec.window is not None
            time = enter_times(self.spec.window, delta.time)
            leave = leave_times(self.spec.window, delta.time)
            valid[leave <= time] = 0  # a window shorter than its slide: the element is never in it
            self.stub.append(delta.columns, n)
            slot = np.zeros(n, np.int64)
        else:
            assert self.bag is not None
            time, leave = delta.time, np.zeros(n, np.int64)
            slot = self.bag.slots(delta)
        if len(self.time) == 0:
            self.time, self.leave, self.weight, self.slot, self.valid = time, leave, delta.weights, slot, valid
            self.codes = codes
        else:
            self.time = np.concatenate([self.time, time])
            self.leave = np.concatenate([self.leave, leave])
            self.weight = np.concatenate([self.weight, delta.weights])
            self.slot = np.concatenate([self.slot, slot])
            self.valid = np.concatenate([self.valid, valid])
            self.codes = np.concatenate([self.codes, codes])

    def take(self, rows: Int64s, names: tuple[str, ...]) -> dict[str, pa.Array]:
        if self.stub is not None:
            return self.stub.take(rows, names)
        assert self.bag is not None
        return self.bag.store.take(rows, names)

    def drop_events(self, count: int) -> None:
        self.time, self.leave, self.weight = self.time[count:], self.leave[count:], self.weight[count:]
        self.slot, self.valid, self.codes = self.slot[count:], self.valid[count:], self.codes[count:]


class MJoin(Operator):
    """Joins ``inputs`` on the equalities of ``graph``; ``residual`` is what equality cannot say."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[JoinInput],
        graph: JoinGraph,
        residual: Sequence[Expr],
        stubs: Sequence[Callable[[], Stub] | None],
        output: Sequence[str],
        context: Context,
    ) -> None:
        schema = Schema(tuple(f for i in inputs for f in i.schema if f.name in output))
        super().__init__(name, schema)
        self.graph = graph
        self.sides = [_Side(i, keys, stub) for i, keys, stub in zip(inputs, graph.keys, stubs, strict=True)]
        self.residual = Conjunction(residual) if residual else None
        self.context = context
        self.verify = [
            (graph.keys[a.input][a.key], graph.keys[b.input][b.key])
            for a, b in graph.equalities
            if not is_direct(graph.keys[a.input][a.key].type)
        ]
        self.compiled_verify = [(compile_expr(a), compile_expr(b)) for a, b in self.verify]
        wanted = set(self.schema.names)
        for e in (*residual, *(x for pair in self.verify for x in pair)):
            wanted |= compile_expr(e).columns
        self.fetch = [tuple(n for n in s.spec.schema.names if n in wanted) for s in self.sides]
        m = len(self.sides)
        self.first = np.zeros(m, np.int64)
        self.tail = np.zeros(m, np.int64)
        for i, s in enumerate(self.sides):
            if s.stub is not None:
                self.first[i] = self.tail[i] = s.stub.low
        self.counters = np.zeros(4, np.int64)
        self.room = 1 << 12
        self.orders = [graph.default_order(i) for i in range(m)]
        self._plan()
        self._layout([s.capacity for s in self.sides], fresh=True)

    # ── the plan as arrays ────────────────────────────────────────────────────────────────────────────────────────

    def _plan(self) -> None:
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

    def _layout(self, capacities: Sequence[int], fresh: bool = False) -> None:
        """Lay the synopses out for new capacities, keep their contents, rebuild the indexes."""
        m = len(self.sides)
        old = None if fresh else (self.inputs, self.codes, self.leave, self.weight)
        self.inputs: Int64s = np.zeros((m, k.INPUT_FIELDS), np.int64)
        pos = code = 0
        for i, (s, cap) in enumerate(zip(self.sides, capacities, strict=True)):
            s.capacity = cap
            mine = np.flatnonzero(self.indexes[:, k.IX_INPUT] == i)
            low, high = (int(mine[0]), int(mine[-1]) + 1) if len(mine) else (0, 0)
            self.inputs[i, : k.CODE_WIDTH + 1] = (k.RING if s.ring else k.BAG, pos, cap - 1, code, len(s.keys))
            self.inputs[i, k.DELETES], self.inputs[i, k.INDEX_FROM], self.inputs[i, k.INDEX_TO] = (
                s.spec.deletes,
                low,
                high,
            )
            pos += cap
            code += cap * len(s.keys)
        heads = records = 0
        for x in range(len(self.indexes)):
            cap = self.sides[int(self.indexes[x, k.IX_INPUT])].capacity
            slots = cap if self.indexes[x, k.IX_COLS] else 1
            self.indexes[x, k.IX_HEAD_OFF], self.indexes[x, k.IX_HEAD_MASK] = heads, slots - 1
            self.indexes[x, k.IX_REC_OFF] = records
            heads += slots
            records += cap * int(self.indexes[x, k.IX_REC_WIDTH])
        for st in self.steps:
            x, side = self.indexes[st[k.ST_INDEX]], self.inputs[st[k.ST_TARGET]]
            st[k.ST_COLS : k.ST_MASK + 1] = x[k.IX_COLS], x[k.IX_REC_OFF], x[k.IX_REC_WIDTH], side[k.POS_MASK]
            st[k.ST_HEAD_OFF :] = x[k.IX_HEAD_OFF], x[k.IX_HEAD_MASK], side[k.POS_OFF], side[k.KIND] == k.BAG
        self.heads = np.full(max(heads, 1), -1, np.int64)
        self.records = np.zeros(max(records, 1), np.int64)
        self.codes: Int64s = np.zeros(max(code, 1), np.int64)
        self.leave: Int64s = np.zeros(pos, np.int64)
        self.weight: Int64s = np.zeros(pos, np.int64)
        self.rownum = np.zeros(pos, np.int64)
        for i in range(m):
            if old is not None:
                self._copy_side(i, *old)
            self._relink(i)

    def _live(self, i: int) -> Int64s:
        """Positions of input i that hold a row."""
        if self.sides[i].ring:
            return np.arange(self.first[i], self.tail[i], dtype=np.int64)
        off, cap = int(self.inputs[i, k.POS_OFF]), self.sides[i].capacity
        return np.flatnonzero(self.weight[off : off + cap])

    def _copy_side(self, i: int, inputs: Int64s, codes: Int64s, leave: Int64s, weight: Int64s) -> None:
        width = len(self.sides[i].keys)
        old_off, old_mask, old_code = (int(inputs[i, f]) for f in (k.POS_OFF, k.POS_MASK, k.CODE_OFF))
        off, mask, code = (int(self.inputs[i, f]) for f in (k.POS_OFF, k.POS_MASK, k.CODE_OFF))
        if self.sides[i].ring:
            live = np.arange(self.first[i], self.tail[i], dtype=np.int64)
        else:
            live = np.arange(min(old_mask, mask) + 1, dtype=np.int64)
        a, b = live & old_mask, live & mask
        self.leave[off + b] = leave[old_off + a]
        self.weight[off + b] = weight[old_off + a]
        for c in range(width):
            self.codes[code + b * width + c] = codes[old_code + a * width + c]

    def _relink(self, i: int) -> None:
        off, mask = int(self.inputs[i, k.POS_OFF]), int(self.inputs[i, k.POS_MASK])
        live = self._live(i)
        if self.sides[i].ring:
            live = np.ascontiguousarray(self.weight[off + (live & mask)])
        else:
            live = live[self._linked(i, live)]
        k.relink(
            i, self.inputs, self.indexes, self.index_columns, self.heads, self.records, self.codes, self.first,
            self.tail, live,
        )  # fmt: skip

    def _linked(self, i: int, slots: Int64s) -> Any:
        """Which slots of a bag have no NULL among their keys."""
        bag = self.sides[i].bag
        assert bag is not None
        ok = np.ones(len(slots), np.bool_)
        rows = bag.store.take(bag.rownum[slots])
        for key in self.sides[i].keys:
            _, nulls = hash_codes(key(rows, len(slots)))
            if nulls is not None:
                ok &= ~nulls
        return ok

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        for s, delta in zip(self.sides, deltas, strict=True):
            s.accept(delta)
        self._make_room()
        lengths = [int(np.searchsorted(s.time, frontier, side="right")) for s in self.sides]
        ev = self._events(lengths)
        next_event = np.zeros(len(self.sides), np.int64)
        result = np.zeros(1, np.int64)
        parts: list[Delta] = []
        while True:
            out_time, out_weight = np.empty(self.room, np.int64), np.empty(self.room, np.int64)
            out_rows = np.empty((len(self.sides), self.room), np.int64)
            status = k.mjoin(
                frontier, self.inputs, self.indexes, self.steps, self.index_columns, self.probes, self.heads,
                self.records, self.codes, self.leave, self.weight, self.rownum, self.first, self.tail, *ev,
                next_event, self.counters, out_time, out_weight, out_rows, result,
            )  # fmt: skip
            found = int(result[0])
            if found:
                parts.append(self._materialise(out_time[:found], out_weight[:found], out_rows[:, :found]))
            if status == k.DONE:
                break
            self.room = min(self.room * 4, 1 << 20) if found or self.room < 1 << 20 else self.room * 2
        for i, (s, n) in enumerate(zip(self.sides, lengths, strict=True)):
            self._after(i, s, n)
        parts = [p for p in parts if len(p)]
        return Delta.concat(parts) if parts else Delta.empty(self.schema)

    def _events(self, lengths: Sequence[int]) -> tuple[Int64s, ...]:
        at = code = 0
        for i, (s, n) in enumerate(zip(self.sides, lengths, strict=True)):
            self.inputs[i, k.EV_OFF], self.inputs[i, k.EV_LEN], self.inputs[i, k.EV_CODE_OFF] = at, n, code
            at += n
            code += n * len(s.keys)
        cut = list(zip(self.sides, lengths, strict=True))

        def join(parts: list[Int64s]) -> Int64s:
            return np.ascontiguousarray(np.concatenate(parts))

        return (
            join([s.time[:n] for s, n in cut]),
            join([s.codes[:n].reshape(-1) for s, n in cut] + [np.zeros(1, np.int64)]),
            join([s.leave[:n] for s, n in cut]),
            join([s.weight[:n] for s, n in cut]),
            join([s.slot[:n] for s, n in cut]),
            join([s.valid[:n] for s, n in cut]),
        )

    def _make_room(self) -> None:
        capacities = []
        for i, s in enumerate(self.sides):
            if s.ring:
                need = int(self.tail[i] - self.first[i]) + len(s.time)
            else:
                assert s.bag is not None
                need = s.bag.table.capacity
            cap = s.capacity
            while cap < need:
                cap *= 2
            capacities.append(cap)
        if capacities != [s.capacity for s in self.sides]:
            self._layout(capacities)
        for i, s in enumerate(self.sides):
            if s.bag is not None:
                off, n = int(self.inputs[i, k.POS_OFF]), s.bag.table.capacity
                self.rownum[off : off + n] = s.bag.rownum[:n]

    def _after(self, i: int, s: _Side, count: int) -> None:
        if s.stub is not None:
            s.stub.forget(int(self.first[i]))
        elif s.bag is not None and count:
            touched = np.unique(s.slot[:count])
            off = int(self.inputs[i, k.POS_OFF])
            s.bag.release(touched[self.weight[off + touched] == 0])
            s.bag.compact()
        s.drop_events(count)

    def _materialise(self, time: Int64s, weight: Int64s, rows: Int64s) -> Delta:
        columns: dict[str, pa.Array] = {}
        for i, s in enumerate(self.sides):
            if self.fetch[i]:
                columns.update(s.take(rows[i], self.fetch[i]))
        delta = Delta(time.copy(), columns, None if (weight == 1).all() else weight.copy())
        for left, right in self.compiled_verify:  # hashed keys: equal hashes are not yet equal strings
            a, b = _plain(left(delta.columns, len(delta))), _plain(right(delta.columns, len(delta)))
            delta = delta.filter(np.asarray(pc.equal(a, b)))
        if self.residual is not None and len(delta):
            selection = self.residual.evaluate(delta.columns, len(delta))
            if selection.errors:
                self.context.fail(delta, selection.errors)
            delta = delta.filter(selection.keep)
        return delta.with_columns({n: delta.columns[n] for n in self.schema.names})

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for i, s in enumerate(self.sides):
            events = {"time": s.time, "leave": s.leave, "weight": s.weight, "slot": s.slot, "valid": s.valid}
            events["codes"] = np.ascontiguousarray(s.codes.reshape(-1))
            off, mask = int(self.inputs[i, k.POS_OFF]), int(self.inputs[i, k.POS_MASK])
            if s.stub is not None:
                live = np.arange(self.first[i], self.tail[i], dtype=np.int64)
                held = {"stub": s.stub.state(), "first": int(self.first[i]), "tail": int(self.tail[i])}
            else:
                assert s.bag is not None
                live = s.bag.table.live_ids()
                held = {"bag": s.bag.state()}
            at = off + (live & mask)
            out[str(i)] = {**held, "leaves": self.leave[at], "weights": self.weight[at], "events": events}
        return out

    def load(self, state: dict[str, Any]) -> None:
        for i, s in enumerate(self.sides):
            mine = state[str(i)]
            if s.stub is not None:
                s.stub.load(mine["stub"])
                self.first[i], self.tail[i] = mine["first"], mine["tail"]
            else:
                assert s.bag is not None
                s.bag.load(mine["bag"])
            e = mine["events"]
            s.time, s.leave, s.weight, s.slot, s.valid = (e[n] for n in ("time", "leave", "weight", "slot", "valid"))
            s.codes = e["codes"].reshape(len(s.time), len(s.keys))
        self._make_room_for_load()
        for i, s in enumerate(self.sides):
            mine = state[str(i)]
            off, mask, code = (int(self.inputs[i, f]) for f in (k.POS_OFF, k.POS_MASK, k.CODE_OFF))
            if s.stub is not None:
                live = np.arange(self.first[i], self.tail[i], dtype=np.int64)
                rows = s.stub.take(live, s.spec.schema.names)
            else:
                assert s.bag is not None
                live = s.bag.table.live_ids()
                rows = s.bag.store.take(s.bag.rownum[live])
            at = live & mask
            self.leave[off + at], self.weight[off + at] = mine["leaves"], mine["weights"]
            for j, key in enumerate(s.keys):
                self.codes[code + at * len(s.keys) + j], _ = hash_codes(key(rows, len(live)))
            self._relink(i)

    def _make_room_for_load(self) -> None:
        capacities = []
        for i, s in enumerate(self.sides):
            need = int(self.tail[i] - self.first[i]) + len(s.time) if s.ring else s.bag.table.capacity  # type: ignore[union-attr]
            cap = 64
            while cap < need:
                cap *= 2
            capacities.append(cap)
        first, tail = self.first.copy(), self.tail.copy()
        self.first[:], self.tail[:] = 0, 0
        self._layout(capacities, fresh=True)
        self.first[:], self.tail[:] = first, tail

    def size(self) -> tuple[int, int]:
        rows = bytes = 0
        for i, s in enumerate(self.sides):
            if s.stub is not None:
                n = int(self.tail[i] - self.first[i])
                rows += n
                bytes += s.stub.store.nbytes(n) // max(1, len(s.stub.store.stubs))
            elif s.bag is not None:
                rows += len(s.bag)
                bytes += s.bag.nbytes
        arrays = (self.heads, self.records, self.codes, self.leave, self.weight, self.rownum)
        return rows, bytes + sum(a.nbytes for a in arrays)

    def describe(self) -> str:
        kept = []
        for s in self.sides:
            alias = next((n.split(".")[0] for n in s.spec.schema.names), "an input")
            kept.append(f"{alias} {s.spec.window if s.spec.window is not None else '(as it changes)'}")
        why = "to join what arrives on the others"
        if all(s.spec.window is not None for s in self.sides):
            modes = {s.spec.deletes for s in self.sides if not isinstance(s.spec.window, Unbounded)}
            shown = {
                k.NO_DELETIONS: "; deletions are not computed: none can show",
                k.AT_ARRIVALS: "; deletions are computed at instants of arrivals only: elsewhere none can show",
            }
            why += shown.get(max(modes), "") if modes else ""
        return f"{', '.join(kept)}: {why}"


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
