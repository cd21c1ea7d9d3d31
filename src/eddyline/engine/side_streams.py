"""``late(q)`` and ``invalid(q)``: the rows that the inputs of a query turned away, as a stream for other queries.

Schema: the name of the stream (or of the query, where an expression failed), the reason, and the row: its text as it
stood in the input, or JSON. An element's time is the time that its stream had reached when the row came, never the
row's own timestamp, which goes backwards by definition.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from eddyline.core.catalog import StreamDef
from eddyline.core.schema import Field, Schema
from eddyline.core.time import Clock, TimeKind
from eddyline.engine.input_manager import InputStream
from eddyline.engine.running_query import RunningQuery
from eddyline.engine.side_output import Diverted

TIME = "_at"


class SideStream:
    """Feeds one input stream from the side outputs of several: those of a query's streams, and the query's own."""

    def __init__(self, name: str, which: str, owner: RunningQuery, clock: Clock) -> None:
        kind = owner.query.time_kind
        fields = [Field(n, pa.string()) for n in ("stream", "reason", "row")]
        self.time_type = pa.timestamp("us") if kind is TimeKind.TIMESTAMP else pa.int64()
        schema = Schema((*fields, Field(TIME, self.time_type)))
        self.stream = InputStream(StreamDef(name, schema, kind, TIME), clock)
        self.owner = owner
        self.sources = tuple(owner.inputs.values())
        self.reached = -(1 << 62)
        self.followed = [getattr(s, which) for s in self.sources]
        if which == "invalid":
            self.followed.append(owner.invalid)
        for output in self.followed:
            output.subscribers.append(self.take)

    def take(self, part: Diverted) -> None:
        at = np.maximum(np.maximum.accumulate(part.at), self.reached)
        self.reached = int(at[-1])
        rows = [r["_row"] if r.keys() == {"_row"} else json.dumps(r, default=str) for r in part.rows.to_pylist()]
        columns = {
            "stream": [part.stream] * len(rows),
            "reason": part.reason,
            "row": rows,
            TIME: pa.array(at).cast(self.time_type),
        }
        self.stream.accept(pa.RecordBatch.from_pydict(columns))

    def leave(self) -> None:
        """End the subscriptions: no query reads this side stream any more."""
        for output in self.followed:
            output.subscribers.remove(self.take)

    def end(self) -> None:
        """The query was removed, and its side streams end: those who read this one have all of it."""
        self.leave()
        self.stream.finish()

    def progress(self) -> None:
        """No row can be turned away before the time that the slowest input has reached, nor can an expression fail in
        an instant that the query has answered.

        Inputs that have ended are not the end of this stream: the query may have to work off what they brought. Its
        input may be a side stream that has ended just now, or a budget may be spent."""
        if self.stream.finished:
            return
        if all(s.finished for s in self.sources):
            if self.owner.settled:
                self.stream.finish()
            return
        shown = [s.shown for s in self.sources if not s.finished]
        if self.owner.reached is not None and all(t is not None for t in shown):
            slowest = min(t for t in shown if t is not None)
            self.stream.heartbeat(max(min(slowest, self.owner.reached + 1), self.reached))
