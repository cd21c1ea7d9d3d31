"""The paper's Lab queries (6.6) on sensor data that can be had: the Intel Lab readings themselves are not available.

Q2 asks for readings between random bounds: the lower one from the lowest quarter of an attribute's values, the upper
one from the highest quarter. Classifiers are the sensor, the time of day and whatever else the readings carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.routing.partition import HashPartition, Partition, RangePartition, classify
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Bools, Int64s
from experiments.report import VARIABLE, NotHereError

MEASURED = {
    "room_climate": ("light1", "temperature", "humidity", "light2"),
    "building_rooms": ("light", "temperature", "humidity", "co2"),
}
KEYS = {
    "room_climate": ("location", "node_id", "measurement", "occupants", "activity", "door"),
    "building_rooms": ("room",),
}


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings in order of time: measured columns, and classes by attribute."""

    name: str
    measured: dict[str, np.ndarray]
    setting: Setting
    classes: Int64s


def readings(folder: Path | None, name: str, d: int = 24, batch: int = 500) -> Readings:
    """Read ``name``.parquet from a folder; classes are assigned as they would be on a stream, batch by batch."""
    if folder is None or not (folder / f"{name}.parquet").is_file():
        where = "no folder is named" if folder is None else f"{folder} does not hold it"
        raise NotHereError(f"it needs {name}.parquet, and {where}: set {VARIABLE} or give --data.")
    table = pq.read_table(folder / f"{name}.parquet").sort_by("ts")
    columns = [table.column(k).to_numpy(zero_copy_only=False) for k in KEYS[name]]
    columns += [pc.hour(table.column("ts")).to_numpy(), pc.minute(table.column("ts")).to_numpy()]
    partitions: list[Partition] = [HashPartition(d) for _ in KEYS[name]]
    partitions += [RangePartition(d), RangePartition(d)]
    names = (*KEYS[name], "hour", "minute")
    ranges = frozenset({len(names) - 2, len(names) - 1})
    # Readings may classify, too, but for the operators that they decide on their own that would be the operator itself.
    parts = [classify(partitions, [c[i : i + batch] for c in columns]) for i in range(0, table.num_rows, batch)]
    measured = {m: table.column(m).to_numpy(zero_copy_only=False) for m in MEASURED[name]}
    return Readings(name, measured, Setting(Pipeline(len(measured)), names, d, ranges), np.concatenate(parts))


def random_query(data: Readings, seed: int) -> Bools:
    """Which readings each of the conditions of a random Q2 passes."""
    random = np.random.default_rng(seed)
    passes = []
    for values in data.measured.values():
        domain = np.unique(values[np.isfinite(values)])
        quarter = len(domain) // 4
        low = domain[random.integers(0, quarter)]
        high = domain[len(domain) - 1 - random.integers(0, quarter)]
        passes.append((values >= low) & (values <= high))
    return np.column_stack(passes)


def near_all_or_none(passes: Bools, window: int = 500, margin: float = 0.02) -> float:
    """The share of time in which the selectivity of an operator is within ``margin`` of 0 or 1: there is nothing to
    learn then."""
    whole = len(passes) // window * window
    rates = passes[:whole].reshape(-1, window, passes.shape[1]).mean(1)
    return float(((rates < margin) | (rates > 1 - margin)).mean())
