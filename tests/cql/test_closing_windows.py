"""TUMBLE, HOP, SESSION and UNTIL as they are written, printed and refused; their columns; Wstream."""

from __future__ import annotations

import pytest

from eddyline.core.time import TimeKind
from eddyline.core.window import Hop, Session, Slide, Until, WindowSpec, spelled
from eddyline.plan.logical import Aggregate, ToStream, Window
from eddyline.plan.traverse import walk
from tests.cql.build import bound, error, underlined

SECOND = 1_000_000


def window(text: str) -> WindowSpec:
    (found,) = [n.spec for n in walk(bound(text).plan) if isinstance(n, Window)]
    return found


@pytest.mark.parametrize(
    ("written", "spec"),
    [
        ("[TUMBLE 10]", Hop(10, 10)),
        ("[Tumble 2 minutes]", Hop(120, 120)),
        ("[TUMBLE INTERVAL '10' SECONDS OFFSET 3]", Hop(10, 10, 3)),
        ("[TUMBLE 10 OFFSET -3 seconds]", Hop(10, 10, 7)),
        ("[HOP 60 SECONDS EVERY 2 SECONDS]", Hop(60, 2)),
        ("[HOP 60 EVERY 7 OFFSET 16]", Hop(60, 7, 2)),
        ("[SESSION 10 SECONDS GAP]", Session(10)),
        ("[SESSION 10 GAP PARTITION BY a, S.b, a]", Session(10, ("S.a", "S.b"))),
        ("[UNTIL b]", Until("S.b")),
    ],
)
def test_on_integer_time(written: str, spec: WindowSpec) -> None:
    assert window(f"SELECT count(*) FROM S {written}") == spec


@pytest.mark.parametrize(
    ("written", "spec"),
    [
        ("[TUMBLE 10]", Hop(10 * SECOND, 10 * SECOND)),
        ("[HOP 1 minute EVERY 500 ms OFFSET 100 ms]", Hop(60 * SECOND, SECOND // 2, SECOND // 10)),
        ("[SESSION 1.5 GAP]", Session(3 * SECOND // 2)),
    ],
)
def test_on_timestamps(written: str, spec: WindowSpec) -> None:
    assert window(f"SELECT count(*) FROM P {written}") == spec


@pytest.mark.parametrize("kind", list(TimeKind))
@pytest.mark.parametrize(
    "spec",
    [
        Slide(90 * SECOND, SECOND // 2),
        Hop(10 * SECOND, 10 * SECOND),
        Hop(7, 7, 3),
        Hop(60 * SECOND, 2 * SECOND),
        Hop(3_600 * SECOND, 60 * SECOND, 1_500),
        Session(10 * SECOND),
    ],
)
def test_what_is_printed_means_the_same(spec: WindowSpec, kind: TimeKind) -> None:
    source = "P" if kind is TimeKind.TIMESTAMP else "S"
    assert window(f"SELECT count(*) FROM {source} {spelled(spec, kind)}") == spec


def test_columns_and_partitions_are_printed_with_their_stream() -> None:
    for spec in (Session(9, ("S.a", "S.b")), Until("S.b")):
        assert window(f"SELECT count(*) FROM S {spec}") == spec


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SELECT a FROM S [HOP 10]", "expected EVERY and how far windows are apart", "]"),
        ("SELECT a FROM S [HOP 10 EVERY 0]", "EVERY must be larger than 0", "0"),
        ("SELECT a FROM S [TUMBLE 0]", "the width of a window must be larger than 0", "0"),
        ("SELECT a FROM S [TUMBLE -5]", "the width of a window must be larger than 0", "-5"),
        ("SELECT a FROM S [TUMBLE]", "expected a number", "]"),
        ("SELECT a FROM S [SESSION GAP 10]", "GAP stands behind its length: [SESSION 10 SECONDS GAP", "10"),
        ("SELECT a FROM S [SESSION 10]", "expected GAP after its length", "]"),
        ("SELECT a FROM S [SESSION 0 GAP]", "the gap of a session must be larger than 0", "0"),
        ("SELECT a FROM S [SESSION 5 GAP PARTITION BY missing]", "unknown column 'missing'", "missing"),
        ("SELECT a FROM S [SESSION 5 GAP PARTITION BY 3]", "PARTITION BY takes columns", "3"),
        ("SELECT a FROM S [UNTIL 5]", "UNTIL takes one column of the stream", "5"),
        ("SELECT a FROM S [UNTIL name]", "UNTIL needs an integer, as the stream's time is", "[UNTIL name]"),
        ("SELECT a FROM S [UNTIL missing]", "unknown column 'missing'", "missing"),
        ("SELECT a FROM S [TUMBL 5]", "a window starts with ROWS, RANGE, NOW, PARTITION BY, TUMBLE", "TUMBL"),
        ("SELECT window_start FROM S [RANGE 5]", "window_start is a column of TUMBLE, HOP, SESSION", "window_start"),
        ("SELECT S.window_end FROM S [ROWS 2], R [TUMBLE 5]", "and S has none of them", "S.window_end"),
        ("SELECT window_end FROM S [TUMBLE 5], R [TUMBLE 5]", "the column 'window_end' is ambiguous", "window_end"),
        ("SELECT Wstream(a) FROM S [RANGE 5]", "Wstream shows each window when it closes", "Wstream(a)"),
        ("SELECT Wstream(a) FROM (SELECT Istream(a) FROM S [TUMBLE 5]) [ROWS 3]", "no window here does", "Wstream(a)"),
        ("SELECT a, Wstream(b) FROM S [TUMBLE 5]", "Wstream(…) encloses the whole select list", "Wstream(b)"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, message: str, place: str) -> None:
    found = error(text)
    assert message in found.message
    assert underlined(found) == place


def test_a_star_does_not_bring_the_columns_of_a_window() -> None:
    assert bound("SELECT * FROM S [TUMBLE 5]").plan.schema.names == ("a", "b", "name", "t")
    assert bound("SELECT x.*, window_end FROM S [TUMBLE 5] x").plan.schema.names[-2:] == ("t", "window_end")


def test_a_column_of_the_stream_itself_comes_first() -> None:
    inner = "(SELECT Istream(a AS window_end) FROM S)"
    (found,) = [n for n in walk(bound(f"SELECT window_start, window_end FROM {inner} [TUMBLE 5] x").plan)
                if isinstance(n, Window) and n.columns]  # fmt: skip
    assert [c.name for c in found.columns] == ["x.window_start"]


def test_windows_columns_imply_grouping_and_join() -> None:
    plan = bound("SELECT window_end, count(*) FROM S [TUMBLE 5]").plan
    (aggregate,) = [n for n in walk(plan) if isinstance(n, Aggregate)]
    assert [n for n, _ in aggregate.keys] == ["S.window_end"]
    using = "SELECT window_end, S.a FROM S [TUMBLE 5] JOIN R [TUMBLE 5] USING (window_end)"
    assert bound(using).plan.schema.names == ("window_end", "a")


@pytest.mark.parametrize(
    "text", ["Wstream(SELECT a FROM S [TUMBLE 5])", "SELECT Wstream(DISTINCT a) FROM S [TUMBLE 5]"]
)
def test_wstream_encloses_a_query_or_its_list(text: str) -> None:
    plan = bound(text).plan
    assert isinstance(plan, ToStream) and plan.kind == "wstream"
