"""The streams of the join benchmarks.

``three_way`` is pinned: with the default dials and 60-second windows on all three streams the equi-join on ``key`` has
350,894 results. The order of the draws is part of the definition.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.core.errors import JobError
from eddyline.datasets.generate import Generated, Int64s, timestamps

NAMES: Final = ("R", "S", "T", "U")


def three_way(events: int = 1_500_000, seconds: int = 600, keys: int = 100_000, seed: int = 1) -> dict[str, pa.Table]:
    """Streams R, S and T with columns ts, key, val.

    >>> {name: len(t) for name, t in three_way(events=1000).items()}
    {'R': 319, 'S': 317, 'T': 364}
    """
    return many_way(3, events, seconds, keys, seed)


def many_way(
    streams: int = 4, events: int = 1_500_000, seconds: int = 600, keys: int = 100_000, seed: int = 1
) -> dict[str, pa.Table]:
    """The same for up to four streams: sorted times, then the stream of each event, then its key, then a value."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, seconds * 1_000_000, events))
    stream = rng.integers(0, streams, events)
    key = rng.integers(0, keys, events)
    value = rng.random(events)
    return {
        NAMES[i]: pa.table({"ts": _ts(time[at]), "key": key[at], "val": value[at]})
        for i in range(streams)
        for at in (np.flatnonzero(stream == i),)
    }


def chain(events: int = 1_500_000, seconds: int = 600, keys: int = 100_000, seed: int = 1) -> dict[str, pa.Table]:
    """The chain R.a = S.a, S.b = T.b: R(ts, a, val), S(ts, a, b, val), T(ts, b, val).

    >>> {name: t.column_names for name, t in chain(events=10).items()}
    {'R': ['ts', 'a', 'val'], 'S': ['ts', 'a', 'b', 'val'], 'T': ['ts', 'b', 'val']}
    """
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, seconds * 1_000_000, events))
    stream = rng.integers(0, 3, events)
    a, b = rng.integers(0, keys, events), rng.integers(0, keys, events)
    value = rng.random(events)
    has = {"R": ("a",), "S": ("a", "b"), "T": ("b",)}
    tables = {}
    for i, (name, columns) in enumerate(has.items()):
        at = np.flatnonzero(stream == i)
        keyed = {c: {"a": a, "b": b}[c][at] for c in columns}
        tables[name] = pa.table({"ts": _ts(time[at]), **keyed, "val": value[at]})
    return tables


def write(tables: dict[str, pa.Table], folder: Path, rows: int | None = None) -> dict[str, Path]:
    """One Parquet file for each stream; ``rows`` is the size of a row group."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.parquet" for name in tables}
    for name, table in tables.items():
        pq.write_table(table, paths[name], row_group_size=rows)
    return paths


def join_stream(
    stream: str = "R", events: int = 1_500_000, seconds: int = 600, keys: int = 100_000, seed: int = 1
) -> Generated:
    """One stream of ``three_way`` as a generator (all of it is drawn at once: the definition is not chunked)."""
    if stream not in NAMES[:3]:
        raise JobError(f"there is no stream {stream!r}: R, S and T exist.")
    schema = pa.schema([("ts", pa.timestamp("us")), ("key", pa.int64()), ("val", pa.float64())])
    return Generated(schema, lambda: iter(three_way(events, seconds, keys, seed)[stream].to_batches()))


def _ts(micros: Int64s) -> pa.Array:
    return timestamps(micros, start=0)
