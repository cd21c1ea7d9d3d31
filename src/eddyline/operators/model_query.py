"""A query on models as an operator: segments in, samples or segments out.

What is correct: at frontier F every segment that begins by F has come, so all models are known for t < F + 1, and with
them the result. Samples are emitted up to F. A result segment is emitted when it is complete, at the tick of its
end, however its inputs were cut into batches. What looks right and is not: to run the program on the new segments
alone, or to cut pieces at the frontier; a result would then depend on the batches. The program runs over all rows that
can still matter instead: those that reach behind the earliest result that is not complete, less what windows look back.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.bound import Bound
from eddyline.core.delta import Bools, Delta, Float64s, Int64s
from eddyline.core.errors import ManySignalsWarning
from eddyline.core.schema import Field, Schema
from eddyline.core.time import Clock, TimeKind
from eddyline.kernels.polynomials import HIGH_CLOSED, LOW_CLOSED
from eddyline.models.choosing import ChoosingStore
from eddyline.models.describe import span
from eddyline.models.extrapolated import ExtrapolatedRows, ExtrapolatingStore
from eddyline.models.fitted import FittedStore
from eddyline.models.instants import AGGREGATED, at_instants, by_instants, first_conditions
from eddyline.models.inverting import Inverter
from eddyline.models.joining import decoded
from eddyline.models.margins import exceeds, judged
from eddyline.models.phase_costs import SEGMENT, SHOWN
from eddyline.models.pieces import Grid, Pieces, shifted
from eddyline.models.predicted import PredictedRows, PredictedStore
from eddyline.models.predicted_segments import PredictedSegments, PredictedSegmentStore
from eddyline.models.program import END_OF_MODELS, Program, run
from eddyline.models.sources import FittedRows, RowModel, RowStore
from eddyline.models.tuples_or_models import ALWAYS, NEVER
from eddyline.models.window_choosing import WindowStore
from eddyline.models.window_instants import window_plan
from eddyline.operators.base import Context, Operator
from eddyline.streamon.decision import Decision

AT = "_at"  # the instant that a predicted row is about
_CLOSED = pa.array(["()", "[)", "(]", "[]"])  # by the bits of closedness


class ModelOperator(Operator):
    """``aliases`` are the names of the inputs, which stand before those of their columns. ``choice``: whether signals
    that are fitted may be evaluated on tuples (``models.tuples_or_models``)."""

    def __init__(
        self, name: str, schema: Schema, program: Program, models: Sequence[RowModel], inputs: Sequence[Schema],
        aliases: Sequence[str], kind: TimeKind, horizon: int | None, context: Context | None = None,
        choice: str = ALWAYS, clock: Clock | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, schema)
        self.context = context or Context()
        self.program, self.kind = program, kind
        self.aliases = tuple(aliases)
        self.pinned = False
        self.only_models = ""  # why no key is evaluated on tuples, where that is not what was asked for
        if choice != ALWAYS and any(isinstance(m, FittedRows) for m in models):
            self.only_models = _hindered(program, models, aliases)
        self.stores = [
            _store(model, _own(s, alias), f"{alias}.", horizon, program, kind, choice, clock)
            for model, s, alias in zip(models, inputs, aliases, strict=True)
        ]
        for one, other in itertools.pairwise(self.stores):
            if isinstance(one, RowStore) and isinstance(other, RowStore) and one.model.key == other.model.key:
                other.twin = one
        inverter = Inverter(program, models, aliases) if any(isinstance(m, FittedRows) for m in models) else None
        self.inverter = inverter if inverter is not None and inverter.changes else None
        self.done: float = -np.inf  # all before it was emitted
        self.last: int | None = None  # the largest time of an element
        self.solved = self.slivers = self.uncertain = 0
        self.warned = self.program.bound is None  # of signals with single samples; there are none to warn of

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        given = [
            {n.removeprefix(f"{alias}."): decoded(c) for n, c in delta.columns.items()}
            for delta, alias in zip(deltas, self.aliases, strict=True)
        ]
        if self.inverter is not None:
            self._invert(self.inverter, deltas, given)
        for delta, store, columns in zip(deltas, self.stores, given, strict=True):
            if len(delta):
                self.last = max(int(delta.time[-1]), self.last or int(delta.time[-1]))
                store.add(delta.time, columns)
        if not self.warned:
            self._warn()
        ended = frontier >= END_OF_MODELS and self.last is not None
        known = max(self.done, min(s.known(frontier, ended) for s in self.stores))
        end = max(float(self.last or 0) + 1.0, self.done) if ended else None
        inputs = [s.pieces(known, end) for s in self.stores]
        self.solved += sum(map(len, inputs))
        if not any(map(len, inputs)) and isinstance(self.stores[0], ChoosingStore):
            self.done = known
            return self._on_tuples(self.stores[0], known)
        choosing = self.stores[0] if isinstance(self.stores[0], ChoosingStore) else None
        if choosing is not None:
            choosing.costs.begin()
        sample = self.program.sample
        grid = None if sample is None else Grid(float(sample), self.done, known)
        result = run(self.program.root, inputs, self.program.scale, grid)
        if choosing is not None:
            choosing.costs.end(SEGMENT, sum(map(len, inputs)))
            choosing.costs.repeats = max(1.0, self.solved / max(1, choosing.complete_segments))
            choosing.costs.begin()
        if self.program.bound is not None and self.program.sample is None:
            for name, modelled in self.program.columns:
                if modelled:
                    result = judged(result, name, self.program.bound, self.program.scale)
        out = self._samples(result, known) if self.program.sample is not None else self._segments(result, known)
        if choosing is not None:
            choosing.costs.end(SHOWN, len(out))
            out = Delta.merge([out, self._on_tuples(choosing, known)])
        needed = known
        if self.program.sample is None:
            open_ = (result.low < known) & (result.high >= known)
            needed = min(known, float(result.low[open_].min()) if open_.any() else known)
        for store in self.stores:
            store.forget(needed - self.program.reach)
        self.done = known
        return out

    def _warn(self) -> None:
        found = (s.single_samples() for s in self.stores if isinstance(s, FittedStore))
        warning = next((sentence for sentence in found if sentence is not None), None)
        if warning is not None:
            self.warned = True
            warnings.warn(warning, ManySignalsWarning, stacklevel=2)

    def _invert(self, inverter: Inverter, deltas: Sequence[Delta], given: Sequence[dict[str, pa.Array]]) -> None:
        """Bounds of the samples that these elements change."""
        stores = [s for s in self.stores if isinstance(s, FittedStore)]
        coded = inverter.gradients is not None
        parts = zip(deltas, stores, given, strict=True)
        samples = {i: s.samples(d.time, c, coded) for i, (d, s, c) in enumerate(parts)}
        for epoch in inverter.observe(samples):
            before = [[str(b) for b in s.epochs[-1][1]] for s in stores]
            wanted = [[epoch.limits[i, n] for n in store.model.values] for i, store in enumerate(stores)]
            if not self.pinned:
                for store, bounds in zip(stores, wanted, strict=True):
                    store.schedule(epoch.start, bounds)
            after = [[str(b) for b in bounds] for bounds in wanted]
            decision = Decision(
                "input bounds", before, after, epoch.reason, epoch.evidence, operator=self.name, time=epoch.start,
                applied=not self.pinned,
            )  # fmt: skip
            self.context.log.record(decision)

    def _on_tuples(self, store: ChoosingStore, known: float) -> Delta:
        """The rows of signals that are evaluated on tuples: exact, so none is uncertain."""
        for decision in store.decisions:
            self.context.log.record(replace(decision, operator=self.name))
        store.decisions.clear()
        rows = store.take_instants(known)
        if not len(rows):
            return Delta.empty(self.schema)
        found = at_instants(store.root or self.program.root, rows)
        zero = np.zeros(len(found))
        columns: dict[str, pa.Array] = {}
        for name, modelled in self.program.columns:
            columns[name] = _doubles(found.values[name].at(zero)) if modelled else found.columns[name]
        columns["_uncertain"] = pa.array(np.zeros(len(found), np.bool_))
        step = self.program.sample or 1
        time = np.rint(found.low / step).astype(np.int64) * step
        return Delta(time, {f.name: columns[f.name].cast(f.type) for f in self.schema})

    def pin(self, pinned: bool) -> None:
        """Keep the way of each key and the bounds of samples as they are, or let them change again."""
        self.pinned = pinned
        for store in self.stores:
            if isinstance(store, ChoosingStore):
                store.choice.pin(pinned)

    def complete_to(self, frontier: int) -> int:
        return min(frontier, _last_before(self.done)) if self.done > -np.inf else frontier

    # ── samples ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _samples(self, p: Pieces, known: float) -> Delta:
        step = float(self.program.sample or 1)
        first, last = Grid(step, self.done, known).multiples(p.low, p.high, p.closed)
        count = np.maximum(last - first + 1, 0.0).astype(np.int64)
        row = np.repeat(np.arange(len(p)), count)
        place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        time = (first[row].astype(np.int64) + place) * int(step)  # a multiple that is large may be no double
        order = np.argsort(time, kind="stable")
        row, time = row[order], time[order]
        q = p.take(row)
        x = (time - q.base) * self.program.scale
        columns: dict[str, pa.Array] = {}
        for name, modelled in self.program.columns:
            columns[name] = _doubles(q.values[name].at(x)) if modelled else q.columns[name]
        if self.program.bound is not None:
            doubt = _doubts(q)
            for name, modelled in self.program.columns:
                if modelled:
                    doubt = doubt | exceeds(q.values[name], x, self.program.bound)
            self._count(columns, doubt)
        if AT in self.schema:
            columns[AT] = pa.array(time).cast(self.schema[AT].type)
        return Delta(time, {f.name: columns[f.name].cast(f.type) for f in self.schema})

    # ── segments ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _segments(self, p: Pieces, known: float) -> Delta:
        # A piece that ends at ``known`` may be cut by a segment that begins there, which has not arrived yet.
        complete = (p.high < known) & (p.high >= self.done)
        first, last = Grid(1.0, -np.inf, np.inf).multiples(p.low, p.high, p.closed)
        sliver = complete & (p.low != p.high) & (last < first)
        self.slivers += int(sliver.sum())
        rows = np.flatnonzero(complete & ~sliver)
        rows = rows[np.lexsort((p.low[rows], np.floor(p.high[rows])))]
        p = p.take(rows)
        return self._shown(p, np.floor(p.high).astype(np.int64))

    def _shown(self, p: Pieces, time: Int64s) -> Delta:
        low, high, closed = p.low, p.high, p.closed
        if self.kind is TimeKind.TIMESTAMP:
            low, high, closed = _on_ticks(p)
        columns: dict[str, pa.Array] = dict(p.columns)
        by = (low - p.base) * self.program.scale
        for name, modelled in self.program.columns:
            if modelled:
                c = shifted(p.values[name].c, by)
                coefficient_count = sum(n.rpartition("_")[0] == name for n in self.schema.names if n not in columns)
                for i in range(coefficient_count):
                    columns[f"{name}_{i}"] = _doubles(c[:, i]) if i < c.shape[1] else pa.array(np.zeros(len(p)))
        columns["_from"], columns["_to"] = self._times(low), self._times(high)
        columns["_closed"] = _CLOSED.take(pa.array(closed))
        if self.program.bound is not None:
            self._count(columns, _doubts(p))
        return Delta(time, {f.name: columns[f.name].cast(f.type) for f in self.schema})

    def _count(self, columns: dict[str, pa.Array], doubt: Bools) -> None:
        columns["_uncertain"] = pa.array(doubt)
        self.uncertain += int(doubt.sum())

    def _times(self, t: Float64s) -> pa.Array:
        return pa.array(t) if self.kind is TimeKind.INTEGER else pa.array(t.astype(np.int64)).view(pa.timestamp("us"))

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        return {
            "inputs": {str(i): s.state() for i, s in enumerate(self.stores)},
            "done": self.done, "last": self.last, "solved": self.solved, "slivers": self.slivers,
            "uncertain": self.uncertain, "sizes": "" if self.inverter is None else self.inverter.state(),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        for i, s in enumerate(self.stores):
            s.load(state["inputs"][str(i)])
        self.done, self.last = float(state["done"]), state["last"]
        self.solved, self.slivers = int(state["solved"]), int(state["slivers"])
        self.uncertain = int(state["uncertain"])
        if self.inverter is not None:
            self.inverter.load(state["sizes"])

    def size(self) -> tuple[int, int]:
        return sum(map(len, self.stores)), sum(s.nbytes for s in self.stores)

    def describe(self) -> str:
        back = (
            f", and {span(self.program.reach, self.program.scale)} back for the windows" if self.program.reach else ""
        )
        return f"the segments that hold now{back}"

    def adapts(self) -> list[str]:
        found = [f"{a}: {line}" for a, s in zip(self.aliases, self.stores, strict=True) for line in s.adapts()]
        return [*found, *([f"all keys on models: {self.only_models}"] if self.only_models else [])]

    def bounds(self) -> dict[str, Bound]:
        return {a: Bound(ticks=self.program.reach) for a in self.aliases} if self.program.reach else {}

    def statistics(self) -> dict[str, Any]:
        found: dict[str, Any] = {"segments solved": self.solved, "slivers dropped": self.slivers}
        if self.program.bound is not None:
            found["uncertain rows"] = self.uncertain
            found |= {
                f"{a}: {n}": coefficient_count
                for a, s in zip(self.aliases, self.stores, strict=True)
                for n, coefficient_count in s.statistics().items()
            }
        return found


def _store(
    model: RowModel, schema: Schema, prefix: str, horizon: int | None, program: Program, kind: TimeKind, choice: str,
    clock: Clock | None,
) -> RowStore | FittedStore:  # fmt: skip
    if isinstance(model, FittedRows):
        if choice != ALWAYS and program.sample is not None and by_instants(program) is None:
            conditions = first_conditions(program, [f"{prefix}{n}" for n in model.key])
            return ChoosingStore(model, schema, prefix, kind, program.sample, conditions, choice == NEVER, clock)
        if choice != ALWAYS and program.sample is not None:
            plan = window_plan(program, model, prefix)
            if not isinstance(plan, str):
                return WindowStore(model, schema, prefix, kind, program.sample, plan, choice == NEVER, clock)
        return FittedStore(model, schema, prefix, kind)
    if isinstance(model, ExtrapolatedRows):
        return ExtrapolatingStore(model, schema, prefix, horizon, program.scale)
    if isinstance(model, PredictedSegments):
        return PredictedSegmentStore(model, schema, prefix, horizon, program.scale)
    if isinstance(model, PredictedRows):
        return PredictedStore(model, schema, prefix, horizon, program.scale)
    return RowStore(model, schema, prefix, horizon, program.scale)


def _hindered(program: Program, models: Sequence[RowModel], aliases: Sequence[str]) -> str:
    """Why no key of a query is evaluated on tuples; empty: keys are."""
    because = by_instants(program)
    model = models[0]
    if because == AGGREGATED and isinstance(model, FittedRows):
        found = window_plan(program, model, f"{aliases[0]}.")
        return found if isinstance(found, str) else ""
    return because or ""


def _last_before(t: float) -> int:
    """The last whole number that is less than t as a double: far from zero some that are less are rounded to t.

    >>> _last_before(5.0), _last_before(-5.0), _last_before(2.0**54), 2**54
    (4, -6, 18014398509481982, 18014398509481984)
    """
    middle = (int(np.nextafter(t, -np.inf)) + int(t)) // 2
    return middle if float(middle) < t else middle - 1


def _doubts(p: Pieces) -> Bools:
    return np.zeros(len(p), np.bool_) if p.doubt is None else p.doubt


def _own(schema: Schema, alias: str) -> Schema:
    return Schema(tuple(Field(f.name.removeprefix(f"{alias}."), f.type) for f in schema))


def _doubles(values: Float64s) -> pa.Array:
    return pa.array(values, from_pandas=True)  # no number: computed from NULL


def _on_ticks(p: Pieces) -> tuple[Float64s, Float64s, Any]:
    """The same ticks between ends that are ticks; a single instant goes to the nearest one."""
    point = p.low == p.high
    low, high = np.ceil(p.low), np.floor(p.high)
    closed = p.closed | np.where(low != p.low, LOW_CLOSED, 0) | np.where(high != p.high, HIGH_CLOSED, 0)
    nearest = np.rint(p.low)
    return (
        np.where(point, nearest, low), np.where(point, nearest, high),
        np.where(point, LOW_CLOSED | HIGH_CLOSED, closed).astype(np.uint8),
    )  # fmt: skip
