"""The worked examples of chapter 6 of the thesis, and its table of reductions (6.2).

Figure 6.8(a): S1(A, B), S2(A, C), S3(B, D) with S1 → S2 on A, S1 → S3 on B and D < 8 on S3.
Figure 6.8(b): S1(A, B), S2(B, C), S3(C, D) with S1 → S2 on B, S2 → S3 on C and D > 10 on S3.
"""

from __future__ import annotations

import pytest

from eddyline.core.window import Rows
from eddyline.kernels import constrained_layout as k
from tests.operators.constrained import Example, Fixed, greater, less

STAR, CHAIN = ((0, 1), (0, 2)), ((0, 1), (1, 2))


def figure_a(s3=((5, 3), (7, 9), (10, 12)), more_yes: bool = True, **constraints) -> Example:  # type: ignore[no-untyped-def]
    """The state of Figure 6.8(a); the order of S3 differs between the examples."""
    example = Example(
        ["AB", "AC", "BD"],
        [("S1.A", "S2.A"), ("S1.B", "S3.B")],
        Fixed(STAR, **constraints),
        filters={2: less("S3.D", 8)},
    )
    example.feed(2, (6, 20), (4, 15))
    example.feed(3, *s3)
    return example


def figure_b(windows=None, deletes: bool = False) -> Example:  # type: ignore[no-untyped-def]
    return Example(
        ["AB", "BC", "CD"],
        [("S1.B", "S2.B"), ("S2.C", "S3.C")],
        Fixed(CHAIN),
        filters={2: greater("S3.D", 10)},
        windows=windows,
        deletes=deletes,
    )


def test_example_6_3_1_yes_at_once_and_no_by_one_child() -> None:
    example = figure_a()
    assert example.all(2) == {"yes": [(6, 20), (4, 15)]}
    assert example.all(3) == {"yes": [(5, 3)], "no": [(7, 9), (10, 12)]}
    assert example.feed(1, (6, 5)) == [(1, 6, 5, 6, 20, 5, 3)]
    assert example.feed(1, (8, 10)) == []
    # Root rows that are Yes or No are not kept (6.3.1).
    assert example.all(1) == {} and example.control.removed[0] == 2


def test_rows_that_leave_as_they_come_repeat_their_keys_all_the_same() -> None:
    """A row of a root that is Yes, or No, on arrival waits for no collection; its children know of it."""
    example = figure_a()
    example.join.collect_every = 1_000
    example.join.progress[k.DUE] = 1_000
    assert example.feed(1, (6, 5), (6, 5), (8, 10), (6, 10)) == 2 * [(1, 6, 5, 6, 20, 5, 3)]
    assert example.all(1) == {"no": [(8, 10)]}  # a row of S2 that comes would not know of it; (6, 10) is No and gone
    port = {there: example.control.port(example.join, 0, there) for there in (1, 2)}
    repeated = example.join.slots.duplicates
    assert repeated[port[1]] == 2 and repeated[port[2]] == 2  # 6 three times, 5 and 10 twice


def test_example_6_3_2_a_late_grandchild_makes_all_yes() -> None:
    example = figure_b()
    example.feed(2, (2, 4))
    assert example.all(2) == {"unknown": [(2, 4)]}
    assert example.feed(1, (1, 2)) == [] and example.all(1) == {"unknown": [(1, 2)]}
    assert example.feed(3, (4, 12)) == [(1, 1, 2, 2, 4, 4, 12)]
    assert (example.all(1), example.all(2), example.all(3)) == ({}, {"yes": [(2, 4)]}, {"yes": [(4, 12)]})


def test_example_6_3_3_no_rows_that_are_kept_let_roots_go() -> None:
    example = figure_b()
    example.feed(3, (6, 8))
    assert example.all(3) == {"no": [(6, 8)]}
    example.feed(2, (3, 6))
    assert example.all(2) == {"no": [(3, 6)]}
    example.feed(1, (1, 3), (2, 3), (9, 3))
    assert example.all(1) == {}


def test_example_6_3_4_a_child_that_leaves_takes_the_result_with_it_first() -> None:
    example = figure_b(windows={2: Rows(1)}, deletes=True)
    example.feed(1, (1, 2))
    example.feed(2, (2, 4))
    assert example.feed(3, (4, 12)) == [(1, 1, 2, 2, 4, 4, 12)]
    assert (example.all(1), example.all(2)) == ({"yes": [(1, 2)]}, {"yes": [(2, 4)]})
    assert example.feed(3, (5, 13)) == [(-1, 1, 2, 2, 4, 4, 12)]
    assert (example.all(1), example.all(2), example.all(3)) == ({}, {"no": [(2, 4)]}, {"yes": [(5, 13)]})


def test_example_6_6_1_rids_drops_no_rows_and_waits_for_one_more() -> None:
    example = figure_a(rids={(0, 2): 1})
    assert example.all(3) == {"yes": [(5, 3)]}  # S(S3).No is not kept
    example.feed(1, (4, 10))
    assert example.all(1) == {"unknown": [(4, 10)]}
    example.feed(3, (11, 1))
    assert example.all(1) == {}


