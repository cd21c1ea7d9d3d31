"""The multi-route join: an eddy over state modules (AMRI, sections 3 and 4.2).

*What is a result.* A combination of one row from each input is in the join from the instant at which its newest row
enters to the instant at which its first row leaves. The insertion is produced by the newest row alone: it matches rows
that entered before it (at one instant: rows of inputs that stand before its own) and leave after it entered. The
deletion is produced by the row that leaves first (at one instant: by that of the first input), which matches rows that
entered before and leave no earlier. These conditions are part of each search, so every result and every deletion is
produced exactly once, whatever routes batches take, in which order they are served and what the indexes are.

Rows are inserted by whole instants; then the batches of the chunk are routed, at most ``in_flight`` at a time. Results
are put in order of time before they leave the operator. Rows are dropped when no search in flight can need them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from eddyline.core.bound import Bound, bound_of
from eddyline.core.delta import Bools, Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.expr.nodes import Expr
from eddyline.kernels.join_layout import AT_ARRIVALS, NO_DELETIONS
from eddyline.kernels.routed_step import extend, search_times
from eddyline.operators.base import Context, Operator
from eddyline.operators.join_plan import Condition, JoinGraph, Member
from eddyline.operators.join_results import JoinResults
from eddyline.operators.join_side import JoinInput, JoinSide
from eddyline.operators.partial_results import Batch
from eddyline.operators.routed_control import RouteControl
from eddyline.operators.search_plan import SearchPlan, Visit
from eddyline.synopses.attributes import attributes_of
from eddyline.synopses.index_group import Search
from eddyline.synopses.index_maps import IndexSpec
from eddyline.synopses.module_view import ModuleView, view_of
from eddyline.synopses.store import Stub

NONE = np.empty(0, np.int64)
EVENTS = ("time", "leave", "valid")  # of a side, as they are saved
RESULTS_AT_ONCE = 1 << 16  # of which rows are made: more is quicker, and takes memory
ROOM_FACTOR = 1.25  # room for what a search finds, times what the last one by the same attributes found


class RoutedJoin(Operator):
    """``initial`` gives the first indexes for a number of join attributes; ``partition_rows`` and ``in_flight`` as in
    the paper. Joins that are indexed alike (``shared_as`` says how) have one state module for inputs with the same
    elements; ``peers`` are the stubs of all joins."""

    not_undone = "the indexes of a multi-route join"

    def __init__(
        self,
        name: str,
        inputs: Sequence[JoinInput],
        graph: JoinGraph,
        residual: Sequence[Expr],
        stubs: Sequence[Callable[[], Stub]],
        output: Sequence[str],
        context: Context,
        conditions: Sequence[Condition],
        initial: Callable[[int], IndexSpec],
        control: RouteControl[RoutedJoin],
        *,
        partition_rows: int = 2_500,
        batch_rows: int = 1_024,
        in_flight: int = 4,
        peers: Sequence[Stub] = (),
        shared_as: Hashable = None,
    ) -> None:
        super().__init__(name, Schema(tuple(f for i in inputs for f in i.schema if f.name in output)))
        self.graph, self.conditions, self.control = graph, tuple(conditions), control
        self.batch_rows, self.in_flight = batch_rows, in_flight
        compared = {m for c in conditions for m in (c.left, c.right)}
        ranged = [
            frozenset(m.key for c in conditions if c.op != "ne" for m in (c.left, c.right) if m.input == i)
            for i in range(len(inputs))
        ]
        self.sides = [
            JoinSide(spec, keys, stub, frozenset(m.key for m in compared if m.input == i))
            for i, (spec, keys, stub) in enumerate(zip(inputs, graph.keys, stubs, strict=True))
        ]
        self.states: list[ModuleView] = []
        for i, (side, keys) in enumerate(zip(self.sides, graph.keys, strict=True)):
            assert side.stub is not None and side.spec.window is not None
            attributes = attributes_of(keys, side.ordered, side.stub.prefix)
            others = [*peers, *(v.stub for v in self.states)]
            view = view_of(
                side.stub, others, attributes, ranged[i], side.spec.window, partition_rows, initial, shared_as
            )
            view.owner = (control, i)
            self.states.append(view)
        self._begun = False
        self.results = JoinResults(self.sides, graph, residual, self.schema, context)
        self.left = [0] * len(inputs)  # rows of each input whose deletions have been computed, by number
        self.visits: dict[tuple[int, frozenset[int]], Visit] = {}  # by target and inputs that are bound
        self.flight: list[Batch] = []
        self._most = 0

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        """From now on the modules have the attributes that they have: rows bring the codes of all of them."""
        if self._begun:
            return
        self._begun = True
        for side, view in zip(self.sides, self.states, strict=True):
            self._compute(side, view)
        self.control.begin(self)

    def _compute(self, side: JoinSide, view: ModuleView) -> None:
        ordered = frozenset(j for j, a in enumerate(view.module_attributes) if a.ordered)
        side.compute(view.key_exprs(), ordered, view.columns)

    def _move_to_older(self) -> None:
        """Inputs whose rows lie in the store of an older join go on in its state modules, if that is possible."""
        moved = False
        for side, view in zip(self.sides, self.states, strict=True):
            found = view.older() if view.waits else None
            if found is not None:
                view.move(*found)
                self._compute(side, view)
                view.bring(side.stored_codes)
                moved = True
        if moved:
            self.visits = {}
            self.control.begin(self)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        self._begin()
        for s, delta in zip(self.sides, deltas, strict=True):
            s.accept(delta)
        found: list[Batch] = []
        parts: list[Delta] = []
        self._most = 0
        for now in self._chunks(frontier):
            arrived = [self._insert(i, now) for i in range(len(self.sides))]
            before = len(found)
            self._drain(deque(self._entering(arrived)), found, now)
            self._drain(deque(self._leaving(found[before:], now)), found, now)
            self.control.round_ended()
            self._most = max(self._most, self._rows())
            for state in self.states:
                state.expire(now)
            # Of results that can fail, all at once: whether one has failed is known when its instant is complete.
            if not self.results.can_fail or now == frontier:
                parts += self._materialise(found)
                found = []
        self._move_to_older()
        for side, state in zip(self.sides, self.states, strict=True):
            assert side.stub is not None
            side.stub.expire(state.first)
        return Delta.concat(parts) if parts else Delta.empty(self.schema)

    def _chunks(self, frontier: int) -> list[int]:
        """The instants up to which rows are taken in one step: some ``batch_rows`` rows each, the last the frontier."""
        times = np.sort(np.concatenate([s.time[: np.searchsorted(s.time, frontier, "right")] for s in self.sides]))
        cuts = np.unique(times[self.batch_rows - 1 :: self.batch_rows]).tolist()
        return [*(t for t in cuts if t < frontier), frontier]

    def _insert(self, i: int, now: int) -> Int64s:
        """Rows of input i that enter up to ``now``; returns their numbers."""
        side, state = self.sides[i], self.states[i]
        n = int(np.searchsorted(side.time, now, side="right"))
        if n == 0:
            return NONE
        rows, new = state.insert(side.codes[:n], side.time[:n], side.leave[:n], side.valid[:n] != 0)
        self.control.inserted(i, new)
        side.drop_events(n)
        return rows

    def _entering(self, arrived: Sequence[Int64s]) -> list[Batch]:
        """The batches of rows that entered."""
        batches = []
        for i, rows in enumerate(arrived):
            enter, _, lasting = self.states[i].stay(rows)
            batches += self._cut(i, 1, rows[lasting], enter[lasting])
        return batches

    def _leaving(self, inserted: Sequence[Batch], now: int) -> list[Batch]:
        """The batches of rows that have left and whose deletions can show. Where deletions show at instants of arrivals
        only, they do at those of the results that were ``inserted``: at any other instant they have nothing to cancel,
        and most instants have no result."""
        batches, instants = [], np.unique(np.concatenate([NONE, *(b.time for b in inserted)]))
        for i, side in enumerate(self.sides):
            if side.spec.deletes == NO_DELETIONS:
                continue
            leaving = self.states[i].rows_leaving(self.left[i], now)
            self.left[i] += len(leaving)
            _, leave, lasting = self.states[i].stay(leaving)
            if side.spec.deletes == AT_ARRIVALS:
                lasting &= _among(leave, instants)
            batches += self._cut(i, -1, leaving[lasting], leave[lasting])
        return batches

    def _cut(self, source: int, weight: int, rows: Int64s, time: Int64s) -> list[Batch]:
        made = []
        for at in range(0, len(rows), self.batch_rows):
            part = slice(at, at + self.batch_rows)
            lines = np.zeros((len(self.sides) + 2, len(rows[part])), np.int64)
            lines[source], lines[-2], lines[-1] = rows[part], time[part], source
            made.append(Batch(weight, lines, (source,)))
        return made

    def _drain(self, waiting: deque[Batch], found: list[Batch], now: int) -> None:
        """Route batches until none is left. Of those in flight the one with the fewest inputs bound is the next, so
        that those which come to have the same inputs bound go on as one. A few rows that part from a batch to learn go
        beside it: no other batch comes in while there are as many as may be in flight."""
        self.flight = []
        while waiting or self.flight:
            while waiting and len(self.flight) < self.in_flight:
                self.flight.append(waiting.popleft())
            bound = [len(b.bound) for b in self.flight]
            for batch in self._steps(self.flight.pop(bound.index(min(bound)))):
                if len(batch.bound) == len(self.sides):
                    found.append(batch)
                elif len(batch):
                    self._fly(batch)
            self.control.tune(self, now)

    def _fly(self, batch: Batch) -> None:
        """Put a batch to those in flight."""
        for other in self.flight:
            if other.takes_in(batch):
                other.lines = np.concatenate([other.lines, batch.lines], axis=1)
                return
        self.flight.append(batch)

    def _steps(self, batch: Batch) -> list[Batch]:
        """Take a batch to the next state, maybe a few of its rows to another one."""
        if len(batch.bound) == len(self.sides):
            return [batch]
        target = self.control.next(batch.bound)
        aside = self.control.aside(batch.bound, len(batch), target)
        if aside is None:
            return [self._step(batch, target)]
        other, rows = aside
        few, batch = batch.split(rows)
        return [self._step(batch, target), self._step(few, other)]

    def _step(self, batch: Batch, target: int) -> Batch:
        """Take a batch to a state."""
        visit, state = self._visit(target, batch), self.states[target]
        plan, lines, count = visit.plan, batch.lines, len(batch)
        max_enter, min_leave = np.empty(count, np.int64), np.empty(count, np.int64)
        search_times(lines, target, batch.weight, state.remains, max_enter, min_leave)
        if plan.one_value_each:  # both ends of each range are the value
            values = np.empty((count, len(plan.asked)), np.int64)
            for source, attribute, place in visit.members:
                self.states[source].take_codes(lines[source], attribute, values, place)
            search = Search(plan.attributes, values, values, max_enter, min_leave, plan.by_value)
        else:
            search = plan.search(partial(self._codes, lines), count, max_enter, min_leave)
        requests, rows = state.search(search, int(ROOM_FACTOR * visit.fanout * count))
        visit.fanout = len(rows) / count
        for attribute, member in plan.unequal:
            differ = state.codes_at(rows, attribute) != self._codes(lines, member)[requests]
            requests, rows = requests[differ], rows[differ]
        self.control.searched(batch.bound, target, visit.pattern, count, state.module.searched)
        made = np.empty((len(lines), len(requests)), np.int64)
        extend(lines, visit.carried, requests, rows, target, made)
        return Batch(batch.weight, made, (*batch.bound, target))

    def _codes(self, lines: Int64s, member: Member) -> Int64s:
        """Of each partial result the value of a key of an input that is bound."""
        return self.states[member.input].codes_of(lines[member.input], member.key)

    def _visit(self, target: int, batch: Batch) -> Visit:
        key = (target, batch.inputs)  # inputs that are bound agree, in whatever order they were
        found = self.visits.get(key)
        if found is None:
            columns = [s.columns for s in self.states]
            plan = SearchPlan.of(self.graph, self.conditions, target, sorted(batch.bound), columns[target])
            found = self.visits[key] = Visit.of(plan, batch.bound, columns, self.states[target].module.attributes)
        return found

    def _materialise(self, found: Sequence[Batch]) -> list[Delta]:
        """The reorder stage: results of all routes in order of time, as rows."""
        full = [b for b in found if len(b)]
        if not full:
            return []
        time = np.concatenate([b.time for b in full])
        weight = np.concatenate([np.full(len(b), b.weight, np.int64) for b in full])
        rows = np.hstack([b.lines[:-2] for b in full])
        order = np.argsort(time, kind="stable")
        time, weight, rows = time[order], weight[order], rows[:, order]
        step = len(time) if self.results.can_fail else RESULTS_AT_ONCE
        cuts = [slice(at, at + step) for at in range(0, len(time), step)]
        parts = [self.results.rows(time[c], weight[c], rows[:, c]) for c in cuts]
        return [p for p in parts if len(p)]

    # ── what others read and change ───────────────────────────────────────────────────────────────────────────────

    @property
    def labels(self) -> list[str]:
        return [s.spec.label or f"input {i + 1}" for i, s in enumerate(self.sides)]

    def in_process(self, target: int, partition: int) -> int:
        """Partial results in flight that have not visited a state yet and whose windows contain a partition of it: its
        first row has entered before they did, and its last one leaves after that."""
        begun, over = self.states[target].span(partition)
        waiting = (b.time for b in self.flight if target not in b.bound)
        return sum(int(np.count_nonzero((time >= begun) & (time < over))) for time in waiting)

    def adapts(self) -> list[str]:
        return self.control.describe(self)

    def statistics(self) -> dict[str, Any]:
        return self.control.statistics(self)

    def pin(self, pinned: bool) -> None:
        self.control.pin(pinned)

    def _rows(self) -> int:
        return sum(len(s) for s in self.states)

    def most_rows(self, now: int) -> int:
        return max(self._most, now)

    def size(self) -> tuple[int, int]:
        bytes = sum(s.nbytes for s in self.states)
        for side, state in zip(self.sides, self.states, strict=True):
            if side.stub is not None:
                bytes += side.stub.store.nbytes(len(state)) // max(1, len(side.stub.store.stubs))
        return self._rows(), bytes

    def describe(self) -> str:
        return f"{', '.join(self.labels)}: in time partitions, to join what arrives on the others by any route"

    def bounds(self) -> dict[str, Bound]:
        return {s.spec.label or f"input {i + 1}": bound_of(s.spec.window) for i, s in enumerate(self.sides)}

    def state(self) -> dict[str, Any]:
        out: dict[str, Any] = {"control": self.control.state()}
        for i, (side, state) in enumerate(zip(self.sides, self.states, strict=True)):
            assert side.stub is not None
            events = {n: getattr(side, n) for n in EVENTS}
            events["codes"] = np.ascontiguousarray(side.codes.reshape(-1))
            out[str(i)] = {"stub": side.stub.state(), "rows": state.state(), "events": events, "left": self.left[i]}
        return out

    def load(self, state: dict[str, Any]) -> None:
        self._begun, self.visits = False, {}
        for i, (side, view) in enumerate(zip(self.sides, self.states, strict=True)):
            mine = state[str(i)]
            assert side.stub is not None
            side.stub.load(mine["stub"])
            view.load(mine["rows"])
            self.left[i] = int(mine["left"])
            side.drop_events(len(side.time))
        self._begin()
        for i, side in enumerate(self.sides):
            mine = state[str(i)]
            for name in EVENTS:
                setattr(side, name, mine["events"][name])
            n = len(side.time)
            side.codes = mine["events"]["codes"].reshape(n, len(side.keys))
            side.weight, side.slot = np.ones(n, np.int64), np.zeros(n, np.int64)
        self.control.load(state["control"])


def _among(times: Int64s, instants: Int64s) -> Bools:
    """Which times are one of the instants, which are in order.

    >>> _among(np.array([1, 2, 2, 5]), np.array([2, 4])).tolist()
    [False, True, True, False]
    """
    if not len(instants):
        return np.zeros(len(times), np.bool_)
    found: Bools = instants[np.minimum(np.searchsorted(instants, times), len(instants) - 1)] == times
    return found
