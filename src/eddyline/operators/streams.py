"""i-stream, d-stream, and the signed changes of a relation: the user sees changes that are netted per instant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.operators.base import Context, Operator


def net(delta: Delta, schema: Schema) -> Delta:
    """Add up the changes of equal rows at equal instants; drop zeros; − before + within an instant.

    Only instants with both signs need to be looked at: elsewhere nothing can cancel.
    """
    n = len(delta)
    if delta.weight is None or n == 0:
        return delta
    begins = np.flatnonzero(np.r_[True, delta.time[1:] != delta.time[:-1]])
    counts = np.diff(np.r_[begins, n])
    mixed = np.repeat(
        np.logical_or.reduceat(delta.weight > 0, begins) & np.logical_or.reduceat(delta.weight < 0, begins), counts
    )
    if not mixed.any():
        return delta
    rows = _may_be_equal(delta, schema, np.flatnonzero(mixed))
    if len(rows) == 0:
        return minus_first(delta)
    from eddyline.synopses.keys import numbered  # here: most streams never need the compiler that it loads

    index = pa.array(rows)
    keys = [pa.array(delta.time[rows]), *(delta.columns[f.name].take(index) for f in schema)]
    code, count = numbered(keys, len(rows))
    total = np.zeros(count, np.int64)
    np.add.at(total, code, delta.weight[rows])
    where = np.empty(count, np.int64)
    where[code[::-1]] = np.arange(len(rows))[::-1]  # the first row of each number
    weight = delta.weight.copy()
    weight[rows] = 0
    weight[rows[where]] = total
    keep = np.flatnonzero(weight)
    order = keep[np.lexsort((weight[keep] > 0, delta.time[keep]))]
    return Delta(delta.time, delta.columns, weight).take(order)


def _may_be_equal(delta: Delta, schema: Schema, rows: Int64s) -> Int64s:
    """Of these rows, those that agree with another one in time and in all columns that are numbers. Texts are compared
    for them alone: most rows of an instant differ in some number, and to compare texts costs many times as much."""
    from eddyline.synopses.codes import is_direct
    from eddyline.synopses.keys import numbered

    numbers = [f.name for f in schema if is_direct(f.type)]
    if not numbers or len(numbers) == len(schema):
        return rows
    index = pa.array(rows)
    keys = [pa.array(delta.time[rows]), *(delta.columns[n].take(index) for n in numbers)]
    code, count = numbered(keys, len(rows))
    return rows[(np.bincount(code, minlength=count) > 1)[code]]


def repeat(delta: Delta) -> Delta:
    """A change of weight w as |w| elements of weight ±1."""
    if delta.weight is None or (np.abs(delta.weight) == 1).all():
        return delta
    index = np.repeat(np.arange(len(delta)), np.abs(delta.weight))
    out = delta.take(index)
    return Delta(out.time, out.columns, np.sign(out.weights))


def minus_first(delta: Delta) -> Delta:
    """Within each instant − before +, otherwise in the given order."""
    w, t = delta.weights, delta.time
    if len(delta) < 2 or not ((w[1:] < 0) & (w[:-1] > 0) & (t[1:] == t[:-1])).any():
        return delta
    return delta.take(np.lexsort((w > 0, t)))


class Changes(Operator):
    """``istream``, ``dstream`` or ``signed``. ``netted`` says that equal rows cannot cancel within an instant."""

    def __init__(self, name: str, schema: Schema, kind: str, netted: bool) -> None:
        super().__init__(name, schema)
        self.kind, self.netted = kind, netted

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        if delta.weight is None:
            return Delta.empty(self.schema) if self.kind == "dstream" else delta
        delta = repeat(delta if self.netted else net(delta, self.schema))
        if self.kind == "signed":  # rows that were added up have no identity any more
            return minus_first(Delta(delta.time, delta.columns, delta.weight))
        chosen = delta.weights > 0 if self.kind == "istream" else delta.weights < 0
        out = delta.filter(chosen)
        return Delta(out.time, out.columns)


class OrderTies(Operator):
    """Elements of one instant by row value, NULL first, NaN last: the order of a stream that has no arrivals."""

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        if len(delta) < 2 or not (delta.time[1:] == delta.time[:-1]).any():
            return delta
        keys: dict[str, pa.Array] = {"t": pa.array(delta.time)}
        for j, f in enumerate(self.schema):
            column = delta.columns[f.name]
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if pa.types.is_floating(f.type):
                keys[f"n{j}"] = pc.is_nan(column)
            keys[f"c{j}"] = column
        order = pc.sort_indices(pa.table(keys), sort_keys=[(k, "ascending", "at_start") for k in keys])
        return delta.take(order.to_numpy().astype(np.int64))


class UnionAll(Operator):
    """Bag union: the changes of both sides, by time. The right side's columns take the left side's names."""

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        names = self.schema.names
        renamed = [Delta(d.time, dict(zip(names, d.columns.values(), strict=True)), d.weight, None) for d in deltas]
        return Delta.merge(renamed)


class ConstantRelation(Operator):
    """A relation without timestamps: all its rows are there from the start of the query's time."""

    def __init__(self, name: str, schema: Schema, columns: dict[str, pa.Array], length: int, context: Context) -> None:
        super().__init__(name, schema)
        self.columns, self.length, self.context = columns, length, context
        self.shown = False

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        if self.shown or self.context.start is None:
            return Delta.empty(self.schema)
        self.shown = True
        time = np.full(self.length, self.context.start, np.int64)
        return Delta(time, self.columns, None, np.arange(self.length, dtype=np.int64))

    def state(self) -> dict[str, Any]:
        return {"shown": self.shown}

    def load(self, state: dict[str, Any]) -> None:
        self.shown = bool(state["shown"])
