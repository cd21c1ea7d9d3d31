"""i-stream, d-stream, r-stream, and the signed changes of a relation: what the user sees is netted per instant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.kernels import bags as k
from eddyline.operators.base import Context, Operator
from eddyline.synopses.bag import Bag
from eddyline.synopses.keys import KeyTable


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
    rows = np.flatnonzero(mixed)
    index = pa.array(rows)
    table = KeyTable([pa.int64(), *(f.type for f in schema)])
    keys = [pa.array(delta.time[rows]), *(delta.columns[f.name].take(index) for f in schema)]
    code = table.intern(keys, len(rows))
    total = np.zeros(table.capacity, np.int64)
    np.add.at(total, code, delta.weight[rows])
    _, where = np.unique(code, return_index=True)
    weight = delta.weight.copy()
    weight[rows] = 0
    weight[rows[where]] = total[code[where]]
    keep = np.flatnonzero(weight)
    order = keep[np.lexsort((weight[keep] > 0, delta.time[keep]))]
    return Delta(delta.time, delta.columns, weight).take(order)


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
        if self.kind == "signed":
            return minus_first(delta)
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


class RStream(Operator):
    """The whole relation at every tick: inputs after the first are the query's streams, whose instants are ticks."""

    def __init__(self, name: str, schema: Schema, slides: Sequence[int], by_id: bool, context: Context) -> None:
        super().__init__(name, schema)
        self.slides = tuple(slides)
        self.context = context
        self.bag = Bag(schema, by_id)
        self.weight, self.live, self.place = (np.zeros(64, np.int64) for _ in range(3))
        self.alive = 0
        self.done: int | None = None  # ticks up to here have been answered

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        delta = deltas[0]
        ticks = self._ticks(deltas[1:], frontier)
        slot = self.bag.slots(delta) if len(delta) else np.empty(0, np.int64)
        while self.bag.table.capacity > len(self.weight):
            more = np.zeros(len(self.weight), np.int64)
            self.weight, self.live = np.concatenate([self.weight, more]), np.concatenate([self.live, more])
            self.place = np.concatenate([self.place, more])
        progress = np.array([0, 0, self.alive, 0], np.int64)
        room = max(1 << 14, 2 * len(self.weight))
        parts = []
        while True:
            time, where, weight = (np.empty(room, np.int64) for _ in range(3))
            full = k.rstream(
                delta.time, slot, delta.weights, ticks, self.weight, self.live, self.place, progress, time, where,
                weight,
            )  # fmt: skip
            n = int(progress[k.FOUND])
            rows = self.bag.store.take(self.bag.rownum[where[:n]])
            parts.append(repeat(Delta(time[:n], rows, weight[:n])))
            if not full:
                break
            room = max(room, 2 * int(progress[k.LIVE]))
        self.alive = int(progress[k.LIVE])
        touched = np.unique(slot)
        self.bag.release(touched[self.weight[touched] == 0])
        self.bag.compact()
        out = Delta.concat(parts)
        return Delta(out.time, {n: out.columns[n] for n in self.schema.names})

    def _ticks(self, streams: Sequence[Delta], frontier: int) -> Int64s:
        start = self.context.start
        if start is None:
            return np.empty(0, np.int64)
        since = start if self.done is None else self.done + 1
        parts = [d.time for d in streams]
        for slide in self.slides:
            parts.append(np.arange(-(-since // slide) * slide, frontier + 1, slide, dtype=np.int64))
        self.done = max(frontier, since - 1)
        ticks = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        return ticks[ticks >= start]

    def state(self) -> dict[str, Any]:
        kept = {"weight": self.weight, "live": self.live, "place": self.place}
        return {**kept, "alive": self.alive, "done": self.done, "bag": self.bag.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.weight, self.live, self.place = (state[n].copy() for n in ("weight", "live", "place"))
        self.alive, self.done = int(state["alive"]), state["done"]
        self.bag.load(state["bag"])

    def size(self) -> tuple[int, int]:
        return len(self.bag), self.bag.nbytes + 3 * self.weight.nbytes

    def describe(self) -> str:
        return "the relation as it is, because Rstream shows all of it at every instant"


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
