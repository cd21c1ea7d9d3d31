"""union, except, intersect and duplicate-eliminate over bags that change (UNION ALL is in ``streams``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eddyline.core.delta import Delta
from eddyline.core.schema import Schema
from eddyline.kernels import bags as k
from eddyline.operators.base import Operator
from eddyline.synopses.bag import Bag

KINDS = {
    ("distinct", False): k.DISTINCT,
    ("union", False): k.UNION,
    ("except", True): k.EXCEPT_ALL,
    ("except", False): k.EXCEPT,
    ("intersect", True): k.INTERSECT_ALL,
    ("intersect", False): k.INTERSECT,
}


class SetOperator(Operator):
    """One multiplicity for each row and side; the result's multiplicity is a function of the two (kernels.bags)."""

    def __init__(self, name: str, schema: Schema, kind: str, all: bool) -> None:
        super().__init__(name, schema)
        self.kind = KINDS[kind, all]
        self.bag = Bag(schema, by_id=False)
        self.left, self.right = np.zeros(64, np.int64), np.zeros(64, np.int64)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        names = self.schema.names
        sides = [Delta(d.time, dict(zip(names, d.columns.values(), strict=True)), d.weights) for d in deltas]
        side = np.concatenate([np.full(len(d), i, np.int64) for i, d in enumerate(sides)])
        whole = Delta.concat(sides)
        n = len(whole)
        if n == 0:
            return Delta.empty(self.schema)
        if len(sides) > 1:
            order = np.argsort(whole.time, kind="stable")
            whole, side = whole.take(order), side[order]
        code = self.bag.insert(whole)
        while self.bag.table.capacity > len(self.left):
            more = np.zeros(len(self.left), np.int64)
            self.left, self.right = np.concatenate([self.left, more]), np.concatenate([self.right, more])
        scratch = np.full(len(self.left), -1, np.int64)
        time, where, weight = (np.empty(n, np.int64) for _ in range(3))
        found = k.set_operation(
            self.kind, whole.time, code, side, whole.weights, self.left, self.right, scratch,
            np.empty(len(self.left), np.int64), time, where, weight,
        )  # fmt: skip
        time, where, weight = time[:found], where[:found], weight[:found]
        out = Delta(time, self.bag.probe(where), weight)
        touched = np.unique(code)
        self.bag.expire(touched[(self.left[touched] == 0) & (self.right[touched] == 0)])
        self.bag.compact()
        return out

    def state(self) -> dict[str, Any]:
        return {"bag": self.bag.state(), "left": self.left, "right": self.right}

    def load(self, state: dict[str, Any]) -> None:
        self.bag.load(state["bag"])
        self.left, self.right = state["left"].copy(), state["right"].copy()

    def size(self) -> tuple[int, int]:
        return len(self.bag), self.bag.nbytes + self.left.nbytes + self.right.nbytes

    def describe(self) -> str:
        return "each distinct row of its inputs with its multiplicities"
