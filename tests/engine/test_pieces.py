"""Large batches pass through readers and queues without being copied together, and nothing else changes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eddyline.core.catalog import StreamDef
from eddyline.core.delta import Delta
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.engine.input_manager import InputStream, StreamReader
from eddyline.engine.queues import Queue
from eddyline.testing.clock import ManualClock

SCHEMA = Schema.from_arrow(pa.schema([("ts", pa.int64()), ("n", pa.int64())]))


def filled(lengths: list[int], spread: int) -> StreamReader:
    stream = InputStream(StreamDef("S", SCHEMA, TimeKind.INTEGER, "ts"), ManualClock())
    reader = stream.reader(["n"])
    number = 0
    for n in lengths:
        rows = np.arange(number, number + n)
        stream.accept(pa.RecordBatch.from_pydict({"ts": rows // spread, "n": rows}))
        number += n
    return reader


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.integers(1, 6), st.integers(1, 30), st.integers(0, 120))
def test_pieces_are_the_whole_cut_between_instants(lengths: list[int], spread: int, most: int, frontier: int) -> None:
    whole = filled(lengths, spread).take(frontier)
    pieces = filled(lengths, spread).take_apart(frontier, most)
    assert [t for d, _ in pieces for t in d.time.tolist()] == whole.time.tolist()
    assert [v for d, _ in pieces for v in d.columns["n"].to_pylist()] == whole.columns["n"].to_pylist()
    ends = [end for _, end in pieces]
    assert ends == sorted(set(ends)) and ends[-1] == frontier
    for (delta, end), before in zip(pieces, [-1, *ends], strict=False):
        assert all(before < t <= end for t in delta.time.tolist())


@given(st.lists(st.integers(0, 12), max_size=10), st.integers(1, 20))
def test_a_queue_is_drained_in_batches(lengths: list[int], least: int) -> None:
    queue = Queue(SCHEMA)
    for i, n in enumerate(lengths):
        rows = pa.array([i] * n, pa.int64())
        queue.push(Delta(np.full(n, i, np.int64), {"ts": rows, "n": rows}), i)
    batches = queue.drain(least)
    assert [t for d in batches for t in d.time.tolist()] == [i for i, n in enumerate(lengths) for _ in range(n)]
    assert all(len(d) for d in batches)
    assert queue.size == 0 and queue.drain() == []
    assert all(len(a) + len(b) > least for a, b in pairwise(batches))
