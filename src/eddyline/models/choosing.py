"""Samples of which some signals are fitted and the others evaluated on tuples (``models.tuples_or_models``).

What is correct: each signal has one way at each instant. The way changes at a sample of the signal: tuples give the
instants before it, the fit those from it on; and the other way round the segment that is open ends at the sample,
from which on tuples go on. The answer is the one that ``ERROR WITHIN`` defines either way: models are within the
bounds, and the straight lines between samples are what they are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Float64s, Int64s
from eddyline.core.schema import Schema
from eddyline.core.time import Clock, TimeKind
from eddyline.expr.nodes import Expr
from eddyline.kernels import interpolate as kernels
from eddyline.kernels.fit import group_rows
from eddyline.kernels.interpolate import AHEAD, HELD, LAST, MODE, MODELS, ROW, SEEN, TUPLES
from eddyline.models.fitted import FittedStore
from eddyline.models.instants import holds
from eddyline.models.phase_costs import FIT, INSTANT, WALK, PhaseCosts
from eddyline.models.pieces import Pieces, Value, for_kernel
from eddyline.models.program import Node
from eddyline.models.sources import FittedRows
from eddyline.models.tuples_or_models import KeyChoice
from eddyline.streamon.decision import Decision

COUNTS = 7  # of the walk
_CLOSED = 3  # an instant contains both of its ends


class ChoosingStore(FittedStore):
    """``step``: the multiples of so many ticks are the instants that are asked for. ``conditions`` on values, which
    read no key, are asked at once: an instant at which one is false need not wait."""

    def __init__(
        self, model: FittedRows, schema: Schema, prefix: str, kind: TimeKind, step: int, conditions: Sequence[Expr],
        fixed: bool = False, clock: Clock | None = None, names: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """``names`` of the values at instants; None: those of the samples."""
        super().__init__(model, schema, prefix, kind)
        self.costs = PhaseCosts(None if fixed else clock)
        self.prefix, self.step, self.conditions = prefix, step, tuple(conditions)
        self.names = tuple(f"{prefix}{n}" for n in model.values) if names is None else tuple(names)
        self.choice = KeyChoice(len(model.values), fixed=fixed)
        self.fitter.segments_by_key = np.zeros(0, np.int64)
        # Instants that wait until all signals are known there: (key, instant) with values, in parts.
        self.parts = [(np.empty((0, 2), np.int64), np.empty((0, len(self.names))))]
        self.root: Node | None = None  # the program of rows at instants; None: the query's own
        self.instants = 0
        self.room = 1.0  # instants for a row, as the last rows had
        self.decisions: list[Decision] = []

    @property
    def complete_segments(self) -> int:
        """Since the beginning."""
        assert self.fitter.segments_by_key is not None
        return int(self.fitter.segments_by_key.sum())

    def __len__(self) -> int:
        return super().__len__() + sum(len(found) for found, _ in self.parts) + len(self.choice.keys)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.choice.nbytes + sum(int(a.nbytes) for part in self.parts for a in part)

    # ── samples ───────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, time: Int64s, columns: Mapping[str, pa.Array]) -> None:
        if not len(time):
            return
        values, good = self._samples(columns)
        keys = [columns[k] for k in self.model.key]
        if good is not None:
            self.fitter.counts.invalid += int((~good).sum())
            mask = pa.array(good)
            keys, time, values = [k.filter(mask) for k in keys], time[good], values[good]
        self.fitter.counts.samples += len(time)
        if not len(time):
            return
        code, time, values = for_kernel(self.fitter.codes(keys, len(time)), time, values)
        self._grow(self.fitter.known_keys)
        self._begin(time, values, dict(zip(self.model.key, keys, strict=True)))
        rows = np.arange(len(time))
        begin = np.empty(0, np.int64)  # rows with which keys begin to be fitted
        while len(rows) or len(begin):
            fitted, rows = self._pass(rows, code, time, values)
            self._fit(np.concatenate([begin, fitted]), code, time, values)
            begin = self._review()

    def _grow(self, known: int) -> None:
        """Room for so many keys."""
        self.choice.grow(known)

    def _begin(self, time: Int64s, values: Float64s, keys: Mapping[str, pa.Array]) -> None:
        """Samples are about to be walked along."""

    def _pass(self, rows: Int64s, code: Int64s, time: Int64s, values: Float64s) -> tuple[Int64s, Int64s]:
        """Walk along rows: those that are to be fitted, and those of keys that are held."""
        fitted, waiting = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        meta = np.zeros(COUNTS, np.int64)
        room = int(self.room * len(rows)) + 64
        done, all_made = False, 0
        self.choice.prices = self.costs.prices()
        prices = self.choice.terms()
        while not done:
            out, found = np.empty((room, 2), np.int64), np.empty((room, len(self.names)))
            meta[kernels.MADE] = 0
            first = int(meta[kernels.NEXT])
            self.costs.begin()
            done = self._walk(rows, code, time, values, prices, fitted, waiting, out, found, meta)
            made = int(meta[kernels.MADE])
            self.costs.end(WALK, int(meta[kernels.NEXT]) - first + made)
            self._found(out[:made], found[:made])
            all_made += made
            if not done and not self._more_room(meta):
                room = room if made else 4 * room
        self.room = 1.1 * max(1.0, all_made / max(len(rows), 1))
        self.fitter.counts.violations += int(meta[kernels.VIOLATIONS])
        self.fitter.counts.repeated += int(meta[kernels.REPEATED])
        return fitted[: meta[kernels.FITTED]], waiting[: meta[kernels.WAITING]]

    def _walk(
        self, rows: Int64s, code: Int64s, time: Int64s, values: Float64s, prices: Float64s, fitted: Int64s,
        waiting: Int64s, out: Int64s, found: Float64s, meta: Int64s,
    ) -> bool:  # fmt: skip
        return bool(
            kernels.pass_samples(
                rows, code, time, values, self.step, self.model.max_gap or 0, self.choice.keys, self.choice.last,
                self.choice.rate, self.choice.since, prices, fitted, waiting, out, found, meta,
            )
        )  # fmt: skip

    def _more_room(self, meta: Int64s) -> bool:
        """Whether the walk stopped for another reason than that there were too many instants; that is mended then."""
        return False

    def _found(self, out: Int64s, values: Float64s) -> None:
        if not len(out):
            return
        self.instants += len(out)
        self.costs.begin()
        if self.conditions:
            rows = self._rows(out[:, 1], values)
            keep = np.flatnonzero(np.logical_and.reduce([holds(c, rows) for c in self.conditions]))
            self.costs.end(INSTANT, len(out))
            self.costs.asked, self.costs.kept = self.costs.asked + len(out), self.costs.kept + len(keep)
            out, values = out.take(keep, axis=0), values.take(keep, axis=0)
        self.parts.append((out, values))

    def _rows(self, time: Int64s, values: Float64s) -> Pieces:
        t = time.astype(np.float64)
        numbers = {n: Value(values[:, j : j + 1]) for j, n in enumerate(self.names)}
        return Pieces(t, t, np.full(len(t), _CLOSED, np.uint8), t, numbers, {})

    def _waiting(self) -> tuple[Int64s, Float64s]:
        """All parts as one."""
        if len(self.parts) > 1:
            self.parts = [(np.concatenate([a for a, _ in self.parts]), np.concatenate([b for _, b in self.parts]))]
        return self.parts[0]

    def _fit(self, rows: Int64s, code: Int64s, time: Int64s, values: Float64s) -> None:
        if len(rows):
            self.costs.begin()
            bounds = self._bounds(time[rows], values[rows])
            self.fitter.add_coded(code[rows], time[rows], values[rows], bounds)
            self.costs.end(FIT, len(rows))

    def _review(self) -> Int64s:
        """Decide about the keys that are held, and give the rows with which some of them begin to be fitted."""
        keys = self.choice.keys
        held = np.flatnonzero(keys[:, HELD])
        if not len(held):
            return held
        before = keys[held, MODE]
        self.choice.prices = self.costs.prices()
        self.decisions += self.choice.review(held, self.fitter.segments_of(held), self._key)
        keys[held, HELD] = 0
        after = keys[held, MODE]
        self._hand_over(held[(before == MODELS) & (after == TUPLES)])
        self._go_on(held, before, after)
        begin: Int64s = keys[held[(before == TUPLES) & (after == MODELS)], ROW]
        return begin

    def _go_on(self, held: Int64s, before: Int64s, after: Int64s) -> None:
        """The instants of keys that were held, from the sample on at which they were."""
        keys = self.choice.keys
        walked = held[after == TUPLES]
        keys[walked, AHEAD] = (keys[walked, LAST] // self.step + 1) * self.step
        at = walked[keys[walked, LAST] % self.step == 0]  # the sample at which a key was held is on tuples, too
        self._found(np.column_stack([at, keys[at, LAST]]), self.choice.last[at])

    def _hand_over(self, keys: Int64s) -> None:
        """End the open segments of keys at their last samples."""
        if len(keys):
            self.handed_over |= set(zip(keys.tolist(), self.choice.keys[keys, LAST].tolist(), strict=True))
            self.fitter.close(keys)

    def _key(self, number: int) -> str:
        if not self.model.key:
            return "the signal"
        return ", ".join(str(c[0].as_py()) for c in self.fitter.table_of_keys.values(np.array([number])))

    # ── results ───────────────────────────────────────────────────────────────────────────────────────────────────

    def known(self, frontier: int, ended: bool) -> float:
        known = super().known(frontier, ended)
        keys = self.choice.keys
        if ended or not len(keys):
            return known
        waits = (keys[:, SEEN] > 0) & (keys[:, MODE] == TUPLES)
        if self.model.max_gap:
            waits &= frontier - keys[:, LAST] <= self.model.max_gap
        return min(known, float(int(keys[waits, LAST].min()) + 1)) if waits.any() else known

    def take_instants(self, known: float) -> Pieces:
        """The values at the instants that are known now, by time and key."""
        found, values = self._waiting()
        ready = found[:, 1] < known
        self.parts = [(found[~ready], values[~ready])]
        index = np.flatnonzero(ready)
        found, values = found.take(index, axis=0), values.take(index, axis=0)
        if not _in_order(found):
            order = _by_instant(found, self.step)
            found, values = found.take(order, axis=0), values.take(order, axis=0)
        names = [f"{self.prefix}{n}" for n in self.model.key]
        keys = self.fitter.table_of_keys.values(np.ascontiguousarray(found[:, 0])) if names else []
        rows = self._rows(found[:, 1], values)
        return rows.with_columns(rows.values, dict(zip(names, keys, strict=True)))

    def statistics(self) -> dict[str, int]:
        tuples, models = self.choice.many()
        return {
            **super().statistics(), "keys on tuples": tuples, "keys on models": models,
            "instants on tuples": self.instants,
        }  # fmt: skip

    def adapts(self) -> list[str]:
        tuples, models = self.choice.many()
        if self.choice.fixed:
            return [f"{tuples} keys on tuples (models = 'never')"]
        return [f"{tuples} keys on tuples, {models} on models: by cost, a key at a time"]

    def state(self) -> dict[str, Any]:
        found, values = self._waiting()
        return {
            **super().state(), "choice": self.choice.state(), "found": found, "values": values,
            "instants": self.instants, "segments by key": self.fitter.segments_by_key, "costs": self.costs.state(),
        }  # fmt: skip

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.choice.load(state["choice"])
        self.parts = [(np.array(state["found"]), np.array(state["values"]))]
        self.instants = int(state["instants"])
        self.fitter.segments_by_key = np.array(state["segments by key"])
        self.costs.load(state["costs"])


def _by_instant(found: Int64s, step: int) -> Int64s:
    """The order of (key, instant) by instant and key, by counting: instants are multiples of the step."""
    key, number = for_kernel(found[:, 0], found[:, 1] // step)
    number -= number.min()
    if number.max() > 4 * len(number):
        order: Int64s = np.lexsort((key, number))
        return order
    by_key = _grouped(key)
    return by_key[_grouped(number[by_key])]


def _grouped(numbers: Int64s) -> Int64s:
    begin, order = np.zeros(int(numbers.max()) + 2, np.int64), np.empty(len(numbers), np.int64)
    group_rows(numbers, begin, order)
    return order


def _in_order(found: Int64s) -> bool:
    """Whether (key, instant) are by instant and key: to sort costs as much as all the rest, and is seldom needed."""
    key, t = found[:, 0], found[:, 1]
    return bool(((t[1:] > t[:-1]) | ((t[1:] == t[:-1]) & (key[1:] >= key[:-1]))).all())
