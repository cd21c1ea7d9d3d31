"""A join that keeps what the future can still need, and not all that its windows hold (thesis, chapter 6).

Elements of all inputs are applied one by one in order of time: a row that leaves its window before the rows that arrive
at the same instant. After each ``COLLECT_EVERY`` elements rows that constraints make useless are taken out of memory.
They are forgotten (lossy), or put into a spill (exact). The invariants that make the second exact, however wrong a
constraint is:

1. Every row that is in its window is in memory or in the spill.
2. A row that arrives is matched with the rows in memory. Wherever a filter says that the spill may have a row of a key
   that is looked up, the rows of that key are brought back first.
3. Where deletions can show, all rows of the current results are in memory: a row is only taken out if it is part of no
   result. So a row that leaves from the spill changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from eddyline.core.bound import Bound, bound_of
from eddyline.core.delta import Bools, Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.core.window import Rows
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr
from eddyline.expr.predicates import Conjunction
from eddyline.kernels import constrained_join as kernel
from eddyline.kernels import constrained_layout as k
from eddyline.kernels.join_layout import NO_DELETIONS
from eddyline.operators.base import Context, Operator
from eddyline.operators.constrained_events import Arrivals, RunEvents
from eddyline.operators.join_plan import JoinGraph
from eddyline.operators.join_results import JoinResults
from eddyline.operators.join_side import JoinInput, JoinSide
from eddyline.operators.join_tree import JoinTree, port_keys
from eddyline.synopses.constrained_slots import Slots
from eddyline.synopses.kept_rows import KeptRows
from eddyline.synopses.spill import Spill

COLLECT_EVERY = 1_000  # elements between two garbage collections: fewer keep less, and cost more
ROWS_PER_ELEMENT = 32  # rows that a collection may look at for each element since the last
ROOM = 1 << 12  # results for which there is room at first
PAIRS = 1 << 16  # results that are turned into rows at once
ASKED = 64  # keys that are looked for in the spill at once
EVENTS = ("time", "leave", "valid", "failed")  # of a side, as they are saved


@dataclass(frozen=True, slots=True)
class Collection:
    """What a garbage collection may infer. By port: ``wait`` (RIDS) and ``low`` (OA); ``facts`` by input: root, only
    root, all roots are parents, NO rows are not kept. Of useless rows ``share`` of 65,536 stay as a sample."""

    wait: Int64s
    low: Int64s
    share: int
    facts: np.ndarray[Any, Any]


class ConstraintControl(Protocol):
    """Who measures constraints and decides which are used. The operator knows no policy."""

    def arrived(self, join: ConstrainedJoin, stream: int, keys: Int64s) -> None:
        """Rows came with these keys, by port."""

    def measured(self, join: ConstrainedJoin, distances: Int64s) -> None:
        """Join distances: lines of port, count of the neighbour's rows, distance."""

    def collection(self, join: ConstrainedJoin, now: int) -> Collection | None:
        """Before a garbage collection: what may be inferred; None: nothing."""

    def collected(self, join: ConstrainedJoin, slots: Int64s) -> None:
        """Rows that were taken out; their slots can still be read."""

    def hit(self, join: ConstrainedJoin, why: Int64s, now: int) -> None:
        """Spilled rows were needed after all."""

    def sampled(self, join: ConstrainedJoin, keys: Int64s) -> None:
        """Results came that would be missing, had their rows not been kept: hashes of the keys."""

    def describe(self, join: ConstrainedJoin) -> list[str]:
        """Lines for explain."""

    def statistics(self, join: ConstrainedJoin) -> dict[str, Any]:
        """What is known and was done, as plain data."""

    def state(self) -> dict[str, Any]:
        """What was learned."""

    def load(self, state: dict[str, Any]) -> None:
        """Go on with what was learned."""


