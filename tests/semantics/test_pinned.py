"""The pinned semantics sentence by sentence: time, closing, order and lateness, windows.

Every answer is worked out by hand from the sentence above it; ``ask`` holds engine and reference to it alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.core.errors import CqlError
from eddyline.testing import ManualClock
from tests.semantics.both import INT, SECOND, TIMESTAMP, Answer, Relation, Stream, ask, rows_of

STAMPED = {"ts": TIMESTAMP}
SCHEMA = pa.schema([("ts", INT), ("a", INT)])


def session(slack: int = 0, **options: Any) -> eddyline.Session:
    """Two pushed streams of integer time; ``slack`` is T's."""
    made = eddyline.Session(**options)
    made.stream("S", schema=SCHEMA, timestamp="ts")
    made.stream("T", schema=SCHEMA, timestamp="ts", slack=slack, idle=10)
    return made


def push(s: eddyline.Session, name: str, *rows: tuple[int | None, int]) -> None:
    s.push(name, pa.RecordBatch.from_pylist([{"ts": t, "a": a} for t, a in rows], SCHEMA))


def fetch(query: Any) -> Answer:
    return rows_of(pa.Table.from_batches(query.fetch(), query.schema))


# -- Time ----------------------------------------------------------------------------------------------------------


def test_one_tick_of_an_integer_time_is_one_unit() -> None:
    assert ask("SELECT Dstream(a) FROM S [RANGE 2]", S=[(1, 10), (9, 90)]) == [(4, 10)]


def test_one_tick_of_a_timestamp_is_a_microsecond() -> None:
    elements = Stream([(1, 10), (9, 90)], types=STAMPED)
    assert ask("SELECT Dstream(a) FROM S [RANGE 2 MICROSECONDS]", S=elements) == [(4, 10)]


