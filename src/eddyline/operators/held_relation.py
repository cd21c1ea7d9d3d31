"""Keeps the rows of a relation, to show it as a whole at given instants: for ``Rstream`` and ``Wstream``."""

from __future__ import annotations

from typing import Any

import numpy as np

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.kernels import bags as k
from eddyline.operators.base import Operator
from eddyline.operators.streams import repeat
from eddyline.synopses.bag import Bag

MIN_RESULT_ROWS = 1 << 14  # rows for which there is room, at least


class HeldRelation:
    """``at(delta, ticks)`` applies changes and gives the relation at each of the ticks."""

    def __init__(self, schema: Schema, by_id: bool) -> None:
        self.schema = schema
        self.bag = Bag(schema, by_id)
        self.weight, self.live, self.place = (np.zeros(64, np.int64) for _ in range(3))
        self.alive = 0

    def at(self, delta: Delta, ticks: Int64s, room: int = MIN_RESULT_ROWS) -> Delta:
        """The ticks are in order, none twice; changes after the last of them are applied, too. Rows with ids stand in
        the order of these within a tick: that of their arrival."""
        slot = self.bag.insert(delta) if len(delta) else np.empty(0, np.int64)
        while self.bag.table.capacity > len(self.weight):
            more = np.zeros(len(self.weight), np.int64)
            self.weight, self.live = np.concatenate([self.weight, more]), np.concatenate([self.live, more])
            self.place = np.concatenate([self.place, more])
        progress = np.array([0, 0, self.alive, 0], np.int64)
        room = max(room, self.alive, 1)
        parts = []
        while True:
            time, where, weight = (np.empty(room, np.int64) for _ in range(3))
            full = k.rstream(
                delta.time, slot, delta.weights, ticks, self.weight, self.live, self.place, progress, time, where,
                weight,
            )  # fmt: skip
            n = int(progress[k.FOUND])
            if self.bag.by_id:
                order = np.lexsort((self.bag.table.keys[where[:n], 0], time[:n]))
                where[:n], weight[:n] = where[order], weight[order]
            rows = self.bag.probe(where[:n])
            parts.append(repeat(Delta(time[:n], rows, weight[:n])))
            if not full:
                break
            room = max(room, 2 * int(progress[k.LIVE]))
        self.alive = int(progress[k.LIVE])
        touched = np.unique(slot)
        self.bag.expire(touched[self.weight[touched] == 0])
        self.bag.compact()
        out = Delta.concat(parts)
        return Delta(out.time, {n: out.columns[n] for n in self.schema.names})

    def state(self) -> dict[str, Any]:
        kept = {"weight": self.weight, "live": self.live, "place": self.place}
        return {**kept, "alive": self.alive, "bag": self.bag.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.weight, self.live, self.place = (state[n].copy() for n in ("weight", "live", "place"))
        self.alive = int(state["alive"])
        self.bag.load(state["bag"])

    def size(self) -> tuple[int, int]:
        return len(self.bag), self.bag.nbytes + 3 * self.weight.nbytes


class ShowsWhenClosed(Operator):
    """An operator that keeps a relation to show it when windows close: what it saves."""

    held: HeldRelation
    rows: int  # in the relation
    done: int | None  # instants up to here have been answered

    def state(self) -> dict[str, Any]:
        return {**self.held.state(), "rows": self.rows, "done": self.done}

    def load(self, state: dict[str, Any]) -> None:
        self.held.load(state)
        self.rows, self.done = int(state["rows"]), state["done"]

    def size(self) -> tuple[int, int]:
        return self.held.size()


def steps_between(step: int, offset: int, since: int, until: int) -> Int64s:
    """The multiples of a step, shifted, from one instant to another, both included.

    >>> steps_between(5, 1, 3, 12).tolist()
    [6, 11]
    """
    return np.arange(-(-(since - offset) // step) * step + offset, until + 1, step, dtype=np.int64)


def closing_times(sessions: Delta) -> Int64s:
    """The instants at which sessions close: they enter the relation of their window then."""
    return sessions.time if sessions.weight is None else sessions.time[sessions.weight > 0]


def steps_while_held(step: int, offset: int, delta: Delta, held: int, since: int, until: int) -> Int64s:
    """The same, without those at which a relation is empty: its rows were ``held``, and change by ``delta``.

    Time may go on for long without elements, and there may be very many steps in between.

    >>> changes = Delta(np.array([4, 10, 1000]), {}, np.array([2, -2, 1]))
    >>> steps_while_held(5, 0, changes, 0, 1, 1004).tolist()
    [5, 1000]
    """
    begins, totals = np.array([since]), np.array([held])
    if len(delta):
        last = np.flatnonzero(np.r_[delta.time[1:] != delta.time[:-1], True])
        begins = np.r_[begins, delta.time[last]]
        totals = np.r_[totals, held + np.cumsum(delta.weights)[last]]
    ends = np.r_[begins[1:] - 1, until]
    first = -(-(np.maximum(begins, since) - offset) // step)
    count = np.maximum((ends - offset) // step - first + 1, 0) * (totals > 0)
    number = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
    return number * step + offset
