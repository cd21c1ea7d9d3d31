"""What the experiments on models share: signals, both engines, processor time, and where two curves cross."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import eddyline as ed
from eddyline.datasets.moving import moving
from experiments.report import VARIABLE, NotHereError, Options

ROUNDS = 3  # of each measurement, of which the median counts; one more compiles


def real(options: Options, name: str, columns: Sequence[str]) -> pa.Table:
    """Columns of a real data set, or ``NotHereError``."""
    folder = options.data or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    path = None if folder is None else folder / f"{name}.parquet"
    if path is None or not path.is_file():
        raise NotHereError(f"it needs {name}.parquet: set {VARIABLE} or give --data.")
    return pq.read_table(path, columns=list(columns))


def cpu(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def medians(*runs: Callable[[], Any]) -> list[float]:
    """The median processor seconds of each, in turns; the first turn compiles."""
    spent = np.array([[cpu(run) for run in runs] for _ in range(ROUNDS + 1)][1:])
    return [float(v) for v in np.median(spent, axis=0)]


def rows(streams: Mapping[str, pa.Table], text: str) -> pa.Table:
    """The answer of a query; a table without segments is one of samples with a column ``ts``."""
    session = ed.Session()
    for name, table in streams.items():
        if "_from" in table.column_names:
            session.stream(name, table)
        else:
            session.stream(name, table, timestamp="ts")
    return session.query(text).to_arrow()


def objects(
    tuples: int, per_segment: float, objects: int = 10, seed: int = 1, error: float = 1.0,
    values: Sequence[str] = ("x", "y"),
) -> tuple[pa.Table, pa.Table]:  # fmt: skip
    """Moving objects whose legs hold so many tuples on average, and the segments of these values. Within 1 m a segment
    holds some 46 tuples, however short legs are."""
    rate = 100.0 * objects
    table = moving(objects=objects, seconds=tuples / rate, rate=rate, leg=per_segment / 100.0, seed=seed).table()
    return table, ed.fit(table, key="id", time="ts", value=list(values), error=error)


def crossing(at: Sequence[float], ratio: Sequence[float]) -> float:
    """Where a ratio first falls below one, between points on logarithmic scales; infinity: it does not.

    >>> round(crossing([1, 100], [10.0, 0.1]), 6)
    10.0
    """
    x, y = np.log(at), np.log(ratio)
    for i in range(len(x)):
        if y[i] <= 0:
            if i == 0:
                return float(at[0])
            return float(np.exp(x[i - 1] + (x[i] - x[i - 1]) * y[i - 1] / (y[i - 1] - y[i])))
    return float("inf")
