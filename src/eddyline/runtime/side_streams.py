"""``late(q)`` and ``invalid(q)``: what the inputs of a query turned away, as a stream that other queries read.

Schema: the stream's name, the reason, and the row as JSON text. An element's time is the time that its stream had
reached when the row came, never the row's own timestamp, which goes backwards by definition.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.core.catalog import StreamDef
from eddyline.core.schema import Field, Schema
from eddyline.core.time import Clock, TimeKind
from eddyline.runtime.inline.input_manager import InputStream
from eddyline.runtime.inline.side_output import Diverted

TIME = "_at"


class SideStream:
    """Feeds one input stream from the side outputs of several."""

    def __init__(self, name: str, which: str, sources: Sequence[InputStream], kind: TimeKind, clock: Clock) -> None:
        fields = [Field(n, pa.string()) for n in ("stream", "reason", "row")]
        schema = Schema((*fields, Field(TIME, pa.int64())))
        self.stream = InputStream(StreamDef(name, schema, kind, TIME), clock)
        self.sources = tuple(sources)
        self.reached = -(1 << 62)
        for s in self.sources:
            getattr(s, which).subscribers.append(self.take)

    def take(self, part: Diverted) -> None:
        at = np.maximum(np.maximum.accumulate(part.at), self.reached)
        self.reached = int(at[-1])
        rows = [json.dumps(r, default=str) for r in part.rows.to_pylist()]
        columns = {"stream": [part.stream] * len(rows), "reason": part.reason, "row": rows, TIME: at}
        self.stream.accept(pa.RecordBatch.from_pydict(columns))

    def progress(self) -> None:
        """No row can be turned away before the time that the slowest input has reached."""
        if self.stream.finished:
            return
        if all(s.finished for s in self.sources):
            self.stream.finish()
            return
        shown = [s.shown for s in self.sources if not s.finished]
        if all(t is not None for t in shown):
            self.stream.heartbeat(max(min(t for t in shown if t is not None), self.reached))
