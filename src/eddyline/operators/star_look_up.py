"""star-look-up: a changing relation joined with constant ones, each by keys of its own (a star).

Nothing changes in the constant relations after the start of time, so the join is linear in the changing input: each of
its changes, + or −, yields all combinations of its partners, with its own time and weight, and is not kept. A change is
looked up in each relation at most once, in any order; without a partner in one relation it is not looked up in others.
Partners are combined at the end, so many partners in one relation do not make look-ups in another more expensive.

``Routes`` chooses the order for each change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr
from eddyline.expr.predicates import Conjunction
from eddyline.operators.base import Context, Operator
from eddyline.operators.star_relation import Routes, StarRelation
from eddyline.operators.streams import net, repeat
from eddyline.synopses.keys import KeyTable


class _Rows:
    """The rows of a relation by key: those with key number i are ``order[first[i]:first[i + 1]]``."""

    def __init__(self, spec: StarRelation) -> None:
        self.spec = spec
        self.keys = [compile_expr(e) for e in spec.mine]
        self.asking = [compile_expr(e) for e in spec.theirs]
        self.read = frozenset[str]().union(*(k.columns for k in self.asking))
        self.columns = {f.name: pa.array([], f.type) for f in spec.schema}
        self.length = 0
        self._index()

    def add(self, delta: Delta) -> None:
        """All changes are of one instant, the start of time, and come in one call."""
        delta = repeat(net(delta, self.spec.schema))
        assert self.length == 0 and (delta.weights > 0).all(), "a constant relation has changed"
        self.columns, self.length = {n: delta.columns[n] for n in self.spec.schema.names}, len(delta)
        self._index()

    def _index(self) -> None:
        self.table = KeyTable([e.type for e in self.spec.mine])
        columns = [key(self.columns, self.length) for key in self.keys]
        rows = np.flatnonzero(_valid(columns, self.length))
        ids = self.table.intern([c.take(pa.array(rows)) for c in columns], len(rows))
        self.order: Int64s = rows[np.argsort(ids, kind="stable")]
        self.first: Int64s = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=self.table.capacity))])

    def find(self, columns: Mapping[str, pa.Array], rows: Int64s) -> tuple[Int64s, Int64s]:
        """For rows of the changing input the first place of their partners in ``order``, and their number."""
        index = pa.array(rows)
        taken = {n: columns[n].take(index) for n in self.read}
        keys = [key(taken, len(rows)) for key in self.asking]
        ids = self.table.find(keys, len(rows))
        there = (ids >= 0) & _valid(keys, len(rows))
        at = np.where(there, ids, 0)
        counts = np.diff(self.first)
        if not len(counts):
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        return self.first[at], np.where(there, counts[at], 0)

    @property
    def nbytes(self) -> int:
        rows = sum(int(c.nbytes) for c in self.columns.values())
        return self.table.nbytes + self.order.nbytes + self.first.nbytes + rows


class StarLookUp(Operator):
    """``place`` is where the changing input stands among the inputs; the others are ``relations``, in their order.
    ``residual`` are the conjuncts that are no keys. Results have the columns named in ``output``."""

    RESULTS_AT_ONCE = 1 << 16  # that are turned into rows together

    def __init__(
        self,
        name: str,
        changing: Schema,
        place: int,
        relations: Sequence[StarRelation],
        residual: Sequence[Expr],
        output: Sequence[str],
        routes: Routes,
        context: Context,
    ) -> None:
        schemas = [r.schema for r in relations]
        schemas.insert(place, changing)
        super().__init__(name, Schema(tuple(f for s in schemas for f in s if f.name in output)))
        self.place, self.routes, self.context, self.changing = place, routes, context, changing
        self.relations = [_Rows(r) for r in relations]
        self.residual = Conjunction(residual) if residual else None
        compiled = [compile_expr(e) for e in residual]
        self.can_fail = any(c.can_fail for c in compiled)
        wanted = set(self.schema.names).union(*(c.columns for c in compiled))
        self.fetch = [tuple(n for n in r.schema.names if n in wanted) for r in relations]
        self.own = tuple(n for n in changing.names if n in wanted)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        sides = list(deltas)
        delta = sides.pop(self.place)
        for relation, rows in zip(self.relations, sides, strict=True):
            if len(rows):
                relation.add(rows)
        if not len(delta):
            return Delta.empty(self.schema)
        first = np.zeros((len(self.relations), len(delta)), np.int64)
        count = np.zeros_like(first)

        def look(relation: int, rows: Int64s) -> Int64s:
            first[relation, rows], found = self.relations[relation].find(delta.columns, rows)
            count[relation, rows] = found
            return found

        alive = np.flatnonzero(self.routes.look_up(delta.columns, len(delta), delta.time, look))
        parts = [self._combine(delta, rows, first[:, rows], count[:, rows]) for rows in self._cut(alive, count)]
        parts = [p for p in parts if len(p)]
        return Delta.concat(parts) if parts else Delta.empty(self.schema)

    def _cut(self, rows: Int64s, count: Int64s) -> list[Int64s]:
        """Rows whose combinations are made at once. Of those that can fail, all: whether one has failed is known when
        its instant is complete."""
        if self.can_fail or not len(rows):
            return [rows] if len(rows) else []
        before = np.cumsum(count[:, rows].prod(0))
        ends = np.flatnonzero(np.diff(before // self.RESULTS_AT_ONCE)) + 1
        return np.split(rows, ends)

    def _combine(self, delta: Delta, rows: Int64s, first: Int64s, count: Int64s) -> Delta:
        """All combinations of the partners of each row, in the order of rows."""
        combinations = count.prod(0)
        which = np.repeat(np.arange(len(rows)), combinations)
        place = np.arange(len(which)) - np.repeat(
            np.cumsum(combinations) - combinations, combinations
        )  # among the combinations of its row
        index = pa.array(rows[which])
        columns = {n: delta.columns[n].take(index) for n in self.own}
        for i, relation in enumerate(self.relations):
            place, digit = np.divmod(place, count[i, which])
            if self.fetch[i]:
                partners = pa.array(relation.order[first[i, which] + digit])
                columns |= {n: relation.columns[n].take(partners) for n in self.fetch[i]}
        weight = None if delta.weight is None else delta.weight[rows[which]]
        out = Delta(delta.time[rows[which]], columns, weight)
        if self.residual is not None and len(out):
            selection = self.residual.evaluate(out.columns, len(out))
            if selection.errors:
                self.context.fail(out, selection.errors)
            out = out.filter(selection.keep)
        return out.with_columns({n: out.columns[n] for n in self.schema.names})

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        held = {
            str(i): {"length": r.length, "columns": {str(j): c for j, c in enumerate(r.columns.values())}}
            for i, r in enumerate(self.relations)
        }
        return {"relations": held, "routes": self.routes.state()}

    def load(self, state: dict[str, Any]) -> None:
        for i, r in enumerate(self.relations):
            saved = state["relations"][str(i)]
            r.columns = {n: saved["columns"][str(j)] for j, n in enumerate(r.spec.schema.names)}
            r.length = int(saved["length"])
            r._index()
        self.routes.load(state["routes"])

    def size(self) -> tuple[int, int]:
        return sum(r.length for r in self.relations), sum(r.nbytes for r in self.relations)

    def describe(self) -> str:
        names = ", ".join(r.spec.label for r in self.relations)
        return f"the rows of {names} by key; the rows of the stream are not kept, since these never change"

    def adapts(self) -> list[str]:
        return self.routes.adapts()

    def statistics(self) -> dict[str, Any]:
        return self.routes.statistics()


def _valid(columns: Sequence[pa.Array], length: int) -> Bools:
    """Rows without a NULL among their keys: NULL equals nothing, though a key table can hold it."""
    valid = np.ones(length, np.bool_)
    for c in columns:
        if c.null_count:
            valid &= np.asarray(c.is_valid())
    return valid
