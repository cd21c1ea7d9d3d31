"""The streams that the system itself brings (thesis 2.4): ``SysStream``, what entities are like, and ``Decisions``.

Their time is that of the clock, in microseconds. A user's stream, relation or view of the same name takes precedence.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from eddyline.core.catalog import StreamDef
from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind

SYS_STREAM, DECISIONS = "SysStream", "Decisions"
TEXT, DOUBLE, INTEGER, TIME = pa.string(), pa.float64(), pa.int64(), pa.timestamp("us")


def _declared(name: str, **columns: pa.DataType) -> StreamDef:
    schema = Schema(tuple(Field(n, t) for n, t in columns.items()))
    return StreamDef(name, schema, TimeKind.TIMESTAMP, timestamp="ts")


SYSTEM: Final = {
    d.name.lower(): d
    for d in (
        _declared(
            SYS_STREAM,
            ts=TIME,
            query=TEXT,  # empty for what belongs to no query
            entity=TEXT,
            kind=TEXT,  # query, operator, conjunct, queue, synopsis, cache, policy, input, shard
            property=TEXT,
            value=DOUBLE,
            unit=TEXT,
            shard=INTEGER,  # NULL in one process
        ),
        _declared(
            DECISIONS,
            ts=TIME,
            query=TEXT,
            sequence=INTEGER,
            operator=TEXT,
            kind=TEXT,
            by=TEXT,
            before=TEXT,
            after=TEXT,
            reason=TEXT,
            expected_gain=DOUBLE,
            applied=pa.bool_(),
            event_time=INTEGER,
            shard=INTEGER,
        ),
    )
}