def test_example_6_7_1_ca_lets_a_child_go_whose_cluster_is_over() -> None:
    example = figure_a(ca={(0, 2): 1})
    assert example.feed(1, (6, 5)) == [(1, 6, 5, 6, 20, 5, 3)]
    assert example.feed(1, (8, 8)) == []
    assert example.feed(1, (4, 5)) == [(1, 4, 5, 4, 15, 5, 3)]
    assert example.synopsis(3, "yes") == [(5, 3)]
    example.feed(1, (11, 10))
    assert example.all(1) == {"unknown": [(8, 8)]}
    assert example.synopsis(3, "yes") == []


def test_example_6_8_1_oac_knows_that_a_child_will_not_come() -> None:
    example = figure_a(s3=((7, 9), (5, 3), (10, 12)), oac={(0, 2): 2})
    assert example.all(3) == {"yes": [(5, 3)]}
    example.feed(1, (6, 4))  # 4 < S3.B_lo = 7
    assert example.all(1) == {}
    example.feed(1, (6, 8))
    assert example.all(1) == {"unknown": [(6, 8)]}


@pytest.mark.parametrize(
    ("constraints", "left", "unknown"),
    [
        ({"ca": {(0, 1): 0}}, [(6, 20)], [(6, 8), (3, 13)]),
        ({"oac": {(0, 2): 0}}, [(6, 20), (4, 15)], [(3, 13)]),
        ({"ca": {(0, 1): 0}, "oac": {(0, 2): 0}}, [], [(3, 13)]),
    ],
)
def test_example_6_10_1_two_constraints_are_more_than_their_union(constraints, left, unknown) -> None:  # type: ignore[no-untyped-def]
    example = figure_a(**constraints)
    assert example.feed(1, (4, 5), (6, 8), (3, 13)) == [(1, 4, 5, 4, 15, 5, 3)]
    assert example.synopsis(2, "yes") == left
    assert example.synopsis(1, "unknown") == unknown


def test_example_6_10_2_rids_beside_ca_keeps_rows_longer() -> None:
    alone = figure_a(ca={(0, 2): 0})
    alone.feed(1, (6, 10), (4, 10), (8, 8))
    assert alone.all(1) == {"unknown": [(8, 8)]} and alone.synopsis(3, "no") == [(7, 9)]
    both = figure_a(ca={(0, 2): 0}, rids={(0, 2): 3})
    both.feed(1, (6, 10), (4, 10), (8, 8))
    assert both.synopsis(1, "unknown") == [(6, 10), (4, 10), (8, 8)] and both.synopsis(3, "no") == []
    both.feed(3, (20, 1), (21, 1), (22, 1))
    assert both.all(1) == {}


# ── Table 6.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def table(**constraints) -> Example:  # type: ignore[no-untyped-def]
    """S1 → S2 on A with a filter on S2: rows of all components, in order of A."""
    example = Example(["AB", "AC"], [("S1.A", "S2.A")], Fixed([(0, 1)], **constraints), filters={1: less("S2.C", 10)})
    example.feed(2, (1, 1), (2, 99), (3, 1), (7, 1))
    example.feed(1, (1, 0), (2, 0), (4, 0), (8, 0), (9, 0))
    example.feed(2, (8, 1), (11, 1), (12, 1))
    return example


@pytest.mark.parametrize(
    ("constraints", "s1", "s2"),
    [
        ({}, {"unknown": [(4, 0), (9, 0)]}, [(1, 1), (2, 99), (3, 1), (7, 1), (8, 1), (11, 1), (12, 1)]),
        ({"rids": {(0, 1): 3}}, {}, [(1, 1), (3, 1), (7, 1), (8, 1), (11, 1), (12, 1)]),
        # Dangling rows of S2, which no row of S1 ever asked for, are not removed by CA.
        ({"ca": {(0, 1): 0}}, {"unknown": [(4, 0), (9, 0)]}, [(3, 1), (7, 1), (11, 1), (12, 1)]),
        # Each row is asked for who waits for it: that 4 waits keeps no other (the thesis bounds them by a histogram).
        ({"oap": {(0, 1): 0}}, {"unknown": [(4, 0), (9, 0)]}, [(11, 1), (12, 1)]),
        ({"oac": {(0, 1): 0}}, {}, [(1, 1), (3, 1), (7, 1), (8, 1), (11, 1), (12, 1)]),
        ({"rids": {(0, 1): 3}, "oap": {(0, 1): 0}}, {}, [(11, 1), (12, 1)]),
        ({"ca": {(0, 1): 0}, "oac": {(0, 1): 0}}, {}, [(3, 1), (7, 1), (11, 1), (12, 1)]),
    ],
)
def test_table_6_2_what_each_constraint_removes(constraints, s1, s2) -> None:  # type: ignore[no-untyped-def]
    example = table(**constraints)
    assert example.all(1) == s1
    assert sorted(row for rows in example.all(2).values() for row in rows) == s2


def test_join_distances_are_those_of_the_definition() -> None:
    example = Example(["A", "A"], [("S1.A", "S2.A")], Fixed([(0, 1)]))
    example.feed(1, (1,), (2,))
    example.feed(2, (9,), (2,), (1,))
    assert example.control.distances == [(0, 2), (0, 3)]
