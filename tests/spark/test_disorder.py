"""Rows out of order are counted where they are read, as the input manager would have called them late."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.core.catalog import StreamDef
from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind
from eddyline.engine.input_manager import InputStream
from eddyline.spark.packing import DISORDER, Packer, Route
from eddyline.spark.sources.disorder import Disorder
from eddyline.testing import ManualClock


def test_as_many_as_would_be_late_inline() -> None:
    random, counted = np.random.default_rng(11), 0
    for _ in range(300):
        slack = int(random.integers(0, 12))
        stream = InputStream(
            StreamDef("S", Schema((Field("ts", pa.int64()),)), TimeKind.INTEGER, "ts", slack), ManualClock()
        )
        stream.reader(["ts"], "r")
        seen = Disorder("ts", slack)
        for _ in range(int(random.integers(1, 5))):
            times = np.arange(20) + random.integers(-15, 15, 20) * random.integers(0, 2)
            batch = pa.RecordBatch.from_pydict({"ts": [None if random.random() < 0.05 else int(t) for t in times]})
            seen.look(batch)
            stream.accept(batch)
        assert (seen.rows, seen.behind) == (stream.late.count, stream.behind)
        counted += seen.rows
    assert counted > 1000, counted


def test_the_count_goes_to_one_shard_of_each_group() -> None:
    schema = pa.schema([("ts", pa.int64())])
    routes = [Route(g, lane, schema, ("ts",), (4,)) for g in (0, 1) for lane in (0, 1)]
    rows = Packer(routes, "ts").out_of_order(3, 40).to_pylist()
    assert [(r["kind"], r["lane"], r["low"], r["high"], r["rows"]) for r in rows] == [(DISORDER, 0, "3", "40", 0)] * 2
    assert len({r["key"] for r in rows}) == 2
