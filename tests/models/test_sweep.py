"""Sweeps: for each row of parameters the results of the query with these values written into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.core.errors import JobError
from eddyline.engine import sweep as sweeping


def segments(seed: int, degree: int = 1, timestamps: bool = False) -> pa.Table:
    """Walks of a few keys, with a gap, and values that stay for a while on round numbers, which thresholds meet."""
    rng = np.random.default_rng(seed)
    n = 600
    ts = np.cumsum(rng.integers(1, 4, n) + 300 * (rng.random(n) < 0.01))
    x = np.round(np.cumsum(rng.normal(size=n)) * 2) / 2
    x = np.where(rng.random(n) < 0.5, np.repeat(x[::20], 20)[:n], x)
    stamp = pa.array(ts * 1_000_000, pa.timestamp("us")) if timestamps else pa.array(ts)
    table = pa.table({"ts": stamp, "k": rng.integers(0, 3, n).astype(str), "x": x, "y": np.sin(ts / 50)})
    gap: Any = "100 seconds" if timestamps else 100
    return ed.fit(table, key="k", time="ts", value=["x", "y"], error=0.25, degree=degree, max_gap=gap)


def one_by_one(text: str, table: pa.Table, parameters: dict[str, list[float]]) -> list[tuple[Any, ...]]:
    found = []
    for values in zip(*parameters.values(), strict=True):
        written = text
        for name, value in zip(parameters, values, strict=True):
            written = written.replace(f":{name}", f"{value:.17g}" if value >= 0 else f"({value:.17g})")
        session = ed.Session()
        session.stream("S", table)
        for row in session.query(written).to_arrow().to_pylist():
            found.append((*values, *(row[n] for n in row if n != "_time" or "_from" not in row)))
    return sorted(found, key=repr)


def swept(text: str, table: pa.Table, parameters: dict[str, list[float]]) -> list[tuple[Any, ...]]:
    found = ed.sweep(text, {"S": table}, parameters)
    order = [*parameters, *(n for n in found.column_names if n not in parameters and n != "_time")]
    order += [n for n in found.column_names if n == "_time"]
    return sorted((tuple(row[n] for n in order) for row in found.to_pylist()), key=repr)


LINES = [
    "SELECT k, x FROM S WHERE x > :c",
    "SELECT k, x, y FROM S WHERE :c >= x",
    "SELECT k, 2 * x - y AS z FROM S WHERE x - y < :c",
    "SELECT k, x FROM S WHERE x <= :c",
]
OTHERS = [
    ("SELECT k, x FROM S WHERE x = :c", 1),
    ("SELECT k, x FROM S WHERE x > :c AND y < 0.5", 1),
    ("SELECT k, x + :c AS moved FROM S WHERE x * x > :c", 2),
    ("SELECT k, x FROM S WHERE x > :c SAMPLE EVERY 7", 1),
    ("SELECT k, avg(x) AS m FROM S [RANGE 60 SLIDE 5] GROUP BY k HAVING avg(x) > :c", 1),
    ("SELECT k, min(sqrt(x * x + y * y)) AS m FROM S [RANGE 60 SLIDE 5] GROUP BY k HAVING max(sqrt(x * x)) > :c", 1),
    ("SELECT min(x) AS m FROM S WHERE y < :c", 1),
]


@pytest.mark.parametrize("timestamps", [False, True])
@pytest.mark.parametrize("text", LINES)
def test_lines_against_the_query_one_by_one(text: str, timestamps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    kernel = sweeping.sweep_lines
    monkeypatch.setattr(sweeping, "sweep_lines", lambda *a: calls.append(1) or kernel(*a))
    for seed in range(3):
        table = segments(seed, timestamps=timestamps)
        parameters: dict[str, list[float]] = {"c": [-3.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.7, 99.0]}
        found = swept(text, table, parameters)
        assert found == one_by_one(text, table, parameters)
        assert len(found) > 50
    assert len(calls) == 3


@pytest.mark.parametrize(("text", "degree"), OTHERS)
def test_other_queries_against_the_query_one_by_one(text: str, degree: int) -> None:
    table = segments(7, degree=degree)
    parameters: dict[str, list[float]] = {"c": [-2.0, 0.0, 0.5, 1.5]}
    found = swept(text, table, parameters)
    assert found == one_by_one(text, table, parameters)
    assert len(found) > 5


def test_two_parameters_and_a_window() -> None:
    table = segments(5)
    text = "SELECT k, avg(x) AS m FROM S [RANGE :w SLIDE 20] GROUP BY k HAVING avg(x) > :c"
    parameters: dict[str, list[float]] = {"w": [20, 40, 40], "c": [0.0, 0.0, 1.0]}
    found = swept(text, table, parameters)
    assert found == one_by_one(text, table, parameters)
    assert {row[0] for row in found} == {20.0, 40.0}


def test_results_come_in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = segments(2)
    pq.write_table(table, tmp_path / "s.parquet")
    parameters = {"c": np.linspace(-3, 3, 9).tolist()}
    whole = ed.sweep(LINES[0], {"S": table}, parameters)
    monkeypatch.setattr(sweeping, "RESULT_ROWS_AT_ONCE", 2 * table.num_rows)
    parts = ed.sweep(LINES[0], {"S": str(tmp_path / "s.parquet")}, pa.table(parameters))
    assert parts.num_rows == whole.num_rows and parts.to_pylist() == whole.to_pylist()
    assert parts["c"].num_chunks == 5


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("SELECT k, x FROM S WHERE x > :c", {"d": [1]}, "no parameter :d"),
        ("SELECT k, x FROM S WHERE x > :c", {}, "columns of numbers by name"),
        ("SELECT k, x FROM S WHERE x > :c AND y < :d", {"c": [1]}, "the parameter :d has no values"),
        ("SELECT k, x FROM S WHERE x > :c AND y < :d", {"c": [1], "d": [1, 2]}, "same number of values"),
        ("SELECT k, x FROM S WHERE x > :c", {"c": ["high"]}, "must be numbers"),
        ("SELECT k, x FROM S WHERE x > :c", {"c": [float("nan")]}, "finite"),
        ("SELECT k, x FROM S WHERE x > :c AND z > 1", {"c": [1]}, "z"),
        ("SELECT k, x FROM S WHERE x > :c", {"c": [[1, 2], [3, 4]]}, "are one list of numbers"),
        ("SELECT k, x FROM S WHERE x > :c SAMPLE EVERY 5 PREDICT", {"c": [1]}, "leave PREDICT out"),
    ],
)
def test_refusals(text: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        ed.sweep(text, {"S": segments(1)}, parameters)


def test_streams_have_names() -> None:
    with pytest.raises(JobError, match="streams are segment tables by name"):
        ed.sweep("SELECT k, x FROM S WHERE x > :c", [segments(1)], {"c": [1]})  # type: ignore[arg-type]


def test_tuples_are_refused() -> None:
    with pytest.raises(JobError, match="queries on models"):
        ed.sweep("SELECT Istream(x) FROM S WHERE x > :c", {"S": pa.table({"ts": [1], "x": [1.0]})}, {"c": [1]})
