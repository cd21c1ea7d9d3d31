"""The reference itself against answers worked out by hand from the pinned semantics."""

from __future__ import annotations

import math

import pytest

from eddyline.core.errors import DataError
from eddyline.core.schema import Field, Schema
from eddyline.core.window import PartitionRows, Range, Rows, Slide, Unbounded
from eddyline.plan.logical import (
    Aggregate,
    Distinct,
    Join,
    MarkJoin,
    OuterJoin,
    Project,
    RelationScan,
    Select,
    SetOperation,
    ToStream,
    Window,
)
from eddyline.testing.cases import Case
from eddyline.testing.reference import Reference, RelationData, ResultRow, StreamData
from tests.semantics.plans import (
    BOOL,
    DOUBLE,
    INT,
    agg,
    bound,
    call,
    col,
    dstream,
    istream,
    lit,
    pick,
    reference,
    rstream,
    run,
    window,
)

# -- windows -------------------------------------------------------------------------------------------------------


def test_range_holds_both_ends_and_expires_at_its_own_instant() -> None:
    assert run(window(Range(2)), S=[(1, 10), (9, 90)]) == [(1, 1, 10), (4, -1, 10), (9, 1, 90)]


def test_nothing_expires_after_the_end_of_input() -> None:
    assert dstream(window(Range(2)), S=[(1, 10), (3, 30)]) == []
    assert dstream(window(Range(2)), S=[(1, 10), (4, 30)]) == [(4, 10)]


def test_now_holds_one_instant() -> None:
    assert run(window(Range(0)), S=[(1, 10), (1, 11), (2, 20), (4, 40)]) == [
        (1, 1, 10),
        (1, 1, 11),
        (2, -1, 10),
        (2, -1, 11),
        (2, 1, 20),
        (3, -1, 20),
        (4, 1, 40),
    ]


def test_rows_counts_by_time_then_arrival() -> None:
    # Slack lets the element of time 1 arrive last; the window still holds the last two by (ts, arrival).
    s = StreamData([(2, {"a": 20}), (2, {"a": 21}), (1, {"a": 10}), (2, {"a": 22})], slack=5)
    assert reference(window(Rows(2)), S=s).at(2) == [(21,), (22,)]
    assert reference(window(Rows(2)), S=s).at(1) == [(10,)]


def test_rows_passes_over_rows_that_come_and_go_in_one_instant() -> None:
    assert run(window(Rows(1)), S=[(1, 10), (2, 20), (2, 21), (2, 22)]) == [(1, 1, 10), (2, -1, 10), (2, 1, 22)]


def test_partition_rows_counts_per_value_and_null_is_a_value() -> None:
    plan = window(PartitionRows(("S.a",), 1), "S", "a", "b")
    rows = [(1, {"a": 1, "b": 1}), (2, {"a": None, "b": 2}), (3, {"a": 1, "b": 3}), (4, {"a": None, "b": 4})]
    assert reference(plan, S=rows).at(4) == [(None, 4), (1, 3)]


def test_slide_is_half_open_and_changes_only_at_multiples() -> None:
    # Width 4, slide 2: at e in {0, 2, 4, …} it holds e−4 < ts ≤ e.
    r = reference(window(Slide(4, 2)), S=[(1, 10), (2, 20), (3, 30), (9, 90)])
    assert [r.at(t) for t in (1, 2, 3, 4, 5, 6, 7, 8)] == [
        [],
        [(10,), (20,)],
        [(10,), (20,)],
        [(10,), (20,), (30,)],
        [(10,), (20,), (30,)],  # at 5 as at 4
        [(30,)],  # 2 < ts ≤ 6: 20 is out, because the interval is open on the left
        [(30,)],
        [],
    ]
    assert r.at(9) == []  # 90 waits for the edge at 10, which lies beyond the end of time


def test_slide_counts_from_zero_also_for_negative_times() -> None:
    assert istream(window(Slide(10, 5)), S=[(-7, 1), (-5, 2), (1, 3)]) == [(-5, 1), (-5, 2)]


def test_unbounded_keeps_everything() -> None:
    assert run(window(Unbounded()), S=[(1, 10), (5, 50)]) == [(1, 1, 10), (5, 1, 50)]


