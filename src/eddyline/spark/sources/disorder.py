"""Counts the rows of a source that come out of order, where they are read.

A micro-batch is one arrival: a shard puts its rows in order, and only what lies behind *earlier* micro-batches is late.
So a wrong column of time would go unnoticed in a job of one micro-batch, where inline nearly every row is late. This
module counts the rows of one task that would be late inline: rows with ts < (largest ts before, in the order of the
source) − slack. The rows before those of the task are not known, so the count is never larger than inline.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.core.time import BEGINNING
from eddyline.engine.arrivals import MAX_TICKS, ticks


class Disorder:
    """Counts the rows of one task that are out of order by more than the slack; ``behind`` is how far back they go.

    >>> seen = Disorder("ts", slack=1)
    >>> for times in ([5, 4, 3], [9, 1, None]):
    ...     seen.look(pa.RecordBatch.from_pydict({"ts": pa.array(times, pa.int64())}))
    >>> seen.rows, seen.behind
    (2, 8)
    """

    def __init__(self, timestamp: str, slack: int) -> None:
        self.timestamp, self.slack = timestamp, slack
        self.rows = self.behind = 0
        self._largest = BEGINNING

    def look(self, batch: pa.RecordBatch) -> None:
        column = batch.column(self.timestamp)
        time = ticks(column.drop_null() if column.null_count else column)
        time = time[(time > -MAX_TICKS) & (time <= MAX_TICKS)]  # others belong to invalid rows, which show no time
        if not len(time):
            return
        if time[0] >= self._largest and (np.diff(time) >= 0).all():
            self._largest = int(time[-1])
            return
        largest = np.maximum.accumulate(np.maximum(time, self._largest))
        back = largest - time
        late = back > self.slack
        self.rows += int(late.sum())
        self.behind = max(self.behind, int(back[late].max(initial=0)))
        self._largest = int(largest[-1])
