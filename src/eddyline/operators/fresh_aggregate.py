"""An aggregate of rows that stay for one window only: they enter together, and have left when the next window closes.

All rows of a tumbling window, and all of a session, enter at one instant. So the groups of that instant are complete
when it has been processed: no accumulator has to be kept, and no row has to be subtracted again. Each run groups its
rows by instant and keys, and keeps none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.schema import Schema
from eddyline.operators.base import Operator
from eddyline.operators.window_columns import Edges, edge_columns


class FreshAggregate(Operator):
    """``make`` gives an aggregate that has the column ``instant`` among its keys. A row of the result leaves ``stay``
    ticks after it has entered, if ``deletes``; ``edges`` are columns with the edges of a window of ``width``."""

    def __init__(
        self, name: str, schema: Schema, make: Callable[[], Operator], instant: str, stay: int, width: int,
        edges: Edges, deletes: bool,
    ) -> None:  # fmt: skip
        super().__init__(name, schema)
        self.make, self.instant, self.stay, self.width = make, instant, stay, width
        self.edges, self.deletes = edges, deletes
        self.kept = make().describe()
        self.leaving = Delta.empty(schema)  # what is there, in order of time

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        entering = self._groups(delta, frontier) if len(delta) else Delta.empty(self.schema)
        if not self.deletes:
            return entering
        held = Delta.concat([d for d in (self.leaving, entering) if len(d)] or [entering])
        gone = int(held.time.searchsorted(frontier - self.stay, "right"))
        self.leaving = held.slice(gone, len(held))
        if gone == 0:
            return entering
        left = held.slice(0, gone)
        minus = Delta(left.time + self.stay, left.columns, np.full(gone, -1, np.int64))
        return Delta.merge([minus, Delta(entering.time, entering.columns, np.ones(len(entering), np.int64))])

    def _groups(self, delta: Delta, frontier: int) -> Delta:
        timed = delta.with_columns({**delta.columns, self.instant: pa.array(delta.time)})
        out = self.make().process([timed], frontier)
        edges = edge_columns(self.edges, self.schema, out.time - self.width, out.time)
        return Delta(out.time, {n: edges[n] if n in edges else out.columns[n] for n in self.schema.names})

    def state(self) -> dict[str, Any]:
        held = self.leaving
        return {"time": held.time, "columns": dict(held.columns)} if len(held) else {}

    def load(self, state: dict[str, Any]) -> None:
        self.leaving = Delta(state["time"], state["columns"]) if state else Delta.empty(self.schema)

    def size(self) -> tuple[int, int]:
        return len(self.leaving), sum(c.nbytes for c in self.leaving.columns.values())

    def describe(self) -> str:
        return f"{self.kept}, of the last window alone" if self.deletes else ""
