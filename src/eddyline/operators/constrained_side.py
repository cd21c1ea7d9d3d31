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
from eddyline.operators.constrained_changes import Departures, hashed_rows, net_changes
from eddyline.operators.join_results import JoinResults
from eddyline.operators.join_side import JoinInput, JoinSide
from eddyline.synopses.kept_rows import KeptRows

RESULTS_AT_ONCE = 1 << 16  # of which rows are made: more is quicker, and takes memory
RELATION = -1  # the limit of an input whose rows leave when they are deleted; 0: by time, above: by count


class ConstrainedSide(JoinSide):
    """An input whose rows may go in any order. ``failed`` are waiting rows that a filter above the window rejects;
    ``slot`` says where the waiting rows are stored.

    An input without a window is a relation: its changes bring rows and delete them. The ``leave`` of such a row is its
    identity, by which a deletion finds it, and deletions wait as ``departures``. ``current`` counts its rows.
    """

    def __init__(self, spec: JoinInput, keys: Sequence[Expr], ordered: frozenset[int]) -> None:
        self.rows = KeptRows(spec.schema)
        super().__init__(replace(spec, filters=()), keys, lambda: self.rows, ordered)  # type: ignore[arg-type, return-value]
        self.rejects = Conjunction(spec.filters) if spec.filters else None
        self.failed = np.zeros(0, np.int64)
        self.departures = Departures.none()
        self.current = 0
        if not self.ring:
            self.stub, self.bag, self.limit = self.rows, None, RELATION  # type: ignore[assignment]

    @property
    def is_relation(self) -> bool:
        return not self.ring

    def accept(self, delta: Delta) -> None:
        n = len(delta)
        if n == 0:
            return
        if self.is_relation:
            self._accept_changes(delta)
            return
        start = len(self.rows)
        super().accept(delta)
        self.slot[len(self.slot) - n :] = start + np.arange(n)
        failed = self.rejected(delta.columns, n)
        self.failed = np.concatenate([self.failed, failed]) if len(self.failed) else failed

    def _accept_changes(self, delta: Delta) -> None:
        """Insertions wait as events, deletions as departures."""
        identities = delta.ids if self.spec.by_id else hashed_rows(delta.columns, len(delta))
        assert identities is not None
        come, go = net_changes(delta.time, identities, delta.weights)
        self.current += len(come) - len(go)
        for index, comes in ((go, False), (come, True)):
            rows, many = delta.take(index), len(index)
            if many == 0:
                continue
            codes, valid = self.key_codes(rows.columns, many)
            if comes:
                start = self.rows.insert(rows.columns, many)
                ones, slot = np.ones(many, np.int64), start + np.arange(many)
                self.append_events(rows.time, identities[index], ones, slot, valid, codes)
                self.failed = np.concatenate([self.failed, np.zeros(many, np.int64)])
            else:
                joined = valid != 0  # a row with a NULL as key never came
                self.departures = Departures(rows.time[joined], identities[index][joined], codes[joined])

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
