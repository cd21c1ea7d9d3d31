"""Windows that close, and ``[UNTIL]``: readings that were worked out by hand, for the engine and the reference."""

from __future__ import annotations

from tests.semantics.both import SECOND, TIMESTAMP, Relation, Stream, ask

E = [(1, 7), (4, 8), (5, 7), (11, 7)]  # ts, a


def test_an_element_at_an_end_is_part_of_the_next_window() -> None:
    assert ask("SELECT a FROM S [TUMBLE 5]", S=E) == [
        (5, 1, 7),
        (5, 1, 8),
        (10, -1, 8),  # a 7 leaves and a 7 enters: no change
    ]


def test_an_offset_moves_the_ends_and_may_be_negative() -> None:
    text = "SELECT Wstream(window_start, window_end, count(*)) FROM S [TUMBLE 5 OFFSET {}]"
    moved = [(3, -2, 3, 1), (8, 3, 8, 2), (13, 8, 13, 1)]
    assert ask(text.format(3), S=E) == ask(text.format(-2), S=E) == ask(text.format(18), S=E) == moved


def test_overlapping_windows_each_have_their_edges() -> None:
    assert ask("SELECT Wstream(a, window_start) FROM S [HOP 10 EVERY 5]", S=[(1, 7), (7, 8)]) == [
        (5, 7, -5),
        (10, 7, 0),
        (10, 8, 0),
        (15, 8, 5),
    ]


def test_a_window_shorter_than_its_step_leaves_elements_out() -> None:
    assert ask("SELECT Wstream(a, window_start, window_end) FROM S [HOP 2 EVERY 10]", S=[(7, 1), (8, 2), (19, 3)]) == [
        (10, 2, 8, 10),
        (20, 3, 18, 20),
    ]


def test_sliding_windows_have_edges_too() -> None:
    assert ask("SELECT Wstream(a, window_start, window_end) FROM S [RANGE 5 SLIDE 5]", S=[(1, 7), (5, 8), (6, 9)]) == [
        (5, 7, 0, 5),
        (5, 8, 0, 5),
        (10, 9, 5, 10),
    ]


def test_equal_windows_are_each_shown() -> None:
    same = [(1, 7), (6, 7), (11, 7)]
    assert ask("SELECT Wstream(a, count(*)) FROM S [TUMBLE 5] GROUP BY a", S=same) == [
        (5, 7, 1),
        (10, 7, 1),
        (15, 7, 1),
    ]
    assert ask("SELECT Istream(a, count(*)) FROM S [TUMBLE 5] GROUP BY a", S=same) == [(5, 7, 1)]


def test_an_empty_window_shows_nothing_but_the_row_without_groups() -> None:
    far = [(1, 7), (16, 8)]
    assert ask("SELECT Wstream(count(*)) FROM S [TUMBLE 5]", S=far) == [(5, 1), (10, 0), (15, 0), (20, 1)]
    assert ask("SELECT Wstream(window_end, count(*)) FROM S [TUMBLE 5]", S=far) == [(5, 5, 1), (20, 20, 1)]


def test_time_goes_on_until_the_last_window_of_a_wstream_has_closed() -> None:
    last = [(20, 7)]
    assert ask("SELECT Wstream(window_end) FROM S [TUMBLE 10]", S=last) == [(30, 30)]
    assert ask("SELECT Wstream(window_end) FROM S [HOP 10 EVERY 5]", S=last) == [(25, 25), (30, 30)]
    assert ask("SELECT Wstream(window_end) FROM S [RANGE 10 SLIDE 5]", S=last) == [(20, 20), (25, 25)]
    assert ask("SELECT Wstream(window_end) FROM S [SESSION 7 GAP]", S=last) == [(27, 27)]
    assert ask("SELECT window_end FROM S [TUMBLE 10]", S=last) == []  # without Wstream it ends at 20


def test_the_last_window_of_all_streams_counts_not_of_each() -> None:
    """T has its last element at 3, but time goes on with S: T's window [0, 5) closes at 5, as in any run."""
    text = "SELECT Wstream(T.a, S.a) FROM T [TUMBLE 5], S [TUMBLE 5] WHERE T.a = S.a"
    assert ask(text, S=[(1, 7), (12, 7)], T=[(3, 7), (11, 7)]) == [(5, 7, 7), (15, 7, 7)]


def test_what_else_the_query_holds_expires_in_that_time() -> None:
    text = "SELECT Wstream(T.a, S.a) FROM T [RANGE 5], S [TUMBLE 10] WHERE T.a = S.a"
    assert ask(text, S=[(1, 7)], T=[(6, 7)]) == [(10, 7, 7)]
    assert ask(text, S=[(1, 7)], T=[(4, 7)]) == []  # gone at 10


