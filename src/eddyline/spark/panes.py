"""Rows of a stream → panes, where they are read: what a sliding aggregate adds up need not travel row by row."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.engine.arrivals import MAX_TICKS, ticks
from eddyline.operators.panes import MAX_PANES_PER_ELEMENT, Panes
from eddyline.plan.panes import SourcePanes

AT: Final = "_at"  # the time of a pane: that of its last element


# Rows that the shards must judge (late, or without a valid time), panes of all others, the first row of each pane, and
# the smallest time in them.
Split = tuple[pa.RecordBatch, pa.RecordBatch, pa.RecordBatch, int]


def pane_schema(panes: SourcePanes) -> pa.Schema:
    """Of the blobs."""
    return pa.schema([pa.field(AT, pa.int64()), *panes.pane_columns.schema.to_arrow()])


class PaneSplitter:
    """
    >>> from eddyline.core.window import Slide
    >>> from eddyline.expr.nodes import AggregateCall, Column
    >>> from eddyline.operators.pane_columns import PaneColumns
    >>> by, price = Column("k", pa.string()), Column("p", pa.float64())
    >>> pane_columns = PaneColumns.of([by], [AggregateCall("avg", (price,), pa.float64())])
    >>> rows = pa.RecordBatch.from_pydict({"ts": [3, 3, 4, 4, 1], "k": list("xxxxy"), "p": [1.0, 2.0, 4.0, 0.5, 9.0]})
    >>> rest, panes, *_ = PaneSplitter(SourcePanes(pane_columns, (Slide(4, 2),)), "ts").split(rows, bound=3)
    >>> rest.column("k").to_pylist(), panes.column("_sum0").to_pylist(), panes.column("_at").to_pylist()
    (['y'], [7.5], [4])
    """

    def __init__(self, panes: SourcePanes, timestamp: str) -> None:
        self.timestamp = timestamp
        self.schema = pane_schema(panes)
        self.operator = Panes("panes", panes.pane_columns, panes.windows)

    def split(self, batch: pa.RecordBatch, bound: int) -> Split | None:
        """None: panes would be hardly fewer than rows."""
        time, rest = _times(batch.column(self.timestamp)), batch.slice(0, 0)
        fine = (time >= max(bound, -MAX_TICKS)) & (time <= MAX_TICKS)
        if not fine.all():
            rest, batch, time = batch.filter(pa.array(~fine)), batch.filter(pa.array(fine)), time[fine]
        if (np.diff(time) < 0).any():
            order = np.argsort(time, kind="stable")
            batch, time = batch.take(pa.array(order)), time[order]
        if not len(time):
            return None
        names = batch.schema.names
        made, first = self.operator.make(time, dict(zip(names, batch.columns, strict=True)))
        if len(made) > MAX_PANES_PER_ELEMENT * len(time):
            return None
        return rest, self._batch(made), batch.take(pa.array(first)), int(time[0])

    def _batch(self, made: Delta) -> pa.RecordBatch:
        columns = [pa.array(made.time), *(_plain(made.columns[f.name]) for f in list(self.schema)[1:])]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _times(column: pa.Array) -> Int64s:
    """Ticks; what is NULL becomes something out of range."""
    if not column.null_count:
        return ticks(column)
    time: Int64s = np.full(len(column), MAX_TICKS + 1, np.int64)
    time[np.asarray(column.is_valid())] = ticks(column.drop_null())
    return time


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