class ConstrainedSide(JoinSide):
    """An input whose rows may go in any order. ``failed`` are waiting rows that a filter above the window rejects."""

    def __init__(self, spec: JoinInput, keys: Sequence[Expr], ordered: frozenset[int]) -> None:
        self.rows = KeptRows(spec.schema)
        super().__init__(replace(spec, filters=()), keys, lambda: self.rows, ordered)  # type: ignore[arg-type, return-value]
        self.rejects = Conjunction(spec.filters) if spec.filters else None
        self.failed = np.zeros(0, np.int64)

    def accept(self, delta: Delta) -> None:
        super().accept(delta)
        failed = np.zeros(len(delta), np.int64)
        if self.rejects is not None and len(delta):
            failed[~self.rejects.evaluate(delta.columns, len(delta)).keep] = 1
        self.failed = np.concatenate([self.failed, failed])

    def drop_events(self, count: int) -> None:
        super().drop_events(count)
        self.failed = self.failed[count:]


class ConstrainedJoin(Operator):
    """Joins ``inputs`` along a ``tree``; without a ``spill`` what is taken out of memory is lost."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[JoinInput],
        graph: JoinGraph,
        tree: JoinTree,
        residual: Sequence[Expr],
        output: Sequence[str],
        context: Context,
        control: ConstraintControl,
        spill: Spill | None,
        collect_every: int = COLLECT_EVERY,
    ) -> None:
        super().__init__(name, Schema(tuple(f for i in inputs for f in i.schema if f.name in output)))
        self.tree, self.control, self.spill = tree, control, spill
        self.sides = [
            ConstrainedSide(spec, keys, frozenset(range(len(keys))))
            for spec, keys in zip(inputs, graph.keys, strict=True)
        ]
        self.keys = [tree.keys_of(i) for i in range(tree.size)]
        self.slots = Slots(tree.ports(), tree.order())
        self.results = JoinResults(self.sides, graph, residual, self.schema, context)
        self._verify_composite(graph)
        self.deletes = any(spec.deletes != NO_DELETIONS for spec in inputs)
        self.limits = np.array([s.limit for s in self.sides], np.int64)
        self.skip = np.zeros(tree.size, np.bool_)  # roots: nobody waits for their rejected rows
        self.collect_every = self.due = collect_every
        self.since = 0  # elements since the last collection
        self.room = ROOM
        self.collections = self.fetches = self.dropped = 0
        self._most = 0

    def _verify_composite(self, graph: JoinGraph) -> None:
        """Keys of several parts are hashed: equal hashes are not yet equal values."""
        parts = {
            (i, key) for i, keys in enumerate(self.keys) for columns in keys if len(columns) > 1 for key in columns
        }
        for a, b in graph.equalities:
            if (a.input, a.key) in parts and (b.input, b.key) in parts:
                pair = tuple(compile_expr(graph.keys[m.input][m.key]) for m in (a, b))
                self.results.verify.append(pair)  # type: ignore[arg-type]
                for m, e in zip((a, b), pair, strict=True):
                    names, more = self.sides[m.input].spec.schema.names, set(self.results.fetch[m.input]) | e.columns
                    self.results.fetch[m.input] = tuple(n for n in names if n in more)

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        for side, delta in zip(self.sides, deltas, strict=True):
            side.accept(delta)
        lengths = [int(np.searchsorted(s.time, frontier, side="right")) for s in self.sides]
        arrivals = self._arrivals(lengths)
        found: list[tuple[Int64s, Int64s, Int64s]] = []
        parts: list[Delta] = []
        at, total, self._most = 0, len(arrivals), 0
        while True:
            end = min(total, at + self.due - self.since)
            until = frontier if end == total else int(arrivals.time[end - 1])
            self._run(arrivals.slice(at, end), until, found)
            self.since += end - at
            self._most = max(self._most, len(self.slots))
            if self.since >= self.due:
                self._collect(until)
                # To look at all rows costs as much as a few arrivals, whatever there is.
                self.since, self.due = 0, max(self.collect_every, len(self.slots) // ROWS_PER_ELEMENT)
            at = end
            if found and (at == total or (not self.results.can_fail and sum(len(f[0]) for f in found) > PAIRS)):
                # Of results that can fail, all at once: whether one has failed is known when its instant is complete.
                parts.append(self.results.rows(*_joined(found)))
                found = []
            if at == total:
                break
        for i, (side, n) in enumerate(zip(self.sides, lengths, strict=True)):
            side.drop_events(n)
            side.rows.retain(self._needed(i))
        parts = [p for p in parts if len(p)]
        return Delta.concat(parts) if parts else Delta.empty(self.schema)

    def _arrivals(self, lengths: Sequence[int]) -> Arrivals:
        """The elements that are due, in order of time and, at one instant, of the inputs."""
        made = []
        for i, (s, n) in enumerate(zip(self.sides, lengths, strict=True)):
            number = self.slots.arrived[i] + np.arange(n)
            keys = port_keys(s.codes[:n], self.keys[i], self.slots.width)
            made.append(Arrivals(s.time[:n], np.full(n, i), number, s.leave[:n], s.valid[:n], s.failed[:n], keys))
        return Arrivals.merged(made)

    def _run(self, arrivals: Arrivals, until: int, found: list[tuple[Int64s, Int64s, Int64s]]) -> None:
        """Apply arrivals, and let rows leave whose time has come."""
        slots = self.slots
        if self.spill is not None and len(arrivals):
            self._bring_back(arrivals)
        kept = (arrivals.valid != 0) & ~((arrivals.failed != 0) & self.skip[arrivals.stream])
        places = slots.assign(int(kept.sum()))
        mine = arrivals.filter(kept)
        slots.fill(places, mine.stream, mine.number, mine.leave, mine.keys)
        slots.slot[places, k.FAILED] = mine.failed
        events = RunEvents(arrivals, kept, places, slots.arrived.copy(), self.limits)
        events.add_leaving(slots, np.flatnonzero(slots.status != k.FREE), until)
        self._apply(events, until, found)
        slots.give_back(events.left())
        able = arrivals.valid != 0
        for i in range(self.tree.size):
            if len(rows := arrivals.keys[able & (arrivals.stream == i)]):
                self.control.arrived(self, i, rows)

    def _apply(self, events: RunEvents, until: int, found: list[tuple[Int64s, Int64s, Int64s]]) -> None:
        slots, spill = self.slots, self.spill
        progress = np.zeros(4, np.int64)
        distances = np.empty((max(1, len(events.arrivals)) * slots.width, 3), np.int64)
        asked = np.empty((ASKED, 2), np.int64)
        checked, checks = np.empty((0, 2), np.int64), 0  # keys that were looked for: nothing is spilled meanwhile
        filters, bits = no_filters(slots) if spill is None else (spill.filters, spill.bits)
        status = k.FULL
        while status != k.DONE:
            times, weights, sampled = (np.empty(self.room, np.int64) for _ in range(3))
            rows = np.empty((self.tree.size, self.room), np.int64)
            held = slots.ports, slots.order, slots.stream, slots.status, slots.slot, slots.head, slots.number
            counts = slots.arrived, slots.duplicates, slots.stack
            known = filters, bits, checked, checks, asked, distances, progress
            out = times, weights, sampled, rows
            status = int(
                kernel.run(events.table, self.deletes, 0 if spill is None else 2, *held, *counts, *known, *out)
            )
            n = int(progress[k.FOUND])
            if n:
                found.append((times[:n].copy(), weights[:n].copy(), rows[:, :n].copy()))
                if spill is None and (keys := sampled[:n][(sampled[:n] != 0) & (weights[:n] > 0)]).size:
                    self.control.sampled(self, keys)
            elif status == k.FULL:
                self.room *= 4
            progress[k.FOUND] = 0
            if status == k.FETCH:
                many = int(progress[k.ASKED])
                progress[k.ASKED] = 0
                checked, checks = np.concatenate([checked, asked[:many]]), checks + many
                event = int(progress[k.EVENT])
                back = self._fetch(asked[:many], events.arrivals, int(events.table[3, event]))
                events.insert_leaving(slots, back, until, event)
        if measured := int(progress[k.MEASURED]):
            self.control.measured(self, distances[:measured])

    def _fetch(self, asked: Int64s, arrivals: Arrivals, now: int) -> Int64s:
        """Bring rows of some keys back from the spill: their slots."""
        assert self.spill is not None
        back = []
        for i, rows in self.spill.take(asked, lambda port, keys: self._may_complete(arrivals, port, keys)):
            limit = int(self.limits[i])
            there = rows.number + limit >= self.slots.arrived[i] if limit else rows.leave > now
            rows = rows.filter(there)
            if len(rows) == 0:
                continue
            self.fetches += len(rows)
            self.sides[i].rows.bring_back(rows.number, rows.columns)
            places = self.slots.assign(len(rows))
            self.slots.fill(places, i, rows.number, rows.leave, rows.keys)
            self.slots.put_back(places)
            self.control.hit(self, rows.why, now)
            back.append(places)
        return np.concatenate(back) if back else np.empty(0, np.int64)

    def _may_complete(self, arrivals: Arrivals, port: int, keys: Int64s) -> Bools:
        """Which spilled rows that were found at a port may be part of a result of this run: those with a match at every
        other port, among the rows that arrive, in memory or, by the filters, in the spill."""
        assert self.spill is not None
        slots, i = self.slots, port // self.slots.width
        found = np.zeros(keys.shape, np.int64)
        for j in range(slots.width):
            other, p = int(slots.ports[i, j, k.NB]), int(slots.ports[i, j, k.NBP])
            if other >= 0:
                found[:, j] = np.isin(keys[:, j], arrivals.keys[arrivals.stream == other, p])
        held = slots.ports, slots.stream, slots.slot, slots.head
        kernel.may_complete(np.ascontiguousarray(keys), port, *held, self.spill.filters, self.spill.bits, found)
        worth: Bools = (found != 0).all(axis=1)
        return worth

    def _bring_back(self, arrivals: Arrivals) -> None:
        """Before a run: rows of the spill that match one that arrives."""
        assert self.spill is not None
        slots, asked = self.slots, []
        for i in range(self.tree.size):
            mine = arrivals.keys[(arrivals.stream == i) & (arrivals.valid != 0)]
            for j in range(self.slots.width):
                other = int(slots.ports[i, j, k.NB]) * slots.width + int(slots.ports[i, j, k.NBP])
                if len(mine) == 0 or other < 0 or self.spill.filters[0, other, 1] < 0:
                    continue
                keys = np.unique(mine[:, j])
                there = np.zeros(len(keys), np.int64)
                kernel.filter_keys(keys, other, self.spill.filters, self.spill.bits, there)
                keys = keys[there != 0]
                asked.append(np.column_stack([np.full(len(keys), other, np.int64), keys]))
        if asked:
            self._fetch(np.concatenate(asked), arrivals, int(arrivals.time[0]))

    # ── collecting garbage ────────────────────────────────────────────────────────────────────────────────────────

    def _collect(self, now: int) -> None:
        plan = self.control.collection(self, now)
        if self.spill is not None:
            self.spill.expire(now, self.slots.arrived, self.limits)
        if plan is None:
            return
        self.collections += 1
        self.skip = plan.facts[0] != 0
        self.slots.infer(plan.wait, plan.low)
        victims = self.slots.collect(self.deletes, plan.share, plan.facts, plan.low)
        if len(victims):
            self.control.collected(self, victims)
            self.dropped += len(victims)
            if self.spill is not None:
                self._spill(victims)
            self.slots.give_back(victims)
            self.slots.shrink()

    def _spill(self, victims: Int64s) -> None:
        assert self.spill is not None
        slots = self.slots
        victims = victims[slots.slot[victims, k.FAILED] == 0]
        for i, side in enumerate(self.sides):
            mine = victims[slots.stream[victims] == i]
            if len(mine) == 0:
                continue
            mine = mine[np.argsort(slots.number[mine])]
            columns = side.rows.probe(slots.number[mine], side.spec.schema.names)
            why = slots.slot[mine, k.WHY]
            self.spill.add(i, slots.number[mine], slots.leave[mine], slots.keys(mine), why, columns)

    def _needed(self, i: int) -> Int64s:
        """The numbers of the rows of an input that are in memory or wait to enter."""
        live = self.slots.live()
        live = live[self.slots.slot[live, k.FAILED] == 0]
        waiting = np.arange(self.slots.arrived[i], self.sides[i].rows.end)
        return np.concatenate([self.slots.of(i, live), waiting])

    # ── what others read ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def labels(self) -> list[str]:
        return [s.spec.label or f"input {i + 1}" for i, s in enumerate(self.sides)]

    def in_window(self, i: int) -> int | None:
        """How many rows the window of an input may hold by its count; None: it is not tuple-based."""
        window = self.sides[i].spec.window
        return window.count if isinstance(window, Rows) else None

    def approximate(self) -> str:
        return "its join drops rows that constraints make useless" if self.spill is None and self.dropped else ""

    def adapts(self) -> list[str]:
        return self.control.describe(self)

    def statistics(self) -> dict[str, Any]:
        return self.control.statistics(self)

    def most_rows(self) -> int:
        return max(self._most, len(self.slots))

    def size(self) -> tuple[int, int]:
        bytes = self.slots.nbytes + sum(s.rows.nbytes for s in self.sides)
        return len(self.slots), bytes + (0 if self.spill is None else self.spill.nbytes)

    def spilled(self) -> tuple[int, int]:
        return (0, 0) if self.spill is None else (sum(self.spill.rows()), self.spill.disk)

    def describe(self) -> str:
        where = (
            "what constraints make useless is dropped" if self.spill is None else "the rest of the windows is spilled"
        )
        return f"{', '.join(self.labels)}: what the future can still need; {where}"

    def bounds(self) -> dict[str, Bound]:
        return {label: bound_of(s.spec.window) for label, s in zip(self.labels, self.sides, strict=True)}

    def state(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "control": self.control.state(),
            "slots": self.slots.state(),
            "since": self.since,
            "due": self.due,
        }
        out |= {"collections": self.collections, "fetches": self.fetches, "dropped": self.dropped}
        out["skip"] = self.skip.astype(np.int64)
        out["ports"] = np.ascontiguousarray(self.slots.ports.reshape(-1))
        for i, side in enumerate(self.sides):
            events = {n: getattr(side, n) for n in EVENTS}
            events["codes"] = np.ascontiguousarray(side.codes.reshape(-1))
            out[str(i)] = {"rows": side.rows.state(self._needed(i)), "events": events}
        if self.spill is not None:
            out["spill"] = self.spill.state()
        return out

    def load(self, state: dict[str, Any]) -> None:
        self.slots = Slots(np.array(state["ports"]).reshape(self.slots.ports.shape), self.slots.order)
        self.slots.load(state["slots"])
        self.since, self.due, self.skip = int(state["since"]), int(state["due"]), np.array(state["skip"]) != 0
        self.collections, self.fetches, self.dropped = (int(state[n]) for n in ("collections", "fetches", "dropped"))
        for i, side in enumerate(self.sides):
            mine = state[str(i)]
            side.rows.load(mine["rows"])
            for name in EVENTS:
                setattr(side, name, np.array(mine["events"][name]))
            n = len(side.time)
            side.codes = np.array(mine["events"]["codes"]).reshape(n, len(side.keys))
            side.weight, side.slot = np.ones(n, np.int64), np.zeros(n, np.int64)
        if self.spill is not None:
            self.spill.load(state["spill"])
        self.control.load(state["control"])


def no_filters(slots: Slots) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.full((2, slots.inputs * slots.width, 2), -1, np.int64), np.zeros(1, np.uint8)


def _joined(found: Sequence[tuple[Int64s, Int64s, Int64s]]) -> tuple[Int64s, Int64s, Int64s]:
    if len(found) == 1:
        return found[0]
    time, weight, rows = zip(*found, strict=True)
    return np.concatenate(time), np.concatenate(weight), np.hstack(rows)
