"""Deferred errors: an error waits with its row as long as a conjunct further up may still drop the row.

If any conjunct gives FALSE or NULL for a row, an error of another conjunct does not count. Where the conjuncts of a row
are not evaluated at one place (IN and EXISTS against relations that change have operators of their own), an error is
*noted* in a hidden column of the row. It counts at the instant at which the row has passed all other conjuncts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.bound import Bound
from eddyline.core.delta import Bools, Delta
from eddyline.core.errors import DataError
from eddyline.core.schema import Field, Schema
from eddyline.expr.deferred_errors import NOTE, errors_in, noted, notes_of
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Column, Expr
from eddyline.operators.base import Context, Operator


@dataclass(slots=True)
class DeferredErrorsContext(Context):
    """Collects the errors of a selection instead of raising them, in place of its query's context."""

    noted: dict[int, DataError] = field(default_factory=dict)

    def fail(self, delta: Delta, errors: Mapping[int, DataError]) -> None:
        self.noted.update(errors)

    def taken(self) -> dict[int, DataError]:
        errors, self.noted = self.noted, {}
        return errors


class Within(Operator):
    """A wrapper around another operator; it takes that operator's place in the plan."""

    def __init__(self, inner: Operator, schema: Schema) -> None:
        super().__init__(inner.name, schema)
        self.inner = inner

    def adapts(self) -> list[str]:
        return self.inner.adapts()

    def statistics(self) -> dict[str, Any]:
        return self.inner.statistics()

    def state(self) -> dict[str, Any]:
        return self.inner.state()

    def load(self, state: dict[str, Any]) -> None:
        self.inner.load(state)

    def size(self) -> tuple[int, int]:
        return self.inner.size()

    def spilled(self) -> tuple[int, int]:
        return self.inner.spilled()

    def most_rows(self, now: int) -> int:
        return self.inner.most_rows(now)

    def describe(self) -> str:
        return self.inner.describe()

    def bounds(self) -> dict[str, Bound]:
        return self.inner.bounds()


class NotedSelect(Within):
    """A selection, made with the ``deferred`` context, that also keeps what fails, its error in the column ``note``."""

    def __init__(self, selection: Operator, deferred: DeferredErrorsContext, note: str) -> None:
        super().__init__(selection, Schema((*selection.schema, Field(note, NOTE))))
        self.deferred, self.note = deferred, note

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        left, *others = deltas
        n = len(left)
        numbered = Delta(left.time, left.columns, left.weight, np.arange(n))
        passed = self.inner.process((numbered, *others), frontier)
        errors = self.deferred.taken()
        if not n:
            return Delta.empty(self.schema)
        keep: Bools = np.zeros(n, np.bool_)
        if passed.ids is not None:
            keep[passed.ids] = True
        keep[list(errors)] = True
        return left.with_columns({**left.columns, self.note: notes_of(errors, n)}).filter(keep)


@dataclass(frozen=True, slots=True)
class Computation:
    """An expression that becomes a column ``name``; its errors become a column ``note``."""

    name: str
    note: str
    expr: Expr

    @property
    def fields(self) -> tuple[Field, Field]:
        return Field(self.name, self.expr.type), Field(self.note, NOTE)

    @property
    def read(self) -> Expr:
        """The value, or its error, for the operator that looks at it."""
        return noted(Column(self.name, self.expr.type, self.expr.span), self.note)


class Compute(Operator):
    """Adds hidden columns to its rows."""

    def __init__(self, name: str, schema: Schema, items: Sequence[Computation]) -> None:
        super().__init__(name, Schema((*schema, *(f for i in items for f in i.fields))))
        self.items = [(i, compile_expr(i.expr)) for i in items]

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        if not len(delta):
            return Delta.empty(self.schema)
        columns = dict(delta.columns)
        for item, compiled in self.items:
            columns[item.name], errors = compiled.rows(delta.columns, len(delta))
            columns[item.note] = notes_of(errors, len(delta))
        return delta.with_columns(columns)


class Settle(Operator):
    """Where nothing can drop a row any more: the first of its ``notes`` is its error. Hidden columns end here."""

    def __init__(self, name: str, schema: Schema, notes: Sequence[str], context: Context) -> None:
        super().__init__(name, schema)
        self.notes, self.context = tuple(notes), context

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        return settled(delta, self.notes, self.schema, self.context)


def settled(delta: Delta, notes: Sequence[str], schema: Schema, context: Context) -> Delta:
    """The rows without notes, and without those columns; the others have failed."""
    out = delta.with_columns({n: delta.columns[n] for n in schema.names})
    texts = [delta.columns[n] for n in notes]
    if all(t.null_count == len(t) for t in texts):
        return out
    first = texts[0] if len(texts) == 1 else pc.coalesce(*texts)
    failing: Bools = np.asarray(first.is_valid())
    context.fail(out, errors_in(first.filter(pa.array(failing)), np.flatnonzero(failing).tolist()))
    return out.filter(~failing)
