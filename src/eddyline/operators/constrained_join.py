"""A join that keeps what the future can still need, and not all that its windows hold (thesis, chapter 6).

Elements of all inputs are applied one by one in order of time: a row that leaves its window before the rows that arrive
at the same instant. After each ``COLLECT_EVERY`` elements rows that constraints make useless are found. They are
forgotten at once (lossy), or put into a spill at the end of a run of at most about ``SPILL_EVERY`` elements (exact).
The invariants that make the second exact, however wrong a constraint is:

1. Every row that is in its window is in memory or in the spill, and during a run only rows leave memory (they are
   staged, and go into the spill at its end) that can be part of no result of the rest of the run.
2. Before a run, equal keys are followed from the rows that arrive through memory and spill, and the spilled rows that
   may be part of a result come back. So a result of the run has all its rows in memory.
3. Where deletions can show, all rows of the current results are in memory: a row is only taken out if it is part of no
   result. So a row that leaves from the spill changes nothing.
4. Before a run, the spilled rows that it deletes come back (inputs that are relations), so that a deletion finds its
   row in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eddyline.core.bound import Bound, bound_of
from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.core.time import NEVER
from eddyline.core.window import Rows
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr
from eddyline.kernels import constrained_join as kernel
from eddyline.kernels import constrained_layout as k
from eddyline.kernels.join_layout import NO_DELETIONS
from eddyline.operators.base import Context, Operator
from eddyline.operators.constrained_changes import AllDepartures, Departures
from eddyline.operators.constrained_control import Collection, ConstraintControl
from eddyline.operators.constrained_events import Arrivals, cuts_of
from eddyline.operators.constrained_side import ConstrainedSide, FoundResults
from eddyline.operators.constrained_spill import (
    StagedRows,
    fetch_deleted,
    fetch_needed,
    nothing_staged,
    spill_useless,
)
from eddyline.operators.join_plan import JoinGraph
from eddyline.operators.join_results import JoinResults
from eddyline.operators.join_side import JoinInput
from eddyline.operators.join_tree import JoinTree
from eddyline.synopses.constrained_slots import Slots
from eddyline.synopses.spill import Spill

COLLECT_EVERY = 1_000  # elements between two garbage collections: fewer keep less, and cost more
COLLECTIONS_PER_QUESTION = 16  # the control is asked before each so many: fewer notice changes sooner, and cost more
LEAST_COLLECTIONS = 4  # … and not before so many, though a call ends: calls with few elements would ask at each
WHOLE_EVERY = 4  # questions between two collections that look at all rows: more keep the last few longer
LEARNING = 64  # collections before that
ROWS_BETWEEN_REPORTS = (
    4_096  # arrivals that are reported together, unless the control is asked before: more follow k later
)
LEAST_TOLD = 16  # … as many as a piece counts for that has fewer: each takes memory and time of its own
ROWS_PER_ELEMENT = 8  # rows that a collection may look at for each element since the last
SPILL_EVERY = 32_768  # elements after which useless rows are spilled at the latest: fewer keep less, and cost more
ROOM = 1 << 12  # results for which there is room at first
EVENTS = ("time", "leave", "valid", "failed")  # of a side, as they are saved


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
        control: ConstraintControl[ConstrainedJoin],
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
        if spill is not None:
            spill.share_filters(tree.equal_ports())
        self.ends = np.array([tree.ports_of(i) == 1 for i in range(tree.size)], np.uint8)
        self.limits = np.array([s.limit for s in self.sides], np.int64)
        self.skip = np.zeros(tree.size, np.uint8)  # roots: no parent waits for their rejected rows
        self.collect_every = collect_every
        many = tree.size * tree.width
        self.use(self.nothing_inferred())
        self.collected_at = NEVER  # the time of the last garbage collection
        self.progress = np.zeros(k.PROGRESS, np.int64)
        self.progress[k.PENDING], self.progress[k.DUE] = -1, collect_every
        self.removed = np.zeros((tree.size, k.KINDS), np.int64)
        self.hits = np.zeros((many + 1) * k.KINDS, np.int64)
        self.room = ROOM
        self.fetches = self.questions = 0
        # Keys and times of elements that the control does not know yet.
        self._unreported: list[list[tuple[Int64s, Int64s]]] = [[] for _ in inputs]
        self._unreported_rows = 0
        self._most = self._last_most = 0  # rows, during the last call and the last run

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

    def nothing_inferred(self) -> Collection:
        """What garbage collections may infer before the control was asked."""
        many = self.tree.size * self.tree.width
        wait, low = np.full(many, k.NEVER_USED, np.int64), np.full(many, k.LOWEST, np.int64)
        return Collection(wait, low, 0, np.zeros((4, self.tree.size), np.int64))

    def use(self, plan: Collection) -> None:
        """Infer by this from now on."""
        self.plan, many = plan, len(plan.low)
        self.lag = np.full(many, k.NEVER_USED, np.int64) if plan.lag is None else plan.lag
        self.units = np.full((2, many), k.ARRIVALS, np.int64) if plan.units is None else plan.units
        self.notice = np.empty((k.NOTICES, many), np.int64)
        self.notice[:] = np.array([k.NEVER_USED, k.LOWEST, k.NEVER_USED, k.NEVER_USED, 0])[:, None]
        if plan.notice is not None:
            self.notice[: k.NOTICED] = plan.notice

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        for side, delta in zip(self.sides, deltas, strict=True):
            side.accept(delta)
        lengths = [int(np.searchsorted(s.time, frontier, side="right")) for s in self.sides]
        times = [s.time[:n] for s, n in zip(self.sides, lengths, strict=True)]
        found = FoundResults(self.results)
        self._most = len(self.slots)
        departures = AllDepartures.of([s.departures for s in self.sides], self.keys)
        cuts = list(cuts_of(times, SPILL_EVERY if self.spill is not None else sum(lengths)))
        for n, cut in enumerate(cuts):
            arrivals = Arrivals.of(self.sides, [s.failed for s in self.sides], self.keys, self.slots.width, cut)
            until = frontier if n == len(cuts) - 1 else int(arrivals.time.max())
            self._run(arrivals, departures, until, found)
        made = found.delta(self.schema)  # before rows move
        for i, (side, count) in enumerate(zip(self.sides, lengths, strict=True)):
            side.drop_events(count)
            side.departures = Departures.none()
            self._move_together(i)
        self.slots.shrink(sum(lengths))
        return made

    def _run(self, arrivals: Arrivals, departures: AllDepartures, until: int, found: FoundResults) -> None:
        """Apply arrivals, and let rows leave whose time has come or which are deleted."""
        staged = None
        if self.spill is not None:
            fetched = [fetch_deleted(self, departures, until), fetch_needed(self, arrivals)]
            staged = StagedRows(self, arrivals, np.concatenate(fetched))
            if len(departures):
                staged.close()
        self.slots.reserve(self._last_most, arrivals.stop - arrivals.next)
        before = self.collections
        self.progress[k.PEAK] = 0
        self._apply(arrivals, departures, until, found, staged)
        if self.collections == before and self._is_due(until):
            self.progress[k.NOW] = until
            self._consult(arrivals, until, asks=True)
            self._apply(arrivals, departures, until, found, staged)
        if self.collections != before or self.collected_at == NEVER:
            self.collected_at = until
        self._last_most = max(int(self.progress[k.PEAK]), len(self.slots))
        self._most = max(self._most, self._last_most)
        self._note_arrivals(arrivals)
        self._report_counts()
        if self.spill is not None and staged is not None:
            spill_useless(self, staged)
            if self.collections != before:
                self.spill.expire(int(self.progress[k.NOW]), self.slots.arrived, self.limits)

    def _is_due(self, until: int) -> bool:
        """Whether so much time has passed without a garbage collection that rows may have become useless by that."""
        return len(self.slots) > 0 and until != NEVER and until - self.collected_at >= self.plan.due

    def _apply(
        self,
        arrivals: Arrivals,
        departures: AllDepartures,
        until: int,
        found: FoundResults,
        staged: StagedRows | None,
    ) -> None:
        many = self.tree.size
        stage = nothing_staged(self) if staged is None else staged.arrays
        bound, loops = np.empty(many, np.int64), np.empty(many, np.int64)
        status, progress, told = k.FULL, self.progress, 0
        while status != k.DONE:
            if status == k.FULL:  # results of all calls go into the same arrays, as long as there is room
                times, weights, sampled = (np.empty(self.room, np.int64) for _ in range(3))
                places = np.empty((many, self.room), np.int64)
            slots, plan = self.slots, self.plan
            status = int(
                kernel.run(
                    arrivals.time, arrivals.leave, arrivals.place, arrivals.place_from, arrivals.clean, arrivals.state,
                    arrivals.keys, arrivals.next, arrivals.stop, departures.time, departures.identity, departures.key,
                    departures.next, departures.stop, until, self.limits, self.skip, self.collect_every,
                    COLLECTIONS_PER_QUESTION, ROWS_PER_ELEMENT, *slots.arrays, slots.order, bound, loops, self.deletes,
                    self.spill is not None, plan.share, plan.wait, plan.low, self.lag, self.units, self.notice,
                    slots.marks, plan.facts, self.removed, np.empty(slots.capacity, np.int32), slots.arrived,
                    slots.duplicates, slots.steps, self.hits, progress, *stage, times, weights, sampled, places,
                )
            )  # fmt: skip
            n = int(progress[k.FOUND])
            if self.spill is None and n > told:
                keys = sampled[told:n][(sampled[told:n] != 0) & (weights[told:n] > 0)]
                if keys.size:
                    self.control.sampled(self, keys)
            told = n
            if status in (k.FULL, k.DONE) and n:
                found.add(times[:n], weights[:n], places[:, :n])
                progress[k.FOUND] = told = 0
            if status == k.FULL:
                self.room *= 2
            elif status == k.GROW:
                slots.grow()
            elif status == k.CONSULT:
                self._consult(arrivals, int(progress[k.NOW]))

    # ── what the control learns and decides ───────────────────────────────────────────────────────────────────────

    def _note_arrivals(self, arrivals: Arrivals) -> None:
        """Remember the keys of the elements that were applied, until they are reported."""
        for i, keys, times in arrivals.unreported([self.control.listens(i) for i in range(self.tree.size)]):
            self._unreported[i].append((keys, times))
            self._unreported_rows += max(LEAST_TOLD, len(keys))
        if self._unreported_rows >= ROWS_BETWEEN_REPORTS:
            self._report_arrivals()

    def _report_arrivals(self) -> None:
        for i, mine in enumerate(self._unreported):
            if mine:
                keys, times = mine[0] if len(mine) == 1 else (np.concatenate(p) for p in zip(*mine, strict=True))
                self.control.arrived(self, i, keys, times)
        self._unreported, self._unreported_rows = [[] for _ in self.sides], 0

    def _report_counts(self) -> None:
        """Report what was counted and measured since the last report: after each batch and before a question, because
        monitors follow a changing k by when distances are reported."""
        if len(steps := self.slots.take_steps()):
            self.control.measured(self, steps)
        if self.removed.any():
            self.control.collected(self, self.removed)
            self.removed[:] = 0
        if len(why := np.flatnonzero(self.hits)):
            self.control.hit(self, np.repeat(why, self.hits[why]), int(self.progress[k.NOW]))
            self.hits[:] = 0

    def _consult(self, arrivals: Arrivals, now: int, asks: bool = False) -> None:
        """Before a garbage collection: what may be inferred from now on."""
        self._note_arrivals(arrivals)
        least = LEAST_COLLECTIONS if self.plan.closes else COLLECTIONS_PER_QUESTION
        noticed = self.notice[k.NOTICED, 0] != 0
        if not asks and not noticed and self.progress[k.COLLECTED] + 1 < least and self.collections > LEARNING:
            self.progress[k.COLLECT] = 1
            return
        self._report_arrivals()
        self._report_counts()
        plan = self.control.collection(self, now)
        self.progress[k.COLLECTED] = 0
        if plan is None:
            self.progress[k.SINCE] = 0
            return
        self.questions += 1
        # What is inferred anew can make any row useless; otherwise a row becomes so when its status changes, nearly
        # always.
        anew = plan.share != self.plan.share or not np.array_equal(plan.facts, self.plan.facts)
        self.progress[k.WHOLE] = anew or plan.closes or self.questions % WHOLE_EVERY == 0 or (plan.low > k.LOWEST).any()
        self.use(plan)
        self.skip = (plan.facts[0] != 0).astype(np.uint8)
        self.progress[k.COLLECT] = 1

    # ── rows in memory ────────────────────────────────────────────────────────────────────────────────────────────

    def _move_together(self, i: int) -> None:
        """Give up the memory of an input's rows that are gone, where there are many."""
        side = self.sides[i]
        if not side.rows.is_sparse(int(self.slots.live[i]) + len(side.slot)):
            return
        places = self.slots.move_places(i)
        side.rows.retain(np.concatenate([places, side.slot]))
        side.slot = len(places) + np.arange(len(side.slot))

    # ── what others read ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def labels(self) -> list[str]:
        return [s.spec.label or f"input {i + 1}" for i, s in enumerate(self.sides)]

    def in_window(self, i: int) -> int | None:
        """How many rows the window of an input may hold by its count; None: it is not tuple-based."""
        window = self.sides[i].spec.window
        return window.count if isinstance(window, Rows) else None

    def counted_in_window(self, i: int) -> int | None:
        """How many rows the window of an input holds, where they are counted; None: it is estimated."""
        side = self.sides[i]
        return side.current if side.is_relation else None

    def row_counts(self) -> Int64s:
        """Rows by input and status (UNKNOWN, YES, NO)."""
        return self.slots.counts()

    def bytes_of(self, i: int) -> int:
        """Bytes of the stored rows of an input."""
        return self.sides[i].rows.nbytes

    def approximate(self) -> str:
        return "its join drops rows that constraints make useless" if self.spill is None and self.dropped else ""

    @property
    def collections(self) -> int:
        """How often garbage was collected."""
        return int(self.progress[k.COLLECTIONS])

    @property
    def dropped(self) -> int:
        """Rows that were found useless."""
        return int(self.progress[k.DROPPED])

    def adapts(self) -> list[str]:
        self._report_counts()
        return self.control.describe(self)

    def statistics(self) -> dict[str, Any]:
        self._report_counts()
        return self.control.statistics(self)

    def most_rows(self, now: int) -> int:
        return max(self._most, now)

    def size(self) -> tuple[int, int]:
        bytes = self.slots.nbytes + sum(s.rows.nbytes for s in self.sides)
        return len(self.slots), bytes + self.control.nbytes + (0 if self.spill is None else self.spill.nbytes)

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
        self._report_arrivals()
        self._report_counts()
        slots = self.slots.state()
        out: dict[str, Any] = {"control": self.control.state(), "slots": slots, "fetches": self.fetches}
        out["progress"], out["skip"] = self.progress[: k.SAVED].copy(), self.skip.astype(np.int64)
        out["due"] = self.plan.due
        out["ports"] = np.ascontiguousarray(self.slots.ports.reshape(-1))
        for i, side in enumerate(self.sides):
            events = {n: getattr(side, n) for n in EVENTS}
            events["codes"] = np.ascontiguousarray(side.codes.reshape(-1))
            # Rows are saved in the order in which slots are, then those that wait.
            places = slots["place"][(slots["stream"] == i) & (slots["place"] >= 0)]
            rows = side.rows.state(np.concatenate([places, side.slot]))
            out[str(i)] = {"rows": rows, "events": events, "current": side.current}
        if self.spill is not None:
            out["spill"] = self.spill.state()
        return out

    def load(self, state: dict[str, Any]) -> None:
        self.slots = Slots(np.array(state["ports"]).reshape(self.slots.ports.shape), self.slots.order)
        slots = dict(state["slots"])
        place = np.array(slots["place"])
        for i, side in enumerate(self.sides):
            mine = state[str(i)]
            side.rows.load(mine["rows"])
            side.current = int(mine["current"])
            for name in EVENTS:
                setattr(side, name, np.array(mine["events"][name]))
            n = len(side.time)
            side.codes = np.array(mine["events"]["codes"]).reshape(n, len(side.keys))
            stored = (np.array(slots["stream"]) == i) & (place >= 0)
            place[stored] = np.arange(int(stored.sum()))
            side.weight, side.slot = np.ones(n, np.int64), int(stored.sum()) + np.arange(n)
        slots["place"] = place
        self.slots.load(slots)
        self.fetches, self.progress[: k.SAVED] = int(state["fetches"]), state["progress"]
        self.progress[k.COLLECTED] = COLLECTIONS_PER_QUESTION  # what may be inferred is not saved
        self.use(replace(self.nothing_inferred(), due=int(state["due"])))
        self.collected_at = NEVER
        self.skip = np.array(state["skip"]).astype(np.uint8)
        if self.spill is not None:
            self.spill.load(state["spill"])
        self.control.load(state["control"])