def test_a_bare_number_counts_seconds_of_a_timestamp() -> None:
    elements = Stream([(1, 10), (9 * SECOND, 90)], types=STAMPED)
    assert ask("SELECT Dstream(a) FROM S [RANGE 2]", S=elements) == [(2 * SECOND + 2, 10)]
    assert ask("SELECT Dstream(a) FROM S [RANGE 0.5]", S=elements) == [(SECOND // 2 + 2, 10)]


def test_a_unit_takes_an_integer_time_as_seconds() -> None:
    for width in ("60", "60 SECONDS", "1 MINUTE", "60000 MILLISECONDS"):
        assert ask(f"SELECT Dstream(a) FROM S [RANGE {width}]", S=[(1, 10), (90, 90)]) == [(62, 10)]
    with pytest.raises(CqlError, match="whole number of ticks"):
        ask("SELECT a FROM S [RANGE 500 MILLISECONDS]", S=[(1, 10)])


def test_a_query_has_one_kind_of_time() -> None:
    with pytest.raises(CqlError, match="one kind of time"):
        ask("SELECT S.a FROM S [NOW], T [NOW]", S=[(1, 10)], T=Stream([(1, 10)], types=STAMPED))


def test_a_stream_without_a_timestamp_is_stamped_on_arrival() -> None:
    clock = ManualClock(5 * SECOND)
    s = eddyline.Session(clock=clock)
    s.stream("S", schema=pa.schema([("a", INT)]))
    query = s.query("SELECT a FROM S [RANGE 1]")
    for a in (1, 2, 3):
        s.push("S", [{"a": a}])
        clock.advance(seconds=1)
    s.finish()
    assert fetch(query) == [
        (5 * SECOND, 1, 1),
        (6 * SECOND, 1, 2),
        (6 * SECOND + 1, -1, 1),
        (7 * SECOND, 1, 3),
    ]


def test_a_null_timestamp_makes_a_row_invalid() -> None:
    s = session()
    query = s.query("SELECT a FROM S")
    push(s, "S", (1, 10), (None, 20), (3, 30))
    s.finish()
    assert fetch(query) == [(1, 10), (3, 30)]
    assert query.report()["invalid"] == 1


def test_time_starts_at_the_smallest_timestamp_of_the_querys_own_inputs() -> None:
    text = "SELECT count(*) FROM (SELECT a FROM T [NOW])"
    assert ask(text, S=[(1, 0)], T=[(4, 0), (6, 0)]) == [
        (4, 1, 1),
        (5, -1, 1),
        (5, 1, 0),
        (6, -1, 0),
        (6, 1, 1),
    ]
    # With S among the inputs time starts at 1, before T has any element.
    text = "SELECT count(*) FROM (SELECT a FROM T [NOW] UNION ALL SELECT a FROM S [NOW] WHERE a > 5)"
    assert ask(text, S=[(1, 0)], T=[(4, 0)]) == [(1, 1, 0), (4, -1, 0), (4, 1, 1)]


def test_time_starts_through_views() -> None:
    views = {"v": "SELECT count(*) AS n FROM T [NOW]"}
    assert ask("SELECT n FROM v", views=views, S=[(1, 0)], T=[(4, 0)]) == [(4, 1, 1)]
    assert ask("SELECT n FROM v, S [ROWS 1]", views=views, S=[(1, 0)], T=[(4, 0)]) == [
        (1, 1, 0),
        (4, -1, 0),
        (4, 1, 1),
    ]


def test_a_late_row_does_not_move_the_start_of_time() -> None:
    assert ask("SELECT count(*) FROM S [NOW] WHERE a > 100", S=[(5, 1), (2, 1)]) == [(5, 1, 0)]


def test_every_relation_is_empty_before_the_start() -> None:
    constant = {"K": Relation([(1, 7), (2, 8)])}
    assert ask("SELECT Istream(K.v) FROM K, S [ROWS UNBOUNDED] WHERE S.a = 1", constant, S=[(3, 1)]) == [
        (3, 7),
        (3, 8),
    ]


def test_a_query_registered_later_begins_with_what_comes_then() -> None:
    s = session()
    push(s, "S", (1, 1), (2, 1), (5, 1))
    query = s.query("SELECT count(*) FROM S [RANGE 100]")
    push(s, "S", (5, 1), (8, 1))
    s.finish()
    assert fetch(query) == [(5, 1, 1), (8, -1, 1), (8, 1, 2)]


# -- Closing and ending --------------------------------------------------------------------------------------------


def test_an_instant_closes_when_every_stream_has_shown_a_time_less_slack_beyond_it() -> None:
    s = session(slack=2)
    query = s.query("SELECT a FROM S [ROWS UNBOUNDED] UNION ALL SELECT a FROM T [ROWS UNBOUNDED]")
    push(s, "S", (1, 1), (2, 2), (9, 9))
    assert fetch(query) == []  # T has shown nothing
    push(s, "T", (3, 3))
    assert fetch(query) == []  # 3 − 2 is not beyond 1
    push(s, "T", (4, 4))
    assert fetch(query) == [(1, 1)]
    s.heartbeat("T", 7)
    assert fetch(query) == [(2, 2), (3, 3), (4, 4)]
    push(s, "T", (4, 0))  # 4 < 7 − 2
    s.finish()
    assert fetch(query) == [(9, 9)]
    assert query.report()["late"] == 1


def test_a_finite_input_ends_at_the_largest_timestamp_over_all_inputs() -> None:
    text = "SELECT Dstream(a) FROM (SELECT a FROM S [RANGE 2] UNION ALL SELECT a FROM T [RANGE 2])"
    # S has ended at 3 and its elements expire at 4 and 6; T ends at 6, and nothing expires at 9.
    assert ask(text, S=[(1, 1), (3, 3)], T=[(6, 6)]) == [(4, 1), (6, 3)]


def test_an_idle_stream_holds_results_back_until_its_interval_has_passed() -> None:
    clock = ManualClock()
    s = session(clock=clock)
    query = s.query("SELECT a FROM S [ROWS UNBOUNDED] UNION ALL SELECT a FROM T [ROWS UNBOUNDED]")
    push(s, "S", (1, 1), (5, 5))
    clock.advance(seconds=9)
    s.tick()
    assert fetch(query) == []
    clock.advance(seconds=1)
    s.tick()
    assert fetch(query) == [(1, 1)]
    push(s, "T", (4, 4))  # an instant that was closed meanwhile
    push(s, "T", (5, 50))
    s.finish()
    assert sorted(fetch(query)) == [(5, 5), (5, 50)]
    assert query.report()["late"] == 1


def test_saving_a_run_is_not_the_end_of_its_input(tmp_path: Path) -> None:
    def begin() -> tuple[eddyline.Session, Any]:
        made = session()
        return made, made.query("SELECT Dstream(a) FROM S [RANGE 2]")

    s, query = begin()
    push(s, "S", (1, 1), (3, 3))
    s.snapshot(tmp_path)
    assert fetch(query) == []
    s, query = begin()
    s.restore(tmp_path)
    push(s, "S", (7, 7))
    s.finish()
    assert fetch(query) == [(4, 1), (6, 3)]


# -- Order and lateness --------------------------------------------------------------------------------------------


def test_arrival_is_path_and_row_number_for_files(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("ts,a\n1,30\n1,20\n")
    (tmp_path / "a.csv").write_text("ts,a\n1,40\n1,10\n")
    s = eddyline.Session(base=tmp_path)
    s.stream("S", "*.csv", timestamp="ts")
    assert rows_of(s.query("SELECT a FROM S [ROWS 3]").to_arrow()) == [(1, 1, 10), (1, 1, 30), (1, 1, 20)]


def test_equal_timestamps_keep_their_position() -> None:
    assert ask("SELECT a FROM S [ROWS 1]", S=[(1, 9), (1, 3), (1, 5)]) == [(1, 1, 5)]
    assert ask("SELECT Istream(first(a), last(a)) FROM S [NOW]", S=[(1, 9), (1, 3), (1, 5)]) == [(1, 9, 5)]


def test_a_derived_stream_is_ordered_by_row_value_with_null_first() -> None:
    text = "SELECT a FROM (SELECT Istream(a) FROM S [NOW]) [ROWS 2]"
    assert ask(text, S=[(1, 3), (1, None), (1, 5), (1, 4)]) == [(1, 1, 4), (1, 1, 5)]
    text = "SELECT Istream(first(a), last(a)) FROM (SELECT Istream(a) FROM S [NOW]) [NOW]"
    assert ask(text, S=[(1, 3), (1, None), (1, 5)]) == [(1, None, 5)]


def test_late_is_less_than_the_largest_before_minus_slack() -> None:
    elements = Stream([(5, 1), (3, 2), (2, 3), (7, 4), (5, 5), (4, 6)], slack=2)
    # 3 = 5 − 2 is on time, 2 is late; after 7 so is 4, but not 5.
    assert ask("SELECT a FROM S", S=elements) == [(3, 2), (5, 1), (5, 5), (7, 4)]


def test_lateness_is_judged_per_stream_and_before_any_filter() -> None:
    # The element at 9 fails the filter and yet makes 5 late. What T has shown does not matter to S.
    text = "SELECT a FROM S [ROWS UNBOUNDED] WHERE a < 100 UNION ALL SELECT a FROM T [ROWS UNBOUNDED]"
    assert ask(text, S=[(1, 1), (9, 900), (5, 5)], T=[(20, 20), (30, 30)]) == [(1, 1), (20, 20), (30, 30)]


def test_late_rows_are_counted_kept_and_readable() -> None:
    s = session(slack=1)
    query = s.query("SELECT a FROM T", name="q")
    late = s.query("SELECT stream, row FROM late(q)")
    push(s, "T", (1, 1), (5, 5), (4, 4), (3, 3), (9, 9), (2, 2))
    s.finish()
    assert fetch(query) == [(1, 1), (4, 4), (5, 5), (9, 9)]
    assert query.report()["late"] == 2
    assert [r["a"] for r in query.late()] == [3, 2]
    assert fetch(late) == [(5, "T", '{"ts": 3, "a": 3}'), (9, "T", '{"ts": 2, "a": 2}')]


# -- Windows -------------------------------------------------------------------------------------------------------


def test_range_holds_both_its_ends() -> None:
    answer = [(1, 1), (3, 1), (3, 3), (4, 3), (4, 4)]
    assert ask("SELECT Rstream(a) FROM S [RANGE 2]", S=[(1, 1), (3, 3), (4, 4)]) == answer


@pytest.mark.parametrize("window", ["[NOW]", "[RANGE 0]"])
def test_now_is_range_0(window: str) -> None:
    answer = [(1, 1, 1), (2, -1, 1), (2, 1, 2), (3, -1, 2), (7, 1, 7)]
    assert ask(f"SELECT a FROM S {window}", S=[(1, 1), (2, 2), (7, 7)]) == answer


def test_rows_holds_the_last_by_timestamp_and_arrival() -> None:
    # In order of (ts, arrival): 10, 30, 20, 25, 40.
    elements = Stream([(1, 10), (3, 20), (2, 30), (3, 25), (4, 40)], slack=2)
    assert ask("SELECT Rstream(a) FROM S [ROWS 2]", S=elements) == [
        (1, 10),
        (2, 10),
        (2, 30),
        (3, 20),
        (3, 25),
        (4, 25),
        (4, 40),
    ]


def test_partition_rows_does_so_for_each_value_and_null_is_one() -> None:
    elements = [(1, 1, 10), (2, None, 20), (3, 1, 30), (4, None, 40), (5, 2, 50)]
    assert ask("SELECT b FROM S [PARTITION BY a ROWS 1]", S=elements) == [
        (1, 1, 10),
        (2, 1, 20),
        (3, -1, 10),
        (3, 1, 30),
        (4, -1, 20),
        (4, 1, 40),
        (5, 1, 50),
    ]


@pytest.mark.parametrize("window", ["[RANGE 4 SLIDE 3]", "[size 4 advance 3]"])
def test_slide_changes_at_multiples_only_and_is_half_open(window: str) -> None:
    # At −6: −10 < ts ≤ −6. At −3: −7 < ts. At 0: −4 < ts. At 3: −1 < ts ≤ 3. At 6: 2 < ts ≤ 6.
    elements = [(-7, 1), (-6, 2), (-5, 3), (2, 4), (7, 5)]
    assert ask(f"SELECT a FROM S {window}", S=elements) == [
        (-6, 1, 1),
        (-6, 1, 2),
        (-3, -1, 1),
        (-3, 1, 3),
        (0, -1, 2),
        (0, -1, 3),
        (3, 1, 4),
        (6, -1, 4),
    ]


def test_slide_counts_from_the_epoch_on_timestamps() -> None:
    elements = Stream([(SECOND // 2, 1), (SECOND, 2), (SECOND + 1, 3), (4 * SECOND, 4)], types=STAMPED)
    assert ask("SELECT Rstream(a) FROM S [RANGE 1 SLIDE 1]", S=elements) == [
        (SECOND, 1),
        (SECOND, 2),
        (SECOND + 1, 1),  # an element's instant, too: the window is as at 1 s
        (SECOND + 1, 2),
        (2 * SECOND, 3),
        (4 * SECOND, 4),
    ]


def test_a_window_shorter_than_its_slide_never_holds_what_falls_between() -> None:
    # At 5: 3 < ts ≤ 5; at 10: 8 < ts ≤ 10. The element at 6 is never inside.
    text = "SELECT a FROM S [RANGE 2 SLIDE 5]"
    assert ask(text, S=[(4, 4), (6, 6), (10, 10)]) == [(5, 1, 4), (10, -1, 4), (10, 1, 10)]


def test_rows_with_slide_is_refused() -> None:
    with pytest.raises(CqlError):
        ask("SELECT a FROM S [ROWS 3 SLIDE 2]", S=[(1, 1)])


def test_the_suffix_window_is_put_on_each_stream() -> None:
    streams: dict[str, Any] = {"S": [(1, 1), (2, 1), (5, 1)], "T": [(2, 1), (3, 1)]}
    bracketed = ask("SELECT S.ts, T.ts FROM S [ROWS 1], T [ROWS 1] WHERE S.a = T.a", **streams)
    assert ask("SELECT S.ts, T.ts FROM S, T WHERE S.a = T.a WINDOW 1", **streams) == bracketed
    assert (5, -1, 2, 3) in bracketed
    bracketed = ask("SELECT S.ts, T.ts FROM S [RANGE 1], T [RANGE 1] WHERE S.a = T.a", **streams)
    assert ask("SELECT S.ts, T.ts FROM S, T WHERE S.a = T.a WINDOW 1 second", **streams) == bracketed
    assert (4, -1, 2, 3) in bracketed


def test_a_window_on_a_subquery_is_on_its_istream() -> None:
    # The relation holds 1 from 1 to 6 without a break (at 4 one row leaves as one comes), so its Istream has 1 once.
    elements = [(1, 1), (4, 1), (9, 2)]
    assert ask("SELECT a FROM (SELECT a FROM S [RANGE 2]) [ROWS 2]", S=elements) == [(1, 1, 1), (9, 1, 2)]
    assert ask("SELECT a FROM v [ROWS 2]", views={"v": "SELECT a FROM S [RANGE 2]"}, S=elements) == [
        (1, 1, 1),
        (9, 1, 2),
    ]


def test_or_on_the_stream_that_the_subquery_names() -> None:
    text = "SELECT a FROM (SELECT Dstream(a) FROM S [RANGE 2]) [NOW]"
    assert ask(text, S=[(1, 1), (3, 3), (9, 9)]) == [(4, 1, 1), (5, -1, 1), (6, 1, 3), (7, -1, 3)]
    text = "SELECT count(*) FROM (SELECT Rstream(a) FROM S [ROWS 2]) [ROWS UNBOUNDED]"
    assert ask(text, S=[(1, 1), (3, 3)]) == [(1, 1, 1), (3, -1, 1), (3, 1, 3)]


def test_expiry_happens_at_its_own_instant_whether_or_not_anything_arrives() -> None:
    # 2 leaves at 5 though nothing arrives; the element at 6 meets 4 only.
    text = "SELECT S.a, T.a FROM S [RANGE 2], T [NOW]"
    assert ask(text, S=[(2, 2), (4, 4)], T=[(4, 40), (6, 60), (7, 70)]) == [
        (4, 1, 2, 40),
        (4, 1, 4, 40),
        (5, -1, 2, 40),
        (5, -1, 4, 40),
        (6, 1, 4, 60),
        (7, -1, 4, 60),
    ]
