"""A new operator in one file: a nested-loop join with state of its own, and the candidate that makes it known."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.schema import Schema
from eddyline.operators.base import Operator
from eddyline.operators.select import SelectOperator
from eddyline.plan.candidates import Candidate, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import Output, conjunction


class NestedLoopJoin(Operator):
    """Each change meets every row that the other inputs hold. ``held`` has by input the rows with multiplicities."""

    def __init__(self, name: str, inputs: list[Schema], conjuncts: Any, output: Schema, context: Any) -> None:
        super().__init__(name, output)
        self.inputs, self.whole = inputs, Schema(tuple(f for s in inputs for f in s))
        self.select = SelectOperator(name, self.whole, conjuncts, context)
        self.held: list[dict[str, tuple[tuple[Any, ...], int]]] = [{} for _ in inputs]

    def process(self, deltas: Any, frontier: int) -> Delta:
        columns = [[d.columns[n].to_pylist() for n in s.names] for d, s in zip(deltas, self.inputs, strict=True)]
        events = sorted((int(t), i, r) for i, d in enumerate(deltas) for r, t in enumerate(d.time))
        found: list[tuple[int, int, tuple[Any, ...]]] = []
        for time, i, r in events:
            row, weight = tuple(c[r] for c in columns[i]), int(deltas[i].weights[r])
            sides = [[(row, weight)] if j == i else list(held.values()) for j, held in enumerate(self.held)]
            for rows in itertools.product(*sides):
                found.append((time, int(np.prod([w for _, w in rows])), sum((r for r, _ in rows), ())))
            count = self.held[i].pop(repr(row), (row, 0))[1] + weight
            self.held[i] |= {repr(row): (row, count)} if count else {}
        names, values = self.whole.names, list(zip(*(row for *_, row in found), strict=True)) or [()] * len(self.whole)
        made = {f.name: pa.array(v, f.type) for f, v in zip(self.whole, values, strict=True)}
        whole = Delta(np.array([t for t, *_ in found], np.int64), made, np.array([w for _, w, _ in found], np.int64))
        kept = self.select.process([whole], frontier) if found else whole
        return kept.with_columns({n: kept.columns[n] for n in names if n in self.schema.names})

    def state(self) -> dict[str, Any]:
        return {
            str(i): {
                "weights": np.array([w for _, w in held.values()], np.int64),
                "rows": {str(j): pa.array([r[j] for r, _ in held.values()], f.type) for j, f in enumerate(s)},
            }
            for i, (held, s) in enumerate(zip(self.held, self.inputs, strict=True))
        }

    def load(self, state: dict[str, Any]) -> None:
        for i, s in enumerate(self.inputs):
            columns = [state[str(i)]["rows"][str(j)].to_pylist() for j in range(len(s))]
            rows = [tuple(c[r] for c in columns) for r in range(len(state[str(i)]["weights"]))]
            self.held[i] = {repr(r): (r, int(w)) for r, w in zip(rows, state[str(i)]["weights"], strict=True)}

    def size(self) -> tuple[int, int]:
        return sum(map(len, self.held)), 64 * sum(map(len, self.held))

    def describe(self) -> str:
        return "all rows of its inputs, because each may meet every other"


@candidate
class NestedLoop(Candidate):
    name, option = "nested-loop", "joins"

    def suits(self, node: Any, planning: Any) -> str | Refused:
        return "the option 'joins' names it" if planning.options.get("joins") == self.name else Refused("not named")

    def cost(self, node: Any, planning: Any) -> float:
        return 1000.0 ** (len(node.inputs) - 1)

    def build(self, node: Any, builder: Any, need: Deletions) -> Output:
        sides = [builder.relation(p, Deletions.ALL) for p in node.inputs]
        name, schemas = builder.name("nested-loop-join"), [s.schema for s in sides]
        operator = NestedLoopJoin(name, schemas, node.conjuncts, node.schema, builder.context)
        return Output(
            builder.add(operator, tuple(s.node for s in sides), note=conjunction(node.conjuncts)), node.schema
        )
