"""Division of modelled values: by zero the query stops where the quotient would be part of an answer, as on tuples."""

from __future__ import annotations

from typing import Any

import pytest

import eddyline as ed

SAMPLES = [{"ts": t, "k": k, "x": float(t + k)} for t in range(20) for k in (0, 1, 2)]
WITHIN = " ERROR WITHIN 1 BY (k) SAMPLE EVERY 5"
REFUSED = [
    "SELECT k, x / k AS z FROM S",
    "SELECT k, x FROM S WHERE x / k > 1",
    "SELECT k, x FROM S WHERE NOT x / k > 1",
    "SELECT k, x FROM S WHERE x > 3 / k",
    "SELECT k, avg(x / k) AS m FROM S [RANGE 5] GROUP BY k",
    "SELECT min(x / k) AS m FROM S",
    "SELECT k, 3 / k AS c, x FROM S",
    "SELECT a.k, a.x / b.k + b.x AS z FROM S a JOIN S b ON a.k = b.k",
]
GUARDED = [
    "SELECT k, x / k AS z FROM S WHERE k <> 0",
    "SELECT k, x FROM S WHERE x / k > 1 AND k <> 0",
    "SELECT k, x FROM S WHERE (k <> 0 AND x / k > 1) OR (k = 0 AND x > 100)",
    "SELECT k, avg(x / k) AS m FROM S [RANGE 5] WHERE k <> 0 GROUP BY k",
    "SELECT k, x / k AS z FROM S WHERE x - k > 1 AND k > 0.5",
]


def answer(text: str, how: str) -> list[dict[str, Any]]:
    session = ed.Session()
    if how == "segments":
        session.stream("S", ed.fit(SAMPLES, key="k", time="ts", value="x", error=0.1))
        return list(session.query(text + " SAMPLE EVERY 5").to_arrow().to_pylist())
    session.stream("S", SAMPLES, timestamp="ts")
    return list(session.query(text + WITHIN, models=how).to_arrow().to_pylist())


@pytest.mark.parametrize("how", ["segments", "always", "never"])
@pytest.mark.parametrize("text", REFUSED)
def test_by_zero_the_query_stops(text: str, how: str) -> None:
    with pytest.raises(ed.DataError, match=r"division by zero in '.*', where k = 0: leave such signals out"):
        answer(text, how)


@pytest.mark.parametrize("how", ["segments", "always", "never"])
@pytest.mark.parametrize("text", GUARDED)
def test_what_a_condition_leaves_out_is_not_divided(text: str, how: str) -> None:
    rows = answer(text, how)
    assert {r["k"] for r in rows} == {1, 2}
    for row in rows:
        if "z" in row:
            assert row["z"] == pytest.approx((row["_time"] + row["k"]) / row["k"], abs=1.0)


def test_a_sweep_divides_what_its_condition_leaves_over() -> None:
    segments = ed.fit(SAMPLES, key="k", time="ts", value="x", error=0.1)
    with pytest.raises(ed.DataError, match="division by zero"):
        ed.sweep("SELECT k, x / k AS z FROM S WHERE x > :limit", {"S": segments}, {"limit": [3, 50]})
    assert ed.sweep("SELECT k, x / k AS z FROM S WHERE x > :limit", {"S": segments}, {"limit": [50]}).num_rows == 0


def test_a_constant_zero_is_refused_when_the_query_is_planned() -> None:
    with pytest.raises(ed.CqlError, match=r"'S\.x / 0\.0' divides by zero"):
        answer("SELECT k, x / 0 AS z FROM S", "segments")
