"""Cases that once went wrong, made small, with their answers by hand."""

from __future__ import annotations

from typing import Any

import pytest

from eddyline.testing.cases import Case
from eddyline.testing.reference import StreamData
from tests.semantics.engine import Way, check, run_engine


def row(ts: int, a: int | None = 1) -> tuple[int, dict[str, Any]]:
    return ts, {"ts": ts, "a": a, "b": 0, "x": 0.0, "s": "u"}


@pytest.mark.parametrize(
    ("text", "elements", "expected"),
    [
        # The timestamp does not tell apart two elements of one instant, of which [ROWS 1] keeps one.
        ("SELECT Istream(p.ts) FROM S [ROWS 1] p", [row(0), row(0)], [(0, 0)]),
        ("SELECT Istream(p.ts, p.a) FROM S [ROWS 1] p", [row(0, 1), row(0, 2)], [(0, 2, 0)]),
        ("SELECT Istream(p.ts) FROM S [PARTITION BY a ROWS 1] p", [row(0), row(0)], [(0, 0)]),
        ("SELECT Istream(p.ts, q.ts) FROM S [ROWS 1] p, S [ROWS 1] q", [row(0), row(0)], [(0, 0, 0)]),
    ],
)
def test_rows_that_come_and_go_within_an_instant(text: str, elements: list[Any], expected: list[Any]) -> None:
    case = Case(text, {"S": StreamData(elements)}, {}, "istream")
    assert check(case) is None
    assert [tuple(r.values()) for r in run_engine(case, Way(batch=1)).to_pylist()] == expected
