"""A query on models that answers before the data arrive: rows for instants to come, taken back when models change.

What is correct: at τ, the models known are those of the elements up to τ. P(τ) are the query's rows at the instants t
≥ τ (multiples of the sampling step) over these models. When an element at τ begins a segment, rows of P before that
are not in P(τ) are taken back (−), new ones are added (+); rows at t < τ are final and never touched. ``_at`` is the
t that a row is about, ``_time`` the τ at which it was predicted. Validated elements (``models.predicted``) confirm
their models, or are so far from any result that it does not matter: they change nothing, and nothing is computed for
them. The program runs once for each instant at which some segment begins, so the answer does not depend on how the
elements were cut into batches.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.catalog import Attribute
from eddyline.core.delta import Delta
from eddyline.models.declared_bounds import DeclaredBounds
from eddyline.models.joining import decoded
from eddyline.models.pieces import Grid, Pieces
from eddyline.models.predicted import Key, Offer, PredictedStore
from eddyline.models.program import run
from eddyline.models.slack import measurable, slacks
from eddyline.models.splits import EQUI
from eddyline.operators.model_query import AT, ModelOperator
from eddyline.streamon.decision import Decision

_NO_END = float(1 << 61)
ROUNDING_SHARE = 2.0**-36  # of a value: a smaller difference is rounding, and no correction


class PredictiveOperator(ModelOperator):
    """The rows that were predicted and may still be taken back are its state, beside the segments that hold."""

    stores: list[PredictedStore]  # type: ignore[assignment]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.predicted: Counter[tuple[Any, ...]] = Counter()  # (t, values)
        self.runs = self.taken_back = 0
        models = [s.model for s in self.stores]
        by_gradients = self.program.bound is not None and self.program.split != EQUI
        self.bounds_of = DeclaredBounds(self.program, models, self.aliases) if by_gradients else None
        self.slack = self.program.bound is not None and measurable(self.program.root)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        offers: dict[int, list[tuple[PredictedStore, Offer]]] = {}
        for delta, store, alias in zip(deltas, self.stores, self.aliases, strict=True):
            given = {n.removeprefix(f"{alias}."): decoded(c) for n, c in delta.columns.items()}
            for row in store.offers(delta.time, given) if len(delta) else ():
                offers.setdefault(row.time, []).append((store, row))
        rows: list[tuple[Any, ...]] = []
        weights: list[int] = []
        times: list[int] = []
        for t in sorted(offers):
            violated = [store.offer(row) for store, row in offers[t]]
            if any(violated):
                for weight, found in self._changes(t):
                    rows.append(found)
                    weights.append(weight)
                    times.append(t)
        for store in self.stores:
            store.settle()
        columns = {f.name: pa.array([r[i] for r in rows], f.type) for i, f in enumerate(self.schema)}
        return Delta(np.array(times, np.int64), columns, np.array(weights, np.int64))

    def _changes(self, t: int) -> list[tuple[int, tuple[Any, ...]]]:
        """What the segments that begin at t change of the predictions."""
        begun = [store.begin() for store in self.stores]
        if self.bounds_of is not None and (means := self.bounds_of.begun(begun)) is not None:
            self._follow(self.bounds_of, means, t)
        inputs = [s.pieces(float(t), None) for s in self.stores]
        self.solved += sum(map(len, inputs))
        self.runs += 1
        self.done = float(t)
        grid = Grid(float(self.program.sample or 1), self.done, _NO_END)
        found = self._samples(run(self.program.root, inputs, self.program.scale, grid), _NO_END)
        now = Counter(zip(*(found.columns[n].to_pylist() for n in self.schema.names), strict=True))
        position = self.schema.names.index(AT)
        first = pa.array([t]).cast(self.schema[AT].type)[0].as_py()
        before = Counter({r: n for r, n in self.predicted.items() if r[position] >= first})
        now = self._steady(before, now)
        self.predicted = now
        changes = [(-n, r) for r, n in (before - now).items()] + [(n, r) for r, n in (now - before).items()]
        self.taken_back += sum(-n for n, _ in changes if n < 0)
        if self.slack:
            self._measure(inputs, t)
        for store in self.stores:
            store.forget(float(t) - self.program.reach)
            for decision in store.decisions:
                self.context.log.record(replace(decision, operator=self.name))
            store.decisions.clear()
        return changes

    def _measure(self, inputs: Sequence[Pieces], t: int) -> None:
        """How far each key is from a result."""
        factors = slacks(self.program.root, inputs, self.program.scale, float(t))
        for store, pieces, factor in zip(self.stores, inputs, factors, strict=True):
            names = [f"{store.prefix}{k}" for k in store.model.key]
            held = np.flatnonzero(pieces.high > t)
            keys = list(zip(*(pieces.columns[n].take(held).to_pylist() for n in names), strict=True)) if names else []
            found: dict[Key, float] = {}
            for key, f in zip(keys if names else [()] * len(held), factor[held].tolist(), strict=True):
                # Of the factor one limit is what an accurate model may be away from its tuples.
                found[key] = min(found.get(key, np.inf), max(f - 1.0, 0.0))
            store.allow(found, t)

    def _follow(self, bounds: DeclaredBounds, means: Mapping[Attribute, float], t: int) -> None:
        before = [list(s.limits) for s in self.stores]
        for i, store in enumerate(self.stores):
            store.limits = bounds.of(i)
        shown = ", ".join(f"{self.aliases[i]}.{n} by {mean:.3g}" for (i, n), mean in means.items())
        because = "the split {split} follows how attributes move in a unit of time: {means}"
        evidence = {"split": self.program.split.name, "means": shown}
        after = [list(s.limits) for s in self.stores]
        self.context.log.record(Decision("input bounds", before, after, because, evidence, operator=self.name, time=t))

    def _steady(self, before: Counter[tuple[Any, ...]], now: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
        """``now``, with the old row in the place of a new one that differs by rounding only: integrals are added up
        from other pieces when segments are forgotten."""
        gone, come = before - now, now - before
        if not gone or not come or self._values == []:
            return now
        known = {self._key(r): r for r in gone}
        for row, many in come.items():
            old = known.get(self._key(row))
            if old is not None and gone[old] == many and all(_close(old[i], row[i]) for i in self._values):
                del now[row]
                now[old] += many
        return now

    @property
    def _values(self) -> list[int]:
        modelled = {n for n, is_modelled in self.program.columns if is_modelled}
        return [i for i, n in enumerate(self.schema.names) if n in modelled]

    def _key(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(v for i, v in enumerate(row) if i not in self._values)

    def complete_to(self, frontier: int) -> int:
        return frontier

    def state(self) -> dict[str, Any]:
        rows = list(self.predicted.elements())
        columns = {f.name: pa.array([r[i] for r in rows], f.type) for i, f in enumerate(self.schema)}
        gradients = "" if self.bounds_of is None else json.dumps(self.bounds_of.state())
        counted = {"runs": self.runs, "taken back": self.taken_back, "gradients": gradients}
        return {**super().state(), "predicted": columns, **counted}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        columns = [state["predicted"][n].to_pylist() for n in self.schema.names]
        self.predicted = Counter(zip(*columns, strict=True))
        self.runs, self.taken_back = int(state["runs"]), int(state["taken back"])
        if self.bounds_of is not None:
            self.bounds_of.load(json.loads(state["gradients"]))

    def describe(self) -> str:
        return f"{super().describe()}, and the rows that were predicted for instants to come"

    def statistics(self) -> dict[str, Any]:
        found = {**super().statistics(), "runs": self.runs, "predictions taken back": self.taken_back}
        for alias, store in zip(self.aliases, self.stores, strict=True):
            found |= {f"{alias}: {n}": many for n, many in store.statistics().items()}
        return found

    def adapts(self) -> list[str]:
        if self.program.bound is None:
            return []
        return [
            f"{a}: {len(s.signals) - s.on_slack()} keys validated by accuracy, {s.on_slack()} by slack"
            for a, s in zip(self.aliases, self.stores, strict=True)
        ]


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= ROUNDING_SHARE * max(1.0, abs(a), abs(b))
