"""Moving objects: straight legs, the dials, and the same stream each time."""

from __future__ import annotations

import numpy as np
import pytest

import eddyline as ed
from eddyline.core.errors import JobError
from eddyline.datasets.moving import moving


def test_legs_are_lines_and_dials_turn() -> None:
    table = moving(objects=5, seconds=200, rate=500, leg=10, seed=3).table()
    assert table.num_rows == 100_000
    segments = ed.fit(table, key="id", time="ts", value=["x", "y"], error=0.01)
    legs = 5 * 200 / 10
    assert 0.6 * legs < segments.num_rows < 1.5 * legs
    speed = np.hypot(table["vx"].to_numpy(), table["vy"].to_numpy())
    assert 8 < speed.mean() < 32
    noisy = moving(objects=5, seconds=200, rate=500, leg=10, noise=2.0, seed=3).table()
    off = noisy["x"].to_numpy() - table["x"].to_numpy()
    assert 1.9 < off.std() < 2.1
    assert noisy.equals(moving(objects=5, seconds=200, rate=500, leg=10, noise=2.0, seed=3).table())


def test_a_job_can_generate_them() -> None:
    session = ed.Session()
    session.stream("S", "generate:moving?objects=3&seconds=2&rate=30", timestamp="ts")
    assert session.query("SELECT Istream(id, x) FROM S").to_arrow().num_rows == 60
    with pytest.raises(JobError, match="rate above 0"):
        moving(rate=0)