# -- relation to stream --------------------------------------------------------------------------------------------


def test_istream_nets_equal_rows_within_an_instant() -> None:
    # At 2 one 7 leaves [ROWS 1] and an equal 7 enters: by value nothing happens.
    assert istream(window(Rows(1)), S=[(1, 7), (2, 7), (3, 8)]) == [(1, 7), (3, 8)]
    assert dstream(window(Rows(1)), S=[(1, 7), (2, 7), (3, 8)]) == [(3, 7)]


def test_istream_counts_copies() -> None:
    assert istream(window(Range(0)), S=[(1, 7), (2, 7), (2, 7)]) == [(1, 7), (2, 7)]


def test_rstream_speaks_at_input_instants_of_all_streams_before_any_filter() -> None:
    plan = Join((window(Range(5)), window(Range(0), "T", "a")), ())
    assert rstream(pick(plan, "S.a"), S=[(1, 1)], T=[(3, 0), (4, 0)]) == [(3, 1), (4, 1)]
    some = Select(window(Range(9)), (call("gt", col("S.a"), lit(5)),))
    assert rstream(some, S=[(1, 9), (3, 0), (6, 0)]) == [(1, 9), (3, 9), (6, 9)]


def test_rstream_speaks_at_slide_instants() -> None:
    assert rstream(window(Slide(4, 2)), S=[(1, 10), (7, 70)]) == [(2, 10), (4, 10)]
    # With a second window the slide instants count for the whole query.
    both = SetOperation("union", True, window(Slide(2, 4)), window(Range(9)))
    assert rstream(both, S=[(1, 10), (5, 50)]) == [(1, 10), (4, 10), (5, 10), (5, 50)]


def test_rstream_hears_only_on_time_elements() -> None:
    s = StreamData([(5, {"a": 50}), (2, {"a": 20}), (4, {"a": 40})], slack=1)
    r = Reference(bound(ToStream("rstream", window(Unbounded()))), {"S": s})
    assert [(t, *v) for t, v, _ in r.run()] == [(4, 40), (5, 40), (5, 50)]
    assert r.late == {"S": [(2, {"a": 20})]}
    assert (r.start, r.end) == (4, 5)


def test_signed_changes_show_minus_first_and_multiplicities() -> None:
    assert run(window(Rows(2)), S=[(1, 7), (1, 7), (2, 8), (2, 8)]) == [
        (1, 1, 7),
        (1, 1, 7),
        (2, -1, 7),
        (2, -1, 7),
        (2, 1, 8),
        (2, 1, 8),
    ]


def test_time_starts_at_the_querys_own_inputs() -> None:
    count = Aggregate(window(Range(1), "T"), (), (("n", agg("count")),), False)
    # S belongs to another query; its earlier element does not start this one's time.
    assert run(count, S=[(0, 1)], T=[(4, 1)]) == [(4, 1, 1)]


# -- relational part -----------------------------------------------------------------------------------------------


def test_select_keeps_true_and_forgets_errors_of_dropped_rows() -> None:
    fails = call("eq", call("integer_divide", lit(1), col("S.a"), type_=INT), lit(1))
    nonzero = call("ne", col("S.a"), lit(0))
    assert istream(Select(window(Unbounded()), (fails, nonzero)), S=[(1, 0), (2, 1), (3, None)]) == [(2, 1)]
    with pytest.raises(DataError, match="division by zero"):
        istream(Select(window(Unbounded()), (fails,)), S=[(1, 0)])


def test_join_is_a_bag_join_and_null_matches_nothing() -> None:
    plan = Join((window(Range(9)), window(Range(9), "T")), (call("eq", col("S.a"), col("T.a")),))
    assert istream(plan, S=[(1, 7), (1, 7), (2, None)], T=[(3, 7), (4, None)]) == [(3, 7, 7), (3, 7, 7)]


def test_join_of_windows_that_never_meet() -> None:
    plan = Join((window(Range(1)), window(Range(1), "T")), ())
    assert istream(plan, S=[(1, 1)], T=[(3, 3)]) == []
    assert istream(plan, S=[(1, 1)], T=[(2, 3)]) == [(2, 1, 3)]


