"""Traffic of Linear Road: cars on one expressway that report their position every 30 seconds.

Cars enter at random times over the whole span, drive for some minutes at a speed of their own, and leave, so that over
three hours far more cars are seen than are on the road at a time. Some stop for a while behind an accident and report
the same position at least four times. ``stream`` is what is generated:

- ``reports``: ts, cid, xpos (feet along the expressway), sid (the segment, a mile), speed (miles an hour);
- ``tolls``: ts, crossing, cid, sid, toll: assessed when a car enters a segment;
- ``exits``: ts, crossing, cid, sid: the car has left the segment.

A crossing is one car in one segment; its toll comes before its exit, and a car without an exit left the expressway.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from eddyline.core.errors import JobError
from eddyline.datasets.generate import START, Generated, Int64s

STREAMS: Final = ("reports", "tolls", "exits")
SECONDS_PER_REPORT, MILE, SEGMENTS = 30, 5280, 100  # of a car; in feet; of the expressway
MEAN_MINUTES = 9.0  # on the road: three hours are twenty times as long
_SECOND = 1_000_000


def linear_road(
    stream: str = "reports", hours: float = 3.0, cars: float = 10.0, accidents: float = 0.01, seed: int = 1,
    start: int = START,
) -> Generated:  # fmt: skip
    """
    Parameters
    ----------
    stream
        ``reports``, ``tolls`` or ``exits``.
    cars
        How many enter in a minute.
    accidents
        The share of cars that stop for three to six minutes.

    >>> t = linear_road(hours=0.5, cars=20).table()
    >>> t.schema.names, t["sid"][0].as_py() == t["xpos"][0].as_py() // 5280
    (['ts', 'cid', 'xpos', 'sid', 'speed'], True)
    """
    if stream not in STREAMS:
        raise JobError(f"generate:linear_road has the streams {', '.join(STREAMS)}, and no {stream!r}.")

    def chunks() -> Iterator[pa.RecordBatch]:
        reports = _reports(hours, cars, accidents, seed)
        columns = reports if stream == "reports" else _crossings(reports, stream)
        columns = {"ts": start + columns["ts"] * _SECOND, **{n: c for n, c in columns.items() if n != "ts"}}
        yield pa.RecordBatch.from_pydict(
            {n: pa.array(c).cast(pa.timestamp("us")) if n == "ts" else pa.array(c) for n, c in columns.items()}
        )

    extra = {"reports": ("cid", "xpos", "sid", "speed"), "tolls": ("crossing", "cid", "sid", "toll"),
             "exits": ("crossing", "cid", "sid")}[stream]  # fmt: skip
    schema = pa.schema([("ts", pa.timestamp("us")), *((n, pa.int64()) for n in extra)])
    return Generated(schema, chunks)


def _reports(hours: float, cars: float, accidents: float, seed: int) -> dict[str, Int64s]:
    """By time; times in seconds."""
    rng = np.random.default_rng(seed)
    end = int(hours * 3600)
    car_count = max(1, int(cars * hours * 60))
    enters = np.sort(rng.integers(0, end, car_count))
    stays = np.clip(rng.gamma(3.0, MEAN_MINUTES * 60 / 3.0, car_count), 2 * SECONDS_PER_REPORT, None)
    feet = rng.uniform(55.0, 105.0, car_count)  # a second
    entry = rng.uniform(0, SEGMENTS * MILE / 2, car_count)
    stops = np.where(rng.random(car_count) < accidents, rng.uniform(0.2, 0.6, car_count) * stays, np.inf)
    stands = rng.uniform(180.0, 360.0, car_count)
    counts = (stays // SECONDS_PER_REPORT).astype(np.int64) + 1
    car = np.repeat(np.arange(car_count), counts)
    since = (np.arange(len(car)) - np.repeat(np.cumsum(counts) - counts, counts)) * SECONDS_PER_REPORT
    standing = np.clip(since - stops[car], 0, stands[car])
    position = (entry[car] + feet[car] * (since - np.where(np.isfinite(standing), standing, 0))).astype(np.int64)
    time = enters[car] + since
    speed = np.where((since > stops[car]) & (since < stops[car] + stands[car]), 0, feet[car] * 3600 / MILE)
    there = (time < end) & (position < SEGMENTS * MILE)
    order = np.lexsort((car[there], time[there]))
    values = {"ts": time, "cid": car, "xpos": position, "sid": position // MILE, "speed": speed.astype(np.int64)}
    return {n: np.ascontiguousarray(v[there][order]) for n, v in values.items()}


def _crossings(reports: dict[str, Int64s], stream: str) -> dict[str, Any]:
    """Where a car's report is in another segment than the one before."""
    order = np.lexsort((reports["ts"], reports["cid"]))
    cid, sid, ts, speed = (reports[n][order] for n in ("cid", "sid", "ts", "speed"))
    fresh = np.concatenate([[True], cid[1:] != cid[:-1]])
    moved = fresh | np.concatenate([[True], sid[1:] != sid[:-1]])
    crossing = np.cumsum(moved) - 1
    if stream == "tolls":
        at, numbers = np.flatnonzero(moved), crossing[moved]
        made = {
            "ts": ts[at],
            "crossing": numbers,
            "cid": cid[at],
            "sid": sid[at],
            "toll": np.maximum(0, 60 - speed[at]),
        }
    else:
        at = np.flatnonzero(moved & ~fresh)
        made = {"ts": ts[at], "crossing": crossing[at - 1], "cid": cid[at], "sid": sid[at - 1]}
    by_time = np.lexsort((made["crossing"], made["ts"]))
    return {n: np.ascontiguousarray(c[by_time]) for n, c in made.items()}
