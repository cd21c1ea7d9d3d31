"""The multiway join operator: keeps the synopses of its inputs and runs the kernel over them.

With two inputs it is STREAM's binary-join. The kernel works on codes and row numbers; ``join_side`` turns columns into
codes, ``join_arrays`` lays the synopses out in flat arrays, and this file turns row numbers back into columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from eddyline.core.aligned import Aligned, plain
from eddyline.core.bound import Bound, bound_of
from eddyline.core.delta import Delta, Int64s
from eddyline.core.errors import JobError
from eddyline.core.schema import Schema
from eddyline.core.window import Unbounded
from eddyline.expr.nodes import Expr
from eddyline.kernels import join_layout as k
from eddyline.operators.base import Context, Operator
from eddyline.operators.index_readers import index_readers
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.join_plan import Condition, JoinGraph
from eddyline.operators.join_results import JoinResults
from eddyline.operators.join_side import JoinInput, JoinSide
from eddyline.synopses.store import Stub

EVENTS = ("time", "leave", "weight", "slot", "valid")  # of a side, as they are saved
TAKEN = "taken over"  # of saved state: that of the join that took over from this one


class JoinAdapter(Protocol):
    """Changes the plan of a join between two elements; the operator applies the plan and contains no policy."""

    def begin(self, arrays: JoinArrays, next_event: Int64s, lengths: Sequence[int]) -> int:
        """Called before elements are applied; those from ``next_event`` to ``lengths`` wait. Sets which of them are
        profiled, and returns after how many elements to call again."""

    def end(self, arrays: JoinArrays, now: int) -> None:
        """Called after that many elements, or all; the plan may be changed here."""

    def describe(self, arrays: JoinArrays) -> list[str]:
        """Lines for explain."""

    def statistics(self, arrays: JoinArrays) -> dict[str, Any]:
        """Statistics and history, as plain data."""

    def state(self) -> dict[str, Any]:
        """What was learned, as plain numbers and arrays."""

    def load(self, state: dict[str, Any], arrays: JoinArrays) -> None:
        """Go on with what was learned."""


class MJoin(Operator):
    """Joins ``inputs`` on the equalities of ``graph`` and the ``conditions`` between ordered keys; ``residual`` has all
    other conjuncts. An ``adapter`` may change the plan while the join runs."""

    FIRST_RESULT_ROOM = 1 << 12  # results of the kernel for which there is room at first
    RESULTS_AT_ONCE = 1 << 16  # that are turned into rows together

    def __init__(
        self,
        name: str,
        inputs: Sequence[JoinInput],
        graph: JoinGraph,
        residual: Sequence[Expr],
        stubs: Sequence[Callable[[], Stub] | None],
        output: Sequence[str],
        context: Context,
        conditions: Sequence[Condition] = (),
    ) -> None:
        schema = Schema(tuple(f for i in inputs for f in i.schema if f.name in output))
        super().__init__(name, schema)
        self.graph = graph
        compared = {m for c in conditions for m in (c.left, c.right)}
        self.sides = [
            JoinSide(spec, keys, stub, frozenset(m.key for m in compared if m.input == i))
            for i, (spec, keys, stub) in enumerate(zip(inputs, graph.keys, stubs, strict=True))
        ]
        index_readers(self, self.sides, graph.keys)
        self.context = context
        self.to_rows = JoinResults(self.sides, graph, residual, self.schema, context)
        self.arrays = JoinArrays(self.sides, graph, conditions)
        self.room = self.FIRST_RESULT_ROOM
        self.adapter: JoinAdapter | None = None
        self._most = 0  # rows, during the last run
        self._nothing = Delta.empty(schema)

    @property
    def orders(self) -> list[tuple[int, ...]]:
        return self.arrays.orders

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        for s, delta in zip(self.sides, deltas, strict=True):
            s.accept(delta)
        self._share_indexes()
        self.arrays.make_room()
        lengths = [int(s.time.searchsorted(frontier, "right")) for s in self.sides]
        events = self.arrays.events(lengths)
        next_event = np.zeros(len(self.sides), np.int64)
        parts: list[Delta] = []
        found: list[tuple[Int64s, Int64s, Int64s]] = []  # for which there was no room
        status, adapter = k.PAUSE, self.adapter
        limit = int(k.NEVER)
        self.arrays.counters[k.CN_PEAK] = 0
        while status != k.DONE:
            if adapter is not None and status == k.PAUSE:
                limit = adapter.begin(self.arrays, next_event, lengths)
            before = 0 if adapter is None else int(next_event.sum())
            status = self.arrays.run(frontier, events, next_event, self.room, limit)
            if adapter is not None:  # only it sets limits
                limit -= int(next_event.sum()) - before
            if self.arrays.found >= self.RESULTS_AT_ONCE and not self.to_rows.can_fail:
                parts.append(self._materialise(*_joined([*found, self.arrays.take()])))
                found = []
            if status == k.FULL:
                if self.arrays.found:
                    time, weight, rows = self.arrays.take()
                    found.append((time.copy(), weight.copy(), rows.copy()))
                self.room = min(self.room * 4, 1 << 20)
            elif adapter is not None and status in (k.PAUSE, k.DONE):
                adapter.end(self.arrays, frontier if status == k.DONE else self._reached(next_event))
        if found or self.arrays.found:
            # Of those that can fail, all: whether a pair has failed is known when its instant is complete.
            parts.append(self._materialise(*_joined([*found, self.arrays.take()])))
        self._most = int(self.arrays.counters[k.CN_PEAK]) + sum(len(s.bag) for s in self.sides if s.bag is not None)
        for i, (s, n) in enumerate(zip(self.sides, lengths, strict=True)):
            self._after(i, s, n)
        parts = [p for p in parts if len(p)]
        return Delta.concat(parts) if parts else self._nothing

    def _reached(self, next_event: Int64s) -> int:
        """The time of the last event that has been applied; if only rows have left so far, of the one that waits."""
        applied = [int(s.time[n - 1]) for s, n in zip(self.sides, next_event.tolist(), strict=True) if n]
        return max(applied) if applied else min(int(s.time[0]) for s in self.sides if len(s.time))

    def _after(self, i: int, s: JoinSide, count: int) -> None:
        if s.stub is not None:
            s.stub.expire(int(self.arrays.first[i]) - s.offset)
        elif s.bag is not None and count:
            touched = np.unique(s.slot[:count])
            s.bag.expire(touched[self.arrays.weight[self.arrays.place(i, touched)] == 0])
            if s.bag.compact():
                self.arrays.number_rows(i)
        s.drop_events(count)

    def _materialise(self, time: Int64s, weight: Int64s, rows: Int64s) -> Delta:
        return self.to_rows.rows(time, weight, rows)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        first, tail = self.arrays.first, self.arrays.tail
        for i, s in enumerate(self.sides):
            events = {n: getattr(s, n) for n in EVENTS}
            events["codes"] = np.ascontiguousarray(s.codes.reshape(-1))
            if s.stub is not None:
                held = {"stub": s.stub.state(), "first": int(first[i]) - s.offset, "tail": int(tail[i]) - s.offset}
            else:
                assert s.bag is not None
                held = {"bag": s.bag.state()}
            live = self._held(i)
            at = self.arrays.place(i, live)
            start = int(first[i]) - s.offset
            leaves = Aligned(start, self.arrays.leave[at], len(at))
            weights = Aligned(start, self.arrays.weight[at], len(at))
            out[str(i)] = {**held, "leaves": leaves, "weights": weights, "events": events}
        if self.adapter is not None:
            out["adapter"] = self.adapter.state()
        return out

    def load(self, state: dict[str, Any]) -> None:
        if TAKEN in state:
            raise JobError(
                f"{self.name} had handed its rows over to a constrained join, which the option 'constraints' no longer"
                " allows: use the options that the query had."
            )
        for reader in self.arrays.readers.values():
            reader.leave()
        for i, s in enumerate(self.sides):
            mine = state[str(i)]
            if s.stub is not None:
                s.stub.load(mine["stub"])
                self.arrays.first[i], self.arrays.tail[i] = mine["first"], mine["tail"]
            else:
                assert s.bag is not None
                s.bag.load(mine["bag"])
            for n in EVENTS:
                setattr(s, n, mine["events"][n])
            s.codes = mine["events"]["codes"].reshape(len(s.time), len(s.keys))
        self.arrays.result[:], self.arrays.active[:] = 0, 0
        self._fill([(plain(state[str(i)]["leaves"]), plain(state[str(i)]["weights"])) for i in range(len(self.sides))])
        if self.adapter is not None and "adapter" in state:
            self.adapter.load(state["adapter"], self.arrays)

    def _fill(self, times: Sequence[tuple[Int64s, Int64s]]) -> None:
        """Lay everything out anew for the rows that synopses hold, with these leave times and weights by input."""
        self.arrays.make_room(smallest=True)
        for i, (leaves, weights) in enumerate(times):
            self.arrays.put(i, self._held(i), leaves, weights)

    def _share_indexes(self) -> None:
        """Begin to share indexes with other joins, or end it: rows are then numbered anew, as after a restart."""
        arrays = self.arrays
        changing = [
            i for i, r in arrays.readers.items() if r.wants_change(int(arrays.tail[i]) - r.offset)
        ]  # fmt: skip
        if not changing:
            return
        learned = None if self.adapter is None else self.adapter.state()
        held = [arrays.place(i, self._held(i)) for i in range(len(self.sides))]
        times = [(arrays.leave[at], arrays.weight[at]) for at in held]
        for i in changing:
            reader = arrays.readers[i]
            before = reader.offset
            reader.change()
            arrays.first[i] += reader.offset - before
            arrays.tail[i] += reader.offset - before
        self._fill(times)
        if self.adapter is not None and learned is not None:
            self.adapter.load(learned, arrays)

    def adapts(self) -> list[str]:
        return [] if self.adapter is None else self.adapter.describe(self.arrays)

    def statistics(self) -> dict[str, Any]:
        return {} if self.adapter is None else self.adapter.statistics(self.arrays)

    def _held(self, i: int) -> Int64s:
        """Positions whose leave times and weights are state; a bag's slots may wait with weight 0."""
        bag = self.sides[i].bag
        return self.arrays.live(i) if bag is None else bag.table.live_ids()

    def most_rows(self, now: int) -> int:
        return max(self._most, now)

    def size(self) -> tuple[int, int]:
        rows = bytes = 0
        for s, n in zip(self.sides, (self.arrays.tail - self.arrays.first).tolist(), strict=False):
            if s.stub is not None:
                rows += n
                bytes += s.stub.store.nbytes(n) // max(1, len(s.stub.store.stubs))
            elif s.bag is not None:
                rows += len(s.bag)
                bytes += s.bag.nbytes
        return rows, bytes + self.arrays.nbytes

    def on_disk(self) -> int:
        """Bytes of the files that its rows take (``Store.spill``)."""
        return sum(s.stub.spilled()[1] for s in self.sides if s.stub is not None)

    def give_back(self, bytes: int) -> int:
        freed = self.arrays.give_back(bytes)
        for i, s in enumerate(self.sides):
            if freed >= bytes:
                break
            if s.stub is not None:
                freed += s.stub.give_back(bytes - freed)
            elif s.bag is not None:
                freed += s.bag.give_back(bytes - freed)
                self.arrays.number_rows(i)
        return freed

    def describe(self) -> str:
        kept = [s.spec.label or "an input" for s in self.sides if not s.spec.passing]
        why = "to join what arrives on the others"
        passing = [s.spec.label or "an input" for s in self.sides if s.spec.passing]
        if passing:
            return (
                f"{', '.join(kept)}: {why}; nothing of {', '.join(passing)} beyond the present instant: no "
                "later row joins with it, and no deletion can show"
            )
        if all(s.spec.window is not None for s in self.sides):
            modes = {s.spec.deletes for s in self.sides if not isinstance(s.spec.window, Unbounded)}
            shown = {
                k.NO_DELETIONS: "; deletions are not computed: none can show",
                k.AT_ARRIVALS: "; deletions are computed at instants of arrivals only: elsewhere none can show",
            }
            why += shown.get(max(modes), "") if modes else ""
        return f"{', '.join(kept)}: {why}"

    def bounds(self) -> dict[str, Bound]:
        return {s.spec.label or f"input {i + 1}": bound_of(s.spec.window) for i, s in enumerate(self.sides)}


def _joined(found: list[tuple[Int64s, Int64s, Int64s]]) -> tuple[Int64s, Int64s, Int64s]:
    if len(found) == 1:
        return found[0]
    times, weights, rows = zip(*found, strict=True)
    return np.concatenate(times), np.concatenate(weights), np.hstack(rows)