def test_outer_join_pads_and_takes_back() -> None:
    plan = OuterJoin("left", window(Range(9)), window(Range(1), "T"), (call("eq", col("S.a"), col("T.a")),))
    assert run(plan, S=[(1, 7), (6, 8)], T=[(3, 7)]) == [
        (1, 1, 7, None),
        (3, -1, 7, None),
        (3, 1, 7, 7),
        (5, -1, 7, 7),
        (5, 1, 7, None),
        (6, 1, 8, None),
    ]


def test_full_join_pads_both_sides() -> None:
    plan = OuterJoin("full", window(Range(9)), window(Range(9), "T"), (call("eq", col("S.a"), col("T.a")),))
    r = reference(plan, S=[(1, 1), (1, 2)], T=[(1, 2), (1, 3), (1, None)])
    assert r.at(1) == [(None, None), (None, 3), (1, None), (2, 2)]


def not_in(right: Window) -> Project:
    marked = MarkJoin(window(Range(0)), right, "m", operands=((col("S.a"), col("T.a")),))
    return pick(Select(marked, (call("not", col("m", BOOL)),)), "S.a")


def test_not_in_with_nulls() -> None:
    plan = not_in(window(Range(0), "T"))
    s = [(1, 5), (1, None), (2, 5), (2, 6), (2, None), (3, 5), (3, 6), (3, None)]
    # 1: T empty, true even for NULL. 2: T = {5}. 3: T = {5, NULL}: 5 matches, all else unknown.
    assert istream(plan, S=s, T=[(2, 5), (3, 5), (3, None)]) == [(1, None), (1, 5), (2, 6)]


def test_exists_with_correlation() -> None:
    marked = MarkJoin(window(Range(0)), window(Range(2), "T"), "m", on=(call("lt", col("S.a"), col("T.a")),))
    plan = pick(Select(marked, (col("m", BOOL),)), "S.a")
    assert istream(plan, S=[(1, 1), (2, 9), (5, 1)], T=[(1, 4)]) == [(1, 1)]


def test_ungrouped_aggregate_has_one_row_from_the_start() -> None:
    items = (("n", agg("count")), ("s", agg("sum", col("S.a"))))
    plan = Aggregate(Select(window(Range(0)), (call("gt", col("S.a"), lit(5)),)), (), items, False)
    assert run(plan, S=[(1, 1), (2, 7), (4, 1)]) == [
        (1, 1, 0, None),
        (2, -1, 0, None),
        (2, 1, 1, 7),
        (3, -1, 1, 7),
        (3, 1, 0, None),
    ]
    having = Select(plan, (call("gt", col("n"), lit(0)),))
    assert run(having, S=[(1, 1), (2, 7), (4, 1)]) == [(2, 1, 1, 7), (3, -1, 1, 7)]


def test_grouped_aggregate_has_rows_for_non_empty_groups_only() -> None:
    plan = Aggregate(window(Range(1), "S", "a", "b"), (("a", col("S.a")),), (("s", agg("sum", col("S.b"))),), True)
    rows = [(1, {"a": 1, "b": 5}), (1, {"a": None, "b": 2}), (2, {"a": 1, "b": None}), (4, {"a": 2, "b": 1})]
    assert run(plan, S=rows) == [
        (1, 1, None, 2),
        (1, 1, 1, 5),
        (3, -1, None, 2),
        (3, -1, 1, 5),
        (3, 1, 1, None),  # only the row with b NULL is left in the group
        (4, -1, 1, None),
        (4, 1, 2, 1),
    ]


def test_unchanged_aggregate_row_does_not_appear() -> None:
    plan = Aggregate(window(Rows(1)), (), (("n", agg("count")),), False)
    assert run(plan, S=[(1, 7), (2, 8), (3, 9)]) == [(1, 1, 1)]


def values(function: str, *xs: float | int | None, distinct: bool = False) -> object:
    type_ = DOUBLE if any(isinstance(x, float) for x in xs) else INT
    plan = Aggregate(window(Unbounded()), (), (("v", agg(function, col("S.a", type_), distinct=distinct)),), False)
    return reference(plan, S=[(1, x) for x in xs]).at(1)[0][0]


