"""The average of a distance: lines within a certified error of the root."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.models.linearising import LINE_ERROR_SHARE, linearised, with_rounding
from eddyline.models.pieces import LOW_CLOSED, Pieces, Value


def test_lines_are_within_their_error_of_the_root() -> None:
    rng = np.random.default_rng(4)
    n = 200
    a, b = rng.normal(size=(2, n, 2)) * [5.0, 1.0]  # dx and dy are linear: the root is their distance
    near = rng.random(n) < 0.3
    b[near] = a[near] * rng.normal(size=(int(near.sum()), 1))  # through the origin: a kink
    c = np.column_stack(
        [a[:, 0] ** 2 + b[:, 0] ** 2, 2 * (a[:, 0] * a[:, 1] + b[:, 0] * b[:, 1]), a[:, 1] ** 2 + b[:, 1] ** 2]
    )
    low = rng.integers(0, 5, n).astype(float)
    high = low + rng.integers(1, 60, n)
    pieces = Pieces(
        low, high, np.full(n, LOW_CLOSED, np.uint8), low, {"d": Value(c, root=True, error=np.zeros((n, 1)))},
        {"n": pa.array(np.arange(n))},
    )  # fmt: skip
    found = linearised(pieces, "d", 1.0)
    assert len(found) < 300 * n
    source = found.columns["n"].to_numpy()
    error = found.values["d"].error
    assert error is not None
    for share in (0.0, 0.2, 0.5, 0.71, 1.0):
        t = found.low + share * (found.high - found.low)
        x = t - found.base
        truth = np.hypot(a[source, 0] + a[source, 1] * x, b[source, 0] + b[source, 1] * x)
        away = np.abs(found.values["d"].at(x) - truth)
        assert (away <= error[:, 0] + 1e-9).all()
        assert (away <= 2.1 * LINE_ERROR_SHARE * np.maximum(1.0, truth.max())).all()
    covered = np.bincount(source, weights=found.high - found.low)
    assert covered == pytest.approx(high - low)


def test_what_rounding_makes_of_a_root_near_zero_is_part_of_its_error() -> None:
    """(a − t)² far from its base: its terms are 10¹⁰ times as large as what is left of them."""
    rng = np.random.default_rng(6)
    n = 500
    a = 1e5 + rng.random(n)
    low = np.floor(a) - rng.integers(1, 9, n)
    high = low + rng.integers(9, 20, n)
    value = Value(np.column_stack([a * a, -2.0 * a, np.ones(n)]), root=True, error=np.zeros((n, 1)))
    pieces = Pieces(low, high, np.full(n, LOW_CLOSED, np.uint8), np.zeros(n), {"d": value}, {})
    found = with_rounding(pieces, "d", 1.0).values["d"]
    assert found.error is not None
    worst = 0.0
    for t in (a, a + 1e-4, a - 0.5, low, high):
        away = np.abs(found.at(t) - np.abs(a - t))
        assert (away <= found.error[:, 0]).all()
        worst = max(worst, float((away / found.error[:, 0]).max()))
    assert worst > 0.05  # the error is not out of all proportion


def test_the_average_of_a_distance() -> None:
    rows: list[dict[str, Any]] = [{"ts": t, "k": "a", "x": 0.5 * t - 20.0, "y": 3.0} for t in range(81)]
    session = ed.Session()
    session.stream("S", rows, timestamp="ts")
    query = session.query(
        "SELECT k, avg(sqrt(x * x + y * y)) AS d FROM S [RANGE 10 SLIDE 10] GROUP BY k ERROR WITHIN 0.1"
    )
    found = {r["_time"]: r for r in query.to_arrow().to_pylist()}
    fine = np.linspace(0, 80, 80_001)
    distance = np.hypot(0.5 * fine - 20.0, 3.0)
    assert len(found) == 8
    for t, row in found.items():
        window = (fine >= t - 10) & (fine <= t)
        assert abs(row["d"] - distance[window].mean()) <= 0.1
        assert not row["_uncertain"]


def test_other_roots_are_refused() -> None:
    session = ed.Session()
    session.stream("S", [{"ts": 1, "k": "a", "x": 1.0}], timestamp="ts")
    with pytest.raises(ed.CqlError, match="square root of a quadratic polynomial"):
        session.query("SELECT k, avg(sqrt(x * x * x)) AS d FROM S [RANGE 5] GROUP BY k ERROR WITHIN 1")
    with pytest.raises(ed.CqlError, match="aggregate its square"):
        session.query("SELECT k, avg(sqrt(power(x, 4))) AS d FROM S [RANGE 5] GROUP BY k ERROR WITHIN 1")
