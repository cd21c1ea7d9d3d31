"""Windows: every way to write them, and what is refused."""

from __future__ import annotations

import pytest

from eddyline.core.window import PartitionRows, Range, Rows, Slide, Unbounded, WindowSpec
from eddyline.plan.logical import Window
from eddyline.plan.traverse import walk
from tests.cql.build import bound, error, underlined


def window(text: str) -> WindowSpec:
    (found,) = [n.spec for n in walk(bound(text).plan) if isinstance(n, Window)]
    return found


@pytest.mark.parametrize(
    ("written", "spec"),
    [
        ("S [Rows 1000]", Rows(1000)),
        ("S [ROWS 10,000]", Rows(10_000)),
        ("S [ROWS 1,000,000]", Rows(1_000_000)),
        ("S [Rows Unbounded]", Unbounded()),
        ("S [Range Unbounded]", Unbounded()),
        ("S", Unbounded(implicit=True)),
        ("S [Now]", Range(0)),
        ("S [RANGE 0]", Range(0)),
        ("S [Range 30]", Range(30)),
        ("S [Range 2 Minutes]", Range(120)),
        ("S [Range '30' SECONDS]", Range(30)),
        ("S [Range '30 seconds']", Range(30)),
        ("S [RANGE INTERVAL '2' HOUR]", Range(7200)),
        ("S [RANGE 1,500 seconds]", Range(1500)),
        ("S [Range 10 minutes Slide 1 minute]", Slide(600, 60)),
        ("S [Range 10 Slide 3]", Slide(10, 3)),
        ("S[size 10 advance 2]", Slide(10, 2)),
        ("S [size 1 minute advance 10 seconds]", Slide(60, 10)),
        ("S [size 10]", Range(10)),
        ("stream S[size 10 advance 2]", Slide(10, 2)),
        ("S x [Rows 5]", Rows(5)),
        ("S [Rows 5] x", Rows(5)),
        ("S [Rows 5] AS x", Rows(5)),
        ("S AS x [Rows 5]", Rows(5)),
        ("S as x[size 10 advance 1]", Slide(10, 1)),
        ("(S [Rows 5]) AS x", Rows(5)),
        ("(S) [Rows 5] AS x", Rows(5)),
        ("S [PARTITION BY a, B ROWS 5]", PartitionRows(("S.a", "S.b"), 5)),
        ("S AS x [Partition By x.name Rows 5]", PartitionRows(("x.name",), 5)),
        ("S WINDOW 10000", Rows(10_000)),
        ("S WINDOW 30 seconds", Range(30)),
        ("S WHERE a > 3 WINDOW 10,000", Rows(10_000)),
    ],
)
def test_on_integer_time(written: str, spec: WindowSpec) -> None:
    assert window(f"SELECT count(*) FROM {written}") == spec


@pytest.mark.parametrize(
    ("written", "spec"),
    [
        ("[RANGE 30]", Range(30_000_000)),
        ("[RANGE 1.5]", Range(1_500_000)),
        ("[RANGE 250 ms]", Range(250_000)),
        ("[RANGE 7 microseconds]", Range(7)),
        ("[RANGE 1 week]", Range(604_800_000_000)),
        ("[RANGE 1 day SLIDE 1 hour]", Slide(86_400_000_000, 3_600_000_000)),
        ("[size 10 advance 2]", Slide(10_000_000, 2_000_000)),
        ("[ROWS 30]", Rows(30)),
    ],
)
def test_on_timestamps(written: str, spec: WindowSpec) -> None:
    assert window(f"SELECT count(*) FROM P {written}") == spec


def test_the_suffix_is_for_streams_without_a_window() -> None:
    plan = bound("SELECT * FROM S, R [ROWS 3], T WHERE S.a = R.a AND S.a = T.a WINDOW 30 seconds").plan
    assert [n.spec for n in walk(plan) if isinstance(n, Window)] == [Range(30), Rows(3)]


def test_the_suffix_reaches_subqueries() -> None:
    plan = bound("SELECT * FROM (SELECT a FROM S) x WHERE a IN (SELECT a FROM R) WINDOW 10").plan
    assert [n.spec for n in walk(plan) if isinstance(n, Window)] == [Rows(10), Rows(10)]


@pytest.mark.parametrize(
    ("written", "message", "place"),
    [
        ("S [ROWS 0]", "ROWS needs a whole number larger than 0, and it is 0", "0"),
        ("S [ROWS -5]", "ROWS needs a whole number larger than 0", "-5"),
        ("S [ROWS 1.5]", "ROWS needs a whole number", "1.5"),
        ("S [PARTITION BY a ROWS 0]", "ROWS needs a whole number", "0"),
        ("S [PARTITION BY zz ROWS 1]", "unknown column 'zz'", "zz"),
        ("S [RANGE -1]", "must not be negative", "-1"),
        ("S [RANGE 5 SLIDE 0]", "SLIDE must be larger than 0", "0"),
        ("S [size 5 advance 0]", "advance must be larger than 0", "0"),
        ("S [RANGE 0 SLIDE 5]", "always empty", "0"),
        ("S [ROWS 5 SLIDE 2]", "[ROWS n SLIDE m] is not supported", "SLIDE"),
        ("S [RANGE 500 ms]", "not a whole number of ticks", "500 ms"),
        ("S [RANGE 5 secnds]", "unknown unit 'secnds'. Did you mean 'seconds'?", "secnds"),
        ("S [RANGE 5 parsecs]", "unknown unit 'parsecs'", "parsecs"),
        ("S [RANGE]", "expected a number, but found ']'", "]"),
        ("S [ROWZ 5]", "Did you mean 'ROWS'", "ROWZ"),
        ("S []", "a window starts with ROWS", "]"),
        ("S [ROWS 5", "expected ']' at the end of the window, but the text ends here", None),
        ("S [ROWS 5 foo]", "expected ']' at the end of the window, but found 'foo'", "foo"),
        ("S [ROWS 5] x [ROWS 3]", "its second", "["),
        ("(S [ROWS 5]) [ROWS 3]", "its second", "[ROWS 3]"),
        ("T [ROWS 5]", "T is a relation, and a window needs a stream", "[ROWS 5]"),
        ("S, T [ROWS 5]", "T is a relation", "[ROWS 5]"),
    ],
)
def test_refused(written: str, message: str, place: str | None) -> None:
    e = error(f"SELECT count(*) FROM {written}")
    assert message in e.message
    if place is not None:
        assert underlined(e) == place


@pytest.mark.parametrize("window", ["[RANGE 5 SECONDS]", "[ROWS 5]", "[NOW]", "[PARTITION BY a ROWS 1]", "[TUMBLE 3]"])
def test_a_window_behind_a_condition_is_shown_its_place(window: str) -> None:
    e = error(f"SELECT a FROM S WHERE a = b {window}")
    assert "a window stands in FROM, behind the stream or the query that it is for" in e.message
    assert underlined(e) in window


@pytest.mark.parametrize("index", ["1", "size", "range"])
def test_an_index_in_brackets_is_no_window(index: str) -> None:
    assert "an index in brackets is not supported" in error(f"SELECT a[{index}] FROM S").message
