"""Elements with their time and their number in the order of arrival, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.schema import Field, Schema
from eddyline.operators.base import Operator


class NumberOperator(Operator):
    """A stream comes in the order of (time, arrival), so a counter is all that is kept.

    >>> stream = Delta(np.array([3, 3]), {"a": pa.array([7, 8])})
    >>> numbered = NumberOperator("number 1", Schema((Field("a", pa.int64()),)), "t", "n").process([stream], 3)
    >>> [numbered.columns[n].to_pylist() for n in ("t", "n")]
    [[3, 3], [0, 1]]
    """

    next_number = 0

    def __init__(self, name: str, schema: Schema, time: str, number: str) -> None:
        super().__init__(name, Schema((*schema, Field(time, pa.int64()), Field(number, pa.int64()))))
        self.time, self.number = time, number

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        numbers = np.arange(self.next_number, self.next_number + len(delta), dtype=np.int64)
        self.next_number += len(delta)
        columns = {**delta.columns, self.time: pa.array(delta.time), self.number: pa.array(numbers)}
        return Delta(delta.time, columns, delta.weight, delta.ids)

    def state(self) -> dict[str, Any]:
        return {"next_number": self.next_number}

    def load(self, state: dict[str, Any]) -> None:
        self.next_number = int(state["next_number"])

    def describe(self) -> str:
        return "a counter: ties of the rank above are broken by arrival"