def test_wstream_speaks_at_the_ends_of_all_of_its_windows() -> None:
    text = "SELECT Wstream(S.a, T.a) FROM S [TUMBLE 6], T [TUMBLE 4]"
    assert ask(text, S=[(1, 1)], T=[(1, 2), (5, 3)]) == [(6, 1, 2), (8, 1, 3)]


def test_a_wstream_can_be_read_as_a_stream() -> None:
    inner = "(SELECT Wstream(a, count(*) AS n) FROM S [TUMBLE 5] GROUP BY a)"
    assert ask(f"SELECT Istream(sum(n)) FROM {inner} [ROWS UNBOUNDED]", S=E) == [(1, None), (5, 2), (10, 3), (15, 4)]


def test_sessions_end_a_gap_after_their_last_element() -> None:
    """At exactly the gap a new one begins; each a has sessions of its own."""
    rows = [(1, 7), (3, 8), (4, 7), (9, 7), (12, 8)]
    text = "SELECT Wstream(a, count(*), window_start, window_end) FROM S [SESSION 5 GAP PARTITION BY a]"
    assert ask(text, S=rows) == [(8, 8, 1, 3, 8), (9, 7, 2, 1, 9), (14, 7, 1, 9, 14), (17, 8, 1, 12, 17)]


def test_disorder_within_the_slack_joins_what_belongs_together() -> None:
    """The element at 5 comes last and bridges two sessions; the one at 2 is late."""
    rows = Stream([(1, 7), (9, 7), (5, 7), (2, 7)], slack=5)
    assert ask("SELECT Wstream(count(*), window_start) FROM S [SESSION 5 GAP]", S=rows) == [(14, 3, 1)]


def test_a_session_is_there_at_one_instant() -> None:
    assert ask("SELECT a FROM S [SESSION 3 GAP]", S=[(1, 7), (2, 8), (9, 9)]) == [
        (5, 1, 7),
        (5, 1, 8),
        (6, -1, 7),
        (6, -1, 8),
    ]
    assert ask("SELECT Rstream(a) FROM S [SESSION 3 GAP]", S=[(1, 7), (2, 8), (9, 9)]) == [(5, 7), (5, 8)]


def test_null_is_a_partition() -> None:
    text = "SELECT Wstream(a, count(*)) FROM S [SESSION 3 GAP PARTITION BY a] GROUP BY a"
    assert ask(text, S=[(1, None), (2, 7), (3, None)]) == [(5, 7, 1), (6, None, 2)]


def test_until_is_included_null_is_for_ever_and_the_past_never_enters() -> None:
    rows = [(1, 7, 4), (2, 8, None), (3, 9, 2), (5, 6, 5), (9, 1, 9)]
    assert ask("SELECT a FROM S [UNTIL b]", S=rows) == [
        (1, 1, 7),
        (2, 1, 8),
        (5, -1, 7),
        (5, 1, 6),
        (6, -1, 6),
        (9, 1, 1),
    ]


def test_range_is_until_the_time_and_its_width() -> None:
    rows = [(1, 7, 4), (2, 8, 5), (9, 9, 12)]
    assert ask("SELECT a FROM S [UNTIL b]", S=rows) == ask("SELECT a FROM S [RANGE 3]", S=rows)


def test_until_on_timestamps_below_a_join() -> None:
    types = {"ts": TIMESTAMP, "b": TIMESTAMP}
    leases = Stream([(1 * SECOND, 7, 3 * SECOND), (2 * SECOND, 8, 9 * SECOND)], types=types)
    uses = Stream([(3 * SECOND, 7), (4 * SECOND, 7), (4 * SECOND, 8)], types={"ts": TIMESTAMP})
    text = "SELECT Istream(U.a) FROM L [UNTIL b], U [NOW] WHERE L.a = U.a"
    assert ask(text, L=leases, U=uses) == [(3 * SECOND, 7), (4 * SECOND, 8)]


def test_a_window_beside_a_constant_relation() -> None:
    names = Relation([(7, 70), (8, 80)])
    text = "SELECT Wstream(K.v, window_end) FROM S [TUMBLE 5], K WHERE S.a = K.k"
    assert ask(text, relations={"K": names}, S=E) == [(5, 70, 5), (5, 80, 5), (10, 70, 10), (15, 70, 15)]


def test_edges_are_compared_with_timestamps() -> None:
    rows = Stream([(1 * SECOND, 7), (6 * SECOND, 8)], types={"ts": TIMESTAMP})
    text = "SELECT Wstream(a) FROM S [TUMBLE 5 SECONDS] WHERE window_start >= TIMESTAMP '1970-01-01 00:00:05'"
    assert ask(text, S=rows) == [(10 * SECOND, 8)]
