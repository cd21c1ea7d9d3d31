"""Running aggregates, with a value for every element: of the last rows of a partition, or of all its rows so far.

The accumulators are those of GROUP BY, so a value is the same function of the bag: exact sums, one rounding. GROUP BY
reads the value of a group when an instant ends; here it is read after each step: an insertion, and the deletion of the
row that is too old, if there is one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.errors import DataError
from eddyline.core.schema import Schema
from eddyline.expr.nodes import AggregateCall
from eddyline.kernels import aggregates as kernels
from eddyline.operators.accumulators import Overflow, Walk, grown, writable
from eddyline.operators.aggregate import AggregateOperator
from eddyline.operators.base import Context
from eddyline.operators.outputs import label


class RunningAggregates(AggregateOperator):
    """``rows`` is how many rows an aggregate is of; None: of all, so that nothing is ever taken out."""

    def __init__(
        self, name: str, calls: tuple[tuple[str, AggregateCall], ...], schema: Schema, rows: int | None
    ) -> None:
        super().__init__(name, (), calls, schema, False, Context(), fifo=True, append_only=rows is None)
        self.frame = rows

    def steps(self, delta: Delta, group: Int64s, capacity: int) -> dict[str, pa.Array]:
        """The values behind each step. ``delta.time`` numbers the steps, and each is of one group."""
        n = len(delta)
        self.mark, self.latest = grown(self.mark, capacity), grown(self.latest, capacity)
        slot, touched = np.empty(n, np.int64), np.empty(min(n, capacity), np.int64)
        previous, owner, when = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
        base, made = kernels.emission_points(
            writable(delta.time), group, self.mark, self.latest, slot, touched, previous, owner, when
        )
        touched = touched[:base]
        ids = None if delta.ids is None else writable(delta.ids)
        self._walk(Walk(group, writable(delta.weights), slot, base + made, capacity, ids, self._describe), delta)
        for call, o in zip(self.calls, self.outputs, strict=True):
            try:
                o.collect(touched, capacity)
            except Overflow as e:
                message = f"{label(call)} OVER (…) overflows a 64-bit integer; cast the argument to double."
                raise DataError(message) from e
        columns = {n: o.column(slice(base, base + made)) for n, o in zip(self.schema.names, self.outputs, strict=True)}
        for o in self.outputs:
            o.keep(touched, self.latest[touched])
        if self.arrivals is not None:
            self.arrivals.finish()
        return columns

    def empty(self, name: str) -> pa.Array:
        """The value of an aggregate of no rows."""
        return self.outputs[self.schema.names.index(name)].initial()
