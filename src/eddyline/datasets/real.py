"""The real data sets, where they are at hand: a folder of Parquet files named by argument or by ``EDDYLINE_DATA``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.core.errors import JobError, did_you_mean

VARIABLE: Final = "EDDYLINE_DATA"

# name → column of event time (None: order only, or static)
SETS: Final[dict[str, str | None]] = {
    "stock_trades": "ts",
    "stock_quotes": "ts",
    "fx_quotes": "ts",
    "ais_positions": "ts",
    "adsb_switzerland": "ts",
    "beijing_taxi": "ts",
    "room_climate": "ts",
    "building_rooms": "ts",
    "nab_metrics": "ts",
    "zeek_dns": "ts",
    "zeek_ssl": "ts",
    "kdd99_connections": "seq",
    "nyc_flights": "ts",
    "nyc_weather": "ts",
    "nyc_planes": None,
    "nyc_airports": None,
    "nyc_airlines": None,
    "linear_road_20s": "ts",
    "intel_lab_halfhour": "step",
    "intel_mote_locs": None,
}
# Sets whose rows also have a genuine order of arrival, which differs from that of their times.
ARRIVAL: Final[dict[str, str]] = {"ais_positions": "arrival_seq", "zeek_dns": "log_seq", "zeek_ssl": "log_seq"}


def folder(given: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder of the real sets, None if there is none."""
    where = given if given is not None else os.environ.get(VARIABLE)
    path = Path(where) if where else None
    return path if path is not None and path.is_dir() else None


def available(given: str | os.PathLike[str] | None = None) -> list[str]:
    """The names of the sets that are there."""
    place = folder(given)
    return [name for name in SETS if place is not None and (place / f"{name}.parquet").is_file()]


def path(name: str, given: str | os.PathLike[str] | None = None) -> Path:
    """
    >>> path("stock_trade", ".")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: there is no real data set 'stock_trade'. Did you mean 'stock_trades'?
    """
    if name not in SETS:
        raise JobError(f"there is no real data set {name!r}.{did_you_mean(name, SETS)}")
    place = folder(given)
    if place is None:
        raise JobError(f"the real data sets are not here: set {VARIABLE} to the folder that holds {name}.parquet.")
    found = place / f"{name}.parquet"
    if not found.is_file():
        raise JobError(f"{name}.parquet is not in the folder of the real data sets.")
    return found


def read(
    name: str,
    columns: Sequence[str] | None = None,
    given: str | os.PathLike[str] | None = None,
    in_arrival_order: bool = False,
) -> pa.Table:
    """A set as a table, in order of time, or of arrival where the set has one (a realistically disordered stream)."""
    if in_arrival_order and name not in ARRIVAL:
        raise JobError(f"{name} has no order of arrival of its own; these have: {', '.join(ARRIVAL)}.")
    table = pq.read_table(path(name, given))
    if in_arrival_order:
        table = table.sort_by(ARRIVAL[name])
    return table if columns is None else table.select(list(columns))