def test_aggregate_functions() -> None:
    assert values("count", 1, None, 1) == 2
    assert values("count", 1, None, 1, distinct=True) == 1
    assert values("sum", 1, None, 1, distinct=True) == 1
    assert values("sum", None, None) is None
    assert values("avg", 1, 2, None) == 1.5
    assert values("min", 2.0, math.nan, None) == 2.0
    assert math.isnan(values("max", 2.0, math.inf, math.nan))  # NaN is the greatest
    assert values("first", None, 3) is None
    assert values("last", None, 3) == 3
    assert values("stddev", 2) is None
    assert values("stddev_pop", 2) == 0.0
    assert values("variance", 1, 2, 4) == pytest.approx(7 / 3)
    assert values("stddev", 2, 4, 4, 4, 5, 5, 7, 9) == pytest.approx(2.138089935299395)


def test_sums_of_doubles_are_functions_of_the_bag() -> None:
    assert values("sum", 1e16, 1.0, -1e16) == 1.0
    assert values("sum", *[0.1] * 10) == 1.0
    assert values("sum", math.inf, 1.0) == math.inf
    assert math.isnan(values("sum", math.inf, -math.inf))
    assert math.isnan(values("avg", math.nan, 1.0))
    assert math.isnan(values("stddev", math.inf, 1.0))


def test_integer_sum_overflow_is_an_error() -> None:
    assert values("sum", 2**63 - 1, 1, -1) == 2**63 - 1  # accumulated wider
    with pytest.raises(DataError, match="64 bits"):
        values("sum", 2**63 - 1, 1)


def test_first_and_last_follow_time_and_arrival() -> None:
    items = (("f", agg("first", col("S.a"))), ("l", agg("last", col("S.a"))))
    s = StreamData([(2, {"a": 20}), (1, {"a": 10}), (2, {"a": 21}), (3, {"a": 30})], slack=2)
    r = reference(Aggregate(window(Range(1)), (), items, False), S=s)
    assert [r.at(t) for t in (1, 2, 3)] == [[(10, 10)], [(10, 21)], [(20, 30)]]


def test_distinct_keeps_one_until_the_last_copy_leaves() -> None:
    plan = Distinct(window(Range(2)))
    assert run(plan, S=[(1, 7), (2, 7), (9, 8)]) == [(1, 1, 7), (5, -1, 7), (9, 1, 8)]


@pytest.mark.parametrize(
    ("kind", "all_", "expected"),
    [
        ("union", True, [1, 1, 1, 2, 2, 3]),
        ("union", False, [1, 2, 3]),
        ("except", True, [1, 2, 2]),
        ("except", False, [2]),
        ("intersect", True, [1]),
        ("intersect", False, [1]),
    ],
)
def test_set_operations(kind: str, all_: bool, expected: list[int]) -> None:
    plan = SetOperation(kind, all_, window(Range(0)), window(Range(0), "T"))  # type: ignore[arg-type]
    r = reference(plan, S=[(1, 1), (1, 1), (1, 2), (1, 2)], T=[(1, 1), (1, 3)])
    assert r.at(1) == [(v,) for v in expected]


# -- derived streams and relations ---------------------------------------------------------------------------------


def test_window_over_a_derived_stream_holds_its_elements_with_their_times() -> None:
    count = Aggregate(window(Range(1)), (), (("n", agg("count")),), False)
    plan = Window(ToStream("istream", count), Range(1))
    # The count is 1 at 1, 2 at 2, 1 at 3, 0 at 4: each enters at its instant and stays for one more. At 3 the 1 of
    # instant 1 leaves and that of instant 3 enters, so that nothing shows.
    assert run(plan, S=[(1, 1), (2, 1), (9, 1)]) == [
        (1, 1, 1),
        (2, 1, 2),
        (4, -1, 2),
        (4, 1, 0),
        (5, -1, 1),
        (6, -1, 0),
        (9, 1, 1),
    ]


def test_elements_of_a_derived_stream_are_ordered_by_row_value_null_first() -> None:
    plan = Window(ToStream("istream", window(Unbounded())), Rows(2))
    assert reference(plan, S=[(1, 3), (1, 1), (1, None), (1, 2)]).at(1) == [(2,), (3,)]


