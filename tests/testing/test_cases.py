"""The generator of random cases and its helpers: deterministic, covering, shrinking."""

from __future__ import annotations

import math
import random

from eddyline.core.window import PartitionRows, Range, Rows, Slide, Unbounded
from eddyline.testing.case_queries import OPERATORS, TO_STREAM, Focus
from eddyline.testing.case_windows import WINDOWS
from eddyline.testing.cases import Case, draw_case
from eddyline.testing.coverage import Coverage, features, window_kind
from eddyline.testing.reference import StreamData, split_late
from eddyline.testing.shrinking import shrink


def test_cases_are_deterministic() -> None:
    a, b = (draw_case(random.Random(7)) for _ in range(2))
    assert a.text == b.text
    assert a.snippet() == b.snippet()


def test_a_snippet_rebuilds_its_case() -> None:
    for seed in range(30):
        case = draw_case(random.Random(seed))
        scope: dict[str, object] = {}
        exec(case.snippet(), scope)
        again = scope["case"]
        assert isinstance(again, Case)
        assert again.snippet() == case.snippet()
        assert again.text == case.text


def test_every_focus_is_met_and_the_binder_refuses_little() -> None:
    met = refused = 0
    focuses = [Focus(o, w, t) for o in OPERATORS for w in WINDOWS for t in TO_STREAM][::3]
    for i, focus in enumerate(focuses):
        case = draw_case(random.Random(i), focus)
        met += (focus.operator, focus.window, focus.to_stream) in case.features()
        refused += len(case.refused)
    assert met > 0.9 * len(focuses)
    assert refused < 0.1 * len(focuses)


def test_coverage_is_driven_to_the_least_covered_cell() -> None:
    coverage, rng = Coverage(), random.Random(1)
    results = 0
    for _ in range(250):
        case = draw_case(rng, coverage.next_focus(rng))
        results = len(case.expected())
        coverage.add(case.features(), results, nulls=case.nulls, ties=case.ties)
    assert coverage.least >= 1
    assert coverage.non_empty_share > 0.6
    assert "mjoin" in coverage.table()


def test_data_have_ties_nulls_disorder_and_late_rows() -> None:
    cases = [draw_case(random.Random(f"data/{i}")) for i in range(60)]
    streams = [data for case in cases for data in case.streams.values()]
    assert sum(case.ties for case in cases) > 50
    assert sum(case.nulls for case in cases) > 50
    late = [len(split_late(data.elements, data.slack)[1]) for data in streams]
    disorder = [data for data in streams if [e[0] for e in data.elements] != sorted(e[0] or 0 for e in data.elements)]
    assert sum(n > 0 for n in late) > len(streams) / 6
    assert len(disorder) > len(streams) / 3
    values = [v for data in streams for _, row in data.elements for v in row.values()]
    assert any(isinstance(v, float) and math.isnan(v) for v in values)


def test_window_kinds() -> None:
    specs = [Rows(1), Range(3), Range(0), Slide(2, 1), PartitionRows(("a",), 1), Unbounded()]
    assert tuple(map(window_kind, specs)) == WINDOWS


def test_features_name_the_operators_above_each_window() -> None:
    rows = [(1, {"ts": 1, "a": 1, "b": 1, "x": 1.0, "s": "u"})]
    data = {"S": StreamData(rows), "T": StreamData(rows)}
    text = "SELECT DISTINCT p.a FROM S [ROWS 2] p WHERE p.a NOT IN (SELECT q.a FROM T [NOW] q)"
    found = features(Case(text, data, {}).bound().plan, "none")
    assert ("antijoin", "rows", "none") in found
    assert ("antijoin", "now", "none") in found
    assert ("duplicate-eliminate", "now", "none") in found
    assert not any(operator == "semijoin" for operator, _, _ in found)


def test_shrinking_keeps_what_matters() -> None:
    rows = [(t, {"ts": t, "a": t % 5, "b": 0, "x": 0.0, "s": "u"}) for t in range(30)]
    case = Case("SELECT a FROM S", {"S": StreamData(rows), "T": StreamData(rows)}, {})

    def fails(c: Case) -> bool:
        return {17, 23} <= {ts for ts, _ in c.streams["S"].elements}

    small = shrink(case, fails)
    assert [ts for ts, _ in small.streams["S"].elements] == [17, 23]
    assert not small.streams["T"].elements
