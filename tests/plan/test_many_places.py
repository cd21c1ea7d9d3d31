"""Named queries that read each other twice: a query of N of them has 2^N places, and planning must not visit each."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed

SOURCES = ("SELECT a, count(*) AS b FROM S [ROWS 3] GROUP BY a", "SELECT a, ts AS b FROM S [ROWS UNBOUNDED]")
STEPS = (
    "SELECT p.a, q.b FROM {0} p, {0} q WHERE p.a = q.a",
    "SELECT a, b FROM {0} UNION SELECT a, b FROM {0}",
    "SELECT a, b FROM {0} WHERE a IN (SELECT a FROM {0})",
)


def text(count: int, source: str, step: str) -> str:
    names = [f"y{i}" for i in range(count + 1)]
    steps = [f"{b} AS ({step.format(a)})" for a, b in pairwise(names)]
    return f"WITH y0 AS ({source}), {', '.join(steps)} SELECT a FROM {names[-1]}"


def calls(count: int, source: str, step: str) -> int:
    """Calls of functions of the planner while the query is registered."""
    session = ed.Session()
    session.stream("S", pa.table({"ts": [1, 2, 3], "a": [1, 2, 1]}), timestamp="ts")
    found = 0

    def noted(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal found
        path = frame.f_code.co_filename
        found += event == "call" and ("eddyline/plan/" in path or "eddyline/cql/" in path)

    query = text(count, source, step)
    sys.setprofile(noted)
    try:
        session.query(query)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("step", STEPS)
def test_planning_visits_each_named_query_a_few_times(source: str, step: str) -> None:
    few, many = calls(10, source, step), calls(14, source, step)
    assert many < 3 * few, f"{few} calls for 10 queries, {many} for 14: twice as many for each would be 16 times"
