"""Memberships as conjuncts: IN and EXISTS against a relation as it is at the row's own instant.

A *membership* keeps the keys of the relation and answers, for any rows of the batch at hand, with the value of the mark
(TRUE, FALSE or NULL). A conjunct that reads marks computes them for the rows that it is asked about, and no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Delta
from eddyline.core.errors import DataError
from eddyline.core.schema import Schema
from eddyline.expr.deferred_errors import noted, notes_of
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.members import INSTANT
from eddyline.expr.nodes import Column, Expr, substitute
from eddyline.synopses.key_counts import KeyCounts, Tally


class Membership:
    """``mark`` is TRUE for rows whose ``keys`` are among the right rows (without keys: if there is any right row).

    With ``unknown`` it is NULL, not FALSE, where SQL says so of ``x IN Q``: x is NULL and Q is not empty, or Q has a
    NULL and no match. A reader that only asks whether it is TRUE can do without.

    A row whose keys fail has failed if there is any right row to compare it with.
    """

    def __init__(self, mark: str, keys: Sequence[Expr], right: Schema, unknown: bool = False) -> None:
        self.mark, self.note, self.right, self.unknown = mark, f"{mark}.note", right, unknown
        self.exprs = tuple(keys)
        self.keys = [compile_expr(e) for e in keys]
        self.can_fail = any(k.can_fail for k in self.keys)
        self.columns = frozenset[str]({INSTANT}).union(*(k.columns for k in self.keys))
        self.counts = KeyCounts([f.type for f in right]) if self.keys else None
        self.rows, self.nulls = Tally(), Tally()

    def change(self, delta: Delta) -> None:
        """What happens to the relation in the batch at hand."""
        if not len(delta):
            return
        time, weight = delta.time, delta.weights
        self.rows.change(time, weight)
        if self.counts is None:
            return
        columns = [delta.columns[n] for n in self.right.names]
        valid = _valid(columns)
        if valid is not None:  # NULL equals nothing
            self.nulls.change(time[~valid], weight[~valid])
            chosen = pa.array(valid)
            time, weight, columns = time[valid], weight[valid], [c.filter(chosen) for c in columns]
        self.counts.change(time, columns, weight)

    def settle(self) -> None:
        """The batch is done."""
        self.rows.settle()
        self.nulls.settle()
        if self.counts is not None:
            self.counts.settle()

    def marks(self, columns: Mapping[str, pa.Array], length: int) -> tuple[pa.Array, dict[int, DataError]]:
        """The mark of each row, and the errors of those that have none."""
        time = columns[INSTANT].to_numpy(zero_copy_only=False)
        if self.counts is None:
            return pa.array(self.rows.at(time) > 0), {}
        keys: list[pa.Array] = []
        errors: dict[int, DataError] = {}
        for key in self.keys:
            values, failed = key.rows(columns, length)
            keys.append(values)
            errors = {**failed, **errors}
        valid = _valid(keys)
        found = self.counts.at(keys, time) > 0
        if valid is not None:
            found &= valid
        if errors:
            there = self.rows.at(time) > 0
            errors = {row: e for row, e in errors.items() if there[row]}
        if not self.unknown:
            return pa.array(found), errors
        hidden = self.nulls.at(time) > 0
        if valid is not None:
            hidden |= ~valid & (self.rows.at(time) > 0)
        return pa.array(found, mask=hidden & ~found), errors

    def state(self) -> dict[str, Any]:
        counts = {} if self.counts is None else self.counts.state()
        return {"rows": self.rows.now, "nulls": self.nulls.now, "counts": counts}

    def load(self, state: Mapping[str, Any]) -> None:
        self.rows, self.nulls = Tally(int(state["rows"])), Tally(int(state["nulls"]))
        if self.counts is not None:
            self.counts.load(state["counts"])

    def size(self) -> tuple[int, int]:
        return (1, 16) if self.counts is None else (len(self.counts), self.counts.nbytes)


def _valid(columns: Sequence[pa.Array]) -> Bools | None:
    """Where no column is NULL; None: everywhere."""
    with_nulls = [c for c in columns if c.null_count]
    if not with_nulls:
        return None
    valid: Bools = np.logical_and.reduce([np.asarray(c.is_valid()) for c in with_nulls])
    return valid


class Marked:
    """A conjunct that reads marks: ``S.a IN (…)``, ``NOT EXISTS (…)``, ``S.b > 3 OR S.a IN (…)``.

    Where a mark's keys can fail it is read together with the note of its error, so that a row for
    which the mark is not read has not failed.
    """

    def __init__(self, expr: Expr, memberships: Sequence[Membership], text: str) -> None:
        self.text = text
        self.parts = (expr, *(e for m in memberships for e in m.exprs))
        self._compiled = compile_expr(
            substitute(expr, {m.mark: noted(Column(m.mark, pa.bool_()), m.note) for m in memberships if m.can_fail})
        )
        self._memberships = tuple(memberships)
        made = {n for m in memberships for n in (m.mark, m.note)}
        self.columns = (self._compiled.columns - made).union(*(m.columns for m in memberships))
        self.can_fail, self.expensive = self._compiled.can_fail, True

    def _marked(self, columns: Mapping[str, pa.Array], length: int) -> dict[str, pa.Array]:
        marked = dict(columns)
        for m in self._memberships:
            marked[m.mark], errors = m.marks(columns, length)
            if m.can_fail:
                marked[m.note] = notes_of(errors, length)
        return marked

    def __call__(self, columns: Mapping[str, pa.Array], length: int) -> pa.Array:
        return self._compiled(self._marked(columns, length), length)

    def rows(
        self, columns: Mapping[str, pa.Array], length: int, wanted: Bools | None = None
    ) -> tuple[pa.Array, dict[int, DataError]]:
        return self._compiled.rows(self._marked(columns, length), length, wanted)
