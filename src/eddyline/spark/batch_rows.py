"""The rows of one shard under SLACK AUTO: the held rows, and where each row goes once its micro-batch was judged.

It stands in an ``InputStream`` in place of ``engine.auto_rows``, which judges row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.adaptive.disorder.policies import make_policy
from eddyline.core.delta import Bools, Int64s
from eddyline.core.time import BEGINNING, TimeKind
from eddyline.engine.auto_rows import AHEAD, Placed
from eddyline.engine.reorder import Chunk
from eddyline.engine.side_output import Diverted
from eddyline.engine.watermark import BEFORE, BEHIND, SHUT, Watermark
from eddyline.spark.batch_slack import BatchSlack
from eddyline.spark.time_counts import TimeCounts

_Part = tuple[int, Int64s, Int64s, pa.RecordBatch, pa.RecordBatch]  # micro-batch, times, numbers, rows, their columns


class BatchRows:
    """``policy`` is what was written behind SLACK. In a micro-batch: ``begin``, ``take`` for the rows of this shard,
    ``heartbeat``."""

    def __init__(self, policy: str, kind: TimeKind | None, watermark: Watermark, stream: str) -> None:
        self.text, self.stream = policy, stream
        self.slack = BatchSlack(make_policy(policy, "µs" if kind is TimeKind.TIMESTAMP else "ticks"), watermark)
        self.takes_late = True  # no instant is closed, so nothing is late
        self.reports = True  # whether this copy of the rows counts what is turned away
        self.ending = False  # what settles is the end of the stream
        self._waiting: list[_Part] = []

    def begin(self, counts: Sequence[TimeCounts]) -> None:
        """The times of all rows of a micro-batch and how late they were where they were read, in turn, by flush."""
        self.slack.step(TimeCounts.merged(counts[::2]), TimeCounts.merged(counts[1::2]))

    def take(self, batch: pa.RecordBatch, chosen: pa.RecordBatch, time: Int64s, first: int, closed: int) -> Placed:
        """Rows of this shard, numbered from ``first``; they are judged with the heartbeat."""
        self._waiting.append((self.slack.batch, time, np.arange(first, first + len(time)), batch, chosen))
        return Placed([], [], [])

    def heartbeat(self, time: int, closed: int) -> Placed:
        """All rows of the micro-batch are there. How far it has come is known from its counts."""
        placed = self._place(closed)
        self.slack.end()
        return placed

    def settle(self, closed: int) -> Placed:
        """The stream has ended or is idle: nothing waits any more."""
        self.slack.settle(self.ending)
        return self.heartbeat(BEGINNING, closed)

    def _place(self, closed: int) -> Placed:
        placed, limit = Placed([], [], []), self.slack.limit
        waiting, self._waiting = self._waiting, []
        for part in waiting:
            ahead = np.ones(len(part[1]), np.bool_) if limit is None else part[1] > limit
            if not ahead.all():
                self._judge(_chosen(part, ~ahead), placed, closed)
            if ahead.any():
                self._hold(_chosen(part, ahead), placed)
        return placed

    def _hold(self, part: _Part, placed: Placed) -> None:
        batch, time, _, rows, _ = part
        if batch > self.slack.refuted or self.slack.limit is None:
            self._waiting.append(part)
            return
        self.slack.implausible += len(time) * self.reports
        placed.implausible.append(self._diverted(rows, np.full(len(time), AHEAD)))

    def _judge(self, part: _Part, placed: Placed, closed: int) -> None:
        _, time, number, rows, columns = part
        order = np.argsort(time, kind="stable")
        if (np.diff(order) != 1).any():
            time, number = time[order], number[order]
            rows, columns = rows.take(pa.array(order)), columns.take(pa.array(order))
        # In order of time no row is late because of another of its micro-batch.
        late = None if self.takes_late else self.slack.watermark.late(time, closed)
        if late is not None:
            reasons = np.array([BEHIND, BEFORE, SHUT])[late.why[late.rows]]
            placed.late.append(self._diverted(rows.filter(pa.array(late.rows)), reasons))
            _, time, number, rows, columns = _chosen((0, time, number, rows, columns), ~late.rows)
        if len(time):
            placed.on_time.append((Chunk(time, columns, int(number.min()), number), rows))

    def _diverted(self, rows: pa.RecordBatch, reasons: Any) -> Diverted:
        shown = self.slack.watermark.shown or 0
        return Diverted(self.stream, rows, np.full(rows.num_rows, shown), pa.array(reasons.tolist(), pa.string()))

    def state(self) -> dict[str, Any]:
        waiting = [{"batch": b, "time": t, "number": n, "row": r, "columns": c} for b, t, n, r, c in self._waiting]
        return {"policy": self.text, "slack": self.slack.state(), "waiting": waiting}

    def load(self, state: Mapping[str, Any]) -> None:
        self.slack.load(state["slack"])
        self._waiting = [(int(w["batch"]), w["time"], w["number"], w["row"], w["columns"]) for w in state["waiting"]]


def _chosen(part: _Part, keep: Bools) -> _Part:
    if keep.all():
        return part
    mask = pa.array(keep)
    return part[0], part[1][keep], part[2][keep], part[3].filter(mask), part[4].filter(mask)
