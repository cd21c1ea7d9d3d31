"""Short ways to write session tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import eddyline

SCHEMA = pa.schema([("ts", pa.int64()), ("a", pa.int64())])


def session(*streams: str, **options: Any) -> eddyline.Session:
    """A session with push streams (ts, a)."""
    made = eddyline.Session(**options)
    for name in streams:
        made.stream(name, schema=SCHEMA, timestamp="ts")
    return made


def rows(*pairs: tuple[int | None, int | None]) -> list[dict[str, int | None]]:
    return [{"ts": ts, "a": a} for ts, a in pairs]


def fetched(query: eddyline.Query) -> list[tuple[Any, ...]]:
    """The results that are there now, as tuples: the columns, the time and, for relations, the sign."""
    return as_tuples(query.fetch())


def as_tuples(batches: Iterable[pa.RecordBatch | pa.Table]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
