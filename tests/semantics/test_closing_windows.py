"""TUMBLE, HOP, SESSION and UNTIL, their columns and ``Wstream``, against the reference: random cases as for the others.

``EDDYLINE_CASES`` scales their number (1 is 100, and a deep run has 2,000), ``EDDYLINE_SEED`` moves to other ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from eddyline.operators.fresh_aggregate import FreshAggregate
from eddyline.operators.session_window import SessionWindow
from eddyline.operators.until_window import UntilWindow
from eddyline.operators.window_columns import ElementColumns, WindowColumns
from eddyline.operators.wstream import WStream
from eddyline.testing.case_queries import CLOSING_TO_STREAM, Focus
from eddyline.testing.case_windows import CLOSING_WINDOWS
from eddyline.testing.cases import draw_case
from eddyline.testing.coverage import Coverage
from tests.scale import scaled
from tests.semantics.engine import mismatch, run_engine
from tests.semantics.test_against_reference import SEED, explain_failure, ways

CASES = scaled(100, least=10, most=20)
PARTS = 20
COVERED = Coverage(windows=CLOSING_WINDOWS, to_stream=CLOSING_TO_STREAM)
EDGES = {"window_start or window_end": 0, "snapshots": 0}
OPERATORS = (SessionWindow, UntilWindow, ElementColumns, WindowColumns, WStream, FreshAggregate)
BUILT = dict.fromkeys((o.__name__ for o in OPERATORS), 0)


@pytest.fixture(autouse=True)
def count_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    for operator in OPERATORS:
        monkeypatch.setattr(operator, "__init__", counted(operator.__name__, operator.__init__))


def counted(name: str, make: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        BUILT[name] += 1
        make(self, *args, **kwargs)

    return init


def one_case(number: int) -> None:
    rng = random.Random(f"{SEED}/closing/{number}")
    case = draw_case(rng, COVERED.next_focus(rng))
    reference = case.reference()
    expected = reference.run()
    late = any(reference.late.values())
    COVERED.add(case.features(), len(expected), late=late, nulls=case.nulls, ties=case.ties)
    EDGES["window_start or window_end"] += "window_" in case.text
    for way in ways(rng):
        EDGES["snapshots"] += way.snapshot
        if mismatch(case, expected, run_engine(case, way)) is not None:
            pytest.fail(explain_failure(case, way, f"{SEED}/closing/{number}"), pytrace=False)


@pytest.mark.parametrize("part", range(PARTS))
def test_engine_agrees_with_the_reference(part: int) -> None:
    for i in range(part * CASES // PARTS, (part + 1) * CASES // PARTS):
        one_case(i)


def test_the_cases_cover_the_windows() -> None:
    if not COVERED.cases:
        pytest.fail("run the whole file: coverage is counted by the tests above")
    print(COVERED.table(), EDGES, BUILT)
    assert COVERED.non_empty_share >= 0.5
    assert COVERED.late >= 0.3 * COVERED.cases
    assert COVERED.least >= COVERED.cases // 400
    assert min(EDGES.values()) >= 0.2 * COVERED.cases
    assert min(BUILT.values()) >= 0.01 * COVERED.cases, BUILT


def test_groups_of_windows_that_close() -> None:
    """Aggregates by edges, and below Wstream: those that are made afresh for each window, too."""
    before, cases = BUILT["FreshAggregate"], scaled(40, least=20, most=20)
    for i in range(cases):
        rng = random.Random(f"{SEED}/groups/{i}")
        focus = Focus(
            "aggregate", rng.choice(CLOSING_WINDOWS[:3]), rng.choice(["wstream", "wstream", "istream", "none"])
        )
        case = draw_case(rng, focus)
        expected = case.expected()
        for way in ways(rng):
            if mismatch(case, expected, run_engine(case, way)) is not None:
                pytest.fail(explain_failure(case, way, f"{SEED}/groups/{i}"), pytrace=False)
    assert BUILT["FreshAggregate"] - before > 0.3 * cases
