"""A query on models that answers before the data arrive: rows for instants to come, taken back when models change.

What is correct: at τ, the models known are those of the elements up to τ. P(τ) are the query's rows at the instants t
≥ τ (multiples of the sampling step) over these models. When an element at τ begins a segment, rows of P before that
are not in P(τ) are taken back (−), new ones are added (+); rows at t < τ are final and never touched. ``_at`` is the
t that a row speaks of, ``_time`` the τ at which it was said. Elements that only confirm their models change nothing,
and nothing is computed for them. One run of the program for each instant at which some segment begins: the answer
does not depend on how the elements were cut into batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.models.predicted import END, PredictedStore
from eddyline.models.program import run
from eddyline.operators.model_query import AT, ModelOperator, decoded

_NO_END = float(1 << 61)
ROUNDING = 2.0**-36  # of a value: a difference that is no correction


class PredictiveOperator(ModelOperator):
    """The rows that were predicted and may still be taken back are its state, beside the segments that hold."""

    stores: list[PredictedStore]  # type: ignore[assignment]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.predicted: Counter[tuple[Any, ...]] = Counter()  # (t, values)
        self.runs = self.taken_back = 0

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        given: list[tuple[Int64s, dict[str, pa.Array]]] = []
        for delta, store, alias in zip(deltas, self.stores, self.aliases, strict=True):
            columns = {n.removeprefix(f"{alias}."): decoded(c) for n, c in delta.columns.items()}
            keep, ends = store.accepted(delta.time, columns)
            mask = pa.array(keep)
            kept = {n: c.filter(mask) for n, c in columns.items()}
            given.append((delta.time[keep], {**kept, END: pa.array(ends[keep])}))
            for decision in store.decisions:
                self.context.log.record(replace(decision, operator=self.name))
            store.decisions.clear()
        rows: list[tuple[Any, ...]] = []
        weights: list[int] = []
        times: list[int] = []
        for t in np.unique(np.concatenate([time for time, _ in given])).tolist():
            for (time, columns), store in zip(given, self.stores, strict=True):
                a, b = (int(np.searchsorted(time, t, side)) for side in ("left", "right"))
                store.add(time[a:b], {n: c.slice(a, b - a) for n, c in columns.items()})
            for weight, row in self._changes(t):
                rows.append(row)
                weights.append(weight)
                times.append(t)
        columns = {f.name: pa.array([r[i] for r in rows], f.type) for i, f in enumerate(self.schema)}
        return Delta(np.array(times, np.int64), columns, np.array(weights, np.int64))

    def _changes(self, t: int) -> list[tuple[int, tuple[Any, ...]]]:
        """What the segments that begin at t change of the predictions."""
        inputs = [s.pieces(float(t), None) for s in self.stores]
        self.solved += sum(map(len, inputs))
        self.runs += 1
        self.done = float(t)
        found = self._samples(run(self.program.root, inputs, self.program.scale), _NO_END)
        now = Counter(zip(*(found.columns[n].to_pylist() for n in self.schema.names), strict=True))
        position = self.schema.names.index(AT)
        first = pa.array([t]).cast(self.schema[AT].type)[0].as_py()
        before = Counter({r: n for r, n in self.predicted.items() if r[position] >= first})
        now = self._steady(before, now)
        self.predicted = now
        changes = [(-n, r) for r, n in (before - now).items()] + [(n, r) for r, n in (now - before).items()]
        self.taken_back += sum(-n for n, _ in changes if n < 0)
        for store in self.stores:
            store.forget(float(t) - self.program.reach)
        return changes

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
        return {**super().state(), "predicted": columns, "runs": self.runs, "taken back": self.taken_back}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        columns = [state["predicted"][n].to_pylist() for n in self.schema.names]
        self.predicted = Counter(zip(*columns, strict=True))
        self.runs, self.taken_back = int(state["runs"]), int(state["taken back"])

    def describe(self) -> str:
        return f"{super().describe()}, and the rows that were predicted for instants to come"

    def statistics(self) -> dict[str, Any]:
        found = {**super().statistics(), "runs": self.runs, "predictions taken back": self.taken_back}
        for alias, store in zip(self.aliases, self.stores, strict=True):
            found |= {f"{alias}: {n}": many for n, many in store.statistics().items()}
        return found


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= ROUNDING * max(1.0, abs(a), abs(b))
