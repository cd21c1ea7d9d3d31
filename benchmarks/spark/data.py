"""Streams as folders of Parquet files, one file for each slice of time, so that a micro-batch is a number of files.

Spark takes files in the order of their modification times: these are set, a second apart, so that the k-th micro-batch
has the k-th stretch of time of *every* stream and nothing is ever late.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import FOLDER
from benchmarks.spark.configuration import Configuration
from benchmarks.spark.truth import expected

SLICE = 100_000  # events of all streams in the files of one slice, at most
START = 1_700_000_000_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class Streams:
    folder: Path
    files_per_batch: int
    closed: int  # microseconds: results before this instant are closed on every side, however they wait
    expected: int  # how many these are, says DuckDB

    def path(self, stream: str) -> str:
        return str(self.folder / stream)


def streams(c: Configuration) -> Streams:
    """The data of a configuration, made when first asked for."""
    size = min(SLICE, c.batch)
    folder = FOLDER / "spark" / f"{c.workload}-{c.events}-{c.keys}-{c.window}-by-{size}"
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
        closed = _write(_tables(c), unfinished, c.events // size)
        facts = {"closed": closed, "expected": expected(c, unfinished, closed)}
        (unfinished / "facts.json").write_text(json.dumps(facts))
        unfinished.rename(folder)
    facts = json.loads((folder / "facts.json").read_text())
    return Streams(folder, c.batch // size, **facts)


def _tables(c: Configuration) -> Mapping[str, pa.Table]:
    from eddyline.datasets import joins, trades

    if c.workload == "three-way":
        return joins.three_way(c.events, c.seconds, c.keys)
    if c.workload == "four-way":
        return joins.many_way(4, c.events, c.seconds, c.keys)
    if c.workload == "chain":
        return joins.chain(c.events, c.seconds, c.keys)
    if c.workload == "skewed":
        from benchmarks.spark import skewed

        return skewed.tables(c)
    if c.workload == "macd":
        return {"trades": trades.trades(events=c.events, rate=2_000_000 / 600, symbols=c.keys).table()}
    raise ValueError(f"there is no workload {c.workload!r}")


def _write(tables: Mapping[str, pa.Table], folder: Path, slices: int) -> int:
    times = {n: t["ts"].cast(pa.int64()).to_numpy() for n, t in tables.items()}
    shift = START - min(int(t[0]) for t in times.values())
    every = np.sort(np.concatenate(list(times.values())))
    # By rank, so that every micro-batch has the same number of events; equal times never straddle two slices.
    cuts = every[np.arange(1, slices) * (len(every) // slices)]
    for name, table in tables.items():
        (folder / name).mkdir(parents=True)
        stamps = pa.array(times[name] + shift, pa.timestamp("us", tz="UTC"))
        stamped: Any = table.set_column(table.schema.get_field_index("ts"), "ts", stamps)
        ends = [0, *np.searchsorted(times[name], cuts), len(table)]
        for i in range(slices):
            path = folder / name / f"{i:05d}.parquet"
            pq.write_table(stamped.slice(ends[i], ends[i + 1] - ends[i]), path)
            os.utime(path, (START // 1_000_000 + i,) * 2)
    return min(int(t[-1]) for t in times.values()) + shift
