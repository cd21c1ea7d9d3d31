"""Traffic of Linear Road."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.core.errors import JobError
from eddyline.datasets.linear_road import MILE, SECONDS_PER_REPORT, linear_road
from eddyline.datasets.registry import generate


def test_many_more_cars_are_seen_than_are_on_the_road() -> None:
    reports = linear_road(cars=6).table()
    time, car = reports["ts"].cast("int64").to_numpy() // 1_000_000, reports["cid"].to_numpy()
    assert (np.diff(time) >= 0).all() and time[-1] - time[0] > 3 * 3600 - 300
    active = [
        len(np.unique(car[(time > t - SECONDS_PER_REPORT) & (time <= t)])) for t in range(time[0] + 1800, time[-1], 900)
    ]
    assert len(np.unique(car)) / np.mean(active) >= 15
    assert (reports["sid"].to_numpy() == reports["xpos"].to_numpy() // MILE).all()


def test_some_cars_stand_still_for_four_reports() -> None:
    reports = linear_road(cars=20, accidents=0.05).table().to_pandas()
    still = reports.groupby("cid")["xpos"].apply(lambda x: (x.rolling(4).max() == x.rolling(4).min()).any())
    assert 0.01 < still.mean() < 0.08


def test_a_toll_comes_before_its_exit() -> None:
    tolls, exits = (linear_road(s, hours=1.0).table() for s in ("tolls", "exits"))
    entered = dict(zip(tolls["crossing"].to_pylist(), tolls["ts"].to_pylist(), strict=True))
    assert len(entered) == len(tolls) > len(exits) == len(set(exits["crossing"].to_pylist()))
    left = list(zip(exits["crossing"].to_pylist(), exits["ts"].to_pylist(), strict=True))
    assert all(entered[c] < t for c, t in left)


def test_by_name() -> None:
    assert generate("linear_road", {"stream": "exits", "hours": "0.2"}).schema.names == ["ts", "crossing", "cid", "sid"]
    with pytest.raises(JobError, match="has the streams reports, tolls, exits, and no 'cars'"):
        generate("linear_road", {"stream": "cars"})
