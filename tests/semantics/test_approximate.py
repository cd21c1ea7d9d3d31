"""Aggregates with a declared error: random cases with disorder and restarts, and whether the error is kept."""

from __future__ import annotations

import math
import os
import random

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import CqlError
from eddyline.testing.case_queries import CLOSING_TO_STREAM, TO_STREAM, Focus
from eddyline.testing.case_windows import CLOSING_WINDOWS, WINDOWS
from eddyline.testing.cases import draw_case
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = scaled(40, least=20)


@pytest.mark.parametrize("part", range(2))
def test_answers_are_those_of_the_reference(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two hashes kept, so that the few values of a case are estimated and not counted."""
    for place in ("eddyline.operators.sketches", "eddyline.testing.folds"):
        monkeypatch.setattr(f"{place}.hashes_kept", lambda error: 2)
    full = asked = 0
    for i in range(part * CASES // 2, (part + 1) * CASES // 2):
        rng = random.Random(f"approximate/{SEED}/{i}")
        closing = rng.random() < 0.4
        window = rng.choice(CLOSING_WINDOWS if closing else WINDOWS)
        focus = Focus(
            "approximate", window, rng.choice(TO_STREAM if window in (*WINDOWS, "until") else CLOSING_TO_STREAM)
        )
        case = draw_case(rng, focus)
        asked += "approx_" in case.text
        expected = case.expected()
        full += bool(expected)
        seed = rng.randrange(1 << 30)
        for way in (Way(seed, small=True), Way(seed, snapshot=True, encoded=rng.random() < 0.5)):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    assert asked > CASES // 4
    assert full >= CASES // 6


def ask(values: pa.Array, items: str, window: str = "") -> dict[str, float]:
    session = ed.Session()
    session.stream("S", pa.table({"ts": np.arange(len(values)), "x": values}), timestamp="ts")
    found = session.query(f"SELECT {items} FROM S {window}").to_arrow()
    return {n: found[n][-1].as_py() for n in found.column_names}


@pytest.mark.parametrize("error", [0.02, 0.05, 0.2])
def test_distinct_values_keep_the_declared_standard_error(error: float) -> None:
    """Of 80 sets of numbers or texts of different sizes, the root of the mean square is that of the declared error."""
    rng = np.random.default_rng(int(1000 * error))
    errors = []
    for trial in range(80):
        n = int(rng.integers(8_000, 30_000))
        values = rng.choice(1 << 40, n, replace=False)
        k = ed_sketch(values if trial % 4 else values.astype(str), error)
        errors.append(k / n - 1)
    assert math.sqrt(float(np.mean(np.square(errors)))) < 1.2 * error
    assert abs(float(np.mean(errors))) < 0.3 * error  # not biased


def ed_sketch(values: np.ndarray, error: float) -> int:
    from eddyline.expr.approximate import hashes_kept
    from eddyline.operators.sketches import distinct_estimate, value_hashes

    return distinct_estimate(sorted(set(value_hashes(pa.array(values)))), hashes_kept(error))


def test_few_distinct_values_are_counted() -> None:
    values = pa.array([str(i % 300) for i in range(2000)])
    assert ask(values, "approx_count_distinct(x) AS n")["n"] == 300


def test_state_is_bounded_where_nothing_leaves() -> None:
    session = ed.Session()
    session.stream("S", pa.table({"ts": np.arange(20_000), "x": np.arange(20_000)}), timestamp="ts")
    query = session.query("SELECT approx_count_distinct(x, 0.1) AS n, approx_percentile(x, 0.5) AS p FROM S")
    text = query.explain()
    assert "at most 103 hashes a group" in text and "64 buckets from a number to its double" in text
    query.to_arrow()
    (operator,) = [o for o in query.report()["operators"] if o["name"].startswith("aggregate")]
    assert operator["rows"] < 103 + 64 * 16


@pytest.mark.parametrize("error", [0.001, 0.01, 0.25])
@pytest.mark.parametrize("window", ["", "[ROWS 700]"])
def test_percentiles_are_within_the_declared_error(error: float, window: str) -> None:
    rng = np.random.default_rng(7)
    values = np.concatenate([rng.lognormal(0, 8, 900), -rng.lognormal(2, 3, 600), [0.0, math.inf, 1e-300, -1e300]])
    rng.shuffle(values)
    shares = (0, 0.01, 0.25, 0.5, 0.75, 0.99, 1)
    items = ", ".join(f"approx_percentile(x, {p}, {error}) AS p{i}" for i, p in enumerate(shares))
    found = ask(pa.array(values), items, window)
    exact = np.sort(values[-700:] if window else values)
    for i, p in enumerate(shares):
        true = exact[max(1, math.ceil(p * len(exact))) - 1]
        assert found[f"p{i}"] == true or abs(found[f"p{i}"] - true) <= error * abs(true)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("approx_percentile(x, 0.5, 10000)", "not a number of ranks as in Spark"),
        ("approx_percentile(x)", r"as in approx_percentile\(x, 0.95\)"),
        ("approx_percentile(x, 95)", "a share between 0 and 1"),
        ("approx_count_distinct(x, 0)", "between 0.001 and 0.25"),
        ("approx_count_distinct(DISTINCT x)", "takes no DISTINCT"),
    ],
)
def test_what_is_wrong_is_told(call: str, told: str) -> None:
    with pytest.raises(CqlError, match=told):
        ask(pa.array([1.0]), call)
