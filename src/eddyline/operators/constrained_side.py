"""The inputs of a constrained join, and the results of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.expr.nodes import Expr
from eddyline.expr.predicates import Conjunction
from eddyline.operators.join_results import JoinResults
from eddyline.operators.join_side import JoinInput, JoinSide
from eddyline.synopses.kept_rows import KeptRows

RESULTS_AT_ONCE = 1 << 16  # of which rows are made: more is quicker, and takes memory


class ConstrainedSide(JoinSide):
    """An input whose rows may go in any order. ``failed`` are waiting rows that a filter above the window rejects;
    ``slot`` says where the waiting rows are stored."""

    def __init__(self, spec: JoinInput, keys: Sequence[Expr], ordered: frozenset[int]) -> None:
        self.rows = KeptRows(spec.schema)
        super().__init__(replace(spec, filters=()), keys, lambda: self.rows, ordered)  # type: ignore[arg-type, return-value]
        self.rejects = Conjunction(spec.filters) if spec.filters else None
        self.failed = np.zeros(0, np.int64)

    def accept(self, delta: Delta) -> None:
        n = len(delta)
        if n == 0:
            return
        start = len(self.rows)
        super().accept(delta)
        self.slot[len(self.slot) - n :] = start + np.arange(n)
        failed = self.rejected(delta.columns, n)
        self.failed = np.concatenate([self.failed, failed]) if len(self.failed) else failed

    def rejected(self, columns: Mapping[str, pa.Array], n: int) -> Int64s:
        """1 for rows that a filter above the window rejects."""
        failed = np.zeros(n, np.int64)
        if self.rejects is not None and n:
            failed[~self.rejects.evaluate(columns, n).keep] = 1
        return failed

    def drop_events(self, count: int) -> None:
        super().drop_events(count)
        self.failed = self.failed[count:]


class FoundResults:
    """The results of a call."""

    def __init__(self, results: JoinResults) -> None:
        self.results = results
        self.found: list[tuple[Int64s, Int64s, Int64s]] = []
        self.parts: list[Delta] = []

    def add(self, time: Int64s, weight: Int64s, places: Int64s) -> None:
        self.found.append((time, weight, places))
        if not self.results.can_fail and sum(len(f[0]) for f in self.found) > RESULTS_AT_ONCE:
            # Of results that can fail, all at once: whether one has failed is known when its instant is complete.
            self._make()

    def _make(self) -> None:
        time, weight, places = zip(*self.found, strict=True)
        if len(self.found) == 1:
            made = self.results.rows(time[0], weight[0], places[0])
        else:
            made = self.results.rows(np.concatenate(time), np.concatenate(weight), np.hstack(places))
        self.found = []
        if len(made):
            self.parts.append(made)

    def delta(self, schema: Schema) -> Delta:
        if self.found:
            self._make()
        return Delta.concat(self.parts) if self.parts else Delta.empty(schema)