def test_dstream_of_a_nested_window() -> None:
    plan = Window(ToStream("dstream", window(Range(1))), Range(0))
    assert istream(plan, S=[(1, 7), (5, 8)]) == [(3, 7)]


def relation(*columns: str, constant: bool = True) -> RelationScan:
    return RelationScan("r", "r", Schema(tuple(Field(f"r.{c}", INT) for c in columns)), columns, constant)


def test_constant_relation_joins_and_is_empty_before_the_start() -> None:
    plan = Join((window(Range(0)), relation("k")), (call("eq", col("S.a"), col("r.k")),))
    assert istream(plan, S=[(1, 7), (2, 8)], r=[{"k": 7}, {"k": 7}]) == [(1, 7, 7), (1, 7, 7)]
    union = SetOperation("union", True, window(Range(0)), relation("k"))
    assert istream(union, S=[(4, 7), (5, 8)], r=[{"k": 1}]) == [(4, 1), (4, 7), (5, 8)]


def test_timed_relation_with_key_replaces() -> None:
    rows = [{"t": 1, "k": 1, "v": 10}, {"t": 3, "k": 1, "v": 11}, {"t": 3, "k": 2, "v": 20}]
    data = RelationData(rows, timestamp="t", key=("k",))
    assert run(relation("k", "v", constant=False), r=data) == [
        (1, 1, 1, 10),
        (3, -1, 1, 10),
        (3, 1, 1, 11),
        (3, 1, 2, 20),
    ]


def test_timed_relation_with_sign_inserts_and_deletes() -> None:
    rows = [{"t": 1, "k": 1, "g": 1}, {"t": 1, "k": 1, "g": 1}, {"t": 4, "k": 1, "g": -1}]
    data = RelationData(rows, timestamp="t", sign="g")
    assert run(relation("k", constant=False), r=data) == [(1, 1, 1), (1, 1, 1), (4, -1, 1)]


# -- lateness and odd values ---------------------------------------------------------------------------------------


def test_late_is_judged_by_what_arrived_before_and_null_time_is_invalid() -> None:
    s = StreamData([(3, {"a": 1}), (1, {"a": 2}), (2, {"a": 3}), (None, {"a": 4}), (0, {"a": 5})], slack=2)
    r = reference(window(Unbounded()), S=s)
    assert r.at(3) == [(1,), (2,), (3,)]
    assert r.late["S"] == [(0, {"a": 5})]
    assert r.invalid["S"] == [(None, {"a": 4})]


def test_nan_equals_nan_and_zero_equals_minus_zero_in_bags() -> None:
    plan = Distinct(Project(window(Unbounded()), (("x", col("S.a", DOUBLE)),)))
    assert len(reference(plan, S=[(1, float("nan")), (1, -float("nan")), (1, 0.0), (1, -0.0)]).at(1)) == 2


def test_empty_input_gives_nothing() -> None:
    assert run(Aggregate(window(Range(1)), (), (("n", agg("count")),), False), S=[]) == []


def test_skipping_quiet_instants_changes_nothing() -> None:
    count = Aggregate(window(Range(3)), (("a", col("S.a")),), (("n", agg("count")),), True)
    plan = Window(ToStream("dstream", count), Slide(7, 3))
    s = {"S": [(t, {"a": t % 3}) for t in (0, 1, 1, 5, 6, 11, 30)]}
    answers = [Reference(bound(plan), s, every_tick=every).run() for every in (True, False)]
    assert answers[0] == answers[1] != []


def test_time_starts_with_an_element_that_changes_nothing() -> None:
    """A deletion of what is not there shows its time: what is constant is there from then on."""
    case = Case(
        "SELECT k FROM K WHERE NOT EXISTS (SELECT * FROM Q WHERE Q.k = K.k)",
        {},
        {
            "K": RelationData([{"k": 2, "v": 3, "w": None}]),
            "Q": RelationData([{"t": 5, "g": -1, "k": 1, "v": 0, "w": None}], "t", (), "g"),
        },
    )
    for every in (True, False):
        rows = Reference(case.bound(), case.streams, case.relations, every_tick=every).run()
        assert rows == [ResultRow(5, (2,), 1)]
