"""Aggregates above conditions: an instant belongs to a result if the interval that contains it is closed there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.models.test_error_within import run
from tests.models.test_queries import answer, segments

RISING = segments([("a", 0, 10, [0.0, 1.0])])
WINDOW = "SELECT k, {}(x) AS m FROM S [RANGE 2] WHERE {} GROUP BY k {} SAMPLE EVERY 1"


def shown(table: pa.Table, text: str) -> list[tuple[Any, ...]]:
    return [(r["_time"], r["m"]) for r in answer(table, text).to_pylist()]


@pytest.mark.parametrize(
    ("condition", "instants", "covered"),
    [
        ("x < 5", range(5), [2, 3, 4]),
        ("x <= 5", range(6), [2, 3, 4, 5]),
        ("x > 5", range(6, 10), [7, 8, 9]),
        ("x >= 5", range(5, 10), [7, 8, 9]),
        ("x >= 3 AND x <= 5", range(3, 6), [5]),
    ],
)
def test_an_aggregate_is_there_where_its_condition_holds(condition: str, instants: Any, covered: Any) -> None:
    found = shown(RISING, f"SELECT max(x) AS m FROM S WHERE {condition} SAMPLE EVERY 1")
    assert found == [(t, float(t)) for t in instants]
    for function, behind in (("avg", -1.0), ("min", -2.0), ("max", 0.0)):
        found = shown(RISING, WINDOW.format(function, condition, ""))
        assert found == [(t, t + behind) for t in covered]
        begins = shown(RISING, WINDOW.format(function, condition, "PARTIAL"))[0][0]
        # An average needs a part of its window, an extreme an instant of it.
        assert begins == instants[0] + (function == "avg" and condition != "x > 5")


def test_the_smallest_at_an_instant_is_one_that_holds_then() -> None:
    """Conditions on whole numbers turn at ticks; the rows of each tick are those of the condition alone."""
    rng, counted = np.random.default_rng(11), 0
    for _ in range(40):
        rows = []
        for k in range(4):
            t = int(rng.integers(0, 4))
            while t < 30:
                width = int(rng.integers(1, 9))
                c = [float(rng.integers(-4, 5)), float(rng.integers(-2, 3)), float(rng.integers(-1, 2))]
                rows.append((k, t, t + width, c))
                t += width + int(rng.integers(0, 3)) * (rng.random() < 0.3)
        table = segments(sorted(rows, key=lambda r: r[1]), 2)
        one, other = rng.integers(-4, 5, 2)
        condition = str(rng.choice([
            f"x <= {one}", f"x > {one}", f"x <> {one}", f"x >= {one} AND x < {other}", f"x < {one} OR k > 1",
            f"x * x <= {one * one}", f"x <= {one} OR x > {other}",
        ]))  # fmt: skip
        alone: dict[int, list[float]] = {}
        for r in answer(table, f"SELECT k, x FROM S WHERE {condition} SAMPLE EVERY 1").to_pylist():
            alone.setdefault(r["_time"], []).append(r["x"])
        text = f"SELECT min(x) AS low, max(x) AS high FROM S WHERE {condition} SAMPLE EVERY 1"
        both = {r["_time"]: (r["low"], r["high"]) for r in answer(table, text).to_pylist()}
        assert both == {t: pytest.approx((min(v), max(v)), abs=1e-9) for t, v in alone.items()}, condition
        counted += len(both)
    assert counted > 300


def test_a_point_at_which_a_signal_touches_a_bound_counts() -> None:
    table = segments([("a", 0, 10, [25.0, -10.0, 1.0])], 2)
    rows = answer(table, "SELECT min(x) AS m FROM S WHERE NOT x > 0").to_pylist()
    assert [(r["_from"], r["_to"], r["_closed"], r["m_0"]) for r in rows] == [(5.0, 5.0, "[]", 0.0)]


def test_a_root_that_is_rounded_to_a_sample_makes_no_row_certain() -> None:
    """So far from zero two numbers are a quarter of a tick apart: where x is certainly below 3 begins at the sample at
    which it is 3."""
    start = 17 * 10**14
    rows = [
        {"ts": start + t, "k": "a", "x": x, "y": 0.0} for t, x in ((0, 9.0), (3, 3.0), (4, 0.0), (5, -3.0), (6, 9.0))
    ]
    text = "SELECT max(x) AS m FROM S WHERE x < 3 ERROR WITHIN 0.2 SAMPLE EVERY 1"
    found, _, _ = run(text, {"S": rows})
    certain = [r["_time"] - start for r in found.to_pylist() if not r["_uncertain"]]
    assert certain == [4, 5]


def test_a_partial_average_begins_behind_the_first_instant() -> None:
    """There it would be a quotient of nothing by nothing, and was a row without a value."""
    table = segments([("a", 0, 4, [2.0, 0.0]), ("a", 8, 20, [4.0, 0.0])])
    for function, first in (("avg", 2.0), ("sum", 4.0)):
        text = f"SELECT k, {function}(x) AS m FROM S [RANGE 6 SLIDE 2] GROUP BY k PARTIAL"
        assert shown(table, text)[0] == (2, first)
