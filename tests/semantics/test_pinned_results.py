"""The pinned semantics sentence by sentence: windowless streams, results, the relational part, relations, errors.

Every answer is worked out by hand from the sentence above it; ``ask`` holds engine and reference to it alike.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.core.errors import CqlError, DataError
from tests.semantics.both import DOUBLE, INT, STRING, Relation, Stream, ask, rows_of

KEYED = {"timestamp": "t", "key": ("k",), "columns": ("t", "k", "v")}
SIGNED = {"timestamp": "t", "sign": "g", "columns": ("t", "g", "k", "v")}


# -- A stream without a window -------------------------------------------------------------------------------------


def test_a_stream_without_a_window_is_append_only() -> None:
    elements = [(1, 1), (1, 1), (5, 1)]
    assert ask("SELECT a FROM S", S=elements) == [(1, 1), (1, 1), (5, 1)]
    assert ask("SELECT count(*) FROM S", S=elements) == ask("SELECT count(*) FROM S [ROWS UNBOUNDED]", S=elements)
    assert ask("SELECT Dstream(a) FROM S", S=elements) == []


def test_each_element_is_judged_at_its_own_instant_where_another_input_changes() -> None:
    # 1 comes at 1, when T is empty; at 2 T holds 1; at 4 it no longer does.
    text = "SELECT a FROM S WHERE a IN (SELECT a FROM T [RANGE 1])"
    assert ask(text, S=[(1, 1), (2, 1), (3, 2), (4, 1)], T=[(2, 1)]) == [(2, 1)]


def test_the_same_goes_for_an_updated_relation() -> None:
    prices = {"P": Relation([(1, 1, 5), (4, 1, 6)], **KEYED)}
    text = "SELECT S.a, P.v FROM S, P WHERE S.a = P.k"
    # The element at 2 keeps the price that it met.
    assert ask(text, prices, S=[(0, 1), (2, 1), (4, 1), (7, 1)]) == [(2, 1, 5), (4, 1, 6), (7, 1, 6)]
    assert ask(text.replace("S.a, P.v", "Istream(S.a, P.v)"), prices, S=[(2, 1), (3, 1)]) == [(2, 1, 5), (3, 1, 5)]


def test_and_for_a_windowed_stream_beside_it() -> None:
    text = "SELECT S.a, T.ts FROM S, T [RANGE 1] WHERE S.a = T.a"
    # The element of T at 5 finds no element of S at its own instant.
    assert ask(text, S=[(1, 1), (2, 1), (4, 1)], T=[(1, 1), (2, 1), (5, 1)]) == [(1, 1, 1), (2, 1, 1), (2, 1, 2)]


def test_a_constant_relation_lets_it_be() -> None:
    exposed = {"K": Relation([(1, 7), (1, 8)])}
    text = "SELECT S.a, K.v FROM S, K WHERE S.a = K.k"
    assert ask(text, exposed, S=[(1, 1), (2, 2), (3, 1)]) == [(1, 1, 7), (1, 1, 8), (3, 1, 7), (3, 1, 8)]


def test_a_windowless_join_is_refused_unless_the_window_is_written() -> None:
    with pytest.raises(CqlError, match="ROWS UNBOUNDED"):
        ask("SELECT S.a FROM S, T WHERE S.a = T.a", S=[(1, 1)], T=[(2, 1)])
    text = "SELECT S.a FROM S [ROWS UNBOUNDED], T [ROWS UNBOUNDED] WHERE S.a = T.a"
    assert ask(text, S=[(1, 1), (3, 1)], T=[(2, 1)]) == [(2, 1), (3, 1)]


# -- Results -------------------------------------------------------------------------------------------------------


def test_istream_and_dstream_net_by_value_at_each_instant() -> None:
    elements = [(1, 1), (4, 1), (4, 2), (9, 3)]  # at 4 a 1 leaves and a 1 enters
    assert ask("SELECT Istream(a) FROM S [RANGE 2]", S=elements) == [(1, 1), (4, 2), (9, 3)]
    assert ask("SELECT Dstream(a) FROM S [RANGE 2]", S=elements) == [(7, 1), (7, 2)]
    assert ask("SELECT Istream(a) FROM S [ROWS 1]", S=[(1, 1), (2, 1), (3, 2), (4, 1)]) == [(1, 1), (3, 2), (4, 1)]
    assert ask("SELECT Istream(a) FROM S [ROWS 1]", S=[(1, 1), (1, 2), (1, 1)]) == [(1, 1)]


def test_istream_nets_over_products_and_self_joins() -> None:
    # R(1) = {1}; R(3) holds (3,3) only, which shows as 1 again: nothing enters.
    assert ask("SELECT Istream(p.a) FROM S [RANGE 1] p, S [RANGE 1] q", S=[(1, 1), (3, 1)]) == [(1, 1)]
    # At 2 four pairs show 1; at 3, with the elements of 2 and 3, again four.
    assert ask("SELECT Istream(p.a) FROM S [RANGE 1] p, S [RANGE 1] q", S=[(1, 1), (2, 1), (3, 1)]) == [
        (1, 1),
        (2, 1),
        (2, 1),
        (2, 1),
    ]
    # What leaves on one side of a union cancels what enters on the other.
    text = "Istream(SELECT a FROM S [RANGE 1] UNION ALL SELECT a FROM T [RANGE 1])"
    assert ask(text, S=[(1, 1), (9, 2)], T=[(3, 1)]) == [(1, 1), (9, 2)]


def test_large_multiplicities() -> None:
    elements = [(1, 1)] * 30 + [(5, 1)]
    text = "SELECT Istream(p.a) FROM S [RANGE 2] p, S [RANGE 2] q"
    assert ask(text, S=elements) == [(1, 1)] * 900 + [(5, 1)]
    assert ask(text.replace("Istream", "Dstream"), S=elements) == [(4, 1)] * 900


def test_keeping_the_timestamps_changes_no_answer() -> None:
    # No row that leaves can equal one that enters, so deletions need not be computed; the answer is the same.
    elements = [(1, 1), (1, 1), (3, 1), (4, 1)]
    assert ask("SELECT Istream(p.ts, q.ts) FROM S [RANGE 2] p, S [RANGE 2] q", S=elements) == [
        *[(1, 1, 1)] * 4,
        *[(3, 1, 3)] * 2,
        *[(3, 3, 1)] * 2,
        (3, 3, 3),
        (4, 3, 4),
        (4, 4, 3),
        (4, 4, 4),
    ]
    # With one of the two only, rows can cancel: at 3 two pairs (1, ·) enter for the new partner, none leaves; at 4 both
    # 1s leave, and for p = 3 the pairs with them (3, 1), (3, 1) leave as (3, 4) enters: no (3) shows.
    assert ask("SELECT Istream(p.ts) FROM S [RANGE 2] p, S [RANGE 2] q", S=elements) == [
        *[(1, 1)] * 4,
        *[(3, 1)] * 2,
        *[(3, 3)] * 3,
        *[(4, 4)] * 2,
    ]
    # Two elements of one instant, of which the window keeps one.
    assert ask("SELECT Istream(ts, a) FROM S [ROWS 1]", S=[(1, 1), (1, 2), (2, 3)]) == [(1, 1, 2), (2, 2, 3)]
    assert ask("SELECT Istream(ts, a) FROM S [PARTITION BY a ROWS 1]", S=[(1, 1), (1, 1), (1, 2)]) == [
        (1, 1, 1),
        (1, 1, 2),
    ]


def test_rstream_emits_at_the_instants_of_on_time_elements_before_any_filter() -> None:
    # 6 is late and no instant of its own; 7 fails the filter and is one.
    text = "SELECT Rstream(a) FROM S [RANGE 3] WHERE a > 50"
    assert ask(text, S=[(5, 60), (7, 10), (6, 99), (8, 70), (20, 1)]) == [(5, 60), (7, 60), (8, 60), (8, 70)]
    # The elements of every stream of the query count.
    text = "Rstream(SELECT a FROM S [RANGE 3] UNION ALL SELECT a FROM T [NOW] WHERE a > 50)"
    assert ask(text, S=[(5, 60)], T=[(6, 1), (8, 1), (9, 1)]) == [(5, 60), (6, 60), (8, 60)]


def test_rstream_emits_at_slide_instants_between_start_and_end() -> None:
    # Start is 1, end is 7: slides at 2, 4, 6; elements at 1, 3, 7.
    text = "SELECT Rstream(a) FROM S [RANGE 4 SLIDE 2]"
    assert ask(text, S=[(1, 1), (3, 3), (7, 7)]) == [(2, 1), (3, 1), (4, 1), (4, 3), (6, 3), (7, 3)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM S",
        "SELECT DISTINCT a FROM S WHERE a > 0",
        "SELECT S.a FROM S [ROWS UNBOUNDED], K WHERE S.a = K.k",
        "SELECT a FROM S UNION SELECT a FROM T",
        "SELECT a FROM S INTERSECT SELECT a FROM T",
        "SELECT a FROM S [ROWS UNBOUNDED] WHERE a IN (SELECT a FROM T [ROWS UNBOUNDED])",
        "SELECT a FROM S [ROWS UNBOUNDED] WHERE EXISTS (SELECT * FROM T [ROWS UNBOUNDED])",
    ],
)
def test_what_only_grows_yields_istream(text: str) -> None:
    answer = ask(text, {"K": Relation([(1, 1)])}, S=[(1, 1)], T=[(2, 1)])
    assert all(len(row) == 2 for row in answer) and answer


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM S [RANGE 3]",
        "SELECT a FROM S [ROWS 1]",
        "SELECT count(*) FROM S",
        "SELECT a FROM S EXCEPT SELECT a FROM T",
        "SELECT a FROM S [ROWS UNBOUNDED] WHERE a NOT IN (SELECT a FROM T [ROWS UNBOUNDED])",
        "SELECT S.a FROM S [ROWS UNBOUNDED] LEFT JOIN T [ROWS UNBOUNDED] ON S.a = T.a",
        "SELECT S.a FROM S [ROWS UNBOUNDED], P WHERE S.a = P.k",
    ],
)
def test_all_else_yields_signed_changes(text: str) -> None:
    answer = ask(text, {"P": Relation([(1, 1, 1)], **KEYED)}, S=[(1, 1)], T=[(2, 1)])
    assert all(len(row) == 3 and row[1] in (1, -1) for row in answer) and answer


def test_signed_changes_are_netted_with_minus_before_plus() -> None:
    # At 4 two 1s leave; one 1 and a 2 come: Δ(1) = −1, Δ(2) = +1. (``rows_of`` asserts the order of the signs.)
    elements = [(1, 1), (1, 1), (4, 1), (4, 2)]
    assert ask("SELECT a FROM S [RANGE 2]", S=elements) == [(1, 1, 1), (1, 1, 1), (4, -1, 1), (4, 1, 2)]


def test_an_unchanged_aggregate_row_does_not_appear() -> None:
    elements = [(1, 1), (4, 1), (9, 2)]  # at 4 one leaves and one comes
    assert ask("SELECT a, count(*) FROM S [RANGE 2] GROUP BY a", S=elements) == [
        (1, 1, 1, 1),
        (7, -1, 1, 1),
        (9, 1, 2, 1),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT Istream(a) FROM S [RANGE 1]",
        "SELECT Istream(DISTINCT a) FROM S [RANGE 1]",
        "Istream(SELECT DISTINCT a FROM S [RANGE 1])",
    ],
)
def test_distinct_comes_before_istream(text: str) -> None:
    # 1 is there from 1 to 3 and from 5 on.
    assert ask(text, S=[(1, 1), (1, 1), (2, 1), (5, 1)]) == [(1, 1), (5, 1)]


def test_grouping_and_having_come_before_istream() -> None:
    text = "SELECT Istream(a, count(*) AS n) FROM S [RANGE 3]"
    # At 5 the 1 of instant 1 leaves, and (1, 1) enters the relation.
    assert ask(text, S=[(1, 1), (2, 2), (2, 1), (8, 1)]) == [(1, 1, 1), (2, 1, 2), (2, 2, 1), (5, 1, 1), (8, 1, 1)]
    text = "SELECT Istream(a, count(*) AS n) FROM S [RANGE 3] GROUP BY a HAVING n > 1"
    assert ask(text, S=[(1, 1), (2, 2), (2, 1), (8, 1)]) == [(2, 1, 2)]


def test_several_levels_of_streams() -> None:
    text = "SELECT Istream(a) FROM (SELECT Istream(a) FROM (SELECT Dstream(a) FROM S [NOW]) [NOW]) [ROWS 1]"
    # What comes at 1 leaves at 2; at 3 it leaves again, but [ROWS 1] already holds a 1.
    assert ask(text, S=[(1, 1), (2, 1), (3, 2), (5, 0)]) == [(3, 1), (4, 2)]


# -- Relational part -----------------------------------------------------------------------------------------------

BAGS: dict[str, Any] = {"S": [(1, 1), (1, 1), (1, 1), (1, 2)], "T": [(1, 1), (1, 3), (1, 3)]}


@pytest.mark.parametrize(
    ("operator", "answer"),
    [
        ("UNION", [1, 2, 3]),
        ("UNION ALL", [1, 1, 1, 1, 2, 3, 3]),
        ("EXCEPT", [2]),
        ("EXCEPT ALL", [1, 1, 2]),
        ("INTERSECT", [1]),
        ("INTERSECT ALL", [1]),
    ],
)
def test_set_and_bag_operators(operator: str, answer: list[int]) -> None:
    text = f"Istream(SELECT a FROM S [NOW] {operator} SELECT a FROM T [NOW])"
    assert ask(text, **BAGS) == [(1, a) for a in answer]


def test_intersect_binds_more_tightly_than_union() -> None:
    text = "Istream(SELECT a FROM S [NOW] UNION SELECT a FROM T [NOW] INTERSECT SELECT b FROM S [NOW])"
    assert ask(text, S=[(1, 1, 3)], T=[(1, 2), (1, 3)]) == [(1, 1), (1, 3)]


def test_union_of_different_numbers_takes_the_common_type() -> None:
    doubles = Stream([(1, 0, 1.0), (1, 0, 2.5)], types={"b": DOUBLE})
    assert ask("Istream(SELECT a FROM S [NOW] UNION SELECT b FROM T [NOW])", S=[(1, 1)], T=doubles) == [
        (1, 1.0),
        (1, 2.5),
    ]


def test_not_in_is_true_over_an_empty_query_and_unknown_with_null() -> None:
    text = "SELECT a FROM S WHERE a NOT IN (SELECT a FROM T [RANGE 1])"
    elements = [(1, 1), (2, None), (3, 2), (4, 5), (6, None), (9, 9)]
    # 1: T is empty. 2: NULL against {2} is unknown. 3: {2, NULL} has 2. 4: {NULL} is unknown. 6: empty, even for NULL.
    assert ask(text, S=elements, T=[(2, 2), (3, None), (9, 8)]) == [(1, 1), (6, None), (9, 9)]


def test_in_and_exists_are_semijoins_of_bags() -> None:
    text = "Istream(SELECT a FROM S [NOW] WHERE a IN (SELECT a FROM T [NOW]))"
    assert ask(text, **BAGS) == [(1, 1)] * 3  # not times the partners
    text = "Istream(SELECT a FROM S [NOW] WHERE NOT EXISTS (SELECT * FROM T [NOW] WHERE T.a = S.a))"
    assert ask(text, **BAGS) == [(1, 2)]


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("JOIN", [(2, 2)]),
        ("LEFT JOIN", [(None, None), (1, None), (2, 2)]),
        ("RIGHT JOIN", [(None, None), (None, 3), (2, 2)]),
        ("FULL JOIN", [(None, None), (None, None), (None, 3), (1, None), (2, 2)]),
    ],
)
def test_joins(kind: str, answer: list[tuple[Any, Any]]) -> None:
    streams: dict[str, Any] = {"S": [(1, 1), (1, 2), (1, None)], "T": [(1, 2), (1, 3), (1, None)]}
    found = ask(f"SELECT Istream(S.a AS x, T.a AS y) FROM S [NOW] {kind} T [NOW] ON S.a = T.a", **streams)
    assert found == [(1, *row) for row in answer]


def test_an_outer_join_takes_its_padding_back() -> None:
    text = "SELECT S.a, T.b FROM S [RANGE 9] LEFT JOIN T [NOW] ON S.a = T.a"
    assert ask(text, S=[(1, 1), (4, 2)], T=[(2, 1, 7)]) == [
        (1, 1, 1, None),
        (2, -1, 1, None),
        (2, 1, 1, 7),
        (3, -1, 1, 7),
        (3, 1, 1, None),
        (4, 1, 2, None),
    ]


@pytest.mark.parametrize("clause", ["ORDER BY a", "LIMIT 3"])
def test_order_by_and_limit_need_each_other(clause: str) -> None:
    with pytest.raises(CqlError, match=r"ORDER BY needs LIMIT|LIMIT needs ORDER BY"):
        ask(f"SELECT a FROM S {clause}", S=[(1, 1)])


def test_grouped_rows_exist_for_non_empty_groups_only() -> None:
    text = "SELECT a, count(b), sum(b) FROM S [NOW] GROUP BY a"
    assert ask(text, S=[(1, None, None), (3, 1, 2)]) == [(1, 1, None, 0, None), (2, -1, None, 0, None), (3, 1, 1, 1, 2)]


def test_an_ungrouped_row_exists_from_the_start_of_time() -> None:
    text = "SELECT count(*), count(a), sum(a), min(a), avg(a) FROM S [NOW] WHERE a > 1"
    empty = (0, 0, None, None, None)
    assert ask(text, S=[(1, 1), (3, 2), (4, 1)]) == [
        (1, 1, *empty),
        (3, -1, *empty),
        (3, 1, 1, 1, 2, 2, 2.0),
        (4, -1, 1, 1, 2, 2, 2.0),
        (4, 1, *empty),
    ]


def test_having_filters_the_ungrouped_row() -> None:
    assert ask("SELECT count(*) FROM S [NOW] HAVING count(*) > 0", S=[(1, 1), (3, 2)]) == [
        (1, 1, 1),
        (2, -1, 1),
        (3, 1, 1),
    ]
    assert ask("SELECT count(*) FROM S [NOW] HAVING count(*) = 0", S=[(1, 1), (3, 2)]) == [(2, 1, 0), (3, -1, 0)]


def test_sums_of_doubles_depend_on_the_bag_alone() -> None:
    # 1e16 comes and goes; what stays is exactly 2.0, as if it had never been there.
    elements = Stream([(1, 0, 1e16), (2, 0, 1.0), (3, 0, 1.0)], types={"b": DOUBLE})
    answer = ask("SELECT sum(b), avg(b) FROM S [ROWS 2]", S=elements)
    assert answer == [
        (1, 1, 1e16, 1e16),
        (2, -1, 1e16, 1e16),
        (2, 1, 1e16, 5e15),
        (3, -1, 1e16, 5e15),
        (3, 1, 2.0, 1.0),
    ]


def test_the_sum_of_integers_is_wide_inside_and_checked_outside() -> None:
    most = 2**63 - 1
    # Beyond 64 bits on the way within one instant, back inside at its end.
    assert ask("SELECT sum(a) FROM S [NOW]", S=[(1, most), (1, most), (1, -most)]) == [(1, 1, most)]
    with pytest.raises(DataError):
        ask("SELECT sum(a) FROM S [NOW]", S=[(1, most), (1, 1)])


def test_plain_columns_beside_aggregates_imply_grouping() -> None:
    elements = [(1, 1, 5), (1, 2, 6), (1, 1, 7)]
    assert ask("SELECT Istream(a, sum(b)) FROM S [NOW]", S=elements) == [(1, 1, 12), (1, 2, 6)]


def test_an_ambiguous_name_that_a_join_equates_takes_the_first() -> None:
    text = "SELECT Istream(a, T.b) FROM S [NOW], T [NOW] WHERE S.a = T.a"
    assert ask(text, S=[(1, 1, 5)], T=[(1, 1, 6)]) == [(1, 1, 6)]
    with pytest.raises(CqlError, match="ambiguous"):
        ask("SELECT Istream(a) FROM S [NOW], T [NOW]", S=[(1, 1)], T=[(1, 1)])


def test_string_and_multiple_keys() -> None:
    types = {"b": STRING}
    text = "SELECT Istream(S.ts) FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a AND S.b = T.b"
    s = Stream([(1, 1, "x"), (2, 1, None), (3, 2, "x")], types=types)
    t = Stream([(4, 1, "x"), (4, 1, None), (4, 2, "y")], types=types)
    assert ask(text, S=s, T=t) == [(4, 1)]


# -- Relations -----------------------------------------------------------------------------------------------------


def test_with_key_an_element_replaces() -> None:
    rows = [(1, 1, 5), (2, 2, 6), (4, 1, 7), (4, 1, 8), (5, 2, 6)]
    answer = [(1, 1, 1, 5), (2, 1, 2, 6), (4, -1, 1, 5), (4, 1, 1, 8)]
    assert ask("SELECT k, v FROM P", {"P": Relation(rows, **KEYED)}) == answer


def test_with_key_the_last_row_of_a_constant_relation_stands() -> None:
    constant = {"K": Relation([(1, 5), (2, 6), (1, 7)], key=("k",))}
    assert ask("SELECT K.k, K.v FROM S, K WHERE S.a = K.k", constant, S=[(1, 1), (2, 2)]) == [(1, 1, 7), (2, 2, 6)]


def test_with_sign_it_inserts_or_deletes() -> None:
    rows = [(1, 1, 1, 5), (2, 1, 1, 5), (4, -1, 1, 5), (5, 1, 2, 6), (6, -1, 1, 5), (7, -1, 1, 5)]
    # At 7 nothing is there to delete.
    assert ask("SELECT k, v FROM Q", {"Q": Relation(rows, **SIGNED)}) == [
        (1, 1, 1, 5),
        (2, 1, 1, 5),
        (4, -1, 1, 5),
        (5, 1, 2, 6),
        (6, -1, 1, 5),
    ]


def test_a_relation_that_carries_time_only_inserts() -> None:
    rows = [(1, 1, 5), (3, 1, 5)]
    relation = Relation(rows, timestamp="t", columns=("t", "k", "v"))
    assert ask("SELECT count(*) FROM R", {"R": relation}) == [(1, 1, 1), (3, -1, 1), (3, 1, 2)]


def test_a_late_element_of_a_relation_is_not_processed() -> None:
    rows = [(1, 1, 5), (9, 2, 6), (4, 1, 7)]
    assert ask("SELECT k, v FROM P", {"P": Relation(rows, **KEYED)}) == [(1, 1, 1, 5), (9, 1, 2, 6)]


def test_updates_of_a_relation_reach_the_rows_of_a_window() -> None:
    prices = {"P": Relation([(0, 1, 5), (3, 1, 6)], **KEYED)}
    text = "SELECT S.ts, P.v FROM S [RANGE 4], P WHERE S.a = P.k"
    assert ask(text, prices, S=[(2, 1), (9, 2)]) == [(2, 1, 2, 5), (3, -1, 2, 5), (3, 1, 2, 6), (7, -1, 2, 6)]
    # An update to the same value shows nowhere.
    same = {"P": Relation([(0, 1, 5), (3, 1, 5)], **KEYED)}
    assert ask(text, same, S=[(2, 1), (9, 2)]) == [(2, 1, 2, 5), (7, -1, 2, 5)]


def test_a_query_over_constant_relations_has_one_instant() -> None:
    assert ask("SELECT k FROM K WHERE v > 1", {"K": Relation([(1, 1), (2, 2)])}) == [(0, 2)]


# -- Errors in predicates ------------------------------------------------------------------------------------------


def predicate_session(calls: list[int]) -> eddyline.Session:
    def brittle(a: int) -> bool:
        calls.append(a)
        if a == 2:
            raise ValueError("two")
        return a < 5

    s = eddyline.Session()
    s.stream("S", schema=pa.schema([("ts", INT), ("a", INT)]), timestamp="ts")
    s.function("brittle", brittle, "boolean", ["bigint"])
    return s


@pytest.mark.parametrize("guard", ["a <> 2", "NULLIF(a, 2) > 0"])  # FALSE, and NULL
@pytest.mark.parametrize("order", ["brittle(a) AND {}", "{} AND brittle(a)"])
def test_an_error_is_forgotten_where_another_conjunct_drops_the_tuple(guard: str, order: str) -> None:
    calls: list[int] = []
    s = predicate_session(calls)
    query = s.query(f"SELECT a FROM S WHERE {order.format(guard)}")
    s.push("S", [{"ts": 1, "a": a} for a in (1, 2, 3, 9)])
    s.finish()
    assert rows_of(query.to_arrow()) == [(1, 1), (1, 3)]
    assert max(calls.count(a) for a in calls) == 1  # at most one call for each tuple


def test_otherwise_it_stops_the_query_or_diverts_the_row() -> None:
    s = predicate_session([])
    s.query("SELECT a FROM S WHERE brittle(a)")
    with pytest.raises(DataError, match="two"):
        s.push("S", [{"ts": 1, "a": 2}, {"ts": 3, "a": 3}])
    s = predicate_session([])
    query = s.query("SELECT a FROM S WHERE brittle(a)", on_error="invalid")
    s.push("S", [{"ts": 1, "a": 1}, {"ts": 1, "a": 2}, {"ts": 3, "a": 3}])
    s.finish()
    assert rows_of(query.to_arrow()) == [(1, 1), (3, 3)]
    assert query.report()["invalid"] == 1
