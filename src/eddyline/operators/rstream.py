"""r-stream: the whole relation at every instant of an input element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.kernels import bags as k
from eddyline.operators.base import Context, Operator
from eddyline.operators.streams import repeat
from eddyline.synopses.bag import Bag


class RStream(Operator):
    """The whole relation at every tick: inputs after the first are the query's streams, whose instants are ticks."""

    ROOM = 1 << 14  # results at once, at least

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
        slot = self.bag.insert(delta) if len(delta) else np.empty(0, np.int64)
        while self.bag.table.capacity > len(self.weight):
            more = np.zeros(len(self.weight), np.int64)
            self.weight, self.live = np.concatenate([self.weight, more]), np.concatenate([self.live, more])
            self.place = np.concatenate([self.place, more])
        progress = np.array([0, 0, self.alive, 0], np.int64)
        room = max(self.ROOM, self.alive, 1)
        parts = []
        while True:
            time, where, weight = (np.empty(room, np.int64) for _ in range(3))
            full = k.rstream(
                delta.time, slot, delta.weights, ticks, self.weight, self.live, self.place, progress, time, where,
                weight,
            )  # fmt: skip
            n = int(progress[k.FOUND])
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
